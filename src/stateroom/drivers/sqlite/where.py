"""Filters as SQL conditions on the JSON text of items.

A condition is true or false for every row, never null. What SQL cannot decide exactly as
``stateroom.model.filter`` does (deep equality, real numbers, odd keys, integers beyond 64 bits) is
decided by that module through a function that every connection has.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from stateroom.model.filter import And, Compare, Filter, Not, Or, compile_filter
from stateroom.model.json_values import decode_value

__all__ = ["Condition", "KeyIndex", "Matchers", "key_index", "where"]

CONDITIONS_MAX = 100
"""Conditions that a filter may have in SQL: SQLite allows expressions of a limited depth and size."""

_INT64_MAX = 2**63 - 1
_ORDER = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
Matcher = Callable[[Mapping[str, Any]], bool]


class Condition(NamedTuple):
    """A condition and its parameters.

    ``via`` is a declared index that leads to every row that may match, by the condition ``bound``, whose
    parameter is the first one.
    """

    sql: str
    parameters: tuple[Any, ...]
    via: str | None = None
    bound: str = ""


class KeyIndex(NamedTuple):
    """The index of one declared key: its name, the indexed expression, and the statement that makes it."""

    name: str
    expression: str
    create: str


class Matchers:
    """The compiled filters that running statements refer to by number."""

    def __init__(self) -> None:
        self._matchers: dict[int, Matcher] = {}
        self._next = 0

    def install(self, connection: sqlite3.Connection) -> None:
        """Give a connection the function ``stateroom_matches(number, value)``."""
        connection.create_function("stateroom_matches", 2, self._matches)

    def add(self, condition: Filter) -> int:
        """Return the number of a filter."""
        # A few numbers live at a time; old ones go once no statement can be using them any more.
        self._next += 1
        self._matchers[self._next] = compile_filter(condition)
        if len(self._matchers) > 10_000:
            for number in list(self._matchers)[:5_000]:
                self._matchers.pop(number, None)
        return self._next

    def _matches(self, number: int, value: str | bytes) -> bool:
        raw = value if isinstance(value, bytes) else value.encode()
        return self._matchers[number](decode_value(raw))


def key_index(key: str) -> KeyIndex | None:
    """Return the index for a declared key, or None when SQLite cannot address such a key."""
    if not _is_plain(key):
        return None
    digest = blake2b(key.encode(), digest_size=8).hexdigest()
    path = _path(key).replace("'", "''")
    expression = f"json_extract(value, '{path}')"
    name = f"stateroom_item_key_{digest}"
    create = f"create index if not exists {name} on stateroom_item ({expression}, revision)"
    return KeyIndex(name, expression, create)


def where(
    condition: Filter, matchers: Matchers, declared: Mapping[str, KeyIndex], *, exotic: bool
) -> Condition:
    """Return the SQL of a filter over the columns ``value`` and ``exotic`` of the table ``i``.

    ``exotic`` says whether any row holds integers beyond 64 bits; those rows are matched in Python.
    """
    sql, parameters = _exact(condition, matchers)
    if exotic:
        number = matchers.add(condition)
        sql = f"case when i.exotic then stateroom_matches(?, i.value) else {sql} end"
        parameters = (number, *parameters)
    parts = condition.parts if isinstance(condition, And) else (condition,)
    usable = next((part for part in parts if _is_usable(part, declared)), None)
    if not isinstance(usable, Compare):
        return Condition(f"({sql})", parameters)
    # The bound is loose, since it only has to lead to every row that the exact condition accepts.
    index = declared[usable.key]
    sign = {"$eq": "=", "$gt": ">=", "$lt": "<="}.get(usable.operator[:3], "=")
    expression = index.expression.replace("(value,", "(i.value,", 1)
    bound = f"{expression} {sign} json_extract(?, '$')"
    operand = orjson.dumps(usable.operand).decode()
    return Condition(f"({bound} and ({sql}))", (operand, *parameters), index.name, bound)


def _exact(condition: Filter, matchers: Matchers) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL of a filter, or a call of Python for one that SQLite would find too large."""
    if _conditions(condition) > CONDITIONS_MAX:
        return "stateroom_matches(?, i.value)", (matchers.add(condition),)
    return _Builder(matchers).build(condition)


def _conditions(condition: Filter) -> int:
    """Count the conditions that a filter comes to, those of its choices included."""
    match condition:
        case And(parts) | Or(parts):
            return sum(map(_conditions, parts))
        case Not(part):
            return _conditions(part)
        case Compare(_, operator, operand):
            return len(operand) if operator in ("$in", "$nin") else 1


class _Builder:
    """Builds the condition of one filter."""

    def __init__(self, matchers: Matchers) -> None:
        self._matchers = matchers

    def build(self, condition: Filter) -> tuple[str, tuple[Any, ...]]:
        match condition:
            case And(parts):
                return self._joined(parts, " and ", "1")
            case Or(parts):
                return self._joined(parts, " or ", "0")
            case Not(part):
                sql, parameters = self.build(part)
                return f"not ({sql})", parameters
            case Compare():
                return self._compare(condition)

    def _joined(self, parts: tuple[Filter, ...], word: str, empty: str) -> tuple[str, tuple[Any, ...]]:
        built = [self.build(part) for part in parts]
        sql = word.join(f"({sql})" for sql, _ in built)
        return sql or empty, tuple(value for _, values in built for value in values)

    def _compare(self, compare: Compare) -> tuple[str, tuple[Any, ...]]:
        key, operator, operand = compare.key, compare.operator, compare.operand
        if not _is_plain(key):
            return self._python(compare)
        if operator == "$exists":
            sql, parameters = self._type(key)
            return f"{sql} is {'not ' if operand else ''}null", parameters
        if operator in ("$ne", "$nin"):
            positive = Compare(key, "$eq" if operator == "$ne" else "$in", operand)
            sql, parameters = self._compare(positive)
            return f"not ({sql})", parameters
        if operator == "$in":
            return self._joined(tuple(Compare(key, "$eq", choice) for choice in operand), " or ", "0")
        if operator == "$eq":
            return self._equal(compare)
        if operator in _ORDER:
            return self._ordered(compare)
        return self._python(compare)

    def _equal(self, compare: Compare) -> tuple[str, tuple[Any, ...]]:
        key, operand = compare.key, compare.operand
        kind, kind_parameters = self._type(key)
        if operand is None or isinstance(operand, bool):
            name = "null" if operand is None else str(operand).lower()
            return f"coalesce({kind} = '{name}', 0)", kind_parameters
        if isinstance(operand, str):
            test = f"json_extract(i.value, ?) = ? and {kind} = 'text'"
            values = (_path(key), operand, *kind_parameters)
            # Compact JSON spells a member in one way, so a plain text search rules most rows out.
            member = (orjson.dumps(key) + b":" + orjson.dumps(operand)).decode()
            return f"instr(i.value, ?) and coalesce({test}, 0)", (member, *values)
        if isinstance(operand, int) and abs(operand) <= _INT64_MAX:
            return self._number(compare, "=")
        return self._python(compare)

    def _ordered(self, compare: Compare) -> tuple[str, tuple[Any, ...]]:
        key, operand, sign = compare.key, compare.operand, _ORDER[compare.operator]
        if isinstance(operand, str):
            kind, kind_parameters = self._type(key)
            sql = f"coalesce(json_extract(i.value, ?) {sign} ? and {kind} = 'text', 0)"
            return sql, (_path(key), operand, *kind_parameters)
        if isinstance(operand, float) or abs(operand) <= _INT64_MAX:
            return self._number(compare, sign)
        return self._python(compare)

    def _number(self, compare: Compare, sign: str) -> tuple[str, tuple[Any, ...]]:
        """Compare integers in SQL; real numbers in Python, since SQLite may read them a bit off."""
        kind, kind_parameters = self._type(compare.key)
        number = self._matchers.add(compare)
        sql = (
            f"case {kind} when 'integer' then json_extract(i.value, ?) {sign} ? "
            "when 'real' then stateroom_matches(?, i.value) else 0 end"
        )
        return sql, (*kind_parameters, _path(compare.key), compare.operand, number)

    def _python(self, compare: Compare) -> tuple[str, tuple[Any, ...]]:
        return "stateroom_matches(?, i.value)", (self._matchers.add(compare),)

    def _type(self, key: str) -> tuple[str, tuple[Any, ...]]:
        return "json_type(i.value, ?)", (_path(key),)


def _is_usable(part: Filter, declared: Mapping[str, KeyIndex]) -> bool:
    """Tell whether the index of a declared key can lead to the rows that a condition accepts."""
    if not isinstance(part, Compare) or part.operator not in ("$eq", *_ORDER):
        return False
    operand = part.operand
    if isinstance(operand, bool) or not isinstance(operand, str | int | float):
        return False
    if isinstance(operand, int) and abs(operand) > _INT64_MAX:
        return False
    return part.key in declared


def _is_plain(key: str) -> bool:
    """Tell whether SQLite's JSON paths can spell a key: older releases know no escapes."""
    return '"' not in key and "\\" not in key and key.isprintable()


def _path(key: str) -> str:
    return f'$."{key}"'
