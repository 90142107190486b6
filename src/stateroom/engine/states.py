"""Reading and changing the state of threads: users' graphs, on loops of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.types import Command, StateSnapshot, StateUpdate

from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadChange
from stateroom.engine.graphs import Graphs
from stateroom.engine.inputs import goto_of
from stateroom.engine.loops import Loops
from stateroom.engine.run_config import AuthUser
from stateroom.engine.snapshots import EMPTY, checkpoint_json, exists, mirror_of, state_json
from stateroom.errors import InvalidInput, NotFound, StateroomError, ThreadBusy
from stateroom.model.text import show
from stateroom.model.thread import Thread, ThreadStatus
from stateroom.offload import Offload
from stateroom.savers.attempts import Resting, bound

__all__ = ["States", "Superstep"]

T = TypeVar("T")

Graph = Pregel[Any, Any, Any, Any]

_SPECIAL_NODES: Final = frozenset({"__input__", "__end__", "__copy__"})
"""What LangGraph takes for a node when a state is changed, beside a graph's own."""

_NOT_HANDED_ON: Final = ("run_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")
"""Keys of the last run's configurable that say nothing of who reads or changes its thread."""

_log = logging.getLogger(__name__)


class Superstep(NamedTuple):
    """One update of a superstep: ``values`` or a ``command`` with ``update``, ``goto`` and ``resume``."""

    values: Any = None
    command: Mapping[str, Any] | None = None
    as_node: str | None = None


class States:
    """The states of threads, as JSON. ``saver`` is the server's checkpointer.

    A ``checkpoint`` is named by any of ``checkpoint_id``, ``checkpoint_ns`` and ``checkpoint_map``. ``user``
    is the authenticated caller, whom users' code may ask for.
    """

    def __init__(
        self,
        storage: Storage,
        graphs: Graphs,
        loops: Loops,
        offload: Offload,
        *,
        saver: BaseCheckpointSaver[Any],
    ) -> None:
        self._storage = storage
        self._graphs = graphs
        self._loops = loops
        self._offload = offload
        self._saver = saver

    # ---- reading

    async def get(
        self,
        thread: Thread,
        *,
        checkpoint: Mapping[str, Any] | None = None,
        subgraphs: bool = False,
        select: Sequence[str] | None = None,
        user: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return a thread's state, at a checkpoint or as it is now; NotFound for an unknown checkpoint.

        As it is now, the answers of tasks that have ended count, and only open questions are interrupts.
        """
        config = _config(thread, checkpoint, user)

        async def read(graph: Graph) -> dict[str, Any]:
            snapshot = await graph.aget_state(config, subgraphs=subgraphs)
            _check_exists(snapshot, checkpoint)
            return state_json(snapshot, select)

        if await self._is_empty(thread):
            _check_exists(EMPTY, checkpoint)
            return state_json(EMPTY, select)
        return await self._with_graph(thread, config, "threads.read", read)

    async def history(
        self,
        thread: Thread,
        *,
        limit: int = 10,
        before: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        select: Sequence[str] | None = None,
        user: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return a thread's states, the newest first, those before the checkpoint ``before``.

        Of ``checkpoint`` the namespace counts, which says whose states: a subgraph's or the graph's own. The
        newest state is as ``get`` has it; the others are what they were when their step began.
        """
        config = _config(thread, {"checkpoint_ns": (checkpoint or {}).get("checkpoint_ns")}, user)
        until: RunnableConfig | None = {"configurable": {"checkpoint_id": before}} if before else None

        async def read(graph: Graph) -> list[dict[str, Any]]:
            found = graph.aget_state_history(
                config, filter=dict(metadata) if metadata else None, before=until, limit=limit
            )
            states = [each async for each in found]
            if states and until is None:
                now = await graph.aget_state(config)
                states[0] = now if _id_of(now) == _id_of(states[0]) else states[0]
            return [state_json(each, select) for each in states]

        if not limit or await self._is_empty(thread):
            return []
        return await self._with_graph(thread, config, "threads.read", read)

    # ---- changing

    async def update(
        self,
        thread: Thread,
        *,
        values: Any,
        as_node: str | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        user: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Change a thread's state as if a node had answered ``values``; return what names the new checkpoint.

        ``checkpoint`` is where the new one branches off. ThreadBusy while a run executes, InvalidInput for
        what the graph does not take.
        """
        if thread.status is ThreadStatus.BUSY:
            raise _busy(thread.thread_id)
        config = _config(thread, checkpoint, user)

        async def write(graph: Graph) -> dict[str, Any]:
            if (checkpoint or {}).get("checkpoint_id"):
                _check_exists(await graph.aget_state(config), checkpoint)
            updated = await self._writing(
                thread.thread_id, lambda: graph.aupdate_state(config, values, as_node=as_node)
            )
            await self._mirror(graph, thread.thread_id)
            found = checkpoint_json(updated) or {}
            return {
                "checkpoint": found,
                "configurable": found,
                "checkpoint_id": found.get("checkpoint_id"),
            }

        return await self._with_graph(thread, config, "threads.update", write)

    async def check_supersteps(
        self,
        graph_id: str,
        supersteps: Sequence[Sequence[Superstep]],
        *,
        user: Mapping[str, Any] | None = None,
    ) -> None:
        """Raise what can be said about supersteps before there is a thread to apply them to."""
        config: RunnableConfig = {"configurable": {"graph_id": graph_id, **_auth(user)}}

        async def check(graph: Graph) -> None:
            for step, updates in enumerate(supersteps):
                for number, update in enumerate(updates):
                    _check_update(graph, update, f"supersteps[{step}].updates[{number}]", of=len(updates))

        await self._run(graph_id, config, "threads.update", check)

    async def apply(
        self,
        thread: Thread,
        supersteps: Sequence[Sequence[Superstep]],
        *,
        user: Mapping[str, Any] | None = None,
    ) -> None:
        """Apply the steps of another conversation to a thread, one checkpoint after the other."""
        config = _config(thread, None, user)
        steps = [[_state_update(update) for update in updates] for updates in supersteps]

        async def write(graph: Graph) -> None:
            await self._writing(thread.thread_id, lambda: graph.abulk_update_state(config, steps))
            await self._mirror(graph, thread.thread_id)

        await self._with_graph(thread, config, "threads.update", write)

    async def _writing(
        self, thread_id: str, write: Callable[[], Coroutine[Any, Any, RunnableConfig]]
    ) -> RunnableConfig:
        """Have a graph change a thread at rest; whatever it raises is about what it was given."""
        try:
            with bound(Resting(thread_id)):
                return await write()
        except ThreadBusy:
            if await self._offload(self._storage.threads.get, thread_id) is None:
                raise NotFound(f"there is no thread {thread_id!r}", field="thread_id") from None
            raise _busy(thread_id) from None
        except StateroomError:
            raise
        except Exception as error:
            _log.info("thread %s: the graph refuses a change of its state", thread_id, exc_info=True)
            raise InvalidInput(
                f"the graph refuses this change: {type(error).__name__}: {error}", field="values"
            ) from error

    async def _mirror(self, graph: Graph, thread_id: str) -> None:
        """Show a thread's latest state on its row, again if it has changed meanwhile."""
        here: RunnableConfig = {"configurable": {"thread_id": thread_id}}
        shown = None
        while (snapshot := await graph.aget_state(here)) and _id_of(snapshot) != shown:
            shown = _id_of(snapshot)
            seen = mirror_of(snapshot)
            change = ThreadChange(
                values=seen.values, interrupts=seen.interrupts, status=seen.status, error=None
            )
            await self._offload(self._storage.threads.update, thread_id, change)

    # ---- the graph of a thread

    async def _is_empty(self, thread: Thread) -> bool:
        """Tell whether nothing was ever done on a thread, so that no graph needs to be known."""
        if thread.metadata.get("graph_id"):
            return False
        here: RunnableConfig = {"configurable": {"thread_id": thread.thread_id}}
        return await self._loops.run(lambda: self._saver.aget_tuple(here)) is None

    async def _with_graph(
        self,
        thread: Thread,
        config: RunnableConfig,
        access: str,
        work: Callable[[Graph], Coroutine[Any, Any, T]],
    ) -> T:
        graph_id = thread.metadata.get("graph_id") or await self._offload(self._graph_run_on, thread)
        if not graph_id or not isinstance(graph_id, str):
            raise InvalidInput(
                f"thread {thread.thread_id!r} names no graph whose state it has; set graph_id in its "
                "metadata, or run an assistant on it",
                field="metadata.graph_id",
            )
        return await self._run(graph_id, config, access, work)

    def _graph_run_on(self, thread: Thread) -> str | None:
        """Return the graph of a thread whose first run goes on, or was cut short: its end would note it."""
        for run in self._storage.runs.search(RunQuery(thread.thread_id)).rows:
            if run.started_at is not None:
                assistant = self._storage.assistants.version(run.assistant_id, run.assistant_version)
                return None if assistant is None else assistant.graph_id
        return None

    async def _run(
        self,
        graph_id: str,
        config: RunnableConfig,
        access: str,
        work: Callable[[Graph], Coroutine[Any, Any, T]],
    ) -> T:
        """Do something with a graph, where users' code may run."""
        user = config["configurable"].get("langgraph_auth_user")

        async def opened() -> T:
            async with self._graphs.open(graph_id, config=config, access=access, user=user) as graph:  # type: ignore[arg-type]  # one of those it names
                return await work(graph)

        return await self._loops.run(opened)


def _config(
    thread: Thread, checkpoint: Mapping[str, Any] | None, user: Mapping[str, Any] | None
) -> RunnableConfig:
    """Return the config that names a thread's state, with what its last run was configured with."""
    former = thread.config.get("configurable") or {}
    named = dict(checkpoint or {})
    if not named.get("checkpoint_id") and (within := named.get("checkpoint_map")):
        named["checkpoint_id"] = within.get(named.get("checkpoint_ns") or "")
    return {
        "configurable": {
            **{key: value for key, value in former.items() if key not in _NOT_HANDED_ON},
            "thread_id": thread.thread_id,
            **{key: value for key, value in named.items() if value},
            **_auth(user),
        }
    }


def _auth(user: Mapping[str, Any] | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {
        "langgraph_auth_user": AuthUser(user),
        "langgraph_auth_user_id": user.get("identity"),
        "langgraph_auth_permissions": list(user.get("permissions") or ()),
    }


def _check_exists(snapshot: StateSnapshot, checkpoint: Mapping[str, Any] | None) -> None:
    wanted = (checkpoint or {}).get("checkpoint_id")
    if wanted and not exists(snapshot):
        raise NotFound(f"the thread has no checkpoint {show(wanted)}", field="checkpoint_id")


def _id_of(snapshot: StateSnapshot) -> str | None:
    return (checkpoint_json(snapshot.config) or {}).get("checkpoint_id")


def _check_update(graph: Graph, update: Superstep, field: str, *, of: int) -> None:
    if update.values is not None and update.command is not None:
        raise InvalidInput(f"{field} has values and a command; pass one of them", field=field)
    if update.as_node is None:
        if of > 1:
            raise InvalidInput(f"{field}.as_node is missing; say which node did it", field=f"{field}.as_node")
    elif update.as_node not in graph.nodes and update.as_node not in _SPECIAL_NODES:
        raise InvalidInput(
            f"{field}.as_node is {show(update.as_node)}; the graph's nodes are {', '.join(graph.nodes)}",
            field=f"{field}.as_node",
        )


def _state_update(update: Superstep) -> StateUpdate:
    values = update.values
    if (command := update.command) is not None:
        values = Command(
            update=command.get("update"), resume=command.get("resume"), goto=goto_of(command.get("goto"))
        )
    return StateUpdate(values, update.as_node)


def _busy(thread_id: str) -> ThreadBusy:
    return ThreadBusy(
        f"thread {thread_id!r} has a run that executes; wait for its end, or cancel it", field="thread_id"
    )
