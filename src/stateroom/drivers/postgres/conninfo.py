"""The address of a database, in whatever spelling a console or another library hands it out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from stateroom.errors import Misconfigured

__all__ = ["Address", "parse_uri"]

_SCHEME: Final = re.compile(r"(postgres|postgresql)(\+\w+)?://", re.IGNORECASE)
_ENCODED: Final = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*")

_FOREIGN: Final = frozenset(
    {
        "async_fallback",
        "binary_parameters",
        "charset",
        "connect_retries",
        "connection_limit",
        "default_query_exec_mode",
        "encoding",
        "max_overflow",
        "pgbouncer",
        "pool_max_conns",
        "pool_min_conns",
        "pool_size",
        "pool_timeout",
        "prepareThreshold",
        "prepared_statement_cache_size",
        "prepared_statement_name_func",
        "schema",
        "socket_timeout",
        "sslaccept",
        "statement_cache_size",
        "statement_cache_mode",
        "supa",
        "uselibpqcompat",
        "workaround",
    }
)
"""What other drivers and poolers read from a URL, and libpq refuses to."""

_KNOWN: Final = frozenset(option.keyword.decode() for option in Conninfo.get_defaults()) | {"ssl"}

_TLS: Final = {"true": "require", "1": "require", "false": "disable", "0": "disable", "no-verify": "require"}
"""Other drivers' words for ``sslmode``."""

_DEFAULTS: Final[Mapping[str, str]] = {
    "connect_timeout": "10",
    "fallback_application_name": "stateroom",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""Settings that are in force unless given: a connection that is silently gone is noticed in a minute."""


class Address(NamedTuple):
    """Where the database is, as libpq wants it, and whether a transaction pooler stands before it."""

    conninfo: str
    pooled: bool


def parse_uri(uri: object) -> Address:
    """Return what a URL or a ``key=value`` string says.

    ``postgres://`` and ``postgresql+driver://`` are ``postgresql://``; a user or password may hold
    characters that should have been encoded; parameters meant for other drivers are left out. Raises
    ``Misconfigured`` (field ``uri``), never with the password in its message.
    """
    if not isinstance(uri, str) or not uri.strip():
        raise Misconfigured(
            "uri must be the address of a Postgres database, such as postgresql://user:password@host/db",
            field="uri",
        )
    text, pooled = uri.strip(), False
    if match := _SCHEME.match(text):
        text, pooled = _libpq_url(text[match.end() :])
    elif "://" in text:
        # What stands before it is not told, as it may be part of a password.
        raise Misconfigured("uri is no address of a Postgres database; use postgresql://", field="uri")
    given: dict[str, str] | None = None
    # The message of what could not be read quotes parts of it, which may be the password: it is not kept.
    with suppress(psycopg.ProgrammingError):
        given = conninfo_to_dict(text)  # type: ignore[assignment]  # a string holds nothing but strings
    if given is None:
        raise Misconfigured(
            "uri cannot be read as the address of a Postgres database; write "
            "postgresql://user:password@host:5432/db, with other characters than letters and digits "
            "percent-encoded in user and password, or 'host=... dbname=... user=... password=...'",
            field="uri",
        )
    return Address(make_conninfo(**{**_defaults(given), **given, "client_encoding": "UTF8"}), pooled)


def _defaults(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings to use where none are given, neither here nor where libpq looks."""
    if "service" in given or "PGSERVICE" in os.environ:
        return {}
    return {name: value for name, value in _DEFAULTS.items() if f"PG{name.upper()}" not in os.environ}


def _libpq_url(rest: str) -> tuple[str, bool]:
    location, query = _parted(rest)
    user, at, place = location.rpartition("@")
    kept: dict[str, str] = {}
    pooled = False
    for name, value in query:
        if name == "pgbouncer":
            pooled = value.lower() in ("true", "1")
        elif name == "ssl":
            kept.setdefault("sslmode", _TLS.get(value.lower(), value))
        elif name == "sslmode":
            kept[name] = _TLS.get(value.lower(), value)
        elif name in _KNOWN:
            kept[name] = value
        elif name not in _FOREIGN:
            raise Misconfigured(
                f"uri has the parameter {name!r}, which libpq does not know: leave it out", field="uri"
            )
    asked = f"?{urlencode(kept, quote_via=quote)}" if kept else ""
    return f"postgresql://{_encoded(user)}{at}{place}{asked}", pooled


def _parted(rest: str) -> tuple[str, list[tuple[str, str]]]:
    """Part a URL from its query; a question mark may also belong to the password."""
    location, _, text = rest.partition("?")
    query = _query(text)
    if "@" in text and not {name for name, _ in query} <= _KNOWN | _FOREIGN:
        user, _, tail = rest.rpartition("@")
        place, _, text = tail.partition("?")
        return f"{user}@{place}", _query(text)
    return location, query


def _query(text: str) -> list[tuple[str, str]]:
    pairs = (part.partition("=") for part in text.split("&") if part)
    return [(unquote(name), unquote(value)) for name, _, value in pairs]


def _encoded(user: str) -> str:
    """Encode what of user and password is not; a ``%`` that begins no code shows that nothing is."""
    safe = "%" if _ENCODED.fullmatch(user) else ""
    name, colon, password = user.partition(":")
    return quote(name, safe=safe) + colon + quote(password, safe=safe)
