"""Which stores a ``langgraph.json`` may name, by ``store.path`` and by ``store.adapter``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore

from stateroom import Capability, SqliteStore, Store
from stateroom.errors import Misconfigured
from stateroom.stores.foreign import ForeignStore
from stateroom.stores.loading import open_named_store

FILE = """
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from langgraph.store.memory import InMemoryStore
from stateroom import SqliteStore
from stateroom.drivers.memory import MemoryItems
from stateroom.search.index_config import IndexSettings

events = []

class Timed(InMemoryStore):
    supports_ttl = True
    def sweep_ttl(self):
        return 0

theirs = InMemoryStore()
timed = Timed()
ours = SqliteStore(Path(__file__).parent / "ours.db")
items = MemoryItems(IndexSettings(), index_keys=(), clock=lambda: 1)
number = 5

class Noted(SqliteStore):
    async def aclose(self):
        events.append("closed ours")
        await super().aclose()

noted = Noted()

def function():
    return theirs

async def coroutine():
    return theirs

@asynccontextmanager
async def managed():
    events.append("opened")
    yield theirs
    events.append("closed")

@contextmanager
def managed_sync():
    events.append("opened")
    yield theirs
    events.append("closed")

@asynccontextmanager
async def managed_ours():
    async with SqliteStore(Path(__file__).parent / "managed.db") as store:
        yield store

entered_already = managed()

@asynccontextmanager
async def failing():
    raise RuntimeError("no such host")
    yield

def needing(argument):
    return theirs

async def generator():
    yield theirs
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a ``langgraph.json``, which is not the working directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "my_store.py").write_text(FILE, encoding="utf-8")
    (folder / "broken.py").write_text("import nothing_of_the_kind", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    return folder


def use(section: Mapping[str, Any], base: Path) -> Store:
    """Open what a section names, put an item and find it, and return the store, which is closed by then."""

    async def run() -> Store:
        async with open_named_store(section, base=base) as store:
            await store.aput(("a",), "k", {"t": "giraffes"})
            assert [hit.key for hit in await store.asearch((), query="giraffe")] == ["k"]
            return store

    return asyncio.run(run())


@pytest.mark.parametrize("setting", ["path", "adapter"])
@pytest.mark.parametrize(
    "name", ["theirs", "Timed", "function", "coroutine", "managed", "managed_sync", "entered_already"]
)
def test_a_foreign_store_is_loaded_in_every_form(base: Path, setting: str, name: str) -> None:
    store = use({setting: f"./my_store.py:{name}"}, base)
    assert isinstance(store, ForeignStore)


@pytest.mark.parametrize("setting", ["path", "adapter"])
@pytest.mark.parametrize("name", ["ours", "managed_ours"])
def test_a_store_of_ours_is_used_as_it_is(base: Path, setting: str, name: str) -> None:
    store = use({setting: f"my_store.py:{name}"}, base)
    assert isinstance(store, SqliteStore)
    with SqliteStore(base / ("ours.db" if name == "ours" else "managed.db")) as kept:
        assert [item.key for item in kept.search(())] == ["k"]


def test_a_driver_is_an_adapter(base: Path) -> None:
    assert Capability.ATOMIC_BATCH in use({"adapter": "./my_store.py:items"}, base).capabilities
    with pytest.raises(Misconfigured, match=r"name it by store\.adapter") as caught:
        use({"path": "./my_store.py:items"}, base)
    assert caught.value.field == "store.path"


def test_a_module_may_be_named_by_its_dotted_name(base: Path) -> None:
    assert isinstance(use({"path": "my_store:theirs"}, base), ForeignStore)
    assert isinstance(use({"adapter": "langgraph.store.memory:InMemoryStore"}, base), ForeignStore)


def test_what_is_opened_is_closed_in_the_end(base: Path) -> None:
    async def run() -> list[list[str]]:
        async with open_named_store({"path": "my_store:managed"}, base=base) as store:
            events: list[str] = __import__("my_store").events
            during = events.copy()
            assert isinstance(store, ForeignStore)
        return [during, events]

    during, after = asyncio.run(run())
    assert (during[-1:], after[-2:]) == (["opened"], ["opened", "closed"])


def test_a_store_of_ours_that_lies_ready_is_closed_as_well(base: Path) -> None:
    assert isinstance(use({"path": "my_store:noted"}, base), SqliteStore)
    assert __import__("my_store").events[-1] == "closed ours"


def test_a_ttl_is_for_a_foreign_store_that_sweeps(base: Path) -> None:
    quiet = {"refresh_on_read": False, "default_ttl": 5}
    store = use({"adapter": "./my_store.py:timed", "ttl": quiet}, base)
    assert store.ttl_config == quiet
    for name, ttl, field in [
        ("theirs", quiet, "store.ttl"),
        ("timed", {"default_ttl": 5}, "store.ttl.refresh_on_read"),
        ("ours", quiet, "store.ttl"),
    ]:
        with pytest.raises(Misconfigured, match=rf"my_store\.py:{name}") as caught:
            use({"adapter": f"./my_store.py:{name}", "ttl": ttl}, base)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("section", "message", "field"),
    [
        ({}, "one of path and adapter$", "store"),
        ({"path": "./my_store.py:theirs", "adapter": "./my_store.py:theirs"}, "remove one", "store"),
        ({"path": "./my_store.py:theirs", "index": {"dims": 2}}, "beside store.path", "store.index"),
        ({"adapter": "./my_store.py:theirs", "index": {"dims": 2}}, "beside store.adapter", "store.index"),
        ({"path": 5}, r'write "\./file\.py:name"', "store.path"),
        ({"path": "./my_store.py"}, 'must be "./file.py:name"', "store.path"),
        ({"path": "./absent.py:theirs"}, r"no file .*absent\.py", "store.path"),
        ({"path": "absent_module:theirs"}, "no module absent_module", "store.path"),
        ({"path": "./my_store.py:absent"}, r"my_store\.py has no attribute 'absent'", "store.path"),
        ({"adapter": "./broken.py:x"}, r"broken\.py failed to load: ModuleNotFoundError", "store.adapter"),
        ({"adapter": "./my_store.py:number"}, r"my_store\.py:number' gives 5; make it", "store.adapter"),
        ({"path": "./my_store.py:needing"}, r"my_store\.py:needing' needs arguments", "store.path"),
        (
            {"path": "./my_store.py:generator"},
            "gives <async_gen.*; make it .*context manager",
            "store.path",
        ),
    ],
)
def test_what_cannot_be_loaded_is_refused_by_file_attribute_and_fix(
    base: Path, section: Mapping[str, Any], message: str, field: str
) -> None:
    with pytest.raises(Misconfigured, match=message) as caught:
        use(section, base)
    assert caught.value.field == field


def test_an_error_while_a_store_is_opened_is_its_own(base: Path) -> None:
    with pytest.raises(RuntimeError, match="no such host"):
        use({"path": "./my_store.py:failing"}, base)


def test_langgraphs_store_stays_usable_beside_ours(base: Path) -> None:
    store = use({"path": "./my_store.py:function"}, base)
    assert isinstance(store, ForeignStore)
    assert LangGraphInMemoryStore().search(("a",)) == []
