"""What the processes do that the tests of files start: they share one file system, and some are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from typing_extensions import override

from stateroom.clock import ManualClock, system_clock
from stateroom.errors import Unavailable
from stateroom.files import StoreBackend
from tests.cases.processes import opened
from tests.faults.programs.files_histories import NAMESPACE, files_at, history, operate

__all__ = ["HEAD", "NOTE", "added", "edit_as_agent", "edit_note", "go_on", "ticked", "touch", "write_beside"]

NOTE = "/notes/n.md"
HEAD = "HEAD|\n"

Edit = tuple[str, str, str]
"""The name of an edit, the text that it replaces, and what by."""


def added(name: str, number: int) -> Edit:
    """Return the edit that adds a line under the head, where all others add theirs."""
    line = f"{name}-{number}"
    return line, HEAD, f"{HEAD}{line}\n"


def ticked(name: str, number: int) -> Edit:
    """Return the edit that ticks one line, of which everybody has some."""
    line = f"{name}-{number}"
    return line, f"[ ] {line}\n", f"[x] {line}\n"


def edit_note(
    pipe: Connection,
    place: Sequence[str],
    name: str,
    numbers: Sequence[int],
    kind: Callable[[str, int], Edit],
    together: int,
) -> None:
    """Try some edits of one file, when told to begin, and tell which succeeded.

    With ``together`` so many are tried by tasks of one event loop at a time, otherwise one after the other.
    """
    edits = [kind(name, number) for number in numbers]
    with opened(*place) as store:
        files = StoreBackend(store=store, namespace=NAMESPACE)
        pipe.send("ready")
        pipe.recv()
        if together:
            pipe.send(asyncio.run(_aedited(files, edits, together)))
        else:
            pipe.send([line for line, old, new in edits if _edited(files, old, new)])


def _edited(files: StoreBackend, old: str, new: str) -> bool:
    try:
        return files.edit(NOTE, old, new).error is None
    except Unavailable:
        return False


async def _aedited(files: StoreBackend, edits: Sequence[Edit], together: int) -> list[str]:
    async def edited(old: str, new: str) -> bool:
        try:
            return (await files.aedit(NOTE, old, new)).error is None
        except Unavailable:
            return False

    done = []
    for start in range(0, len(edits), together):
        some = edits[start : start + together]
        waiting: list[Awaitable[bool]] = [edited(old, new) for _, old, new in some]
        results = await asyncio.gather(*waiting)
        done += [line for (line, _, _), success in zip(some, results, strict=True) if success]
    return done


def edit_as_agent(pipe: Connection, place: Sequence[str], name: str, times: int, is_async: bool) -> None:
    """Have a deep agent add lines to one file with its tool; tell which it was told are there."""
    from deepagents import create_deep_agent

    edits = [added(name, number) for number in range(times)]
    with opened(*place) as store:
        backend: Any = StoreBackend(store=store, namespace=NAMESPACE)
        agent = create_deep_agent(
            _Scripted(turns=[_call(*edit) for edit in edits] + [AIMessage("Done.")]),
            backend=backend,
        )
        asked: Any = {"messages": [("user", "Add your lines.")]}
        pipe.send("ready")
        pipe.recv()
        answer = asyncio.run(agent.ainvoke(asked)) if is_async else agent.invoke(asked)
        told = {message.tool_call_id: message for message in answer["messages"] if message.type == "tool"}
        assert set(told) == {line for line, _, _ in edits}
        pipe.send([line for line, message in told.items() if message.status == "success"])


def _call(line: str, old: str, new: str) -> AIMessage:
    arguments = {"file_path": NOTE, "old_string": old, "new_string": new}
    return AIMessage(
        "", tool_calls=[{"name": "edit_file", "args": arguments, "id": line, "type": "tool_call"}]
    )


class _Scripted(BaseChatModel):
    """A chat model that takes the turns it is given."""

    turns: list[AIMessage]

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> _Scripted:
        return self

    @override
    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.turns.pop(0))])

    @property
    @override
    def _llm_type(self) -> str:
        return "scripted"


def go_on(pipe: Connection, place: Sequence[str], seed: int, number: int, start: int) -> None:
    """Go on with a history at one of its operations, and acknowledge each when its call has returned."""
    clock = ManualClock()
    clock.advance(seconds=start)
    files = files_at(opened(*place), clock)
    for done, operation in enumerate(islice(history(seed, number), start, None), start):
        operate(files, clock, operation)
        pipe.send(done)
    pipe.send("done")


def write_beside(pipe: Connection, place: Sequence[str], paths: Sequence[str], rounds: int) -> None:
    """Edit files again and again, and write, replace and delete others beside them."""
    with opened(*place) as store:
        files = StoreBackend(store=store, namespace=NAMESPACE)
        pipe.send("ready")
        pipe.recv()
        for each in range(rounds):
            for path in paths[each % 7 :: 7]:
                assert files.edit(path, f"round {each // 7}", f"round {each // 7 + 1}").error is None
            directory = paths[each % len(paths)].rpartition("/")[0]
            brief = [f"{directory}/{before}brief-{each % 5}.md" for before in ("", "a/", "z")]
            files.upload_files([(path, b"gone soon") for path in brief])
            for path in brief[each % 2 :: 2]:
                files.delete(path)
    pipe.send("done")


def touch(pipe: Connection, place: Sequence[str], paths: Sequence[str]) -> None:
    """Edit files when told to begin, once each, and tell after each whether it succeeded."""
    with opened(*place) as store:
        files = StoreBackend(store=store, namespace=NAMESPACE, clock=system_clock)
        pipe.send("ready")
        pipe.recv()
        for path in paths:
            pipe.send((path, files.edit(path, "old", "new").error is None))
