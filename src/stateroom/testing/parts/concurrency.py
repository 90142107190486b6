"""Callers in many threads, tasks and event loops at once."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from stateroom.contract.items import Capability
from stateroom.errors import Conflict
from stateroom.stores.base import Store
from stateroom.stores.operations import GetItem, PutItem
from stateroom.testing.comparing import revision_of
from stateroom.testing.harness import MEET, Harness, Memory, Opens, Script, ask
from stateroom.testing.needs import needs

__all__ = ["ConcurrencySuite"]

CALLERS = 8


class ConcurrencySuite(Harness):
    """Every method may be called from any thread and any event loop."""

    def test_callers_that_put_at_once_lose_nothing(self, memory: Memory) -> None:
        def caller(number: int) -> Script:
            yield MEET
            for part in range(10):
                yield ask("put", ("a", str(number)), str(part), {"n": number, "part": part})

        assert memory.together([caller(number) for number in range(CALLERS)]) == [None] * CALLERS
        assert memory.count(("a",)) == CALLERS * 10
        for number in range(CALLERS):
            # One caller's puts keep their order.
            assert memory.keys(("a", str(number))) == [str(part) for part in reversed(range(10))]
        found = memory.search(("a",), limit=1_000)
        moments = [hit.updated_at for hit in found]
        assert moments == sorted(moments, reverse=True)
        if Capability.CONDITIONAL in memory.capabilities:
            revisions = [revision_of(hit) for hit in found]
            assert revisions == sorted(set(revisions), reverse=True)

    def test_each_caller_sees_its_own_writes(self, memory: Memory) -> None:
        def caller(number: int) -> Script:
            seen = []
            for part in range(6):
                yield ask("put", ("a", str(number)), "k", {"part": part})
                item = yield ask("get", ("a", str(number)), "k")
                (hit,) = yield ask("search", ("a", str(number)), filter={"part": part})
                seen.append((item.value["part"], hit.value["part"]))
            yield ask("delete", ("a", str(number)), "k")
            return seen, (yield ask("count", ("a", str(number))))

        outcomes = memory.together([caller(number) for number in range(CALLERS)])
        assert outcomes == [([(part, part) for part in range(6)], 0)] * CALLERS

    @needs(Capability.CONDITIONAL)
    def test_edits_under_a_condition_lose_no_update(self, memory: Memory) -> None:
        memory.put(("a",), "counter", {"by": []})

        def caller(number: int) -> Script:
            item = yield ask("get", ("a",), "counter")
            # All have read before one of them writes, so that they are bound to collide.
            yield MEET
            while True:
                value = {"by": [*item.value["by"], number]}
                try:
                    return (
                        yield ask("put_item", ("a",), "counter", value, if_revision=item.revision)
                    ).revision
                except Conflict:
                    item = yield ask("get", ("a",), "counter")

        revisions = memory.together([caller(number) for number in range(20)])
        assert len(set(revisions)) == 20
        item = memory.read(("a",), "counter")
        assert sorted(item.value["by"]) == list(range(20))
        assert item.revision == max(revisions)
        order = sorted(range(20), key=lambda number: revisions[number])
        assert item.value["by"] == order

    @needs(Capability.CONDITIONAL)
    def test_of_edits_from_one_revision_exactly_one_succeeds(self, memory: Memory) -> None:
        item = memory.put_item(("a",), "k", {"by": None})

        def caller(number: int) -> Script:
            yield MEET
            yield ask("put", ("a",), "k", {"by": number}, if_revision=item.revision)
            return number

        outcomes = memory.together([caller(number) for number in range(20)])
        winners = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert len(winners) == 1
        assert [type(each) for each in outcomes if not isinstance(each, int)] == [Conflict] * 19
        assert memory.read(("a",), "k").value == {"by": winners[0]}

    @needs(Capability.CONDITIONAL)
    def test_of_many_who_create_or_delete_exactly_one_succeeds(self, memory: Memory) -> None:
        def create(number: int) -> Script:
            yield MEET
            return (yield ask("put_item", ("a",), "k", {"by": number}, if_absent=True))

        outcomes = memory.together([create(number) for number in range(20)])
        (item,) = [outcome for outcome in outcomes if not isinstance(outcome, Conflict)]
        assert memory.read(("a",), "k").value == item.value

        def remove() -> Script:
            yield MEET
            yield ask("delete", ("a",), "k", if_revision=item.revision)
            return "removed"

        outcomes = memory.together([remove() for _ in range(20)])
        assert [each for each in outcomes if not isinstance(each, Conflict)] == ["removed"]
        assert memory.get(("a",), "k") is None

    def test_a_reader_sees_a_batch_whole_or_not_at_all(self, memory: Memory) -> None:
        keys = ["left", "right"]

        def write() -> Script:
            for number in range(15):
                yield ask("batch", [PutItem(("a",), key, {"n": number}) for key in keys])

        def read() -> Script:
            seen = set()
            for _ in range(15):
                pair = yield ask("batch", [GetItem(("a",), key) for key in keys])
                seen.add(tuple(item and item.value["n"] for item in pair))
                found = yield ask("search", ("a",))
                seen.add(tuple(hit.value["n"] for hit in found) or (None, None))
            return seen

        outcomes = memory.together([write(), *(read() for _ in range(3))])
        assert all(memory.read(("a",), key).value == {"n": 14} for key in keys)
        if Capability.ATOMIC_BATCH in memory.capabilities:
            assert [
                pair for seen in outcomes[1:] for pair in seen if len(set(pair)) > 1 or len(pair) < 2
            ] == []

    @needs(Capability.TEXT)
    def test_queries_beside_writes_find_what_was_there_before(self, memory: Memory) -> None:
        memory.batch([PutItem(("a", "old"), str(n), {"t": "giraffe"}) for n in range(5)])

        def write(number: int) -> Script:
            for part in range(5):
                yield ask("put", ("a", "new"), f"{number}-{part}", {"t": "giraffe zebra"})

        def read() -> Script:
            found = []
            for _ in range(5):
                hits = yield ask("search", ("a", "old"), query="giraffe", mode="text")
                found.append(sorted(hit.key for hit in hits))
            return found

        outcomes = memory.together([*(write(n) for n in range(3)), *(read() for _ in range(3))])
        assert outcomes == [None] * 3 + [[[str(n) for n in range(5)]] * 5] * 3
        assert len(memory.search(("a",), query="zebra", mode="text", limit=100)) == 15

    def test_event_loops_one_after_the_other_may_use_one_store(self, memory: Memory) -> None:
        assert [asyncio.run(put_and_get(memory.store, number)) for number in range(3)] == [0, 1, 2]
        assert memory.count(("a",)) == 3

    def test_event_loops_in_several_threads_may_use_one_store(self, memory: Memory) -> None:
        def run(number: int) -> list[int]:
            return asyncio.run(put_and_get_at_once(memory.store, number))

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(run, range(4))) == [[n * 5 + part for part in range(5)] for n in range(4)]
        assert memory.count(("a",)) == 20

    def test_threads_and_tasks_may_use_one_store_at_once(self, memory: Memory) -> None:
        def put(number: int) -> None:
            memory.store.put(("thread",), str(number), {"n": number})

        async def both() -> None:
            threads = [asyncio.to_thread(put, number) for number in range(10)]
            await asyncio.gather(*threads, *(put_and_get(memory.store, number) for number in range(5)))

        asyncio.run(both())
        assert (memory.count(("thread",)), memory.count(("a",))) == (10, 5)

    def test_a_sync_call_inside_a_running_loop_works(self, memory: Memory) -> None:
        store = memory.store

        async def mixed() -> list[object]:
            store.put(("a",), "sync", {"n": 1})
            await store.aput(("a",), "async", {"n": 2})
            item = store.get(("a",), "async")
            counted = store.count(("a",))
            names = store.list_namespaces()
            store.delete(("a",), "sync")
            return [item and item.value, counted, names, [hit.key for hit in await store.asearch(("a",))]]

        assert asyncio.run(mixed()) == [{"n": 2}, 2, [("a",)], ["async"]]

    def test_a_cancelled_call_harms_no_other(self, memory: Memory) -> None:
        store = memory.store

        async def cancelling() -> int:
            calls = [asyncio.create_task(put_and_get(store, number)) for number in range(6)]
            await asyncio.sleep(0)
            calls[0].cancel()
            calls[3].cancel()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes[0::3]] == [asyncio.CancelledError] * 2
            assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [1, 2, 4, 5]
            return await put_and_get(store, 7)

        assert asyncio.run(cancelling()) == 7
        assert memory.count(("a",), filter={"n": {"$in": [1, 2, 4, 5, 7]}}) == 5

    def test_a_store_is_its_own_context_sync_and_async(self, opens: Opens) -> None:
        with opens().store as store:
            store.put(("a",), "k", {"n": 1})
            assert store.count(("a",)) == 1

        async def within() -> int:
            async with opens().store as store:
                await store.aput(("a",), "other", {"n": 1})
                return await store.acount(("a",), filter={"n": 1})

        assert asyncio.run(within()) == (2 if Capability.DURABLE in opens.capabilities else 1)

    def test_a_second_opening_sees_what_the_first_does_if_the_store_is_for_several_processes(
        self, opens: Opens
    ) -> None:
        first, second = opens(), opens()
        first.put(("a",), "k", {"t": "giraffe"})
        if Capability.MULTI_PROCESS not in opens.capabilities:
            assert second.get(("a",), "k") is None
            return
        for number, (writer, reader) in enumerate([(first, second), (second, first)] * 2):
            writer.put(("b", str(number)), "k", {"t": "zebra", "n": number})
            assert reader.read(("b", str(number)), "k").value["n"] == number
            assert reader.keys((), filter={"n": number}) == ["k"]
            assert reader.list_namespaces(suffix=(str(number),)) == [("b", str(number))]
            if Capability.TEXT in opens.capabilities:
                assert len(reader.search(("b",), query="zebra", mode="text")) == number + 1
        second.delete(("a",), "k")
        assert first.get(("a",), "k") is None
        assert first.search((), filter={"t": "giraffe"}) == []
        if Capability.TEXT in opens.capabilities:
            assert first.search((), query="giraffe", mode="text") == []


async def put_and_get(store: Store, number: int) -> int:
    """Put an item and return what another call says of it."""
    await store.aput(("a",), str(number), {"n": number})
    item = await store.aget(("a",), str(number))
    assert item is not None
    return int(item.value["n"])


async def put_and_get_at_once(store: Store, caller: int) -> list[int]:
    """Do so five times in one loop."""
    return await asyncio.gather(*(put_and_get(store, caller * 5 + part) for part in range(5)))
