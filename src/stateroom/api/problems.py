"""What every failure looks like over HTTP: the one place that knows status codes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from langgraph_sdk import Auth
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from stateroom.api.answers import answer
from stateroom.errors import (
    Conflict,
    Denied,
    IdempotencyKeyReused,
    InvalidAssistant,
    InvalidIdempotencyKey,
    InvalidInput,
    InvalidSchedule,
    LimitExceeded,
    Misconfigured,
    NotFound,
    NotSupported,
    RunFailed,
    StateroomError,
    Unauthenticated,
    Unavailable,
)
from stateroom.model.text import show

__all__ = ["INTERNAL", "REQUEST_ID", "install", "problem", "status_of"]

REQUEST_ID: Final = "stateroom.request_id"
"""The key of a request's scope under which its id is."""

INTERNAL: Final = "the server failed; its log says why, beside this answer's x-request-id"

_log = logging.getLogger(__name__)

# The first that an error is decides.
_STATUSES: Final[tuple[tuple[type[StateroomError], int], ...]] = (
    (Unauthenticated, 401),
    (Denied, 403),
    (NotFound, 404),
    (Conflict, 409),
    (InvalidAssistant, 422),
    (InvalidSchedule, 422),
    (InvalidIdempotencyKey, 422),
    (IdempotencyKeyReused, 422),
    (LimitExceeded, 413),
    (NotSupported, 422),
    # No 5xx, after which clients and proxies would run it again by themselves.
    (RunFailed, 422),
    (Unavailable, 503),
    (Misconfigured, 500),
    (InvalidInput, 400),
)

_CODES: Final = {
    400: "invalid_input",
    401: Unauthenticated.code,
    403: Denied.code,
    404: NotFound.code,
    405: "method_not_allowed",
    409: Conflict.code,
    413: LimitExceeded.code,
    422: "invalid_request",
    429: LimitExceeded.code,
    503: Unavailable.code,
}
"""The codes of what others than Stateroom raise, by status."""

_PRECONDITIONS: Final = ("if_revision", "if_absent")
_FAULTS_MAX: Final = 10


def status_of(error: StateroomError) -> int:
    """Return the status that an error is answered with."""
    if isinstance(error, Conflict) and error.field in _PRECONDITIONS:
        return 412
    if isinstance(error, LimitExceeded) and error.field == "limit":
        return 422
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def problem(error: Exception, request_id: str | None = None) -> Response:
    """Return what a failure is answered with; what nobody foresaw is logged, and not told."""
    if isinstance(error, HTTPException) and isinstance(error.__cause__, StateroomError):
        # FastAPI raised it while the body was read.
        error = error.__cause__
    if isinstance(error, RequestValidationError):
        return _refusal(error.errors())
    if isinstance(error, HTTPException | Auth.exceptions.HTTPException):
        status = error.status_code
        detail = error.detail if status not in (404, 405) else _said(error)
        return _answer(status, detail, _CODES.get(status, "error"), headers=error.headers)
    if isinstance(error, StateroomError) and type(error) is not StateroomError:
        status = status_of(error)
        if isinstance(error, Misconfigured):
            _log.error("request %s: %s", request_id, error, exc_info=error)
        headers = {"Retry-After": "1"} if error.retryable else None
        return _answer(status, str(error), error.code, error.field, headers)
    _log.error("request %s failed", request_id, exc_info=error)
    return _answer(500, INTERNAL, StateroomError.code)


def install(app: FastAPI) -> None:
    """Have an application answer failures so."""
    for kind in (StateroomError, RequestValidationError, HTTPException, Auth.exceptions.HTTPException):
        app.add_exception_handler(kind, _handle)


async def _handle(request: Request, error: Exception) -> Response:
    return problem(error, request.scope.get(REQUEST_ID))


def _said(error: HTTPException | Auth.exceptions.HTTPException) -> Any:
    """Return the detail, in our own words where it is but the status' name."""
    if error.detail == "Not Found":
        return "there is nothing at this address"
    if error.detail == "Method Not Allowed":
        allowed = (error.headers or {}).get("Allow", "")
        return (
            f"this address takes other methods: {allowed}" if allowed else "this address takes other methods"
        )
    return error.detail


def _answer(
    status: int,
    detail: Any,
    code: str,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = {"detail": detail, "code": code} | ({} if field is None else {"field": field})
    return answer(body, status=status, headers=headers)


def _refusal(faults: Sequence[Mapping[str, Any]]) -> Response:
    """Return the answer to a request that does not have the form that the address asks for."""
    told = list(dict.fromkeys(_told(one) for one in faults))
    if len(told) > _FAULTS_MAX:
        told = [*told[:_FAULTS_MAX], f"and {len(told) - _FAULTS_MAX} more"]
    return _answer(422, "; ".join(told), _CODES[422], _name(faults[0]) if faults else None)


def _told(fault: Mapping[str, Any]) -> str:
    name, given = _name(fault), fault.get("input")
    match fault["type"]:
        case "missing":
            return f"{name} is missing; give it"
        case "extra_forbidden":
            return f"{name} is not known here; leave it out"
        case "json_invalid":
            reason = (fault.get("ctx") or {}).get("error", "it cannot be read")
            return f"{name} is not JSON ({reason}); correct it"
        case _:
            wanted = str(fault.get("msg", "")).removeprefix("Value error, ")
            return f"{name} is {show(given)}: {wanted[:1].lower()}{wanted[1:]}"


def _name(fault: Mapping[str, Any]) -> str:
    """Return the path to a field: ``supersteps[0].values``; of the whole body, ``body``."""
    return "".join(_steps(fault.get("loc") or ())).lstrip(".") or "body"


def _steps(place: Sequence[str | int]) -> Iterator[str]:
    if place and place[0] in ("body", "query", "path", "header"):
        place = place[1:]
    if len(place) == 1 and isinstance(place[0], int):
        # A position in what is not JSON, or an element of a body that is a list.
        yield "body"
    for step in place:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"
