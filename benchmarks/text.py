"""The suite of text searches: in one namespace, in 1 % of the items, in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.base import PutOp
from numpy.typing import NDArray

from benchmarks.contenders import contenders
from benchmarks.data import LARGE, Rows
from benchmarks.measure import WRONG, Case, Line, Options, interleave, lines_of, settle
from benchmarks.progress import load
from benchmarks.ranking import ranked

__all__ = ["SIZES", "measure"]

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZE = 400
BACKENDS = ("memory", "sqlite")
COMMON, RARE = 0.3, 0.002
"""Shares of the items that say a common word, and a rare one."""

PRESELECTING = 5_000
"""Beyond so many items a store may choose its candidates by its database's own ranking."""


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite; LangGraph's stores cannot search text without an embedder, so there is no peer."""
    for n in [QUICK_SIZE] if options.quick else options.sizes or SIZES:
        rows = Rows(n, large=100 if options.quick else 1_000)
        for backend in BACKENDS:
            if options.wants_backend(backend):
                place = folder / f"text-{backend}-{n}"
                place.mkdir()
                yield from _measure(options, place, backend, rows)


def _measure(options: Options, folder: Path, backend: str, rows: Rows) -> Iterator[Line]:
    with contenders(backend, folder, ("text",), index={"fields": ["text"]}) as stores:
        load(stores, rows)
        stores[0].store.search((), query=rows.vocabulary[0])
        settle()
        for case in _cases(rows):
            if options.wants(case.operation):
                samples = interleave(stores, case, options.seconds)
                line, *_ = lines_of(
                    case, stores, samples, lambda _one, _other: None, suite="text", backend=backend, n=rows.n
                )
                yield line


def _cases(rows: Rows) -> list[Case]:
    words = {"rare": rows.words_by_share(RARE, 40), "common": rows.words_by_share(COMMON, 8)}
    scopes: dict[str, tuple[tuple[str, ...], NDArray[np.bool_]]] = {
        "namespace of 10": (rows.namespace(0), rows.in_namespace_of(0)),
        "namespace of 1,000": (LARGE, rows.in_namespace_of(rows.total - 1)),
        "1 %": (("mem", "org00"), rows.in_org(0)),
        "all": ((), rows.numbers >= 0),
    }
    cases = []
    for scope, (prefix, mask) in scopes.items():
        for kind, some in words.items():

            def asked(turn: int, some: list[str] = some) -> list[str]:
                return [some[turn % len(some)], some[(turn * 3 + 1) % len(some)]]

            def search(store: Any, query: list[str], prefix: tuple[str, ...] = prefix) -> Any:
                return store.search(prefix, query=" ".join(query))

            check = ranked(rows, lambda query: query, mask, exact=mask.sum() <= PRESELECTING)
            operation = f"{scope}, {kind} words"
            cases.append(Case(operation, search, asked, check, pairs=(("text", "peer"),)))
    return [*cases, _after_puts(rows, words["common"])]


def _after_puts(rows: Rows, words: list[str]) -> Case:
    """Search one namespace right after puts elsewhere, which the index has not seen yet."""

    def put(store: Any, turn: int) -> None:
        value = rows.value(rows.total + turn)
        store.batch([PutOp(("late", "one"), f"l{turn}-{number}", value) for number in range(100)])

    def search(store: Any, _turn: int) -> Any:
        return store.search(LARGE, query=words[0])

    def is_right(_store: Any, _turn: int, got: Any, _ours: bool) -> str | None:
        return None if len(got) == 10 and {item.namespace for item in got} == {LARGE} else WRONG

    return Case(
        "namespace of 1,000, after 100 puts", search, check=is_right, before=put, pairs=(("text", "peer"),)
    )
