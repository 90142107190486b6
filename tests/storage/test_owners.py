"""A storage in a file is used by its owner alone, and by nobody before it is opened or after it is closed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from stateroom.contract.threads import NewThread
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.errors import Misconfigured
from stateroom.savers import SqliteSaver
from stateroom.search.index_config import parse_index_config


@pytest.fixture
def new(tmp_path: Path) -> Callable[[], SqliteStorage]:
    return partial(SqliteStorage, str(tmp_path / "server.db"), parse_index_config(None))


def use(storage: SqliteStorage) -> list[Callable[[], object]]:
    return [
        partial(storage.threads.create, NewThread("t")),
        partial(storage.threads.get, "t"),
        partial(storage.runs.claim, "w", lease=1),
        storage.now,
        partial(SqliteSaver.over(storage).get_tuple, {"configurable": {"thread_id": "t"}}),
    ]


def check_refused(storage: SqliteStorage) -> None:
    for call in use(storage):
        with pytest.raises(Misconfigured, match="open it first") as caught:
            call()
        assert caught.value.field == "path"


def test_nobody_uses_it_before_it_is_opened_or_after_it_is_closed(new: Callable[[], SqliteStorage]) -> None:
    storage = new()
    check_refused(storage)
    storage.open()
    for call in use(storage):
        call()
    storage.close()
    check_refused(storage)
    storage.open()
    assert storage.threads.get("t") is not None
    storage.close()


def test_a_storage_that_was_refused_is_not_used(new: Callable[[], SqliteStorage]) -> None:
    owner, other = new(), new()
    owner.open()
    with pytest.raises(Misconfigured, match="in use by this process"):
        other.open()
    check_refused(other)
    owner.threads.create(NewThread("t"))
    owner.close()
    other.open()
    assert other.threads.get("t") is not None
    other.close()
