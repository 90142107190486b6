"""Answering a listing of keys from items that are at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Protocol

from stateroom.contract.items import ListKeys
from stateroom.model.file import Stat
from stateroom.model.item import KeyEntry, Record
from stateroom.model.keys import select_keys

__all__ = ["AtHand", "list_keys"]


class AtHand(Protocol):
    """A live item, whose parts are made when they are asked for or before."""

    @property
    def record(self) -> Record:
        """The item as drivers answer it."""

    @property
    def stat(self) -> Stat | None:
        """What its put has said of it as a file."""


def list_keys(operation: ListKeys, keys: Sequence[str], items: Mapping[str, AtHand]) -> list[KeyEntry]:
    """Return what the operation lists of the items in its namespace.

    ``keys`` are all of theirs, sorted; some may have no item any more.
    """
    _, prefix, suffix, delimiter, after, limit, containing, with_values = operation

    def counts(key: str) -> bool:
        item = items.get(key)
        return item is not None and (containing is None or containing in item.record.raw)

    def listed(key: str) -> KeyEntry:
        if delimiter is not None and key.find(delimiter, len(prefix)) >= 0:
            return KeyEntry(key)
        item = items[key]
        record = item.record
        raw = record.raw if with_values else None
        size, modified_at = item.stat or (None, None)
        return KeyEntry(key, record.revision or None, record.updated_at, size, modified_at, raw)

    shown = select_keys(keys, prefix, suffix, delimiter, after, counts)
    return [listed(key) for key in islice(shown, limit)]
