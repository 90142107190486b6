"""Connections are few, kept, renewed when the server has let go of them, and never left behind."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stateroom.contract.items import Get
from stateroom.errors import StateroomError, Unavailable
from stateroom.stores.aegis import AegisStore
from stateroom.stores.operations import GetItem, PutItem
from tests.aegis.server import AegisServer

N = ("a",)
Call = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[AegisServer]:
    with AegisServer() as running:
        yield running


@pytest.fixture
def store(server: AegisServer) -> Iterator[AegisStore]:
    with AegisStore(port=server.port) as opened:
        yield opened


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, store: AegisStore) -> Iterator[Call]:
    """Return what calls a method of the store, sync or async, the async ones on one loop."""
    if request.param == "sync":
        yield lambda name, *args, **options: getattr(store, name)(*args, **options)
        return
    with asyncio.Runner() as runner:

        async def awaited(asked: Awaitable[Any]) -> Any:
            return await asked

        yield lambda name, *args, **options: runner.run(awaited(getattr(store, f"a{name}")(*args, **options)))


def test_a_batch_of_gets_is_one_burst_on_one_connection(server: AegisServer, call: Call) -> None:
    call("batch", [PutItem(N, str(n), {"n": n}) for n in range(100)])
    before = server.accepted
    server.bursts.clear()
    found = call("batch", [GetItem(N, str(n)) for n in range(100)])
    assert [item.value["n"] for item in found] == list(range(100))
    assert (server.bursts, server.accepted) == ([100], before)


def test_puts_of_a_batch_share_two_bursts(server: AegisServer, call: Call) -> None:
    call("get", N, "warm")
    server.bursts.clear()
    call("batch", [PutItem(N, str(n), {"n": n}) for n in range(20)])
    assert server.bursts == [20, 40]


def test_a_large_batch_is_sent_in_parts_that_its_answers_cannot_dam_up(call: Call) -> None:
    text = "x" * 5_000
    call("batch", [PutItem(N, str(n), {"t": text}) for n in range(400)])
    assert all(item.value["t"] == text for item in call("batch", [GetItem(N, str(n)) for n in range(400)]))


def test_tasks_of_one_tick_share_a_connection(server: AegisServer, store: AegisStore) -> None:
    async def together() -> list[Any]:
        await store.aput(N, "k", {"n": 1})
        server.bursts.clear()
        return await asyncio.gather(*(store.aget(N, "k") for _ in range(50)))

    assert [item.value for item in asyncio.run(together())] == [{"n": 1}] * 50
    assert server.bursts == [50]


def test_a_reaped_connection_is_replaced(server: AegisServer, call: Call) -> None:
    call("put", N, "k", {"n": 1})
    for number in range(3):
        server.reap()
        assert call("get", N, "k").value == {"n": 1}
        server.reap()
        call("put", N, str(number), {})
    assert call("count", N) == 4


def test_several_reaped_connections_cost_one_retry(server: AegisServer, store: AegisStore) -> None:
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda n: store.put(N, str(n), {}), range(60)))
    server.reap()
    before = server.accepted
    store.get(N, "1")
    store.get(N, "2")
    assert server.accepted == before + 1


@pytest.mark.parametrize("fault", ["cut", "lose", "half"])
def test_a_lost_answer_is_asked_for_again_and_nothing_is_there_twice(
    server: AegisServer, call: Call, fault: str
) -> None:
    for place in range(3):
        server.faults.extend([*[""] * place, fault])
        call("put", N, f"k{place}", {"n": place})
        server.faults.clear()
    for place in range(2):
        server.faults.extend([""] * place + [fault])
        call("put", N, "k0", {"n": "again"})
        server.faults.clear()
    server.faults.append(fault)
    call("delete", N, "k1")
    server.faults.append(fault)
    assert {hit.key: hit.value["n"] for hit in call("search", N)} == {"k0": "again", "k2": 2}
    assert len(server.table.rows) == 2


def test_an_answer_lost_twice_is_unavailable_and_says_what_may_have_happened(
    server: AegisServer, call: Call
) -> None:
    call("put", N, "k", {"n": 1})
    server.faults.extend(["lose", "lose"])
    with pytest.raises(Unavailable, match=r"no answer.*may have taken effect") as caught:
        call("put", N, "other", {})
    assert caught.value.retryable
    assert call("get", N, "k").value == {"n": 1}


def test_what_is_lost_amidst_a_batch_is_told_to_whom_it_concerns(
    server: AegisServer, store: AegisStore
) -> None:
    async def together() -> list[Any]:
        server.faults.extend(["", "", *["cut"] * 3])
        first = store.abatch([GetItem(N, "k")])
        second = store.abatch([PutItem(N, "k", {}), GetItem(N, "k")])
        return [*await asyncio.gather(first, second, return_exceptions=True)]

    first, second = asyncio.run(together())
    assert first == [None]
    assert isinstance(second, Unavailable)


def test_a_server_that_is_gone_is_unavailable_until_it_is_back(server: AegisServer, call: Call) -> None:
    call("put", N, "k", {"n": 1})
    server.stop()
    with pytest.raises(Unavailable, match=rf"127\.0\.0\.1:{server.port}"):
        call("get", N, "k")
    server.start()
    assert call("get", N, "k").value == {"n": 1}


def test_nobody_listening_is_told_by_setup() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for use in (AegisStore(port=port).setup, lambda: asyncio.run(AegisStore(port=port).asetup())):
        with pytest.raises(Unavailable, match="is it running"):
            use()


def test_a_silent_server_is_unavailable_after_the_time_that_a_client_sets(server: AegisServer) -> None:
    class Client:
        host, port, token, agent_id = "127.0.0.1", server.port, "", "x"
        connect_timeout, read_timeout = 2.0, 0.05

    store = AegisStore(client=Client())
    uses: list[Callable[[], Any]] = [lambda: store.get(N, "k"), lambda: asyncio.run(store.aget(N, "k"))]
    for use in uses:
        server.faults.append("hang")
        with pytest.raises(Unavailable, match="no answer"):
            use()
        assert store.get(N, "k") is None
    store.close()


def test_two_hundred_loops_leave_no_connection_behind(server: AegisServer, store: AegisStore) -> None:
    async def use(number: int) -> None:
        await asyncio.gather(*(store.aput(N, str(part), {"n": number}) for part in range(3)))
        assert (await store.aget(N, "0")) is not None

    ended = []
    for number in range(200):
        with asyncio.Runner() as runner:
            runner.run(use(number))
            # Somebody may hold on to a loop that has ended.
            ended += [runner.get_loop()] if number % 2 else []
    gc.collect()
    store.get(N, "0")
    asyncio.run(use(200))
    # Those of the last loop, and that of this thread.
    assert server.connections <= 3


def test_a_closed_store_has_no_connection_and_the_next_call_opens_one(
    server: AegisServer, call: Call
) -> None:
    call("put", N, "k", {"n": 1})
    call("close")
    call("close")
    server.reap()
    before = server.accepted
    assert call("get", N, "k").value == {"n": 1}
    assert server.accepted == before + 1


def test_a_cancelled_call_leaves_no_answer_for_the_next_one(server: AegisServer, store: AegisStore) -> None:
    async def cancelling() -> tuple[Any, int]:
        await store.aput(N, "k", {"n": 1})
        before = server.accepted
        server.faults.append("hang")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store._items.aapply_each([[Get(N, "other")]]), 0.05)
        return await store.aget(N, "k"), server.accepted - before

    item, renewed = asyncio.run(cancelling())
    assert (item.value, renewed) == ({"n": 1}, 1)


def test_names_of_hosts_are_looked_up(server: AegisServer) -> None:
    with AegisStore(host="localhost", port=server.port) as store:
        store.put(N, "k", {"n": 1})
        found = asyncio.run(store.aget(N, "k"))
        assert found is not None
        store.close()


def test_an_unknown_host_is_unavailable() -> None:
    store = AegisStore(host="nowhere.invalid")
    for use in (store.setup, lambda: asyncio.run(store.asetup())):
        with pytest.raises(StateroomError, match=r"nowhere\.invalid"):
            use()
