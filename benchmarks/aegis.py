"""The suite of AegisDB: our store beside the public adapter on one real server, which has to be running.

``STATEROOM_TEST_AEGIS=host:port python -m benchmarks.aegis`` runs it. Each store has a namespace of the
server to itself, with the same items. Filters and listings of the public adapter end at 1,000 records.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from langgraph.store.base import GetOp, PutOp
from rich.console import Console

from benchmarks.measure import Case, Contender, Line, Options, interleave, lines_of, settle
from benchmarks.report import show
from stateroom.stores.aegis import AegisStore

__all__ = ["SERVER", "SIZES", "measure"]

SERVER = os.environ.get("STATEROOM_TEST_AEGIS", "")
SIZES = (10_000,)
QUICK_SIZE = 200
NAMESPACES = 100
BATCH = 100

TARGETS = {
    "get": 1.0,
    "put new": 1.0,
    "put over": 1.0,
    "get 100": 2.0,
    "put 100": 2.0,
    "search one namespace": 3.0,
    "filter, complete": 1.0,
    "list namespaces, complete": 1.0,
}


def measure(options: Options, _folder: Path) -> Iterator[Line]:
    """Run the suite, if there is a server."""
    if not SERVER:
        return
    host, _, port = SERVER.rpartition(":")
    for n in [QUICK_SIZE] if options.quick else options.sizes or SIZES:
        stores = [*_stores(options, {"host": host, "port": int(port)})]
        # In turn, since what is done to an old record costs the server more than what is done to a new one.
        for start in range(0, n, BATCH):
            for contender in stores:
                contender.store.batch([_put(number) for number in range(start, min(start + BATCH, n))])
        settle()
        for case in _cases(n):
            if options.wants(case.operation):
                samples = interleave(stores, case, options.seconds)
                where = {"suite": "aegis", "backend": "aegis", "n": n}
                yield from lines_of(case, stores, samples, partial(_target, case.operation), **where)
        for contender in stores:
            contender.store.close()


def _stores(options: Options, server: dict[str, Any]) -> Iterator[Contender]:
    yield Contender("ours", "AegisStore", AegisStore(**server, namespace=uuid4().hex), ours=True)
    if options.peers:
        try:
            public = importlib.import_module("aegisdb_langgraph").AegisStore
        except ImportError:
            return
        yield Contender("peer", "aegisdb-langgraph", public(**server, namespace=uuid4().hex), ours=False)


def _target(operation: str, _one: str, _other: str) -> float | None:
    return TARGETS.get(operation)


def _namespace(number: int) -> tuple[str, ...]:
    return ("users", str(number % NAMESPACES))


def _value(number: int) -> dict[str, Any]:
    kind = "rare" if number % 97 == 0 else "common"
    return {"n": number, "kind": kind, "text": f"word{number} and more about coffee and memory"}


def _put(number: int) -> PutOp:
    return PutOp(_namespace(number), f"key {number}", _value(number))


def _cases(n: int) -> list[Case]:
    def search(query: str | None = None, *, below: bool = True) -> Any:
        return lambda store, at: store.search(_namespace(at) if below else (), query=query)

    def put_all(store: Any, turn: int) -> Any:
        return store.batch([PutOp(("batch", str(turn)), str(each), _value(each)) for each in range(BATCH)])

    def spread(turn: int) -> int:
        return turn * 7919 % n

    def found(expected: int) -> Any:
        return lambda _store, _argument, got, ours: (
            f"{len(got)} instead of {expected}" if ours and len(got) != expected else None
        )

    gets = [GetOp(_namespace(number), f"key {number}") for number in range(min(n, BATCH))]
    rare = len(range(0, n, 97))
    return [
        Case("get", lambda store, at: store.get(_namespace(at), f"key {at}"), spread),
        Case("get 100", lambda store, _at: store.batch(gets), check=found(len(gets))),
        Case("search one namespace", search(), spread, found(min(10, n // NAMESPACES))),
        Case("search everything", search(below=False), check=found(10)),
        Case("query one namespace", search("coffee"), spread),
        Case("query everything, rare word", search("word77", below=False), check=found(1)),
        Case(
            "filter, complete",
            lambda store, _at: store.search((), filter={"kind": "rare"}, limit=n),
            check=found(rare),
        ),
        Case(
            "list namespaces, complete",
            lambda store, _at: store.list_namespaces(limit=n),
            check=found(NAMESPACES),
        ),
        Case("put over", lambda store, at: store.put(_namespace(at), f"key {at}", _value(at)), spread),
        Case("put new", lambda store, at: store.put(("new", str(at % 10)), f"new {at}", _value(at))),
        Case("put 100", put_all, most=100),
        Case("delete", lambda store, at: store.delete(("new", str(at % 10)), f"new {at}")),
    ]


if __name__ == "__main__":
    if "STATEROOM_TEST_AEGIS" not in os.environ:
        sys.exit("name a running server: STATEROOM_TEST_AEGIS=127.0.0.1:9470")
    with tempfile.TemporaryDirectory() as scratch:
        lines = [*measure(Options(sizes=[int(size) for size in sys.argv[1:]]), Path(scratch))]
    show(lines, Console(width=None if sys.stdout.isatty() else 150))
    sys.exit(any(line.is_wrong for line in lines))
