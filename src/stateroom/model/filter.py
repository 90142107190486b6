"""What a filter on items means: it is parsed once, then tells of any value whether it matches.

A filter looks at top-level keys of the value; ``"a.b"`` is the key ``a.b``. All its conditions must hold.

=================================  ==========================================================================
``{"k": x}``, ``$eq``              the key is there and deeply equal; 1 is 1.0 but not true, null is a value
``$ne``                            not ``$eq``, so also where the key is missing
``$gt $gte $lt $lte``              both numbers, or both strings by code point; anything else does not match
``$in``, ``$nin``                  equal to one of the operands; not so, also where the key is missing
``$exists``                        whether the key is there, even with null
``$contains``                      an array that has the operand as an element, or all elements of an operand
                                   that is a list; or a string that has the operand, a string, as a part
``{"k": {"$not": {...}}}``         the operators inside, for this key, do not hold
``$and``, ``$or``, ``$not``        of whole filters
``{"k": {}}``                      no condition
=================================  ==========================================================================
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stateroom.errors import InvalidFilter
from stateroom.model.json_values import Json, equal, to_json
from stateroom.model.limits import FILTER_CHOICES_MAX, FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX, check_limit
from stateroom.model.text import flaw, path_step, show

__all__ = ["And", "Compare", "Filter", "Not", "Or", "Test", "compile_filter", "parse_filter"]

Test = Callable[[Mapping[str, Any]], bool]
"""Tells whether an object of plain JSON, such as ``decode_value`` returns, matches."""


class _Node:
    """What all filters can do; two filters are the same only if they are one object."""

    __slots__ = ()

    def matches(self, value: Mapping[str, Any]) -> bool:
        """Tell whether ``value`` matches; to ask it of many values, compile the filter."""
        return compile_filter(self)(value)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, slots=True)
class Compare(_Node):
    """One condition on one key; ``operator`` begins with ``$`` and ``operand`` is plain JSON that fits it."""

    key: str
    operator: str
    operand: Any


@dataclass(frozen=True, eq=False, slots=True)
class And(_Node):
    """All parts match; without parts it always matches."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Or(_Node):
    """At least one part matches."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Not(_Node):
    """The part does not match."""

    part: Filter


Filter = Compare | And | Or | Not


def parse_filter(raw: Mapping[str, Any] | None, *, field: str = "filter") -> Filter | None:
    """Return what ``raw`` means, or None if it states no condition.

    Raises InvalidFilter whose ``field`` is the path to what is wrong (``filter.$and[0].n.$gt``), and
    LimitExceeded above FILTER_DEPTH_MAX, FILTER_CONDITIONS_MAX and FILTER_CHOICES_MAX.
    """
    if raw is None:
        return None
    parser = _Parser(field)
    parsed = parser.parse(raw, field, 1)
    return None if _states_nothing(parsed) else parsed


def compile_filter(filter: Filter) -> Test:
    """Return a fast function that does what ``filter.matches`` does and never raises."""
    if isinstance(filter, Compare):
        return _compile_compare(filter)
    if isinstance(filter, Not):
        inner = compile_filter(filter.part)
        return lambda value: not inner(value)
    tests = tuple(compile_filter(part) for part in filter.parts)
    # A loop, because a generator expression would cost more than most tests do.
    hit = isinstance(filter, Or)

    def combined(value: Mapping[str, Any]) -> bool:
        for test in tests:
            if test(value) is hit:
                return hit
        return not hit

    return combined


class _Parser:
    def __init__(self, field: str) -> None:
        self._field = field
        self._conditions = 0

    def parse(self, raw: object, path: str, depth: int) -> Filter:
        if not isinstance(raw, Mapping):
            raise InvalidFilter(
                f"{path} is {show(raw)}; pass a filter such as {{'kind': 'note'}}", field=path
            )
        check_limit(depth, FILTER_DEPTH_MAX, "levels", field=path)
        return _all_of([self._parse_entry(key, entry, path, depth) for key, entry in raw.items()])

    def _parse_entry(self, key: object, entry: object, path: str, depth: int) -> Filter:
        if not isinstance(key, str):
            raise InvalidFilter(f"{path} has the key {show(key)}; keys must be strings", field=path)
        if fault := flaw(key):
            raise InvalidFilter(f"{path} has the key {show(key)}, which {fault}; remove it", field=path)
        name, here = str.__str__(key), path + path_step(key)
        if name in ("$and", "$or"):
            parts = self._parse_list(entry, here, depth)
            return _all_of(parts) if name == "$and" else Or(parts)
        if name == "$not":
            return Not(self.parse(entry, here, depth + 1))
        if name.startswith("$"):
            raise InvalidFilter(
                f"{here} is not an operator on whole filters; those are $and, $or and $not, "
                "and all others belong under a key",
                field=here,
            )
        return self._parse_condition(name, entry, here, depth)

    def _parse_list(self, entry: object, path: str, depth: int) -> tuple[Filter, ...]:
        if not isinstance(entry, (list, tuple)) or not entry:
            raise InvalidFilter(f"{path} is {show(entry)}; pass a list of at least one filter", field=path)
        return tuple(
            self.parse(part, f"{path}[{position}]", depth + 1) for position, part in enumerate(entry)
        )

    def _parse_condition(self, key: str, condition: object, path: str, depth: int) -> Filter:
        if not isinstance(condition, Mapping):
            return self._compare(key, "$eq", condition, path)
        operators = [name for name in condition if isinstance(name, str) and name.startswith("$")]
        if not operators and condition:
            return self._compare(key, "$eq", condition, path)
        if len(operators) < len(condition):
            raise InvalidFilter(
                f"{path} mixes operators ({', '.join(operators)}) with other keys; "
                "to compare with an object write {'$eq': {...}}",
                field=path,
            )
        return self._parse_operators(key, condition, path, depth)

    def _parse_operators(self, key: str, condition: Mapping[str, Any], path: str, depth: int) -> Filter:
        check_limit(depth, FILTER_DEPTH_MAX, "levels", field=path)
        parts: list[Filter] = []
        for name, operand in condition.items():
            here = path + path_step(name)
            if name == "$not":
                if not isinstance(operand, Mapping) or not all(
                    str(inner).startswith("$") for inner in operand
                ):
                    raise InvalidFilter(
                        f"{here} is {show(operand)}; pass operators such as {{'$gt': 1}}", field=here
                    )
                parts.append(Not(self._parse_operators(key, operand, here, depth + 1)))
            elif name in _PREDICATES:
                parts.append(self._compare(key, str.__str__(name), operand, here))
            else:
                known = ", ".join((*_PREDICATES, "$not"))
                raise InvalidFilter(f"{here} is not an operator; those for a key are {known}", field=here)
        return _all_of(parts)

    def _compare(self, key: str, operator: str, operand: object, path: str) -> Compare:
        self._conditions += 1
        check_limit(self._conditions, FILTER_CONDITIONS_MAX, "conditions", field=self._field)
        plain = to_json(operand, field=path, error=InvalidFilter)
        if operator in ("$in", "$nin") and not isinstance(plain, list):
            raise InvalidFilter(f"{path} is {show(operand)}; pass a list", field=path)
        if operator == "$exists" and not isinstance(plain, bool):
            raise InvalidFilter(f"{path} is {show(operand)}; pass True or False", field=path)
        if operator in _ORDERINGS and (isinstance(plain, bool) or not isinstance(plain, (int, float, str))):
            raise InvalidFilter(f"{path} is {show(operand)}; pass a number or a string", field=path)
        if operator in ("$in", "$nin", "$contains") and isinstance(plain, list):
            check_limit(len(plain), FILTER_CHOICES_MAX, "operands", field=path)
        return Compare(key, operator, plain)


def _all_of(parts: Sequence[Filter]) -> Filter:
    stated = tuple(part for part in parts if not _states_nothing(part))
    return stated[0] if len(stated) == 1 else And(stated)


def _states_nothing(part: Filter) -> bool:
    return isinstance(part, And) and not part.parts


_Predicate = Callable[[Any], bool]

_MISSING: Final = object()


def _compile_compare(compare: Compare) -> Test:
    key, operand = compare.key, compare.operand
    if compare.operator == "$eq" and isinstance(operand, str):
        # By far the most frequent condition; a missing key gives None, which is no string.
        return lambda value: bool(value.get(key) == operand)
    holds = _PREDICATES[compare.operator](operand)
    when_missing = compare.operator in ("$ne", "$nin") or (compare.operator == "$exists" and not operand)

    def compared(value: Mapping[str, Any]) -> bool:
        found = value.get(key, _MISSING)
        return when_missing if found is _MISSING else holds(found)

    return compared


def _equals(operand: Json) -> _Predicate:
    # What ``equal`` says, without the call where the operand alone settles which of its rules applies.
    if operand is None or isinstance(operand, bool):
        return lambda found: found is operand
    if isinstance(operand, (int, float)):
        return lambda found: found == operand and found.__class__ is not bool
    # Python's own comparison is fast and says no wherever JSON's does, but takes true for 1 inside.
    return lambda found: found == operand and equal(found, operand)


def _is_in(operands: list[Json]) -> _Predicate:
    strings = frozenset(each for each in operands if isinstance(each, str))
    others = [_equals(each) for each in operands if not isinstance(each, str)]

    def holds(found: Any) -> bool:
        return found in strings if isinstance(found, str) else any(equals(found) for equals in others)

    return holds


def _negated(make: Callable[[Any], _Predicate]) -> Callable[[Any], _Predicate]:
    def make_negated(operand: Json) -> _Predicate:
        holds = make(operand)
        return lambda found: not holds(found)

    return make_negated


def _orders(relation: Callable[[Any, Any], bool]) -> Callable[[Any], _Predicate]:
    def make(operand: str | int | float) -> _Predicate:
        if isinstance(operand, str):
            return lambda found: isinstance(found, str) and relation(found, operand)
        return lambda found: (
            isinstance(found, (int, float)) and found.__class__ is not bool and relation(found, operand)
        )

    return make


def _exists(operand: bool) -> _Predicate:
    # Whatever the key holds, it is there.
    return lambda _found: operand


def _contains(operand: Json) -> _Predicate:
    wanted = [_equals(each) for each in (operand if isinstance(operand, list) else [operand])]

    def holds(found: Any) -> bool:
        if isinstance(found, list):
            return all(any(equals(one) for one in found) for equals in wanted)
        return isinstance(found, str) and isinstance(operand, str) and operand in found

    return holds


_ORDERINGS: Final[dict[str, Callable[[Any], _Predicate]]] = {
    "$gt": _orders(operator.gt),
    "$gte": _orders(operator.ge),
    "$lt": _orders(operator.lt),
    "$lte": _orders(operator.le),
}

_PREDICATES: Final[dict[str, Callable[[Any], _Predicate]]] = {
    "$eq": _equals,
    "$ne": _negated(_equals),
    **_ORDERINGS,
    "$in": _is_in,
    "$nin": _negated(_is_in),
    "$exists": _exists,
    "$contains": _contains,
}
