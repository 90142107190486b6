"""What two stores must agree on, and how exactly."""

from __future__ import annotations

import math
from typing import Any

from typing_extensions import override

from stateroom.contract.items import Capability
from stateroom.errors import StateroomError
from stateroom.model.item import KeyEntry
from stateroom.stores.items import Item, SearchItem
from stateroom.testing.snapshot import spelled

__all__ = ["check_same", "facts", "revision_of", "revisions_in"]

VECTOR_TOLERANCE = 1e-6
TEXT_TOLERANCE = 1e-9
STAMP_TOLERANCE = 1e-3


class _Near(float):
    """A score, equal to any other that is as good as the same."""

    tolerance = VECTOR_TOLERANCE

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and math.isclose(
            self, other, rel_tol=self.tolerance, abs_tol=self.tolerance
        )

    __hash__ = None  # type: ignore[assignment]  # what is nearly equal has no hash


class _TextScore(_Near):
    tolerance = TEXT_TOLERANCE


class _Stamp(float):
    """When an item was put: while the clock stands still, a store may count on from items that are gone."""

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(self - other) < STAMP_TOLERANCE

    __hash__ = None  # type: ignore[assignment]  # what is nearly equal has no hash


def check_same(found: Any, wanted: Any) -> None:
    assert found == wanted, f"the store answers\n{found}\nand the reference\n{wanted}"


def facts(answer: Any, able: frozenset[Capability]) -> Any:
    """Return what two stores must agree on: values to the type, the order of keys and the sign of zero."""
    if isinstance(answer, Item | SearchItem):
        told = [answer.namespace, answer.key, spelled(answer.value, able), answer.ttl, answer.expires_at]
        if Capability.EXACT_TIMES in able:
            told += [_Stamp(when.timestamp()) for when in (answer.created_at, answer.updated_at)]
        if isinstance(answer, SearchItem):
            components = answer.components
            is_text = components is not None and components["vector"] is None
            told += [_near(answer.score, is_text=is_text), components is None]
            if components is not None:
                told += [_near(components["text"], is_text=True), _near(components["vector"], is_text=False)]
        return told
    if isinstance(answer, KeyEntry):
        return _facts_of_entry(answer, able)
    if isinstance(answer, StateroomError):
        return type(answer), answer.field
    return [facts(each, able) for each in answer] if isinstance(answer, list) else answer


def _facts_of_entry(entry: KeyEntry, able: frozenset[Capability]) -> list[Any]:
    told = [entry.key, entry.is_prefix, entry.size, entry.modified_at, spelled(entry.value, able)]
    if Capability.EXACT_TIMES in able:
        told.append(entry.updated_at and _Stamp(entry.updated_at.timestamp()))
    return told


def _near(score: float | None, *, is_text: bool) -> _Near | None:
    return None if score is None else (_TextScore if is_text else _Near)(score)


def revision_of(item: Item | SearchItem) -> int:
    """Return the revision of an item, 0 where the store has none."""
    return item.revision or 0


def revisions_in(answer: Any) -> list[int]:
    if isinstance(answer, Item | SearchItem):
        return [revision_of(answer)]
    return (
        [revision for each in answer for revision in revisions_in(each)] if isinstance(answer, list) else []
    )
