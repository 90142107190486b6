"""Filters as SQL conditions on the jsonb ``i.value`` of items.

A condition is true or false for every row, never null. Equality is containment, which the GIN index on
``value`` answers; a declared key has two B-tree indexes of its own, which equality and ranges use instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from stateroom.drivers.postgres.documents import spelled
from stateroom.errors import Misconfigured
from stateroom.model.filter import And, Compare, Filter, Not, Or
from stateroom.model.json_values import Json

__all__ = [
    "ALTERNATIVES_MAX",
    "INDEXED_CHOICES_MAX",
    "INDEXED_KEY_BYTES_MAX",
    "INDEXED_TEXT_MAX",
    "Condition",
    "KeyIndex",
    "key_indexes",
    "where",
]

INDEXED_KEY_BYTES_MAX: Final = 500
"""UTF-8 bytes of a declared key, which is part of its indexes' definitions: rows that Postgres bounds."""

INDEXED_TEXT_MAX: Final = 200
"""Characters of a string that the index of a declared key holds, since entries of a B-tree are bounded."""

INDEXED_CHOICES_MAX: Final = 100
"""Choices to look up in the GIN index one by one; of several ``$in``, each with each of the others."""

ALTERNATIVES_MAX: Final = 10
"""Alternatives, such as of an ``$or``, that may lead to indexes; a thousand take long to plan."""

_ORDER: Final = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


class Condition(NamedTuple):
    """A condition, and its parameters by name; all names begin with ``f_``."""

    sql: str
    parameters: dict[str, Any]


class KeyIndex(NamedTuple):
    """An index of a declared key: its name, and the statements that make it, which take no parameters.

    ``statistics_sql`` makes an object of the same name, from which the next ``analyze`` learns how many rows
    a range matches; what it learns of a partial index says nothing of the table, and is not used.
    """

    name: str
    create_sql: str
    statistics_sql: str


def key_indexes(key: str) -> list[KeyIndex]:
    """Return the indexes of a declared key: of the numbers, and of the strings, that it has.

    Raises Misconfigured for a key above INDEXED_KEY_BYTES_MAX.
    """
    if len(key.encode()) > INDEXED_KEY_BYTES_MAX:
        raise Misconfigured(
            f"index_keys: Postgres cannot index a key of {len(key.encode()):,} bytes; one of more than "
            f"{INDEXED_KEY_BYTES_MAX} can still be filtered on, without an index",
            field="index_keys",
        )
    digest = blake2b(key.encode(), digest_size=8).hexdigest()
    member = _Key(_literal(key), "value")
    return [
        _key_index(f"item_key_{digest}_number", member.number),
        _key_index(f"item_key_{digest}_string", member.indexed_string),
    ]


def where(condition: Filter, declared: Collection[str] = ()) -> Condition:
    """Return the SQL of a filter; the keys that are ``declared`` have the indexes of ``key_indexes``."""
    builder = _Builder(declared)
    return Condition(f"({builder.build(condition)})", builder.parameters)


def _key_index(name: str, expression: str) -> KeyIndex:
    return KeyIndex(
        name,
        f"create index concurrently if not exists {name} on stateroom.item "
        f"(({expression}), updated_at desc, revision desc) where ({expression}) is not null",
        f"create statistics if not exists stateroom.{name} on ({expression}) from stateroom.item",
    )


class _Key:
    """The expressions on one key, ``key``, of the column ``value``; null where they are of another kind."""

    def __init__(self, key: str, value: str = "i.value") -> None:
        self.member = f"{value} -> {key}"
        self.exists = f"{value} ? {key}"
        self.is_array = f"jsonb_typeof({self.member}) = 'array'"
        self.number = f"case jsonb_typeof({self.member}) when 'number' then ({self.member})::numeric end"
        self.string = f"case jsonb_typeof({self.member}) when 'string' then {value} ->> {key} end"
        self.indexed_string = f'left({self.string}, {INDEXED_TEXT_MAX}) collate "C"'


class _Builder:
    """Builds the condition of one filter, and numbers its parameters."""

    def __init__(self, declared: Collection[str]) -> None:
        self.parameters: dict[str, Any] = {}
        self._declared = {key: _Key(_literal(key)) for key in declared}
        self._keys: dict[str, _Key] = {}
        self._alternatives = 0
        self._lookups = 1

    def build(self, condition: Filter) -> str:
        match condition:
            case And(parts):
                return _joined([self.build(part) for part in parts], " and ", "true")
            case Or(parts):
                return self._either([self.build(part) for part in parts])
            case Not(part):
                return _negated(self.build(part))
            case Compare():
                return self._compare(condition)

    def _compare(self, compare: Compare) -> str:
        key, operator, operand = compare.key, compare.operator, compare.operand
        match operator:
            case "$exists":
                return self._key(key).exists if operand else _negated(self._key(key).exists)
            case "$eq":
                return self._in(key, [operand])
            case "$ne":
                return _negated(self._in(key, [operand]))
            case "$in":
                return self._in(key, operand)
            case "$nin":
                return _negated(self._in(key, operand))
            case "$contains":
                return self._contains(key, operand)
        order = _ORDER[operator]
        return (
            self._string(key, order, operand)
            if isinstance(operand, str)
            else self._number(key, order, operand)
        )

    def _in(self, key: str, choices: list[Json]) -> str:
        """Return that the key equals one of the choices."""
        if not choices:
            return "false"
        if key in self._declared and all(map(_is_indexed, choices)):
            return self._in_index(self._declared[key], choices)
        member = self._key(key)
        # Postgres looks each row up in a hash table of the choices.
        equal = f"{member.member} = {self._any(map(spelled, choices), 'jsonb')} and {member.exists}"
        if self._lookups * len(choices) > INDEXED_CHOICES_MAX:
            return equal
        self._lookups *= len(choices)
        contained = f"i.value @> {self._any((spelled({key: each}) for each in choices), 'jsonb')}"
        # A scalar is contained only where it is equal, but an object also in larger ones.
        return f"{contained} and {equal}" if any(map(_has_parts, choices)) else contained

    def _in_index(self, key: _Key, choices: list[Json]) -> str:
        strings = [each for each in choices if isinstance(each, str)]
        numbers = [spelled(each) for each in choices if not isinstance(each, str)]
        found = []
        if numbers:
            found.append(_known(key.number, f"= {self._any(numbers, 'numeric')}"))
        if strings:
            found.append(_known(key.indexed_string, f"= {self._any(strings, 'text')}"))
        return self._either(found)

    def _number(self, key: str, order: str, operand: Json) -> str:
        relation = f"{order} {self._bind(spelled(operand))}::numeric"
        if key in self._declared:
            return _known(self._declared[key].number, relation)
        return f"coalesce({self._key(key).number} {relation}, false)"

    def _string(self, key: str, order: str, operand: str) -> str:
        if key in self._declared and _is_indexed(operand):
            return _known(self._declared[key].indexed_string, f"{order} {self._bind(operand)}::text")
        exact = f'coalesce({self._key(key).string} collate "C" {order} {self._bind(operand)}::text, false)'
        if key not in self._declared:
            return exact
        # What begins like a long operand may be on either side of it.
        bound = f"{order[0]}= {self._bind(operand[:INDEXED_TEXT_MAX])}::text"
        return f"{self._declared[key].indexed_string} {bound} and {exact}"

    def _contains(self, key: str, operand: Json) -> str:
        """Return that an array has the operand, or all of an operand that is a list; or a string has it."""
        member = self._key(key)
        wanted = operand if isinstance(operand, list) else [operand]
        found = f"i.value @> {self._bind(spelled({key: wanted}))}::jsonb"
        if isinstance(operand, str):
            part = f"position({self._bind(operand)}::text in {member.string})"
            return self._either([found, f"coalesce({part} > 0, false)"])
        whole = [spelled(each) for each in wanted if _has_parts(each)]
        if not whole:
            return found
        elements = f"array(select jsonb_array_elements({member.member}))"
        has_whole = f"{elements} @> {self._bind(whole)}::text[]::jsonb[]"
        return f"{found} and case when {member.is_array} then {has_whole} else false end"

    def _either(self, conditions: Sequence[str]) -> str:
        self._alternatives += 1
        either = _joined(conditions, " or ", "false")
        return either if self._alternatives <= ALTERNATIVES_MAX else f"({either}) is true"

    def _any(self, choices: Iterable[str], kind: str) -> str:
        """Return what equals, by ``=`` or another operator before it, one of the choices."""
        given = list(choices)
        if len(given) == 1:
            return f"{self._bind(given[0])}::{kind}"
        return f"any({self._bind(given)}::text[]::{kind}[])"

    def _key(self, key: str) -> _Key:
        if key not in self._keys:
            self._keys[key] = _Key(f"{self._bind(key)}::text")
        return self._keys[key]

    def _bind(self, value: str | list[str]) -> str:
        name = f"f_{len(self.parameters)}"
        self.parameters[name] = value
        return f"%({name})s"


def _joined(parts: Sequence[str], word: str, empty: str) -> str:
    return word.join(f"({part})" for part in parts) or empty


def _negated(condition: str) -> str:
    # Under a `not` Postgres would make alternatives of several parts, and look for indexes of each.
    return f"({condition}) is not true"


def _known(expression: str, relation: str) -> str:
    """Return a condition of which an index of what is not null can decide, and that is never null itself."""
    return f"({expression}) {relation} and ({expression}) is not null"


def _is_indexed(operand: Json) -> bool:
    """Tell whether the indexes of a declared key hold all of a value."""
    if isinstance(operand, str):
        return len(operand) < INDEXED_TEXT_MAX
    return isinstance(operand, int | float) and not isinstance(operand, bool)


def _has_parts(operand: Json) -> bool:
    return isinstance(operand, dict | list)


def _literal(key: str) -> str:
    """Return a key as an SQL string, without what has a meaning to those who rewrite the statement.

    A dot could make it look like a table's schema, and a percent sign begins a parameter.
    """
    escaped = key.replace("\\", "\\\\").replace("'", "''").replace(".", "\\x2e").replace("%", "\\x25")
    return f"E'{escaped}'"
