"""Listing the keys of one namespace: paths by their index, at a cost that no other key raises."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

from stateroom.contract.items import ListKeys
from stateroom.drivers.postgres.rows import digest_of
from stateroom.drivers.postgres.session import CLOCK, LIVE, Session
from stateroom.model.file import PATH_START
from stateroom.model.item import KeyEntry
from stateroom.model.keys import first_behind, upper_bound
from stateroom.model.namespace import encode

__all__ = ["list_keys"]

HEAD: Final = 500
"""Characters of a key that the index on paths holds."""

_NAMESPACE: Final = "select n.id from stateroom.namespace n where n.digest = %(home)s"

_HEAD: Final = f'left(i.key, {HEAD}) collate "C"'

_PATH: Final = (
    f"i.namespace_id = ({_NAMESPACE}) and left(i.key, 1) = '{PATH_START}' "
    f"and {_HEAD} >= left({{least}}, {HEAD}) and {_HEAD} <= left(%(bound)s::text, {HEAD}) "
    'and i.key collate "C" >= {least} and i.key collate "C" < %(bound)s::text'
)
"""The condition that a key is in a range of paths, first by what the index holds and then by all of it."""

_ANY_KEY: Final = (
    'i.namespace_id = %(namespace)s and i.key collate "C" >= %(least)s::text '
    'and (%(bound)s::text is null or i.key collate "C" < %(bound)s::text)'
)
"""The condition that a key is in any range of keys."""

# Keys that agree in what the index holds come all or not at all, in any order.
_ROWS = f"""
{CLOCK} select {{facts}} from stateroom.item i where {_PATH.format(least="%(least)s::text")} and {{wanted}}
order by {_HEAD} fetch first (%(limit)s::bigint) rows with ties
"""

_SHOWN: Final = """
select coalesce(left(i.key, i.place), i.key) as shown, i.key, i.place,
    case when i.place is null then i.revision end as revision, i.updated_at, i.file_size, i.file_modified_at,
    case when i.place is null then i.raw end as raw
from (
    select {facts}, %(begin)s::integer + nullif(
        position(%(delimiter)s::text in substr(i.key, %(begin)s::integer + 1)), 0
    ) as place
    from stateroom.item i where {where} and {wanted} {page}
) i
"""
"""What a listing shows for each key; ``place`` is where a key is cut off, if it is."""

# Each step reads on from what is behind the last key that was shown. One that is rolled up is followed by a
# step of one row, so that what else it stands for is passed over; after others, steps double.
_STEPS = f"""
{CLOCK.replace("with", "with recursive", 1)},
walk(key, revision, updated_at, file_size, file_modified_at, raw, next, rows) as (
    select null::text, null::bigint, null::bigint, null::bigint, null::text, null::bytea,
        %(least)s::text, 1::bigint
    union all
    select s.* from walk w cross join lateral (
        select i.shown, i.revision, i.updated_at, i.file_size, i.file_modified_at, i.raw,
            case
                when i.following is not null then null
                when i.place is not null then left(i.shown, -1) || %(behind)s::text
                else i.key || chr(1)
            end,
            case when i.cuts then 1 else 2 * w.rows end
        from (
            select i.*, bool_or(i.place is not null) over () as cuts,
                lead(i.shown) over (order by i.key collate "C") as following
            from ({_SHOWN}) i
        ) i where i.following is distinct from i.shown
    ) s where w.next is not null
)
select key, revision, updated_at, file_size, file_modified_at, raw from walk where key is not null
limit %(limit)s
"""

_STEP: Final = f"order by {_HEAD} fetch first (w.rows) rows with ties"

_ALL = f"""
{CLOCK} select distinct on (i.shown collate "C")
    i.shown, i.revision, i.updated_at, i.file_size, i.file_modified_at, i.raw
from ({_SHOWN}) i order by i.shown collate "C" limit %(limit)s
"""


def list_keys(session: Session, operation: ListKeys) -> list[KeyEntry]:
    """Apply a ``ListKeys``."""
    prefix, delimiter, after = operation.prefix, operation.delimiter, operation.after
    least: str | None = prefix
    if after is not None:
        behind = first_behind(after, prefix, delimiter)
        least = None if behind is None else max(prefix, behind)
    if least is None or operation.limit == 0:
        return []
    parameters = {
        "home": digest_of(encode(operation.namespace)),
        "least": least,
        "bound": upper_bound(prefix),
        "limit": operation.limit,
        "suffix": operation.suffix,
        "containing": operation.containing,
        "delimiter": delimiter,
        "begin": len(prefix),
        "behind": None if delimiter is None else upper_bound(delimiter),
    }
    rows = _rows(session, operation, parameters)
    # Keys that agree in what the index holds are not in order yet, and there may be more than wanted.
    rows.sort(key=itemgetter(0))
    entries = map(KeyEntry._make, rows[: operation.limit])
    if delimiter is None:
        return list(entries)
    return [KeyEntry(entry.key) if entry.revision is None else entry for entry in entries]


def _rows(session: Session, operation: ListKeys, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return what is shown, each with the parts of an entry."""
    facts, wanted = _facts(operation), _wanted(operation)
    if not operation.prefix.startswith(PATH_START) or (operation.delimiter and not parameters["behind"]):
        return _rows_of_all(
            session, _ALL.format(facts=facts, where=_ANY_KEY, wanted=wanted, page=""), parameters
        )
    if operation.delimiter is None:
        return session.fetch(_ROWS.format(facts=facts, wanted=wanted), parameters, prepared=True)
    where = _PATH.format(least="w.next")
    sql = _STEPS.format(facts=facts, where=where, wanted=wanted, page=_STEP)
    return session.fetch(sql, parameters, prepared=True)


def _rows_of_all(session: Session, sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return what a look at all keys of the namespace shows, which is planned by how many those are."""
    namespaces = session.fetch(_NAMESPACE, parameters, prepared=True)
    return session.fetch(sql, {**parameters, "namespace": namespaces[0][0]}) if namespaces else []


def _facts(operation: ListKeys) -> str:
    """Return the columns that are read of an item ``i``."""
    raw = "i.raw" if operation.with_values else "null::bytea as raw"
    return f"i.key, i.revision, i.updated_at, i.file_size, i.file_modified_at, {raw}"


def _wanted(operation: ListKeys) -> str:
    """Return the condition that an item counts, apart from where its key is."""
    sql = LIVE
    if operation.suffix:
        sql += " and right(i.key, length(%(suffix)s::text)) = %(suffix)s::text"
    if operation.containing is not None:
        sql += " and position(%(containing)s::bytea in i.raw) > 0"
    return sql
