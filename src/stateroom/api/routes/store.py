"""Long-term memory over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query
from starlette.responses import Response

from stateroom.api.access import AccessDep
from stateroom.api.answers import answer, nothing, page_headers
from stateroom.api.including import Routes
from stateroom.api.memory import Memory
from stateroom.api.parts import PartsDep
from stateroom.api.wire.base import check_limit
from stateroom.api.wire.store import (
    ETAG_PATTERN,
    CountItems,
    DeleteItem,
    ListNamespaces,
    PutItem,
    SearchItems,
    etag_of,
    hit_json,
    item_json,
    parse_namespace,
    revision_of,
)
from stateroom.errors import InvalidInput

__all__ = ["router"]

router = Routes()

IfMatch = Annotated[
    str | None,
    Header(
        description="The ETag of the revision that must be there", json_schema_extra={"pattern": ETAG_PATTERN}
    ),
]
IfNoneMatch = Annotated[
    str | None, Header(description="`*`: nothing may be there", json_schema_extra={"pattern": r"^\*$"})
]


@router.put("/store/items", status_code=204)
async def put_item(
    body: PutItem,
    parts: PartsDep,
    access: AccessDep,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Keep an item, replacing what is there; the answer's ETag is its revision."""
    options = _conditions(if_match, if_none_match)
    value = body.model_dump(include={"namespace", "key", "value", "index"})
    if "ttl" in body.model_fields_set:
        value["ttl"] = body.ttl
    value["namespace"] = tuple(body.namespace)
    await access.allow("store", "put", value)
    if "ttl" in value:
        options["ttl"] = value["ttl"]
    memory: Memory = parts.store
    item = await memory.aput_item(
        value["namespace"], value["key"], value["value"], value.get("index"), **options
    )
    return nothing(headers=etag_of(item))


@router.get("/store/items", responses={304: {"description": "The item is as `If-None-Match` names it"}})
async def get_item(
    namespace: Annotated[str, Query(description="`a.b`, or a JSON array of labels")],
    key: str,
    parts: PartsDep,
    access: AccessDep,
    refresh_ttl: bool | None = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Return an item, or null."""
    value: dict[str, Any] = {"namespace": parse_namespace(namespace), "key": key}
    await access.allow("store", "get", value)
    memory: Memory = parts.store
    item = await memory.aget(value["namespace"], value["key"], refresh_ttl=refresh_ttl)
    if item is None:
        return answer(None)
    headers = etag_of(item)
    if if_none_match is not None and if_none_match == headers.get("ETag"):
        return Response(None, 304, headers)
    return answer(item_json(item, memory), headers=headers)


@router.delete("/store/items", status_code=204)
async def delete_item(
    parts: PartsDep,
    access: AccessDep,
    body: DeleteItem | None = None,
    namespace: str | None = None,
    key: str | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Remove an item, named by the body or by the query; one that is not there is fine."""
    if body is not None and namespace is None and key is None:
        value: dict[str, Any] = {"namespace": tuple(body.namespace), "key": body.key}
    elif body is None and namespace is not None and key is not None:
        value = {"namespace": parse_namespace(namespace), "key": key}
    else:
        raise InvalidInput(
            "namespace and key must be given together, once: in the body or in the query", field="namespace"
        )
    await access.allow("store", "delete", value)
    memory: Memory = parts.store
    revision = None if if_match is None else revision_of(if_match, "if-match")
    await memory.adelete(value["namespace"], value["key"], if_revision=revision)
    return nothing()


@router.post("/store/items/search")
async def search_items(body: SearchItems, parts: PartsDep, access: AccessDep) -> Response:
    """Find items at or below a namespace. ``X-Pagination-Next`` stands on every full page."""
    check_limit(body.limit, parts.settings.limits)
    value = body.model_dump(include={"filter", "limit", "offset", "query"})
    value["namespace"] = tuple(body.namespace_prefix)
    await access.allow("store", "search", value)
    memory: Memory = parts.store
    hits = await memory.asearch(
        value["namespace"],
        **{name: value.get(name) for name in ("query", "filter")},
        limit=check_limit(value["limit"], parts.settings.limits),
        offset=value["offset"],
        refresh_ttl=body.refresh_ttl,
        mode=body.mode,
        explain=body.explain,
    )
    full = 0 < value["limit"] == len(hits)
    headers = page_headers(None, offset=value["offset"], count=len(hits), more=full)
    return answer({"items": [hit_json(hit, memory) for hit in hits]}, headers=headers)


@router.post("/store/items/count")
async def count_items(body: CountItems, parts: PartsDep, access: AccessDep) -> Response:
    """Count the items at or below a namespace."""
    namespace = tuple(body.namespace_prefix)
    value: dict[str, Any] = {"namespace": namespace, "filter": body.filter, "query": None}
    value |= {"limit": 0, "offset": 0}
    await access.allow("store", "search", value)
    memory: Memory = parts.store
    return answer(await memory.acount(value["namespace"], filter=value.get("filter")))


@router.post("/store/namespaces")
async def list_namespaces(body: ListNamespaces, parts: PartsDep, access: AccessDep) -> Response:
    """List the namespaces that hold items, in order."""
    check_limit(body.limit, parts.settings.limits)
    value: dict[str, Any] = {
        "namespace": None if body.prefix is None else tuple(body.prefix),
        "suffix": None if body.suffix is None else tuple(body.suffix),
        "max_depth": body.max_depth,
        "limit": body.limit,
        "offset": body.offset,
    }
    await access.allow("store", "list_namespaces", value)
    limit, offset = check_limit(value["limit"], parts.settings.limits), value["offset"]
    memory: Memory = parts.store
    found = await memory.alist_namespaces(
        prefix=value["namespace"] or None,
        suffix=value.get("suffix") or None,
        max_depth=value.get("max_depth"),
        limit=limit + 1 if limit else 0,
        offset=offset,
    )
    headers = page_headers(None, offset=offset, count=limit, more=len(found) > limit)
    return answer({"namespaces": found[:limit]}, headers=headers)


def _conditions(if_match: str | None, if_none_match: str | None) -> dict[str, Any]:
    """Return what must hold for an item to be kept."""
    found: dict[str, Any] = {}
    if if_match is not None:
        found["if_revision"] = revision_of(if_match, "if-match")
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise InvalidInput(
                "if-none-match can only be `*` here: there must be no item yet", field="if-none-match"
            )
        found["if_absent"] = True
    return found
