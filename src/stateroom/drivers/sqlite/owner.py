"""That only one process at a time has an SQLite file for a server's storage."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from pathlib import Path
from typing import Final

from stateroom.drivers.sqlite.database import MEMORY
from stateroom.errors import Misconfigured

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Owner"]

LOCKED_BYTE: Final = 2**30
"""What Windows locks: a byte far behind the pid, which other processes must be able to read."""

PID_BYTES: Final = 20

_owners: weakref.WeakSet[Owner] = weakref.WeakSet()
_owned: set[str] = set()
"""The lock files that this process holds: what the system keeps others from, it may let us do."""

_lock = threading.Lock()


class Owner:
    """A claim on a database file, which a lock on a file beside it holds until it is released.

    However a process ends, the operating system lets go of its lock. A forked child owns nothing.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._place = ""

    def acquire(self) -> None:
        """Become the owner; doing so again changes nothing.

        Raises Misconfigured when somebody else owns the file, which may be known by several names; the
        message names the process. A database in memory belongs to its process anyway.
        """
        with _lock:
            if self._path == MEMORY or self._file is not None:
                return
            place = f"{Path(self._path).resolve()}-owner"
            if place in _owned:
                raise self._refusal(os.getpid())
            file = self._open(place)
            if not _locked(file):
                pid = os.read(file, PID_BYTES).decode()
                os.close(file)
                raise self._refusal(pid)
            os.ftruncate(file, 0)
            os.write(file, str(os.getpid()).encode())
            self._file, self._place = file, place
            _owned.add(place)
            _owners.add(self)

    def require(self) -> None:
        """Raise Misconfigured unless this process is the owner, as when the storage has not been opened."""
        if self._file is None and self._path != MEMORY:
            raise Misconfigured(
                f"path: {self._path!r} has not been opened as a storage by this process; open it first, "
                "and after a fork in the child anew",
                field="path",
            )

    def release(self) -> None:
        """Let others become the owner; doing so again changes nothing.

        The file stays, since two processes could lock two files of one name if it did not.
        """
        with _lock:
            if self._file is not None:
                os.ftruncate(self._file, 0)
                # A child that is just being born may have the file open too.
                _unlock(self._file)
                self._let_go()

    def forget(self) -> None:
        """Own nothing any more, in a child of the process that does."""
        if self._file is not None:
            self._let_go()

    def _let_go(self) -> None:
        # The lock is on what was opened, which a child has in common with its parent: closing it in the
        # child leaves the parent's lock as it is.
        assert self._file is not None
        os.close(self._file)
        self._file = None
        _owned.discard(self._place)
        _owners.discard(self)

    def _open(self, place: str) -> int:
        try:
            return os.open(place, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Misconfigured(
                f"path: cannot make {place!r}, which tells other processes that {self._path!r} is in use: "
                f"{error.strerror}; create the folder, and allow writing to it",
                field="path",
            ) from error

    def _refusal(self, pid: int | str) -> Misconfigured:
        owner = "this process" if str(pid) == str(os.getpid()) else "another process"
        return Misconfigured(
            f"path: {self._path!r} is in use by {owner} (pid {pid or 'not known yet'}); "
            "stop it first, or use Postgres, which any number of processes may share",
            field="path",
        )


def _locked(file: int) -> bool:
    """Lock an open file, or return False if somebody has it locked."""
    try:
        if sys.platform == "win32":
            os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.lseek(file, 0, os.SEEK_SET)
    return True


def _unlock(file: int) -> None:
    if sys.platform == "win32":
        os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_UN)


def _forget_all() -> None:
    global _lock
    # A thread of the parent may have held it.
    _lock = threading.Lock()
    for owner in list(_owners):
        owner.forget()


if hasattr(os, "register_at_fork"):
    # Windows has no forks.
    os.register_at_fork(after_in_child=_forget_all)
