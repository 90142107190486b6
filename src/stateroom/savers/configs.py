"""Configs as LangGraph passes them, read into what the tables understand, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from langchain_core.runnables import RunnableConfig

from stateroom.drivers.sql.checkpoint_rows import Key, Query
from stateroom.errors import InvalidInput
from stateroom.model.page import check_page
from stateroom.model.text import flaw, show
from stateroom.savers.metadata import wanted_metadata

__all__ = ["checked_thread", "config_of", "key_of", "query_of"]


def key_of(config: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """Return the thread, the namespace and the checkpoint that a config names; raise InvalidInput."""
    configurable = config.get("configurable") or {}
    if configurable.get("thread_id") is None:
        raise InvalidInput(
            "configurable.thread_id is missing; pass config={'configurable': {'thread_id': ...}}",
            field="configurable.thread_id",
        )
    thread_id = checked_thread(configurable["thread_id"], "configurable.thread_id")
    ns = _text(configurable.get("checkpoint_ns") or "", "configurable.checkpoint_ns")
    return thread_id, ns, _checkpoint_id(configurable)


def config_of(key: Key) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {
        "configurable": {
            "thread_id": key.thread_id,
            "checkpoint_ns": key.ns,
            "checkpoint_id": key.checkpoint_id,
        }
    }


def query_of(
    config: Mapping[str, Any] | None,
    filter: Mapping[str, Any] | None,
    before: Mapping[str, Any] | None,
    limit: int | None,
) -> tuple[Query, dict[str, Any], int | None]:
    """Return what ``list`` asks for: which checkpoints, what their metadata have, and how many."""
    if limit is not None:
        limit, _ = check_page(limit, 0)
    wanted = wanted_metadata(filter)
    contained = {key: value for key, value in wanted.items() if value is not None}
    query = Query(
        before=_checkpoint_id((before or {}).get("configurable") or {}),
        contains=orjson.dumps(contained) if contained else None,
    )
    if config is not None:
        thread_id, ns, checkpoint_id = key_of(config)
        # Without a namespace all of them are meant.
        named = config["configurable"].get("checkpoint_ns") is not None
        query = query._replace(thread_id=thread_id, ns=ns if named else None, checkpoint_id=checkpoint_id)
    return query, wanted, limit


def checked_thread(thread_id: object, field: str) -> str:
    """Return a thread's id as text, since some pass numbers; raise InvalidInput for what none can be."""
    return _text(thread_id if isinstance(thread_id, str) else str(thread_id), field)


def _checkpoint_id(configurable: Mapping[str, Any]) -> str | None:
    found = configurable.get("checkpoint_id")
    return _text(str(found), "configurable.checkpoint_id") if found else None


def _text(text: object, field: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"{field} is {show(text)}; pass a string", field=field)
    if problem := flaw(text):
        raise InvalidInput(f"{field} {problem}; leave it out", field=field)
    return text
