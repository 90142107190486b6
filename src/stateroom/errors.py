"""The one tree of errors that Stateroom raises, each with a stable code that programs can act on."""

from __future__ import annotations

from langgraph.store.base import InvalidNamespaceError

__all__ = [
    "Conflict",
    "Denied",
    "Fenced",
    "IdempotencyKeyInFlight",
    "IdempotencyKeyReused",
    "InvalidAssistant",
    "InvalidFilter",
    "InvalidIdempotencyKey",
    "InvalidIndex",
    "InvalidInput",
    "InvalidKey",
    "InvalidNamespace",
    "InvalidPage",
    "InvalidPath",
    "InvalidPattern",
    "InvalidSchedule",
    "InvalidTTL",
    "InvalidValue",
    "LimitExceeded",
    "Misconfigured",
    "NotFound",
    "NotSupported",
    "OutsideGraph",
    "RunFailed",
    "StateroomError",
    "ThreadBusy",
    "ThreadStatusMismatch",
    "Unauthenticated",
    "Unavailable",
]


class StateroomError(Exception):
    """Something went wrong inside Stateroom.

    ``code`` never changes for a class of error: act on it, not on the text. ``retryable`` says
    whether the same call may succeed later. ``field`` names the argument (or the path inside it)
    that is to blame, or is None.
    """

    code: str = "internal"
    retryable: bool = False

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])
        self.field = field


class NotFound(StateroomError):
    """What the caller names does not exist."""

    code = "not_found"


class Conflict(StateroomError):
    """Something is not as the caller requires it to be: an item's revision, or an id that is taken."""

    code = "conflict"


class Fenced(Conflict):
    """The attempt has lost its run, so that nothing may be written in its name."""

    code = "fenced"


class ThreadBusy(Conflict):
    """The thread has a run already, and the caller wants no second one."""

    code = "thread_busy"


class ThreadStatusMismatch(Conflict):
    """The thread's status is none of those that the caller named."""

    code = "thread_status_mismatch"


class IdempotencyKeyInFlight(Conflict):
    """A request with this idempotency key is being answered at this moment."""

    code = "idempotency_key_in_flight"
    retryable = True


class Unauthenticated(StateroomError):
    """Nobody knows who the caller is."""

    code = "unauthenticated"


class Denied(StateroomError):
    """The caller may not do this."""

    code = "denied"


class InvalidInput(StateroomError, ValueError):
    """The caller passed something that breaks a documented rule."""

    code = "invalid_input"


class InvalidAssistant(InvalidInput):
    """No assistant and no graph has this name."""

    code = "invalid_assistant"


class InvalidNamespace(InvalidInput, InvalidNamespaceError):
    """A namespace breaks the naming rules."""

    code = "invalid_namespace"


class InvalidKey(InvalidInput):
    """A key is not a plain string."""

    code = "invalid_key"


class InvalidPath(InvalidInput):
    """A path names no file, or none that may be named."""

    code = "invalid_path"


class InvalidPattern(InvalidInput):
    """A glob pattern cannot be used."""

    code = "invalid_pattern"


class InvalidValue(InvalidInput):
    """A value is not a JSON object."""

    code = "invalid_value"


class InvalidFilter(InvalidInput):
    """A filter cannot be understood."""

    code = "invalid_filter"


class InvalidPage(InvalidInput):
    """A limit, offset or depth is out of range."""

    code = "invalid_page"


class InvalidTTL(InvalidInput):
    """A time to live is not a number of minutes."""

    code = "invalid_ttl"


class InvalidIndex(InvalidInput):
    """An ``index`` argument names no usable paths."""

    code = "invalid_index"


class InvalidSchedule(InvalidInput):
    """A cron's schedule, time zone or end cannot be understood."""

    code = "invalid_schedule"


class InvalidIdempotencyKey(InvalidInput):
    """An idempotency key is too long or holds what is not printable, or the request takes none."""

    code = "invalid_idempotency_key"


class IdempotencyKeyReused(InvalidInput):
    """An idempotency key was used before, for another request."""

    code = "idempotency_key_reused"


class LimitExceeded(StateroomError, ValueError):
    """The caller passed more than a documented limit allows."""

    code = "limit_exceeded"


class NotSupported(StateroomError, NotImplementedError):
    """This store lacks the capability that the call asks for."""

    code = "not_supported"


class Unavailable(StateroomError):
    """The storage cannot be reached or is busy; the same call may succeed later."""

    code = "unavailable"
    retryable = True


class RunFailed(StateroomError):
    """A run that the caller waited for did not end well."""

    code = "run_failed"


class Misconfigured(StateroomError, ValueError):
    """A setting is wrong, so the store refuses to start."""

    code = "misconfigured"


class OutsideGraph(Misconfigured, RuntimeError):
    """Something that only a running graph has was asked for outside of one."""

    code = "outside_graph"
