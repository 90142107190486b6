"""What of long-term memory goes beyond the official client: ETags, modes, counts, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import httpx
import pytest

_numbers = itertools.count()


@pytest.fixture
def root() -> str:
    """Return a label that no other test uses."""
    return f"conditions-{next(_numbers)}"


async def put(http: httpx.AsyncClient, root: str, n: int = 1, **headers: str) -> httpx.Response:
    body = {"namespace": [root], "key": "k", "value": {"n": n}}
    return await http.put(
        "/store/items", json=body, headers={name.replace("_", "-"): one for name, one in headers.items()}
    )


async def get(http: httpx.AsyncClient, root: str, **headers: str) -> httpx.Response:
    return await http.get("/store/items", params={"namespace": root, "key": "k"}, headers=headers)


async def test_etag_is_the_revision(http: httpx.AsyncClient, root: str) -> None:
    etag = (await put(http, root)).headers["etag"]
    answered = await get(http, root)
    assert answered.headers["etag"] == etag == f'"{answered.json()["revision"]}"'


async def test_put_of_what_somebody_else_changed_fails(http: httpx.AsyncClient, root: str) -> None:
    old = (await put(http, root, 1)).headers["etag"]
    new = (await put(http, root, 2, if_match=old)).headers["etag"]
    refused = await put(http, root, 3, if_match=old)
    assert (refused.status_code, refused.json()["code"]) == (412, "conflict")
    answered = await get(http, root)
    assert (answered.json()["value"], answered.headers["etag"]) == ({"n": 2}, new)


async def test_put_of_what_is_there_fails_if_it_must_not_be(http: httpx.AsyncClient, root: str) -> None:
    assert (await put(http, root, 1, if_none_match="*")).status_code == 204
    assert (await put(http, root, 2, if_none_match="*")).status_code == 412
    assert (await get(http, root)).json()["value"] == {"n": 1}


async def test_delete_of_what_somebody_else_changed_fails(http: httpx.AsyncClient, root: str) -> None:
    old = (await put(http, root, 1)).headers["etag"]
    new = (await put(http, root, 2)).headers["etag"]
    where = {"namespace": root, "key": "k"}
    refused = await http.delete("/store/items", params=where, headers={"if-match": old})
    assert refused.status_code == 412
    done = await http.delete("/store/items", params=where, headers={"if-match": new})
    assert done.status_code == 204
    assert (await get(http, root)).json() is None


async def test_get_of_what_one_has_already(http: httpx.AsyncClient, root: str) -> None:
    etag = (await put(http, root)).headers["etag"]
    same = await get(http, root, **{"if-none-match": etag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
    other = await get(http, root, **{"if-none-match": '"0"'})
    assert other.json()["value"] == {"n": 1}


@pytest.mark.parametrize("headers", [{"if_match": "*"}, {"if_match": "5"}, {"if_none_match": '"5"'}])
async def test_condition_that_cannot_be_kept(
    http: httpx.AsyncClient, root: str, headers: dict[str, str]
) -> None:
    refused = await put(http, root, 1, **headers)
    (name,) = headers
    assert (refused.status_code, refused.json()["field"]) == (400, name.replace("_", "-"))


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ({}, None),
        ({"namespace": "a"}, None),
        ({"key": "k"}, None),
        ({"key": "k"}, {"namespace": ["a"], "key": "k"}),
        ({"namespace": "a", "key": "k"}, {"namespace": ["a"], "key": "k"}),
    ],
)
async def test_delete_names_an_item_once(
    http: httpx.AsyncClient, query: dict[str, str], body: dict[str, Any] | None
) -> None:
    refused = await http.request("DELETE", "/store/items", params=query, json=body)
    assert (refused.status_code, refused.json()["field"]) == (400, "namespace")


async def test_search_explains_itself(http: httpx.AsyncClient, root: str) -> None:
    await put(http, root)
    asked = {"namespace_prefix": [root], "query": "1", "mode": "text"}
    (plain,) = (await http.post("/store/items/search", json=asked)).json()["items"]
    (told,) = (await http.post("/store/items/search", json=asked | {"explain": True})).json()["items"]
    assert "components" not in plain
    assert told["components"] == {"text": told["score"], "vector": None}


async def test_mode_that_the_store_lacks(http: httpx.AsyncClient) -> None:
    refused = await http.post("/store/items/search", json={"query": "tea", "mode": "vector"})
    assert (refused.status_code, refused.json()["code"]) == (422, "not_supported")


async def test_count(http: httpx.AsyncClient, root: str) -> None:
    for number in range(3):
        body = {"namespace": [root, str(number)], "key": "k", "value": {"n": number}}
        await http.put("/store/items", json=body)
    counted = await http.post("/store/items/count", json={"namespace_prefix": [root]})
    assert counted.json() == 3
    asked = {"namespace_prefix": [root], "filter": {"n": {"$gt": 0}}}
    assert (await http.post("/store/items/count", json=asked)).json() == 2


@pytest.mark.parametrize("filter", [{"n": {"$bad": 1}}, {"$or": 5}, {"n": {"$gt": [1]}}])
async def test_filter_that_nobody_understands(http: httpx.AsyncClient, filter: dict[str, Any]) -> None:
    refused = await http.post("/store/items/search", json={"filter": filter})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_filter")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"value": None}, "value"),
        ({"value": [1]}, "value"),
        ({"key": None}, "key"),
        ({"key": 5}, "key"),
        ({"bogus": 1}, "bogus"),
        ({"index": "text"}, "index"),
    ],
)
async def test_put_names_the_field_to_blame(
    http: httpx.AsyncClient, root: str, change: dict[str, Any], field: str
) -> None:
    body = {"namespace": [root], "key": "k", "value": {}} | change
    refused = await http.put("/store/items", json=body)
    assert refused.status_code == 422
    assert refused.json()["field"].split(".")[0] == field
    assert field in refused.json()["detail"]


async def test_value_comes_back_as_it_was(http: httpx.AsyncClient, root: str) -> None:
    value = {"b": 1, "a": [1.5, None, True, 10**50, -(2**64)], "é": "😀\n", "deep": {"x": {"y": []}}}
    await http.put("/store/items", json={"namespace": [root], "key": "k", "value": value})
    answered = (await get(http, root)).json()["value"]
    assert answered == value
    assert list(answered) == list(value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
async def test_number_that_json_lacks(http: httpx.AsyncClient, root: str, number: str) -> None:
    body = f'{{"namespace": ["{root}"], "key": "k", "value": {{"n": {number}}}}}'
    refused = await http.put("/store/items", content=body, headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()["field"]) == (400, "value.n")
