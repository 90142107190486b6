"""The Agent2Agent protocol over HTTP: assistants as agents that other agents speak with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response

from stateroom.api.a2a import Agent, read_request, refusal_of
from stateroom.api.access import AccessDep
from stateroom.api.answers import answer
from stateroom.api.including import Routes
from stateroom.api.parts import PartsDep
from stateroom.api.sse import MEDIA_TYPE
from stateroom.api.wire.a2a import (
    INVALID_REQUEST,
    PROTOCOL_VERSION,
    VERSION_NOT_SUPPORTED,
    A2ARefused,
    A2ARequest,
    card_json,
    error_json,
)
from stateroom.errors import InvalidInput, StateroomError
from stateroom.model.text import show

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts
    from stateroom.model.assistant import Assistant

__all__ = ["router"]

router = Routes()

_EXAMPLE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "message/send",
    "params": {
        "message": {"messageId": "1", "role": "user", "parts": [{"kind": "text", "text": "Hello"}]},
    },
}
_REQUEST: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": A2ARequest.model_json_schema(), "example": _EXAMPLE}},
    }
}
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "An answer of JSON-RPC or, to `message/stream` and `tasks/resubscribe`, several",
        "content": {"application/json": {}, MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}

VersionHeader = Annotated[
    str | None, Header(alias="A2A-Version", description=f"The protocol's version, {PROTOCOL_VERSION}")
]


@router.post("/a2a/{assistant_id}", openapi_extra=_REQUEST, responses=_ANSWERS)
async def speak_a2a(
    assistant_id: str,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    version: VersionHeader = None,
) -> Response:
    """Speak the Agent2Agent protocol with an assistant.

    `message/send`, `message/stream`, `tasks/get`, `tasks/cancel` and `tasks/resubscribe`; a context is a
    thread, a task a run. What cannot be obeyed is answered with 200 too, and the protocol's `error`.
    """
    assistant = await _assistant(assistant_id, parts, access)
    identity = None
    try:
        _check_type(request)
        asked = read_request(await request.body())
        identity = asked.id
        _check_version(version)
        return await Agent(parts, access, assistant, request.headers)(asked)
    except A2ARefused as refused:
        return _refused(identity, refused)
    except StateroomError as error:
        told = refusal_of(error)
        if told is None:
            raise
        return _refused(identity, told)


@router.get("/.well-known/agent-card.json")
async def get_agent_card(
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    assistant_id: Annotated[str | None, Query(description="May be left out if there is one graph")] = None,
) -> Response:
    """Return the card by which other agents know an assistant."""
    if assistant_id is None:
        if len(parts.graphs.ids) != 1:
            known = ", ".join(sorted(parts.graphs.ids))
            raise InvalidInput(
                f"assistant_id is missing; name an assistant, or one of the graphs {known}",
                field="assistant_id",
            )
        (assistant_id,) = parts.graphs.ids
    return await _card(assistant_id, request, parts, access)


@router.get("/a2a/{assistant_id}/.well-known/agent-card.json")
async def get_assistant_agent_card(
    assistant_id: str, request: Request, parts: PartsDep, access: AccessDep
) -> Response:
    """Return the card by which other agents know an assistant, where clients look for it."""
    return await _card(assistant_id, request, parts, access)


async def _card(assistant_id: str, request: Request, parts: Parts, access: Access) -> Response:
    assistant = await _assistant(assistant_id, parts, access)
    usual = f"Runs the agent {assistant.name}."
    description = assistant.description or parts.graphs.description(assistant.graph_id) or usual
    base = str(request.base_url).rstrip("/")
    card = card_json(
        assistant.name,
        description,
        url=f"{base}/a2a/{quote(assistant_id, safe='')}",
        version=str(assistant.version),
        skill_id=assistant.graph_id,
    )
    return answer(card)


async def _assistant(assistant_id: str, parts: Parts, access: Access) -> Assistant:
    scope = await access.allow("assistants", "read", {"assistant_id": assistant_id, "metadata": {}})
    return await parts.offload(parts.assistants.get, assistant_id, scope)


def _refused(identity: Any, refused: A2ARefused) -> Response:
    return Response(error_json(identity, refused), media_type="application/json")


def _check_type(request: Request) -> None:
    """Refuse what a page of somebody else could have a browser send unasked."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise A2ARefused(
            INVALID_REQUEST,
            f"content-type is {show(kind)}; send application/json",
            "content-type",
        )


def _check_version(version: str | None) -> None:
    if version and ".".join(version.split(".")[:2]) != "0.3":
        raise A2ARefused(
            VERSION_NOT_SUPPORTED,
            f"A2A-Version is {show(version)}; this agent speaks {PROTOCOL_VERSION}",
            "A2A-Version",
        )
