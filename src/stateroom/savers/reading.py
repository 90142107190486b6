"""Checkpoints as LangGraph wants them, read from the tables' rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import TASKS

from stateroom.drivers.sql.checkpoint_rows import Key, Query, SaverTables, Stored, Write
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.savers.configs import config_of
from stateroom.savers.keeping import open_channels
from stateroom.savers.lines import line_of
from stateroom.savers.metadata import fits
from stateroom.savers.versions import next_version

__all__ = ["Reading"]

KEYS_AT_ONCE = 256
"""Checkpoints whose keys, and metadata if there is a filter, are looked at in one statement."""

AT_ONCE = (8, 16, 32, 64, 128)
"""Checkpoints that are read together: few for who wants few, more and more for who wants all."""

SENDS_INSIDE = 4
"""The version of the format from which a checkpoint has what it sends among its own values."""

Seeds = Callable[[Session, Key, Collection[str]], Mapping[str, Any]]
"""Returns the values that a checkpoint has of some channels."""


class Reading:
    """The reads of one saver, with its serialiser as it is at the moment."""

    def __init__(
        self,
        dialect: Dialect,
        tables: SaverTables,
        serde: SerializerProtocol,
        *,
        load: Callable[[Callable[[Session], Any]], Any],
        unpacked: Callable[[Stored], dict[str, Any]],
        seeds: Seeds,
    ) -> None:
        """``load`` lets something read a checkpoint and its writes as of one moment."""
        self._dialect = dialect
        self._tables = tables
        self._serde = serde
        self._load = load
        self._unpacked = unpacked
        self._seeds = seeds

    def one(self, thread_id: str, ns: str, checkpoint_id: str | None) -> CheckpointTuple | None:
        """Return a checkpoint (None: the newest of the namespace), or None."""
        found = self._load(lambda session: self._tables.load(session, thread_id, ns, checkpoint_id))
        return self._tuple(*found) if found else None

    def pages(
        self, query: Query, wanted: Mapping[str, Any], limit: int | None
    ) -> Iterator[list[CheckpointTuple]]:
        """Yield the checkpoints that ``list`` asks for, page by page; none is held open in between."""
        sizes = iter(AT_ONCE)
        size = 0
        for keys in self._key_pages(query, wanted, limit):
            while keys:
                size = next(sizes, size)
                now, keys = keys[:size], keys[size:]
                found = self._load(partial(self._tables.load_all, keys=now))
                yield [self._tuple(*each) for each in found]

    def sends_parent(self, session: Session, key: Key) -> str | None:
        """Return the parent from which a checkpoint of an old format reads what it sends, or None."""
        parent_id = self._tables.parent(session, key)
        if parent_id is None or not self._sent(session, key, parent_id):
            return None
        found = self._tables.load(session, *key)
        return parent_id if found and _is_old(self._unpacked(found[0])) else None

    def history(
        self, place: tuple[str, str, str | None], channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """Return for each channel the nearest ancestor's value, and the writes from that ancestor on."""
        if not channels:
            return {}
        return self._dialect.read_together(lambda session: self._history(session, place, channels))

    def _history(
        self, session: Session, place: tuple[str, str, str | None], channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        thread_id, ns, checkpoint_id = place
        newest = self._tables.newest(session, thread_id, ns, 1) if checkpoint_id is None else []
        target = newest[0][0] if newest else checkpoint_id
        chains: dict[str, list[str]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        if target is not None:
            self._walk(session, Key(thread_id, ns, target), chains, seeds)
        ids = sorted({found for chain in chains.values() for found in chain})
        writes = self._tables.writes_to(session, thread_id, ns, ids, list(chains)) if ids else []
        return {
            channel: _entry(self._since(chain, channel, writes), channel, seeds)
            for channel, chain in chains.items()
        }

    def _walk(
        self, session: Session, target: Key, chains: dict[str, list[str]], seeds: dict[str, Any]
    ) -> None:
        """Fill in the ancestors that make up each channel, nearest first, and the values they begin with."""
        missing = set(chains)
        line = line_of(self._tables, session, target)
        next(line, None)
        while missing and (link := next(line, None)):
            for channel in missing:
                chains[channel].append(link.checkpoint_id)
            if maybe := missing - open_channels(link.metadata):
                found = self._seeds(session, target._replace(checkpoint_id=link.checkpoint_id), maybe)
                seeds |= found
                missing -= found.keys()

    def _since(
        self, chain: Sequence[str], channel: str, writes: Sequence[tuple[str, Write]]
    ) -> list[PendingWrite]:
        by_checkpoint: dict[str, list[Write]] = {}
        for checkpoint_id, write in writes:
            if write.channel == channel:
                by_checkpoint.setdefault(checkpoint_id, []).append(write)
        return [
            self._pending(write)
            for checkpoint_id in reversed(chain)
            for write in by_checkpoint.get(checkpoint_id, ())
        ]

    def _key_pages(self, query: Query, wanted: Mapping[str, Any], limit: int | None) -> Iterator[list[Key]]:
        after: Key | None = None
        left = limit
        while left is None or left > 0:
            size = KEYS_AT_ONCE if left is None or wanted else min(left, KEYS_AT_ONCE)
            look = partial(self._tables.keys, query=query, after=after, limit=size, metadata=bool(wanted))
            found = self._dialect.read(look)
            fitting = [key for key, metadata in found if not wanted or fits(_object(metadata), wanted)]
            yield fitting[:left]
            if len(found) < size:
                return
            after = found[-1][0]
            left = None if left is None else left - len(fitting)

    def _tuple(self, stored: Stored, writes: Sequence[Write]) -> CheckpointTuple:
        checkpoint = self._unpacked(stored)
        if stored.parent_id is not None and _is_old(checkpoint):
            self._take_sends(stored.key, stored.parent_id, checkpoint)
        parent = stored.parent_id and config_of(stored.key._replace(checkpoint_id=stored.parent_id))
        return CheckpointTuple(
            config_of(stored.key),
            checkpoint,  # type: ignore[arg-type]  # a checkpoint is a dict with certain keys
            _object(stored.metadata),  # type: ignore[arg-type]  # and so are its metadata
            parent or None,
            [self._pending(write) for write in writes],
        )

    def _take_sends(self, key: Key, parent_id: str, checkpoint: dict[str, Any]) -> None:
        """Give a checkpoint of an old format what was sent in its parent, where later formats have it."""
        if sends := self._dialect.read(lambda session: self._sent(session, key, parent_id)):
            versions = checkpoint["channel_versions"]
            versions[TASKS] = max(versions.values()) if versions else next_version(None)
            checkpoint["channel_values"][TASKS] = [self._pending(write)[2] for write in sends]

    def _sent(self, session: Session, key: Key, parent_id: str) -> list[Write]:
        found = self._tables.writes_to(session, key.thread_id, key.ns, [parent_id], [TASKS])
        return [write for _, write in found]

    def _pending(self, write: Write) -> PendingWrite:
        return write.task_id, write.channel, self._serde.loads_typed((write.type or "null", write.blob))


def _entry(writes: list[PendingWrite], channel: str, seeds: Mapping[str, Any]) -> DeltaChannelHistory:
    if channel in seeds:
        return {"writes": writes, "seed": seeds[channel]}
    return {"writes": writes}


def _is_old(checkpoint: Mapping[str, Any]) -> bool:
    return bool(checkpoint.get("v", 1) < SENDS_INSIDE)


def _object(raw: bytes | None) -> dict[str, Any]:
    return json.loads(raw) if raw else {}
