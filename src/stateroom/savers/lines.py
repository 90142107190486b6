"""A checkpoint's line of descent, read as far as somebody wants to know."""

from __future__ import annotations

from collections.abc import Iterator

from stateroom.drivers.sql.checkpoint_rows import Key, Link, SaverTables
from stateroom.drivers.sql.dialect import Session

__all__ = ["line_of"]

AT_ONCE = 64
"""Ancestors that are read at once."""


def line_of(tables: SaverTables, session: Session, key: Key) -> Iterator[Link]:
    """Yield a checkpoint and its ancestors, nearest first; one that is its own ancestor is met once."""
    following: str | None = key.checkpoint_id
    seen: set[str] = set()
    # Most callers need no ancestor.
    count = 1
    while following is not None:
        links = tables.lineage(session, key.thread_id, key.ns, following, count)
        for link in links:
            if link.checkpoint_id in seen:
                return
            seen.add(link.checkpoint_id)
            yield link
        following = links[-1].parent_id if len(links) == count else None
        count = AT_ONCE
