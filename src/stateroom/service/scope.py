"""Who asks, and what of the resources he may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stateroom.errors import NotFound
from stateroom.model.metadata import contains

__all__ = ["EVERYTHING", "Principal", "Scope"]


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. ``user`` is a JSON object: everything that authentication said of him."""

    identity: str
    permissions: tuple[str, ...] = ()
    user: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """What one request may see and do.

    ``principal`` is None where nobody has to say who he is. ``metadata`` is what whatever the request names
    or finds must contain, None: anything. It never comes from a body.
    """

    principal: Principal | None = None
    metadata: Mapping[str, Any] | None = None

    def sees(self, metadata: Mapping[str, Any]) -> bool:
        """Tell whether something with this metadata is within the scope."""
        return self.metadata is None or contains(metadata, self.metadata)

    def check(self, metadata: Mapping[str, Any] | None, what: str, identity: str) -> None:
        """Raise NotFound, the same for what is not there (None) as for what is somebody else's."""
        if metadata is None or not self.sees(metadata):
            raise NotFound(f"there is no {what} {identity!r}", field=f"{what}_id")


EVERYTHING = Scope()
"""The scope of a server without authentication, and of the server itself."""
