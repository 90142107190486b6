"""One Postgres database: its connections, its schema, and what is done when a connection is lost."""

from __future__ import annotations

import logging
import os
import random
import select
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from stateroom.drivers.postgres.conninfo import parse_uri
from stateroom.drivers.postgres.errors import is_lost, is_pooler_mixup, is_rolled_back, is_undone, raise_ours
from stateroom.drivers.postgres.migrations import applied, in_turn, migrate, versions
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.timing import Timing
from stateroom.errors import Misconfigured

__all__ = ["ATTEMPTS", "POOL_OPTIONS", "Database", "connections_of"]

T = TypeVar("T")
Pool = ConnectionPool[psycopg.Connection[Any]]

ATTEMPTS = 8
"""How often a transaction is tried that Postgres undid because of another one."""

PAUSE_SECONDS = 0.01
"""About how long to wait before the second attempt; the wait doubles with each."""

POOL_OPTIONS: Final[Mapping[str, Any]] = {
    "min_size": 1,
    "max_size": 10,
    "timeout": 10.0,
    "name": "stateroom",
    # The pauses between attempts to reconnect double, so that after an hour's outage they would last half
    # an hour: attempts are given up soon, and begun anew.
    "reconnect_timeout": 4.0,
    "reconnect_failed": ConnectionPool.check,
}
"""The pool's options unless others are given; a call waits ``timeout`` seconds for a connection."""

_MODE: Final = (True, IsolationLevel.READ_COMMITTED)
"""How connections are used: no transaction but where one is begun, whose statements see the latest each."""

_log = logging.getLogger(__name__)
_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_pause = threading.Event()
# The connections of a parent process, which are never to be touched, not even to be freed.
_parents: list[Pool] = []


class Database:
    """The connections to one database, which any thread may use.

    A connection is borrowed for one piece of work. ``read`` repeats what failed because its connection
    was lost, since reading twice does no harm; ``write`` does so where the caller says that writing
    twice does none.
    """

    def __init__(
        self,
        uri: str | None,
        *,
        schema: str,
        timing: Timing,
        pool: Pool | Mapping[str, Any] | None,
        prepares: bool,
        prepare: Callable[[Session], None],
        is_prepared: Callable[[Session], bool],
        forked: Callable[[], None],
        migrates: bool = True,
    ) -> None:
        """``prepare`` is done once to the schema after migrations, unless ``is_prepared`` says that it is.

        ``forked`` is called in a child process that was forked from this one. ``migrates`` False is for who
        needs none of our own tables.
        """
        self.schema = schema
        self._migrates = migrates
        self._timing = timing
        self._own = not isinstance(pool, ConnectionPool)
        self._given = pool if isinstance(pool, ConnectionPool) else None
        self._is_parents = False
        self._options = _options(pool if isinstance(pool, Mapping) else {})
        self._conninfo, pooled = parse_uri(uri) if self._own else ("", False)
        self._prepares = prepares and not pooled
        self._prepare = prepare
        self._is_prepared = is_prepared
        self._forked = forked
        self._lock = threading.RLock()
        self._pool: Pool | None = None
        _open_databases.add(self)

    @property
    def timeout(self) -> float:
        """How many seconds a call waits for a connection."""
        return self._options["timeout"] if self._given is None else self._given.timeout

    def open(self) -> Pool:
        """Return the pool, with the schema in place."""
        pool = self._pool
        if pool is None:
            with self._lock:
                if self._pool is None:
                    self._pool = self._opened()
                pool = self._pool
        return pool

    def close(self) -> None:
        """Close every connection that is ours; a later call opens them anew."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._own:
            pool.close()

    def read(self, work: Callable[[Session], T]) -> T:
        """Let ``work`` read, each statement by itself; it is repeated when its connection is lost."""
        return self._attempted(work, repeats=True)

    def read_together(self, work: Callable[[Session], T]) -> T:
        """Do what ``read`` does with one snapshot for all statements."""

        def together(session: Session) -> T:
            with session.transaction("isolation level repeatable read, read only"):
                return work(session)

        return self._attempted(together, repeats=True)

    def write(self, work: Callable[[Session], T], *, repeats: bool) -> T:
        """Let ``work`` write in a transaction, which commits unless an exception comes out of it."""

        def in_transaction(session: Session) -> T:
            with session.transaction():
                return work(session)

        return self._attempted(in_transaction, repeats=repeats)

    def write_statement(self, work: Callable[[Session], T], *, repeats: bool) -> T:
        """Let ``work`` write with one statement, which is a transaction by itself."""
        return self._attempted(work, repeats=repeats)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend a session outside the pool, for what takes long."""
        with self._connection_beside() as connection:
            yield self._session(connection)

    def _attempted(self, work: Callable[[Session], T], *, repeats: bool) -> T:
        lost = False
        for attempt in range(ATTEMPTS):
            try:
                return self._once(work)
            except Exception as error:
                if is_pooler_mixup(error) and attempt < ATTEMPTS - 1:
                    if self._prepares:
                        _log.warning("a pooler loses prepared statements: doing without them")
                    self._prepares = False
                elif is_lost(error):
                    self._drop_lost()
                    if lost or not (repeats or is_undone(error)):
                        raise_ours(error)
                    lost = True
                elif not is_rolled_back(error) or attempt == ATTEMPTS - 1:
                    raise_ours(error)
                else:
                    _pause.wait(PAUSE_SECONDS * 2**attempt * random.random())  # noqa: S311  # to part them
        raise AssertionError("the last attempt returns or raises")

    def _once(self, work: Callable[[Session], T]) -> T:
        pool = self._pool or self.open()
        connection = _borrowed(pool)
        theirs = connection.autocommit, connection.isolation_level
        try:
            if theirs != _MODE:
                _set_mode(connection, *_MODE)
            return work(self._session(connection))
        finally:
            if not self._own and connection.info.transaction_status == TransactionStatus.IDLE:
                _set_mode(connection, *theirs)
            pool.putconn(connection)

    def _session(self, connection: psycopg.Connection[Any]) -> Session:
        prepares = self._prepares and connection.prepare_threshold is not None
        return Session(connection, self.schema, self._timing, prepares=prepares)

    def _drop_lost(self) -> None:
        """Let the pool replace the other connections that were lost with this one."""
        if self._pool is not None:
            self._pool.check()

    def _opened(self) -> Pool:
        if self._is_parents:
            raise Misconfigured(
                "pool belongs to the process that this one was forked from: make a pool and a store after "
                "the fork",
                field="pool",
            )
        try:
            with self._connection() as connection:
                self._set_up(self._session(connection))
            if self._given is not None:
                return self._given
            return self._new_pool()
        except Exception as error:
            raise_ours(error)

    def _set_up(self, session: Session) -> None:
        """Migrate and prepare the schema; nothing is locked when nothing is pending."""
        ((now, process),) = session.fetch(
            "select (extract(epoch from clock_timestamp()) * 1000000)::bigint, pg_backend_pid()"
        )
        self._timing.observe(now)
        if process != session.connection.info.backend_pid:
            # A pooler stands between. It may hand out connections that hold, under the names that we use,
            # statements which others prepared.
            self._prepares = False
        if self._is_migrated(session) and self._is_prepared(session):
            return
        in_turn(self.session, self.schema, lambda: self._make_ready(session))

    def _make_ready(self, session: Session) -> None:
        if self._migrates:
            migrate(session, self.schema)
        if not self._is_prepared(session):
            self._prepare(session)

    def _is_migrated(self, session: Session) -> bool:
        return not self._migrates or applied(session) == versions().keys()

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection that sends each statement as a transaction by itself."""
        if self._given is not None:
            with self._given.connection() as connection:
                before = connection.autocommit
                connection.autocommit = True
                try:
                    yield connection
                finally:
                    if not connection.closed:
                        connection.autocommit = before
        else:
            with self._connection_beside() as connection:
                yield connection

    @contextmanager
    def _connection_beside(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection outside any pool, of which there may be but one connection."""
        if self._given is not None:
            conninfo = _value(self._given.conninfo)
            kwargs = _value(self._given.kwargs) or {}
            connect = self._given.connection_class.connect
        else:
            conninfo, kwargs, connect = self._conninfo, self._kwargs(), psycopg.connect
        with connect(conninfo, **{**kwargs, "autocommit": True}) as connection:
            yield connection

    def _kwargs(self) -> dict[str, Any]:
        """Return the arguments with which our pool connects."""
        kwargs = {**(_value(self._options.get("kwargs")) or {}), "autocommit": True}
        if not self._prepares:
            # The pool's own checks would be prepared too.
            kwargs["prepare_threshold"] = None
        return kwargs

    def _new_pool(self) -> Pool:
        # What is given as a function is asked anew for each connection.
        kwargs = self._kwargs if callable(self._options.get("kwargs")) else self._kwargs()
        try:
            return ConnectionPool(self._conninfo, **{**self._options, "kwargs": kwargs, "open": True})
        except (TypeError, ValueError) as error:
            raise Misconfigured(f"pool: {error}", field="pool") from error

    def after_fork_in_child(self) -> None:
        """Forget the parent's connections, which it goes on using."""
        self._lock = threading.RLock()
        if self._pool is not None:
            _parents.append(self._pool)
            self._pool = None
        self._is_parents = self._is_parents or (self._given is not None and not self._given.closed)
        self._forked()


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a pool."""
    options = {**POOL_OPTIONS, **given}
    if "max_size" not in given:
        options["max_size"] = max(options["max_size"], options["min_size"])
    return options


def _set_mode(connection: psycopg.Connection[Any], autocommit: bool, level: IsolationLevel | None) -> None:
    if connection.autocommit is not autocommit:
        connection.autocommit = autocommit
    if connection.isolation_level is not level:
        connection.isolation_level = level


def _borrowed(pool: Pool) -> psycopg.Connection[Any]:
    """Borrow a connection; if it was cut while it was idle, see which of the pool's others were."""
    connection = pool.getconn()
    if not connection.closed and _has_news(connection.fileno()):
        pool.putconn(connection)
        pool.check()
        connection = pool.getconn()
    return connection


def _has_news(descriptor: int) -> bool:
    """Tell whether a server that was asked nothing has said something: most likely, good-bye."""
    if sys.platform == "win32":
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _value(setting: Any) -> Any:
    """Return a pool's setting, or what it returns: newer pools take functions, for short-lived passwords."""
    return setting() if callable(setting) else setting


def _forget_parents() -> None:
    for database in list(_open_databases):
        database.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    # Windows has no forks.
    os.register_at_fork(after_in_child=_forget_parents)


def connections_of(pool: Pool | Mapping[str, Any] | None) -> int:
    """Return how many connections a pool, or one with these options, has at most."""
    if isinstance(pool, ConnectionPool):
        return pool.max_size or POOL_OPTIONS["max_size"]
    options = _options(pool or {})
    most: int = options["max_size"] or POOL_OPTIONS["max_size"]
    return most
