"""The suite of vector searches and of puts with vectors, checked for exactness."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.base import PutOp
from numpy.typing import NDArray

from benchmarks.contenders import POSTGRES, analyze, contenders, extension_sqlite
from benchmarks.data import Rows, Vectors, row_of
from benchmarks.measure import WRONG, Case, Line, Options, interleave, lines_of, settle
from benchmarks.progress import load
from benchmarks.targets import target

__all__ = ["LACKS_SQLITE_PEER", "SIZES", "lacks_sqlite_peer", "measure"]

SIZES = (10_000, 100_000)
QUICK_SIZE = 200
DIMS, QUICK_DIMS = 384, 16
BACKENDS = ("memory", "sqlite", "postgres") if POSTGRES else ("memory", "sqlite")
QUERIES = 20
AUDITED, AUDITED_OF_PEER = 10, 2
"""Queries whose answers are compared with the exact ones; a peer's take seconds each."""

HNSW_RECALL = 0.9
"""What ours must reach by an HNSW index on these few queries; the others are exact."""

MEM = ("mem",)
ORG = ("mem", "org07")

LACKS_SQLITE_PEER = (
    "vector, sqlite: LangGraph's SqliteStore is left out, since it needs an sqlite3 that loads extensions, "
    "and this Python's does not; pip install pysqlite3-binary brings one"
)


def lacks_sqlite_peer() -> bool:
    """Tell whether the SQLite peer cannot search vectors here."""
    return extension_sqlite() is None


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite."""
    for n in [QUICK_SIZE] if options.quick else options.sizes or SIZES:
        rows = Rows(n)
        dims = QUICK_DIMS if options.quick else DIMS
        vectors = Vectors(len(rows.lengths), dims)
        for backend in BACKENDS:
            if options.wants_backend(backend):
                place = folder / f"vector-{backend}-{n}"
                place.mkdir()
                yield from _measure(options, place, backend, rows, vectors)


def _measure(options: Options, folder: Path, backend: str, rows: Rows, vectors: Vectors) -> Iterator[Line]:
    has_peer = options.peers and (backend != "sqlite" or not lacks_sqlite_peer())
    index = {"dims": vectors.dims, "embed": vectors.embed, "fields": ["text"]}
    with contenders(backend, folder, ("ours", "peer") if has_peer else ("ours",), index=index) as stores:
        load(stores, rows)
        analyze(backend)
        settle()
        for case in _cases(rows, vectors, HNSW_RECALL if backend == "postgres" else 1.0):
            if not options.wants(case.operation):
                continue
            samples = interleave(stores, case, options.seconds)
            aim = target(backend, rows.n, case.operation)
            yield from lines_of(
                case,
                stores,
                samples,
                lambda _one, _other, aim=aim: aim,  # type: ignore[misc]
                suite="vector",
                backend=backend,
                n=rows.n,
            )


def _cases(rows: Rows, vectors: Vectors, least: float) -> list[Case]:
    topics, rares = rows.topics[: rows.total], rows.rares[: rows.total]
    values = [rows.value(rows.total + place) for place in range(5_000)]

    def put(store: Any, turn: int) -> None:
        store.put(rows.namespace(turn * 7 % rows.n), f"n{turn}", values[turn % 5_000])

    def is_found(store: Any, turn: int, _got: Any, _ours: bool) -> str | None:
        item = store.get(rows.namespace(turn * 7 % rows.n), f"n{turn}")
        return None if item is not None and item.value == values[turn % 5_000] else WRONG

    def hundred(turn: int) -> list[PutOp]:
        places = range(turn * 100, turn * 100 + 100)
        return [PutOp(("written", f"b{turn}"), f"p{place}", values[place % 5_000]) for place in places]

    def nearest(operation: str, prefix: tuple[str, ...], condition: Any, mask: NDArray[np.bool_]) -> Case:
        def call(store: Any, turn: int) -> Any:
            return store.search(prefix, query=f"q{turn % QUERIES}", filter=condition, limit=10)

        return Case(operation, call, check=_exact(vectors, np.flatnonzero(mask), call, least))

    return [
        nearest("vector all", (), None, rows.numbers >= 0),
        nearest("vector 1 % namespace", ORG, None, rows.in_org(7)),
        nearest("vector filter 5 %", MEM, {"topic": "topic03"}, rows.in_mem() & (topics == 3)),
        nearest("vector filter .1 %", MEM, {"rare": "r17"}, rows.in_mem() & (rares == 17)),
        Case("vector put", put, check=is_found),
        Case("vector put 100", lambda store, ops: store.batch(ops), hundred, most=40),
    ]


def _exact(vectors: Vectors, rows: NDArray[np.int64], call: Any, least: float) -> Any:
    """Return a check of recall: ours must reach ``least``; what a peer reaches is noted."""

    def check(store: Any, argument: int, got: Any, ours: bool) -> str | None:
        queries = AUDITED if ours else AUDITED_OF_PEER
        hits = wanted = 0
        for query in range(queries):
            answer = got if query == argument else call(store, query)
            expected = vectors.nearest(query, rows, 10)
            hits += len(expected & {row_of(item.key) for item in answer})
            wanted += len(expected)
            scores = [item.score for item in answer]
            if ours and scores != sorted(scores, reverse=True):
                return f"{WRONG}: not in order"
        recall = hits / wanted if wanted else 1.0
        if ours and recall < least:
            return f"{WRONG}: recall {recall:.3f}"
        return f"recall {recall:.2f}" if ours or recall < 1.0 else None

    return check
