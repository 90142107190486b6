"""The suite of puts, gets, deletes, searches, filters, pages and lists of namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.base import GetOp, PutOp
from numpy.typing import NDArray

from benchmarks.contenders import BACKENDS, analyze, contenders
from benchmarks.data import LARGE, ORGS, TOPICS, USER_ITEMS, Rows, row_of
from benchmarks.measure import WRONG, Case, Line, Options, interleave, lines_of, settle
from benchmarks.progress import load
from benchmarks.targets import TEXT_COST, target

__all__ = ["SIZES", "measure"]

SIZES = (1_000, 10_000, 100_000)
QUICK_SIZE = 200
PICKS = 20_000
MEM = ("mem",)

WRITES = (("ours", "peer"), ("text", "peer"), ("text", "ours"))
DECLARED = (("ours", "peer"), ("declared", "peer"))

Address = tuple[tuple[str, ...], str]
Numbers = NDArray[np.int64]


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite."""
    for n in [QUICK_SIZE] if options.quick else options.sizes or SIZES:
        for backend in BACKENDS:
            if options.wants_backend(backend):
                yield from _measure(options, folder, backend, n)


def _measure(options: Options, folder: Path, backend: str, n: int) -> Iterator[Line]:
    rows = Rows(n)
    cases = [case for case in _cases(rows, backend) if options.wants(case.operation)]
    wanted = {role for case in cases for role in case.roles}
    roles = tuple(
        role
        for role in ("ours", "text", "declared", "peer")
        if role in wanted and (options.peers or role != "peer")
    )
    place = folder / f"kv-{backend}-{n}"
    place.mkdir()
    with contenders(backend, place, roles) as stores:
        load(stores, rows)
        for contender in stores:
            if contender.role == "text":
                # An index that is built by the first search would make the puts look cheaper than they are.
                contender.store.search(MEM, query=rows.vocabulary[0])
        analyze(backend)
        settle()
        for case in cases:
            samples = interleave(stores, case, options.seconds)
            yield from lines_of(
                case, stores, samples, _aim(case, backend, n), suite="kv", backend=backend, n=n
            )


def _aim(case: Case, backend: str, n: int) -> Any:
    def aim(one: str, other: str) -> float | None:
        if (one, other) == ("text", "ours"):
            return TEXT_COST[backend]
        if one == "text":
            return None
        if one == "declared":
            return target(backend, n, f"{case.operation}, declared key")
        return target(backend, n, case.operation)

    return aim


def _cases(rows: Rows, backend: str) -> list[Case]:
    if backend == "durable":
        return _writes(rows)
    return [*_gets(rows), *_searches(rows), *_filters(rows, backend), *_listings(rows), *_writes(rows)]


def _picks(rows: Rows) -> list[int]:
    return np.random.default_rng(5).integers(0, rows.n, PICKS).tolist()  # type: ignore[no-any-return]


def _gets(rows: Rows) -> list[Case]:
    picks = _picks(rows)

    def address(turn: int) -> Address:
        row = picks[turn % PICKS]
        return rows.namespace(row), rows.key(row)

    def many(turn: int) -> list[GetOp]:
        return [GetOp(*address(turn * 100 + place)) for place in range(100)]

    def one(turn: int) -> list[GetOp]:
        first = rows.total - len(_large(rows)) + turn * 100 % max(1, len(_large(rows)) - 99)
        return [GetOp(LARGE, rows.key(first + place)) for place in range(100)]

    def is_right(_store: Any, asked: Sequence[GetOp], got: Any, _ours: bool) -> str | None:
        wrong = [op.key for op, item in zip(asked, got, strict=True) if _wrong_item(rows, op.key, item)]
        return f"{WRONG}: {len(wrong)} of {len(asked)}" if wrong else None

    def is_hit(_store: Any, asked: Address, got: Any, _ours: bool) -> str | None:
        return WRONG if _wrong_item(rows, asked[1], got) else None

    def is_miss(_store: Any, _asked: Address, got: Any, _ours: bool) -> str | None:
        return WRONG if got is not None else None

    return [
        Case("get", lambda store, a: store.get(a[0], a[1]), address, is_hit),
        Case("get miss", lambda store, a: store.get(a[0], "absent"), address, is_miss),
        Case("get 100, many namespaces", lambda store, ops: store.batch(ops), many, is_right),
        Case("get 100, one namespace", lambda store, ops: store.batch(ops), one, is_right),
    ]


def _searches(rows: Rows) -> list[Case]:
    picks = _picks(rows)

    def user(turn: int) -> Any:
        return rows.namespace(picks[turn % PICKS])

    def deep(turn: int) -> int:
        return rows.n * 9 // 10 + turn % USER_ITEMS

    def page(store: Any, offset: int) -> Any:
        return store.search(MEM, limit=10, offset=offset)

    def page_of_large(store: Any, offset: int) -> Any:
        return store.search(LARGE, limit=10, offset=offset)

    large = len(_large(rows))
    return [
        Case(
            "search namespace of 10",
            lambda store, namespace: store.search(namespace, limit=10),
            user,
            _listed(rows, lambda _turn: rows.in_namespace_of(picks[0])),
        ),
        Case(
            "search namespace of 1,000",
            lambda store, _turn: store.search(LARGE, limit=10),
            check=_listed(rows, lambda _turn: rows.in_namespace_of(rows.total - 1)),
        ),
        Case(
            "search prefix 1 %",
            lambda store, turn: store.search(_org(turn), limit=10),
            check=_listed(rows, lambda _turn: rows.in_org(0)),
        ),
        Case(
            "search prefix all",
            lambda store, _turn: store.search(MEM, limit=10),
            check=_listed(rows, lambda _turn: rows.in_mem()),
        ),
        Case("page at .9 N", page, deep, _listed(rows, lambda _turn: rows.in_mem(), deep(0))),
        Case(
            "page at .9 of a namespace of 1,000",
            page_of_large,
            lambda turn: large * 9 // 10 + turn % 10,
            _listed(rows, lambda _turn: rows.in_namespace_of(rows.total - 1), large * 9 // 10),
        ),
    ]


def _filters(rows: Rows, backend: str) -> list[Case]:
    declared = DECLARED if backend == "sqlite" else (("ours", "peer"),)
    topics, scores, rares = (column[: rows.total] for column in (rows.topics, rows.scores, rows.rares))

    def filtered(prefix: Any, condition: Any) -> Any:
        def call(store: Any, turn: int) -> Any:
            return store.search(prefix(turn), filter=condition(turn), limit=10)

        return call

    def everywhere(_turn: int) -> Any:
        return MEM

    return [
        Case(
            "filter equal 5 %",
            filtered(everywhere, lambda turn: {"topic": f"topic{turn % TOPICS:02d}"}),
            check=_listed(rows, lambda _turn: rows.in_mem() & (topics == 0)),
        ),
        Case(
            "filter range 70 %",
            filtered(everywhere, lambda _turn: {"score": {"$gte": 3}}),
            check=_listed(rows, lambda _turn: rows.in_mem() & (scores >= 3)),
        ),
        Case(
            "filter equal and range",
            filtered(everywhere, lambda turn: {"topic": f"topic{turn % TOPICS:02d}", "score": {"$gte": 3}}),
            check=_listed(rows, lambda _turn: rows.in_mem() & (topics == 0) & (scores >= 3)),
        ),
        Case(
            "filter rare .1 %",
            filtered(everywhere, lambda turn: {"rare": f"r{turn * 13 % 1_000}"}),
            check=_listed(rows, lambda _turn: rows.in_mem() & (rares == 0)),
            pairs=declared,
        ),
        Case(
            "filter none",
            filtered(everywhere, lambda _turn: {"rare": "nothing"}),
            check=_listed(rows, lambda _turn: rows.numbers < 0),
            pairs=declared,
        ),
        Case(
            "filter inside 1 %",
            filtered(_org, lambda turn: {"topic": f"topic{turn % TOPICS:02d}"}),
            check=_listed(rows, lambda _turn: rows.in_org(0) & (topics == 0)),
        ),
    ]


def _listings(rows: Rows) -> list[Case]:
    users = -(-rows.n // USER_ITEMS)
    namespaces = sorted({rows.namespace(row) for row in range(0, rows.total, USER_ITEMS)})
    in_org = [name for name in namespaces if name[1] == "org00"]

    def named(expected: list[tuple[str, ...]], *, some: bool = False) -> Any:
        def check(_store: Any, _argument: int, got: Any, ours: bool) -> str | None:
            # The first hundred of another order are another hundred.
            right = len(got) == len(expected) and (some or set(got) == set(expected))
            return None if got == expected or (not ours and right) else f"{WRONG}: {len(got)} namespaces"

        return check

    return [
        Case(
            "namespaces depth 2",
            lambda store, _turn: store.list_namespaces(prefix=MEM, max_depth=2, limit=1_000),
            check=named(sorted({name[:2] for name in namespaces if name[0] == "mem"})),
        ),
        Case(
            "namespaces wildcard",
            lambda store, _turn: store.list_namespaces(prefix=("*", "org00"), max_depth=3, limit=200),
            check=named(in_org[:200]),
        ),
        Case(
            "namespaces suffix",
            lambda store, user: store.list_namespaces(suffix=(f"user{user:06d}",), limit=100),
            lambda turn: turn * 7 % users,
            named([rows.namespace(0)]),
        ),
        Case(
            "namespaces first 100",
            lambda store, _turn: store.list_namespaces(limit=100),
            check=named(namespaces[:100], some=True),
        ),
    ]


def _writes(rows: Rows) -> list[Case]:
    picks, values = _picks(rows), [rows.value(rows.total + place) for place in range(2_000)]

    def new(turn: int) -> Any:
        return rows.namespace(picks[turn % PICKS]), f"n{turn}", values[turn % 2_000]

    def over(turn: int) -> Any:
        row = picks[turn % PICKS]
        return rows.namespace(row), rows.key(row), values[turn % 2_000]

    def hundred(name: str) -> Any:
        return lambda turn: [
            PutOp((name, f"b{turn}"), f"p{place}", values[(turn * 100 + place) % 2_000])
            for place in range(100)
        ]

    def is_stored(store: Any, put: Any, _got: Any, _ours: bool) -> str | None:
        item = store.get(put[0], put[1])
        return None if item is not None and item.value == put[2] else WRONG

    def are_stored(store: Any, ops: Sequence[PutOp], _got: Any, _ours: bool) -> str | None:
        items = store.batch([GetOp(op.namespace, op.key) for op in ops])
        right = [item is not None and item.value == op.value for op, item in zip(ops, items, strict=True)]
        return None if all(right) else f"{WRONG}: {right.count(False)} of {len(right)}"

    def is_gone(store: Any, put: Any, _got: Any, _ours: bool) -> str | None:
        return None if store.get(put[0], put[1]) is None else WRONG

    def are_gone(store: Any, ops: Sequence[PutOp], _got: Any, _ours: bool) -> str | None:
        left = [item for item in store.batch([GetOp(op.namespace, op.key) for op in ops]) if item]
        return f"{WRONG}: {len(left)} left" if left else None

    def put(store: Any, item: Any) -> None:
        store.put(item[0], item[1], item[2])

    def batch(store: Any, ops: Any) -> None:
        store.batch(ops)

    def delete_all(store: Any, ops: Sequence[PutOp]) -> None:
        store.batch([PutOp(op.namespace, op.key, None) for op in ops])

    return [
        Case("put new", put, new, is_stored, pairs=WRITES),
        Case("put over", put, over, is_stored, pairs=WRITES),
        Case("put 100", batch, hundred("written"), are_stored, pairs=WRITES, most=60),
        Case(
            "delete",
            lambda store, item: store.delete(item[0], item[1]),
            lambda turn: (("gone", f"s{turn % 7}"), f"d{turn}", values[turn % 2_000]),
            is_gone,
            put,
            WRITES,
            most=500,
        ),
        Case("delete 100", delete_all, hundred("gone"), are_gone, batch, WRITES, most=30),
    ]


def _org(turn: int) -> tuple[str, ...]:
    return "mem", f"org{turn * 37 % ORGS:02d}"


def _large(rows: Rows) -> range:
    return range(rows.home + rows.n, rows.total)


def _wrong_item(rows: Rows, key: str, item: Any) -> bool:
    return item is None or item.key != key or item.value != rows.value(row_of(key))


def _listed(rows: Rows, matching: Any, offset: int = 0, limit: int = 10) -> Any:
    """Return a check of a page: for ours these very items, latest first; for others, as many that match."""

    def check(_store: Any, argument: Any, got: Any, ours: bool) -> str | None:
        found: Numbers = np.flatnonzero(matching(argument))
        expected = found[::-1][offset : offset + limit].tolist()
        numbers = [row_of(item.key) for item in got]
        if len(numbers) != len(expected):
            return f"{WRONG}: {len(numbers)} of {len(expected)} items"
        if not set(numbers) <= set(found.tolist()):
            return f"{WRONG}: items that do not match"
        if ours and numbers != expected:
            return f"{WRONG}: not in order"
        if any(_wrong_item(rows, item.key, item) for item in got):
            return f"{WRONG}: values"
        return None

    return check
