"""What stores and savers are given to reach a database, checked before anything is connected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from stateroom.errors import Misconfigured

__all__ = ["check_pool", "check_schema"]

_SCHEMA: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")


def check_schema(schema: object) -> None:
    """Raise Misconfigured unless a schema of this name can be made without surprises."""
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
        raise Misconfigured(
            f"schema is {schema!r}; use at most 63 letters, digits, '_' and '-', not beginning with a digit",
            field="schema",
        )


def check_pool(uri: str | None, pool: object) -> None:
    """Raise Misconfigured unless either a URI is given, perhaps with a pool's options, or a pool."""
    shared = pool is not None and not isinstance(pool, Mapping)
    if shared and not hasattr(pool, "getconn"):
        raise Misconfigured(
            f"pool is {pool!r}; pass a psycopg_pool.ConnectionPool, or a mapping of its options", field="pool"
        )
    if shared and hasattr(pool, "__aenter__"):
        raise Misconfigured(
            "pool is an AsyncConnectionPool, whose connections belong to one event loop; pass a "
            "ConnectionPool, which serves sync and async callers of any loop",
            field="pool",
        )
    if shared and uri is not None:
        raise Misconfigured("uri and a ConnectionPool name two databases; pass one of them", field="uri")
    if not shared and uri is None:
        raise Misconfigured("uri is missing: postgresql://user:password@host:5432/database", field="uri")
