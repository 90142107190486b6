"""Who sends a request, and what of the resources he may see: one answer a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends
from starlette.requests import HTTPConnection

from stateroom.service.scope import EVERYTHING, Principal, Scope

if TYPE_CHECKING:
    from stateroom.api.rules import Rules

__all__ = ["ACCESS", "OPEN", "Access", "AccessDep", "access_of"]

ACCESS: Final = "stateroom.access"
"""The key of a request's scope under which the door leaves its access."""


class Access:
    """What a request may do. ``principal`` is None where nobody has to say who he is."""

    __slots__ = ("_rules", "principal")

    def __init__(self, principal: Principal | None = None, rules: Rules | None = None) -> None:
        self.principal = principal
        self._rules = rules

    async def allow(self, resource: str, action: str, value: dict[str, Any]) -> Scope:
        """Return what of a resource the request may see, and act on.

        The rules are given ``value`` and may change it: take from it what to do. Raises Denied.
        """
        if self._rules is None or self.principal is None:
            return EVERYTHING
        return await self._rules.decide(self.principal, resource, action, value)


OPEN: Final = Access()
"""The access of everybody, on a server without rules."""


async def access_of(connection: HTTPConnection) -> Access:
    """Return the access that the door found for a request."""
    found = connection.scope[ACCESS]
    assert isinstance(found, Access)
    return found


AccessDep = Annotated[Access, Depends(access_of)]
