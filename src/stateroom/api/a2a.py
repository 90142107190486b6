"""An agent as the Agent2Agent protocol knows it: what each request has done, and how a failure is called."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError
from starlette.responses import Response

from stateroom.api.a2a_messages import answer_of, input_of
from stateroom.api.a2a_streams import task_stream
from stateroom.api.a2a_tasks import GOES_ON, Task, Waiting, find_task, gone, look, refreshed, waiting_at
from stateroom.api.creating import create_run
from stateroom.api.live import LiveResponse
from stateroom.api.sse import sse_response
from stateroom.api.waiting import SIGN
from stateroom.api.wire.a2a import (
    CARD_NOT_CONFIGURED,
    CONTENT_TYPE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODES,
    NOT_CANCELABLE,
    PARSE_ERROR,
    PUSH_NOT_SUPPORTED,
    UNSUPPORTED,
    A2ARefused,
    A2ARequest,
    Configuration,
    Message,
    SendMessage,
    TaskId,
    TaskQuery,
    error_json,
    result_json,
)
from stateroom.api.wire.base import THREAD_ID_PATTERN, Body
from stateroom.engine.introspection import input_fields
from stateroom.errors import Conflict, InvalidInput, LimitExceeded, NotFound, NotSupported, StateroomError
from stateroom.model.run import ENDED
from stateroom.model.text import show
from stateroom.service.run_requests import RunRequest

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts
    from stateroom.model.assistant import Assistant

__all__ = ["Agent", "read_request", "refusal_of"]

B = TypeVar("B", bound=Body)

METHODS: Final = ("message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe")

_ACCEPTED: Final = frozenset({*MODES, "text", "data", "text/*", "application/*", "*/*"})
"""How clients say that they take what agents answer."""

_CALLED: Final = {"thread_id": "message.contextId", "run_id": "id"}
"""How the protocol calls what Stateroom's errors name."""


def read_request(data: bytes) -> A2ARequest:
    """Return the request that a body holds; raise A2ARefused."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise A2ARefused(PARSE_ERROR, f"the body is not JSON: {error}") from error
    return _parsed(A2ARequest, found, INVALID_REQUEST)


def _parsed(kind: type[B], given: Any, code: int) -> B:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
        field = place.lstrip(".") or ("the request" if kind is A2ARequest else "params")
        raise A2ARefused(code, f"{field}: {fault['msg']}", field) from error


def refusal_of(error: StateroomError) -> A2ARefused | None:
    """Return an error in the protocol's terms; None for those that HTTP has a status for."""
    field = _CALLED.get(error.field or "", error.field)
    match error:
        case NotSupported():
            return A2ARefused(UNSUPPORTED, str(error), field)
        case InvalidInput() | LimitExceeded() | NotFound() | Conflict():
            return A2ARefused(INVALID_PARAMS, str(error), field)
    return None


class Agent:
    """An assistant that a caller speaks with; ``headers`` are those of his request."""

    def __init__(
        self, parts: Parts, access: Access, assistant: Assistant, headers: Mapping[str, str]
    ) -> None:
        self._parts = parts
        self._access = access
        self._assistant = assistant
        self._headers = headers
        self._obeyed: dict[str, tuple[type[Body], Callable[[Any, Any], Awaitable[Response]]]] = {
            "message/send": (SendMessage, self._send),
            "message/stream": (SendMessage, self._stream),
            "tasks/get": (TaskQuery, self._get),
            "tasks/cancel": (TaskId, self._cancel),
            "tasks/resubscribe": (TaskId, self._resubscribe),
        }

    async def __call__(self, request: A2ARequest) -> Response:
        """Do what a request says; return its answer. Raises A2ARefused, and Stateroom's errors."""
        if request.method.startswith("tasks/pushNotificationConfig/"):
            raise A2ARefused(PUSH_NOT_SUPPORTED, "this agent notifies nobody; ask by tasks/get")
        if request.method == "agent/getAuthenticatedExtendedCard":
            raise A2ARefused(CARD_NOT_CONFIGURED, "there is no other card than the agent card")
        if request.method not in self._obeyed:
            known = ", ".join(METHODS)
            raise A2ARefused(METHOD_NOT_FOUND, f"there is no method {show(request.method)}; use {known}")
        kind, obey = self._obeyed[request.method]
        return await obey(request.id, _parsed(kind, request.params or {}, INVALID_PARAMS))

    # ---- messages

    async def _send(self, identity: Any, asked: SendMessage) -> Response:
        task = await self._begun(asked)
        length = asked.configuration.historyLength
        if asked.configuration.blocking is False:
            return _answer(result_json(identity, (await look(self._parts, task)).json(task, length)))
        return self._later(identity, task, length)

    async def _stream(self, identity: Any, asked: SendMessage) -> Response:
        return self._streamed(identity, await self._begun(asked))

    async def _begun(self, asked: SendMessage) -> Task:
        """Have a message answer the question that its context waits at, or else begin a task."""
        message = asked.message
        _check_configuration(asked.configuration)
        context_id, waiting = await self._place(message)
        said = {**(asked.metadata or {}), **(message.metadata or {})}
        metadata = {key: value for key, value in said.items() if key != GOES_ON}
        if waiting is None:
            given = input_of(message, await self._fields(), self._parts.ids())
            return await self._run(thread_id=context_id, input=given, metadata=metadata)
        if waiting.task_id is not None:
            metadata[GOES_ON] = waiting.task_id
        try:
            # Of two answers at once one is refused.
            return await self._run(
                thread_id=context_id,
                command={"resume": answer_of(message, waiting.interrupt_ids)},
                metadata=metadata,
                multitask_strategy="reject",
                if_thread_status=["interrupted"],
            )
        except Conflict as error:
            raise A2ARefused(
                INVALID_PARAMS,
                "message.taskId or message.contextId names a task whose question has just been answered; "
                "look at it by tasks/get, and send the message again",
                "message.taskId",
            ) from error

    async def _place(self, message: Message) -> tuple[str, Waiting | None]:
        """Return the thread that a message belongs to, and what that waits for."""
        context_id = message.contextId
        if context_id is not None and not re.fullmatch(THREAD_ID_PATTERN, context_id):
            raise A2ARefused(
                INVALID_PARAMS,
                f"message.contextId is {show(context_id)}; use 1 to 255 of A-Z a-z 0-9 _ . : @ -",
                "message.contextId",
            )
        if message.taskId is not None:
            task = await self._task(message.taskId, "message.taskId")
            if context_id not in (None, task.context_id):
                raise A2ARefused(
                    INVALID_PARAMS,
                    f"message.contextId is {show(context_id)}, but task {task.task_id} is in "
                    f"{task.context_id}; pass that, or leave it out",
                    "message.contextId",
                )
            context_id = task.context_id
        if context_id is None:
            return self._parts.ids(), None
        scope = await self._access.allow("threads", "read", {"thread_id": context_id, "run_id": None})
        waiting = await waiting_at(self._parts, scope, context_id)
        if waiting and message.taskId and waiting.task_id not in (None, message.taskId):
            raise A2ARefused(
                INVALID_PARAMS,
                f"message.taskId is {message.taskId}, but in this context task {waiting.task_id} waits for "
                "an answer; name that, or no task",
                "message.taskId",
            )
        return context_id, waiting

    async def _run(self, *, metadata: Mapping[str, Any], **fields: Any) -> Task:
        request = RunRequest(
            assistant_id=self._assistant.assistant_id,
            metadata=metadata,
            if_not_exists="create",
            stream_mode="messages-tuple",
            **fields,
        )
        run = await create_run(self._parts, self._access, request, headers=self._headers)
        if (task_id := metadata.get(GOES_ON)) is None:
            return Task(run, run)
        first = await self._parts.offload(self._parts.storage.runs.get, str(task_id))
        return Task(first or run, run)

    async def _fields(self) -> Collection[str] | None:
        """Return what the graph's input may have; the graph is opened where users' code runs."""
        assistant, config = self._assistant, self._assistant.config
        principal = self._access.principal

        async def opened() -> Collection[str] | None:
            async with self._parts.graphs.open(
                assistant.graph_id,
                config=config,  # type: ignore[arg-type]  # a TypedDict, whose keys these are
                access="assistants.read",
                user=None if principal is None else principal.user,
                context=assistant.context,
            ) as graph:
                return input_fields(graph)

        return await self._parts.loops.run(opened)

    # ---- tasks

    async def _get(self, identity: Any, asked: TaskQuery) -> Response:
        task = await self._task(asked.id, "id")
        found = (await look(self._parts, task)).json(task, asked.historyLength)
        return _answer(result_json(identity, found))

    async def _cancel(self, identity: Any, asked: TaskId) -> Response:
        value = {"thread_id": None, "run_id": asked.id, "action": "interrupt"}
        scope = await self._access.allow("threads", "update", value)
        task = await find_task(self._parts, scope, self._assistant.assistant_id, asked.id, "id")
        if task.run.status in ENDED:
            state = (await look(self._parts, task)).status["state"]
            raise A2ARefused(NOT_CANCELABLE, f"the task is {state}, and no longer works", "id")
        try:
            await self._parts.offload(self._parts.runs.cancel, task.run.run_id, scope)
        except NotFound as error:
            raise A2ARefused(NOT_CANCELABLE, str(error), "id") from error
        return self._later(identity, task, None)

    async def _resubscribe(self, identity: Any, asked: TaskId) -> Response:
        return self._streamed(identity, await self._task(asked.id, "id"))

    async def _task(self, task_id: str, field: str) -> Task:
        scope = await self._access.allow("threads", "read", {"thread_id": None, "run_id": task_id})
        return await find_task(self._parts, scope, self._assistant.assistant_id, task_id, field)

    # ---- answers

    def _streamed(self, identity: Any, task: Task) -> Response:
        # Cut when the server stops: there is no end without a final update.
        return sse_response(self._parts, task_stream(self._parts, identity, task), resumable=False)

    def _later(self, identity: Any, task: Task, history_length: int | None) -> Response:
        """Return an answer that comes when the run has ended, with signs of life for proxies on the way."""
        return LiveResponse(
            self._ended(identity, task, history_length),
            sign=SIGN,
            heartbeat=self._parts.settings.limits.heartbeat,
            media_type="application/json",
            headers={},
            resumable=False,
        )

    async def _ended(self, identity: Any, task: Task, history_length: int | None) -> AsyncGenerator[bytes]:
        await self._parts.followers.ended(task.run.run_id)
        ended = await refreshed(self._parts, task)
        if ended is None:
            yield error_json(identity, gone(task.task_id, "id"))
        else:
            yield result_json(identity, (await look(self._parts, ended)).json(ended, history_length))


def _check_configuration(asked: Configuration) -> None:
    if asked.pushNotificationConfig is not None:
        raise A2ARefused(
            PUSH_NOT_SUPPORTED,
            "configuration.pushNotificationConfig is given, but this agent notifies nobody; leave it out",
            "configuration.pushNotificationConfig",
        )
    if asked.acceptedOutputModes and _ACCEPTED.isdisjoint(asked.acceptedOutputModes):
        raise A2ARefused(
            CONTENT_TYPE,
            f"configuration.acceptedOutputModes is {show(asked.acceptedOutputModes)}; this agent answers "
            f"{' and '.join(MODES)}",
            "configuration.acceptedOutputModes",
        )


def _answer(raw: bytes) -> Response:
    return Response(raw, media_type="application/json")
