"""One SQLite file: its connections, its one writer at a time, and its errors in our words."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, get_args

from stateroom.drivers.sqlite.migrations import migrate
from stateroom.errors import Misconfigured, Unavailable

__all__ = ["MEMORY", "Busy", "Database", "Synchronous"]

T = TypeVar("T")

Synchronous: TypeAlias = Literal["NORMAL", "FULL"]
"""Whether what was acknowledged survives the death of the process, or a power cut too."""

BUSY_SECONDS = 30.0
"""How long a write waits for another process that is writing, before it is ``Unavailable``."""

SWITCH_SECONDS = 0.02
"""How long to wait for another process that is making the same new file."""

FORK_SECONDS = 5.0
"""How long a fork waits for other threads that read."""

CACHE_KIBIBYTES = 65_536
"""Page cache of each connection."""

MMAP_BYTES = 2**30
"""How much of the file a connection reads through the memory that all processes share."""

STATEMENTS_CACHED = 256
"""Compiled statements that each connection keeps."""

MEMORY = ":memory:"
"""The path of a database that lives in this process, on one connection."""

_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()


class Busy(Unavailable):
    """Another process has been writing for too long."""


class Database:
    """The connections to one file, or to a database in memory, which has only one.

    Readers are borrowed from a pool that grows with the number of threads that read at once. The
    writer is one connection; ``write`` hands it out to one thread at a time.
    """

    def __init__(
        self,
        path: str,
        *,
        synchronous: Synchronous,
        equip: Callable[[sqlite3.Connection], None],
        prepare: Callable[[sqlite3.Connection], None],
        forked: Callable[[], None],
        migrates: bool = True,
    ) -> None:
        """``equip`` is done to every new connection, ``prepare`` once to the writer, after migrations.

        Without ``migrates`` the file gets no tables of ours.

        ``forked`` is called in a child process that was forked from this one.
        """
        if not path:
            raise Misconfigured("path is empty; name a file, or use ':memory:'", field="path")
        if synchronous not in get_args(Synchronous):
            raise Misconfigured(
                f"synchronous is {synchronous!r}; use 'NORMAL' or 'FULL'", field="synchronous"
            )
        self.path = path
        self._synchronous = synchronous
        self._equip = equip
        self._prepare = prepare
        self._forked = forked
        self._migrates = migrates
        self._lock = threading.RLock()
        self._readers: list[sqlite3.Connection] = []
        self._reading: set[int] = set()
        self._forking = False
        self._writer: sqlite3.Connection | None = None
        self._generation = 0
        _open_databases.add(self)

    def open(self) -> sqlite3.Connection:
        """Return the writer, with the schema in place."""
        writer = self._writer
        if writer is None:
            with self._lock:
                writer = self._writer
                if writer is None:
                    writer = self._connect()
                    try:
                        if self._migrates:
                            migrate(writer)
                        self._prepare(writer)
                    except BaseException as error:
                        writer.close()
                        if isinstance(error, sqlite3.Error):
                            raise translation(error, self.path) from error
                        raise
                    self._writer = writer
        return writer

    def close(self) -> None:
        """Close every connection; a later call opens them anew, except that memory is gone."""
        with self._lock:
            self._generation += 1
            connections = [*self._readers, self._writer]
            self._readers, self._writer = [], None
            for connection in connections:
                if connection is not None:
                    connection.close()

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Let ``work`` read; each statement sees the latest commit, unless it says ``begin``.

        A function and not a context manager, here and in ``write``: a generator would cost more than a get.
        """
        if self.path == MEMORY:
            with self._lock:
                return self._guarded(self._writer or self.open(), work)
        generation = self._generation
        reader = self._borrow()
        try:
            return self._guarded(reader, work)
        finally:
            self._give_back(reader, generation)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Let ``work`` write in a transaction, which commits unless an exception comes out of it."""
        with self._lock:
            writer = self._writer or self.open()
            return self._guarded(writer, work, "begin immediate", "commit")

    def write_if_idle(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do what ``write`` does, or return None at once when anybody else is writing."""
        writer = self._writer or self.open()
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if writer.in_transaction or not _begins_at_once(writer):
                return None
            return self._guarded(writer, work, "", "commit")
        finally:
            self._lock.release()

    def _guarded(
        self,
        connection: sqlite3.Connection,
        work: Callable[[sqlite3.Connection], T],
        begin: str = "",
        end: str = "",
    ) -> T:
        """Do some work between two statements; on an exception roll back and translate it."""
        try:
            if begin:
                connection.execute(begin)
            result = work(connection)
            if end:
                connection.execute(end)
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("rollback")
            if isinstance(error, sqlite3.Error):
                raise translation(error, self.path) from error
            raise
        return result

    def _borrow(self) -> sqlite3.Connection:
        """Take a reader out of the pool, a new one if it is empty."""
        reading = threading.get_ident()
        self._reading.add(reading)
        if self._forking:
            # The fork waits for those who read, and holds the lock until it is over.
            self._reading.discard(reading)
            with self._lock:
                self._reading.add(reading)
        try:
            if self._writer is None:
                self.open()
            return self._readers.pop() if self._readers else self._connect()
        except IndexError:
            # Another thread took the last one.
            return self._connect()
        except BaseException:
            self._reading.discard(reading)
            raise

    def _give_back(self, reader: sqlite3.Connection, generation: int) -> None:
        """Put a reader back, unless everything was closed since."""
        if generation == self._generation:
            self._readers.append(reader)
        else:
            reader.close()
        self._reading.discard(threading.get_ident())

    @property
    def lock(self) -> threading.RLock:
        """The lock that the writing thread holds."""
        return self._lock

    def before_fork(self) -> None:
        """Wait for whoever reads or writes, and close what can be opened again.

        SQLite counts a process's locks on a file in the memory of the process. A child that inherited
        the count would take no locks of its own for its connections, and lose what it commits.
        """
        self._lock.acquire()
        self._forking = True
        pause = threading.Event()
        for _ in range(round(FORK_SECONDS / SWITCH_SECONDS)):
            if not self._reading:
                break
            pause.wait(SWITCH_SECONDS)
        if self.path != MEMORY:
            self.close()

    def after_fork_in_parent(self) -> None:
        """Go on; connections are opened when they are needed."""
        self._forking = False
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Go on without the threads of the parent, one of which may have held any lock."""
        self._forking = False
        self._reading.clear()
        self._lock = threading.RLock()
        self._forked()

    def _connect(self) -> sqlite3.Connection:
        if self.path != MEMORY and not Path(self.path).parent.is_dir():
            raise Misconfigured(
                f"path: the folder of {self.path!r} does not exist; create it first", field="path"
            )
        try:
            connection = sqlite3.connect(
                self.path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=STATEMENTS_CACHED,
            )
            connection.text_factory = bytes
            _use_wal(connection)
            connection.execute(f"pragma synchronous = {self._synchronous}")
            connection.execute(f"pragma cache_size = -{CACHE_KIBIBYTES}")
            connection.execute("pragma temp_store = memory")
            connection.execute(f"pragma mmap_size = {MMAP_BYTES}")
        except sqlite3.Error as error:
            raise translation(error, self.path) from error
        self._equip(connection)
        return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to write-ahead logging, or find that it is.

    SQLite does not wait by itself when another process is switching a new file, so this does.
    """
    pause = threading.Event()
    for _ in range(round(BUSY_SECONDS / SWITCH_SECONDS)):
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            pause.wait(SWITCH_SECONDS)
        else:
            return
    connection.execute("pragma journal_mode = wal")


def _begins_at_once(writer: sqlite3.Connection) -> bool:
    writer.execute("pragma busy_timeout = 0")
    try:
        writer.execute("begin immediate")
    except sqlite3.OperationalError:
        return False
    finally:
        writer.execute(f"pragma busy_timeout = {int(BUSY_SECONDS * 1000)}")
    return True


def _for_each(act: Callable[[Database], None]) -> Callable[[], None]:
    def act_on_all() -> None:
        for database in list(_open_databases):
            act(database)

    return act_on_all


if hasattr(os, "register_at_fork"):
    # Windows has no forks.
    os.register_at_fork(
        before=_for_each(Database.before_fork),
        after_in_parent=_for_each(Database.after_fork_in_parent),
        after_in_child=_for_each(Database.after_fork_in_child),
    )


def translation(error: sqlite3.Error, path: str) -> Exception:
    """Return our error for one of SQLite's; this is the only place that knows those."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_CANTOPEN"):
        return Misconfigured(f"path: cannot open {path!r}: {error}", field="path")
    if name.startswith("SQLITE_NOTADB"):
        return Misconfigured(f"path: {path!r} is not an SQLite database", field="path")
    if name.startswith("SQLITE_READONLY"):
        return Misconfigured(f"path: {path!r} cannot be written: {error}; allow it", field="path")
    if name.startswith("SQLITE_CORRUPT"):
        return Misconfigured(f"path: {path!r} is damaged: {error}; restore a copy of it", field="path")
    if "no such module" in str(error):
        return Misconfigured(
            f"path: SQLite {sqlite3.sqlite_version} of this Python cannot open {path!r}: {error}; "
            "use a Python whose SQLite has FTS5 and JSON",
            field="path",
        )
    if name in ("", "SQLITE_ERROR") or isinstance(error, sqlite3.ProgrammingError):
        # A statement that SQLite does not understand is our own mistake, and no storage's.
        return error
    kind = Busy if name.startswith("SQLITE_BUSY") else Unavailable
    return kind(f"SQLite file {path!r}: {error} ({name}); the call may be repeated")
