"""The Model Context Protocol over HTTP, without sessions: assistants as tools of other agents."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from fastapi import Header
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from stateroom.api.access import AccessDep
from stateroom.api.answers import encoded
from stateroom.api.creating import create_run
from stateroom.api.including import Routes
from stateroom.api.live import LiveResponse
from stateroom.api.mcp_tools import Tools
from stateroom.api.parts import PartsDep
from stateroom.api.problems import INTERNAL
from stateroom.api.routes.making import abandon
from stateroom.api.spoken import last_words
from stateroom.api.waiting import SIGN, run_output
from stateroom.api.wire.mcp import (
    DOCUMENTED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REFUSED,
    SERVER_ERROR,
    VERSIONS,
    McpError,
    Message,
    call_result,
    error_json,
    read_message,
    result_json,
    text_result,
)
from stateroom.errors import Denied, InvalidAssistant, InvalidInput, LimitExceeded, NotFound, StateroomError
from stateroom.model.text import show
from stateroom.service.run_requests import RunRequest

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts

__all__ = ["router"]

router = Routes()

_TAKEN: Final = 202
"""The status that the protocol gives to what is not answered."""

_INTERRUPTS: Final = "__interrupt__"
_ERROR: Final = "__error__"

_log = logging.getLogger(__name__)

VersionHeader = Annotated[
    str | None,
    Header(alias="MCP-Protocol-Version", description="The revision that initialize has answered"),
]


@router.post("/mcp", openapi_extra=DOCUMENTED, responses={_TAKEN: {"description": "A notification"}})
@router.post("/mcp/", openapi_extra=DOCUMENTED, responses={_TAKEN: {"description": "A notification"}})
async def speak_mcp(
    request: Request, parts: PartsDep, access: AccessDep, version: VersionHeader = None
) -> Response:
    """Speak the Model Context Protocol: `tools/list` lists the assistants, `tools/call` runs one.

    Each message stands for itself; there are no sessions and no streams.
    """
    _check_origin(parts, request.headers.get("origin"))
    identity = None
    try:
        message = read_message(await request.body())
        if message is None or message.id is None:
            return Response(None, _TAKEN)
        identity = message.id
        _check_version(message, version)
        if message.method == "tools/call":
            return await _call(message, request, parts, access)
        return _answer(result_json(identity, await _obeyed(message, parts, access)))
    except McpError as error:
        return _answer(error_json(identity, error), refused=error.unread)
    except StateroomError as error:
        return _answer(error_json(identity, _told(error)))


def _answer(raw: bytes, *, refused: bool = False) -> Response:
    return Response(raw, REFUSED if refused else 200, media_type="application/json")


def _check_origin(parts: Parts, origin: str | None) -> None:
    """Refuse pages that ``http.cors`` does not let in.

    Not even one of the server's own name comes in unnamed: whoever has a name lead to this machine for a
    moment could otherwise speak to it from any browser.
    """
    if origin is None:
        return
    cors = parts.settings.http.cors or {}
    rule = CORSMiddleware(
        _nothing,
        allow_origins=cors.get("allow_origins") or (),
        allow_origin_regex=cors.get("allow_origin_regex"),
    )
    if not rule.is_allowed_origin(origin):
        raise Denied(
            f"pages of {show(origin)} may not speak MCP with this server; let them in by http.cors",
            field="Origin",
        )


async def _nothing(*_: Any) -> None:
    """Stand for the application behind a rule that is only asked."""


def _check_version(message: Message, version: str | None) -> None:
    if version is not None and version not in VERSIONS and message.method != "initialize":
        raise McpError(
            SERVER_ERROR,
            f"MCP-Protocol-Version is {show(version)}; this server speaks {', '.join(VERSIONS)}",
            data={"supported": VERSIONS, "requested": version},
            unread=True,
        )


def _told(error: StateroomError) -> McpError:
    """Return what of an error a client of the protocol is told."""
    data = {"code": error.code} | ({} if error.field is None else {"field": error.field})
    if type(error) is StateroomError:
        _log.error("a message of MCP failed", exc_info=error)
        return McpError(INTERNAL_ERROR, INTERNAL, data=data)
    wrong = isinstance(error, InvalidInput | LimitExceeded | NotFound)
    return McpError(INVALID_PARAMS if wrong else SERVER_ERROR, str(error), data=data)


async def _obeyed(message: Message, parts: Parts, access: Access) -> dict[str, Any]:
    """Return what a request is answered that makes no run."""
    match message.method:
        case "initialize":
            return _initialized(message.params, parts)
        case "ping":
            return {}
        case "tools/list":
            cursor = message.params.get("cursor")
            if cursor is not None and not isinstance(cursor, str):
                raise McpError(INVALID_PARAMS, f"cursor is {show(cursor)}; pass a text")
            tools, following = await Tools(parts, access).page(cursor)
            return {"tools": tools} | ({} if following is None else {"nextCursor": following})
        case unknown:
            raise McpError(METHOD_NOT_FOUND, f"there is no method {show(unknown)} here")


def _initialized(params: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    if not isinstance(asked, str):
        raise McpError(INVALID_PARAMS, f"protocolVersion is {show(asked)}; name a revision of the protocol")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "stateroom", "title": "Stateroom", "version": parts.version},
    }


async def _call(message: Message, request: Request, parts: Parts, access: Access) -> Response:
    """Run an assistant on a thread of its own; answer when it has ended, or stop it if the client leaves."""
    name, arguments = message.params.get("name"), message.params.get("arguments")
    if not (isinstance(name, str) and name):
        raise McpError(INVALID_PARAMS, f"name is {show(name)}; name a tool")
    if arguments is not None and not isinstance(arguments, dict):
        raise McpError(INVALID_PARAMS, f"arguments is {show(arguments)}; pass an object")
    wanted = RunRequest(assistant_id=Tools(parts, access).assistant_id(name), input=arguments or {})
    try:
        run = await create_run(parts, access, wanted, headers=request.headers)
    except (InvalidAssistant, NotFound) as error:
        raise McpError(INVALID_PARAMS, f"there is no tool {show(name)}; tools/list names them") from error
    return LiveResponse(
        _result(parts, run.run_id, message.id),
        sign=SIGN,
        heartbeat=parts.settings.limits.heartbeat,
        media_type="application/json",
        headers={},
        resumable=False,
        on_disconnect=partial(abandon, parts, run.run_id),
    )


async def _result(parts: Parts, run_id: str, identity: int | str | None) -> AsyncGenerator[bytes]:
    yield result_json(identity, _shown(await run_output(parts, run_id)))


def _shown(output: bytes) -> dict[str, Any]:
    """Return what a tool answers, of what its run has answered."""
    values = orjson.loads(output)
    if not isinstance(values, dict):
        return text_result(values if isinstance(values, str) else output.decode(), failed=False)
    if error := values.get(_ERROR):
        return text_result(f"{error['error']}: {error['message']}", failed=True)
    if interrupts := values.get(_INTERRUPTS):
        asked = "; ".join(encoded(each.get("value")).decode() for each in interrupts)
        return call_result(f"The agent stopped to ask, and cannot be answered here: {asked}", output)
    return call_result(last_words(values) or output.decode(), output)
