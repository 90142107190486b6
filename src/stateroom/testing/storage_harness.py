"""What every part of the storage suite stands on: opening the storage under test, and making things in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import pytest

from stateroom.clock import Clock, ManualClock
from stateroom.contract.runs import NewRun
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.errors import InvalidInput, LimitExceeded, StateroomError
from stateroom.ids import CountedIds
from stateroom.model.limits import ID_BYTES_MAX, TEXT_BYTES_MAX
from stateroom.model.run import Run
from stateroom.model.thread import Thread

__all__ = [
    "LEASE",
    "SECOND",
    "OpensStorage",
    "StorageHarness",
    "check_id",
    "check_refused",
    "check_text",
    "claim_one",
    "make_run",
    "make_thread",
    "new_run",
    "together",
]

T = TypeVar("T")

SECOND = 1_000_000
"""A second, as storages count time."""

LEASE = 30 * SECOND
"""How long the suite's workers lease a run."""

MEETING_SECONDS: Final = 30.0
"""How long threads wait for each other; longer means that one of them has failed."""


class OpensStorage(Protocol):
    """What the fixture ``new_storage`` returns: a function that makes a storage, not yet opened.

    The first is empty. Made again, it is the same storage if it is ``DURABLE``, and otherwise another.
    """

    def __call__(self, *, clock: Clock, **options: Any) -> Storage:
        """Make a storage that goes by ``clock``; ``limits`` are ``EventLimits``."""


class StorageHarness:
    """The fixtures of the storage suite, and short ways to what tests need to be there."""

    @pytest.fixture
    def new_storage(self) -> OpensStorage:
        """Return what makes the storage under test; each suite gives this fixture."""
        raise NotImplementedError("a suite overrides the fixture new_storage")

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the clock that the storage goes by."""
        return ManualClock()

    @pytest.fixture
    def ids(self) -> Callable[[], str]:
        """Return a source of ids."""
        return CountedIds()

    @pytest.fixture
    def storage(self, new_storage: OpensStorage, clock: ManualClock) -> Iterator[Storage]:
        """Return the storage under test, open and empty."""
        storage = new_storage(clock=clock)
        storage.open()
        yield storage
        storage.close()


def make_thread(storage: Storage, thread_id: str, **fields: Any) -> Thread:
    """Make a thread."""
    return storage.threads.create(NewThread(thread_id, **fields))


def new_run(run_id: str, thread_id: str, **fields: Any) -> NewRun:
    """Return a run to be made, of an assistant that need not exist."""
    return NewRun(
        **{"assistant_id": "a", "assistant_version": 1, "kwargs": {}, **fields},
        run_id=run_id,
        thread_id=thread_id,
    )


def make_run(storage: Storage, run_id: str, thread_id: str, **fields: Any) -> Run:
    """Make a run on a thread that exists."""
    (run,) = storage.runs.create([new_run(run_id, thread_id, **fields)])
    return run


def claim_one(storage: Storage, owner: str = "worker") -> Run | None:
    """Claim one run, or None when none can be."""
    claimed = storage.runs.claim(owner, lease=LEASE)
    assert len(claimed) <= 1
    return claimed[0] if claimed else None


def together(callers: int, act: Callable[[int], T]) -> list[T | StateroomError]:
    """Let callers act at one moment, each in a thread of its own; return what each returned or raised.

    ``act`` is told which of the callers it is, from 0.
    """
    barrier = threading.Barrier(callers, timeout=MEETING_SECONDS)

    def outcome(number: int) -> T | StateroomError:
        barrier.wait()
        try:
            return act(number)
        except StateroomError as error:
            return error

    with ThreadPoolExecutor(callers) as threads:
        return list(threads.map(outcome, range(callers)))


def check_id(field: str, use: Callable[[Any], object], *, optional: bool = False) -> None:
    """See that an id is refused by its field's name where no database can hold it, and else taken."""
    for wrong in ("", "a\0b", "a\ud800", 7, *(() if optional else (None,))):
        check_refused(InvalidInput, field, partial(use, wrong))
    # Its bytes count: each of these letters has two.
    for long in ("i" * (ID_BYTES_MAX + 1), "\xe4" * (ID_BYTES_MAX // 2 + 1)):
        check_refused(LimitExceeded, field, partial(use, long))
    use("i" * ID_BYTES_MAX)


def check_text(field: str, use: Callable[[Any], object]) -> None:
    """See that a text is refused by its field's name where no database can hold it, and else taken."""
    for wrong in ("a\0b", "a\ud800", 7):
        check_refused(InvalidInput, field, partial(use, wrong))
    check_refused(LimitExceeded, field, partial(use, "i" * (TEXT_BYTES_MAX + 1)))
    use("i" * TEXT_BYTES_MAX)
    use("")


def check_refused(kind: type[StateroomError], field: str, call: Callable[[], object]) -> None:
    """See that a call is refused, with an error of this kind that names the field."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.field == field
