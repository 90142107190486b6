"""Run Deep Agents' own tests with Stateroom's backends and stores in the place of its own.

    python -m tests.upstream.deep_agents path/to/deepagents [arguments for pytest]

The path is a checkout of Deep Agents' repository, of any release beside the installed one. The tests are run
first as they are, and those that do not pass then say nothing about ours: they are left out. The others are
run once for each of ``SUITES``, and held to the lists of ``deep_agents_expected``: a run fails if a listed
test passes, fails otherwise or is not there, and if any other test fails or is skipped.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import psycopg
import pytest
from langgraph._internal._constants import CONFIG_KEY_READ, CONFIG_KEY_SEND
from psycopg.conninfo import make_conninfo
from typing_extensions import override

from stateroom import InMemoryStore, SqliteStore
from stateroom.files import CompositeBackend, StateBackend, StoreBackend
from stateroom.files.volumes import Place
from stateroom.stores.postgres import PostgresStore

# The tests of a checkout are a package ``tests`` too, so that name is no help in the process that runs them.
from .deep_agents_expected import AS_LINES, BESIDE_THEIR_DEFAULTS, EXPECTED, ON_OUR_STORES  # noqa: TID252
from .holding import PASSED, PASSED_WITHOUT, Expected, Held, counted  # noqa: TID252

LIBRARY = "libs/deepagents"
UNIT = "tests/unit_tests"
FILES = tuple(
    f"{UNIT}/{name}.py"
    for name in (
        "backends/test_store_backend",
        "backends/test_store_backend_async",
        "backends/test_state_backend",
        "backends/test_state_backend_async",
        "backends/test_composite_backend",
        "backends/test_composite_backend_async",
        "backends/test_file_format",
        "backends/test_glob_semantics",
        "backends/test_timeout_compat",
        "middleware/test_execute_route_prompt",
        "middleware/test_filesystem_middleware_init",
        "middleware/test_filesystem_video",
        "middleware/test_memory_middleware",
        "middleware/test_skills_middleware",
        "middleware/test_subagent_middleware_init",
        "middleware/test_tool_schemas",
        "test_artifacts_root",
        "test_deep_agent_streaming",
        "test_end_to_end",
        "test_eviction_replay",
        "test_file_system_tools",
        "test_file_system_tools_async",
        "test_graph",
        "test_middleware",
        "test_middleware_async",
        "test_permissions",
        "test_subagents",
    )
)
NEEDED = ("deepagents", "langchain_openai", "pytest_asyncio")

THEIRS = "theirs"
"""The name of the run in which nothing is swapped."""

BASELINE = "STATEROOM_UPSTREAM_BASELINE"
"""The environment variable with the path of the file that says what passes when nothing is swapped."""

SERVER = "STATEROOM_UPSTREAM_POSTGRES"
"""The environment variable that tells a suite's process where its server is."""

TEMPLATE = "set_up"
"""The database in which a store has been set up."""


class FreshPostgresStore(PostgresStore):
    """A store in a database of its own, as empty as a new store in memory is, and gone with it."""

    numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self, **options: Any) -> None:
        self.database = f"of_test_{next(self.numbers)}"
        self._administer(f"create database {self.database} template {TEMPLATE}")
        super().__init__(make_conninfo(os.environ[SERVER], dbname=self.database), **options)

    @override
    def close(self) -> None:
        super().close()
        self._administer(f"drop database if exists {self.database} with (force)")

    def _administer(self, statement: str) -> None:
        with psycopg.connect(os.environ[SERVER], autocommit=True) as connection:
            connection.execute(statement.encode())


class StateCostume(StateBackend):
    """A ``StateBackend`` with those of the insides of Deep Agents' that tests put files in through."""

    _read_files: Any = None
    _send_files_update: Any = None

    @override
    def _place(self) -> Place:
        if self._read_files is not None:
            calls = {
                CONFIG_KEY_READ: lambda _channel, _fresh: self._read_files(),
                CONFIG_KEY_SEND: lambda updates: self._send_files_update(updates[0][1]),
            }
            self._runtime = {"configurable": calls}
        return super()._place()


class Suite(NamedTuple):
    """What stands for LangGraph's ``InMemoryStore``, and how our backends write text.

    ``inside`` puts our backends into all of Deep Agents' modules, so that its defaults are ours too;
    otherwise they are just where the tests import them from.
    """

    store: type | None
    file_format: str = "v2"
    inside: bool = True

    @property
    def backends(self) -> Mapping[str, type]:
        """Our backends under the names of those of Deep Agents that they stand for."""
        return {
            "StoreBackend": counted(StoreBackend, file_format=self.file_format),
            "StateBackend": counted(StateCostume, "StateBackend", file_format=self.file_format),
            "CompositeBackend": counted(CompositeBackend),
        }

    @property
    def expected(self) -> tuple[Expected, ...]:
        """What must fail."""
        return (
            *EXPECTED,
            *(ON_OUR_STORES if self.store else ()),
            *(AS_LINES if self.file_format == "v1" else ()),
            *(() if self.inside else BESIDE_THEIR_DEFAULTS),
        )


SUITES: Mapping[str, Suite] = {
    "memory": Suite(InMemoryStore),
    "sqlite": Suite(SqliteStore),
    "postgres": Suite(FreshPostgresStore),
    "langgraph": Suite(None),
    "lines": Suite(InMemoryStore, file_format="v1"),
    "beside": Suite(InMemoryStore, inside=False),
}

CONFIGURATION = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = ignore
markers =
    benchmark: Deep Agents' mark for what it measures
    requires(packages): Deep Agents' mark for tests that want more packages
    video_extra: Deep Agents' mark for tests that want its extra
"""


class Swap(Held):
    """The plug-in for one suite."""

    def __init__(self, name: str) -> None:
        suite = SUITES.get(name)
        super().__init__(name, suite.expected if suite else ())
        self.stores: list[Any] = []
        if suite:
            self._put_in(suite)

    def _put_in(self, suite: Suite) -> None:
        """Put our classes in before any test file is imported."""
        import deepagents.backends
        import langgraph.store.memory

        for name, ours in suite.backends.items():
            theirs = getattr(deepagents.backends, name)
            for holder in _holders(name, theirs, suite.inside):
                setattr(holder, name, ours)
        if suite.store is not None:
            langgraph.store.memory.InMemoryStore = self._kept(suite.store)  # type: ignore[misc]

    def _kept(self, store: type) -> Any:
        """Return a class whose stores are closed behind the test that made them."""
        stores = self.stores

        def __init__(self: Any, **options: Any) -> None:
            store.__init__(self, **options)  # type: ignore[misc]
            stores.append(self)

        return type(store.__name__, (store,), {"__init__": __init__})

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what does not pass on theirs, and mark what is expected to fail on ours."""
        if self.name == THEIRS:
            return
        passing: set[str] = set(json.loads(Path(os.environ[BASELINE]).read_text(encoding="utf-8")))
        out = [item for item in items if item.nodeid not in passing]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item.nodeid in passing]
        self.mark(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Close the stores of the test."""
        result = yield
        while self.stores:
            self.stores.pop().close()
        return result

    @override
    def place(self, test: str) -> str:
        """Count by file: there are many classes."""
        return test.partition("::")[0]

    @override
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write what has passed on theirs, where that is what runs."""
        if self.name != THEIRS:
            super().pytest_sessionfinish(session)
            return
        passed = [test for test, outcome in self.outcomes.items() if outcome in (PASSED, PASSED_WITHOUT)]
        Path(os.environ[BASELINE]).write_text(json.dumps(passed), encoding="utf-8")
        if {self.place(test) for test in passed} != set(FILES):
            # Whatever breaks a whole file would leave it out of every suite.
            session.exitstatus = pytest.ExitCode.USAGE_ERROR


def _holders(name: str, theirs: object, inside: bool) -> list[Any]:
    """Return the modules that tests import a class from; with ``inside`` all that have it."""
    prefix = "deepagents" if inside else "deepagents.backends"
    modules = [module for path, module in sys.modules.items() if f"{path}.".startswith(f"{prefix}.")]
    return [module for module in modules if getattr(module, name, None) is theirs]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the name of the suite."""
    parser.addoption("--suite", choices=[THEIRS, *SUITES], required=True, help="what stands in for what")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plug-in of the suite."""
    config.pluginmanager.register(Swap(config.getoption("--suite")))


@contextmanager
def _served(name: str) -> Iterator[dict[str, str]]:
    """Lend what the environment of a suite says of the Postgres server that it needs."""
    if name == THEIRS or SUITES[name].store is not FreshPostgresStore:
        yield {}
        return
    from tests.postgres.server import FAST, Server

    with Server(FAST) as server:
        server.execute(f"create database {TEMPLATE}")
        with PostgresStore(make_conninfo(server.uri, dbname=TEMPLATE)) as store:
            store.setup()
        yield {SERVER: server.uri}


def run(checkout: Path, name: str, arguments: list[str], baseline: Path) -> int:
    """Run one suite in a process of its own, on a copy of the test files; return its exit code."""
    with tempfile.TemporaryDirectory() as folder, _served(name) as server:
        shutil.copytree(checkout / LIBRARY / "tests", Path(folder, "tests"))
        Path(folder, "pytest.ini").write_text(CONFIGURATION, encoding="utf-8")
        path = os.pathsep.join(
            [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        command = [sys.executable, "-m", "pytest", "-q", "-p", "upstream.deep_agents", "--suite", name]
        settings = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", BASELINE: str(baseline)}
        return subprocess.run(
            [*command, *arguments, *FILES], cwd=folder, env=os.environ | server | settings, check=False
        ).returncode


def main(arguments: list[str]) -> int:
    """Run the tests on theirs and then every suite, and return 0 if all went as expected."""
    if not arguments or arguments[0].startswith("-"):
        sys.exit("usage: python -m tests.upstream.deep_agents path/to/deepagents [arguments for pytest]")
    checkout, *others = arguments
    for file in FILES:
        if not Path(checkout, LIBRARY, file).is_file():
            sys.exit(f"{checkout} is no checkout of Deep Agents: {LIBRARY}/{file} is not there")
    for module in NEEDED:
        if importlib.util.find_spec(module) is None:
            sys.exit(
                f"Deep Agents' tests import {module}, which is not installed; see tests/upstream/README.md"
            )
    with tempfile.TemporaryDirectory() as folder:
        baseline = Path(folder, "passing.json")
        root = Path(checkout).resolve()
        status = run(root, THEIRS, ["--tb=no", *others], baseline)
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return status
        return max([run(root, name, others, baseline) for name in SUITES])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
