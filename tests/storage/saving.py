"""The saver over a storage of any kind, and small checkpoints written by hand."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint

from stateroom.contract.storage import Storage
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.model.run import Attempt
from stateroom.savers.attempts import bound
from stateroom.savers.base import Saver
from stateroom.savers.postgres import PostgresSaver
from stateroom.savers.sqlite import SqliteSaver

__all__ = ["at", "checkpoint_ids", "put_checkpoint", "saver_over"]


def saver_over(storage: Storage) -> Saver:
    """Return the saver over a storage's own connections."""
    if isinstance(storage, PostgresStorage):
        return PostgresSaver.over(storage)
    assert isinstance(storage, SqliteStorage)
    return SqliteSaver.over(storage)


def at(thread_id: str) -> Any:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


def put_checkpoint(saver: Saver, thread_id: str, value: Any, *, attempt: Attempt | None = None) -> Any:
    """Save a checkpoint of one channel on top of a thread's latest; return its config."""
    latest = saver.get_tuple(at(thread_id))
    version = saver.get_next_version(latest and latest.checkpoint["channel_versions"].get("x"), None)  # type: ignore[arg-type]  # of str
    checkpoint: Any = {
        **empty_checkpoint(),
        "channel_values": {"x": value},
        "channel_versions": {"x": version},
    }
    config = latest.config if latest else at(thread_id)
    with bound(attempt) if attempt else nullcontext():
        return saver.put(config, checkpoint, {"source": "loop", "step": 1}, {"x": version})


def checkpoint_ids(saver: Saver, thread_id: str) -> list[str]:
    """Return the ids of a thread's checkpoints, the newest first."""
    return [found.checkpoint["id"] for found in saver.list(at(thread_id))]
