"""What Agent2Agent sends and is answered: JSON-RPC messages, tasks and cards, as version 0.3 writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StrictInt, StrictStr

from stateroom.api.answers import encoded
from stateroom.api.wire.base import Body, JsonObject
from stateroom.clock import microseconds_to_datetime

__all__ = [
    *("CARD_NOT_CONFIGURED", "CONTENT_TYPE", "INVALID_PARAMS", "INVALID_REQUEST", "METHOD_NOT_FOUND"),
    *("NOT_CANCELABLE", "PARSE_ERROR", "PUSH_NOT_SUPPORTED", "TASK_NOT_FOUND", "UNSUPPORTED"),
    *("VERSION_NOT_SUPPORTED", "MODES", "PROTOCOL_VERSION"),
    *("A2ARefused", "A2ARequest", "Configuration", "Message", "Part", "SendMessage", "TaskId", "TaskQuery"),
    *("artifact_json", "artifact_update", "card_json", "data_part", "error_json", "message_json"),
    *("result_json", "status_json", "status_update", "task_json", "text_part"),
]

PROTOCOL_VERSION: Final = "0.3.0"

MODES: Final = ("text/plain", "application/json")
"""The media types of what comes in and goes out: text and data."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
TASK_NOT_FOUND: Final = -32001
NOT_CANCELABLE: Final = -32002
PUSH_NOT_SUPPORTED: Final = -32003
UNSUPPORTED: Final = -32004
CONTENT_TYPE: Final = -32005
CARD_NOT_CONFIGURED: Final = -32007
VERSION_NOT_SUPPORTED: Final = -32009

RequestId = StrictInt | StrictStr | None


class A2ARefused(Exception):
    """A request cannot be obeyed; ``code`` is the protocol's, ``field`` is to blame."""

    def __init__(self, code: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.field = field


# ---- what is sent


class A2ARequest(Body):
    """A request of JSON-RPC, whose ``id`` the answer repeats."""

    jsonrpc: Literal["2.0"]
    id: RequestId = None
    method: Annotated[str, Field(examples=["message/send"])]
    params: JsonObject | None = None


class Part(Body):
    """A piece of a message: a text, a JSON object, or a file, which is refused."""

    kind: Literal["text", "data", "file"]
    text: str | None = None
    data: JsonObject | None = None
    file: Any = None
    metadata: JsonObject | None = None


class Message(Body):
    """What a client says; ``contextId`` is the thread, ``taskId`` the task that it is about."""

    kind: Literal["message"] = "message"
    messageId: str
    role: Literal["user"]
    parts: Annotated[list[Part], Field(min_length=1)]
    contextId: str | None = None
    taskId: str | None = None
    referenceTaskIds: list[str] | None = None
    extensions: list[str] | None = None
    metadata: JsonObject | None = None


class Configuration(Body):
    """How a client wants to be answered."""

    acceptedOutputModes: list[str] | None = None
    blocking: bool | None = None
    historyLength: Annotated[int, Field(strict=True, ge=0)] | None = None
    pushNotificationConfig: JsonObject | None = None


class SendMessage(Body):
    """The parameters of ``message/send`` and ``message/stream``."""

    message: Message
    configuration: Configuration = Field(default_factory=Configuration)
    metadata: JsonObject | None = None


class TaskId(Body):
    """The parameters of ``tasks/cancel`` and ``tasks/resubscribe``."""

    id: str
    metadata: JsonObject | None = None


class TaskQuery(TaskId):
    """The parameters of ``tasks/get``."""

    historyLength: Annotated[int, Field(strict=True, ge=0)] | None = None


# ---- what is answered


def result_json(identity: Any, result: Any) -> bytes:
    """Return the answer to a request that was obeyed."""
    return encoded({"jsonrpc": "2.0", "id": identity, "result": result})


def error_json(identity: Any, refused: A2ARefused) -> bytes:
    """Return the answer to a request that was not."""
    told: dict[str, Any] = {"code": refused.code, "message": str(refused)}
    if refused.field is not None:
        told["data"] = {"field": refused.field}
    return encoded({"jsonrpc": "2.0", "id": identity, "error": told})


def text_part(text: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a piece of text."""
    return _known({"kind": "text", "text": text, "metadata": metadata})


def data_part(data: Any, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a piece of data, which has to be an object: what is none becomes its ``value``."""
    shown = data if isinstance(data, Mapping) else {"value": data}
    return _known({"kind": "data", "data": shown, "metadata": metadata})


def message_json(
    message_id: str, role: str, parts: Sequence[Mapping[str, Any]], *, context_id: str, task_id: str
) -> dict[str, Any]:
    """Return a message of the ``user`` or the ``agent``."""
    named = {"kind": "message", "messageId": message_id, "role": role, "parts": parts}
    return {**named, "contextId": context_id, "taskId": task_id}


def status_json(state: str, at: int, message: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return where a task is since the microsecond ``at``."""
    return _known({"state": state, "timestamp": microseconds_to_datetime(at), "message": message})


def artifact_json(artifact_id: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a task has made."""
    return {"artifactId": artifact_id, "name": "answer", "parts": parts}


def task_json(
    task_id: str,
    context_id: str,
    status: Mapping[str, Any],
    *,
    artifact: Mapping[str, Any] | None = None,
    history: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return a task."""
    found: dict[str, Any] = {"kind": "task", "id": task_id, "contextId": context_id, "status": status}
    if artifact is not None:
        found["artifacts"] = [artifact]
    return {**found, "history": history} if history else found


def status_update(task_id: str, context_id: str, status: Mapping[str, Any], *, final: bool) -> dict[str, Any]:
    """Return the event that a task's status has changed, after the ``final`` one of which nothing comes."""
    named = {"kind": "status-update", "taskId": task_id, "contextId": context_id}
    return {**named, "status": status, "final": final}


def artifact_update(
    task_id: str, context_id: str, artifact: Mapping[str, Any], *, append: bool, last: bool
) -> dict[str, Any]:
    """Return the event that an artifact has grown, or is there instead of what it was."""
    named = {"kind": "artifact-update", "taskId": task_id, "contextId": context_id}
    return {**named, "artifact": artifact, "append": append, "lastChunk": last}


def card_json(name: str, description: str, *, url: str, version: str, skill_id: str) -> dict[str, Any]:
    """Return the card of an agent that answers at ``url``."""
    skill = {"id": skill_id, "name": name, "description": description, "tags": ["langgraph"]}
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "name": name,
        "description": description,
        "url": url,
        "preferredTransport": "JSONRPC",
        "version": version,
        "capabilities": {"streaming": True, "pushNotifications": False, "stateTransitionHistory": False},
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [skill],
        "supportsAuthenticatedExtendedCard": False,
    }


def _known(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None}
