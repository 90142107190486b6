"""Rules of the kind that applications write, for the tests of authentication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
from langgraph_sdk import Auth

from stateroom.api.app import make_app
from tests.server.conftest import Running

__all__ = ["as_user", "beside", "owners", "people", "raising", "rule"]


def rule(answer: Callable[[Auth.types.AuthContext, dict[str, Any]], Any]) -> Any:
    """Return a handler that answers what a plain function does."""

    async def handler(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Any:
        return answer(ctx, value)

    return handler


def raising(error: Exception) -> Any:
    """Return a handler that raises."""

    def answer(*_: Any) -> None:
        raise error

    return rule(answer)


def as_user(name: str) -> dict[str, str]:
    """Return the headers of a user whom ``people`` knows."""
    return {"authorization": f"Bearer {name}"}


def people() -> Auth:
    """Return rules that know who a caller is, and nothing of what he may do."""
    auth = Auth()

    @auth.authenticate
    async def who(authorization: str | None) -> dict[str, Any]:
        scheme, _, name = (authorization or "").partition(" ")
        if scheme != "Bearer" or not name:
            raise Auth.exceptions.HTTPException(
                401, "say who you are", headers={"WWW-Authenticate": "Bearer"}
            )
        return {"identity": name, "permissions": ["read"], "team": f"team of {name}"}

    return auth


def owners() -> Auth:
    """Return rules by which everything but the store has an owner, and nobody else sees it."""
    auth = people()

    @auth.on(resources=["threads", "crons", "assistants"])
    async def own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str]:
        if ctx.resource == "assistants":
            # Those of the graphs belong to nobody, and everybody may run them.
            return {}
        metadata = value.get("metadata") or {}
        value["metadata"] = metadata | {"owner": ctx.user.identity}
        return {"owner": ctx.user.identity}

    return auth


def beside(running: Running, *, auth: Auth | None = None, **changes: Any) -> httpx.AsyncClient:
    """Return a client of another application over a server's parts, with other rules and settings."""
    parts = running.server.parts
    changed = replace(parts, auth=auth, settings=replace(parts.settings, **changes))
    return httpx.AsyncClient(transport=httpx.ASGITransport(make_app(changed)), base_url="http://x")
