"""Refreshes that are gathered are written by a timer, again if that fails, and never after a stop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from stateroom.drivers.sql import refreshes
from stateroom.drivers.sql.refreshes import Refreshes
from stateroom.errors import Unavailable
from stateroom.model.item import Record


class Storage:
    """What refreshes are written to: it can be held up, and be away."""

    def __init__(self) -> None:
        self.refreshes = Refreshes(self.flush, lambda record: record.key)
        self.written: list[dict[str, int]] = []
        self.asked, self.free = threading.Semaphore(0), threading.Semaphore(0)
        self.is_away = False

    def flush(self) -> None:
        expiries = self.refreshes.pending()
        self.asked.release()
        self.free.acquire()
        if self.is_away:
            raise Unavailable("away")
        self.written.append(expiries)
        self.refreshes.written(expiries)

    def note(self, key: str, expires_at: int) -> None:
        self.refreshes.note(Record(("notes",), key, b"{}", 1, 1, 1, 1.0, 60), expires_at)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Storage:
    monkeypatch.setattr(refreshes, "FLUSH_SECONDS", 0.0)
    return Storage()


def test_what_could_not_be_written_is_written_later(storage: Storage) -> None:
    storage.is_away = True
    storage.note("k", 100)
    for _ in range(2):
        storage.asked.acquire()
        storage.free.release()
    storage.asked.acquire()
    storage.is_away = False
    storage.free.release()
    storage.refreshes.stop()
    assert storage.written == [{"k": 100}]
    assert not storage.refreshes


def test_what_is_refreshed_while_others_are_written_is_written_too(storage: Storage) -> None:
    storage.note("k", 100)
    storage.asked.acquire()
    storage.note("k", 200)
    storage.note("other", 300)
    storage.free.release(2)
    storage.asked.acquire()
    storage.refreshes.stop()
    assert storage.written == [{"k": 100}, {"k": 200, "other": 300}]


@pytest.mark.parametrize("is_away", [False, True])
def test_stop_waits_for_the_write_that_has_begun_and_none_follows(storage: Storage, is_away: bool) -> None:
    storage.is_away = is_away
    storage.note("k", 100)
    storage.asked.acquire()
    with ThreadPoolExecutor(1) as thread:
        stopping = thread.submit(storage.refreshes.stop)
        storage.note("later", 200)
        assert not stopping.done()
        storage.free.release(10)
        stopping.result()
    assert storage.refreshes._timer is None
