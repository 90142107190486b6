"""The harness around Deep Agents' tests judges what passes on theirs, and fails for whatever its lists do not say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
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
def test_that_fails():
    assert not IS_OURS

def test_that_is_skipped():
    if IS_OURS:
        pytest.skip("for no good reason")
"""
OWN_FILE = FILES[0]


def listed(tests: Sequence[str]) -> Mapping[str, str]:
    """Write tests that fail on ours as they are expected to, by file."""
    code = dict.fromkeys(FILES, HEAD)
    for test in tests:
        file, *classes, name = test.split("::")
        indent = "    " * len(classes)
        code[file] += "".join(f"\nclass {each}:" for each in classes)
        argument = "self" if classes else ""
        code[file] += f"\n{indent}def {name}({argument}):\n{indent}    fail({test!r})\n"
    return code


def checkout(folder: Path, own: str, without: int = 0) -> Path:
    """Write a checkout with the tests that are expected to fail, but for the first few, and some of its own."""
    tests = [expected.test for expected in SUITES["memory"].expected][without:]
    for file, code in listed(tests).items():
        path = folder / LIBRARY / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code + own if file == OWN_FILE else code)
        for package in path.relative_to(folder / LIBRARY).parents[:-1]:
            (folder / LIBRARY / package / "__init__.py").touch()
    return folder


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a checkout that passes, and the file that says what passes on theirs."""
    folder = tmp_path_factory.mktemp("good")
    baseline = folder / "passing.json"
    checkout(folder, OWN)
    assert run(folder, THEIRS, [], baseline) == pytest.ExitCode.TESTS_FAILED
    return folder, baseline


def changed(good: tuple[Path, Path], folder: Path, own: str, without: int = 0) -> tuple[Path, Path]:
    """Return another checkout, whose tests all pass on theirs too."""
    baseline = folder / "passing.json"
    names = [f"{OWN_FILE}::{line[4:].partition('(')[0]}" for line in own.splitlines() if line[:4] == "def "]
    baseline.write_text(json.dumps([*json.loads(good[1].read_text()), *names]))
    return checkout(folder, own, without), baseline


def test_what_passes_on_theirs_is_noted(good: tuple[Path, Path]) -> None:
    passing = set(json.loads(good[1].read_text()))
    assert {f"{file}::test_of_something_else" for file in FILES} <= passing
    assert f"{OWN_FILE}::test_state" not in passing, "theirs has other insides"
    assert not {f"{OWN_FILE}::test_that_fails_on_theirs", f"{OWN_FILE}::test_that_is_skipped_on_theirs"} & passing


@pytest.mark.parametrize("name", ["memory", "postgres"])
def test_a_run_passes_when_just_the_listed_tests_fail(
    good: tuple[Path, Path], capfd: pytest.CaptureFixture[str], name: str
) -> None:
    assert run(good[0], name, [], good[1]) == 0
    summary = capfd.readouterr().out
    assert f"{name}: {OWN_FILE}: " in summary
    assert f"1 {PASSED_WITHOUT}" in summary


def test_a_run_fails_for_a_failure_not_listed_a_skipped_test_and_a_listed_one_that_passes(
    good: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lists = checkout(tmp_path, BAD)
    test = SUITES["memory"].expected[0].test
    file = lists / LIBRARY / test.partition("::")[0]
    file.write_text(file.read_text().replace(f"fail({test!r})", "pass"))
    changed_lists = changed(good, tmp_path, BAD)
    file.write_text(file.read_text().replace(f"fail({test!r})", "pass"))
    assert run(changed_lists[0], "memory", ["-rf"], changed_lists[1]) == pytest.ExitCode.TESTS_FAILED
    summary = capfd.readouterr().out
    assert f"FAILED {OWN_FILE}::test_that_fails" in summary
    assert f"FAILED {test}" in summary
    assert "2 failed, " in summary
    assert " 1 skipped" in summary
