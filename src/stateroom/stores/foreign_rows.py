"""What a foreign store's items are to us: addresses, times in microseconds, and values as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from stateroom.errors import InvalidInput, LimitExceeded, NotSupported
from stateroom.model.file import Stat, stat_of
from stateroom.model.item import Record
from stateroom.model.json_values import decode_value, encode_value
from stateroom.model.namespace import Namespace, has_prefix

__all__ = ["Address", "Row", "distinct", "in_order", "is_ours", "record_of"]

Address: TypeAlias = tuple[Namespace, str]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Row:
    """One item that a foreign search has answered; its value is converted once somebody looks at it."""

    __slots__ = ("_item", "_raw", "address", "score", "updated_at")

    def __init__(self, item: Any, address: Address) -> None:
        self._item = item
        self._raw: bytes | None = None
        self.address = address
        self.updated_at = _microseconds(item.updated_at)
        score = getattr(item, "score", None)
        # The cosine of a vector of zeros is no number in some stores; ours call it 0.
        self.score = 0.0 if score is not None and math.isnan(score) else score

    @property
    def raw(self) -> bytes:
        """The value as ``encode_value`` writes it."""
        if self._raw is None:
            self._raw = _encoded(self._item.value, *self.address)
        return self._raw

    @property
    def value(self) -> dict[str, Any]:
        """A copy of the value, of plain JSON whatever the store holds."""
        return decode_value(self.raw)

    @property
    def record(self) -> Record:
        """The item as drivers answer it."""
        created_at = _microseconds(self._item.created_at)
        return Record(*self.address, self.raw, 0, created_at, self.updated_at, None, None)

    @property
    def stat(self) -> Stat | None:
        """What the item is as a file, read from its value."""
        return stat_of(self.address[1], self.raw)


def record_of(item: Any, namespace: Namespace, key: str) -> Record:
    """Return what a foreign ``get`` has answered as drivers answer it."""
    return Row(item, (namespace, key)).record


def distinct(items: Iterable[Any], prefix: Namespace) -> dict[Address, Row]:
    """Return the rows at or below ``prefix``, each once: as it was put last, and with its best score.

    What no call of ours could address, since its names break our rules, is left out.
    """
    rows: dict[Address, Row] = {}
    inside: dict[Namespace, bool] = {}
    for item in items:
        namespace = tuple(item.namespace)
        wanted = inside.get(namespace)
        if wanted is None:
            wanted = inside[namespace] = has_prefix(namespace, prefix) and is_ours(namespace)
        if not wanted or not isinstance(item.key, str):
            continue
        address = namespace, item.key
        row, other = Row(item, address), rows.get(address)
        if other is None or (row.updated_at, row.score or 0.0) > (other.updated_at, other.score or 0.0):
            rows[address] = row
    return rows


def in_order(rows: Mapping[Address, Row]) -> dict[Address, Row]:
    """Return rows with the latest put first; those of one moment by their address, so that pages agree."""
    return dict(sorted(rows.items(), key=lambda entry: (-entry[1].updated_at, entry[0])))


def is_ours(namespace: tuple[Any, ...]) -> bool:
    """Tell whether a namespace is one that an item of ours could be in."""
    return bool(namespace) and all(isinstance(label, str) and label for label in namespace)


def _microseconds(moment: datetime | str) -> int:
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    # A time without a zone is UTC: so LangGraph's own SQLite store writes it.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def _encoded(value: object, namespace: Namespace, key: str) -> bytes:
    try:
        return encode_value(value)
    except (InvalidInput, LimitExceeded) as error:
        raise NotSupported(
            f"the store holds something under key {key!r} in {namespace!r} that is no JSON object: {error}",
            field=error.field,
        ) from error
