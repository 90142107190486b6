"""Streams that many write and many follow at once: every frame once and in order, and then the end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.errors import Fenced
from stateroom.model.frame import Frame
from stateroom.model.run import Attempt, RunStatus
from stateroom.testing.parts.storage_events import claim, new, numbers, settle, stream
from stateroom.testing.storage_harness import LEASE, MEETING_SECONDS, StorageHarness, together

__all__ = ["EventFollowersSuite"]

RUNS = 20
ROUNDS = 10


def follow(
    storage: Storage, run_id: str, *, after: int = 0, limit: int = 3
) -> tuple[list[Frame], RunStatus | None]:
    """Read a stream to its end, woken when there may be more; return its frames and the final status."""
    woken = threading.Event()
    stop = storage.events.subscribe(run_id, woken.set)
    seen: list[Frame] = []
    try:
        while True:
            page = storage.events.read(run_id, after=after, limit=limit)
            seen += page.frames
            if page.frames:
                after = page.frames[-1].seq
            elif page.status not in (RunStatus.PENDING, RunStatus.RUNNING):
                return seen, page.status
            else:
                assert woken.wait(MEETING_SECONDS)
                woken.clear()
    finally:
        stop()


class EventFollowersSuite(StorageHarness):
    """A reader is woken, says what he has seen, and misses nothing before the end."""

    def test_who_subscribed_is_called_when_frames_come_and_when_the_run_ends(self, storage: Storage) -> None:
        attempt, other = stream(storage), stream(storage, "other")
        pages = []
        # Whoever is called sees already what he is called for.
        stop = storage.events.subscribe("r", lambda: pages.append(storage.events.read("r")))
        storage.events.append(other, new("a"))
        assert pages == []
        storage.events.append(attempt, new("a"))
        assert pages
        assert numbers(pages[-1]) == [1]
        count = len(pages)
        settle(storage, attempt, RunStatus.ERROR)
        assert len(pages) > count
        assert pages[-1].status is RunStatus.ERROR
        count = len(pages)
        stop()
        stop()
        storage.runs.delete("r")
        assert len(pages) == count

    def test_who_subscribed_is_called_when_the_run_is_gone(self, storage: Storage) -> None:
        settle(storage, stream(storage))
        statuses = []
        storage.events.subscribe("r", lambda: statuses.append(storage.events.read("r").status))
        storage.runs.delete("r")
        assert statuses[-1] is None

    def test_who_waits_for_the_end_alone_is_not_called_for_frames(self, storage: Storage) -> None:
        attempt = stream(storage)
        called: list[str] = []
        stop = storage.events.subscribe("r", partial(called.append, "it may have ended"), frames=False)
        storage.events.append(attempt, new("a", "b"))
        assert called == []
        settle(storage, attempt)
        assert called
        stop()
        called.clear()
        storage.runs.delete("r")
        assert called == []

    def test_several_may_subscribe_to_a_run(self, storage: Storage) -> None:
        attempt = stream(storage)
        called: list[int] = []
        stops = [storage.events.subscribe("r", partial(called.append, n)) for n in range(3)]
        storage.events.append(attempt, new("a"))
        assert {*called} == {0, 1, 2}
        called.clear()
        stops[1]()
        storage.events.append(attempt, new("b"))
        assert {*called} == {0, 2}

    def test_readers_see_every_frame_once_and_in_order_and_then_the_end(self, storage: Storage) -> None:
        attempts = [stream(storage, f"r{number}") for number in range(RUNS)]

        def write(number: int) -> int:
            last = 0
            for part in range(ROUNDS):
                last = storage.events.append(attempts[number], new(*[f"{number} {part}"] * (part % 3 + 1)))
            settle(storage, attempts[number])
            return last

        def act(number: int) -> Any:
            if number < RUNS:
                return write(number)
            run = number % RUNS
            # Some have seen a part already.
            return follow(storage, f"r{run}", after=run % 2 * 5)

        outcomes = together(RUNS * 2, act)
        total = sum(part % 3 + 1 for part in range(ROUNDS))
        for run in range(RUNS):
            assert outcomes[run] == total
            frames, status = outcomes[RUNS + run]  # type: ignore[misc]
            assert status is RunStatus.SUCCESS
            every = [f"{run} {part}".encode() for part in range(ROUNDS) for _ in range(part % 3 + 1)]
            expected = [Frame(seq, "values", data) for seq, data in enumerate(every, 1)]
            assert frames == expected[run % 2 * 5 :]

    def test_writers_of_one_run_share_its_numbers(self, storage: Storage) -> None:
        attempt = stream(storage)

        def act(number: int) -> list[int]:
            return [storage.events.append(attempt, new(number, number)) for _ in range(ROUNDS)]

        lasts = together(8, act)
        frames = storage.events.read("r").frames
        assert [frame.seq for frame in frames] == [*range(1, 8 * ROUNDS * 2 + 1)]
        for number, own in enumerate(lasts):
            assert isinstance(own, list)
            assert own == sorted(own)
            for last in own:
                # What one call adds stays together.
                pair = [frames[last - 2], frames[last - 1]]
                assert [frame.data for frame in pair] == [str(number).encode()] * 2

    def test_who_lost_his_run_stops_no_other(self, storage: Storage) -> None:
        attempts = [stream(storage, f"r{number}") for number in range(RUNS)]
        for attempt in attempts[::2]:
            settle(storage, attempt)
        for round_ in range(1, ROUNDS + 1):
            outcomes = together(RUNS, lambda number: storage.events.append(attempts[number], new("a")))
            for number, outcome in enumerate(outcomes):
                if number % 2:
                    assert outcome == round_
                else:
                    assert isinstance(outcome, Fenced)

    def test_nothing_comes_behind_the_end(self, storage: Storage) -> None:
        attempts = [stream(storage, f"r{number}") for number in range(4)]
        begun = [threading.Event() for _ in attempts]

        def write(number: int) -> int:
            last = 0
            try:
                while True:
                    last = storage.events.append(attempts[number], new(last))
                    if last == ROUNDS:
                        begun[number].set()
            except Fenced:
                return last

        with ThreadPoolExecutor(8) as threads:
            writers = [threads.submit(write, number) for number in range(4)]
            readers = [threads.submit(follow, storage, f"r{number}") for number in range(4)]
            for number, attempt in enumerate(attempts):
                assert begun[number].wait(MEETING_SECONDS)
                settle(storage, attempt)
            ends = [
                (writer.result(), *reader.result()) for writer, reader in zip(writers, readers, strict=True)
            ]
        for number, (last, frames, status) in enumerate(ends):
            assert status is RunStatus.SUCCESS
            # What was acknowledged before the end, and nothing else, is there when the reader sees the end.
            assert [frame.seq for frame in frames] == [*range(1, last + 1)]
            assert storage.events.read(f"r{number}", after=last).frames == []

    def test_a_reader_sees_through_a_take_over(self, storage: Storage, clock: ManualClock) -> None:
        attempts: list[Attempt] = [stream(storage)]
        with ThreadPoolExecutor(1) as threads:
            reader = threads.submit(follow, storage, "r")
            for part in range(3):
                storage.events.append(attempts[-1], new(part, part))
                clock.microseconds += LEASE + 1
                storage.runs.reap(max_attempts=9)
                attempts.append(claim(storage, "r"))
            settle(storage, attempts[-1])
            frames, status = reader.result()
        assert (numbers_of(frames), status) == ([*range(1, 7)], RunStatus.SUCCESS)


def numbers_of(frames: list[Frame]) -> list[int]:
    """Return the numbers of frames."""
    return [frame.seq for frame in frames]
