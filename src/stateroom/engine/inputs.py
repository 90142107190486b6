"""What a graph is given to begin with: a run's input or command, once, however often the run is begun."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, PendingWrite
from langgraph.types import Command, Send, StateSnapshot

from stateroom.engine.graphs import Graph
from stateroom.errors import NotFound
from stateroom.model.run_kwargs import RunKwargs

__all__ = ["NOTHING", "first_input", "goto_of", "next_input"]

NOTHING: Final = object()
"""What a graph is given that need not run at all."""

_RESUME: Final = "__resume__"
_NO_TASK: Final = "00000000-0000-0000-0000-000000000000"
"""The task in whose name LangGraph notes what a command changes."""

_INTERRUPT_ID = re.compile("[0-9a-f]{32}")


async def first_input(graph: Graph, config: RunnableConfig, kwargs: RunKwargs) -> Any:
    """Return what a graph is given that has done nothing for the run yet.

    An answer to the only question that is open becomes one to that question by its id, so that no later
    question can take it, whenever the attempt is lost.
    """
    await _check_start(graph, config, kwargs)
    command = kwargs.command
    if command is None:
        return kwargs.input
    resume = command.get("resume")
    if resume is not None and not kwargs.checkpoint and not _names_questions(resume):
        waiting = (await graph.aget_state(config)).interrupts
        if len(waiting) == 1:
            resume = {waiting[0].id: resume}
    update = command.get("update")
    if isinstance(update, list):
        # LangGraph tells pairs of a key and a value by their being tuples, which JSON has not.
        update = [tuple(pair) for pair in update]
    return Command(update=update, resume=resume, goto=goto_of(command.get("goto")))


async def _check_start(graph: Graph, config: RunnableConfig, kwargs: RunKwargs) -> None:
    """Raise NotFound for a checkpoint that is none: LangGraph would begin with an empty state."""
    named, saver = (kwargs.checkpoint or {}).get("checkpoint_id"), graph.checkpointer
    if named and isinstance(saver, BaseCheckpointSaver) and await saver.aget_tuple(config) is None:
        raise NotFound(f"the thread has no checkpoint {named!r}", field="checkpoint_id")


async def next_input(
    graph: Graph, config: RunnableConfig, here: RunnableConfig, kwargs: RunKwargs, run_id: str
) -> tuple[RunnableConfig, Any]:
    """Return the config and what a graph is given that may have done something for the run before.

    ``config`` is the run's, ``here`` the same without a checkpoint to start from: where the thread is now. If
    the run has brought it there it goes on, which None says, or has nothing more to do: ``NOTHING``.
    """
    state = await graph.aget_state(here)
    if (state.metadata or {}).get("run_id") != run_id:
        return config, await _again(graph, config, await first_input(graph, config, kwargs))
    return here, NOTHING if await _is_at_breakpoint(graph, state, kwargs) else None


async def _is_at_breakpoint(graph: Graph, state: StateSnapshot, kwargs: RunKwargs) -> bool:
    """Tell whether a run stops where it is, before a node or after one: going on would pass that by."""
    before = kwargs.interrupt_before or graph.interrupt_before_nodes
    after = kwargs.interrupt_after or graph.interrupt_after_nodes
    if not state.next or not (before or after):
        return False
    if _holds(before, state.next):
        return True
    if not after or state.parent_config is None:
        return False
    done = await graph.aget_state(state.parent_config)
    return _holds(after, [task.name for task in done.tasks])


def _holds(nodes: Any, names: Iterable[str]) -> bool:
    return nodes == "*" or any(name in nodes for name in names)


async def _again(graph: Graph, config: RunnableConfig, given: Any) -> Any:
    """Return what a graph is given that may have got it before, and has finished no step since.

    What a command changes is left out if it has been noted, and so are answers that questions have taken;
    None, which goes on, if that is all.
    """
    if not isinstance(given, Command):
        return given
    state = await graph.aget_state(config, subgraphs=True)
    if await _is_noted(graph, state, given):
        given = Command(resume=given.resume)
    if isinstance(given.resume, dict) and _names_questions(given.resume):
        left = await _left(graph, state, given.resume)
        given = Command(update=given.update, goto=given.goto, resume=left)
    return None if given == Command() else given


def goto_of(goto: Any) -> Any:
    """Return where a command goes: names of nodes, and objects of a ``node`` and its ``input``."""
    if isinstance(goto, dict):
        return Send(goto["node"], goto.get("input"))
    if isinstance(goto, list | tuple):
        return [goto_of(each) for each in goto]
    return goto or ()


def _names_questions(resume: Any) -> bool:
    """Tell whether answers come by the ids of their questions, as LangGraph tells it."""
    return isinstance(resume, dict) and all(_INTERRUPT_ID.fullmatch(str(key)) for key in resume)


async def _is_noted(graph: Graph, state: StateSnapshot, command: Command[Any]) -> bool:
    """Tell whether what a command changes, which is noted all at once, waits with the thread's checkpoint."""
    noted = {
        channel
        for task_id, channel, _ in await _writes(graph, state)
        if task_id == _NO_TASK and channel != _RESUME
    }
    changed = command.update if isinstance(command.update, dict) else {}
    return bool(noted) and noted.issuperset(changed)


async def _left(graph: Graph, state: StateSnapshot, answers: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answers whose questions wait and have not taken them; None if there are none."""
    left: dict[str, Any] = {}
    for leaf in _leaves(state):
        taken = {
            task_id: value for task_id, channel, value in await _writes(graph, leaf) if channel == _RESUME
        }
        for task in leaf.tasks:
            had = taken.get(task.id, [])
            last = had[-1:] if isinstance(had, list) else [had]
            left |= {
                question.id: answers[question.id]
                for question in task.interrupts
                if question.id in answers and answers[question.id] not in last
            }
    return left or None


async def _writes(graph: Graph, state: StateSnapshot) -> list[PendingWrite]:
    """Return what waits with a checkpoint to become part of the next."""
    assert isinstance(graph.checkpointer, BaseCheckpointSaver)
    saved = await graph.checkpointer.aget_tuple(state.config)
    return (saved and saved.pending_writes) or []


def _leaves(state: StateSnapshot) -> Iterator[StateSnapshot]:
    """Yield a graph's state and its subgraphs', each with those of its tasks that are no subgraph's."""
    for task in state.tasks:
        if isinstance(task.state, StateSnapshot):
            yield from _leaves(task.state)
    yield state._replace(
        tasks=tuple(task for task in state.tasks if not isinstance(task.state, StateSnapshot))
    )
