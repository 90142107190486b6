"""Messages of the Model Context Protocol, as clients write and read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from stateroom.api.answers import encoded
from stateroom.model.text import show

__all__ = [
    *("INTERNAL_ERROR", "INVALID_PARAMS", "INVALID_REQUEST", "METHOD_NOT_FOUND", "PARSE_ERROR"),
    *("DOCUMENTED", "MESSAGE_SCHEMA", "REFUSED", "SERVER_ERROR", "VERSIONS"),
    *("McpError", "Message", "call_result", "error_json", "read_message", "result_json", "text_result"),
]

VERSIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions of the protocol that are spoken, the newest last."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

SERVER_ERROR: Final = -32000
"""What JSON-RPC leaves to servers: here whatever the message itself is not to blame for."""

_ID: Final = {"anyOf": [{"type": "integer"}, {"type": "string"}]}

MESSAGE_SCHEMA: Final[dict[str, Any]] = {
    "title": "McpMessage",
    "type": "object",
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {**_ID, "description": "What the answer repeats; a message without it is not answered"},
        "method": {
            "enum": ["initialize", "ping", "tools/list", "tools/call", "notifications/initialized"],
        },
        "params": {"type": "object"},
    },
    "required": ["jsonrpc", "method"],
    "additionalProperties": False,
}
"""The document's words for a message; what else may be sent is in the protocol's own."""

DOCUMENTED: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": MESSAGE_SCHEMA,
                "example": {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {
                        "name": "agent",
                        "arguments": {"messages": [{"role": "user", "content": "Hi"}]},
                    },
                },
            }
        },
    }
}

REFUSED: Final = 400
"""The status with which the protocol has servers answer what is no message of it."""


class McpError(Exception):
    """A message cannot be obeyed. ``unread`` says that it is none at all, to whatever method."""

    def __init__(
        self, code: int, message: str, *, data: Mapping[str, Any] | None = None, unread: bool = False
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.unread = unread


class Message(NamedTuple):
    """A request, or without ``id`` a notification."""

    id: int | str | None
    method: str
    params: Mapping[str, Any]


def read_message(raw: bytes) -> Message | None:
    """Return the message of a body, None for an answer to something; raise McpError."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise McpError(PARSE_ERROR, f"the body is not JSON: {error}", unread=True) from error
    if isinstance(found, list):
        raise _no_message("batches are not taken; send one message at a time")
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        raise _no_message('a message is an object with "jsonrpc": "2.0"')
    if "method" not in found and "id" in found and ("result" in found or "error" in found):
        return None
    identity, method, params = found.get("id"), found.get("method"), found.get("params")
    if not isinstance(method, str):
        raise _no_message(f"method is {show(method)}; name one")
    if "id" in found and (isinstance(identity, bool) or not isinstance(identity, int | str)):
        raise _no_message(f"id is {show(identity)}; pass a text or a whole number")
    if params is not None and not isinstance(params, dict):
        raise _no_message(f"params is {show(params)}; pass an object")
    return Message(identity, method, params or {})


def _no_message(why: str) -> McpError:
    return McpError(INVALID_REQUEST, why, unread=True)


def result_json(identity: int | str | None, result: Any) -> bytes:
    """Return the answer to a request that was obeyed."""
    return encoded({"jsonrpc": "2.0", "id": identity, "result": result})


def error_json(identity: int | str | None, error: McpError) -> bytes:
    """Return the answer to a request that was not."""
    told: dict[str, Any] = {"code": error.code, "message": str(error)}
    if error.data is not None:
        told["data"] = error.data
    return encoded({"jsonrpc": "2.0", "id": identity, "error": told})


def text_result(text: str, *, failed: bool) -> dict[str, Any]:
    """Return what a tool answers in words alone."""
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def call_result(text: str, values: bytes) -> dict[str, Any]:
    """Return what a tool answers in words, and as values, which are JSON of an object already."""
    return {**text_result(text, failed=False), "structuredContent": orjson.Fragment(values)}
