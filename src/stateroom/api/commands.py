"""The commands of a thread's protocol: what each does, and how its failure is called."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson
from pydantic import ValidationError

from stateroom.api.agent_trees import agent_tree
from stateroom.api.answers import encoded
from stateroom.api.creating import create_run
from stateroom.api.wire.base import Body, check_limit
from stateroom.api.wire.protocol import (
    COMMANDS,
    Command,
    ForkState,
    GetState,
    GetTree,
    ListCheckpoints,
    Respond,
    StartRun,
)
from stateroom.contract.runs import RunQuery
from stateroom.errors import Denied, NotFound, NotSupported, StateroomError, Unavailable
from stateroom.model.run import RunStatus
from stateroom.model.text import show
from stateroom.service.run_requests import RunRequest

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts
    from stateroom.model.run import Run
    from stateroom.model.thread import Thread

__all__ = ["ANSWER_PATIENCE", "Commands", "Refused", "code_of"]

ANSWER_PATIENCE: Final = 30.0
"""Seconds that an answer waits for the run that asks for it to come to rest."""

_SUMMED_UP: Final = ("checkpoint", "metadata", "created_at")

ACTIVE: Final = (RunStatus.RUNNING, RunStatus.PENDING)


class Refused(Exception):
    """A command cannot be obeyed; ``code`` is the protocol's word for why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: Exception) -> str | None:
    """Return the protocol's word for an error; None for one that is not the caller's to mend."""
    match error:
        case Refused():
            return error.code
        case Denied():
            return "permission_denied"
        case NotSupported():
            return "not_supported"
        case Unavailable() | StateroomError(code=StateroomError.code):
            return None
        case StateroomError():
            return "invalid_argument"
    return None


class Commands:
    """What a caller may have done with a thread. ``headers`` are those of his request."""

    def __init__(self, parts: Parts, access: Access, thread_id: str, headers: Mapping[str, str]) -> None:
        self._parts = parts
        self._access = access
        self._thread_id = thread_id
        self._headers = headers
        self._obeyed: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]] = {
            "run.start": self._start,
            "input.respond": self._respond,
            "agent.getTree": self._tree,
            "state.get": self._state,
            "state.listCheckpoints": self._checkpoints,
            "state.fork": self._fork,
        }

    def add(self, method: str, obey: Callable[[Any], Awaitable[dict[str, Any]]]) -> None:
        """Obey one more of the protocol's commands."""
        self._obeyed[method] = obey

    async def __call__(self, command: Command) -> dict[str, Any]:
        """Do what a command says; return its result. Raises ``Refused`` and Stateroom's errors."""
        if command.method not in COMMANDS:
            raise Refused("unknown_command", f"there is no command {show(command.method)}")
        obey = self._obeyed.get(command.method)
        if obey is None:
            raise Refused(
                "not_supported", f"{command.method} needs a WebSocket; POST to stream/events instead"
            )
        return await obey(_parse(COMMANDS[command.method], command.params))

    # ---- runs

    async def _start(self, asked: StartRun) -> dict[str, Any]:
        config = dict(asked.config or {})
        if asked.forkFrom:
            config["configurable"] = {**(config.get("configurable") or {}), "checkpoint_id": asked.forkFrom}
        strategy = asked.multitask_strategy or asked.multitaskStrategy or "enqueue"
        run = await self._run(
            assistant_id=asked.assistant_id,
            input=asked.input,
            config=config,
            context=asked.context,
            metadata=asked.metadata or {},
            langsmith_tracer=asked.langsmith_tracer,
            multitask_strategy=strategy,
            if_not_exists="create",
        )
        return {"run_id": run.run_id}

    async def _respond(self, asked: Respond) -> dict[str, Any]:
        answers = asked.answers()
        if not answers:
            raise Refused("invalid_argument", "interrupt_id is missing; pass it, or responses")
        await self._until_asked(answers.keys())
        command = {"resume": answers, "update": asked.update, "goto": asked.goto}
        run = await self._run(
            assistant_id=await self._assistant(),
            command={key: value for key, value in command.items() if value is not None},
            config=asked.config or {},
            metadata=asked.metadata or {},
            strict_resume=asked.strict_resume,
        )
        return {"run_id": run.run_id}

    async def _fork(self, asked: ForkState) -> dict[str, Any]:
        thread = await self._thread()
        named = {"checkpoint_id": asked.checkpoint_id}
        try:
            await self._parts.states.get(thread, checkpoint=named, select=["checkpoint"], user=self._user)
        except NotFound as error:
            raise Refused("no_such_checkpoint", str(error)) from error
        run = await self._run(
            assistant_id=await self._assistant(),
            input=asked.input,
            config=asked.config or {},
            checkpoint_id=asked.checkpoint_id,
        )
        return {"run_id": run.run_id, "thread_id": self._thread_id}

    async def _run(self, **fields: Any) -> Run:
        request = RunRequest(thread_id=self._thread_id, protocol=True, **fields)
        return await create_run(self._parts, self._access, request, headers=self._headers)

    async def _until_asked(self, interrupt_ids: Any) -> None:
        """Return once the thread waits for these answers: its run asks before it has come to rest."""
        try:
            async with asyncio.timeout(ANSWER_PATIENCE):
                while missing := set(interrupt_ids) - _asked(await self._thread()):
                    running = await self._newest(RunStatus.RUNNING)
                    if running is None:
                        # It may have come to rest between the two looks.
                        if missing := set(interrupt_ids) - _asked(await self._thread()):
                            raise _no_such_interrupt(missing)
                        return
                    await self._parts.followers.ended(running.run_id)
        except TimeoutError as error:
            raise _no_such_interrupt(set(interrupt_ids)) from error

    async def _assistant(self) -> str:
        """Return the assistant of the thread's latest run, who goes on."""
        latest = await self._newest()
        if latest is not None:
            return latest.assistant_id
        found = (await self._thread()).metadata.get("assistant_id")
        if not isinstance(found, str):
            raise Refused("no_such_run", "nothing has been executed on this thread; send run.start")
        return found

    # ---- what is there

    async def _tree(self, asked: GetTree) -> dict[str, Any]:
        await self._thread(missing="no_such_run")
        if asked.run_id is None:
            run = await self._newest(*ACTIVE) or await self._newest()
        else:
            run = await self._parts.offload(self._parts.storage.runs.get, asked.run_id)
        if run is None or run.thread_id != self._thread_id:
            raise Refused("no_such_run", "there is no such run on this thread; send run.start")
        assistant = await self._parts.offload(self._parts.storage.assistants.get, run.assistant_id)
        name = run.assistant_id if assistant is None else assistant.graph_id
        return {"tree": await agent_tree(self._parts, run, name)}

    async def _state(self, asked: GetState) -> dict[str, Any]:
        thread = await self._thread()
        values = ["values"] if asked.keys is None else [f"values.{key}" for key in asked.keys]
        named, select = _named(asked.namespace), [*values, "checkpoint"]
        read = self._parts.states.get(thread, checkpoint=named, select=select, user=self._user)
        state = await self._at(asked.namespace, read)
        if asked.namespace and not state.get("checkpoint"):
            raise Refused("no_such_namespace", f"nothing was executed in {'/'.join(asked.namespace)!r}")
        found: dict[str, Any] = {"values": state.get("values", {})}
        if at := state.get("checkpoint"):
            found["checkpoint"] = {"id": at["checkpoint_id"], "ns": at.get("checkpoint_ns", "")}
        return found

    async def _checkpoints(self, asked: ListCheckpoints) -> dict[str, Any]:
        limit = check_limit(asked.limit, self._parts.settings.limits)
        thread = await self._thread()
        named, user = _named(asked.namespace), self._user
        read = self._parts.states.history(
            thread, limit=limit, before=asked.before, checkpoint=named, select=_SUMMED_UP, user=user
        )
        states = await self._at(asked.namespace, read)
        return {"checkpoints": [_summary(state) for state in states]}

    async def _at(self, namespace: list[str], read: Awaitable[Any]) -> Any:
        try:
            return await read
        except StateroomError as error:
            if namespace and code_of(error) is not None:
                raise Refused("no_such_namespace", str(error)) from error
            raise

    @property
    def _user(self) -> Mapping[str, Any] | None:
        return None if self._access.principal is None else self._access.principal.user

    async def _thread(self, missing: str = "invalid_argument") -> Thread:
        scope = await self._access.allow("threads", "read", {"thread_id": self._thread_id, "run_id": None})
        try:
            return await self._parts.offload(self._parts.threads.get, self._thread_id, scope)
        except NotFound as error:
            raise Refused(missing, f"{error}; send run.start, which makes it") from error

    async def _newest(self, *statuses: RunStatus) -> Run | None:
        query = RunQuery(self._thread_id, statuses=statuses or None)
        page = await self._parts.offload(self._parts.storage.runs.search, query, limit=1)
        return page.rows[0] if page.rows else None


def _parse(kind: type[Body], params: Mapping[str, Any]) -> Body:
    try:
        return kind.model_validate(params)
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"])) or "params"
        raise Refused("invalid_argument", f"{field}: {fault['msg']}") from error


def _asked(thread: Thread) -> set[str]:
    """Return the ids of the interrupts that a thread waits at."""
    return {each["id"] for task in thread.interrupts.values() for each in task if "id" in each}


def _no_such_interrupt(missing: set[str]) -> Refused:
    return Refused("no_such_interrupt", f"the thread does not wait for {', '.join(sorted(missing))}")


def _named(namespace: list[str]) -> dict[str, Any] | None:
    return {"checkpoint_ns": "|".join(namespace)} if namespace else None


def _summary(state: Mapping[str, Any]) -> dict[str, Any]:
    # Parts of a state may be JSON already.
    said = orjson.loads(encoded(state))
    metadata = said.get("metadata") or {}
    return {
        "id": (said.get("checkpoint") or {}).get("checkpoint_id"),
        "timestamp": said.get("created_at"),
        "step": metadata.get("step"),
        "metadata": metadata,
    }
