"""The harness around Deep Agents' tests judges by what passes on theirs, and holds ours to its lists."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest

from tests.upstream.deep_agents import FILES, LIBRARY, SUITES, THEIRS, main, run
from tests.upstream.holding import PASSED_WITHOUT

HEAD = """
import pytest
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from stateroom import Store
from stateroom.files import Backend
from upstream.deep_agents import SUITES

IS_OURS = issubclass(StoreBackend, Backend)
RAISES = {each.test: each.raises for suite in SUITES.values() for each in suite.expected}

def fail(test):
    if IS_OURS:
        StateBackend()
        raise RAISES[test]

def test_of_something_else():
    pass
"""
PASSING = "passing.json"
OWN = """
def test_store():
    store = InMemoryStore()
    assert isinstance(store, Store) or not IS_OURS
    backend = CompositeBackend(StateBackend(), {"/m/": StoreBackend(store=store, namespace=lambda _: ("n",))})
    assert backend.write("/m/a", "text").path == "/m/a"
    assert [item.key for item in store.search(("n",))] == ["/a"]
    assert store.get(("n",), "/a").value["content"] == "text"

def test_state(monkeypatch):
    backend, sent = StateBackend(), []
    monkeypatch.setattr(backend, "_read_files", lambda: {"/a": {"content": "text", "encoding": "utf-8"}})
    monkeypatch.setattr(backend, "_send_files_update", sent.append)
    assert backend.edit("/a", "text", "other").occurrences == 1
    assert sent[0]["/a"]["content"] == "other"

def test_default():
    from deepagents.middleware import FilesystemMiddleware
    assert isinstance(FilesystemMiddleware().backend, StateBackend)

def test_that_fails_on_theirs():
    assert IS_OURS

@pytest.mark.skipif(not IS_OURS, reason="theirs")
def test_that_is_skipped_on_theirs():
    pass
"""
BAD = """
def test_store():
    assert not IS_OURS

def test_state():
    pytest.skip("for no good reason")
"""
LISTED = [expected.test for expected in SUITES["memory"].expected]


def listed(tests: Iterable[str], passing: str) -> dict[str, str]:
    """Write tests that fail on ours as they are expected to, except for one, by file."""
    code = dict.fromkeys(FILES, HEAD)
    for place, together in groupby(sorted(tests), key=lambda test: test.rpartition("::")[0]):
        file, *classes = place.split("::")
        code[file] += "".join(f"\nclass {each}:\n" for each in classes)
        for test in together:
            body = "pass" if test == passing else f"fail({test!r})"
            line = f"def {test.rpartition('::')[2]}({'self' if classes else ''}): {body}\n"
            code[file] += textwrap.indent(line, "    " * len(classes))
    return code


def checkout(folder: Path, own: str, tests: Iterable[str] = LISTED, passing: str = "") -> Path:
    """Write a checkout that has listed tests and, in its first file, some of its own."""
    for file, code in listed(tests, passing).items():
        path = folder / LIBRARY / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code + own if file == FILES[0] else code)
        for package in Path(file).parents[:-1]:
            (folder / LIBRARY / package / "__init__.py").touch()
    return folder


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout that passes on ours; on theirs, one test fails and one is skipped."""
    folder = checkout(tmp_path_factory.mktemp("good"), OWN)
    assert run(folder, THEIRS, [], folder / PASSING) == pytest.ExitCode.TESTS_FAILED
    return folder


def test_what_passes_on_theirs_is_noted(good: Path) -> None:
    passing = set(json.loads((good / PASSING).read_text()))
    own = {f"{FILES[0]}::{name}" for name in ("test_store", "test_state", "test_default")}
    assert passing == {*LISTED, *own, *(f"{file}::test_of_something_else" for file in FILES)}


@pytest.mark.parametrize("name", ["memory", "postgres"])
def test_a_run_passes_when_just_the_listed_tests_fail(
    good: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    assert run(good, name, [], good / PASSING) == 0
    summary = capfd.readouterr().out
    assert f"{name}: {FILES[0]}: 6 failed as expected, 3 passed, 1 {PASSED_WITHOUT}" in summary
    assert "2 deselected" in summary


def test_a_run_fails_for_a_failure_not_listed_a_skipped_test_and_a_listed_one_that_passes(
    good: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = checkout(tmp_path, BAD, passing=LISTED[0])
    assert run(folder, "memory", ["-rf"], good / PASSING) == pytest.ExitCode.TESTS_FAILED
    summary = capfd.readouterr().out
    assert f"FAILED {FILES[0]}::test_store" in summary
    assert f"FAILED {LISTED[0]}" in summary
    assert "2 failed, " in summary
    assert ", 1 skipped" in summary


def test_a_run_fails_for_a_listed_test_that_is_not_there(good: Path, tmp_path: Path) -> None:
    folder = checkout(tmp_path, OWN, LISTED[1:])
    assert run(folder, "memory", [], good / PASSING) == pytest.ExitCode.USAGE_ERROR


def test_a_file_that_does_not_run_on_theirs_stops_everything(tmp_path: Path) -> None:
    checkout(tmp_path, OWN, [])
    (tmp_path / LIBRARY / FILES[-1]).write_text("def test_that_fails():\n    assert False\n")
    assert run(tmp_path, THEIRS, [], tmp_path / PASSING) == pytest.ExitCode.USAGE_ERROR


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"test_store_backend\.py is not there"):
        main([str(tmp_path)])


def test_the_page_about_the_suites_names_every_expected_failure_and_its_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "upstream-suites.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    for expected in {each for suite in SUITES.values() for each in suite.expected}:
        name = expected.test.rpartition("::")[2]
        assert [row for row in rows if f"`{name}`" in row[1] and expected.kind in row[3]], name
