"""Backends that a function makes for each operation."""

from __future__ import annotations

from typing import Any

import pytest
from deepagents.backends import StoreBackend as TheirStoreBackend
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore

from stateroom import InMemoryStore
from stateroom.errors import Misconfigured, NotSupported, OutsideGraph
from stateroom.files import Backend, StateBackend, StoreBackend
from stateroom.files.backend import OPERATIONS
from stateroom.files.factory import FactoryBackend, RunningConfig
from stateroom.files.protocol import BackendProtocol
from tests.files.test_running import within


def test_every_operation_of_a_backend_is_passed_on() -> None:
    methods = {name for name in vars(Backend) if not name.startswith("_")}
    assert methods == {*OPERATIONS, *(f"a{name}" for name in OPERATIONS)}
    for name in methods:
        assert getattr(FactoryBackend, name) is not getattr(BackendProtocol, name, None), name
        assert getattr(FactoryBackend, name).__doc__ == getattr(Backend, name).__doc__


def test_the_factory_is_asked_anew_each_time_with_the_configuration() -> None:
    store, asked = InMemoryStore(), []

    def factory(config: Any) -> StoreBackend:
        asked.append(config)
        return StoreBackend(config, store=store)

    backend = FactoryBackend(factory)
    for assistant in ("one", "two"):
        config = {"configurable": {"assistant_id": assistant}}
        assert within(lambda: backend.write("/a.md", "x").error, config) is None
    assert store.list_namespaces() == [("one", "filesystem"), ("two", "filesystem")]
    assert len(asked) == 2
    assert isinstance(asked[0], RunningConfig)
    assert asked[0]["configurable"]["assistant_id"] == "one"
    assert asked[0].config is asked[0]


def test_the_configuration_has_what_a_runtime_has() -> None:
    store = InMemoryStore()
    seen: list[Any] = []

    def factory(runtime: Any) -> StoreBackend:
        seen.append((runtime.context, runtime.store))
        return StoreBackend(store=runtime.store, namespace=(runtime.context["user"],))

    backend = FactoryBackend(factory)
    within(lambda: backend.write("/a.md", "x"), store=store, context={"user": "ana"})
    assert seen == [({"user": "ana"}, store)]
    assert store.get(("ana",), "/a.md") is not None


def test_outside_of_a_graph_the_configuration_is_empty() -> None:
    store, asked = InMemoryStore(), []

    def factory(config: Any) -> StoreBackend:
        asked.append(dict(config))
        return StoreBackend(config, store=store)

    assert FactoryBackend(factory).write("/a.md", "x").error is None
    assert asked == [{}]
    assert store.get(("filesystem",), "/a.md") is not None
    with pytest.raises(OutsideGraph):
        FactoryBackend(lambda config: StoreBackend(config)).ls("/")
    with pytest.raises(AttributeError):
        FactoryBackend(lambda config: config.contekst).ls("/")


def test_the_documented_factories_work_in_a_graph() -> None:
    store = InMemoryStore()
    for factory in (lambda config: StoreBackend(config), lambda config: StateBackend(config), StoreBackend):
        backend = FactoryBackend(factory)
        assert within(lambda: backend.write("/a.md", "x").error, store=store) is None  # noqa: B023  # called here


async def test_what_the_backend_lacks_is_not_supported() -> None:
    theirs: Any = TheirStoreBackend(namespace=lambda _: ("a",), store=LangGraphInMemoryStore())
    backend: Any = FactoryBackend(lambda _: theirs)
    assert backend.write("/a.md", "x").error is None
    assert backend.ls("/").entries[0]["path"] == "/a.md"
    for name, arguments in (("search", ["x"]), ("multi_edit", ["/a.md", [("x", "y")]]), ("usage", [])):
        with pytest.raises(NotSupported, match=name):
            getattr(backend, name)(*arguments)
        with pytest.raises(NotSupported, match=f"a{name}"):
            await getattr(backend, f"a{name}")(*arguments)


async def test_async_operations_ask_the_factory_too() -> None:
    backend = FactoryBackend(lambda config: StoreBackend(config, store=InMemoryStore(), namespace=("a",)))
    assert (await backend.awrite("/a.md", "x")).error is None
    assert (await backend.als("/")).entries == []


@pytest.mark.parametrize("factory", [None, 5, "StoreBackend", {}, StoreBackend(store=InMemoryStore())])
def test_what_is_no_factory_is_refused_at_once(factory: Any) -> None:
    with pytest.raises(Misconfigured) as caught:
        FactoryBackend(factory)
    assert caught.value.field == "factory"


@pytest.mark.parametrize("made", [None, 5, InMemoryStore(), StoreBackend, {}])
def test_what_makes_no_backend_is_refused_by_the_operation(made: Any) -> None:
    with pytest.raises(Misconfigured, match="factory returned") as caught:
        FactoryBackend(lambda _: made).ls("/")
    assert caught.value.field == "factory"
