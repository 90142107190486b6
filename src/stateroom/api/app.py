"""Makes the HTTP application of a server out of its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from stateroom.api.custom import Beside, load_custom, merge_documents
from stateroom.api.door import Door
from stateroom.api.envelope import Envelope
from stateroom.api.including import include
from stateroom.api.metrics import Metrics
from stateroom.api.prefix import Prefix
from stateroom.api.problems import install
from stateroom.api.routes import (
    a2a,
    assistants,
    crons,
    deliveries,
    invoke,
    mcp,
    protocol,
    runs,
    store,
    streams,
    system,
    threads,
)
from stateroom.api.rules import Rules
from stateroom.api.wire.base import Problem
from stateroom.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stateroom.api.parts import Parts

__all__ = ["CORS_OPTIONS", "EXPOSED", "make_app"]

CORS_OPTIONS: Final = (
    *("allow_origins", "allow_methods", "allow_headers", "allow_credentials"),
    *("allow_origin_regex", "expose_headers", "max_age"),
)
"""What ``http.cors`` may say."""

EXPOSED: Final = (
    *("X-Pagination-Total", "X-Pagination-Next", "X-Pagination-Cursor"),
    *("Location", "Content-Location", "ETag", "X-Request-ID", "Idempotent-Replay"),
)
"""Headers of answers that a page in a browser may read, beside those that ``http.cors`` exposes."""

_ROUTERS: Final = (
    (store.router, "store"),
    (assistants.router, "assistants"),
    # Where two patterns fit a path the first decides, so that a fixed word comes before a name.
    (crons.router, "crons"),
    (protocol.router, "threads"),
    (streams.router, "runs"),
    (deliveries.router, "runs"),
    (runs.router, "runs"),
    (invoke.router, "runs"),
    (mcp.router, "mcp"),
    (a2a.router, "a2a"),
    (threads.router, "threads"),
)
"""Every router, and the group that ``http.disabled`` knows it by."""


def make_app(parts: Parts) -> FastAPI:
    """Return the application; raise Misconfigured for settings that it cannot follow."""
    http = parts.settings.http
    custom = load_custom(parts.settings)
    rules = None if parts.auth is None else Rules(parts.auth, parts.loops, studio=parts.settings.studio_auth)
    meta = "meta" not in http.disabled
    app = FastAPI(
        title="Stateroom",
        version=parts.version,
        description="Assistants, threads, runs, crons and long-term memory of LangGraph applications.",
        openapi_url="/openapi.json" if meta else None,
        docs_url="/docs" if meta else None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan(parts, custom),
        responses={"4XX": {"model": Problem, "description": "The request is refused"}},
    )
    app.state.parts = parts
    app.state.metrics = metrics = Metrics()
    install(app)
    _include(app, http.disabled)
    app.user_middleware = _middleware(app, parts, metrics, rules, custom)
    if custom is not None:
        _describe_both(app, custom)
    return app


def _include(app: FastAPI, disabled: frozenset[str]) -> None:
    include(app, system.router, "system")
    if "meta" not in disabled:
        include(app, system.meta, "system")
    for router, group in _ROUTERS:
        if group not in disabled:
            include(app, router, group)


def _middleware(
    app: FastAPI, parts: Parts, metrics: Metrics, rules: Rules | None, custom: Starlette | None
) -> list[Middleware]:
    """Return what surrounds the routes, the outermost first."""
    http = parts.settings.http
    found = [Middleware(Prefix, prefix=http.mount_prefix)] if http.mount_prefix else []
    if http.cors is not None:
        found.append(Middleware(CORSMiddleware, **_cors(http.cors)))
    found.append(Middleware(Envelope, parts=parts, metrics=metrics))
    if custom is None:
        return [*found, Middleware(Door, rules=rules)]
    beside = Middleware(
        Beside,
        home=app,
        custom=custom,
        rules=rules,
        guarded=http.custom_route_auth,
        auth_first=http.middleware_order == "auth_first",
    )
    return [*found, beside]


def _cors(given: Mapping[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in CORS_OPTIONS:
            raise Misconfigured(
                f"http.cors.{name} is not known; use {', '.join(CORS_OPTIONS)}", field=f"http.cors.{name}"
            )
    options = {name: value for name, value in given.items() if value is not None}
    options.setdefault("allow_methods", ["*"])
    options.setdefault("allow_headers", ["*"])
    return options | {"expose_headers": [*EXPOSED, *options.get("expose_headers", ())]}


def _lifespan(
    parts: Parts, custom: Starlette | None
) -> Callable[[Starlette], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[Any]:
        await parts.begin()
        if custom is None:
            yield {}
            return
        async with custom.router.lifespan_context(custom) as state:
            yield state or {}

    return lifespan


def _describe_both(app: FastAPI, custom: Starlette) -> None:
    describe_ours = app.openapi

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = merge_documents(describe_ours(), custom)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]  # FastAPI's documented way to change its document
