"""Files in a store pass the conformance suite, over every store and behind the backends that pass them on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, InvalidNamespaceError, Op, Result
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom import InMemoryStore, SqliteStore
from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.errors import InvalidNamespace, Misconfigured, NotSupported, Unavailable
from stateroom.files import StoreBackend, writing
from stateroom.files.composite import CompositeBackend
from stateroom.files.factory import FactoryBackend
from stateroom.files.permissions import PermittedBackend
from stateroom.files.protocol import WriteResult
from stateroom.stores.postgres import PostgresStore
from stateroom.testing.files import FilesSuite, OpenedFiles, OverStore
from tests.aegis.serving import at_hand
from tests.conftest import NewSchema
from tests.files.mounted import Mounted
from tests.files.others import MeddledStore, SlowStore


def foreign(*, ttl: Mapping[str, Any] | None = None, clock: Any = None) -> BaseStore:  # noqa: ARG001  # it has its own
    """Return LangGraph's own store, which lets nothing expire."""
    if ttl is not None:
        raise NotSupported("ttl: LangGraph's in-memory store has none", field="ttl")
    return LangGraphInMemoryStore()


class TestInMemoryStore(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(InMemoryStore)) as opens:
            yield opens


class TestSqliteFile(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self, tmp_path: Path) -> Iterator[OpenedFiles]:
        with closing(OverStore(partial(SqliteStore, tmp_path / "memory.db"))) as opens:
            yield opens


class TestPostgresStore(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self, postgres: str, empty_schema: NewSchema) -> Iterator[OpenedFiles]:
        with closing(OverStore(partial(PostgresStore, postgres, schema=empty_schema()))) as opens:
            yield opens


class TestAegisStore(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with at_hand() as place, closing(OverStore(place.open)) as opens:
            yield opens


class TestForeignStore(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(foreign)) as opens:
            yield opens


class TestFactory(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        wrap = lambda backend: FactoryBackend(lambda _: backend)  # noqa: E731  # as it is written by users
        with closing(OverStore(InMemoryStore, wrap=wrap)) as opens:
            yield opens


class TestPermitted(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(InMemoryStore, wrap=lambda backend: PermittedBackend(backend, []))) as opens:
            yield opens


class TestComposite(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(InMemoryStore, wrap=lambda backend: CompositeBackend(backend, {}))) as opens:
            yield opens


class TestMounted(FilesSuite):
    """Everything in a directory where another backend is mounted."""

    # With the directory in front of it, it is too long.
    test_the_longest_path_is_one = None  # type: ignore[assignment]

    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        def mounted(backend: StoreBackend) -> Mounted:
            default = StoreBackend(store=InMemoryStore(), namespace=("default",))
            return Mounted(CompositeBackend(default, {"/mount/": backend}), "/mount")

        with closing(OverStore(InMemoryStore, wrap=mounted)) as opens:
            yield opens


class TestInMemoryStoreInStrings(FilesSuite):
    """Files that are written as Deep Agents for Python does."""

    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(InMemoryStore, file_format="v2")) as opens:
            yield opens


# ---- somebody else is faster

N = ("ana", "filesystem")


def meddled() -> tuple[MeddledStore, StoreBackend, StoreBackend]:
    """Return a store, and the backends of two who work on it."""
    store = MeddledStore()
    one, other = (StoreBackend(store=store, namespace=N) for _ in range(2))
    one.write("/n.md", "HEAD|\n")
    return store, one, other


async def in_mode(mode: str, backend: Any, method: str, *args: Any, **options: Any) -> Any:
    if mode == "sync":
        return getattr(backend, method)(*args, **options)
    return await getattr(backend, f"a{method}")(*args, **options)


def text(backend: StoreBackend, path: str = "/n.md") -> str:
    data = backend.read(path).file_data
    assert data is not None
    return data["content"]


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_an_edit_is_worked_out_anew_when_somebody_was_faster(mode: str) -> None:
    store, one, other = meddled()
    store.writes = 0
    store.meddling = (partial(other.edit, "/n.md", "HEAD|", f"HEAD|\n{name}") for name in "abc")
    result = await in_mode(mode, one, "edit", "/n.md", "HEAD|", "HEAD|\nmine")
    assert result.error is None
    assert text(one) == "HEAD|\nmine\nc\nb\na\n"
    # Four of one's own, three of the other's.
    assert store.writes == 7


async def test_an_edit_that_does_not_fit_any_more_says_so(mode: str) -> None:
    store, one, other = meddled()
    store.meddling = iter([lambda: other.write("/n.md", "gone")])
    result = await in_mode(mode, one, "edit", "/n.md", "HEAD|", "mine")
    assert result.error == "Error: String not found in file: 'HEAD|'"
    store.meddling = iter([lambda: other.delete("/n.md")])
    result = await in_mode(mode, one, "edit", "/n.md", "gone", "mine")
    assert result.error == "Error: File '/n.md' not found"
    assert one.ls("/").entries == []


async def test_a_change_is_given_up_after_some_attempts_and_nothing_is_written(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, one, other = meddled()
    for attempts in (1, 3):
        monkeypatch.setattr(writing, "ATTEMPTS", attempts)
        one.write("/n.md", "HEAD|")
        for method, *arguments in (
            ("edit", "HEAD|", "mine"),
            ("write", "mine"),
            ("multi_edit", [("HEAD|", "mine")]),
        ):
            store.writes = 0
            store.meddling = (partial(other.write, "/n.md", f"HEAD|{number}") for number in count())
            result = await in_mode(mode, one, method, "/n.md", *arguments)
            assert "kept being changed by others, and nothing was written" in result.error
            assert store.writes == 2 * attempts
            store.meddling = iter(())
            assert text(one) == f"HEAD|{attempts - 1}"
        store.meddling = (partial(other.write, "/n.md", str(number)) for number in count())
        (response,) = await in_mode(mode, one, "upload_files", [("/n.md", b"mine")])
        assert "kept being changed" in response.error
        store.meddling = iter(())


async def test_a_file_that_somebody_else_has_created_meanwhile_keeps_its_creation(mode: str) -> None:
    store, one, _ = meddled()
    other_clock = ManualClock()
    theirs = StoreBackend(store=store, namespace=N, clock=other_clock)
    store.meddling = iter([lambda: theirs.write("/new.md", "theirs")])
    assert (await in_mode(mode, one, "write", "/new.md", "mine")).error is None
    data = one.read("/new.md").file_data
    assert data is not None
    assert data["content"] == "mine"
    assert data["created_at"] == microseconds_to_datetime(other_clock()).isoformat()


async def test_uploads_go_one_by_one_when_somebody_was_faster(mode: str) -> None:
    store, one, other = meddled()
    store.meddling = (partial(other.write, path, "theirs") for path in ("/a.md", "/b.md"))
    given = [(path, path.encode()) for path in ("/a.md", "/b.md", "/c.md")]
    responses = await in_mode(mode, one, "upload_files", given)
    assert [(response.path, response.error) for response in responses] == [(path, None) for path, _ in given]
    assert [text(one, path) for path, _ in given] == [path for path, _ in given]


async def test_a_file_that_is_written_meanwhile_is_not_pruned(mode: str) -> None:
    store, one, other = meddled()
    paths = [f"/{number}.md" for number in range(7)]
    for path in paths:
        one.write(path, "old")
    busy = [["/3.md", "/5.md"], ["/0.md"], ["/n.md"]]

    def write(some: list[str]) -> None:
        for path in some:
            other.write(path, "new")

    store.meddling = (partial(write, some) for some in busy)
    result = await in_mode(mode, one, "prune", keep=0)
    left = [entry["path"] for entry in one.ls("/").entries or []]
    assert left == ["/0.md", "/3.md", "/5.md", "/n.md"]
    assert [info["path"] for info in result.files] == ["/1.md", "/2.md", "/4.md", "/6.md"]
    assert result.bytes == 4 * 3
    assert {text(one, path) for path in left} == {"new"}


# ---- what an agent did wrong is answered, and what somebody else did wrong is raised


async def test_a_failure_of_the_storage_is_raised(mode: str) -> None:
    store, one, _ = meddled()

    def fail() -> None:
        raise Unavailable("gone")

    store.meddling = repeat(fail)
    for method, *arguments in (
        ("write", "/n.md", "x"),
        ("edit", "/n.md", "HEAD|", "x"),
        ("delete", "/n.md"),
        ("upload_files", [("/n.md", b"x")]),
        ("upload_files", [("/n.md", b"x"), ("/o.md", b"x")]),
    ):
        with pytest.raises(Unavailable):
            await in_mode(mode, one, method, *arguments)
    with pytest.raises(Unavailable):
        await in_mode(mode, one, "prune", keep=0)


class DotlessStore(SlowStore):
    """A store that has its own mind about namespaces."""

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise InvalidNamespaceError("no dots, please")


def test_a_namespace_that_the_store_refuses_is_no_matter_of_the_agent() -> None:
    backend = StoreBackend(store=DotlessStore(), namespace=("a.b",))
    for ask in (lambda: backend.ls("/"), lambda: backend.write("/a.md", "x"), lambda: backend.read("/a.md")):
        with pytest.raises(InvalidNamespace, match="no dots, please"):
            ask()


def test_a_wrong_set_up_is_refused_at_once() -> None:
    store = InMemoryStore()
    with pytest.raises(Misconfigured, match="namespace"):
        StoreBackend(store=store, namespace="ana")
    for namespace in ((), ("",), ("a\0",), ("a", "*"), ("{x}",)):
        with pytest.raises(InvalidNamespace):
            StoreBackend(store=store, namespace=namespace)
    with pytest.raises(ValueError, match="file_format"):
        StoreBackend(store=store, file_format="v3")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(Misconfigured):
        StoreBackend(store="memory.db")  # type: ignore[arg-type]  # what is refused


def test_a_backend_says_whether_edits_can_be_lost_to_other_processes() -> None:
    assert StoreBackend(store=InMemoryStore(), namespace=N).is_conditional
    assert not StoreBackend(store=LangGraphInMemoryStore(), namespace=N).is_conditional


async def test_backends_of_one_store_of_somebody_elses_take_turns() -> None:
    store = SlowStore()
    one = StoreBackend(store=store, namespace=N)
    one.write("/n.md", "HEAD|")
    others = [StoreBackend(store=SlowStore(), namespace=N) for _ in range(20)]
    other = StoreBackend(store=store, namespace=N)
    assert [each.ls("/").entries for each in others] == [[]] * 20
    edits = [
        backend.aedit("/n.md", "HEAD|", f"HEAD|\n{number}") for number, backend in enumerate([one, other] * 5)
    ]
    assert [result.error for result in await asyncio.gather(*edits)] == [None] * 10
    assert len(text(one).splitlines()) == 11


# ---- sync calls on a loop on which tasks are writing


async def test_a_sync_call_beside_tasks_of_its_loop_works_on_our_stores(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "memory.db") as store:
        wide: list[dict[str, Any]] = [{}, {"max_files": 5, "max_bytes": 10_000}]
        for options in wide:
            backend = StoreBackend(store=store, namespace=N, **options)
            await backend.awrite("/n.md", "HEAD|")
            tasks = [asyncio.create_task(backend.aedit("/n.md", "HEAD|", f"HEAD|\n{n}")) for n in range(5)]
            for number in range(5, 10):
                await asyncio.sleep(0)
                assert backend.edit("/n.md", "HEAD|", f"HEAD|\n{number}").error is None
            assert [result.error for result in await asyncio.gather(*tasks)] == [None] * 5
            assert len(text(backend).splitlines()) == 11


async def test_a_sync_call_that_could_never_be_served_is_refused() -> None:
    backend = StoreBackend(store=SlowStore(), namespace=N)
    await backend.awrite("/n.md", "HEAD|")
    task = asyncio.create_task(backend.aedit("/n.md", "HEAD|", "HEAD|\ntask"))
    await asyncio.sleep(0)
    with pytest.raises(NotSupported, match="await the async method"):
        backend.edit("/n.md", "HEAD|", "HEAD|\nsync")
    assert (await task).error is None
    assert backend.edit("/n.md", "HEAD|", "HEAD|\nsync").error is None
    assert text(backend) == "HEAD|\nsync\ntask"


# ---- who derives from a backend


class LoudBackend(StoreBackend):
    """Writes in capitals; says nothing of the async form."""

    @override
    def write(self, file_path: str, content: str) -> WriteResult:
        return super().write(file_path, content.upper())


async def test_a_method_that_is_replaced_is_replaced_in_both_forms(mode: str) -> None:
    backend = LoudBackend(store=InMemoryStore(), namespace=N)
    assert (await in_mode(mode, backend, "write", "/n.md", "loud")).error is None
    assert (await in_mode(mode, backend, "edit", "/n.md", "LOUD", "quiet")).error is None
    assert text(backend) == "quiet"
