"""Terms: numbers for the leaves of a JSON object, so that an index leads to what contains another object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from math import isnan
from typing import Any, Final, NamedTuple

from stateroom.drivers.sql.dialect import Session
from stateroom.model.state import decode_state, encode_state

__all__ = ["Wanted", "change_terms", "metadata_terms", "values_terms", "wanted_metadata", "wanted_values"]

VALUES_DEPTH: Final = 2
"""Levels of objects in a thread's values whose scalars have terms; large states stay cheap by it."""

_METADATA: Final = b"metadata"
_VALUES: Final = b"values"
_OBJECT: Final = b"{"
_ARRAY: Final = b"]"
_ELEMENT: Final = b"["
_SCALARS: Final = (str, int, float, type(None))
_PLAIN: Final = frozenset((*_SCALARS, bool))


class Wanted(NamedTuple):
    """The terms that everything has which contains an object; if they ``suffice``, nothing else has them."""

    terms: frozenset[int]
    suffice: bool


def metadata_terms(metadata: Mapping[str, Any]) -> frozenset[int]:
    """Return the terms of metadata, plain JSON as it is read back: of each leaf, object and array."""
    return frozenset(_term(_METADATA, spelled) for spelled in _all(dict(metadata), b"") if spelled != _OBJECT)


def wanted_metadata(wanted: Mapping[str, Any]) -> Wanted:
    """Return what metadata must have that contain ``wanted``, plain JSON."""
    leaves = [spelled for spelled in _leaves(dict(wanted), b"") if spelled != _OBJECT]
    return Wanted(frozenset(_term(_METADATA, spelled) for spelled in leaves), _are_independent(dict(wanted)))


def values_terms(values: Any) -> frozenset[int]:
    """Return the terms of a thread's values: of the scalars in objects down to ``VALUES_DEPTH``."""
    return frozenset(_term(_VALUES, spelled) for spelled in _shallow(values, b"", VALUES_DEPTH))


def wanted_values(wanted: Mapping[str, Any]) -> Wanted:
    """Return what values must have that contain ``wanted``, plain JSON."""
    terms = frozenset(_term(_VALUES, spelled) for spelled in _shallow(wanted, b"", VALUES_DEPTH))
    return Wanted(terms, bool(wanted) and _is_shallow(wanted, VALUES_DEPTH))


def change_terms(
    session: Session, table: str, id: str, created_at: int, old: AbstractSet[int], new: AbstractSet[int]
) -> None:
    """Write the difference between the terms that a row has and those that it is to have.

    ``table`` is the name of a table of terms, such as ``stateroom.thread_term``.
    """
    row = {"id": id, "created_at": created_at}
    if gone := sorted(old - new):
        session.execute(
            f"delete from {table} where created_at = :created_at and id = :id "  # noqa: S608  # a constant
            "and term in (select value from {each bigint :terms})",
            {**row, "terms": gone},
        )
    if come := sorted(new - old):
        session.execute(
            f"insert into {table} (term, created_at, id) "  # noqa: S608  # a constant
            "select value, cast(:created_at as bigint), cast(:id as text) from {each bigint :terms} "
            "where true on conflict do nothing",
            {**row, "terms": come},
        )


def _all(value: Any, path: bytes) -> Iterator[bytes]:
    """Spell everything that may be asked for: each scalar, object and array with the way to it."""
    if isinstance(value, dict):
        yield path + _OBJECT
        for key, part in value.items():
            yield from _all(part, path + _step(key))
    elif isinstance(value, list):
        yield path + _ARRAY
        for part in value:
            yield from _all(part, path + _ELEMENT)
    else:
        yield path + _scalar(value)


def _leaves(value: Any, path: bytes) -> Iterator[bytes]:
    """Spell the ends of all ways alone: whoever has them has what lies on the ways."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, path + _step(key))
    elif isinstance(value, list) and value:
        for part in value:
            yield from _leaves(part, path + _ELEMENT)
    else:
        yield from _all(value, path)


def _are_independent(wanted: Any) -> bool:
    """Tell whether no two leaves must be in one element of an array, which terms do not tell."""
    if isinstance(wanted, dict):
        return all(map(_are_independent, wanted.values()))
    if isinstance(wanted, list):
        return all(len(list(_leaves(part, b""))) == 1 for part in wanted)
    return True


def _shallow(value: Any, path: bytes, depth: int) -> Iterator[bytes]:
    if not isinstance(value, Mapping) or not depth:
        return
    for key, given in value.items():
        if isinstance(given, Mapping):
            yield from _shallow(given, path + _step(key), depth - 1)
        elif not isinstance(given, list | tuple):
            # It may be a date or the like, which is kept as a text.
            part = given if type(given) in _PLAIN else decode_state(encode_state(given, field="values"))
            if isinstance(part, _SCALARS):
                yield path + _step(key) + _scalar(part)


def _is_shallow(wanted: Any, depth: int) -> bool:
    """Tell whether all that is wanted are scalars that have terms, and no NaN, which equals nothing."""
    if isinstance(wanted, Mapping):
        return depth > 0 and bool(wanted) and all(_is_shallow(part, depth - 1) for part in wanted.values())
    return isinstance(wanted, _SCALARS) and not (isinstance(wanted, float) and isnan(wanted))


def _step(key: str) -> bytes:
    raw = key.encode("utf-8", "surrogatepass")
    return b'"%d:%b' % (len(raw), raw)


def _scalar(value: Any) -> bytes:
    """Spell a scalar so that equal ones are spelled alike, and others are not."""
    if value is None:
        return b"n"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, float) and not value.is_integer():
        return b"." + repr(value).encode()
    # In base 16, since Python refuses to write long numbers in base 10.
    return b"#%x" % int(value)


def _term(kind: bytes, spelled: bytes) -> int:
    return int.from_bytes(blake2b(spelled, digest_size=8, person=kind).digest(), "big", signed=True)
