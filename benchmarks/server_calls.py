"""What clients ask of an agent server, as the servers' benchmark asks it."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx

__all__ = ["CALLS", "Load", "Wrong", "first_event", "prepare"]

FOUND: Final = 10
"""What each search finds: the items of a bucket, or a page of an owner's threads."""

OWNERS: Final = 20

TOGETHER: Final = 16

WORDS: Final = (
    *("apple", "river", "engine", "cloud", "python", "garden"),
    *("music", "train", "winter", "coffee", "market", "bridge"),
)
INPUT: Final = {"messages": [{"role": "user", "content": "hello"}]}


class Wrong(Exception):
    """An answer that is not what was asked for."""


class Load:
    """One server's clients, each with a connection of its own, and what has been made on it."""

    def __init__(self, url: str, mark: str, clients: int, *, items: int, threads: int) -> None:
        self.items, self.all_threads = items, threads
        self.buckets = items // FOUND
        self.clients = [httpx.AsyncClient(base_url=url, timeout=60) for _ in range(clients)]
        self.mark = mark
        self.random = random.Random(mark)
        self.numbers = itertools.count()
        self.threads: list[str] = []
        self.used: list[str] = []
        self.fresh: list[str] = []

    async def ask(self, client: httpx.AsyncClient, method: str, path: str, **options: Any) -> Any:
        """Return what the server answers; raise Wrong for an error."""
        try:
            answer = await client.request(method, path, **options)
        except httpx.TransportError:
            # Servers close connections that rest, at times just as they are used again.
            answer = await client.request(method, path, **options)
        if answer.status_code >= 400:
            raise Wrong(f"{answer.status_code} {answer.text[:120]}")
        return answer.json() if answer.content else None

    def item(self, number: int) -> dict[str, Any]:
        """Return a value of some twenty words."""
        text = " ".join(self.random.choices(WORDS, k=20))
        return {"i": number, "bucket": number % self.buckets, "tag": f"t{number % 7}", "text": text}

    async def new_thread(self, client: httpx.AsyncClient, **metadata: Any) -> str:
        """Make a thread."""
        made = await self.ask(client, "POST", "/threads", json={"metadata": metadata})
        identity: str = made["thread_id"]
        return identity

    async def close(self) -> None:
        """Close the connections."""
        for client in self.clients:
            await client.aclose()


Call = Callable[[Load, httpx.AsyncClient], Awaitable[None]]


async def _info(load: Load, client: httpx.AsyncClient) -> None:
    await load.ask(client, "GET", "/info")


async def _store_put(load: Load, client: httpx.AsyncClient) -> None:
    number = next(load.numbers)
    body = {"namespace": ["bench", load.mark, "put"], "key": f"k{number}", "value": load.item(number)}
    await load.ask(client, "PUT", "/store/items", json=body)


async def _store_get(load: Load, client: httpx.AsyncClient) -> None:
    asked = {"namespace": f"bench.{load.mark}.items", "key": f"k{load.random.randrange(load.items)}"}
    if not await load.ask(client, "GET", "/store/items", params=asked):
        raise Wrong("an item is missing")


async def _store_search(load: Load, client: httpx.AsyncClient) -> None:
    body = {
        "namespace_prefix": ["bench", load.mark, "items"],
        "filter": {"bucket": load.random.randrange(load.buckets)},
        "limit": 10,
    }
    found = await load.ask(client, "POST", "/store/items/search", json=body)
    if len(found["items"]) != FOUND:
        raise Wrong(f"{len(found['items'])} items instead of {FOUND}")


async def _threads_create(load: Load, client: httpx.AsyncClient) -> None:
    await load.new_thread(client, bench=f"{load.mark}-more")


async def _threads_search(load: Load, client: httpx.AsyncClient) -> None:
    body = {"metadata": {"bench": load.mark, "owner": load.random.randrange(OWNERS)}, "limit": 10}
    found = await load.ask(client, "POST", "/threads/search", json=body)
    if len(found) != FOUND:
        raise Wrong(f"{len(found)} threads instead of {FOUND}")


async def _threads_get(load: Load, client: httpx.AsyncClient) -> None:
    await load.ask(client, "GET", f"/threads/{load.random.choice(load.threads)}")


async def _state_get(load: Load, client: httpx.AsyncClient) -> None:
    state = await load.ask(client, "GET", f"/threads/{load.random.choice(load.used)}/state")
    if len(state["values"]["messages"]) != 2:
        raise Wrong("a state is not its run's")


async def _runs_wait(load: Load, client: httpx.AsyncClient) -> None:
    thread = load.fresh.pop() if load.fresh else await load.new_thread(client)
    body = {"assistant_id": "echo", "input": INPUT}
    answer = await load.ask(client, "POST", f"/threads/{thread}/runs/wait", json=body)
    if len(answer.get("messages", ())) != 2:
        raise Wrong(f"a run answered {str(answer)[:100]}")
    load.used.append(thread)


async def _stateless_wait(load: Load, client: httpx.AsyncClient) -> None:
    answer = await load.ask(client, "POST", "/runs/wait", json={"assistant_id": "echo", "input": INPUT})
    if len(answer.get("messages", ())) != 2:
        raise Wrong(f"a run answered {str(answer)[:100]}")


async def _streamed(load: Load, client: httpx.AsyncClient, until: str | None) -> float:
    """Stream a run to an event of this name, or to its end; return the seconds until then."""
    thread = load.fresh.pop() if load.fresh else await load.new_thread(client)
    body = {"assistant_id": "echo", "input": INPUT, "stream_mode": "updates"}
    began, found, events = time.perf_counter(), 0.0, []
    async with client.stream("POST", f"/threads/{thread}/runs/stream", json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("event:"):
                events.append(line.removeprefix("event:").strip())
                if until in (None, events[-1]) or not found:
                    found = time.perf_counter() - began
    if "updates" not in events or "error" in events:
        raise Wrong(f"a run streamed {events}")
    return time.perf_counter() - began if until is None else found


async def _runs_stream(load: Load, client: httpx.AsyncClient) -> None:
    await _streamed(load, client, None)


async def first_event(load: Load, client: httpx.AsyncClient) -> float:
    """Return the seconds from a run's request to the first event of its stream."""
    return await _streamed(load, client, "metadata")


CALLS: Final[dict[str, Call]] = {
    "GET /info": _info,
    "store put": _store_put,
    "store get": _store_get,
    "store search of 1,000": _store_search,
    "threads create": _threads_create,
    "threads search of 2,000": _threads_search,
    "threads get": _threads_get,
    "runs wait": _runs_wait,
    "state get": _state_get,
    "runs stream": _runs_stream,
    "stateless wait": _stateless_wait,
}
"""Every call by its name."""


async def prepare(load: Load) -> None:
    """Put the items and make the threads that are looked for."""
    waiting = iter(range(load.items))

    async def put(client: httpx.AsyncClient) -> None:
        for number in waiting:
            body = {
                "namespace": ["bench", load.mark, "items"],
                "key": f"k{number}",
                "value": load.item(number),
            }
            await load.ask(client, "PUT", "/store/items", json=body)

    numbers = iter(range(load.all_threads))

    async def make(client: httpx.AsyncClient) -> None:
        for number in numbers:
            load.threads.append(await load.new_thread(client, bench=load.mark, owner=number % OWNERS))

    await asyncio.gather(*(put(client) for client in load.clients[:TOGETHER]))
    await asyncio.gather(*(make(client) for client in load.clients[:TOGETHER]))
    await _runs_wait(load, load.clients[0])
