"""What a roll-back puts back: the pending writes that were there before a run, written down as bytes."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence

import orjson

from stateroom.drivers.sql.checkpoint_rows import Write

__all__ = ["Place", "mark_of", "marked"]

Place = tuple[str, str, Sequence[Write]]
"""A checkpoint of a thread by its namespace and its id, and its pending writes."""


def mark_of(places: Iterable[Place]) -> bytes:
    """Write down the places where a run that is about to start may add pending writes."""
    return orjson.dumps(
        [[ns, checkpoint_id, [_plain(write) for write in writes]] for ns, checkpoint_id, writes in places]
    )


def marked(mark: bytes | None) -> list[Place]:
    """Return the places that ``mark_of`` wrote down; none if there is no mark."""
    return [
        (ns, checkpoint_id, [Write._make([*write[:-1], b64decode(write[-1])]) for write in writes])
        for ns, checkpoint_id, writes in (orjson.loads(mark) if mark else ())
    ]


def _plain(write: Write) -> list[str | int | None]:
    return [*write[:-1], b64encode(write.blob).decode()]
