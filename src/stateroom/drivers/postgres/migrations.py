"""Bringing the schema of a database up to date, safely with any number of processes at once."""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from importlib.resources import files
from typing import Final

from psycopg import errors

from stateroom.drivers.postgres.arrays import bigints, texts, uuids
from stateroom.drivers.postgres.session import Session
from stateroom.errors import Misconfigured, Unavailable
from stateroom.model.file import stat_of

__all__ = ["LOCK_SECONDS", "Hindered", "alone", "applied", "in_turn", "migrate", "versions"]

LOCK_SECONDS = 120.0
"""How long one process waits for another that migrates or builds an index, before it is ``Unavailable``."""

POLL_SECONDS = 0.05
"""About how long to wait between two looks at whether it is done."""

FILLED_TOGETHER = 16
"""Files that are read together to note what is known of them; each may have the size of the largest value."""

_NAME: Final = re.compile(r"(\d{4})_\w+\.sql")

_log = logging.getLogger(__name__)


def versions() -> dict[int, str]:
    """Return the SQL of each migration by its number."""
    found = {}
    for entry in files("stateroom.drivers.postgres").joinpath("schema").iterdir():
        if match := _NAME.fullmatch(entry.name):
            found[int(match[1])] = entry.read_text(encoding="utf-8")
    return found


def applied(session: Session) -> set[int]:
    """Return the numbers of the migrations that have been applied; takes no lock."""
    try:
        rows = session.fetch("select version from stateroom.migration")
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return set()
    return {version for (version,) in rows}


def migrate(session: Session, schema: str) -> None:
    """Apply the migrations that are missing, each in a transaction, by one process at a time.

    Raises ``Misconfigured`` for a schema that a newer release has migrated further.
    """
    known = versions()
    if unknown := applied(session) - known.keys():
        raise Misconfigured(
            f"schema: {schema!r} has version {max(unknown)}, this release knows up to {max(known)}; "
            "upgrade stateroom",
            field="schema",
        )
    if session.fetch("show server_encoding") != [("UTF8",)]:
        raise Misconfigured("uri: the database's encoding must be UTF8", field="uri")
    if not session.fetch("select 1 from pg_namespace where nspname = %(schema)s", {"schema": schema}):
        session.script(f'create schema if not exists "{schema}"')
    # Not "if not exists", for which a user would need the right to create what is there.
    if session.fetch("select to_regclass('stateroom.migration') is null") == [(True,)]:
        session.execute(
            "create table stateroom.migration ("
            "version integer primary key, applied_at timestamptz not null default now())"
        )
        _mention_langgraphs_items(session)
    for version in sorted(known.keys() - applied(session)):
        with session.connection.transaction():
            session.script(known[version])
            if version in FILLS:
                FILLS[version](session)
            session.execute("insert into stateroom.migration (version) values (%(v)s)", {"v": version})
        _log.info("migrated the schema %s to version %d", schema, version)


def _mention_langgraphs_items(session: Session) -> None:
    """Say so if LangGraph's own store has items in this database, since an empty store would surprise."""
    table = session.fetch(
        "select a.attrelid::regclass::text from pg_attribute a "
        "where a.attrelid = to_regclass('store') and a.attname = 'prefix'"
    )
    if table and session.fetch(f"select 1 from {table[0][0]} limit 1"):
        _log.warning(
            "LangGraph's table %s has items, which this store does not read: it begins empty, in tables of "
            "its own. docs/migrating.md has the script that copies them (Copying the items)",
            table[0][0],
        )


def _fill_stats(session: Session) -> None:
    """Note the size and the time of each file that is there, as its put would have done."""
    rows = session.fetch("select i.address from stateroom.item i where left(i.key, 1) = '/'")
    for first in range(0, len(rows), FILLED_TOGETHER):
        addresses = uuids(address for (address,) in rows[first : first + FILLED_TOGETHER])
        read = session.fetch(
            "select i.address, i.key, i.raw from stateroom.item i "
            "where i.address = any(%(addresses)s::uuid[])",
            {"addresses": addresses},
            prepared=True,
        )
        found = [(address, stat) for address, key, raw in read if (stat := stat_of(key, raw))]
        session.execute(
            "update stateroom.item i set file_size = w.size, file_modified_at = w.modified_at "
            "from unnest(%(addresses)s::uuid[], %(sizes)s::bigint[], %(times)s::text[]) "
            "w(address, size, modified_at) where i.address = w.address",
            {
                "addresses": uuids(address for address, _ in found),
                "sizes": bigints([stat.size for _, stat in found]),
                "times": texts(stat.modified_at for _, stat in found),
            },
            prepared=True,
        )


FILLS: Mapping[int, Callable[[Session], None]] = {2: _fill_stats}
"""What SQL cannot say of migrations, by number; done after their statements, in the same transaction."""


class Hindered(Exception):
    """Somebody who does not wait for his turn is in the way, and may wait for whoever has it."""


def in_turn(
    beside: Callable[[], AbstractContextManager[Session]], schema: str, work: Callable[[], None]
) -> None:
    """Do ``work`` while a session of ``beside`` holds the schema's lock, and again if it is ``Hindered``.

    The lock is let go of before that: another program that builds an index waits for the transaction that
    holds it if that was just beginning, and nobody but us knows that we wait for that program in turn.
    """
    pause, deadline = threading.Event(), time.monotonic() + LOCK_SECONDS
    while True:
        try:
            with beside() as session, alone(session, schema):
                work()
        except Hindered as hindered:
            if time.monotonic() > deadline:
                raise Unavailable(f"{hindered}, for more than {LOCK_SECONDS:.0f} s: see what does") from None
            pause.wait(POLL_SECONDS * (0.5 + random.random()))  # noqa: S311  # only to part them
        else:
            return


@contextmanager
def alone(session: Session, schema: str) -> Iterator[None]:
    """Hold the schema's lock for what only one process may do at a time, and another session does.

    A transaction holds it, since a pooler hands a session's locks to whoever comes next. It is tried
    again and again rather than waited for: whoever waits inside a statement has a snapshot, and an
    index that is built concurrently waits for all of those to go.
    """
    number = int.from_bytes(blake2b(f"stateroom {schema}".encode(), digest_size=8).digest(), signed=True)
    pause, deadline = threading.Event(), time.monotonic() + LOCK_SECONDS
    while True:
        with session.connection.transaction():
            session.execute("set transaction isolation level read committed")
            if session.fetch("select pg_try_advisory_xact_lock(%(key)s)", {"key": number}) == [(True,)]:
                # It also ends the statement before, whose snapshot would last as long as the transaction.
                session.script("set local idle_in_transaction_session_timeout = 0")
                yield
                return
        if time.monotonic() > deadline:
            raise Unavailable(
                f"another process has been setting up the schema {schema!r} for more than "
                f"{LOCK_SECONDS:.0f} s: wait for it, or see what keeps it"
            )
        pause.wait(POLL_SECONDS * (0.5 + random.random()))  # noqa: S311  # only so that they do not march
