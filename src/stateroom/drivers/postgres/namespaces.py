"""Listing the namespaces that hold something."""

from __future__ import annotations

from typing import Any, Final

from stateroom.contract.items import ListNamespaces
from stateroom.drivers.postgres.scope import PATH_BYTES, path_range
from stateroom.drivers.postgres.session import CLOCK, LIVE, Session
from stateroom.model.namespace import WILDCARD, Match, Namespace, decode, prefix_range

__all__ = ["list_namespaces"]

_ORDER: Final = f"order by substring(n.path for {PATH_BYTES}), n.path"

_HOLDS: Final = f"exists (select 1 from stateroom.item i where i.namespace_id = n.id and {LIVE} offset 0)"


def list_namespaces(session: Session, operation: ListNamespaces) -> list[Namespace]:
    """Apply a ``ListNamespaces``."""
    sql, parameters = _conditions(operation.matches)
    page = f"limit {operation.limit} offset {operation.offset}"
    if operation.limit == 0:
        return []
    if operation.max_depth is None:
        rows = session.fetch(
            f"{CLOCK} select n.path from stateroom.namespace n where {sql} and {_HOLDS} {_ORDER} {page}",
            parameters,
            prepared=not parameters,
        )
        return [decode(path) for (path,) in rows]
    # With a wildcard most namespaces that a step could go to may not match, so all are looked at once.
    cut = _cut_all if any(WILDCARD in match.path for match in operation.matches) else _cut
    rows = session.fetch(f"{cut(sql)} {page}", parameters | {"depth": operation.max_depth})
    return [tuple(labels) for (labels,) in rows]


def _cut_all(sql: str) -> str:
    """Return the statement that cuts all namespaces and drops duplicates."""
    return (
        f'{CLOCK} select distinct n.labels[1:%(depth)s] collate "C" as labels from stateroom.namespace n '
        f"where {sql} and {_HOLDS} order by 1"
    )


def _cut(sql: str) -> str:
    """Return the statement that goes from one namespace cut to ``depth`` straight to the next one.

    What follows a namespace of that depth, or deeper, lies behind all that begin with the same labels.
    """
    first = (
        f"select n.labels, n.path from stateroom.namespace n where {sql} and {_HOLDS} "
        f"{{after}} {_ORDER} limit 1"
    )
    after = (
        f"and substring(n.path for {PATH_BYTES}) >= substring(c.after for {PATH_BYTES}) and n.path >= c.after"
    )
    step = (
        "select f.labels[1:%(depth)s], case when cardinality(f.labels) < %(depth)s then f.path || '\\x00' "
        "else substring(f.path for (select sum(octet_length(convert_to(l, 'UTF8')) + 1)::integer - 1 "
        "from unnest(f.labels[1:%(depth)s]) l)) || '\\x01' end"
    )
    return (
        f"{CLOCK.replace('with', 'with recursive', 1)}, cut(labels, after) as ("
        f"({step} from ({first.format(after='')}) f) union all "
        f"select s.* from cut c cross join lateral ({step} from ({first.format(after=after)}) f) "
        "s(labels, after)) select labels from cut"
    )


def _conditions(matches: tuple[Match, ...]) -> tuple[str, dict[str, Any]]:
    """Return the conditions on a namespace ``n``: the plain part of each by an index, the rest by label."""
    parts, parameters = ["true"], {}
    for place, match in enumerate(matches):
        reverse = match.kind == "suffix"
        path = match.path[::-1] if reverse else match.path
        plain = path[: path.index(WILDCARD)] if WILDCARD in path else path
        found = path_range(*prefix_range(plain), "n.path_reversed" if reverse else "n.path")
        sql = found.sql
        for name, value in found.parameters.items():
            sql = sql.replace(f"%({name})s", f"%(m{place}_{name})s")
            parameters[f"m{place}_{name}"] = value
        parts.append(sql)
        parts.append(f"cardinality(n.labels) >= {len(path)}")
        for depth, label in enumerate(path):
            if depth >= len(plain) and label != WILDCARD:
                position = f"cardinality(n.labels) - {depth}" if reverse else str(depth + 1)
                parts.append(f"n.labels[{position}] = %(m{place}_{depth})s")
                parameters[f"m{place}_{depth}"] = label
    return " and ".join(parts), parameters
