"""What the processes do that the tests of faults start, and often kill."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from stateroom.errors import Conflict, StateroomError
from stateroom.stores.operations import DeleteItem, PutItem
from stateroom.stores.sqlite import SqliteStore
from tests.faults.programs.histories import history, open_store

__all__ = [
    "count_up",
    "fork_and_go_on",
    "open_at_once",
    "refresh",
    "write_history",
    "write_own_and_shared",
    "write_without_rights",
]


def write_history(pipe: Connection, path: str, seed: int, puts: int, start: int) -> None:
    """Go on with a history at one of its batches, and acknowledge each batch when it is stored."""
    store = open_store(path)
    for number, batch in enumerate(islice(history(seed, puts), start, None), start):
        store.batch(batch)
        pipe.send(number)
        if number % 40 == 0:
            # A search has the text index catch up, which is then as likely to be interrupted as a put.
            store.search((), query="harbour", mode="text")
    pipe.send("done")


def write_own_and_shared(pipe: Connection, path: str, name: str, puts: int) -> None:
    """Put items of this process and items that all processes overwrite and delete."""
    store = open_store(path)
    for number in range(puts):
        value = {"text": f"{name} tide {number}", "n": number}
        if number % 4 == 0:
            store.put(("shared", str(number % 3)), str(number % 5), value)
        elif number % 10 == 3:
            batch = [PutItem(("own", name), f"batch {number}", value)]
            store.batch([*batch, DeleteItem(("shared", str(number % 3)), str(number % 5))])
        else:
            store.put(("own", name), str(number), value)
        if number % 10 == 6:
            # A namespace that comes, and is gone soon.
            store.put(("brief", name, str(number)), "k", value)
        elif number % 10 == 8:
            store.delete(("brief", name, str(number - 2)), "k")
    store.close()
    pipe.send("done")


def count_up(pipe: Connection, path: str, times: int) -> None:
    """Add one to a counter so many times, and again whenever somebody else was faster; tell the revisions."""
    store = open_store(path)
    try:
        store.put(("counters",), "n", {"n": 0}, if_absent=True)
        pipe.send("made it")
    except Conflict:
        pipe.send("found it")
    told: list[tuple[int, int]] = []
    while len(told) < times:
        item = store.get(("counters",), "n")
        assert item is not None
        try:
            new = store.put_item(("counters",), "n", {"n": item.value["n"] + 1}, if_revision=item.revision)
        except Conflict:
            continue
        told.append((new.revision or 0, new.value["n"]))
    store.close()
    pipe.send(told)


def open_at_once(pipe: Connection, path: str, name: str) -> None:
    """Say that everything is imported, wait for the start, then open the file and put one item."""
    pipe.send("ready")
    pipe.recv()
    store = open_store(path)
    store.put(("opened",), name, {"text": "tide"})
    pipe.send([hit.key for hit in store.search(("opened",), query="tide", mode="text", limit=100)])
    store.close()


def refresh(pipe: Connection, path: str) -> None:
    """Refresh one item and write something; then refresh another one, and never write again."""
    store = open_store(path)
    for key in ("early", "late"):
        put = store.put_item(("notes",), key, {"text": "tide"}, ttl=60)
        pipe.send(put.expires_at)
    early = store.get(("notes",), "early", refresh_ttl=True)
    store.put(("notes",), "other", {"text": "gull"})
    late = store.get(("notes",), "late", refresh_ttl=True)
    assert early is not None
    assert late is not None
    pipe.send((early.expires_at, late.expires_at))
    pipe.recv()


def fork_and_go_on(pipe: Connection, path: str, forks: int) -> None:
    """Fork again and again while a thread writes, and a refresh is pending; everybody goes on working."""
    store, stop = open_store(path), threading.Event()
    store.put(("notes",), "before", {"text": "harbour"}, ttl=60)

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            store.put(("thread",), str(number), {"text": "gull"})
        pipe.send(number)

    writer = threading.Thread(target=write)
    writer.start()
    for number in range(forks):
        store.get(("notes",), "before", refresh_ttl=True)
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            # Whoever waits for a lock of the parent's would wait for ever.
            signal.alarm(10)
            os.write(tell, _worked(store, f"child {number}").encode())
            os._exit(0)
        os.close(tell)
        os.waitpid(child, 0)
        pipe.send(os.read(told, 1_000).decode())
        os.close(told)
    stop.set()
    writer.join()
    pipe.send(_worked(store, "parent"))
    # What the children wrote is seen through connections that the parent had before.
    by_vector = store.search((), query="child", mode="vector", filter={"text": "child 0"}, limit=100)
    pipe.send(len(by_vector))
    store.close()


def _worked(store: SqliteStore, name: str) -> str:
    """Put some items and find them by their words; tell how that went."""
    problem = _problem(lambda: [store.put((name,), str(number), {"text": name}) for number in range(20)])
    found = store.search((name,), query=name, mode="text", limit=100)
    return f"{problem}, {len(found)} found"


def write_without_rights(pipe: Connection, path: str) -> None:
    """Read and write a file for which this process has no right to write; tell what came of it."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65_534)
        os.setuid(65_534)
    store = open_store(path)
    pipe.send(_problem(lambda: store.get(("notes",), "k")))
    pipe.send(_problem(lambda: store.put(("notes",), "k", {"text": "new"})))


def _problem(act: Callable[[], Any]) -> tuple[str, str | None, str] | None:
    try:
        act()
    except StateroomError as error:
        return type(error).__name__, error.field, str(error)
    return None
