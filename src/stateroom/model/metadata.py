"""When metadata counts as holding what a search asks for: JSON containment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateroom.model.json_values import equal

__all__ = ["contains"]


def contains(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell whether ``metadata`` contains ``wanted``, both plain JSON objects, as Postgres' ``@>`` does.

    Objects contain objects whose every key they have with a contained value. Arrays contain arrays whose
    every element some element of theirs contains, in any order. Other values contain what is equal by JSON's
    types: 1 is 1.0 but not true, and null is a value.
    """
    return _contains(dict(metadata), dict(wanted))


def _contains(held: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(held, dict) and all(
            key in held and _contains(held[key], part) for key, part in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(held, list) and all(any(_contains(one, part) for one in held) for part in wanted)
    return equal(held, wanted)
