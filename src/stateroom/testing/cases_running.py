"""Users' cases about running: event loops, threads, edits at the same time, time to live, set-up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stateroom.clock import ManualClock
from stateroom.contract.items import Capability
from stateroom.errors import Conflict
from stateroom.stores.base import Store
from stateroom.testing.embedders import Coordinates
from stateroom.testing.harness import Harness, Memory, Opens, Script, ask
from stateroom.testing.needs import needs

__all__ = ["RunningCases"]

N = ("a", "b")
EDITS = 20


async def _embedded_later(texts: Sequence[str]) -> list[list[float]]:
    await asyncio.sleep(0)
    return [[float(len(text)), 1.0] for text in texts]


def _edit(item: str, tries: int) -> Script:
    """Add an item below the head of a text by reading, changing and writing back; return whether it is in."""
    for _ in range(tries):
        found = yield ask("get", N, "/n.md")
        text = found.value["text"].replace("HEAD|", f"HEAD|\n{item}", 1)
        try:
            yield ask("put", N, "/n.md", {"text": text}, if_revision=found.revision)
        except Conflict:
            continue
        return True
    return False


def _items(memory: Memory) -> set[str]:
    lines = memory.read(N, "/n.md").value["text"].splitlines()
    return set(lines[1:])


async def _use_a_store(store: Store, name: str) -> list[str]:
    await store.aput(N, name, {"text": name})
    assert (await store.aget(N, name)) is not None
    return [item.key for item in await store.asearch(N, filter={"text": name})]


class RunningCases(Harness):
    """A store may be used from anywhere, by anybody, at any time."""

    def test_A07_sync_calls_work_while_a_loop_runs_in_their_thread(self, opens: Opens) -> None:
        # Opened but not set up, so that the first call does that too.
        store = opens().store

        async def node() -> None:
            store.put(N, "k", {"n": 1})
            assert store.put_item(N, "own", {"n": 2}).key == "own"
            found = store.get(N, "k")
            assert found is not None
            assert found.value == {"n": 1}
            assert [item.key for item in store.search(N)] == ["own", "k"]
            assert store.count(N) == 2
            assert store.list_namespaces() == [N]
            await store.aput(N, "later", {"n": 3})
            store.delete(N, "k")
            assert await store.aget(N, "k") is None
            assert store.batch([]) == []

        asyncio.run(node())

    @needs(Capability.VECTOR)
    def test_A07_an_async_embedder_serves_sync_calls_inside_a_running_loop(self, opens: Opens) -> None:
        store = opens(index={"embed": _embedded_later, "dims": 2, "fields": ["text"]}).store

        async def node() -> list[str]:
            store.put(N, "short", {"text": "x"})
            store.put(N, "long", {"text": "x" * 50})
            return [item.key for item in store.search(N, query="y" * 50)]

        assert asyncio.run(node()) == ["long", "short"]

    def test_A07_one_store_serves_the_loops_of_several_threads(self, opens: Opens) -> None:
        memory = opens()
        memory.put(N, "first", {"text": "first"})
        names = [f"loop {number}" for number in range(4)]
        with ThreadPoolExecutor(len(names)) as threads:
            found = list(threads.map(lambda name: asyncio.run(_use_a_store(memory.store, name)), names))
        assert found == [[name] for name in names]
        # The loop that was there first still works.
        assert set(memory.keys(N)) == {"first", *names}

    def test_A07_a_second_loop_may_follow_the_first(self, opens: Opens) -> None:
        store = opens().store
        assert asyncio.run(_use_a_store(store, "one")) == ["one"]
        assert asyncio.run(_use_a_store(store, "two")) == ["two"]

    @needs(Capability.CONDITIONAL)
    def test_A16_of_edits_at_the_same_time_just_the_successful_ones_are_kept(self, memory: Memory) -> None:
        memory.put(N, "/n.md", {"text": "HEAD|\n"})
        edits = {f"item-{number}": _edit(f"item-{number}", tries=1) for number in range(EDITS)}
        done = memory.together(list(edits.values()))
        succeeded = {item for item, is_done in zip(edits, done, strict=True) if is_done}
        assert succeeded
        assert _items(memory) == succeeded

    @needs(Capability.CONDITIONAL)
    def test_A16_edits_that_are_tried_again_are_all_kept(self, memory: Memory) -> None:
        memory.put(N, "/n.md", {"text": "HEAD|\n"})
        # Each round of conflicts has a winner, so that nobody loses as often as there are edits.
        done = memory.together([_edit(f"item-{number}", tries=EDITS) for number in range(EDITS)])
        assert done == [True] * EDITS
        assert _items(memory) == {f"item-{number}" for number in range(EDITS)}

    @needs(Capability.CONDITIONAL)
    def test_A16_an_edit_of_what_is_gone_or_new_meanwhile_is_a_conflict(self, memory: Memory) -> None:
        edit = _edit("item", tries=1)
        memory.put(N, "/n.md", {"text": "HEAD|\n"})
        next(edit)
        read = memory.read(N, "/n.md")
        _, args, options = edit.send(read)
        memory.delete(N, "/n.md")
        memory.put(N, "/n.md", {"text": "HEAD|\nanother's"})
        outcome = memory.together([_replayed(args, options)])
        assert isinstance(outcome[0], Conflict)
        assert _items(memory) == {"another's"}

    @needs(Capability.TTL, Capability.TEXT)
    def test_A18_an_expired_item_is_absent_for_every_read(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(N, "k", {"text": "word"}, ttl=0.05)
        clock.advance(seconds=2.9)
        assert memory.keys(N, refresh_ttl=False) == ["k"]
        clock.advance(seconds=0.1)
        for refresh in (None, False, True):
            assert memory.get(N, "k", refresh_ttl=refresh) is None
            assert memory.search(N, refresh_ttl=refresh) == []
            assert memory.search(N, query="word", refresh_ttl=refresh) == []
            assert memory.search(N, filter={"text": "word"}, refresh_ttl=refresh) == []
        assert memory.count(N) == 0
        assert memory.list_namespaces() == []

    @needs(Capability.TTL, Capability.VECTOR)
    def test_A18_an_expired_item_is_absent_for_a_semantic_search(
        self, opens: Opens, clock: ManualClock
    ) -> None:
        memory = opens(index={"embed": Coordinates(), "dims": 2, "fields": ["at"]})
        memory.put(N, "brief", {"at": "1 2"}, ttl=0.05)
        memory.put(N, "lasting", {"at": "2 1"})
        clock.advance(seconds=3)
        assert memory.keys(N, query="1 2") == ["lasting"]

    @needs(Capability.TTL)
    def test_A18_a_put_after_the_expiry_makes_a_new_item(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(N, "k", {"n": 1}, ttl=0.05)
        first = memory.read(N, "k")
        clock.advance(seconds=4)
        assert memory.get(N, "k", refresh_ttl=True) is None
        memory.put(N, "k", {"n": 2})
        second = memory.read(N, "k")
        assert first.created_at < second.created_at == second.updated_at
        assert (second.value, second.ttl, second.expires_at) == ({"n": 2}, None, None)

    @needs(Capability.TTL)
    def test_A18_reading_each_second_keeps_an_item_alive(self, opens: Opens, clock: ManualClock) -> None:
        memory = opens(ttl={"default_ttl": 0.05, "refresh_on_read": True})
        for key in ("got", "searched", "forgotten"):
            memory.put(N, key, {"key": key})
        for _ in range(10):
            clock.advance(seconds=1)
            memory.read(N, "got")
            assert memory.keys(N, filter={"key": "searched"}) == ["searched"]
        assert set(memory.keys(N)) == {"got", "searched"}

    @needs(Capability.TTL)
    def test_A18_a_sweep_frees_what_nobody_sees_anyway(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(N, "brief", {}, ttl=0.05)
        memory.put(N, "lasting", {})
        clock.advance(seconds=4)
        assert memory.keys(N) == ["lasting"]
        assert memory.sweep_ttl() == 1
        assert memory.sweep_ttl() == 0
        assert memory.keys(N) == ["lasting"]

    def test_A20_set_up_from_many_sides_at_once_is_set_up_once(self, opens: Opens) -> None:
        is_shared = Capability.MULTI_PROCESS in opens.capabilities
        stores = [opens().store for _ in range(12 if is_shared else 1)] * (1 if is_shared else 12)
        with ThreadPoolExecutor(12) as threads:
            list(threads.map(lambda store: store.setup(), stores))
        stores[0].put(N, "k", {"n": 1})
        for store in stores:
            store.setup()
            found: Any = store.get(N, "k")
            assert found.value == {"n": 1}


def _replayed(args: tuple[Any, ...], options: dict[str, Any]) -> Script:
    yield ask("put", *args, **options)
