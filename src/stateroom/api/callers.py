"""What a handler is told of a request, and the caller that comes of what it answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Final

import orjson
from langgraph_sdk.auth.types import StudioUser
from starlette.requests import HTTPConnection, Request
from starlette.routing import Match
from starlette.types import Message, Receive, Scope

from stateroom.errors import Misconfigured, StateroomError, Unauthenticated
from stateroom.model.json_values import to_json
from stateroom.service.scope import Principal

__all__ = ["STUDIO", "Injected", "User", "principal_of", "user_of"]


class User:
    """An authenticated caller as rules see him: his fields by name, and by key."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    @property
    def identity(self) -> str:
        """Who he is."""
        return str(self._fields["identity"])

    @property
    def display_name(self) -> str:
        """What to call him."""
        return str(self._fields.get("display_name") or self.identity)

    @property
    def is_authenticated(self) -> bool:
        """True: others do not come so far."""
        return True

    @property
    def permissions(self) -> list[str]:
        """What authentication says that he may."""
        return list(self._fields.get("permissions") or ())

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_fields"][name]
        except KeyError:
            raise AttributeError(f"the user has no {name}") from None

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __contains__(self, key: object) -> bool:
        return key in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field, or the default."""
        return self._fields.get(key, default)


class _Studio:
    """Studio, which shows its users no door: it names itself by a header.

    Anyone can send that header, so it counts from the machine itself alone, and not through a proxy.
    """

    header: Final = ("x-auth-scheme", "langsmith")
    _kind: Final = "StudioUser"
    _proxied: Final = ("forwarded", "x-forwarded-for", "x-real-ip")

    def __init__(self) -> None:
        name = "langgraph-studio-user"
        fields = {"identity": name, "display_name": name, "is_authenticated": True, "kind": self._kind}
        self.principal = Principal(name, ("authenticated",), fields | {"permissions": ["authenticated"]})

    def sends(self, scope: Scope) -> bool:
        """Tell whether a request is Studio's."""
        name, scheme = self.header
        connection = HTTPConnection(scope)
        if connection.headers.get(name) != scheme or any(one in connection.headers for one in self._proxied):
            return False
        try:
            return connection.client is not None and ip_address(connection.client.host).is_loopback
        except ValueError:
            return False

    def is_user(self, fields: Mapping[str, Any]) -> bool:
        """Tell whether a caller is Studio's."""
        return fields == self.principal.user


STUDIO: Final = _Studio()


def user_of(fields: Mapping[str, Any]) -> Any:
    """Return the object that rules know a caller by, from what is kept of him."""
    if STUDIO.is_user(fields):
        return StudioUser(str(fields["identity"]), is_authenticated=True)
    return User(fields)


def principal_of(found: Any) -> Principal:
    """Return the caller that an authenticator answered: an identity, an object of JSON or any object."""
    fields = dict(_fields(found))
    identity = fields.get("identity")
    if not isinstance(identity, str) or not identity:
        raise Misconfigured(
            f"auth: @auth.authenticate returned {type(found).__name__} without an identity; return a "
            'text, or a dict with "identity"',
            field="auth.path",
        )
    if fields.get("is_authenticated") is False:
        raise Unauthenticated()
    permissions = fields.get("permissions") or ()
    if isinstance(permissions, str):
        permissions = (permissions,)
    fields |= {"permissions": [str(one) for one in permissions]}
    fields.setdefault("display_name", identity)
    fields["is_authenticated"] = True
    return Principal(identity, tuple(fields["permissions"]), _json(fields))


def _fields(found: Any) -> Mapping[str, Any]:
    if isinstance(found, str):
        return {"identity": found}
    if isinstance(found, Mapping):
        return found
    if hasattr(found, "model_dump"):
        return dict(found.model_dump(mode="json"))
    named = {name: one for name, one in getattr(found, "__dict__", {}).items() if not name.startswith("_")}
    for name in ("identity", "permissions", "display_name", "is_authenticated"):
        if hasattr(found, name):
            named[name] = getattr(found, name)
    return named


def _json(fields: Mapping[str, Any]) -> dict[str, Any]:
    try:
        kept = to_json(fields, field="user")
    except StateroomError as error:
        raise Misconfigured(f"auth: @auth.authenticate returned a user that is not JSON: {error}") from error
    assert isinstance(kept, dict)
    return kept


class Injected:
    """What a handler's parameters ask for by their names, found in a request."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        parameters = inspect.signature(handler).parameters.values()
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        named = [one for one in parameters if one.kind not in kinds]
        for one in named:
            if one.name not in _SOURCES and one.default is inspect.Parameter.empty:
                raise Misconfigured(
                    f"auth: @auth.authenticate has a parameter {one.name}; what it can be given is "
                    + ", ".join(_SOURCES),
                    field="auth.path",
                )
        self._names = [one.name for one in named if one.name in _SOURCES]

    async def values(self, scope: Scope, body: Callable[[], Receive]) -> dict[str, Any]:
        """Return the handler's arguments; ``body`` returns what reads the request's body from its start."""
        found: dict[str, Any] = {}
        for name in self._names:
            value = _SOURCES[name](scope, body)
            found[name] = await value if inspect.isawaitable(value) else value
        return found


def _request(scope: Scope, body: Callable[[], Receive]) -> HTTPConnection:
    """Return the request for use on another loop, from where its body can be read."""
    return Request(scope, _from_elsewhere(body())) if scope["type"] == "http" else HTTPConnection(scope)


def _from_elsewhere(receive: Receive) -> Receive:
    home = asyncio.get_running_loop()

    async def receive_at_home() -> Message:
        return await receive()

    async def receive_there() -> Message:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(receive_at_home(), home))

    return receive_there


async def _body(scope: Scope, body: Callable[[], Receive]) -> Any:
    """Return what the body holds as JSON, None if it does not."""
    if scope["type"] != "http":
        return None
    try:
        return orjson.loads(await Request(scope, body()).body())
    except orjson.JSONDecodeError:
        return None


def _path_params(scope: Scope, _: Callable[[], Receive]) -> dict[str, Any]:
    """Return what the path names, by the route that it is going to lead to."""
    for route in scope["app"].router.routes:
        match, found = route.matches(scope)
        if match is Match.FULL:
            return dict(found.get("path_params", {}))
    return {}


_SOURCES: Final[dict[str, Callable[[Scope, Callable[[], Receive]], Any | Awaitable[Any]]]] = {
    "request": _request,
    "body": _body,
    "path": lambda scope, _: scope["path"],
    "method": lambda scope, _: scope.get("method", "GET"),
    "path_params": _path_params,
    "query_params": lambda scope, _: dict(HTTPConnection(scope).query_params),
    "headers": lambda scope, _: dict(scope["headers"]),
    "authorization": lambda scope, _: HTTPConnection(scope).headers.get("authorization"),
    "scope": lambda scope, _: scope,
}
