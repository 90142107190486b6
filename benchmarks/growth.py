"""The suite of growth: what one namespace's reads, and everybody's, cost as other namespaces grow."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.base import PutOp

from benchmarks.data import HOME, Rows, Vectors, row_of
from benchmarks.measure import WRONG, Case, Contender, Line, Options, interleave, settle
from benchmarks.progress import bar
from benchmarks.ranking import ranked
from benchmarks.targets import GROWTH, GROWTH_MEMORY
from stateroom import InMemoryStore, SqliteStore

__all__ = ["SIZES", "measure"]

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (200, 400)
BACKENDS = ("sqlite", "memory")
HOME_ITEMS = 100
DIMS, QUICK_DIMS = 64, 16
COMMON, RARE = 0.3, 0.002
"""Shares of the items that say a common word, and a rare one."""

BASE = 10_000
"""The size that larger ones are compared with, if it is among them: below it everything is in a cache."""

PREFIX = HOME[:2]


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite: each store grows from size to size, and is measured at each."""
    sizes = sorted(QUICK_SIZES if options.quick else options.sizes or SIZES)
    rows = Rows(sizes[-1] - HOME_ITEMS, home=HOME_ITEMS, large=0)
    vectors = Vectors(len(rows.lengths), QUICK_DIMS if options.quick else DIMS)
    for backend in BACKENDS:
        if options.wants_backend(backend):
            yield from _grow(options, folder, backend, sizes, rows, vectors)


def _grow(
    options: Options, folder: Path, backend: str, sizes: Sequence[int], rows: Rows, vectors: Vectors
) -> Iterator[Line]:
    base = BASE if BASE in sizes and sizes[-1] > BASE else sizes[0]
    first: dict[str, float | None] = {}
    target = GROWTH_MEMORY if backend == "memory" else GROWTH
    index = {"dims": vectors.dims, "embed": vectors.embed, "fields": ["text"]}
    path = folder / "growth.db"
    before = _resident()
    with SqliteStore(path, index=index) if backend == "sqlite" else InMemoryStore(index=index) as store:
        contender = Contender("ours", "Stateroom", store, ours=True)
        start = 0
        for n in sizes:
            _load(store, rows, start, n)
            start = n
            settle()
            for case, promised in _cases(rows, vectors, n):
                if not options.wants(case.operation):
                    continue
                sample = interleave([contender], case, options.seconds)["ours"]
                if n == base:
                    first[case.operation] = sample.median
                yield Line(
                    suite="growth",
                    backend=backend,
                    n=n,
                    operation=case.operation,
                    ours=sample.median,
                    verdict=sample.verdict,
                    peer_name=f"itself at {base:,}" if n > base else None,
                    peer=first.get(case.operation) if n > base else None,
                    target=target if promised and n > base else None,
                )
            _forget_puts(store)
            sizes_now = {
                "resident": _resident() - before,
                "file": _size(path) if backend == "sqlite" else 0.0,
            }
            for operation, megabytes in sizes_now.items():
                if megabytes and options.wants(operation):
                    yield Line("growth", backend, n, operation, megabytes, unit="MB")


def _load(store: Any, rows: Rows, start: int, stop: int) -> None:
    with bar(stop - start) as progress:
        task = progress.add_task(f"growing to {stop:,}", total=stop - start)
        for operations in rows.puts(start, stop):
            store.batch(operations)
            progress.advance(task, len(operations))
    # The first search after so many puts finishes the text index.
    store.search((), query=rows.vocabulary[0], mode="text")


def _cases(rows: Rows, vectors: Vectors, n: int) -> list[tuple[Case, bool]]:
    """Return the cases at a size, each with whether it has promised to stay as fast."""
    home, everybody = rows.numbers[:n] < HOME_ITEMS, rows.numbers[:n] >= 0
    common, rare = (rows.words_by_share(share, 3) for share in (COMMON, RARE))

    def get(store: Any, turn: int) -> Any:
        return store.get(HOME, rows.key(turn % HOME_ITEMS))

    def put(store: Any, turn: int) -> None:
        store.put(("home", "bob"), f"b{turn % 50}", rows.value(turn))

    def text(prefix: tuple[str, ...], words: list[str]) -> Any:
        return lambda store, _turn: store.search(prefix, query=" ".join(words[:2]), mode="text")

    def vector(prefix: tuple[str, ...]) -> Any:
        return lambda store, turn: store.search(prefix, query=f"q{turn % 20}", mode="vector")

    def topic(store: Any, turn: int) -> Any:
        return store.search(HOME, filter={"topic": f"topic{turn % 20:02d}"})

    def listed(mask: Any) -> Any:
        return _has_rows(lambda _turn: np.flatnonzero(mask)[::-1][:10].tolist())

    def ranking(words: list[str], scope: Any, *, exact: bool = True) -> Any:
        return ranked(rows, lambda _turn: words[:2], scope, exact=exact)

    in_topic = home & (rows.topics[:n] == 0)
    return [
        (Case("one: get", get, check=_is(lambda item: row_of(item.key), 0)), True),
        (Case("one: newest", lambda store, _turn: store.search(HOME), check=listed(home)), True),
        (Case("one: filter", topic, check=listed(in_topic)), True),
        (Case("one: text", text(HOME, common), check=ranking(common, home)), True),
        (Case("one: vector", vector(HOME), check=_nearest(vectors, np.flatnonzero(home))), True),
        (Case("one: count", lambda store, _turn: store.count(HOME), check=_is(int, HOME_ITEMS)), True),
        (
            Case(
                "one: namespaces",
                lambda store, _turn: store.list_namespaces(prefix=PREFIX),
                check=_is(tuple, (HOME,)),
            ),
            True,
        ),
        (Case("all: newest", lambda store, _turn: store.search(()), check=listed(everybody)), True),
        (Case("all: text, rare words", text((), rare), check=ranking(rare, everybody, exact=False)), False),
        (
            Case("all: text, common words", text((), common), check=ranking(common, everybody, exact=False)),
            False,
        ),
        (Case("all: vector", vector(()), check=_nearest(vectors, np.flatnonzero(everybody))), False),
        (Case("all: count", lambda store, _turn: store.count(()), check=_is(int, n)), False),
        # The last one, since it adds items.
        (Case("one: put", put), True),
    ]


def _forget_puts(store: Any) -> None:
    store.batch([PutOp(("home", "bob"), f"b{number}", None) for number in range(50)])


def _is(view: Any, expected: Any) -> Any:
    def check(_store: Any, _argument: Any, got: Any, _ours: bool) -> str | None:
        return None if view(got) == expected else f"{WRONG}: {str(got)[:60]}"

    return check


def _has_rows(expected: Any) -> Any:
    def check(_store: Any, argument: Any, got: Any, _ours: bool) -> str | None:
        numbers = [row_of(item.key) for item in got]
        return None if numbers == expected(argument) else f"{WRONG}: {numbers}"

    return check


def _nearest(vectors: Vectors, rows: Any) -> Any:
    def check(_store: Any, argument: int, got: Any, _ours: bool) -> str | None:
        right = {row_of(item.key) for item in got} == vectors.nearest(argument, rows, 10)
        return None if right else f"{WRONG}: not the nearest"

    return check


def _resident() -> float:
    """Return the megabytes of memory that this process holds; 0 where the system does not say."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _size(path: Path) -> float:
    """Return the megabytes of a database, its log included."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 1e6
