"""Run LangGraph's own tests of its stores with Stateroom's stores in their place.

    python -m tests.upstream.swap path/to/langgraph [arguments for pytest]

The path is a checkout of LangGraph's repository. Nothing of it is changed: its test files are copied to a
temporary folder and collected from there by pytest, with this module as a plug-in that puts our classes
under the names that the tests use, and a Postgres server under the address of theirs. The tests that are
known to fail, each with its reason, are listed in ``MEMORY_EXPECTED``, ``SQLITE_EXPECTED`` and
``POSTGRES_EXPECTED``; a run fails if one of them passes, fails in another way or is not there, and if any
other test fails or is skipped.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

import psycopg
import pytest
from psycopg.rows import dict_row

from stateroom import InMemoryStore, SqliteStore, Store
from stateroom.stores.postgres import PostgresStore

# The tests of a checkout are a package ``tests`` too, so that name is no help in the process that runs them.
from .holding import INTERNALS, RULE, SIGNED, Expected, Held, counted  # noqa: TID252

ADDRESS = "DEFAULT_URI"
"""The name under which LangGraph's tests have the address of their server."""

SERVER = "STATEROOM_UPSTREAM_POSTGRES"
"""The environment variable that tells a suite's process where its server is."""


class Suite(NamedTuple):
    """Test files of one LangGraph library, and what stands for each of its classes.

    A suite ``on_postgres`` has a server in the place of ``DEFAULT_URI``.
    """

    library: str
    files: tuple[str, ...]
    swaps: Mapping[str, type]
    expected: tuple[Expected, ...]
    on_postgres: bool = False


def _counted(store: type) -> Any:
    """Return a store whose opening is counted, with settings of an index as LangGraph's tests spell them."""

    def __init__(self: Any, *args: Any, **options: Any) -> None:
        store.__init__(self, *args, **_translated(options))  # type: ignore[misc]

    return counted(type(store.__name__, (store,), {"__init__": __init__}))


def _translated(options: dict[str, Any]) -> dict[str, Any]:
    """Spell settings of an index as we do: ``text_fields``, and what ``ann_index_config`` holds."""
    index = dict(options.get("index") or {})
    if "text_fields" in index:
        index["fields"] = index.pop("text_fields")
    if "ann_index_config" in index:
        ann = {"kind": "hnsw", **index.pop("ann_index_config")}
        index |= {"hnsw": ann["kind"] == "hnsw", "vector_type": ann["vector_type"]}
    return options | {"index": index} if index else options


CountedSqliteStore: Any = _counted(SqliteStore)


class PostgresCostume(_counted(PostgresStore)):  # type: ignore[misc]  # a class made of ours
    """A ``PostgresStore`` with those of the insides of LangGraph's that its fixtures take hold of."""

    def __init__(self, uri: str, **options: Any) -> None:
        super().__init__(uri, **options)
        self.uri = uri
        self.MIGRATIONS: list[object] = []

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Leave ``pipeline`` out, which ours refuses."""
        options.pop("pipeline", None)
        store: Self = super().from_conn_string(conn_string, **options)
        return store

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Lend a cursor of a connection of its own, which finds LangGraph's table: ``TABLE``."""
        # What reads have refreshed is written by then; the next call opens the store again.
        self.close()
        with psycopg.connect(self.uri, autocommit=True, row_factory=dict_row) as connection:
            connection.execute(TABLE)
            yield connection.cursor()


TABLE = """
create or replace view store as
select i.address, array_to_string(n.labels, '.') as prefix, i.key,
    to_timestamp(i.expires_at / 1e6) as expires_at, to_timestamp(i.updated_at / 1e6) as updated_at
from stateroom.item i join stateroom.namespace n on n.id = i.namespace_id;

create or replace function store_updated() returns trigger language plpgsql as $$
begin
    update stateroom.item set expires_at = extract(epoch from new.expires_at) * 1e6,
        updated_at = extract(epoch from new.updated_at) * 1e6 where address = new.address;
    return new;
end $$;

create or replace trigger store_updated instead of update on store
for each row execute function store_updated();
"""


class AsyncCostume:
    """A store as LangGraph's async one, whose set-up and sweeping are awaited."""

    dressed: ClassVar[Any]

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        return cls(cls.dressed.from_conn_string(conn_string, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def __aenter__(self) -> Self:
        await self._store.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._store.__aexit__(kind, error, trace)

    async def setup(self) -> None:
        await self._store.asetup()

    async def sweep_ttl(self) -> int:
        return await self._store.asweep_ttl()

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> object:
        return self._store.start_ttl_sweeper(sweep_interval_minutes)

    async def stop_ttl_sweeper(self) -> bool:
        return await asyncio.to_thread(self._store.stop_ttl_sweeper)


class AsyncSqliteCostume(AsyncCostume):
    """A ``SqliteStore`` as ``AsyncSqliteStore``."""

    dressed = CountedSqliteStore


class AsyncPostgresCostume(AsyncCostume):
    """A ``PostgresStore`` as ``AsyncPostgresStore``."""

    dressed = PostgresCostume

    @asynccontextmanager
    async def _cursor(self) -> AsyncIterator[Any]:
        """Lend what executes and fetches when awaited."""
        with self._store._cursor() as cursor:  # type: ignore[attr-defined]  # of the costume
            yield AsyncCursor(cursor)


class AsyncCursor:
    """A cursor whose methods are awaited."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor = cursor

    async def execute(self, *arguments: Any) -> None:
        self._cursor.execute(*arguments)

    async def fetchone(self) -> Any:
        return self._cursor.fetchone()


MEMORY_EXPECTED = (
    Expected(
        "tests/test_store.py::test_embed_with_path",
        SIGNED,
        "its last lines want an item put with index=False in the answer to a query, without a score; "
        "ours returns no item that a query cannot match",
    ),
)

SQLITE_EXPECTED = (
    Expected(
        "tests/test_async_store.py::test_no_running_loop",
        SIGNED,
        "it wants sync calls inside a running event loop to raise InvalidStateError; ours work",
        pytest.fail.Exception,
    ),
    Expected(
        "tests/test_store.py::test_vector_store_initialization",
        INTERNALS,
        "it reads store.embeddings, and the tables of LangGraph's schema through store.conn",
        AttributeError,
    ),
    Expected(
        "tests/test_store.py::test_nonnull_migrations",
        INTERNALS,
        "it reads the SQL statements of SqliteStore.MIGRATIONS",
        AttributeError,
    ),
    Expected(
        "tests/test_store.py::test_sql_injection_vulnerability",
        RULE,
        "it wants a filter key with quotes refused; ours is a literal key, bound as a parameter, that no "
        "item has: the answer is empty",
        pytest.fail.Exception,
    ),
    Expected(
        "tests/test_store.py::test_sql_injection_filter_values",
        RULE,
        "its fourth value holds a NUL character and is wanted to match nothing; ours refuses NUL everywhere",
        ValueError,
    ),
    Expected(
        "tests/test_store.py::test_numeric_filter_safety",
        RULE,
        "it filters by infinity and NaN; ours refuses operands that are no JSON",
        ValueError,
    ),
    Expected(
        "tests/test_store.py::test_filter_keys_with_hyphens_and_digits",
        RULE,
        "it wants the filter key 'user.access-level' to look inside 'user'; ours is the literal key, as it "
        "is in LangGraph's other stores",
    ),
    Expected(
        "tests/test_ttl.py::test_ttl_override_default",
        RULE,
        "it counts on reads that do not refresh although nothing was configured; ours refresh by default, "
        "as LangGraph's documentation of TTLConfig has it",
    ),
)

POSTGRES_EXPECTED = (
    Expected(
        "tests/test_async_store.py::test_no_running_loop",
        SIGNED,
        "it wants sync calls inside a running event loop to raise InvalidStateError; ours work",
        pytest.fail.Exception,
    ),
    *(
        Expected(
            f"tests/{file}::test_store_ttl",
            SIGNED,
            "it searches without an index and wants its query ignored; ours looks for the word, which is a "
            "key of the value and no text of it",
        )
        for file in ("test_store.py", "test_async_store.py")
    ),
    *(
        Expected(
            f"tests/{file}::test_omit_expired_disabled_preserves_expired_rows",
            RULE,
            "it wants items that have expired shown until they are swept; ours are absent at once",
        )
        for file in ("test_store.py", "test_async_store.py")
    ),
    Expected(
        "tests/test_store.py::test_batch_list_namespaces_ops",
        RULE,
        "it writes the path of a condition as one string, which LangGraph takes for a label a letter and so "
        "finds nothing; ours refuses it",
        ValueError,
    ),
    Expected(
        "tests/test_store.py::test_nonnull_migrations",
        INTERNALS,
        "it reads the SQL statements of PostgresStore.MIGRATIONS",
        AttributeError,
    ),
    Expected(
        "tests/test_async_store.py::test_abatch_uses_single_pool_checkout",
        INTERNALS,
        "it counts calls of a function of LangGraph's that lends connections",
    ),
)

SUITES: Mapping[str, Suite] = {
    "memory": Suite(
        "libs/checkpoint",
        ("tests/test_store.py",),
        {"InMemoryStore": _counted(InMemoryStore)},
        MEMORY_EXPECTED,
    ),
    "memory-on-sqlite": Suite(
        "libs/checkpoint", ("tests/test_store.py",), {"InMemoryStore": CountedSqliteStore}, MEMORY_EXPECTED
    ),
    "sqlite": Suite(
        "libs/checkpoint-sqlite",
        ("tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"),
        {"SqliteStore": CountedSqliteStore, "AsyncSqliteStore": AsyncSqliteCostume},
        SQLITE_EXPECTED,
    ),
    "postgres": Suite(
        "libs/checkpoint-postgres",
        ("tests/test_store.py", "tests/test_async_store.py"),
        {"PostgresStore": PostgresCostume, "AsyncPostgresStore": AsyncPostgresCostume},
        POSTGRES_EXPECTED,
        on_postgres=True,
    ),
}

CONFIGURATION = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
markers = flaky(retries): LangGraph's mark for tests that depend on the time they take
"""


class Swap(Held):
    """The plug-in for one suite."""

    def __init__(self, name: str) -> None:
        self.suite = SUITES[name]
        super().__init__(name, self.suite.expected)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put our classes in, and mark what is expected to fail."""
        modules: set[Any] = {item.module for item in items if isinstance(item, pytest.Function)}
        for name, ours in self.suite.swaps.items():
            self._swap(modules, name, ours)
        if self.suite.on_postgres:
            # The file with the fixtures has the address as well.
            plugins = items[0].config.pluginmanager.get_plugins() if items else set()
            self._swap(modules | plugins, ADDRESS, os.environ[SERVER])
        self.mark(items)

    def _swap(self, holders: set[Any], name: str, ours: object) -> None:
        found = [holder for holder in holders if hasattr(holder, name)]
        if not found:
            raise pytest.UsageError(f"{self.name}: no test file uses {name}, so nothing was swapped")
        for holder in found:
            setattr(holder, name, ours)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the name of the suite."""
    parser.addoption("--suite", choices=list(SUITES), required=True, help="which stores stand in for which")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plug-in of the suite."""
    config.pluginmanager.register(Swap(config.getoption("--suite")))


@contextmanager
def _served(suite: Suite) -> Iterator[dict[str, str]]:
    """Lend what the environment of a suite says of the Postgres server that it needs."""
    if not suite.on_postgres:
        yield {}
        return
    from tests.postgres.server import FAST, Server

    with Server(FAST) as server:
        # The tests take everything behind the last slash for the database's name.
        address, _, options = server.uri.partition("?")
        yield {SERVER: f"{address}?{options.replace('/', '%2F')}"}


def run(checkout: Path, name: str, arguments: list[str]) -> int:
    """Run one suite in a process of its own, on a copy of the test files; return its exit code."""
    suite = SUITES[name]
    with tempfile.TemporaryDirectory() as folder, _served(suite) as server:
        shutil.copytree(checkout / suite.library / "tests", Path(folder, "tests"))
        Path(folder, "pytest.ini").write_text(CONFIGURATION, encoding="utf-8")
        path = os.pathsep.join(
            [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        command = [sys.executable, "-m", "pytest", "-q", "-rxX", "-p", "upstream.swap", "--suite", name]
        return subprocess.run(
            [*command, *arguments, *suite.files],
            cwd=folder,
            env=os.environ | server | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
        ).returncode


def main(arguments: list[str]) -> int:
    """Run every suite, and return 0 if all went as expected."""
    if not arguments or arguments[0].startswith("-"):
        sys.exit("usage: python -m tests.upstream.swap path/to/langgraph [arguments for pytest]")
    checkout, *others = arguments
    for suite in SUITES.values():
        for file in suite.files:
            if not Path(checkout, suite.library, file).is_file():
                sys.exit(f"{checkout} is no checkout of LangGraph: {suite.library}/{file} is not there")
    for module in ("langgraph.store.sqlite", "pytest_asyncio", "pytest_mock"):
        if importlib.util.find_spec(module) is None:
            sys.exit(
                f"LangGraph's tests import {module}, which is not installed; see tests/upstream/README.md"
            )
    return max([run(Path(checkout).resolve(), name, others) for name in SUITES])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
