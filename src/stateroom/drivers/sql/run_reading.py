"""How runs are looked up: by one walk of an index for each status that counts, whatever the table holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from stateroom.contract.runs import RunQuery
from stateroom.drivers.sql.dialect import Row, Session
from stateroom.drivers.sql.documents import checked_id
from stateroom.drivers.sql.run_rows import SQL, run_of
from stateroom.errors import InvalidPage
from stateroom.model.limits import PAGE_NUMBER_MAX
from stateroom.model.page import ROWS_MAX
from stateroom.model.paging import NEWEST, Page, Place, cursor, place
from stateroom.model.run import Run, RunStatus
from stateroom.model.text import show

__all__ = ["before", "count", "oldest", "page", "walk"]


class Walk(NamedTuple):
    """Which runs are walked: those with a status of a thread, of all threads, or with some ids."""

    place: str
    statuses: tuple[RunStatus, ...]
    parameters: Mapping[str, Any]

    def statement(self, order: Literal["newest", "oldest"]) -> str:
        """Return the statement that walks them in an order."""
        return _statement(order, self.place, self.statuses)


def walk(query: RunQuery, among: Iterable[RunStatus] = RunStatus) -> Walk:
    """Return what to walk for the runs that fit a query and have a status ``among`` these."""
    asked = set(RunStatus) if query.statuses is None else set(map(RunStatus, query.statuses))
    statuses = tuple(sorted(asked.intersection(among)))
    thread_id = None if query.thread_id is None else checked_id(query.thread_id, "thread_id")
    if query.run_ids is not None:
        ids = sorted({checked_id(run_id, "run_ids") for run_id in query.run_ids})
        parameters = {"run_ids": ids, "statuses": list(statuses), "thread_id": thread_id}
        return Walk("_of_ids", statuses, parameters)
    if thread_id is not None:
        return Walk("_of_thread", statuses, {"thread_id": thread_id})
    return Walk("", statuses, {})


@cache
def _statement(order: Literal["newest", "oldest"], place: str, statuses: tuple[RunStatus, ...]) -> str:
    if place == "_of_ids":
        return SQL[order + place]
    if not place and len(statuses) == len(RunStatus):
        return SQL[order]
    one = SQL[f"{order}{place}_with_status"]
    walks = [one.replace("{one}", f"'{status.value}'") for status in statuses]
    each = " union all ".join(f"select * from ({walk}) as its" for walk in walks)  # noqa: S608  # our own
    return f"{each} order by seq {'desc' if order == 'newest' else 'asc'} limit :most"


def before(after: str | None) -> int:
    """Return the place before which a page goes on; raise InvalidPage for what is no cursor of runs."""
    if after is None:
        return PAGE_NUMBER_MAX
    value = place(after, NEWEST).value
    if not isinstance(value, int):
        raise InvalidPage(
            f"after is {show(after)}, which no list of runs answered as its next", field="after"
        )
    return value


def page(session: Session, asked: Walk, before: int, limit: int, offset: int) -> Page[Run]:
    """Return a page of the newest runs; both statements must see one snapshot."""
    if not asked.statuses:
        return Page([])
    bounds = {"before": before, "most": offset + limit + 1}
    rows = session.fetch(asked.statement("newest"), {**asked.parameters, **bounds}, planned=True)
    places = [seq for (seq,) in rows[offset:]]
    runs = [run_of(row) for row in session.fetch(SQL["rows"], {"places": places[:limit]})]
    if not runs or len(places) <= limit:
        return Page(runs)
    return Page(runs, cursor(NEWEST, Place(places[limit - 1], runs[-1].run_id)))


def count(session: Session, asked: Walk, at_most: int | None) -> int:
    """Return how many runs there are, counting no further than ``at_most``."""
    if not asked.statuses:
        return 0
    bounds = {"before": PAGE_NUMBER_MAX, "most": ROWS_MAX if at_most is None else at_most}
    counted = f"select count(*) from ({asked.statement('newest')}) as counted"  # noqa: S608  # our own
    ((runs,),) = session.fetch(counted, {**asked.parameters, **bounds}, planned=True)
    return int(runs)


def oldest(session: Session, asked: Walk, limit: int) -> list[Row]:
    """Return place, id and thread's id of the runs first made."""
    if not asked.statuses:
        return []
    return session.fetch(asked.statement("oldest"), {**asked.parameters, "most": limit}, planned=True)
