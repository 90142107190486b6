"""A process that is killed at any moment loses nothing that it acknowledged."""

from __future__ import annotations

import random
import sqlite3
from datetime import datetime
from itertools import islice
from pathlib import Path

import pytest

from stateroom.stores.memory import InMemoryStore
from tests.faults.conftest import Child, Start
from tests.faults.programs.children import refresh, write_history
from tests.faults.programs.histories import contents, history, index, open_store

PUTS = 1_000
KILLS_PER_FILE = 5


@pytest.mark.parametrize("seed", range(10))
def test_nothing_acknowledged_is_lost_by_kill_9_and_no_batch_is_half_there(
    start: Start, tmp_path: Path, seed: int
) -> None:
    path, dice = tmp_path / "memory.db", random.Random(seed)
    batches = list(history(seed, PUTS))
    wanted = InMemoryStore(index=index())
    done = 0
    for _ in range(KILLS_PER_FILE):
        child = start(write_history, str(path), seed, PUTS, done)
        acknowledged = kill_after(child, dice.randrange(2 * len(batches) // KILLS_PER_FILE), done)
        for batch in batches[done:acknowledged]:
            wanted.batch(batch)
        with open_store(path) as store:
            found = contents(store)
        if found != contents(wanted):
            # The batch at work when the process died may be stored without anybody having been told.
            wanted.batch(batches[acknowledged])
            acknowledged += 1
        assert found == contents(wanted), f"after {acknowledged} batches of seed {seed}"
        assert_sound(path)
        done = acknowledged


def kill_after(child: Child, acknowledgements: int, done: int) -> int:
    """Kill a process some time after that many acknowledgements; return how many batches are acknowledged."""
    messages = child.messages()
    told = list(islice(messages, acknowledgements))
    child.kill()
    told += messages
    return done + len(told) - told.count("done")


def assert_sound(path: Path) -> None:
    """Have SQLite check its file, and FTS5 its index against the documents it is of."""
    connection = sqlite3.connect(path)
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.execute(
        "insert into stateroom_text_index (stateroom_text_index, rank) values ('integrity-check', 1)"
    )
    connection.rollback()
    connection.close()


def test_kill_9_loses_the_latest_refreshes_at_most_and_never_an_item(start: Start, tmp_path: Path) -> None:
    child = start(refresh, str(tmp_path / "memory.db"))
    put: list[datetime] = [child.pipe.recv(), child.pipe.recv()]
    told: tuple[datetime, datetime] = child.pipe.recv()
    child.kill()
    with open_store(tmp_path / "memory.db") as store:
        early, late = (store.get(("notes",), key, refresh_ttl=False) for key in ("early", "late"))
        assert early is not None
        assert late is not None
        assert put[0] < told[0] == early.expires_at
        assert late.expires_at in (put[1], told[1])
        assert late.value == {"text": "tide"}
