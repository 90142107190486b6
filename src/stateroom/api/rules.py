"""The application's own rules, a ``langgraph_sdk.Auth``, asked who a caller is and what he may do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from langgraph_sdk import Auth
from langgraph_sdk.auth.types import AuthContext

from stateroom.api.callers import STUDIO, Injected, principal_of, user_of
from stateroom.engine.scoped_store import ScopedStores
from stateroom.errors import Denied, Misconfigured, StateroomError, Unauthenticated
from stateroom.model.namespace import WILDCARD, check_key, check_namespace, has_prefix
from stateroom.service.scope import Principal
from stateroom.service.scope import Scope as Visible

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

    from stateroom.engine.loops import Loops

__all__ = ["Rules", "metadata_of", "scoped_stores"]

_FALLBACKS: Final = {"crons": "threads"}
"""Resources that without a rule of their own go by another's."""

_KEYED: Final = ("put", "get", "delete")
_SCALARS: Final = (str, int, float, type(None))


class Rules:
    """An ``Auth`` whose handlers run on the loops for users' code, never on that of HTTP.

    Of several handlers the most specific one decides alone: the one for the resource and the action, then
    for the resource, for the action of any resource, for everything. Without one, all is allowed, except in
    the store, see ``decide``.
    """

    def __init__(self, auth: Auth, loops: Loops, *, studio: bool = True) -> None:
        authenticate = auth._authenticate_handler
        if authenticate is None:
            raise Misconfigured(
                "auth: the Auth object does not say who a caller is; add a function with @auth.authenticate",
                field="auth.path",
            )
        self._auth, self._loops, self._studio = auth, loops, studio
        self._authenticate = authenticate
        self._injected = Injected(authenticate)

    @property
    def rule_the_store(self) -> bool:
        """Tell whether there are rules for the store itself."""
        return any(resource == "store" for resource, _ in self._auth._handlers)

    async def authenticate(self, scope: Scope, body: Callable[[], Receive]) -> Principal:
        """Return who sends a request; raise Unauthenticated, or what the handler raises.

        ``body`` returns what reads the request's body from its start.
        """
        if self._studio and STUDIO.sends(scope):
            return STUDIO.principal
        given = await self._injected.values(scope, body)
        try:
            found = await self._loops.run(lambda: _called(self._authenticate, given))
        except AssertionError as error:
            raise Unauthenticated(str(error) or None) from error
        return principal_of(found)

    async def decide(
        self, principal: Principal, resource: str, action: str, value: dict[str, Any]
    ) -> Visible:
        """Return what the caller may see, having let the rule change ``value``; raise Denied.

        Where the store has no rule for what is asked, a caller is confined to namespaces that begin with his
        identity, whatever the rule for everything says beside.
        """
        return await self._loops.run(lambda: self.decide_here(principal, resource, action, value))

    async def decide_here(
        self, principal: Principal, resource: str, action: str, value: dict[str, Any]
    ) -> Visible:
        """Do what ``decide`` does, on the present loop."""
        handler, own = self._handler(resource, action)
        if resource == "store" and value.get("namespace") is not None:
            # What is wrong with it from here on is the rule's fault.
            value["namespace"] = check_namespace(value["namespace"])
        what = f"{resource}.{action}"
        found: Any = None
        if handler is not None:
            user = user_of(principal.user)
            context = AuthContext(
                permissions=principal.permissions,
                user=user,
                resource=resource,  # type: ignore[arg-type]  # one of those it names
                action=action,  # type: ignore[arg-type]  # as above
            )
            try:
                found = await handler(ctx=context, value=value)
            except AssertionError as error:
                raise Denied(str(error) or f"you may not do this: {what}") from error
            if found is False:
                raise Denied(f"you may not do this: {what}")
        if resource == "store":
            _check_store(principal, action, value, found, ruled=own)
            return Visible(principal)
        return Visible(principal, metadata_of(found, what))

    def _handler(self, resource: str, action: str) -> tuple[Callable[..., Any] | None, bool]:
        """Return the handler that decides, and whether it is one for the resource."""
        registered = self._auth._handlers
        for own in filter(None, (resource, _FALLBACKS.get(resource))):
            for key in ((own, action), (own, "*")):
                if registered.get(key):
                    return registered[key][-1], own == resource
        for handlers in (registered.get(("*", action)), self._auth._global_handlers):
            if handlers:
                return handlers[-1], False
        return None, False


def metadata_of(found: Any, what: str) -> Mapping[str, Any] | None:
    """Return the metadata that a handler's filter asks for, to be contained in whatever is found.

    Raises Misconfigured for what metadata that contains something cannot express, since to pass over it
    would show more than the handler allows.
    """
    if found is None or found is True or found == {}:
        return None
    if not isinstance(found, Mapping):
        raise _unusable(what, f"returned {type(found).__name__}; return None, True, False or a filter")
    return {key: _contained(key, wanted, what) for key, wanted in found.items()}


def _contained(key: Any, wanted: Any, what: str) -> Any:
    if not isinstance(key, str) or key.startswith("$"):
        raise _unusable(what, f"filters by {key!r}; name a key of the metadata")
    if isinstance(wanted, _SCALARS):
        return wanted
    if isinstance(wanted, Mapping) and len(wanted) == 1:
        ((operator, operand),) = wanted.items()
        if operator == "$eq" and isinstance(operand, _SCALARS):
            return operand
        if operator == "$contains" and isinstance(operand, _SCALARS):
            return [operand]
        if operator == "$contains" and isinstance(operand, list | tuple) and _all_scalars(operand):
            return list(operand)
    raise _unusable(
        what, f'filters {key!r} by something else than a value, {{"$eq": value}} or {{"$contains": values}}'
    )


def _all_scalars(values: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(one, _SCALARS) for one in values)


def _check_store(
    principal: Principal, action: str, value: dict[str, Any], found: Any, *, ruled: bool
) -> None:
    """Take what a rule made of a namespace and a key; without one for the store, confine the caller."""
    if ruled and found is not None and found is not True:
        raise _unusable(f"store.{action}", "returned a filter; rewrite value['namespace'] instead")
    try:
        namespace = value.get("namespace")
        value["namespace"] = () if namespace is None else check_namespace(namespace)
        if action in _KEYED:
            value["key"] = check_key(value.get("key"))
    except StateroomError as error:
        raise Misconfigured(f"auth: the rule for store.{action} rewrote what it must not: {error}") from error
    if not ruled:
        value["namespace"] = _confined(principal.identity, action, value["namespace"])


def _confined(identity: str, action: str, namespace: tuple[str, ...]) -> tuple[str, ...]:
    own = (identity,)
    if action in ("search", "list_namespaces") and not namespace:
        namespace = own
    # Where namespaces are listed, a label of this kind stands for any.
    if has_prefix(namespace, own) and not (action == "list_namespaces" and identity == WILDCARD):
        return namespace
    raise Denied(
        f"the namespace {list(namespace)} is not yours: without a rule (@auth.on.store) you may use "
        "those alone whose first label is your identity",
        field="namespace",
    )


def _unusable(what: str, why: str) -> Misconfigured:
    return Misconfigured(f"auth: the rule for {what} {why}", field="auth.path")


def _called(handler: Callable[..., Any], given: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
    async def call() -> Any:
        found = handler(**given)
        return await found if inspect.isawaitable(found) else found

    return call()


def scoped_stores(auth: Auth | None, store: Any, loops: Loops) -> ScopedStores | None:
    """Return what hands runs their users' stores, over a ``BaseStore``; None where no rule is for the store.

    Without such a rule graphs, which are the application's own code, use the whole store.
    """
    if auth is None:
        return None
    rules = Rules(auth, loops)
    if not rules.rule_the_store:
        return None

    async def ask(user: Mapping[str, Any], action: str, value: dict[str, Any]) -> None:
        permissions = tuple(user.get("permissions") or ())
        await rules.decide_here(Principal(user["identity"], permissions, user), "store", action, value)

    return ScopedStores(store, ask, loops)
