"""Notes the routes beside their functions, and adds them to an application, each as a route of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from fastapi import FastAPI
from fastapi.routing import APIRoute

__all__ = ["Routes", "include"]

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class _Route(NamedTuple):
    """A route as its function says it; ``method`` None: of WebSockets."""

    method: str | None
    path: str
    endpoint: Callable[..., Any]
    options: dict[str, Any]


class Routes:
    """The routes of one module, noted in their order.

    Its decorators are those of ``fastapi.APIRouter``, which would make a route of each at once: what it
    learns of the parameters, and most of the time that it takes, would be thrown away, since the
    application's routes are made anew.
    """

    def __init__(self) -> None:
        self.noted: list[_Route] = []

    def include_router(self, router: Routes) -> None:
        """Add the routes of another module."""
        self.noted += router.noted

    def get(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Note the function that answers GET; the options are those of FastAPI's ``add_api_route``."""
        return self._note("GET", path, options)

    def post(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Note the function that answers POST."""
        return self._note("POST", path, options)

    def put(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Note the function that answers PUT."""
        return self._note("PUT", path, options)

    def patch(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Note the function that answers PATCH."""
        return self._note("PATCH", path, options)

    def delete(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Note the function that answers DELETE."""
        return self._note("DELETE", path, options)

    def websocket(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Note the function that serves WebSockets."""
        return self._note(None, path, {})

    def _note(self, method: str | None, path: str, options: dict[str, Any]) -> Callable[[Endpoint], Endpoint]:
        def note(endpoint: Endpoint) -> Endpoint:
            self.noted.append(_Route(method, path, endpoint, options))
            return endpoint

        return note


def include(app: FastAPI, routes: Routes, group: str) -> None:
    """Add routes, which the document calls by their functions' names, in a group.

    ``FastAPI.include_router`` would keep the routers, and look for each request's route in them twice.
    """
    taken = {route.operation_id for route in app.routes if isinstance(route, APIRoute)}
    for method, path, endpoint, options in routes.noted:
        if method is None:
            app.router.add_api_websocket_route(path, endpoint)
            continue
        wanted = options.get("operation_id") or endpoint.__name__
        name, number = wanted, 1
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken.add(name)
        app.add_api_route(path, endpoint, methods=[method], tags=[group], **{**options, "operation_id": name})
