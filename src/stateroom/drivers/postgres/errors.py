"""Postgres's errors in our words; the only place that knows those."""

from __future__ import annotations

import re
from typing import Final, NoReturn

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from stateroom.errors import LimitExceeded, Misconfigured, StateroomError, Unavailable

__all__ = [
    "NO_CONNECTION",
    "Homeless",
    "is_lost",
    "is_pooler_mixup",
    "is_rolled_back",
    "is_undone",
    "raise_ours",
    "translation",
]

NO_CONNECTION: Final = (
    "no connection to Postgres became free, or could be made, in time: raise max_size or timeout in pool, "
    "or see whether the database is there"
)

_LOST: Final = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleSessionTimeout,
    errors.IdleInTransactionSessionTimeout,
)

_LOGIN: Final = ("28", "3D")
"""Classes of errors for a wrong user, password or database."""

_REFUSED: Final = re.compile(
    "authentication failed|no password supplied|no pg_hba.conf entry|is not permitted to log in"
    "|(role|database) .* does not exist|permission denied for database"
    "|no such (user|database)|Tenant or user not found"
    "|does not support SSL|certificate|channel binding",
    re.IGNORECASE,
)
"""What servers and poolers say to who may not come in; such errors carry no code."""


class Homeless(Unavailable):
    """A put did not find the row of its namespace, which was empty and has been removed."""


def is_lost(error: BaseException) -> bool:
    """Tell whether the connection is gone, so that another one may do."""
    if isinstance(error, _LOST):
        return True
    if isinstance(error, PoolTimeout | PoolClosed | TooManyRequests):
        return False
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return error.sqlstate is None or error.sqlstate.startswith("08")
    return False


def is_rolled_back(error: BaseException) -> bool:
    """Tell whether Postgres undid the transaction so that others could go on, and it may be repeated."""
    return isinstance(error, errors.DeadlockDetected | errors.SerializationFailure)


def is_undone(error: BaseException) -> bool:
    """Tell whether a lost connection took its transaction with it for certain, so that it may be repeated."""
    return isinstance(error, errors.IdleInTransactionSessionTimeout)


def is_pooler_mixup(error: BaseException) -> bool:
    """Tell whether a prepared statement was lost between a pooler's connections."""
    return isinstance(error, errors.InvalidSqlStatementName | errors.DuplicatePreparedStatement)


def raise_ours(error: Exception) -> NoReturn:
    """Raise our error for one of psycopg's, which is its cause, or the error itself."""
    ours = translation(error)
    if ours is error:
        raise error
    raise ours from error


def translation(error: Exception) -> Exception:
    """Return our error for one of psycopg's, or the error itself when it is a mistake of our own."""
    if isinstance(error, StateroomError):
        return error
    if isinstance(error, PoolTimeout | TooManyRequests):
        return Unavailable(f"{NO_CONNECTION} ({error})")
    if isinstance(error, PoolClosed):
        return Unavailable("the connection pool is closed: open it, or make a new store")
    state = getattr(error, "sqlstate", None) or ""
    text = _first_line(error)
    if state.startswith(_LOGIN) or (not state and is_lost(error) and _REFUSED.search(str(error))):
        return Misconfigured(f"uri: Postgres refuses to let us in: {text}", field="uri")
    if isinstance(error, errors.InsufficientPrivilege):
        return Misconfigured(
            f"uri: this user may not do what is needed: {text}; grant it, or let an administrator run "
            "setup() once",
            field="uri",
        )
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return Misconfigured(
            f"schema: the tables are gone ({text}): close() the store, and its next call makes them",
            field="schema",
        )
    if isinstance(error, errors.NotNullViolation) and error.diag.column_name == "namespace_id":
        return Homeless()
    if isinstance(error, errors.ProgramLimitExceeded | errors.StatementTooComplex):
        return LimitExceeded(f"this is more than Postgres takes: {text}")
    if is_lost(error) or is_rolled_back(error) or isinstance(error, psycopg.OperationalError):
        return Unavailable(f"Postgres: {text}; the call may be repeated")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return Unavailable(f"Postgres takes no writes, being a standby or set to read only: {text}")
    if isinstance(error, errors.ObjectInUse | errors.LockNotAvailable):
        return Unavailable(f"Postgres: {text}; the call may be repeated")
    return error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
