"""The namespaces at or below a prefix, as a condition on items."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from stateroom.drivers.postgres.session import CLOCK, LIVE, Session
from stateroom.drivers.postgres.where import Condition
from stateroom.model.namespace import Namespace, prefix_range

__all__ = ["PATH_BYTES", "Range", "Scope", "Widths", "count", "path_range"]

PATH_BYTES: Final = 1_000
"""Bytes of a path that the index on paths holds."""

FEW_NAMESPACES = 256
"""Namespaces up to which a search names each of them."""


PREFIXES_KNOWN = 1_000
"""Prefixes whose width is remembered."""


class Range(NamedTuple):
    """A condition on a column of paths, which an index on their first bytes serves, and its parameters."""

    sql: str
    parameters: dict[str, Any]


def path_range(low: bytes, high: bytes | None, column: str = "n.path") -> Range:
    """Return the condition that a path is at least ``low`` and before ``high`` (None: any path)."""
    if high is None:
        return Range("true", {})
    head, parameters = f"substring({column} for {PATH_BYTES})", {"low": low, "high": high}
    if len(low) <= PATH_BYTES:
        return Range(f"{head} >= %(low)s and {head} < %(high)s", parameters)
    sql = f"{head} = %(head)s and {column} >= %(low)s and {column} < %(high)s"
    return Range(sql, {**parameters, "head": low[:PATH_BYTES]})


class Widths:
    """Prefixes that were seen to have several namespaces, or too many to name each of them.

    It only saves asking: a prefix that has fewer by now is still searched rightly.
    """

    def __init__(self) -> None:
        self.several: set[Namespace] = set()
        self.wide: set[Namespace] = set()

    def note(self, known: set[Namespace], prefix: Namespace) -> None:
        """Remember a prefix in one of the two sets."""
        if len(known) >= PREFIXES_KNOWN:
            known.clear()
        known.add(prefix)


class Scope:
    """The part of the items that a search is about."""

    def __init__(self, session: Session, prefix: Namespace, widths: Widths | None = None) -> None:
        self.prefix = prefix
        self.is_all = not prefix
        self.is_wide = self.is_all or (widths is not None and prefix in widths.wide)
        self.range = path_range(*prefix_range(prefix))
        self.namespace_ids: list[int] = []
        if self.is_wide:
            return
        rows = session.fetch(
            f"select n.id from stateroom.namespace n where {self.range.sql} limit {FEW_NAMESPACES + 1}",
            self.range.parameters,
            prepared=True,
        )
        self.namespace_ids = [number for (number,) in rows]
        self.is_wide = len(rows) > FEW_NAMESPACES
        if self.is_wide and widths is not None:
            widths.note(widths.wide, prefix)

    @property
    def is_empty(self) -> bool:
        """Whether there is no namespace."""
        return not self.is_wide and not self.namespace_ids

    @property
    def single(self) -> int | None:
        """The id of the only namespace; None when there are several, or all."""
        return self.namespace_ids[0] if len(self.namespace_ids) == 1 else None

    @property
    def sql(self) -> str:
        """The condition that an item ``i`` is in the scope; its parameters are ``parameters``."""
        if self.is_all:
            return "true"
        if self.single is not None:
            return "i.namespace_id = %(namespace)s"
        if not self.is_wide:
            return "i.namespace_id = any(%(namespaces)s)"
        return f"i.namespace_id in (select n.id from stateroom.namespace n where {self.range.sql})"

    @property
    def looked_up(self) -> str:
        """What ``sql`` says of a wide scope, in a form that looks up the namespace of one item at a time."""
        if self.is_all:
            return self.sql
        within = "n.path >= %(low)s and n.path < %(high)s"
        return f"(select {within} from stateroom.namespace n where n.id = i.namespace_id)"

    @property
    def join(self) -> str:
        """The table that ``joined`` needs beside ``stateroom.item i``."""
        named = not self.is_wide or self.is_all
        return "" if named else "join stateroom.namespace n on n.id = i.namespace_id"

    @property
    def joined(self) -> str:
        """What ``sql`` says, in a form that leaves the planner free where to begin."""
        return self.range.sql if self.join else self.sql

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of ``sql``."""
        if self.is_all:
            return {}
        if self.single is not None:
            return {"namespace": self.single}
        return self.range.parameters if self.is_wide else {"namespaces": self.namespace_ids}


def count(session: Session, scope: Scope, condition: Condition | None) -> int:
    """Count the live items of a scope that match."""
    sql, parameters = condition or Condition("true", {})
    ((number,),) = session.fetch(
        f"{CLOCK} select count(*) from stateroom.item i where {scope.sql} and {LIVE} and {sql}",
        {**scope.parameters, **parameters},
    )
    return number  # type: ignore[no-any-return]  # what count returns
