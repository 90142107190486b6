"""Nobody reaches anybody else's memories: A10, over every route of the store, and inside graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph_sdk import Auth, get_client
from typing_extensions import TypedDict

from stateroom.api.rules import scoped_stores
from stateroom.boot.compose import Server
from stateroom.engine.loops import Loops
from stateroom.errors import Denied, NotSupported
from stateroom.settings import Settings
from stateroom.stores.operations import CountItems
from tests.server.auths import as_user, people, rule
from tests.server.conftest import Running, run_in_thread

NewSettings = Callable[..., Settings]

FOREIGN: list[list[str]] = [["users", "u2", "notes"], ["u2"], ["u2", "u1"], ["u11"], ["*"], ["*", "notes"]]


NAMED: Any = {"namespace": ["bob"]}


class Notes(TypedDict, total=False):
    """What the graph below is told and tells."""

    namespace: list[str]
    found: list[Any]


async def remember(state: Notes, *, store: BaseStore) -> Notes:
    namespace = tuple(state["namespace"])
    await store.aput(namespace, "async", {"by": "async"})
    # Within an async node, so that the loop waits for its own store.
    store.put(namespace, "sync", {"by": "sync"})
    found = [await store.aget(namespace, "async"), store.get(namespace, "sync"), *store.search(())]
    return {"found": [None if one is None else [*one.namespace, one.key] for one in found]}


def remember_here(state: Notes, *, store: BaseStore) -> Notes:
    store.put(tuple(state["namespace"]), "here", {"by": "thread"})
    return {"found": [*state["found"], *map(list, store.list_namespaces())]}


def remembering() -> Any:
    graph = StateGraph(Notes).add_node("remember", remember).add_node("here", remember_here)
    return graph.add_edge(START, "remember").add_edge("remember", "here").add_edge("here", END).compile()


@pytest.fixture(scope="module")
def confined(kind: str, new_settings: NewSettings) -> Iterator[Running]:
    """Return a server that knows its callers, and has no rule at all."""
    running = run_in_thread(Server(new_settings(kind), auth=people()))
    for user in ("u1", "u2"):
        with httpx.Client(base_url=running.url, headers=as_user(user)) as http:
            body = {"namespace": [user, "notes"], "key": "k", "value": {"of": user}}
            assert http.put("/store/items", json=body).status_code == 204
    yield running
    running.close()


@pytest.fixture
def first(confined: Running) -> Iterator[httpx.Client]:
    """Return the first user's client."""
    with httpx.Client(base_url=confined.url, headers=as_user("u1")) as http:
        yield http


@pytest.fixture(autouse=True, scope="module")
def _untouched(confined: Running) -> Iterator[None]:
    """Find, at the end, what is the second user's as it was."""
    yield
    with httpx.Client(base_url=confined.url, headers=as_user("u2")) as http:
        (item,) = http.post("/store/items/search", json={}).json()["items"]
        assert (item["namespace"], item["key"], item["value"]) == (["u2", "notes"], "k", {"of": "u2"})


def refused(answered: httpx.Response) -> bool:
    body = answered.json()
    return answered.status_code == 403 and body["code"] == "denied" and "@auth.on.store" in body["detail"]


@pytest.mark.parametrize("namespace", FOREIGN, ids=str)
def test_items_of_others(first: httpx.Client, namespace: list[str]) -> None:
    body = {"namespace": namespace, "key": "k"}
    queries = [{"namespace": form, "key": "k"} for form in (".".join(namespace), json.dumps(namespace))]
    assert refused(first.put("/store/items", json=body | {"value": {}}))
    assert refused(first.request("DELETE", "/store/items", json=body))
    for query in queries:
        assert refused(first.get("/store/items", params=query))
        assert refused(first.delete("/store/items", params=query))
    for path in ("/store/items/search", "/store/items/count"):
        assert refused(first.post(path, json={"namespace_prefix": namespace}))
    assert refused(first.post("/store/namespaces", json={"prefix": namespace}))


@pytest.mark.parametrize("prefix", [{}, {"namespace_prefix": []}, {"namespace_prefix": ["u1"]}])
def test_search_of_everything_is_of_ones_own(first: httpx.Client, prefix: dict[str, Any]) -> None:
    found = first.post("/store/items/search", json=prefix).json()["items"]
    assert [one["value"] for one in found] == [{"of": "u1"}]
    assert first.post("/store/items/count", json=prefix).json() == 1


@pytest.mark.parametrize("form", [{}, {"prefix": []}, {"prefix": ["u1", "*"]}, {"suffix": ["notes"]}])
def test_list_of_everything_is_of_ones_own(first: httpx.Client, form: dict[str, Any]) -> None:
    assert first.post("/store/namespaces", json=form).json() == {"namespaces": [["u1", "notes"]]}


def test_list_of_others_by_suffix_is_empty(first: httpx.Client) -> None:
    assert first.post("/store/namespaces", json={"suffix": ["u2", "notes"]}).json() == {"namespaces": []}


@pytest.mark.parametrize("namespace", ["", "[]"])
def test_item_without_a_namespace(first: httpx.Client, namespace: str) -> None:
    query = {"namespace": namespace, "key": "k"}
    assert refused(first.get("/store/items", params=query))
    assert refused(first.delete("/store/items", params=query))
    assert refused(first.put("/store/items", json={"namespace": [], "key": "k", "value": {}}))


def test_own_items_are_ones_own(first: httpx.Client) -> None:
    query = {"namespace": "u1.other", "key": "k"}
    body = {"namespace": ["u1", "other"], "key": "k", "value": {"n": 1}}
    assert first.put("/store/items", json=body).status_code == 204
    assert first.get("/store/items", params=query).json()["value"] == {"n": 1}
    assert first.delete("/store/items", params=query).status_code == 204
    assert first.get("/store/items", params=query).json() is None


# ---- With a rule, inside graphs as over HTTP.


def prefixing() -> Auth:
    """Return the rule of LangGraph's documentation: everybody's namespaces begin with his name."""
    auth = people()

    @auth.on.store
    async def own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> None:
        namespace = tuple(value["namespace"] or ())
        if namespace[:1] != (ctx.user.identity,):
            value["namespace"] = (ctx.user.identity, *namespace)

    return auth


@pytest.fixture(scope="module")
def ruled(kind: str, new_settings: NewSettings) -> Iterator[Running]:
    """Return a server whose rule puts everybody's memories below his name."""
    running = run_in_thread(Server(new_settings(kind), auth=prefixing(), graphs={"memory": remembering()}))
    yield running
    running.close()


def test_rule_rewrites_what_is_asked(ruled: Running) -> None:
    with httpx.Client(base_url=ruled.url, headers=as_user("eve")) as http:
        body = {"namespace": ["zed"], "key": "k", "value": {}}
        assert http.put("/store/items", json=body).status_code == 204
        item = http.get("/store/items", params={"namespace": "zed", "key": "k"}).json()
        assert item["namespace"] == ["eve", "zed"]
    with httpx.Client(base_url=ruled.url, headers=as_user("zed")) as http:
        assert http.post("/store/items/search", json={}).json() == {"items": []}


async def test_graph_is_under_the_same_rule(ruled: Running) -> None:
    async with get_client(url=ruled.url, api_key=None, headers=as_user("ann")) as client:
        values: Any = await client.runs.wait(None, "memory", input=NAMED)
    kept = [["ann", "bob", "async"], ["ann", "bob", "sync"]]
    assert values["found"][:2] == kept
    assert sorted(values["found"][2:4]) == kept
    assert values["found"][4:] == [["ann", "bob"]]
    async with get_client(url=ruled.url, api_key=None, headers=as_user("bob")) as client:
        assert (await client.store.search_items([]))["items"] == []


# ---- The store that graphs are given, operation by operation.


@pytest.fixture
def loops() -> Iterator[Loops]:
    """Return loops for handlers."""
    loops = Loops()
    yield loops
    loops.close()


@pytest.fixture
def ann(loops: Loops) -> Iterator[BaseStore]:
    """Return ann's store, over one where bob has something."""
    store = InMemoryStore()
    store.put(("bob", "x"), "k", {"of": "bob"})
    stores = scoped_stores(prefixing(), store, loops)
    assert stores is not None
    yield stores({"identity": "ann"})
    stores.close()


def put_op(*labels: str, value: Any) -> PutOp:
    return PutOp(labels, "k", value)


def test_every_operation_is_asked_for(ann: BaseStore) -> None:
    done = ann.batch(
        [
            put_op("bob", "x", value={"of": "ann"}),
            GetOp(("bob", "x"), "k"),
            SearchOp((), limit=5),
            ListNamespacesOp(),
            ListNamespacesOp((MatchCondition("prefix", ("bob",)), MatchCondition("suffix", ("x",)))),
        ]
    )
    found: Any = ann.batch([GetOp(("bob", "x"), "k"), SearchOp((), limit=5), ListNamespacesOp()])
    assert done[0] is None
    assert (found[0].namespace, found[0].value) == (("ann", "bob", "x"), {"of": "ann"})
    assert [one.namespace for one in found[1]] == [("ann", "bob", "x")]
    assert found[2] == [("ann", "bob", "x")]
    ann.batch([put_op("bob", "x", value=None)])
    assert ann.batch([GetOp(("bob", "x"), "k"), SearchOp(())]) == [None, []]


async def test_sync_call_on_a_loop_that_waits(loops: Loops, ann: BaseStore) -> None:
    async def node() -> Any:
        ann.put(("x",), "k", {"n": 1})
        return ann.get(("x",), "k"), await ann.aget(("x",), "k")

    sync, later = await loops.run(node)
    assert sync.namespace == later.namespace == ("ann", "x")


async def test_further_conditions_only_narrow(ann: BaseStore) -> None:
    await ann.aput(("x", "y"), "k", {})
    found = await ann.abatch(
        [ListNamespacesOp((MatchCondition("prefix", ("ann",)), MatchCondition("prefix", ("bob",))))]
    )
    assert found == [[]]


def test_operation_that_rules_do_not_know(ann: BaseStore) -> None:
    with pytest.raises(NotSupported, match="CountItems"):
        ann.batch([CountItems(())])  # type: ignore[list-item]


async def test_refusal_reaches_the_node_and_nothing_is_done(loops: Loops) -> None:
    auth, store = people(), InMemoryStore()
    auth.on.store(rule(lambda _, value: value["namespace"] != ("secret",)))
    stores = scoped_stores(auth, store, loops)
    assert stores is not None
    scoped = stores({"identity": "ann"})
    with pytest.raises(Denied):
        scoped.batch([put_op("open", value={}), put_op("secret", value={})])
    with pytest.raises(Denied):
        await scoped.aput(("secret",), "k", {})
    assert store.search(()) == []
    stores.close()


def test_without_a_rule_for_the_store_graphs_have_all_of_it(loops: Loops) -> None:
    auth = people()
    auth.on(rule(lambda *_: False))
    assert scoped_stores(auth, InMemoryStore(), loops) is None
    assert scoped_stores(None, InMemoryStore(), loops) is None
