"""Assistants through LangGraph's own client: graphs' own, and those that callers make, with all versions."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError

from stateroom.api.routes import assistants as routes
from stateroom.service.assistants import graph_assistant_id
from tests.server.conftest import GRAPHS, Running, StartServer

GRAPH = "echo"


@pytest.fixture
def mark() -> str:
    """Return what no other test's assistants have in their metadata."""
    return uuid4().hex


async def make(client: LangGraphClient, **fields: Any) -> Any:
    """Make an assistant of the graph."""
    return await client.assistants.create(GRAPH, **fields)


async def test_each_graph_has_an_assistant_with_the_id_that_langgraph_gives_it(
    client: LangGraphClient, running: Running
) -> None:
    # As LangGraph's documents show it for the graph `agent`.
    assert graph_assistant_id("agent") == "fe096781-5601-53d2-b2f6-0d3403f7e9ca"
    for graph_id in running.server.parts.graphs.ids:
        own = await client.assistants.get(graph_assistant_id(graph_id))
        assert own == await client.assistants.get(graph_id)
        assert (own["graph_id"], own["name"], own["version"]) == (graph_id, graph_id, 1)
        assert own["metadata"] == {"created_by": "system"}


async def test_an_assistant_has_all_fields_that_the_client_declares(client: LangGraphClient) -> None:
    made = await make(client, config={"tags": ["t"]}, context={"c": 1}, metadata={"m": None}, description="d")
    assert set(made) == {
        *("assistant_id", "graph_id", "config", "context", "metadata", "name", "description"),
        *("created_at", "updated_at", "version"),
    }
    assert str(UUID(made["assistant_id"])) == made["assistant_id"]
    assert (made["name"], made["version"], made["description"]) == ("Untitled", 1, "d")
    assert (made["config"], made["context"], made["metadata"]) == ({"tags": ["t"]}, {"c": 1}, {"m": None})
    assert made["created_at"] == made["updated_at"]
    assert made["created_at"].endswith("+00:00")


async def test_two_assistants_may_be_alike(client: LangGraphClient) -> None:
    first, second = [await make(client, context={"same": 1}) for _ in "ab"]
    assert first["assistant_id"] != second["assistant_id"]


async def test_a_taken_id_is_a_conflict_or_answers_what_is_there(client: LangGraphClient) -> None:
    identity = f"mine-{uuid4().hex}"
    made = await make(client, assistant_id=identity, name="first")
    with pytest.raises(ConflictError, match="exists already"):
        await make(client, assistant_id=identity, name="second")
    assert await make(client, assistant_id=identity, if_exists="do_nothing", name="second") == made
    # A graph's id names its own assistant.
    with pytest.raises(ConflictError):
        await make(client, assistant_id=GRAPH)


async def test_of_many_who_make_one_id_at_once_one_does(client: LangGraphClient) -> None:
    identity = str(uuid4())
    options: Any = ["raise", "do_nothing"] * 10
    made = await asyncio.gather(
        *(make(client, assistant_id=identity, if_exists=each, name=str(n)) for n, each in enumerate(options)),
        return_exceptions=True,
    )
    stored = await client.assistants.get(identity)
    answered = [each for each in made if isinstance(each, dict)]
    assert all(each == stored for each in answered)
    assert len(answered) in (10, 11)
    assert {type(each) for each in made} == {dict, ConflictError}


async def test_an_unknown_graph_is_named_with_those_there_are(client: LangGraphClient) -> None:
    with pytest.raises(NotFoundError, match=r"no graph 'nope'; the graphs are .*\becho\b"):
        await client.assistants.create("nope")
    made = await make(client)
    with pytest.raises(NotFoundError, match="nope"):
        await client.assistants.update(made["assistant_id"], graph_id="nope")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"graph_id": GRAPH, "config": {"nope": 1}}, "config.nope"),
        ({"graph_id": GRAPH, "config": {"recursion_limit": 0}}, "config.recursion_limit"),
        ({"graph_id": GRAPH, "config": {"configurable": []}}, "config.configurable"),
        ({"graph_id": GRAPH, "config": []}, "config"),
        ({"graph_id": GRAPH, "context": []}, "context"),
        ({"graph_id": GRAPH, "metadata": "x"}, "metadata"),
        ({"graph_id": GRAPH, "metadata": {"m": "\0"}}, "metadata.m"),
        ({"graph_id": GRAPH, "assistant_id": "a/b"}, "assistant_id"),
        ({"graph_id": GRAPH, "assistant_id": "a" * 256}, "assistant_id"),
        ({"graph_id": GRAPH, "if_exists": "replace"}, "if_exists"),
        ({"graph_id": GRAPH, "unknown": 1}, "unknown"),
        ({}, "graph_id"),
    ],
)
async def test_what_breaks_a_rule_is_refused_by_name(
    http: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    answer = await http.post("/assistants", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["field"] == field


async def test_an_update_is_a_version_and_merges_metadata_alone(client: LangGraphClient) -> None:
    made = await make(client, config={"tags": ["a"]}, context={"x": 1}, metadata={"a": 1, "b": 1}, name="n")
    identity = made["assistant_id"]
    changed = await client.assistants.update(identity, context={"y": 2}, metadata={"b": 2})
    assert changed["version"] == 2
    assert (changed["config"], changed["context"]) == ({"tags": ["a"]}, {"y": 2})
    assert (changed["metadata"], changed["name"]) == ({"a": 1, "b": 2}, "n")
    assert changed["created_at"] == made["created_at"]
    assert changed["updated_at"] > made["updated_at"]
    # Emptied is not left out.
    assert (await client.assistants.update(identity, context={}))["context"] == {}


async def test_a_null_description_is_cleared(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    identity = (await make(client, description="d"))["assistant_id"]
    answer = await http.patch(f"/assistants/{identity}", json={"description": None, "name": None})
    assert (answer.json()["description"], answer.json()["name"]) == (None, "Untitled")


async def test_versions_are_kept_and_any_can_be_made_the_latest(client: LangGraphClient) -> None:
    identity = (await make(client, metadata={"v": 1}))["assistant_id"]
    for version in (2, 3):
        await client.assistants.update(identity, metadata={"v": version})
    versions: Any = await client.assistants.get_versions(identity)
    assert [(each["version"], each["metadata"]["v"]) for each in versions] == [(3, 3), (2, 2), (1, 1)]
    assert [
        each["version"] for each in await client.assistants.get_versions(identity, limit=1, offset=1)
    ] == [2]
    assert [each["version"] for each in await client.assistants.get_versions(identity, {"v": 1})] == [1]

    assert (await client.assistants.set_latest(identity, 1))["metadata"] == {"v": 1}
    assert (await client.assistants.get(identity))["version"] == 1
    # No number comes twice, and the change is one of what counts now.
    changed = await client.assistants.update(identity, metadata={"w": 4})
    assert (changed["version"], changed["metadata"]) == (4, {"v": 1, "w": 4})
    with pytest.raises(NotFoundError, match="no version 9"):
        await client.assistants.set_latest(identity, 9)


async def test_the_latest_version_can_also_be_named_in_the_query(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    identity = (await make(client))["assistant_id"]
    await client.assistants.update(identity, name="two")
    assert (await http.post(f"/assistants/{identity}/latest?version=1")).json()["version"] == 1
    for wrong in ({"version": 0}, {"version": "x"}, {}):
        assert (await http.post(f"/assistants/{identity}/latest", json=wrong)).status_code == 422
    assert (await http.post(f"/assistants/{identity}/latest")).json()["field"] == "version"


async def test_a_search_fits_all_conditions_in_a_total_order(client: LangGraphClient, mark: str) -> None:
    made = [
        await make(client, name=name, metadata={"mark": mark, "deep": {"n": [n, None]}})
        for n, name in enumerate(["Beta", "alpha", "gamma"])
    ]
    ids = [each["assistant_id"] for each in made]

    async def found(**options: Any) -> list[int]:
        page: Any = await client.assistants.search(metadata={"mark": mark}, **options)
        return [ids.index(each["assistant_id"]) for each in page]

    assert await found() == [2, 1, 0]
    assert await found(sort_order="asc") == [0, 1, 2]
    assert await found(sort_by="name", sort_order="asc") == [0, 1, 2]
    # By a part of the name, in whatever case.
    assert await found(name="ALPH") == [1]
    assert await found(name="a", sort_by="name") == [2, 1, 0]
    assert await found(graph_id=GRAPH, limit=1, offset=1) == [1]
    assert await found(graph_id="slow") == []
    for sort_by in ("assistant_id", "graph_id", "name", "created_at", "updated_at"):
        up = await found(sort_by=sort_by, sort_order="asc")
        assert await found(sort_by=sort_by, sort_order="desc") == up[::-1]
    deep = {"mark": mark, "deep": {"n": [1]}}
    assert [each["name"] for each in await client.assistants.search(metadata=deep)] == ["alpha"]
    options: Any
    for options in ({}, {"name": "alp"}, {"graph_id": "slow"}, {"name": "beta", "graph_id": GRAPH}):
        assert await client.assistants.count(metadata={"mark": mark}, **options) == len(
            await found(**options)
        )


async def test_pages_follow_each_other_by_offset_and_by_cursor(
    client: LangGraphClient, http: httpx.AsyncClient, mark: str
) -> None:
    made = [(await make(client, metadata={"mark": mark}))["assistant_id"] for _ in range(5)]
    seen: list[str] = []
    following: str | None = "0"
    while following is not None:
        page = await client.assistants.search(
            metadata={"mark": mark}, limit=2, offset=int(following), response_format="object"
        )
        seen += [each["assistant_id"] for each in page["assistants"]]
        following = page["next"]
    assert seen == made[::-1]

    body: dict[str, Any] = {"metadata": {"mark": mark}, "limit": 3}
    answer = await http.post("/assistants/search", json=body)
    assert answer.headers["x-pagination-total"] == "5"
    assert answer.headers["x-pagination-next"] == "3"
    rest = await http.post("/assistants/search", json=body | {"after": answer.headers["x-pagination-cursor"]})
    assert [each["assistant_id"] for each in (*answer.json(), *rest.json())] == made[::-1]
    assert rest.headers["x-pagination-total"] == "5"
    assert "x-pagination-next" not in rest.headers


async def test_fields_can_be_selected(client: LangGraphClient, http: httpx.AsyncClient, mark: str) -> None:
    await make(client, metadata={"mark": mark}, name="n")
    found = await client.assistants.search(metadata={"mark": mark}, select=["name", "version"])
    assert found == [{"name": "n", "version": 1}]
    assert (await http.post("/assistants/search", json={"select": ["nope"]})).status_code == 422


@pytest.mark.parametrize(
    "body", [{"limit": 1001}, {"limit": -1}, {"offset": -1}, {"sort_by": "foo"}, {"sort_order": "up"}]
)
async def test_what_is_no_page_is_refused(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    answer = await http.post("/assistants/search", json=body)
    assert answer.status_code == 422
    assert answer.json()["field"] == next(iter(body))


async def test_an_assistant_can_be_deleted_and_then_is_nowhere(client: LangGraphClient) -> None:
    identity = (await make(client))["assistant_id"]
    await client.assistants.delete(identity)
    for call in (
        client.assistants.get(identity),
        client.assistants.update(identity, name="x"),
        client.assistants.get_versions(identity),
        client.assistants.set_latest(identity, 1),
        client.assistants.get_graph(identity),
        client.assistants.get_schemas(identity),
        client.assistants.get_subgraphs(identity),
        client.assistants.delete(identity),
    ):
        with pytest.raises(NotFoundError, match=identity):
            await call


async def test_a_graphs_own_assistant_can_be_configured_and_stays(client: LangGraphClient) -> None:
    with pytest.raises(ConflictError, match="own"):
        await client.assistants.delete("custom")
    with pytest.raises(BadRequestError, match="own"):
        await client.assistants.update("custom", graph_id="slow")
    try:
        changed = await client.assistants.update("custom", context={"x": 1})
        assert changed["assistant_id"] == graph_assistant_id("custom")
        assert (changed["version"], changed["context"]) == (2, {"x": 1})
    finally:
        await client.assistants.set_latest("custom", 1)


async def test_threads_go_with_their_assistant_if_asked(client: LangGraphClient, mark: str) -> None:
    identity = (await make(client))["assistant_id"]
    made = [
        (await client.threads.create(metadata={"mark": mark, "assistant_id": owner}))["thread_id"]
        for owner in (identity, identity, "other")
    ]
    kept = (await make(client))["assistant_id"]
    await client.threads.create(metadata={"mark": mark, "assistant_id": kept})
    await client.assistants.delete(kept)
    assert await client.threads.count(metadata={"mark": mark}) == 4
    await client.assistants.delete(identity, delete_threads=True)
    left = await client.threads.search(metadata={"mark": mark})
    assert {each["metadata"]["assistant_id"] for each in left} == {kept, "other"}  # type: ignore[index]
    assert made[2] in {each["thread_id"] for each in left}


async def test_threads_of_many_pages_go_with_their_assistant(
    client: LangGraphClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "AT_ONCE", 2)
    identity = (await make(client))["assistant_id"]
    for _ in range(5):
        await client.threads.create(metadata={"assistant_id": identity})
    await client.assistants.delete(identity, delete_threads=True)
    assert await client.threads.count(metadata={"assistant_id": identity}) == 0


async def test_graphs_can_be_looked_at(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    drawing = await client.assistants.get_graph("subgraph")
    assert {each["id"] for each in drawing["nodes"]} == {"__start__", "before", "inner", "__end__"}
    for xray in (True, 1):
        deep: Any = await client.assistants.get_graph("subgraph", xray=xray)
        assert "inner:ask" in {each["id"] for each in deep["nodes"]}
    assert (await client.assistants.get_graph("subgraph", xray=False)) == drawing
    for wrong in ("-1", "many"):
        answer = await http.get("/assistants/subgraph/graph", params={"xray": wrong})
        assert (answer.status_code, answer.json()["field"]) == (400, "xray")

    schemas = await client.assistants.get_schemas("context")
    assert schemas["graph_id"] == "context"
    assert "name" in schemas["context_schema"]["properties"]  # type: ignore[index]
    assert "messages" in schemas["input_schema"]["properties"]  # type: ignore[index]
    assert set(await client.assistants.get_subgraphs("subgraph")) == {"inner"}
    named = await client.assistants.get_subgraphs("subgraph", "inner", recurse=True)
    assert named["inner"]["state_schema"]
    assert await client.assistants.get_subgraphs("subgraph", "nope") == {}


async def test_a_restarted_server_has_the_same_assistants(kind: str, start_server: StartServer) -> None:
    first = start_server(kind)
    async with httpx.AsyncClient(base_url=first.url) as http:
        made = (await http.post("/assistants", json={"graph_id": GRAPH})).json()
        before = (await http.post("/assistants/search", json={"limit": 100})).json()
    first.close()
    graphs = {"echo": f"{GRAPHS}:echo", "late": f"{GRAPHS}:slow"}
    again = start_server(settings=first.server.settings, graphs=graphs)
    async with httpx.AsyncClient(base_url=again.url) as http:
        after = (await http.post("/assistants/search", json={"limit": 100})).json()
        assert made in after
        assert [each for each in after if each["name"] != "late"] == before
        assert (await http.get("/assistants/late")).json()["version"] == 1
