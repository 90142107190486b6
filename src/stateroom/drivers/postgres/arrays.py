"""Lists as parameters in Postgres's binary form: a statement for a hundred rows sends a dozen of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct, pack
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.adapt import AdaptersMap, Dumper, PyFormat
from psycopg.pq import Format
from typing_extensions import override

__all__ = ["Sent", "bigints", "byteas", "doubles", "integers", "teach", "texts", "uuids"]

_HEAD: Final = Struct("!iiIii")
_LENGTH: Final = Struct("!i")
_EMPTY: Final = Struct("!iiI")
_NULL: Final = _LENGTH.pack(-1)


class Sent:
    """A parameter in binary form, whose type the statement says: ``%(name)s::bigint[]``."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _SentDumper(Dumper):
    """Hands a ``Sent`` over as it is."""

    format = Format.BINARY
    oid = 0

    @override
    def dump(self, obj: Sent) -> bytes:
        return obj.data


psycopg.adapters.register_dumper(Sent, _SentDumper)


def teach(adapters: AdaptersMap) -> None:
    """See to it that a connection's adapters know a ``Sent``: those of an older connection do not."""
    try:
        adapters.get_dumper(Sent, PyFormat.BINARY)
    except psycopg.ProgrammingError:
        adapters.register_dumper(Sent, _SentDumper)


def bigints(numbers: Sequence[int | None]) -> Sent:
    """Return a ``bigint[]``."""
    return _fixed(numbers, 20, 8, "q")


def integers(numbers: Sequence[int | None]) -> Sent:
    """Return an ``integer[]``."""
    return _fixed(numbers, 23, 4, "i")


def doubles(numbers: Sequence[float | None]) -> Sent:
    """Return a ``double precision[]``."""
    return _fixed(numbers, 701, 8, "d")


def uuids(values: Iterable[UUID]) -> Sent:
    """Return a ``uuid[]``."""
    return _listed([value.bytes for value in values], 2950)


def byteas(values: Iterable[bytes | None]) -> Sent:
    """Return a ``bytea[]``."""
    return _listed(list(values), 17)


def texts(values: Iterable[str | None]) -> Sent:
    """Return a ``text[]``."""
    return _listed([None if value is None else value.encode() for value in values], 25)


def _fixed(numbers: Sequence[Any], oid: int, size: int, kind: str) -> Sent:
    """Return an array of numbers of one size, made without a loop unless one of them is null."""
    if None in numbers:
        one = Struct(f"!{kind}").pack
        return _listed([None if number is None else one(number) for number in numbers], oid)
    if not numbers:
        return Sent(_EMPTY.pack(0, 0, oid))
    elements: list[Any] = [size] * (2 * len(numbers))
    elements[1::2] = numbers
    return Sent(_HEAD.pack(1, 0, oid, len(numbers), 1) + pack(f"!{f'i{kind}' * len(numbers)}", *elements))


def _listed(values: Sequence[bytes | None], oid: int) -> Sent:
    if not values:
        return Sent(_EMPTY.pack(0, 0, oid))
    pieces = [_HEAD.pack(1, int(None in values), oid, len(values), 1)]
    for value in values:
        if value is None:
            pieces.append(_NULL)
        else:
            pieces += (_LENGTH.pack(len(value)), value)
    return Sent(b"".join(pieces))
