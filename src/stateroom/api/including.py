"""Adds the routes of routers to an application, each as a route of its own."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import BaseRoute

__all__ = ["include"]


def include(app: FastAPI, router: APIRouter, group: str) -> None:
    """Add a router's routes, which the document calls by their functions' names, in a group.

    ``FastAPI.include_router`` would keep the routers, and look for each request's route in them twice.
    """
    taken = {route.operation_id for route in app.routes if isinstance(route, APIRoute)}
    for route in router.routes:
        if isinstance(route, APIWebSocketRoute):
            app.router.add_api_websocket_route(route.path, route.endpoint, route.name)
            continue
        if not isinstance(route, APIRoute):
            include(app, _inner(route), group)
            continue
        name, number = route.operation_id or route.name, 1
        while name in taken:
            number += 1
            name = f"{route.operation_id or route.name}_{number}"
        taken.add(name)
        app.add_api_route(
            route.path,
            route.endpoint,
            methods=list(route.methods or ()),
            operation_id=name,
            name=route.name,
            tags=route.tags or [group],
            status_code=route.status_code,
            dependencies=route.dependencies,
            summary=route.summary,
            description=route.description,
            responses=route.responses,
            response_description=route.response_description,
            response_model=route.response_model,
            response_class=route.response_class,
            deprecated=route.deprecated,
            include_in_schema=route.include_in_schema,
            openapi_extra=route.openapi_extra,
        )


def _inner(route: BaseRoute) -> APIRouter:
    """Return the router that a router has included."""
    inner = getattr(route, "original_router", None)
    assert isinstance(inner, APIRouter), f"{route} is neither a route of a function nor a router"
    return inner
