"""Long-term memory over HTTP, through the official client and without it, on every storage."""

from __future__ import annotations

import itertools
import json
from datetime import datetime
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient
from langgraph_sdk.errors import UnprocessableEntityError

from tests.server.conftest import eventually

KEYS = (
    *("my-doc.md#0", "a.b", "a/b", "user@example.org", "x|y", "it's", "100%", "naïve 😀", " lead", ".."),
    *("a\\b", "{x}", "a&b=c", "?", "[1]", '"'),
)

_numbers = itertools.count()


@pytest.fixture
def root() -> str:
    """Return a label that no other test uses."""
    return f"store-{next(_numbers)}"


async def put(http: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await http.put("/store/items", json={"key": "k", "value": {"n": 1}} | body)


async def read(http: httpx.AsyncClient, root: str, key: str = "k", **query: Any) -> Any:
    answered = await http.get("/store/items", params={"namespace": root, "key": key} | query)
    assert answered.status_code == 200, answered.text
    return answered.json()


# ---- The official client.


async def test_client_puts_and_gets(client: LangGraphClient, root: str) -> None:
    await client.store.put_item([root, "notes"], key="one", value={"text": "tea", "n": 2**53})
    item: Any = await client.store.get_item([root, "notes"], key="one")
    assert item["namespace"] == [root, "notes"]
    assert (item["key"], item["value"]) == ("one", {"text": "tea", "n": 2**53})
    made, changed = (datetime.fromisoformat(item[name]) for name in ("created_at", "updated_at"))
    assert made == changed
    assert made.tzinfo is not None


async def test_client_searches(client: LangGraphClient, root: str) -> None:
    for number in range(3):
        await client.store.put_item(
            [root], key=str(number), value={"number": number, "text": f"tea {number}"}
        )
    found = await client.store.search_items([root], filter={"number": {"$gte": 1}}, limit=1, offset=1)
    assert [one["key"] for one in found["items"]] == ["1"]
    assert found["items"][0]["score"] is None
    (hit,) = (await client.store.search_items([root], query="2"))["items"]
    assert (hit["key"], hit["score"] is not None) == ("2", True)


async def test_client_lists_namespaces(client: LangGraphClient, root: str) -> None:
    for labels in ([root, "a", "x"], [root, "b", "x"], [root, "b", "y"]):
        await client.store.put_item(labels, key="k", value={})
    listed = (await client.store.list_namespaces(prefix=[root], suffix=["x"]))["namespaces"]
    assert listed == [[root, "a", "x"], [root, "b", "x"]]
    listed = (await client.store.list_namespaces(prefix=[root, "*"], max_depth=2))["namespaces"]
    assert listed == [[root, "a"], [root, "b"]]


async def test_client_deletes(client: LangGraphClient, root: str) -> None:
    await client.store.put_item([root], key="k", value={})
    await client.store.delete_item([root], key="k")
    await client.store.delete_item([root], key="k")
    assert await client.store.get_item([root], key="k") is None


def test_sync_client(sync_client: SyncLangGraphClient, root: str) -> None:
    sync_client.store.put_item([root], key="k", value={"n": 1}, index=False, ttl=5)
    item: Any = sync_client.store.get_item([root], key="k", refresh_ttl=True)
    assert (item["value"], item["ttl"]) == ({"n": 1}, 5.0)


async def test_client_learns_what_is_wrong(client: LangGraphClient, root: str) -> None:
    with pytest.raises(UnprocessableEntityError, match="limit is 1001"):
        await client.store.search_items([root], limit=1001)


# ---- A31: every key.


@pytest.mark.parametrize("key", KEYS)
async def test_key_of_any_text(http: httpx.AsyncClient, root: str, key: str) -> None:
    assert (await put(http, namespace=[root], key=key, value={"text": "some tea"})).status_code == 204
    assert (await read(http, root, key))["key"] == key
    found = await http.post("/store/items/search", json={"namespace_prefix": [root], "query": "tea"})
    assert [one["key"] for one in found.json()["items"]] == [key]
    gone = await http.delete("/store/items", params={"namespace": root, "key": key})
    assert gone.status_code == 204
    assert await read(http, root, key) is None


# ---- A29, A30: one rule for namespaces, wherever they come in.


@pytest.mark.parametrize(
    ("namespace", "status", "field"),
    [
        ([None, "f"], 422, "namespace[0]"),
        (["u", 5], 422, "namespace[1]"),
        (["u", ""], 422, "namespace[1]"),
        ([], 400, "namespace"),
        (["langgraph", "x"], 400, "namespace[0]"),
        (["a.b"], 400, "namespace[0]"),
        (["u", "\0"], 400, "namespace[1]"),
        ("u", 422, "namespace"),
    ],
)
async def test_put_names_the_bad_label(
    http: httpx.AsyncClient, namespace: Any, status: int, field: str
) -> None:
    refused = await put(http, namespace=namespace)
    assert (refused.status_code, refused.json()["field"]) == (status, field)
    listed = await http.post("/store/namespaces", json={})
    assert listed.status_code == 200


@pytest.mark.parametrize("labels", [["a:b", "c/d", "e|f"], ["a%", "_", "*"], ["[x]"], ["naïve", "😀"]])
async def test_label_is_not_taken_for_another(http: httpx.AsyncClient, root: str, labels: list[str]) -> None:
    namespace = [root, *labels]
    assert (await put(http, namespace=namespace)).status_code == 204
    assert (await read(http, json.dumps(namespace)))["namespace"] == namespace
    assert await read(http, json.dumps([root, "a", "b"])) is None
    gone = await http.request("DELETE", "/store/items", json={"namespace": namespace, "key": "k"})
    assert gone.status_code == 204
    assert await read(http, json.dumps(namespace)) is None


async def test_query_names_a_namespace_by_dots(http: httpx.AsyncClient, root: str) -> None:
    await put(http, namespace=[root, "a", "b"])
    assert (await read(http, f"{root}.a.b"))["namespace"] == [root, "a", "b"]


@pytest.mark.parametrize("namespace", ["[1]", "[", '["a", null]', '{"a": 1}[', "[" * 100_000, "a..b"])
async def test_query_that_names_no_namespace(http: httpx.AsyncClient, namespace: str) -> None:
    refused = await http.get("/store/items", params={"namespace": namespace[:20_000], "key": "k"})
    if namespace.startswith("{"):
        assert refused.json() is None
        return
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_namespace")


# ---- A18: what has expired is gone at once.


async def test_expired_item_is_gone_unswept(http: httpx.AsyncClient, root: str) -> None:
    await put(http, namespace=[root], ttl=0.001)
    made = await put(http, namespace=[root, "kept"])

    async def gone() -> bool:
        return await read(http, root, refresh_ttl="false") is None

    await eventually(gone)
    assert await read(http, root, refresh_ttl="true") is None
    found = await http.post("/store/items/search", json={"namespace_prefix": [root]})
    assert [one["namespace"] for one in found.json()["items"]] == [[root, "kept"]]
    listed = await http.post("/store/namespaces", json={"prefix": [root]})
    assert listed.json() == {"namespaces": [[root, "kept"]]}
    again = await put(http, namespace=[root])
    assert int(again.headers["etag"].strip('"')) > int(made.headers["etag"].strip('"'))
    item = await read(http, root)
    assert item["created_at"] == item["updated_at"]
    assert (item["ttl"], item["expires_at"]) == (None, None)


async def test_reading_tells_the_new_expiry(http: httpx.AsyncClient, root: str) -> None:
    await put(http, namespace=[root], ttl=10)
    first = await read(http, root, refresh_ttl="false")
    assert (await read(http, root, refresh_ttl="false"))["expires_at"] == first["expires_at"]
    later = await read(http, root, refresh_ttl="true")
    assert datetime.fromisoformat(later["expires_at"]) > datetime.fromisoformat(first["expires_at"])
    assert (later["revision"], later["updated_at"]) == (first["revision"], first["updated_at"])


@pytest.mark.parametrize("ttl", [0, -1, "x", 1e300])
async def test_ttl_must_be_one(http: httpx.AsyncClient, root: str, ttl: Any) -> None:
    refused = await put(http, namespace=[root], ttl=ttl)
    assert refused.status_code in (400, 413, 422)
    assert refused.json()["field"] == "ttl"


# ---- A19: one order.


async def test_latest_put_comes_first(http: httpx.AsyncClient, root: str) -> None:
    for key in ("a", "b", "c"):
        await put(http, namespace=[root], key=key)
    before = await read(http, root, "a")
    await put(http, namespace=[root], key="a")
    after = await read(http, root, "a")
    assert after["created_at"] == before["created_at"]
    assert datetime.fromisoformat(after["updated_at"]) > datetime.fromisoformat(before["updated_at"])
    for limit, keys in ((10, ["a", "c", "b"]), (2, ["a", "c"])):
        found = await http.post("/store/items/search", json={"namespace_prefix": [root], "limit": limit})
        assert [one["key"] for one in found.json()["items"]] == keys


# ---- A32: pages.


@pytest.mark.parametrize("path", ["/store/items/search", "/store/namespaces"])
@pytest.mark.parametrize(
    ("page", "status"),
    [
        ({"limit": -1}, 422),
        ({"offset": -1}, 422),
        ({"limit": 1_000}, 200),
        ({"limit": 1_001}, 422),
        ({"limit": 10**9}, 422),
        ({"limit": "5"}, 422),
        ({"limit": True}, 422),
        ({"limit": None}, 422),
        ({"offset": 2**63 - 1}, 200),
        ({"offset": 2**63}, 413),
    ],
)
async def test_page_is_within_bounds(
    http: httpx.AsyncClient, path: str, page: dict[str, Any], status: int
) -> None:
    answered = await http.post(path, json=page)
    assert answered.status_code == status, answered.text
    if status != 200:
        assert answered.json()["field"] == next(iter(page))


async def test_page_of_nothing(http: httpx.AsyncClient, root: str) -> None:
    await put(http, namespace=[root])
    found = await http.post("/store/items/search", json={"namespace_prefix": [root], "limit": 0})
    listed = await http.post("/store/namespaces", json={"prefix": [root], "limit": 0})
    assert (found.json(), listed.json()) == ({"items": []}, {"namespaces": []})


async def test_page_says_whether_it_was_cut(http: httpx.AsyncClient, root: str) -> None:
    for label in "abc":
        await put(http, namespace=[root, label])
    cut = await http.post("/store/namespaces", json={"prefix": [root], "limit": 2})
    assert cut.headers["x-pagination-next"] == "2"
    last = await http.post("/store/namespaces", json={"prefix": [root], "limit": 2, "offset": 2})
    assert ("x-pagination-next" in last.headers, len(last.json()["namespaces"])) == (False, 1)
    whole = await http.post("/store/namespaces", json={"prefix": [root], "limit": 3})
    assert "x-pagination-next" not in whole.headers
    full = await http.post("/store/items/search", json={"namespace_prefix": [root], "limit": 2})
    assert full.headers["x-pagination-next"] == "2"
    rest = await http.post("/store/items/search", json={"namespace_prefix": [root], "limit": 2, "offset": 2})
    assert "x-pagination-next" not in rest.headers


async def test_search_without_anything_finds_all(http: httpx.AsyncClient, root: str) -> None:
    await put(http, namespace=[root])
    found = await http.post("/store/items/search", json={})
    assert (found.status_code, found.json()["items"][0]["namespace"]) == (200, [root])
