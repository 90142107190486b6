"""Reading all records below a namespace, completely, from a server that pages without promises."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final, TypeAlias

from stateroom.drivers.aegis.protocol import PAGE_MAX, Steps, accepted
from stateroom.errors import Unavailable

__all__ = ["scan"]

PAGES_MAX: Final = 5
"""Pages of one namespace that are read before the store is exported as a whole.

Each page costs the server a look at all records of the namespace, an export one at each of the store.
"""

Record: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[int, int], bytes]


def scan(
    search: Ask, export: Ask, *, page: int, exports_at_once: bool, can_export: bool
) -> Steps[list[Record]]:
    """Return the records that ``search`` finds, and perhaps others that an export of the store brought along.

    ``search`` makes a request for so many records from an offset on, ``export`` one for so many behind
    an id. A search orders by creation, which no update changes, so that new records come last; but
    it may order those of one moment differently each time, and a deletion moves all behind it up.
    So each page begins with the last record of the one before: if that is still there, and nothing
    comes twice, nothing is missing. Otherwise, and where there is much to read, an export goes by id,
    which is complete. A store without an ``agent_id`` has no export.
    """
    if exports_at_once:
        return (yield from _export(export, page))
    found: dict[int, Record] = {}
    last = None
    for number in count():
        # The first record of a page is known but for the very first one's.
        overlap = min(1, number)
        size = min(page + overlap, PAGE_MAX)
        if can_export and number == PAGES_MAX:
            break
        records: list[Record] = accepted((yield [search(size, len(found) - overlap)])[0])["records"]
        fresh = {int(record["id"]): record for record in records[overlap:]}
        is_joined = not overlap or (len(records) > 0 and int(records[0]["id"]) == last)
        if not is_joined or len(fresh) < len(records) - overlap or found.keys() & fresh.keys():
            break
        found |= fresh
        if len(records) < size:
            return list(found.values())
        last = int(records[-1]["id"])
    if can_export:
        return (yield from _export(export, page))
    raise Unavailable(
        "the items could not be read as they were at one time; with an agent_id they can be exported instead"
    )


def _export(export: Ask, page: int) -> Steps[list[Record]]:
    found: list[Record] = []
    after, has_more = 0, True
    while has_more:
        answer = accepted((yield [export(page, after)])[0])
        found += answer["records"]
        after, has_more = answer["cursor"], bool(answer["has_more"])
    return found
