"""The suite of threads: what searches, counts and pages cost with 10,000 threads, and with 300,000."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.contenders import analyze
from benchmarks.measure import WRONG, Case, Contender, Line, Options, interleave, settle
from benchmarks.progress import bar
from benchmarks.promises import promised
from benchmarks.storages import backends, opened, place
from benchmarks.targets import GROWTH
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread, ThreadChange, ThreadQuery
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.model.paging import COUNTED_MAX, NEWEST, Page, Sort
from stateroom.model.thread import THREAD_SORTS, Thread, ThreadStatus

__all__ = ["SEARCH_MOST", "SIZES", "measure"]

SIZES = (10_000, 300_000)
QUICK_SIZES = (80, 200)

OWN, QUICK_OWN = 2_000, 20
"""Threads of the owner who is looked for; there are as many others at first, which are then multiplied."""

OWNER: Final = "ana"
SEARCH_MOST = 5_000
"""Microseconds that a search by metadata may take which fits the threads of one owner."""

DEEP = 0.9
"""Where a deep page begins, as a share of all threads."""

WRITTEN = 50
"""Threads that writing makes and removes."""

HOUR = 3_600_000_000
FILLERS = 4
"""Threads of ours that make threads at the same time."""

COPIED: Final = (
    """
    insert into stateroom.thread (
        thread_id, status, created_at, updated_at, state_updated_at, metadata, config, next_at
    )
    select cast(:prefix as text) || thread_id, status, created_at + cast(:later as bigint),
        updated_at + cast(:later as bigint), state_updated_at + cast(:later as bigint),
        metadata, config, next_at
    from stateroom.thread where thread_id >= 'any-' and thread_id < cast(:stop as text)
    """,
    """
    insert into stateroom.thread_state (thread_id, "values", interrupts, error)
    select cast(:prefix as text) || thread_id, "values", interrupts, error
    from stateroom.thread_state where thread_id >= 'any-' and thread_id < cast(:stop as text)
    """,
    """
    insert into stateroom.thread_term (term, created_at, id)
    select term, created_at + cast(:later as bigint), cast(:prefix as text) || id
    from stateroom.thread_term where id >= 'any-' and id < cast(:stop as text)
    """,
)
"""Threads as the repository made them, once more under other ids and at other times."""


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite: each storage grows from size to size, and is measured at each."""
    sizes = sorted(QUICK_SIZES if options.quick else options.sizes or SIZES)
    own = QUICK_OWN if options.quick else OWN
    for backend in backends():
        if not options.wants_backend(backend):
            continue
        with place(backend, folder, "threads") as where, opened(where) as storage:
            _make(storage, own)
            first: dict[str, float | None] = {}
            copies, n = 0, 2 * own
            for size in sizes:
                copies, n = _grow(storage, own, copies, n, size)
                analyze(backend)
                settle()
                yield from _measure(options, backend, storage, own, n, first)


def thread_id(number: int, own: bool) -> str:
    """Return the id of a thread; others' come before those of the owner who is looked for."""
    return f"{'own' if own else 'any'}-{number:06d}"


def _make(storage: Storage, own: int) -> None:
    """Make the threads of one owner, and as many of others, in turn."""
    with bar(own) as progress, ThreadPoolExecutor(FILLERS) as pool:
        task = progress.add_task("making threads", total=own)
        for _ in pool.map(lambda number: _make_two(storage, number), range(own)):
            progress.advance(task, 1)


def _make_two(storage: Storage, number: int) -> None:
    for is_own in (True, False):
        name = thread_id(number, is_own)
        storage.threads.create(NewThread(name, metadata(number, is_own)))
        status = ThreadStatus.INTERRUPTED if number % 10 == 0 else ThreadStatus.IDLE
        values = {
            "topic": "boats" if is_own else f"topic {number % 50}",
            "messages": [{"role": "user", "content": f"Question {number}"}],
        }
        storage.threads.update(name, ThreadChange(values=values, status=status))


def metadata(number: int, own: bool) -> dict[str, Any]:
    """Return the metadata of a thread."""
    return {
        "kind": "chat",
        "owner": OWNER if own else f"user {number % 500}",
        "vip": number % 10 == 0,
        "n": number,
        "nested": {"tenant": {"id": number % 20, "region": "eu"}},
    }


def _grow(storage: Storage, own: int, copies: int, n: int, size: int) -> tuple[int, int]:
    """Copy the others' threads until there are so many; return how often, and how many there are."""
    assert isinstance(storage, SqlStorage)
    with bar(size - n) as progress:
        task = progress.add_task(f"growing to {size:,} threads", total=size - n)
        while n < size:
            copies += 1
            # Half of the copies are newer than the owner's threads, so that no search meets these at once.
            later = copies * HOUR * (1 if copies % 2 else -1)
            many = min(own, size - n)
            given = {"prefix": f"copy-{copies}-", "later": later, "stop": thread_id(many, False)}
            storage.dialect.write(partial(_copy, given))
            n += many
            progress.advance(task, many)
    return copies, n


def _copy(given: dict[str, Any], session: Session) -> None:
    for statement in COPIED:
        session.execute(statement, given)


def _measure(
    options: Options,
    backend: str,
    storage: Storage,
    own: int,
    n: int,
    first: dict[str, float | None],
) -> Iterator[Line]:
    common: dict[str, Any] = {"suite": "threads", "backend": backend, "n": n}
    contender = Contender("ours", "Stateroom", storage, ours=True)
    for case, is_flat in cases(own, n):
        if not options.wants(case.operation):
            continue
        sample = interleave([contender], case, options.seconds)["ours"]
        is_first = case.operation not in first
        base = first.setdefault(case.operation, sample.median)
        yield Line(
            operation=case.operation,
            ours=sample.median,
            verdict=sample.verdict,
            peer_name=None if is_first else "itself at the first size",
            peer=None if is_first else base,
            target=GROWTH if is_flat and not is_first and not options.quick else None,
            **common,
        )
        if case.operation == f"search, {PROMISED}" and sample.median is not None:
            limit = None if options.quick else SEARCH_MOST
            yield promised(f"{case.operation}, limit", sample.median, at_most=limit, **common)
    for number in range(WRITTEN):
        storage.threads.delete(f"new-{number}")


PROMISED: Final = "metadata: one owner"

Search = Callable[[Any, Any], Page[Thread]]


def cases(own: int, n: int) -> list[tuple[Case, bool]]:
    """Return the cases with so many threads, each with whether it has promised to stay as fast."""
    newest = [thread_id(number, True) for number in reversed(range(own))]
    vips = [name for name in newest if int(name[4:]) % 10 == 0]
    tenant = [name for name in newest if int(name[4:]) % 20 == 3]
    some = newest[:100]
    interrupted = ThreadStatus.INTERRUPTED

    found: list[tuple[str, Sequence[str] | int, Search]] = [
        (PROMISED, newest, _search(metadata={"owner": OWNER})),
        ("metadata: nested", tenant, _search(metadata={"owner": OWNER, "nested": {"tenant": {"id": 3}}})),
        ("metadata: two scopes", vips, _search(metadata={"vip": True}, enforced_metadata={"owner": OWNER})),
        ("metadata: everybody", n, _search(metadata={"kind": "chat"})),
        ("metadata: nobody", [], _search(metadata={"owner": "nobody"})),
        ("values: one topic", newest, _search(values={"topic": "boats"})),
        ("status", n // 10, _search(status=interrupted)),
        ("status and metadata", vips, _search(status=interrupted, metadata={"owner": OWNER})),
        ("100 ids", some, _search(ids=some)),
    ]
    listed = [(f"search, {name}", expected, search, True) for name, expected, search in found]
    for field in THREAD_SORTS:
        sort = Sort(field)
        listed.append((f"sort by {field}", n, _search(sort=sort), True))
        # Without an index for the two together, all of the owner's threads are read and sorted.
        listed.append(
            (f"sort by {field}, one owner", own, _search(sort=sort, metadata={"owner": OWNER}), True)
        )
    return [
        *((Case(name, call, check=_checked(rows)), flat) for name, rows, call, flat in listed),
        *_pages(n),
        *_others(own, n),
    ]


def _search(*, sort: Sort = NEWEST, **conditions: Any) -> Search:
    query = ThreadQuery(**conditions)
    return lambda storage, _turn: storage.threads.search(query, sort=sort, limit=10)


def _checked(expected: Sequence[str] | int) -> Callable[..., str | None]:
    """Return what compares a page with the ids that it must begin with, or with how many there are."""

    def check(_store: Any, _turn: Any, got: Page[Thread], _ours: bool) -> str | None:
        ids = [thread.thread_id for thread in got.rows]
        if isinstance(expected, int):
            return None if len(set(ids)) == min(10, expected) else f"{WRONG}: {ids}"
        # Several made them at the same time, so that neighbours may have changed places.
        first = set(expected[: 10 + 2 * FILLERS])
        right = len(set(ids)) == min(10, len(expected)) and set(ids) <= first
        return None if right else f"{WRONG}: {ids}"

    return check


def _pages(n: int) -> list[tuple[Case, bool]]:
    """Return the cases of pages far behind the first: by cursor they stay as fast, by offset they cannot."""
    offset = int(DEEP * n)
    after: dict[int, str | None] = {}

    def by_cursor(storage: Any, _turn: Any) -> Page[Thread]:
        found: Page[Thread] = storage.threads.search(ThreadQuery(), limit=10, after=after[id(storage)])
        return found

    def find(storage: Any, _turn: Any) -> None:
        if id(storage) not in after:
            after[id(storage)] = storage.threads.search(ThreadQuery(), limit=1, offset=offset).next

    def by_offset(storage: Any, _turn: Any) -> Page[Thread]:
        found: Page[Thread] = storage.threads.search(ThreadQuery(), limit=10, offset=offset)
        return found

    return [
        (Case("page at .9 N, by cursor", by_cursor, before=find, check=_checked(n - offset - 1)), True),
        (Case("page at .9 N, by offset", by_offset, check=_checked(n - offset)), False),
    ]


def _others(own: int, n: int) -> list[tuple[Case, bool]]:
    def count(query: ThreadQuery, expected: int) -> Case:
        return Case(
            f"count, {'all' if query == ThreadQuery() else 'one owner'}",
            lambda storage, _turn: storage.threads.count(query, at_most=COUNTED_MAX),
            check=lambda _store, _turn, got, _ours: None if got == expected else f"{WRONG}: {got}",
        )

    def has_id(_store: Any, _turn: Any, got: Thread, _ours: bool) -> str | None:
        return None if got.thread_id == thread_id(0, True) else f"{WRONG}: {got}"

    def new(turn: int) -> NewThread:
        return NewThread(f"new-{turn % WRITTEN}", metadata(turn, False))

    def gone(storage: Any, turn: int) -> None:
        storage.threads.delete(new(turn).thread_id)

    def there(storage: Any, turn: int) -> None:
        storage.threads.create(new(turn), if_exists="do_nothing")

    def get(storage: Any, turn: int) -> Any:
        return storage.threads.get(thread_id(turn % own, True))

    def create(storage: Any, turn: int) -> Any:
        return storage.threads.create(new(turn))

    def update(storage: Any, turn: int) -> Any:
        return storage.threads.update(new(turn).thread_id, change)

    change = ThreadChange(metadata={"seen": True}, values={"topic": "birds"})
    return [
        (count(ThreadQuery(), min(n, COUNTED_MAX)), False),
        (count(ThreadQuery(metadata={"owner": OWNER}), own), True),
        (Case("get", get, check=has_id), True),
        # The last ones, since they write.
        (Case("create", create, before=gone), True),
        (Case("update", update, before=there), True),
        (Case("delete", gone, before=there), True),
    ]
