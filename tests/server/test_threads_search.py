"""Threads found: by what they hold, in a total order, page by page, whole or in parts."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError

SORTS: Any = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")


ORDERS: Any = ("asc", "desc")


@pytest.fixture
def mark() -> str:
    """Return what no other test's threads have in their metadata."""
    return uuid4().hex


async def make(client: LangGraphClient, mark: str, **fields: Any) -> str:
    """Make a thread that the mark finds; return its id."""
    metadata = {**fields.pop("metadata", {}), "mark": mark}
    return str((await client.threads.create(metadata=metadata, **fields))["thread_id"])


async def test_a35_metadata_is_compared_as_json_and_pages_show_each_thread_once(
    client: LangGraphClient, http: httpx.AsyncClient, mark: str
) -> None:
    made = await asyncio.gather(
        *(make(client, mark, metadata={"vip": True, "n": i % 5, "p": {"q": None}}) for i in range(50))
    )
    for wanted, fits in (
        ({"vip": True}, 50),
        ({"vip": "true"}, 0),
        ({"vip": 1}, 0),
        ({"vip": "True"}, 0),
        ({"n": 3}, 10),
        ({"n": 3.0}, 10),
        ({"n": "3"}, 0),
        ({"p": {"q": None}}, 50),
        ({"p": {}}, 50),
        ({"p": None}, 0),
        ({"q": None}, 0),
        ({"vip": True, "n": 4, "p": {"q": None}}, 10),
    ):
        asked: Any = {"metadata": {**wanted, "mark": mark}}
        assert len(await client.threads.search(**asked, limit=100)) == fits, wanted
        assert await client.threads.count(**asked) == fits, wanted
    for sort_by in SORTS:
        for sort_order in ORDERS:
            seen: list[str] = []
            for offset in range(0, 56, 7):
                page = await client.threads.search(
                    metadata={"mark": mark},
                    sort_by=sort_by,
                    sort_order=sort_order,
                    limit=7,
                    offset=offset,
                )
                seen += [each["thread_id"] for each in page]
            assert sorted(seen) == sorted(made), (sort_by, sort_order)
            if sort_by == "thread_id":
                assert seen == sorted(made, reverse=sort_order == "desc")
    answer = await http.post("/threads/search", json={"sort_by": "foo"})
    assert (answer.status_code, answer.json()["field"]) == (422, "sort_by")


async def test_the_order_turns_round_and_is_by_default_that_of_creation(
    client: LangGraphClient, mark: str
) -> None:
    made = [await make(client, mark) for _ in range(4)]
    await client.threads.update(made[1], metadata={"touched": 1})

    async def found(**options: Any) -> list[int]:
        page = await client.threads.search(metadata={"mark": mark}, **options)
        return [made.index(each["thread_id"]) for each in page]

    assert await found() == [3, 2, 1, 0]
    assert await found(sort_order="asc") == [0, 1, 2, 3]
    assert await found(sort_by="updated_at") == [1, 3, 2, 0]
    for sort_by in SORTS:
        up = await found(sort_by=sort_by, sort_order="asc")
        assert await found(sort_by=sort_by, sort_order="desc") == up[::-1]


async def test_all_conditions_hold_together_and_count_agrees(client: LangGraphClient, mark: str) -> None:
    made = [await make(client, mark, graph_id="slow", metadata={"even": i % 2 == 0}) for i in range(4)]
    for n, identity in enumerate(made[:3]):
        await client.threads.update_state(identity, {"n": n, "steps": 1, "log": ["a", "b"]}, as_node="tick")

    async def found(*, counted: bool = True, **options: Any) -> list[int]:
        metadata = {"mark": mark, **options.pop("metadata", {})}
        page = await client.threads.search(metadata=metadata, **options, sort_order="asc")
        if counted:
            assert await client.threads.count(metadata=metadata, **options) == len(page)
        return [made.index(each["thread_id"]) for each in page]

    assert await found(values={"n": 1}) == [1]
    assert await found(values={"n": "1"}) == []
    assert await found(values={"log": ["b"]}) == [0, 1, 2]
    assert await found(values={"n": 2, "log": ["a"]}, metadata={"even": True}) == [2]
    assert await found(values={"n": 1}, metadata={"even": True}) == []
    assert await found(values={"n": None}) == []
    assert await found(status="busy") == []
    assert sorted(await found(status="idle") + await found(status="interrupted")) == [0, 1, 2, 3]
    status: Any
    for status in ("idle", "interrupted"):
        page = await client.threads.search(metadata={"mark": mark}, status=status)
        assert {each["status"] for each in page} <= {status}
    assert await found(ids=made[1:], counted=False) == [1, 2, 3]
    assert await found(ids=[made[0], "nobody"], values={"n": 0}, counted=False) == [0]
    assert await found(ids=[made[0]], metadata={"even": False}, counted=False) == []


async def test_ids_count_over_plain_http_too(
    client: LangGraphClient, http: httpx.AsyncClient, mark: str
) -> None:
    made = [await make(client, mark) for _ in range(3)]
    body = {"metadata": {"mark": mark}, "ids": made[:2]}
    assert (await http.post("/threads/count", json=body)).json() == 2
    # An empty list of ids asks for none of them.
    assert (await http.post("/threads/search", json={"ids": []})).json() == []
    assert isinstance((await http.post("/threads/count")).json(), int)


async def test_pages_tell_how_they_go_on(client: LangGraphClient, http: httpx.AsyncClient, mark: str) -> None:
    made = [await make(client, mark) for _ in range(5)]
    body: dict[str, Any] = {"metadata": {"mark": mark}, "limit": 2}
    seen: list[str] = []
    answer = await http.post("/threads/search", json=body)
    while True:
        assert answer.headers["x-pagination-total"] == "5"
        seen += [each["thread_id"] for each in answer.json()]
        if "x-pagination-next" not in answer.headers:
            break
        # Whatever is made meanwhile is on no later page.
        await make(client, uuid4().hex, metadata={})
        cursor = answer.headers["x-pagination-cursor"]
        answer = await http.post("/threads/search", json=body | {"after": cursor})
    assert seen == made[::-1]
    third = await http.post("/threads/search", json=body | {"offset": 4})
    assert [each["thread_id"] for each in third.json()] == made[:1]
    beyond = await http.post("/threads/search", json=body | {"offset": 50})
    assert (beyond.json(), beyond.headers["x-pagination-total"]) == ([], "5")
    assert "x-pagination-next" not in beyond.headers
    wrong = await http.post("/threads/search", json=body | {"after": "nonsense"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "after")


@pytest.mark.parametrize(
    "body",
    [
        {"limit": 1001},
        {"limit": -1},
        {"offset": -1},
        {"limit": "10"},
        {"status": "sleeping"},
        {"select": ["nope"]},
        {"unknown": 1},
    ],
)
async def test_what_cannot_be_searched_is_refused(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    answer = await http.post("/threads/search", json=body)
    assert answer.status_code == 422
    assert answer.json()["field"].startswith(next(iter(body)))


async def test_the_largest_page_is_a_page(http: httpx.AsyncClient) -> None:
    assert (await http.post("/threads/search", json={"limit": 1000})).status_code == 200


async def test_fields_can_be_selected(client: LangGraphClient, mark: str) -> None:
    identity = await make(client, mark, ttl=30)
    for fields in (["thread_id"], ["metadata", "status"], ["values", "interrupts", "config", "context"]):
        (found,) = await client.threads.search(metadata={"mark": mark}, select=fields)  # type: ignore[arg-type]
        assert set(found) == set(fields)
    (found,) = await client.threads.search(ids=[identity], select=["ttl"])  # type: ignore[list-item]  # ours
    assert found["ttl"]["ttl"] == 30  # type: ignore[typeddict-item]


async def test_parts_of_threads_can_be_extracted(client: LangGraphClient, mark: str) -> None:
    identity = await make(client, mark, graph_id="slow", metadata={"tags": [{"t": 1}, {"t": 2}]})
    await make(client, mark)
    await client.threads.update_state(
        identity, {"messages": [{"content": "first"}, {"content": "last"}], "n": 5}, as_node="tick"
    )
    paths = {
        "last": "values.messages[-1].content",
        "first": "values.messages[0]",
        "n": "values.n",
        "t": "metadata.tags[1].t",
        "beyond": "values.messages[2]",
        "before": "values.messages[-3]",
        "through": "values.n.x[0]",
        "missing": "values.nope.x",
        "status": "status",
    }
    empty, found = await client.threads.search(
        metadata={"mark": mark}, extract=paths, select=["thread_id"], sort_by="created_at"
    )
    assert set(found) == {"thread_id", "extracted"}
    assert found["extracted"] == {
        "last": "last",
        "first": {"content": "first"},
        "n": 5,
        "t": 2,
        **dict.fromkeys(("beyond", "before", "through", "missing")),
        "status": found["extracted"]["status"],
    }
    assert empty["extracted"] == {**dict.fromkeys(paths), "status": "idle"}


async def test_ten_paths_can_be_extracted_and_no_more(http: httpx.AsyncClient) -> None:
    paths = {str(n): "values" for n in range(11)}
    ten = dict(list(paths.items())[:10])
    assert (await http.post("/threads/search", json={"extract": ten})).status_code == 200
    answer = await http.post("/threads/search", json={"extract": paths})
    assert (answer.status_code, answer.json()["field"]) == (413, "extract")


@pytest.mark.parametrize(
    "path", ["", ".values", "values.", "values..n", "values[x]", "values[0", "nope.x", "[0]", "values n[0]"]
)
async def test_what_is_no_path_is_refused_by_its_alias(client: LangGraphClient, path: str) -> None:
    with pytest.raises(BadRequestError, match=r"extract\.here"):
        await client.threads.search(extract={"here": path})
