"""An item in long-term memory, as storage keeps it and hands it out."""

from __future__ import annotations

from typing import NamedTuple

from stateroom.model.file import Stat
from stateroom.model.namespace import Namespace

__all__ = ["Hit", "Listed", "Record"]


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


class Listed(NamedTuple):
    """One entry of a listing of keys: an item, or what several keys begin with, whose ``revision`` is None.

    ``revision``, ``updated_at`` and ``raw`` are those of the record, where ``raw`` was asked for.
    """

    key: str
    revision: int | None = None
    updated_at: int | None = None
    stat: Stat | None = None
    raw: bytes | None = None
