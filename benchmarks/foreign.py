"""The suite of ``from_base_store``: what it costs over a store of LangGraph's, beside that store alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contenders import contenders
from benchmarks.data import LARGE, USER_ITEMS, Rows
from benchmarks.measure import WRONG, Case, Contender, Line, Options, interleave, lines_of, settle
from benchmarks.progress import load
from stateroom.stores.foreign import from_base_store

__all__ = ["SIZES", "measure"]

SIZES = (1_000, 10_000)
QUICK_SIZE = 200
BACKENDS = ("memory", "sqlite")
LARGE_ITEMS = 1_000

Address = tuple[tuple[str, ...], str]


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite; a word can only be searched for with us, so there is no peer for it."""
    for n in [QUICK_SIZE] if options.quick else options.sizes or SIZES:
        rows = Rows(n, large=100 if options.quick else LARGE_ITEMS)
        for backend in BACKENDS:
            if options.wants_backend(backend):
                place = folder / f"foreign-{backend}-{n}"
                yield from _measure(options, place, backend, rows)


def _measure(options: Options, folder: Path, backend: str, rows: Rows) -> Iterator[Line]:
    with _stores(options, folder, backend) as stores:
        load(stores, rows)
        settle()
        for case in _cases(rows):
            if options.wants(case.operation):
                samples = interleave(stores, case, options.seconds)
                yield from lines_of(
                    case,
                    stores,
                    samples,
                    lambda _one, _other: None,
                    suite="foreign",
                    backend=backend,
                    n=rows.n,
                )


@contextmanager
def _stores(options: Options, folder: Path, backend: str) -> Iterator[list[Contender]]:
    """Open the same store twice: bare, and with our meaning over it."""
    with ExitStack() as stack:
        opened = []
        for role in ("ours", "peer") if options.peers else ("ours",):
            place = folder / role
            place.mkdir(parents=True)
            (bare,) = stack.enter_context(contenders(backend, place, ("peer",)))
            store = from_base_store(bare.store) if role == "ours" else bare.store
            name = f"from_base_store({bare.name})" if role == "ours" else bare.name
            opened.append(Contender(role, name, store, ours=role == "ours"))
        yield opened


def _cases(rows: Rows) -> list[Case]:
    return [*_by_key(rows), *_searches(rows), *_queries(rows)]


def _by_key(rows: Rows) -> list[Case]:
    def address(turn: int) -> Address:
        row = turn * 7 % rows.n
        return rows.namespace(row), rows.key(row)

    def over(store: Any, at: Address) -> Any:
        return store.put(*at, rows.value(int(at[1][1:])))

    def new(store: Any, turn: int) -> Any:
        return store.put(("new", str(turn % 100)), str(turn), rows.value(turn % rows.n))

    def drop(store: Any, turn: int) -> Any:
        return store.delete(("gone",), str(turn))

    def fill(store: Any, turn: int) -> Any:
        return store.put(("gone",), str(turn), {})

    def is_it(_store: Any, at: Address, got: Any, _ours: bool) -> str | None:
        return None if got is not None and got.value == rows.value(int(at[1][1:])) else WRONG

    return [
        Case("get", lambda store, at: store.get(*at), address, is_it),
        Case("put over", over, address),
        Case("put new", new),
        Case("delete", drop, before=fill),
    ]


def _searches(rows: Rows) -> list[Case]:
    def user(turn: int) -> tuple[str, ...]:
        return rows.namespace(turn * USER_ITEMS % rows.n)

    def found(number: int) -> Any:
        def check(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
            return None if len(got) == number else WRONG

        return check

    topic = {"topic": f"topic{rows.topics[0]:02d}"}
    large = rows.total - rows.n
    return [
        Case("search namespace of 10", lambda store, at: store.search(at), user, found(10)),
        Case(f"search namespace of {large:,}", lambda store, _: store.search(LARGE), check=found(10)),
        Case("search all", lambda store, _: store.search(("mem",)), check=found(10)),
        Case("filter, all", lambda store, _: store.search(("mem",), filter=topic), check=found(10)),
        Case("namespaces, first 20", lambda store, _: store.list_namespaces(prefix=("mem",), limit=20)),
    ]


def _queries(rows: Rows) -> list[Case]:
    word = rows.words_by_share(0.3, 1)[0]

    def found(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
        return None if got and all(word in hit.value["text"] for hit in got) else WRONG

    scopes = {"namespace of 10": None, f"namespace of {rows.total - rows.n:,}": LARGE, "all": ("mem",)}
    cases = []
    for scope, prefix in scopes.items():

        def search(store: Any, turn: int, prefix: tuple[str, ...] | None = prefix) -> Any:
            return store.search(prefix or rows.namespace(turn * USER_ITEMS % rows.n), query=word)

        check = found if prefix else (lambda _store, _asked, _got, _ours: None)
        cases.append(Case(f"a word in {scope}", search, check=check, pairs=(("ours", "nobody"),)))
    return cases
