"""What is asked of the graph that is running, and what is said where none is."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import TypedDict

from stateroom import InMemoryStore
from stateroom.errors import InvalidNamespace, LimitExceeded, Misconfigured, OutsideGraph
from stateroom.files import FilesState, StoreBackend
from stateroom.files.running import config_of, namespace_of, store_of

TENANT = ("tenant", "filesystem")


class Context(TypedDict):
    """Whom a graph of these tests is run for."""

    user: str


def made_so(namespace: Any) -> Callable[[Any], Any]:
    return lambda _: namespace


def within(function: Callable[[], Any], config: Any = None, *, store: Any = None, context: Any = None) -> Any:
    """Return what a function answers in the node of a graph."""
    answers = []

    def node(state: FilesState) -> dict[str, Any]:  # noqa: ARG001  # the graph passes it
        answers.append(function())
        return {}

    graph: Any = StateGraph(FilesState, context_schema=Context)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.compile(store=store).invoke({"files": {}}, config, context=context)
    return answers[0]


def test_the_default_namespace_is_the_assistants_or_everybodys() -> None:
    assert namespace_of(None, None) == ("filesystem",)
    assert within(lambda: namespace_of(None, None)) == ("filesystem",)
    for part in ("configurable", "metadata"):
        config = {part: {"assistant_id": "tenant"}}
        assert within(lambda: namespace_of(None, None), config) == TENANT
        assert namespace_of(None, config) == TENANT
        assert namespace_of(None, SimpleNamespace(config=config)) == TENANT
    both = {"configurable": {"assistant_id": "one"}, "metadata": {"assistant_id": "two"}}
    assert namespace_of(None, both) == ("one", "filesystem")
    nothings: list[dict[str, Any]] = [
        {},
        {"configurable": None},
        {"metadata": {}},
        {"configurable": {"assistant_id": ""}},
    ]
    for nothing in nothings:
        assert namespace_of(None, nothing) == ("filesystem",)


def test_a_server_says_which_assistant_it_serves() -> None:
    runtime: Any = SimpleNamespace(server_info=SimpleNamespace(assistant_id="tenant"))
    assert namespace_of(None, runtime) == TENANT
    runtime.config = {"configurable": {"assistant_id": "other"}}
    assert namespace_of(None, runtime) == TENANT
    runtime.server_info = None
    assert namespace_of(None, runtime) == ("other", "filesystem")


def test_a_namespace_may_be_made_of_the_runtime() -> None:
    def namespace(runtime: Runtime[Any]) -> tuple[str, ...]:
        return (runtime.context["user"], "filesystem")

    assert within(lambda: namespace_of(namespace, None), context={"user": "ana"}) == ("ana", "filesystem")
    assert namespace_of(lambda _: ("fixed",), None) == ("fixed",)
    with pytest.raises(OutsideGraph, match="namespace") as caught:
        namespace_of(namespace, None)
    assert caught.value.field == "namespace"
    assert isinstance(caught.value, RuntimeError)


def test_a_mistake_in_what_makes_the_namespace_is_the_makers() -> None:
    users: dict[str, str] = {}

    def wrong(runtime: Any) -> tuple[str, ...]:
        return (runtime.contekst,)

    with pytest.raises(AttributeError, match="contekst"):
        within(lambda: namespace_of(wrong, None))
    with pytest.raises(KeyError):
        namespace_of(lambda _: (users["user"],), None)


@pytest.mark.parametrize(
    "label", ["alice@example.com", "a.b", "langgraph", "Ünï 😀", "a b", "a/b", "~", "a:b", "%"]
)
def test_a_label_may_hold_almost_anything(label: str) -> None:
    for source in ((label, "filesystem"), [label, "filesystem"], lambda _: (label, "filesystem")):
        backend = StoreBackend(store=InMemoryStore(), namespace=source)
        assert backend.write("/a.md", "one").error is None
        assert [entry["path"] for entry in backend.ls("/").entries or []] == ["/a.md"]


@pytest.mark.parametrize(
    "namespace",
    [(), ("",), ("a", ""), ("a\0",), ("\ud800",), (5,), ("a", None), ("*",), ("a", "b*"), ("{a}",)],
)
def test_what_is_no_namespace_is_refused(namespace: Any) -> None:
    with pytest.raises(InvalidNamespace):
        namespace_of(namespace, None)
    backend = StoreBackend(store=InMemoryStore(), namespace=lambda _: namespace)
    with pytest.raises(InvalidNamespace):
        backend.ls("/")
    with pytest.raises(InvalidNamespace):
        backend.write("/a.md", "x")


def test_what_is_no_tuple_is_refused() -> None:
    for namespace in ("ana", 5, {"a"}, b"ana"):
        with pytest.raises((Misconfigured, InvalidNamespace)):
            namespace_of(namespace, None)  # type: ignore[arg-type]  # what is refused
        with pytest.raises((Misconfigured, InvalidNamespace)):
            StoreBackend(store=InMemoryStore(), namespace=made_so(namespace)).ls("/")
    with pytest.raises(LimitExceeded):
        namespace_of(("a" * 5_000,), None)


def test_the_store_is_the_graphs_or_the_runtimes() -> None:
    for store in (InMemoryStore(), LangGraphInMemoryStore()):
        assert within(lambda: store_of(None), store=store) is store
        assert store_of(SimpleNamespace(store=store)) is store
        assert within(lambda: store_of(SimpleNamespace(store=None)), store=store) is store
    for outside in (lambda: store_of(None), lambda: within(lambda: store_of(None))):
        with pytest.raises(OutsideGraph, match=r"store=my_store") as caught:
            outside()
        assert caught.value.field == "store"


def test_a_backend_without_a_store_uses_the_graphs() -> None:
    store = InMemoryStore()
    backend = StoreBackend()
    config = {"configurable": {"assistant_id": "tenant"}}
    assert within(lambda: backend.write("/a.md", "one").error, config, store=store) is None
    item = store.get(TENANT, "/a.md")
    assert item is not None
    assert item.value["content"] == ["one"]
    assert within(lambda: backend.is_conditional, store=LangGraphInMemoryStore()) is False
    with pytest.raises(OutsideGraph):
        backend.read("/a.md")


def test_the_configuration_is_the_graphs_or_what_was_given() -> None:
    given = {"configurable": {"thread_id": "1"}}
    assert config_of(given) is given
    assert config_of(SimpleNamespace(config=given)) is given
    assert config_of(None) == {}
    assert within(lambda: config_of(None)["configurable"]["x"], {"configurable": {"x": 1}}) == 1
