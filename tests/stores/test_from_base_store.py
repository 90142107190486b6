"""What ``from_base_store`` accepts, what it asks of a store, and what becomes of the store's errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
)
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom import Capability, InMemoryStore, PutItem
from stateroom.drivers.memory import MemoryItems
from stateroom.errors import InvalidNamespace, LimitExceeded, Misconfigured, NotSupported, Unavailable
from stateroom.search.index_config import IndexSettings
from stateroom.stores.foreign import from_base_store
from stateroom.stores.foreign_finding import PAGE
from tests.conformance.hostile import HostileStore, RefusingStore


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[float(text.count("a")), float(text.count("b")), 1.0] for text in texts]


class Recording(LangGraphInMemoryStore):
    """LangGraph's store, and every operation that it was asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[Op] = []

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        self.asked += (given := list(ops))
        return super().batch(given)

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        self.asked += (given := list(ops))
        return await super().abatch(given)


class Timed(Recording):
    """Would let items expire, and says that it does."""

    supports_ttl = True
    swept = 0

    def sweep_ttl(self) -> int:
        self.swept += 1
        return 3 if self.swept == 1 else 0


class Lagging(HostileStore):
    """Answers what an item was, too, as where a put falls between two pages."""

    def __init__(self) -> None:
        super().__init__()
        self.old: list[Item] = []

    @override
    def find(self, op: SearchOp) -> list[Item]:
        return [*self.old, *self.kept.values(), *self.old]


class Failing(BaseStore):
    """Fails as it is told."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise self.error

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        raise self.error


class SyncOnly(LangGraphInMemoryStore):
    """Has no async methods, like LangGraph's SQLite store."""

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        raise NotImplementedError("use the async class")


class LoopBound(AsyncBatchedBaseStore):
    """Belongs to one event loop, like LangGraph's AsyncPostgresStore."""

    supports_ttl = True

    def __init__(self) -> None:
        super().__init__()
        self._inner = LangGraphInMemoryStore()
        self.threads: set[int] = set()

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        self.threads.add(threading.get_ident())
        return await self._inner.abatch(ops)

    async def setup(self) -> None:
        self.threads.add(threading.get_ident())

    async def sweep_ttl(self) -> int:
        self.threads.add(threading.get_ident())
        return 0


class TestWhatItAccepts:
    def test_a_stateroom_store_is_returned_as_it_is(self) -> None:
        store = InMemoryStore()
        assert from_base_store(store) is store
        foreign = from_base_store(LangGraphInMemoryStore())
        assert from_base_store(foreign) is foreign
        with pytest.raises(Misconfigured, match="already") as caught:
            from_base_store(store, ttl={"refresh_on_read": False})
        assert caught.value.field == "ttl"

    def test_a_driver_becomes_a_store_with_all_it_can(self) -> None:
        items = MemoryItems(IndexSettings(), index_keys=(), clock=lambda: 1)
        store = from_base_store(items, ttl={"default_ttl": 5})
        item = store.put_item(("a",), "k", {"t": "giraffe"}, if_absent=True)
        assert (item.revision, item.ttl) == (1, 5)
        assert [hit.key for hit in store.search((), query="giraffes")] == ["k"]
        assert store.capabilities == items.capabilities

    def test_what_can_be_told_of_a_store_is_its_capabilities(self) -> None:
        least = {Capability.TEXT, Capability.ANALYSIS}
        assert from_base_store(HostileStore()).capabilities == least
        least |= {Capability.KEY_ORDER, Capability.FULL_LIMITS}
        assert from_base_store(LangGraphInMemoryStore()).capabilities == least
        vectors = LangGraphInMemoryStore(index={"embed": embed, "dims": 3})
        assert from_base_store(vectors).capabilities == least | {Capability.VECTOR}
        timed = from_base_store(Timed())
        assert timed.capabilities == least | {Capability.TTL}
        assert timed.supports_ttl

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            (LangGraphInMemoryStore, "the class InMemoryStore; pass an instance"),
            (object(), "no method 'batch'; pass a LangGraph BaseStore"),
            (None, "no method 'batch'"),
            (type("Half", (), {"batch": lambda _self, _ops: []})(), "no method 'abatch'"),
            (type("Odd", (), {"batch": 1, "abatch": 2})(), "no method 'batch'"),
            (asynccontextmanager(lambda: (yield))(), "context manager: enter it"),  # type: ignore[arg-type,misc]
        ],
    )
    def test_a_mis_shaped_object_is_refused_by_what_it_lacks(self, shape: Any, message: str) -> None:
        with pytest.raises(Misconfigured, match=message) as caught:
            from_base_store(shape)
        assert caught.value.field == "store"

    @pytest.mark.parametrize(
        ("store", "ttl", "field"),
        [
            (LangGraphInMemoryStore(), {"refresh_on_read": False}, "ttl"),
            (LangGraphInMemoryStore(), {"default_ttl": 1}, "ttl"),
            (Timed(), {}, "ttl.refresh_on_read"),
            (Timed(), {"refresh_on_read": True}, "ttl.refresh_on_read"),
            (Timed(), {"refresh_on_read": False, "default_ttl": -1}, "ttl.default_ttl"),
            (Timed(), {"unknown": 1}, "ttl.unknown"),
            (type("NoSweep", (HostileStore,), {"supports_ttl": True})(), {"refresh_on_read": False}, "ttl"),
        ],
    )
    def test_a_ttl_that_could_have_no_effect_is_refused(self, store: Any, ttl: Any, field: str) -> None:
        with pytest.raises(Misconfigured) as caught:
            from_base_store(store, ttl=ttl)
        assert caught.value.field == field


class TestWhatIsForwarded:
    def test_ttl_goes_with_the_put_and_refreshing_with_the_read(self) -> None:
        theirs = Timed()
        store = from_base_store(theirs, ttl={"default_ttl": 5, "refresh_on_read": False})
        store.put(("a",), "default", {})
        store.put(("a",), "given", {}, ttl=0.5)
        store.put(("a",), "never", {}, ttl=None)
        store.get(("a",), "given")
        store.get(("a",), "given", refresh_ttl=True)
        puts = [op.ttl for op in theirs.asked if isinstance(op, PutOp)]
        assert puts == [5, 0.5, None]
        assert [op.refresh_ttl for op in theirs.asked if isinstance(op, GetOp)] == [False, True]

    def test_a_search_refreshes_what_it_answers_and_nothing_else(self) -> None:
        theirs = Timed()
        store = from_base_store(theirs)
        store.batch([PutItem(("a",), key, {"t": "giraffe"}) for key in "xyz"])
        theirs.asked.clear()
        (hit,) = store.search((), query="giraffe", limit=1, offset=1)
        assert not any(op.refresh_ttl for op in theirs.asked if isinstance(op, SearchOp))
        refreshed = [op for op in theirs.asked if isinstance(op, GetOp)]
        assert refreshed == [GetOp(hit.namespace, hit.key, True)]
        theirs.asked.clear()
        store.search((), refresh_ttl=False)
        assert not [op for op in theirs.asked if isinstance(op, GetOp)]

    def test_the_configuration_of_the_store_itself_counts_unless_another_is_given(self) -> None:
        theirs = Timed()
        theirs.ttl_config = {"default_ttl": 7, "refresh_on_read": False}
        from_base_store(theirs).put(("a",), "k", {})
        from_base_store(theirs, ttl={"refresh_on_read": False}).put(("a",), "k", {})
        assert [op.ttl for op in theirs.asked if isinstance(op, PutOp)] == [7, None]
        theirs.asked.clear()
        from_base_store(theirs).get(("a",), "k")
        assert theirs.asked == [GetOp(("a",), "k", False)]

    def test_sweeping_is_the_stores_own(self) -> None:
        theirs = Timed()
        store = from_base_store(theirs)
        assert (store.sweep_ttl(), store.sweep_ttl()) == (3, 0)
        assert asyncio.run(store.asweep_ttl()) == 0
        assert theirs.swept == 4

    def test_index_goes_to_a_store_that_has_one_and_is_refused_otherwise(self) -> None:
        theirs = Recording(index={"embed": embed, "dims": 3})
        store = from_base_store(theirs)
        store.put(("a",), "configured", {"t": "a"})
        store.put(("a",), "none", {"t": "a"}, index=False)
        store.put(("a",), "paths", {"t": "a"}, index=["t"])
        assert [op.index for op in theirs.asked if isinstance(op, PutOp)] == [None, False, ["t"]]
        assert {hit.key for hit in store.search((), query="a")} == {"configured", "paths"}
        plain = from_base_store(LangGraphInMemoryStore())
        for index in (False, ["t"]):
            with pytest.raises(NotSupported) as caught:
                plain.batch([PutItem(("a",), "first", {}), PutItem(("a",), "k", {}, index=index)])
            assert caught.value.field == "index"
        assert plain.count(()) == 0

    def test_a_put_that_nobody_wants_answered_is_one_operation(self) -> None:
        theirs = Recording()
        store = from_base_store(theirs)
        store.put(("a",), "k", {"n": 1})
        asyncio.run(store.aput(("a",), "k", {"n": 2}))
        store.batch([PutOp(("a",), "k", {"n": 3})])
        store.delete(("a",), "k")
        assert [type(op) for op in theirs.asked] == [PutOp] * 4
        theirs.asked.clear()
        store.put_item(("a",), "k", {"n": 1})
        assert [type(op) for op in theirs.asked] == [PutOp, GetOp]

    def test_a_store_is_read_page_by_page_without_filter_query_or_refresh(self) -> None:
        theirs = Recording()
        store = from_base_store(theirs)
        store.batch([PutOp(("a",), str(n), {"n": n}) for n in range(PAGE + 5)])
        theirs.asked.clear()
        assert store.count(("a",), filter={"n": {"$gte": PAGE}}) == 5
        pages = [0, PAGE, PAGE + 5]
        assert theirs.asked == [SearchOp(("a",), None, PAGE, offset, None, False) for offset in pages]

    def test_a_listing_of_keys_reads_its_namespace_page_by_page_and_refreshes_nothing(self) -> None:
        theirs = Timed()
        store = from_base_store(theirs)
        keys = [f"/{n:04}.md" for n in range(PAGE + 5)]
        store.batch([PutOp(("a",), key, {"content": ["x" * int(key[1:5])]}) for key in keys])
        theirs.asked.clear()
        entries = store.list_keys(("a",), prefix="/10", containing="x", values=True, limit=3)
        assert [(entry.key, entry.size) for entry in entries] == [
            (f"/100{n}.md", 1_000 + n) for n in range(3)
        ]
        pages = [0, PAGE, PAGE + 5]
        assert theirs.asked == [SearchOp(("a",), None, PAGE, offset, None, False) for offset in pages]

    def test_a_listing_of_nothing_asks_nothing(self) -> None:
        theirs = Recording()
        store = from_base_store(theirs)
        store.put(("a",), "k", {})
        theirs.asked.clear()
        assert store.list_keys(("a",), limit=0) == store.list_keys(()) == []
        assert theirs.asked == []

    def test_the_writes_of_a_batch_travel_together_if_they_can(self) -> None:
        theirs = HostileStore()
        store = from_base_store(theirs)
        puts = [PutOp(("a",), str(n % 3), {"n": n}) for n in range(5)]
        store.batch([*puts, GetOp(("a",), "0"), GetOp(("a",), "1")])
        assert [len(ops) for ops in theirs.calls] == [3, 2, 2]


class TestVectors:
    def test_pages_are_cut_here_and_scores_are_the_stores_own(self) -> None:
        theirs = Recording(index={"embed": embed, "dims": 3})
        store = from_base_store(theirs)
        store.batch([PutOp(("a",), str(n), {"t": "a" * n}) for n in range(30)])
        store.put(("a",), "unembedded", {"t": "aaa"}, index=False)
        everything = [(hit.key, hit.score) for hit in store.search((), query="aaa", limit=50)]
        assert len(everything) == 30
        pages = [store.search((), query="aaa", limit=4, offset=offset) for offset in range(0, 32, 4)]
        assert [(hit.key, hit.score) for page in pages for hit in page] == everything
        asked = [op for op in theirs.asked if isinstance(op, SearchOp)]
        assert {op.offset for op in asked} == {0}
        assert {op.filter for op in asked} == {None}

    def test_a_store_that_answers_less_than_it_has_is_asked_for_more(self) -> None:
        class Crowded(Recording):
            """Answers a third of what is asked for, as where each item has many vectors."""

            @override
            def batch(self, ops: Iterable[Op]) -> list[Result]:
                asked = [op._replace(limit=op.limit // 3) if isinstance(op, SearchOp) else op for op in ops]
                return super().batch(asked)

        store = from_base_store(Crowded(index={"embed": embed, "dims": 3}))
        store.batch([PutOp(("a",), str(n), {"t": "a" * n, "n": n}) for n in range(150)])
        assert len(store.search((), query="a", limit=200)) == 150
        assert [hit.key for hit in store.search((), query="a", filter={"n": 149})] == ["149"]

    def test_hybrid_search_needs_both_and_explains_itself(self) -> None:
        theirs = LangGraphInMemoryStore(index={"embed": embed, "dims": 3})
        store = from_base_store(theirs)
        store.put(("a",), "words", {"t": "giraffe"})
        store.put(("a",), "letters", {"t": "abab"})
        found = store.search((), query="giraffe", mode="hybrid", explain=True)
        assert [hit.key for hit in found] == ["words", "letters"]
        assert found[1].components is not None
        assert found[1].components["text"] is None
        assert found[1].components["vector"] is not None
        with pytest.raises(NotSupported):
            from_base_store(LangGraphInMemoryStore()).search((), query="x", mode="hybrid")


class TestFindingEverything:
    def test_a_store_that_refuses_to_search_everything_is_asked_root_by_root(self) -> None:
        theirs = RefusingStore()
        store = from_base_store(theirs)
        for n in range(6):
            store.put((f"root{n % 3}", str(n)), str(n), {"n": n})
        assert [hit.key for hit in store.search((), limit=4)] == ["5", "4", "3", "2"]
        theirs.calls.clear()
        assert store.count(()) == 6
        prefixes = [op.namespace_prefix for ops in theirs.calls for op in ops if isinstance(op, SearchOp)]
        assert () not in prefixes

    def test_only_namespaces_that_hold_an_item_are_listed(self) -> None:
        theirs = LangGraphInMemoryStore()
        store = from_base_store(theirs)
        assert theirs.get(("looked", "at"), "k") is None
        theirs.put(("left",), "k", {})
        theirs.delete(("left",), "k")
        store.put(("a", "b"), "k", {})
        assert ("left",) in theirs.list_namespaces()
        assert store.list_namespaces() == [("a", "b")]
        store.put(("a",), "k", {})
        assert store.list_namespaces() == [("a",), ("a", "b")]
        store.delete(("a",), "k")
        assert store.list_namespaces() == [("a", "b")]

    def test_of_two_versions_of_an_item_the_later_counts(self) -> None:
        theirs = Lagging()
        store = from_base_store(theirs)
        store.put(("a",), "k", {"n": 1})
        theirs.old.extend(theirs.kept.values())
        store.put(("a",), "k", {"n": 2})
        assert [hit.value for hit in store.search(())] == [{"n": 2}]

    def test_keys_are_listed_however_a_store_answers(self) -> None:
        theirs = HostileStore()
        store = from_base_store(theirs)
        store.batch([PutOp((label,), key, {"in": label}) for label in ("a", "ab", "b") for key in "zyx"])
        store.put(("a", "b"), "deeper", {})
        for _ in range(5):
            assert [entry.key for entry in store.list_keys(("a",))] == ["x", "y", "z"]
            assert [entry.value for entry in store.list_keys(("a",), values=True)] == [{"in": "a"}] * 3
        assert [op.namespace_prefix for op in theirs.calls[-1] if isinstance(op, SearchOp)] == [("a",)]

    def test_of_two_versions_of_an_item_the_later_is_listed(self) -> None:
        theirs = Lagging()
        store = from_base_store(theirs)
        store.put(("a",), "/f", {"content": ["old"]})
        theirs.old.extend(theirs.kept.values())
        store.put(("a",), "/f", {"content": ["newer"]})
        assert [entry.size for entry in store.list_keys(("a",))] == [5]
        assert store.list_keys(("a",), containing="old") == []

    def test_what_others_put_under_names_of_theirs_is_left_out(self) -> None:
        theirs = HostileStore()
        theirs.batch([PutOp((), "k", {"n": 1}), PutOp(("a",), 5, {"n": 2})])  # type: ignore[arg-type]
        store = from_base_store(theirs)
        store.put(("a",), "k", {"n": 3})
        assert [hit.value for hit in store.search(())] == [{"n": 3}]

    def test_what_others_put_that_is_no_json_is_named(self) -> None:
        theirs = LangGraphInMemoryStore()
        theirs.put(("a",), "k", {"deep": [{1, 2}]})
        with pytest.raises(NotSupported, match=r"'k' in \('a',\).*value\.deep\[0\]") as caught:
            from_base_store(theirs).get(("a",), "k")
        assert caught.value.field == "value.deep[0]"
        with pytest.raises(NotSupported, match=r"'k' in \('a',\)"):
            from_base_store(theirs).list_keys(("a",), containing="x")

    def test_values_of_others_are_converted_as_if_they_had_been_put_here(self) -> None:
        theirs = LangGraphInMemoryStore()
        theirs.put(("a",), "k", {"pair": (1, 2)})
        store = from_base_store(theirs)
        assert [hit.value for hit in store.search((), filter={"pair": [1, 2]})] == [{"pair": [1, 2]}]


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "kind", "field"),
        [
            (ConnectionResetError("gone"), Unavailable, None),
            (TimeoutError("slow"), Unavailable, None),
            (type("OperationalError", (Exception,), {})("server closed"), Unavailable, None),
            (NotImplementedError("no such thing"), NotSupported, None),
            (InvalidNamespaceError("no dots"), InvalidNamespace, "namespace"),
            (Unavailable("busy"), Unavailable, None),
            (
                type("OperationalError", (Exception,), {"sqlstate": "54000"})("row too large"),
                LimitExceeded,
                None,
            ),
        ],
    )
    def test_an_error_becomes_ours_where_it_is_clear_which(
        self, error: Exception, kind: type[Exception], field: str | None
    ) -> None:
        store = from_base_store(Failing(error))
        with pytest.raises(kind) as caught:
            store.put(("a",), "k", {})
        assert getattr(caught.value, "field", None) == field
        assert caught.value is error or caught.value.__cause__ is error
        with pytest.raises(kind):
            asyncio.run(store.aget(("a",), "k"))
        with pytest.raises(kind):
            store.search(("a",))

    @pytest.mark.parametrize(
        "error",
        [
            KeyError("x"),
            ValueError("odd"),
        ],
    )
    def test_another_error_passes_through_with_a_note(self, error: Exception) -> None:
        store = from_base_store(Failing(error))
        with pytest.raises(type(error)) as caught:
            store.get(("a",), "k")
        assert caught.value is error
        assert any("from_base_store" in note for note in error.__notes__)

    def test_one_callers_foreign_error_is_nobody_elses(self) -> None:
        class Picky(LangGraphInMemoryStore):
            @override
            async def abatch(self, ops: Iterable[Op]) -> list[Result]:
                if any(isinstance(op, GetOp) and op.key == "bad" for op in ops):
                    raise KeyError("bad")
                return await super().abatch(ops)

        theirs = Picky(index={"embed": embed, "dims": 3})
        store = from_base_store(theirs)

        async def together() -> list[Any]:
            keys = ["good", "bad", "also good"]
            return await asyncio.gather(*(store.aget(("a",), key) for key in keys), return_exceptions=True)

        outcomes = asyncio.run(together())
        assert [type(outcome) for outcome in outcomes] == [type(None), KeyError, type(None)]

    def test_a_store_that_answers_too_little_is_refused(self) -> None:
        class Short(LangGraphInMemoryStore):
            @override
            def batch(self, ops: Iterable[Op]) -> list[Result]:
                return []

        with pytest.raises(Misconfigured, match="0 results for 1 operations"):
            from_base_store(Short()).get(("a",), "k")

    def test_a_put_that_cannot_be_read_back_says_so(self) -> None:
        class Forgetful(LangGraphInMemoryStore):
            @override
            def batch(self, ops: Iterable[Op]) -> list[Result]:
                return super().batch([op for op in ops if not isinstance(op, PutOp)] or [ListNamespacesOp()])

        store = from_base_store(Forgetful())
        store.put(("a",), "k", {})
        with pytest.raises(Unavailable, match="before it could be read back"):
            store.put_item(("a",), "k", {})


class TestLoops:
    def test_a_store_without_async_methods_is_served_from_a_thread(self) -> None:
        theirs = SyncOnly(index={"embed": embed, "dims": 3})
        store = from_base_store(theirs)

        async def both() -> list[str]:
            await store.aput(("a",), "k", {"t": "a"})
            return [hit.key for hit in await store.asearch((), query="a")]

        assert asyncio.run(both()) == ["k"]

    def test_a_store_of_one_loop_is_awaited_there_and_refuses_sync_calls_on_it(self) -> None:
        async def run() -> None:
            theirs = LoopBound()
            store = from_base_store(theirs)
            await store.asetup()
            await store.aput(("a",), "k", {"n": 1})
            assert await store.acount(()) == 1
            assert await store.asweep_ttl() == 0
            with pytest.raises(NotSupported, match="await"):
                store.get(("a",), "k")
            for refused in (store.sweep_ttl, store.setup):
                with pytest.raises(NotSupported, match="await a"):
                    refused()
            # From other threads everything works, and is done on that loop.
            item = await asyncio.to_thread(store.get, ("a",), "k")
            assert item is not None
            assert await asyncio.to_thread(store.sweep_ttl) == 0
            assert theirs.threads == {threading.get_ident()}

        asyncio.run(run())

    def test_callers_of_one_tick_write_to_an_item_in_their_order_and_to_others_at_once(self) -> None:
        class Slow(LangGraphInMemoryStore):
            """Takes the longer the earlier it is asked, as a pool of connections may."""

            at_once = most = 0

            @override
            async def abatch(self, ops: Iterable[Op]) -> list[Result]:
                given = list(ops)
                self.at_once += 1
                self.most = max(self.most, self.at_once)
                waits = [op.value["waits"] for op in given if isinstance(op, PutOp) and op.value]
                for _ in range(sum(waits)):
                    await asyncio.sleep(0)
                self.at_once -= 1
                return await super().abatch(given)

        theirs = Slow(index={"embed": embed, "dims": 3})
        store = from_base_store(theirs)

        async def run() -> list[Any]:
            puts = [store.aput(("a",), f"k{n % 2}", {"waits": 20 - n}) for n in range(10)]
            *_, seen = await asyncio.gather(*puts, store.aget(("a",), "k1"))
            assert seen is not None
            return [seen.value["waits"], {hit.value["waits"] for hit in await store.asearch(())}]

        assert asyncio.run(run()) == [11, {11, 12}]
        assert theirs.most == 2

    def test_setting_up_is_passed_on_and_closing_is_not(self) -> None:
        class Owned(LangGraphInMemoryStore):
            done: tuple[str, ...] = ()

            def setup(self) -> None:
                self.done += ("setup",)

            def close(self) -> None:
                self.done += ("close",)

        theirs = Owned()
        with from_base_store(theirs) as store:
            store.put(("a",), "k", {})
        assert theirs.done == ("setup",)
