"""What the processes do that the tests of Postgres start, and sometimes kill."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from stateroom.errors import Conflict, StateroomError
from stateroom.stores.postgres import PostgresStore
from tests.faults.programs.histories import index

__all__ = ["append_lines", "embed_index", "fork_and_go_on", "set_up_at_once"]

ALARM_SECONDS = 20


def embed_index() -> dict[str, Any]:
    """Return an index by words and by vectors, and these in an index of the database."""
    return {**index(), "hnsw": True}


def set_up_at_once(pipe: Connection, uri: str, schema: str, options: Mapping[str, Any]) -> None:
    """Say that everything is imported, wait for the start, then set up; tell what went wrong, or None."""
    if options.get("index") == "embed":
        options = {**options, "index": embed_index()}
    store = PostgresStore(uri, schema=schema, **options)
    pipe.send("ready")
    pipe.recv()
    pipe.send(_problem(store.setup))
    store.close()


def append_lines(pipe: Connection, uri: str, schema: str, name: str, times: int) -> None:
    """Try so many conditional edits of one text, once each; tell which succeeded."""
    with PostgresStore(uri, schema=schema) as store:
        pipe.send("ready")
        pipe.recv()
        pipe.send([line for line in (f"{name}-{number}" for number in range(times)) if edited(store, line)])


def edited(store: PostgresStore, line: str) -> bool:
    """Add a line to the text unless somebody else is faster; tell whether it was done."""
    found = store.get(("files",), "n.md")
    assert found is not None
    text = found.value["text"].replace("HEAD|", f"HEAD|\n{line}", 1)
    try:
        store.put(("files",), "n.md", {"text": text}, if_revision=found.revision)
    except Conflict:
        return False
    return True


def fork_and_go_on(pipe: Connection, uri: str, schema: str, forks: int) -> None:
    """Fork again and again while a thread writes, and a refresh is pending; everybody goes on working."""
    store, stop = PostgresStore(uri, schema=schema, pool={"max_size": 3}), threading.Event()
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
        pipe.send(_in_fork(lambda number=number: _worked(store, f"child {number}")))  # type: ignore[misc]
    stop.set()
    writer.join()
    pipe.send(_worked(store, "parent"))
    store.close()


def _in_fork(act: Callable[[], str]) -> str:
    """Return what a function comes to in a process forked from this one, and what that complained of."""
    told, tell = os.pipe()
    if child := os.fork():
        os.close(tell)
        os.waitpid(child, 0)
        with open(told) as answers:
            return answers.read()
    complaints: list[str] = []
    sys.unraisablehook = lambda unraisable: complaints.append(repr(unraisable.exc_value))
    # Whoever waits for a lock of the parent's would wait for ever.
    signal.alarm(ALARM_SECONDS)
    answer = act()
    gc.collect()
    os.write(tell, f"{answer}{complaints or ''}".encode())
    os._exit(0)


def _worked(store: PostgresStore, name: str) -> str:
    """Put some items and find them by their words; tell how that went."""
    problem = _problem(lambda: [store.put((name,), str(number), {"text": name}) for number in range(20)])
    found = store.search((name,), query=name, mode="text", limit=100)
    return f"{problem}, {len(found)} found"


def _problem(act: Callable[[], Any]) -> tuple[str, str | None, str] | None:
    try:
        act()
    except StateroomError as error:
        return type(error).__name__, error.field, str(error)
    return None
