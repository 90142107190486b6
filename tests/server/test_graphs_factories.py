"""Everything that may be served as a graph, how what makes one is called, and with which storage it runs."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.runtime import ServerRuntime
from pydantic import BaseModel

from stateroom.engine.graphs import Access, Graph, Graphs
from stateroom.errors import InvalidInput, Misconfigured
from tests.server.graph_projects import graphs_of

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t", "who": "ada"}, "tags": ["x"]}
ACCESSES: tuple[Access, ...] = ("threads.create_run", "threads.update", "threads.read", "assistants.read")


class S(TypedDict, total=False):
    """What the graphs here work on."""

    x: int


def builder() -> StateGraph[Any, Any, Any, Any]:
    """Return a graph that puts what it is given into the store as well."""

    async def put(state: S, store: BaseStore) -> S:
        await store.aput(("m",), "k", {"x": state.get("x")})
        return {"x": state.get("x", 0) + 1}

    return StateGraph(S).add_node("put", put).add_edge(START, "put")


GRAPH = builder().compile()
EVENTS: list[str] = []
GIVEN: list[Any] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    """Begin with nothing noted."""
    EVENTS.clear()
    GIVEN.clear()


@entrypoint()
async def workflow(x: int, *, store: BaseStore) -> int:
    """Do what the graph does."""
    await store.aput(("m",), "k", {"x": x})
    return x + 1


def sync_factory() -> Graph:
    return GRAPH


async def async_factory() -> Graph:
    return GRAPH


def builder_factory() -> StateGraph[Any, Any, Any, Any]:
    return builder()


@contextlib.contextmanager
def sync_manager() -> Iterator[Graph]:
    EVENTS.append("opened")
    try:
        yield GRAPH
    finally:
        EVENTS.append("closed")


@contextlib.asynccontextmanager
async def async_manager() -> AsyncIterator[Graph]:
    EVENTS.append("opened")
    try:
        yield GRAPH
    finally:
        EVENTS.append("closed")


async def later_manager() -> contextlib.AbstractAsyncContextManager[Graph]:
    return async_manager()


class SyncManager:
    """A context manager that is called for each use."""

    def __enter__(self) -> StateGraph[Any, Any, Any, Any]:
        EVENTS.append("opened")
        return builder()

    def __exit__(self, *error: object) -> None:
        EVENTS.append("closed")


class AsyncManager:
    """An async context manager that is called for each use."""

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config

    async def __aenter__(self) -> Graph:
        EVENTS.append("opened")
        return GRAPH

    async def __aexit__(self, *error: object) -> None:
        EVENTS.append("closed")


class Maker:
    """An object that is called for each use."""

    def __call__(self, config: RunnableConfig) -> Graph:
        GIVEN.append(config)
        return GRAPH


PLAIN = [GRAPH, builder(), workflow, sync_factory, async_factory, builder_factory, lambda: GRAPH, Maker()]
MANAGED = [sync_manager, async_manager, later_manager, SyncManager, AsyncManager]


@pytest.mark.parametrize("source", [*PLAIN, *MANAGED], ids=lambda each: getattr(each, "__name__", type(each)))
@pytest.mark.parametrize("access", ACCESSES)
async def test_a41_every_kind_of_graph_runs_with_our_storage(source: Any, access: Access) -> None:
    saver, store = InMemorySaver(), InMemoryStore()
    graphs = graphs_of(Path(), {"g": source}, checkpointer=saver, store=store)
    graphs.load()
    assert EVENTS == []
    for round_number in (1, 2):
        async with graphs.open("g", config=CONFIG, access=access) as graph:
            assert isinstance(graph, Pregel)
            assert (graph.checkpointer, graph.store) == (saver, store)
            asked: Any = 5 if source is workflow else {"x": 5}
            assert await graph.ainvoke(asked, CONFIG) == (6 if source is workflow else {"x": 6})
        assert (["opened", "closed"] * round_number if source in MANAGED else []) == EVENTS
    item = store.get(("m",), "k")
    assert item is not None
    assert item.value == {"x": 5}
    assert saver.get_tuple(CONFIG) is not None


def test_what_is_held_in_code_is_left_as_it_is() -> None:
    assert (GRAPH.checkpointer, GRAPH.store, workflow.checkpointer, workflow.store) == (None,) * 4


@dataclass
class Ctx:
    """A context as a dataclass."""

    endpoint: str = ""


class Model(BaseModel):
    """A context as a model."""

    endpoint: str


class Typed(TypedDict):
    """A context as a typed dict."""

    endpoint: str


def both(config: RunnableConfig, runtime: ServerRuntime[Ctx]) -> Graph:
    GIVEN.extend([config, runtime])
    return GRAPH


def swapped(server: ServerRuntime[Model], cfg: RunnableConfig | None = None) -> Graph:
    GIVEN.extend([cfg, server])
    return GRAPH


def positional(runtime: ServerRuntime[Typed], config: RunnableConfig, /, *, size: int = 5) -> Graph:
    assert size == 5
    GIVEN.extend([config, runtime])
    return GRAPH


def untyped(runtime, config):  # type: ignore[no-untyped-def]
    GIVEN.extend([config, runtime])
    return GRAPH


def unresolved(r: ServerRuntime[OnlyForTypeCheckers], c: RunnableConfig) -> Graph:  # type: ignore[name-defined]  # noqa: F821
    GIVEN.extend([c, r])
    return GRAPH


class Class:
    """A manager that is made with both."""

    def __init__(self, config: RunnableConfig, runtime: ServerRuntime[Any]) -> None:
        both(config, runtime)

    def __enter__(self) -> Graph:
        return GRAPH

    def __exit__(self, *error: object) -> None:
        pass


@functools.wraps(both)
def wrapped(*args: Any, **options: Any) -> Graph:
    return both(*args, **options)


def partly(size: int, config: RunnableConfig, runtime: ServerRuntime[Any]) -> Graph:
    assert size == 7
    return both(config, runtime)


PARTIAL = functools.partial(partly, 7)
FILLED = [both, swapped, positional, untyped, unresolved, Class, wrapped, PARTIAL]


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("make", FILLED, ids=lambda each: getattr(each, "__name__", type(each)))
async def test_a_factory_is_told_what_it_asks_for(make: Callable[..., Any], access: Access) -> None:
    ours, scoped = InMemoryStore(), InMemoryStore()
    graphs = graphs_of(Path(), {"g": make}, store=ours)
    user, context = {"identity": "ada", "permissions": ["p"], "team": 3}, {"endpoint": "there"}
    options: dict[str, Any] = {"access": access, "user": user, "context": context, "store": scoped}
    async with graphs.open("g", config=CONFIG, **options) as graph:
        assert graph.store is scoped
    config, runtime = GIVEN
    assert config == CONFIG
    config["configurable"]["who"] = "somebody else"
    assert CONFIG["configurable"]["who"] == "ada"
    assert (runtime.access_context, runtime.store) == (access, scoped)
    caller = runtime.ensure_user()
    assert (caller.identity, caller.permissions, caller["team"], caller.is_authenticated) == (
        *("ada", ["p"], 3),
        True,
    )
    execution = runtime.execution_runtime
    if access != "threads.create_run":
        assert execution is None
    else:
        types: dict[Any, Any] = {both: Ctx, swapped: Model, wrapped: Ctx}
        assert execution.context == (types[make](**context) if make in types else context)


async def test_a_factory_without_a_config_a_user_or_a_context_gets_none() -> None:
    graphs = graphs_of(Path(), {"g": both})
    async with graphs.open("g", access="threads.create_run"):
        config, runtime = GIVEN
    assert config == {"configurable": {}}
    assert runtime.execution_runtime.context is None
    with pytest.raises(PermissionError):
        runtime.ensure_user()


async def test_a_factory_with_one_parameter_gets_the_config_whatever_its_name() -> None:
    def make(settings: dict[str, Any]) -> Graph:
        GIVEN.append(settings)
        return GRAPH

    async with graphs_of(Path(), {"g": make}).open("g", config=CONFIG):
        assert GIVEN == [CONFIG]


async def test_a_user_that_is_an_object_is_passed_on() -> None:
    user = object()
    async with graphs_of(Path(), {"g": both}).open("g", user=user):
        assert GIVEN[1].user is user


# ---- refusals


def needing(config: RunnableConfig, model: str, size: int) -> Graph:
    GIVEN.extend([config, model, size])
    return GRAPH


def generator() -> Iterator[Graph]:
    yield GRAPH


async def async_generator() -> AsyncIterator[Graph]:
    yield GRAPH


def uncompilable() -> StateGraph[Any, Any, Any, Any]:
    return StateGraph(S).add_edge(START, "nowhere")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (5, "is 5; make it a compiled graph, a StateGraph, or a function"),
        (RunnableLambda(lambda x: x), r"is RunnableLambda.*; make it a compiled graph"),
        (needing, "needs model, size; a factory takes nothing, config, runtime, or both$"),
        (generator, r"is a generator; decorate it with contextlib\.asynccontextmanager"),
        (async_generator, r"is a generator; decorate it with contextlib\.asynccontextmanager"),
        (sync_manager(), "can be entered but once; name the function or class"),
        (async_manager(), "can be entered but once; name the function or class"),
        (uncompilable(), "does not compile: ValueError: .*nowhere"),
    ],
    ids=lambda each: "" if isinstance(each, str) else type(each).__name__,
)
def test_what_is_no_graph_is_refused_when_it_is_loaded(source: Any, message: str) -> None:
    with pytest.raises(Misconfigured, match=message) as caught:
        graphs_of(Path(), {"g": source}).load()
    assert caught.value.field == "graphs.g"
    assert str(caught.value).startswith("graphs.g ")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: 5, "gives 5; make it a compiled graph"),
        (lambda: lambda: GRAPH, "gives <function.*; make it"),
        (uncompilable, "does not compile: ValueError"),
    ],
)
async def test_what_makes_no_graph_is_refused_when_it_is_opened(source: Any, message: str) -> None:
    graphs = graphs_of(Path(), {"g": source})
    with pytest.raises(Misconfigured, match=message) as caught:
        async with graphs.open("g"):
            pass
    assert caught.value.field == "graphs.g"


async def test_what_a_factory_raises_is_raised_as_it_is() -> None:
    def make() -> Graph:
        raise InvalidInput("no such model", field="model")

    with pytest.raises(InvalidInput, match="no such model"):
        async with graphs_of(Path(), {"g": make}).open("g"):
            pass


@contextlib.contextmanager
def swallowing() -> Iterator[Graph]:
    try:
        yield GRAPH
    except RuntimeError:
        EVENTS.append("seen")


@pytest.mark.parametrize("manager", [swallowing, sync_manager, async_manager])
async def test_a_manager_sees_what_goes_wrong_but_cannot_hide_it(manager: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="the run failed"):
        async with graphs_of(Path(), {"g": manager}).open("g"):
            raise RuntimeError("the run failed")
    assert (["seen"] if manager is swallowing else ["opened", "closed"]) == EVENTS


# ---- A graph's own storage


def own(kind: str, checkpointer: Any, store: BaseStore | None) -> Any:
    """Return a graph that was compiled with storage of its own, in one of the forms."""
    if kind == "entrypoint":
        decorate = cast(Any, entrypoint(checkpointer=checkpointer, store=store))
        return decorate(workflow_body)
    graph = builder().compile(checkpointer=checkpointer, store=store)
    return graph if kind == "graph" else lambda: graph


async def workflow_body(x: int) -> int:
    return x


KINDS = ["graph", "factory", "entrypoint"]


async def opened(graphs: Graphs) -> tuple[Any, Any]:
    """Return the storage that a graph is served with."""
    async with graphs.open("g") as graph:
        return graph.checkpointer, graph.store


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("brings", "named"),
    [
        ("both", r"checkpointer \(InMemorySaver\) and store \(InMemoryStore\); it"),
        ("checkpointer", r"checkpointer \(InMemorySaver\); it"),
        ("store", r"store \(InMemoryStore\); it"),
    ],
)
async def test_a05_a_graphs_own_storage_gives_way_to_ours_and_a_warning_says_so_once(
    kind: str, brings: str, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = (
        InMemorySaver() if brings != "store" else None,
        InMemoryStore() if brings != "checkpointer" else None,
    )
    ours = InMemorySaver(), InMemoryStore()
    graphs = graphs_of(Path(), {"g": own(kind, *theirs)}, checkpointer=ours[0], store=ours[1])
    graphs.load()
    assert [await opened(graphs) for _ in range(3)] == [ours] * 3
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert re.search(rf"graph 'g' was compiled with its own {named}", record.getMessage())
    assert '"stateroom": {"keep_graph_storage": true}' in record.getMessage()


@pytest.mark.parametrize("kind", KINDS)
async def test_a05_a_graph_keeps_its_own_storage_if_told_so(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, ours = (InMemorySaver(), InMemoryStore()), (InMemorySaver(), InMemoryStore())
    for brought in [theirs, (theirs[0], None), (None, theirs[1])]:
        graphs = graphs_of(
            Path(), {"g": own(kind, *brought)}, checkpointer=ours[0], store=ours[1], keep_storage=True
        )
        assert await opened(graphs) == (brought[0] or ours[0], brought[1] or ours[1])
    assert caplog.records == []


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("said", [True, False, None])
async def test_a05_a_graph_that_only_says_whether_it_is_kept_gets_ours(
    said: bool | None, keep: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ours = InMemorySaver(), InMemoryStore()
    source = builder().compile(checkpointer=said)
    graphs = graphs_of(Path(), {"g": source}, checkpointer=ours[0], store=ours[1], keep_storage=keep)
    assert await opened(graphs) == ours
    assert caplog.records == []


async def test_a_served_graph_is_all_that_it_was() -> None:
    """Such as the mappers of a state that is a model, which LangGraph's own copies lose."""

    class State(BaseModel):
        x: int = 0

    graph = StateGraph(State).add_node("n", lambda state: {"x": state.x + 1}).add_edge(START, "n").compile()
    async with graphs_of(Path(), {"g": graph.with_config(tags=["t"])}).open("g") as served:
        assert served.config is not None
        assert served.config["tags"] == ["t"]
    async with graphs_of(Path(), {"g": graph}).open("g") as served:
        parts = [part async for part in served.astream({"x": 1}, CONFIG, stream_mode="values", version="v2")]
    assert [part["data"] for part in parts] == [State(x=1), State(x=2)]
