"""Assistants over HTTP: graphs with a configuration, and what the graphs look like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query
from starlette.responses import Response

from stateroom.api.access import Access, AccessDep
from stateroom.api.answers import answer, nothing, page_headers
from stateroom.api.including import Routes
from stateroom.api.parts import Parts, PartsDep
from stateroom.api.wire.assistants import (
    ActivateVersion,
    AssistantAnswer,
    AssistantParts,
    CountAssistants,
    CreateAssistant,
    DrawingAnswer,
    ListVersions,
    SchemasAnswer,
    SearchAssistants,
    UpdateAssistant,
    assistant_json,
    levels_of,
)
from stateroom.api.wire.base import JsonObject, check_limit
from stateroom.contract.assistants import NewAssistant
from stateroom.engine.introspection import drawing, schemas, subgraphs
from stateroom.errors import InvalidInput
from stateroom.model.assistant import Assistant
from stateroom.service.scope import Scope

__all__ = ["router"]

router = Routes()

T = TypeVar("T")

AT_ONCE: Final = 100
"""Threads of an assistant that are looked up together when it is deleted with them."""


@router.post("/assistants", response_model=AssistantAnswer)
async def create_assistant(body: CreateAssistant, parts: PartsDep, access: AccessDep) -> Response:
    """Make an assistant of a graph."""
    value: dict[str, Any] = {
        "assistant_id": body.assistant_id or parts.ids(),
        "graph_id": body.graph_id,
        "config": body.config or {},
        "context": body.context or {},
        "metadata": body.metadata or {},
        "if_exists": body.if_exists or "raise",
        "name": body.name,
    }
    scope = await access.allow("assistants", "create", value)
    new = NewAssistant(
        str(value["assistant_id"]),
        value["graph_id"],
        value["name"],
        body.description,
        value["config"],
        value["context"],
        value["metadata"],
    )
    made = await parts.offload(parts.assistants.create, new, scope, if_exists=value["if_exists"])
    return answer(assistant_json(made))


@router.post("/assistants/search", response_model=AssistantParts)
async def search_assistants(body: SearchAssistants, parts: PartsDep, access: AccessDep) -> Response:
    """List assistants; ``X-Pagination-Next`` is the offset of the next page."""
    query, scope, value = await _searched(body, access, limit=body.limit, offset=body.offset)
    limit, offset = check_limit(value["limit"], parts.settings.limits), value["offset"]
    page, total = await parts.offload(
        parts.assistants.search,
        query,
        scope,
        sort=body.sort(),
        limit=limit,
        offset=offset,
        after=body.after,
    )
    headers = page_headers(
        total, offset=offset, count=len(page.rows), more=page.next is not None, cursor=page.next
    )
    return answer([assistant_json(each, body.select) for each in page.rows], headers=headers)


@router.post("/assistants/count", response_model=int)
async def count_assistants(body: CountAssistants, parts: PartsDep, access: AccessDep) -> Response:
    """Count assistants."""
    query, scope, _ = await _searched(body, access, limit=0, offset=0)
    return answer(await parts.offload(parts.assistants.count, query, scope))


async def _searched(body: CountAssistants, access: Access, **page: int) -> Any:
    """Return the conditions as the rules leave them, and what of the assistants may be seen."""
    value: dict[str, Any] = {"graph_id": body.graph_id, "metadata": body.metadata or {}, **page}
    scope = await access.allow("assistants", "search", value)
    query = body.query()._replace(graph_id=value["graph_id"] or None, metadata=value["metadata"] or None)
    return query, scope, value


@router.get("/assistants/{assistant_id}", response_model=AssistantAnswer)
async def get_assistant(assistant_id: str, parts: PartsDep, access: AccessDep) -> Response:
    """Return an assistant, by its id or by its graph's."""
    return answer(assistant_json(await _read(assistant_id, parts, access)))


@router.patch("/assistants/{assistant_id}", response_model=AssistantAnswer)
async def update_assistant(
    assistant_id: str, body: UpdateAssistant, parts: PartsDep, access: AccessDep
) -> Response:
    """Make the next version of an assistant."""
    change = body.change()
    value: dict[str, Any] = {
        "assistant_id": assistant_id,
        **body.model_dump(include={"graph_id", "config", "context", "name"}),
        "metadata": body.metadata or {},
        "version": None,
    }
    scope = await access.allow("assistants", "update", value)
    if value["metadata"]:
        change = change._replace(metadata=value["metadata"])
    changed = await parts.offload(parts.assistants.update, assistant_id, change, scope)
    return answer(assistant_json(changed))


@router.delete("/assistants/{assistant_id}", status_code=204)
async def delete_assistant(
    assistant_id: str,
    parts: PartsDep,
    access: AccessDep,
    delete_threads: Annotated[bool, Query(description="Also the threads whose last run was its")] = False,
) -> Response:
    """Remove an assistant with all versions and its crons, and the threads if asked to."""
    scope = await access.allow("assistants", "delete", {"assistant_id": assistant_id})
    assistant = await parts.offload(parts.assistants.to_delete, assistant_id, scope)
    if delete_threads:
        await _delete_threads(assistant, parts, access)
    # Last, so that who was cut short can do it again.
    await parts.offload(parts.assistants.delete, assistant_id, scope)
    return nothing()


async def _delete_threads(assistant: Assistant, parts: Parts, access: Access) -> None:
    """Remove those threads of an assistant that the caller may remove."""
    after = None
    while True:
        page = await parts.offload(
            parts.threads.of_assistant, assistant.assistant_id, limit=AT_ONCE, after=after
        )
        for thread in page.rows:
            scope = await access.allow("threads", "delete", {"thread_id": thread.thread_id})
            if scope.sees(thread.metadata):
                await parts.offload(parts.threads.remove, thread.thread_id)
        if page.next is None:
            return
        after = page.next


@router.post("/assistants/{assistant_id}/versions", response_model=list[AssistantAnswer])
async def list_assistant_versions(
    assistant_id: str, parts: PartsDep, access: AccessDep, body: ListVersions | None = None
) -> Response:
    """List the versions of an assistant, the newest first."""
    body = body or ListVersions()
    scope = await _reading(assistant_id, access)
    found = await parts.offload(
        parts.assistants.versions,
        assistant_id,
        scope,
        metadata=body.metadata,
        limit=check_limit(body.limit, parts.settings.limits),
        offset=body.offset,
    )
    return answer([assistant_json(each) for each in found])


@router.post("/assistants/{assistant_id}/latest", response_model=AssistantAnswer)
async def activate_assistant_version(
    assistant_id: str,
    parts: PartsDep,
    access: AccessDep,
    body: ActivateVersion | None = None,
    version: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """Make a former version the one that counts."""
    chosen = version if body is None else body.version
    if chosen is None:
        raise InvalidInput("version is missing; name it in the body", field="version")
    value = {"assistant_id": assistant_id, "metadata": {}, "version": chosen}
    scope = await access.allow("assistants", "update", value)
    return answer(assistant_json(await parts.offload(parts.assistants.activate, assistant_id, chosen, scope)))


# ---- what the graph looks like


@router.get("/assistants/{assistant_id}/graph", response_model=DrawingAnswer)
async def get_assistant_graph(
    assistant_id: str,
    parts: PartsDep,
    access: AccessDep,
    xray: Annotated[str, Query(description="Subgraphs too: `true`, or to so many levels")] = "false",
) -> Response:
    """Return the graph as it is drawn."""
    levels = levels_of(xray)
    assistant = await _read(assistant_id, parts, access)
    return answer(await _with_graph(assistant, parts, access, lambda graph: drawing(graph, xray=levels)))


@router.get("/assistants/{assistant_id}/schemas", response_model=SchemasAnswer)
async def get_assistant_schemas(assistant_id: str, parts: PartsDep, access: AccessDep) -> Response:
    """Return the JSON schemas of the graph's input, output, state and context."""
    assistant = await _read(assistant_id, parts, access)

    async def look(graph: Any) -> dict[str, Any]:
        return schemas(graph, assistant.graph_id)

    return answer(await _with_graph(assistant, parts, access, look))


@router.get("/assistants/{assistant_id}/subgraphs", response_model=dict[str, JsonObject])
@router.get("/assistants/{assistant_id}/subgraphs/{namespace}", response_model=dict[str, JsonObject])
async def get_assistant_subgraphs(
    assistant_id: str,
    parts: PartsDep,
    access: AccessDep,
    namespace: str | None = None,
    recurse: bool = False,
) -> Response:
    """Return the schemas of the graph's subgraphs, by their namespaces."""
    assistant = await _read(assistant_id, parts, access)

    async def look(graph: Any) -> dict[str, Any]:
        return subgraphs(graph, namespace=namespace, recurse=recurse)

    return answer(await _with_graph(assistant, parts, access, look))


async def _with_graph(
    assistant: Assistant, parts: Parts, access: Access, work: Callable[[Any], Awaitable[T]]
) -> T:
    """Do something with an assistant's graph, where users' code may run."""
    config: Any = assistant.config
    principal = access.principal
    user = None if principal is None else principal.user

    async def opened() -> T:
        async with parts.graphs.open(
            assistant.graph_id,
            config=config,
            access="assistants.read",
            user=user,
            context=assistant.context,
        ) as graph:
            return await work(graph)

    return await parts.loops.run(opened)


async def _reading(assistant_id: str, access: Access) -> Scope:
    return await access.allow("assistants", "read", {"assistant_id": assistant_id, "metadata": {}})


async def _read(assistant_id: str, parts: Parts, access: Access) -> Assistant:
    return await parts.offload(parts.assistants.get, assistant_id, await _reading(assistant_id, access))
