"""An application of the user's own beside ours: its routes come first, its middleware surrounds all."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from stateroom.api.door import Door
from stateroom.errors import Misconfigured
from stateroom.importing import load_named

if TYPE_CHECKING:
    from stateroom.api.rules import Rules
    from stateroom.settings import Settings

__all__ = ["Beside", "load_custom", "merge_documents"]

_DOCUMENT_PATHS: Final = ("openapi_url", "docs_url", "redoc_url", "swagger_ui_oauth2_redirect_url")


def load_custom(settings: Settings) -> Starlette | None:
    """Return what ``http.app`` names, None if it names nothing."""
    if settings.http.app is None:
        return None
    found = load_named(settings.http.app, base=settings.base, field="http.app")
    if not isinstance(found, Starlette):
        raise Misconfigured(
            f"http.app {settings.http.app!r} is a {type(found).__name__}; name a Starlette or "
            "FastAPI application",
            field="http.app",
        )
    return found


class Beside:
    """ASGI middleware: what the user's application has a route for is answered by it, all else by ours.

    Nobody is asked who he is before a route of the user's, unless ``guarded``. ``auth_first`` says that the
    user's middleware sees only requests that came through the door. The user's application itself is left
    as it is, since others may serve it too.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        home: Starlette,
        custom: Starlette,
        rules: Rules | None,
        guarded: bool,
        auth_first: bool,
    ) -> None:
        self._app, self._home = app, home
        self._routes = _own_routes(custom)
        theirs: ASGIApp = _without_middleware(custom)
        self._theirs = Door(theirs, rules=rules) if guarded else theirs
        self._ours = Door(self._at_home, rules=rules)
        self._entry: ASGIApp = self._choose
        for kind, arguments, options in reversed(custom.user_middleware):
            self._entry = kind(self._entry, *arguments, **options)
        if auth_first:
            self._entry = Door(self._entry, rules=rules, unguarded=None if guarded else self._is_theirs)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        await (self._app if scope["type"] == "lifespan" else self._entry)(scope, receive, send)

    async def _choose(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._theirs if self._is_theirs(scope) else self._ours)(scope, receive, send)

    async def _at_home(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self._home
        await self._app(scope, receive, send)

    def _is_theirs(self, scope: Scope) -> bool:
        """Tell whether a route of theirs fits, or fits but for the method while none of ours does."""
        fits = max((route.matches(scope)[0].value for route in self._routes), default=Match.NONE.value)
        if fits != Match.PARTIAL.value:
            return bool(fits == Match.FULL.value)
        return not any(route.matches(scope)[0] is Match.FULL for route in self._home.router.routes)


def merge_documents(ours: dict[str, Any], custom: Starlette) -> dict[str, Any]:
    """Return our OpenAPI document with the user's paths in it, those that are his alone if they differ."""
    describe = getattr(custom, "openapi", None)
    if describe is None:
        return ours
    theirs = describe()
    ours["paths"] = ours.get("paths", {}) | theirs.get("paths", {})
    for kind, named in theirs.get("components", {}).items():
        ours.setdefault("components", {})[kind] = named | ours.get("components", {}).get(kind, {})
    return ours


def _own_routes(custom: Starlette) -> list[BaseRoute]:
    """Return the routes without the pages that FastAPI makes of an application: they would hide ours."""
    paths = {getattr(custom, name, None) for name in _DOCUMENT_PATHS}
    return [route for route in custom.router.routes if getattr(route, "path", "") not in paths]


def _without_middleware(custom: Starlette) -> Starlette:
    """Return the application as it would be without the middleware that surrounds everything here."""
    bare = copy(custom)
    bare.user_middleware, bare.middleware_stack = [], None
    return bare
