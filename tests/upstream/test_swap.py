"""The harness around LangGraph's tests fails for whatever its list of expected failures does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upstream.holding import PASSED_WITHOUT
from tests.upstream.swap import SUITES, main, run

LISTED = """
async def test_embed_with_path():
    assert not InMemoryStore().supports_ttl
"""
GOOD = """
def test_on_ours():
    InMemoryStore().put(("a",), "k", {}, if_absent=True)

def test_of_something_else():
    pass
"""
SKIPPED = """
def test_skipped():
    pytest.skip("for no good reason")
"""
BAD = """
def test_that_fails():
    assert InMemoryStore().search(("a",))

@pytest.mark.parametrize("how", ["as listed", "otherwise", "not at all"])
def test_embed_with_path(how):
    if how == "otherwise":
        raise OSError
    assert how == "not at all"
"""

ADDRESS = """
import pytest
DEFAULT_URI = "postgresql://localhost:1/nowhere"

@pytest.fixture
def address():
    return DEFAULT_URI
"""
HEAD = """
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore
from upstream.swap import POSTGRES_EXPECTED
from tests.conftest import DEFAULT_URI

RAISES = {expected.test: expected.raises for expected in POSTGRES_EXPECTED}
"""
ON_POSTGRES = """
EXPIRE = "update store set expires_at = now() - interval '1 minute' where prefix = %s and key = %s"

def test_on_ours(address):
    assert address == DEFAULT_URI
    with PostgresStore.from_conn_string(DEFAULT_URI, pipeline=True, ttl={"default_ttl": 60}) as store:
        for key in "kl":
            store.put(("a", "b"), key, {})
        with store._cursor() as cursor:
            cursor.execute(EXPIRE, ("a.b", "k"))
        assert store.get(("a", "b"), "k") is None
        assert store.get(("a", "b"), "l") is not None
"""
ON_POSTGRES_ASYNC = """
async def test_on_ours(address):
    assert address == DEFAULT_URI
    async with AsyncPostgresStore.from_conn_string(DEFAULT_URI) as store:
        await store.setup()
        await store.aput(("c",), "k", {}, ttl=60)
        async with store._cursor() as cursor:
            await cursor.execute("select * from store where expires_at > now() and prefix = 'c'")
            assert (await cursor.fetchone())["key"] == "k"
"""


def checkout_of_postgres(folder: Path) -> Path:
    """Write a checkout of tests that want a server."""
    suite = SUITES["postgres"]
    tests = folder / suite.library / "tests"
    tests.mkdir(parents=True)
    (tests / "__init__.py").touch()
    (tests / "conftest.py").write_text(ADDRESS)
    for file, own in zip(suite.files, (ON_POSTGRES, ON_POSTGRES_ASYNC), strict=True):
        listed = [each.test for each in suite.expected if each.test.startswith(file)]
        fail = [f"def {test.rpartition('::')[2]}():\n    raise RAISES[{test!r}]\n" for test in listed]
        (folder / suite.library / file).write_text(HEAD + own + "".join(fail))
    return folder


def checkout(folder: Path, tests: str) -> Path:
    """Write a checkout whose one test file holds ``tests``."""
    path = folder / SUITES["memory"].library / "tests" / "test_store.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"import pytest\nfrom langgraph.store.memory import InMemoryStore\n{tests}")
    return folder


def test_a_run_passes_when_just_the_listed_tests_fail(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(checkout(tmp_path, LISTED + GOOD), "memory", []) == 0
    assert f"1 failed as expected, 1 passed, 1 {PASSED_WITHOUT}" in capfd.readouterr().out


def test_a_run_fails_for_a_failure_not_listed_and_for_a_listed_one_that_is_none(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(checkout(tmp_path, GOOD + BAD), "memory", ["-rf"]) == pytest.ExitCode.TESTS_FAILED
    summary = capfd.readouterr().out
    assert "FAILED tests/test_store.py::test_that_fails" in summary
    assert "FAILED tests/test_store.py::test_embed_with_path[otherwise]" in summary
    assert "FAILED tests/test_store.py::test_embed_with_path[not at all]" in summary
    assert "3 failed, 1 passed, " in summary


def test_a_run_fails_for_a_test_that_is_skipped(tmp_path: Path) -> None:
    assert run(checkout(tmp_path, LISTED + SKIPPED), "memory", []) == pytest.ExitCode.TESTS_FAILED


def test_a_run_fails_for_a_listed_test_that_is_not_there(tmp_path: Path) -> None:
    assert run(checkout(tmp_path, GOOD), "memory", []) == pytest.ExitCode.USAGE_ERROR


def test_a_run_on_postgres_has_a_server_at_the_address_of_the_tests(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(checkout_of_postgres(tmp_path), "postgres", []) == 0
    assert capfd.readouterr().out.count("failed as expected, 1 passed\n") == 2


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"libs/checkpoint/tests/test_store\.py is not there"):
        main([str(tmp_path)])


def test_the_page_about_the_suites_names_every_expected_failure_and_its_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "upstream-suites.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for expected in {each for suite in SUITES.values() for each in suite.expected}:
        name = expected.test.rpartition("::")[2]
        assert [row for row in rows if row.startswith(f"| `{name}`") and expected.kind in row], name
