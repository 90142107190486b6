"""An item in long-term memory, as storage keeps it and hands it out."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from stateroom.clock import microseconds_to_datetime
from stateroom.model.json_values import decode_value
from stateroom.model.namespace import Namespace

__all__ = ["Hit", "KeyEntry", "Record"]


class Record(NamedTuple):
    """One live item.

    ``raw`` is its JSON object as ``encode_value`` wrote it. ``revision`` comes from a sequence that
    the whole store shares, so for one key it only ever grows, over delete and expiry too; 0 means that
    this driver has no revisions. Times are microseconds since 1970 UTC. ``ttl`` is in minutes; ``ttl``
    and ``expires_at`` are None for an item that never expires.
    """

    namespace: Namespace
    key: str
    raw: bytes
    revision: int
    created_at: int
    updated_at: int
    ttl: float | None
    expires_at: int | None


class Hit(NamedTuple):
    """One item of a search result.

    ``score`` is None when the search had no query. ``text`` and ``vector`` are what each kind of
    search thought of the item (BM25 and the vector metric), or None where it had no opinion.
    """

    record: Record
    score: float | None = None
    text: float | None = None
    vector: float | None = None


class KeyEntry(NamedTuple):
    """One entry of a listing of keys: an item, or what the keys of several items begin with.

    ``key`` is either, the latter up to and with the delimiter; ``is_prefix`` tells the two apart, and says
    that all else is None. ``revision`` is the item's, None on a store without any, and ``updated`` when it
    was last put, in microseconds since 1970 UTC. ``size`` is the bytes of the file that the item is, of its
    text as UTF-8, and ``modified_at`` what the file says of itself there; both are None for an item that is
    no file. A file's key begins with ``/``, and its value has one of the forms of Deep Agents' ``FileData``.
    ``raw`` is the value as JSON, where values were asked for.
    """

    key: str
    revision: int | None = None
    updated: int | None = None
    size: int | None = None
    modified_at: str | None = None
    raw: bytes | None = None

    @property
    def is_prefix(self) -> bool:
        """Whether it stands for all keys that begin so."""
        return self.revision is None and self.updated is None

    @property
    def updated_at(self) -> datetime | None:
        """When the item was last put: aware, UTC, to the microsecond."""
        return None if self.updated is None else microseconds_to_datetime(self.updated)

    @property
    def value(self) -> dict[str, Any] | None:
        """The JSON object, a copy of the caller's own."""
        return None if self.raw is None else decode_value(self.raw)
