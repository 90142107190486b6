"""Items as LangGraph's users hold them: views of records that decode only what is looked at."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from langgraph.store.base import Item as LangGraphItem
from langgraph.store.base import SearchItem as LangGraphSearchItem
from typing_extensions import override

from stateroom.clock import microseconds_to_datetime
from stateroom.model.item import Hit, Record
from stateroom.model.json_values import decode_value

__all__ = ["Item", "SearchItem"]

_UNREAD: Any = object()


class _View:
    """What both kinds of item derive from their record."""

    __slots__ = ()

    _record: Record
    _value: Any

    @property
    def value(self) -> dict[str, Any]:
        """The JSON object, a copy of this item's own."""
        if self._value is _UNREAD:
            self._value = decode_value(self._record.raw)
        return self._value  # type: ignore[no-any-return]

    @value.setter
    def value(self, value: dict[str, Any]) -> None:
        self._value = value

    @property
    def key(self) -> str:
        """The key within the namespace."""
        return self._record.key

    @property
    def namespace(self) -> tuple[str, ...]:
        """The labels of the namespace."""
        return self._record.namespace

    @property
    def created_at(self) -> datetime:
        """When the item was first put: aware, UTC, to the microsecond."""
        return microseconds_to_datetime(self._record.created_at)

    @property
    def updated_at(self) -> datetime:
        """When the item was last put: aware, UTC, to the microsecond."""
        return microseconds_to_datetime(self._record.updated_at)

    @property
    def revision(self) -> int | None:
        """The number of the put that made the item so, which for one key only ever grows; None: unknown."""
        return self._record.revision or None

    @property
    def ttl(self) -> float | None:
        """Minutes that the item lives after a put or a refreshing read; None: it never expires."""
        return self._record.ttl

    @property
    def expires_at(self) -> datetime | None:
        """When the item expires: aware, UTC; None: it never does."""
        expires_at = self._record.expires_at
        return None if expires_at is None else microseconds_to_datetime(expires_at)


class Item(_View, LangGraphItem):  # type: ignore[override]  # derived, so not to be written
    """A LangGraph ``Item`` that also knows its ``revision``, ``ttl`` and ``expires_at``."""

    __slots__ = ("_record", "_value")

    def __init__(self, record: Record) -> None:
        self._record = record
        self._value = _UNREAD

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._record, self.value)


class SearchItem(_View, LangGraphSearchItem):  # type: ignore[override]  # as above
    """A LangGraph ``SearchItem``, with what ``Item`` adds.

    ``components`` is None unless the search was asked to explain itself; then it maps ``"text"`` to
    the BM25 score and ``"vector"`` to the vector metric, each None where that search had no opinion.
    """

    __slots__ = ("_record", "_value", "components")

    def __init__(self, hit: Hit, *, explain: bool = False) -> None:
        self._record = hit.record
        self._value = _UNREAD
        self.score = hit.score
        self.components = {"text": hit.text, "vector": hit.vector} if explain else None

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        components = self.components or {}
        hit = Hit(self._record, self.score, components.get("text"), components.get("vector"))
        return _restore_hit, (hit, self.value, self.components is not None)


def _restore(record: Record, value: dict[str, Any]) -> Item:
    item = Item(record)
    item.value = value
    return item


def _restore_hit(hit: Hit, value: dict[str, Any], explain: bool) -> SearchItem:
    item = SearchItem(hit, explain=explain)
    item.value = value
    return item
