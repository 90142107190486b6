"""The suite itself: stores that lack capabilities pass it by refusing, and broken ones fail it."""

from __future__ import annotations

import inspect
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from stateroom.clock import Clock, ManualClock, system_clock
from stateroom.contract.items import Capability, Operation, Outcome, Put, Result, Search
from stateroom.drivers.memory import MemoryItems
from stateroom.drivers.memory.tree import Entry
from stateroom.errors import NotSupported, StateroomError
from stateroom.model.filter import compile_filter
from stateroom.model.item import Hit, Record
from stateroom.model.json_values import decode_value
from stateroom.model.ttl import parse_ttl_config
from stateroom.search.analysis import Analyzer
from stateroom.search.embedding import make_embedder
from stateroom.search.index_config import parse_index_config
from stateroom.stores.base import Store
from stateroom.testing import Opened, Opens, StoreSuite, parts
from stateroom.testing.files import FilesSuite
from stateroom.testing.harness import Sync


class PlainItems(MemoryItems):
    """Items that can do nothing which may be lacking."""

    capabilities: frozenset[Capability] = frozenset()

    @override
    def apply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        return [self._one_by_one(batch) for batch in batches]

    def _one_by_one(self, batch: Sequence[Operation]) -> Outcome:
        results: list[Result] = []
        for operation in batch:
            (outcome,) = super().apply_each([[operation]])
            if isinstance(outcome, StateroomError):
                return outcome
            results += outcome
        return results


class SearchingItems(PlainItems):
    """Items that can search and write on a condition, but neither expire nor batch."""

    capabilities: frozenset[Capability] = frozenset(
        {Capability.CONDITIONAL, Capability.TEXT, Capability.VECTOR}
    )


def open_with(
    kind: type[MemoryItems],
    *,
    index: Mapping[str, Any] | None = None,
    ttl: Mapping[str, Any] | None = None,
    index_keys: Sequence[str] = (),
    clock: Clock = system_clock,
) -> Store:
    """Open a store around items of some kind, as the maker of a poor store would."""
    settings = parse_index_config(index)
    expiring = parse_ttl_config(ttl)
    if ttl is not None and Capability.TTL not in kind.capabilities:
        raise NotSupported("ttl: this store lets nothing expire", field="ttl")
    if settings.embed is not None and Capability.VECTOR not in kind.capabilities:
        raise NotSupported("index.embed: this store keeps no vectors", field="index.embed")
    if Capability.TEXT not in kind.capabilities:
        Analyzer(settings.language)
        settings = replace(settings, text=False)
    return Store(
        kind(settings, index_keys=tuple(index_keys), clock=clock),
        index=settings,
        ttl=expiring,
        index_config=index,
        ttl_config=ttl,
        embedder=make_embedder(settings),
    )


class TestPlainItems(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return partial(open_with, PlainItems)


class TestSearchingItems(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return partial(open_with, SearchingItems)


class Recreating(MemoryItems):
    """Items that forget when they were created."""

    @override
    def _put(self, operation: Put, now: int) -> Record:
        record = super()._put(operation, now)
        return record._replace(created_at=record.updated_at)


class Unconditional(MemoryItems):
    """Items that write whatever the condition."""

    @override
    def _put(self, operation: Put, now: int) -> Record:
        return super()._put(operation._replace(if_revision=None, if_absent=False), now)

    @override
    def _rehearse(self, batch: Sequence[Operation]) -> None:
        pass


class Leaky(PlainItems):
    """Items that keep the first half of a batch that failed."""

    capabilities: frozenset[Capability] = MemoryItems.capabilities


class Immortal(MemoryItems):
    """Items that say when they expire, and stay."""

    @override
    def _watch(self, entry: Entry) -> None:
        pass


class Padding(MemoryItems):
    """Items that fill a page of hits with what does not match."""

    @override
    def _search(self, operation: Search, now: int) -> list[Hit]:
        hits = super()._search(operation, now)
        if operation.query is None:
            return hits
        others = super()._search(operation._replace(query=None), now)
        known = {hit.record.revision for hit in hits}
        return hits + [hit for hit in others if hit.record.revision not in known]


class Worldwide(MemoryItems):
    """Items whose searches look beyond their prefix."""

    @override
    def _search(self, operation: Search, now: int) -> list[Hit]:
        return super()._search(operation._replace(prefix=operation.prefix[:1]), now)


class Unfiltered(MemoryItems):
    """Items that filter after they have cut the page."""

    @override
    def _search(self, operation: Search, now: int) -> list[Hit]:
        hits = super()._search(operation._replace(filter=None), now)
        matches = compile_filter(operation.filter) if operation.filter else None
        return [hit for hit in hits if matches is None or matches(decode_value(hit.record.raw))]


CAUGHT: list[tuple[type[MemoryItems], str]] = [
    (Recreating, "test_a_put_keeps_the_creation_and_is_strictly_later_though_the_clock_stands"),
    (Unconditional, "test_if_revision_replaces_exactly_that_revision"),
    (Unconditional, "test_edits_under_a_condition_lose_no_update"),
    (Leaky, "test_an_error_half_way_undoes_what_came_before_it"),
    (Immortal, "test_an_expired_item_is_absent_for_every_operation"),
    (Padding, "test_an_item_matches_when_it_holds_one_term_and_nothing_fills_the_page"),
    (Worldwide, "test_a_prefix_is_matched_by_whole_labels"),
    (Unfiltered, "test_filtering_comes_before_paging"),
]


@pytest.mark.parametrize(("kind", "name"), CAUGHT, ids=[f"{kind.__name__}-{name}" for kind, name in CAUGHT])
def test_a_store_that_breaks_a_rule_fails_the_test_of_that_rule(kind: type[MemoryItems], name: str) -> None:
    run_one(MemoryItems, name)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_one(kind, name)


def run_one(kind: type[MemoryItems], name: str) -> None:
    """Run one test of the suite on a store around items of some kind, as pytest would."""
    clock = ManualClock()
    with ExitStack() as closing:
        opens = Opens(partial(open_with, kind, clock=clock), Sync, closing)
        fixtures: dict[str, Any] = {"opens": opens, "clock": clock, "memory": opens()}
        test = getattr(StoreSuite(), name)
        test(**{needed: fixtures[needed] for needed in inspect.signature(test).parameters})


def test_no_part_hides_a_test_of_another() -> None:
    names = Counter(name for part in StoreSuite.__mro__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []
    assert len(names) > 150


def test_every_test_runs_through_both_ways_of_calling() -> None:
    tests = inspect.getmembers(StoreSuite, lambda member: getattr(member, "__name__", "").startswith("test_"))
    assert [
        name for name, test in tests if not {"memory", "opens"} & {*inspect.signature(test).parameters}
    ] == []


def test_every_part_that_there_is_belongs_to_a_suite() -> None:
    modules = sorted(module.name for module in pkgutil.iter_modules(parts.__path__))
    used = [part.__module__ for suite in (StoreSuite, FilesSuite) for part in suite.__bases__]
    # Those of storages and savers stand on each other; tests/storage/test_suite.py looks at all their tests.
    others = ("savers_", "storage_")
    assert sorted(name.rpartition(".")[2] for name in used) == [
        name for name in modules if not name.startswith(others)
    ]


def test_the_example_in_the_documentation_is_a_suite_in_ten_lines() -> None:
    page = Path(__file__).parents[2] / "docs" / "conformance.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)[:1]
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102  # it is our own page
    (suite,) = [thing for name, thing in names.items() if name.startswith("Test")]
    assert issubclass(suite, StoreSuite)
    assert "open_store" in vars(suite)


def test_a_class_of_another_project_is_told_what_it_lacks_and_what_differed(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(
        "import pytest\n"
        "from stateroom import InMemoryStore\n"
        "from stateroom.testing import StoreSuite\n"
        "class Forgetting(InMemoryStore):\n"
        "    def count(self, *args, **options):\n"
        "        return super().count(*args, **options) + 1\n"
        "class TestWithoutFixture(StoreSuite):\n"
        "    pass\n"
        "class TestForgetting(StoreSuite):\n"
        "    @pytest.fixture\n"
        "    def open_store(self):\n"
        "        return Forgetting\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_theirs.py"]
    chosen = ["-k", "test_an_item_that_is_not_indexed_is_there and sync and not async"]
    done = subprocess.run([*command, *chosen], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "TestWithoutFixture needs a fixture open_store" in done.stdout
    # pytest shows both sides, since it rewrites the suite's assertions as those of a test file.
    assert "assert 2 == 1" in done.stdout
    assert re.search(r"\b1 failed, .*\b1 error\b", done.stdout)
