"""The HNSW index of vectors: building it, moving new vectors into it, and searching it.

A put leaves its vectors outside the index, as inserting there takes milliseconds. A search reads those that
are not in it yet beside what the index finds, and the upkeep moves them in.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final

import psycopg

from stateroom.drivers.postgres.nearest import ORDER, best_of_items
from stateroom.drivers.postgres.pgvector import Dialect, encoded
from stateroom.drivers.postgres.session import CLOCK, Session
from stateroom.drivers.postgres.target import Target
from stateroom.drivers.postgres.text_search import Scored

__all__ = ["build", "delta_size", "indexes", "is_built", "merge", "near"]

Connect = Callable[[], AbstractContextManager[Session]]

EXACT_CANDIDATES = 8_000
"""Items up to which an exact search is quicker, if they are few beside all others."""

EXACT_ALWAYS = 3_000
"""Items up to which an exact search is quicker, however many others there are."""

EXACT_SHARE = 0.1
"""The share of all items up to which ``EXACT_CANDIDATES`` holds."""

SLACK = 1.5
"""How many times as many vectors the index is asked for as are expected to do."""

ATTEMPTS = 2
"""How often the index is asked, before an exact search fills the page."""

LOOKED_MAX = 500
"""Vectors that the index is asked for at most; an exact search answers a page that needs more."""

EF_MARGIN = 75
EF_STEP = 50
EF_MOST = 1_000
"""Candidates that a search in the index keeps: so many more than it is asked for, in steps, and at most."""

PROGRESS_SECONDS = 10.0
"""How often the log is told how far the building is."""

BUILD_KIB_MAX = 1024 * 1024
"""Memory that a build takes at most beyond what the server is set to."""

_NO_LIMIT: Final = 1_000_000_000_000

_ITERATIVE: Final = (0, 8)

_log = logging.getLogger(__name__)

_INDEXES = """
select c.relname, x.indisvalid from pg_index x join pg_class c on c.oid = x.indexrelid
join pg_am m on m.oid = c.relam
where x.indrelid = to_regclass('stateroom.vector') and m.amname = 'hnsw'
"""

_PROGRESS = """
select phase, coalesce(100.0 * blocks_done / nullif(blocks_total, 0), 0)::float8, tuples_done
from pg_stat_progress_create_index where relid = to_regclass('stateroom.vector')
"""

_DELTA: Final = "v.indexed is not true and not v.indexed"

_MERGE = f"""
update stateroom.vector v set indexed = true from (
    select v.revision, v.ordinal from stateroom.vector v where {_DELTA}
    order by v.revision limit %(limit)s for update skip locked
) w where v.revision = w.revision and v.ordinal = w.ordinal
"""  # constants only

# Each half of the union is limited by what all searches may be: a limit keeps the estimate in one piece.
_ESTIMATE = """
explain (format json)
(select 1 from stateroom.item i where {matches} limit %(most)s)
union all (select 1 from stateroom.item i limit %(most)s)
"""

# What is farther than the farthest that the index gave may have nearer ones that it did not give.
_NEAR = """
{CLOCK}, near as materialized (
    select v.address, v.updated_at, v.revision, {distance} as distance from stateroom.vector v
    where v.indexed and (select {settings}) is not null
    order by {distance} limit %(looked)s
), bound as (
    select max(near.distance) as distance from near
), candidate as (
    select * from near union all
    select v.address, v.updated_at, v.revision, {distance} from stateroom.vector v
    where v.indexed is not true
)
select bound.distance, v.address, v.score, v.updated_at, v.revision from bound left join (
    select v.address, v.score, v.updated_at, v.revision from (
        select c.address, {score} as score, c.updated_at, c.revision from candidate c
        where {score} >= (select {bound_score} from bound)
        order by 2 desc
    ) v cross join lateral (
        select 1 from stateroom.item i where i.address = v.address and i.revision = v.revision and {where}
        offset 0
    ) i order by {ORDER} limit %(looked)s
) v on true order by {ORDER}
"""


def indexes(session: Session) -> dict[str, bool]:
    """Return the names of the HNSW indexes that there are, and whether each is complete."""
    return dict(session.fetch(_INDEXES))


def is_built(session: Session, dialect: Dialect) -> bool:
    """Tell whether the index for the metric is there and complete, and no other."""
    return indexes(session) == {_name(dialect): True}


def build(session: Session, dialect: Dialect, connect: Connect) -> None:
    """Build the index for the metric while everybody goes on writing, and drop those for others.

    What remains of a build that was interrupted is dropped first.
    """
    name, found = _name(dialect), indexes(session)
    if not found.get(name):
        if name in found:
            _log.warning("building the index %s anew, since building it was interrupted", name)
            session.script(f"drop index concurrently if exists stateroom.{name}")
        _log.info("building the index %s; puts go on meanwhile", name)
        with _memory(session), _progress(connect, name):
            session.script(
                f"create index concurrently {name} on stateroom.vector "
                f"using hnsw (embedding {dialect.opclass}) where indexed"
            )
        _log.info("built the index %s", name)
    for other in found.keys() - {name}:
        _log.info("dropping the index %s, since index.distance_type is another now", other)
        session.script(f"drop index concurrently if exists stateroom.{other}")


def delta_size(session: Session) -> int:
    """Return how many vectors wait to be moved into the index."""
    ((number,),) = session.fetch(f"select count(*) from stateroom.vector v where {_DELTA}")
    return number  # type: ignore[no-any-return]  # what count returns


def merge(session: Session, limit: int) -> int:
    """Move at most ``limit`` vectors into the index, those that nobody else is moving; return how many."""
    return session.execute(_MERGE, {"limit": limit})


def near(session: Session, dialect: Dialect, target: Target, need: int) -> list[Scored] | None:
    """Return the nearest items, at most ``need``, best first, nearly all of them rightly.

    None means that an exact search is the better way, or the only one that fills the page.
    """
    if dialect.distance_type == "cosine" and not target.vector.any():
        return None
    share = _share(session, target)
    if share is None:
        return None
    for _ in range(ATTEMPTS):
        looked = math.ceil(need * SLACK / share)
        if looked > LOOKED_MAX:
            return None
        rows = _ask(session, dialect, target, looked)
        found = best_of_items(Scored(*row) for _, *row in rows if None not in row)
        if len(found) >= need or _is_below(dialect, rows[0][0], target.least):
            return found[:need]
        # Fewer match than was thought, or items have several vectors.
        share = min(share / 2, max(1, len(found)) / looked)
    return None


def _name(dialect: Dialect) -> str:
    return f"vector_hnsw_{dialect.distance_type}"


def _share(session: Session, target: Target) -> float | None:
    """Return which share of all items a search is about, as far as Postgres knows; None when they are few."""
    if target.is_everything:
        return 1.0
    sql = _ESTIMATE.format(matches=target.matches)
    (((plan,),),) = session.fetch(sql, {**target.parameters, "most": _NO_LIMIT})
    matching, total = (max(1, part["Plan Rows"]) for part in plan["Plan"]["Plans"])
    if matching <= EXACT_ALWAYS or (matching <= EXACT_CANDIDATES and matching <= EXACT_SHARE * total):
        return None
    return min(1.0, matching / total)  # type: ignore[no-any-return]  # numbers of a JSON document


def _ask(session: Session, dialect: Dialect, target: Target, looked: int) -> list[tuple[Any, ...]]:
    """Return rows of the distance up to which the answer is complete, and a vector, or null."""
    # Pages of one query that are searched alike agree on the order.
    ef = min(math.ceil((looked + EF_MARGIN) / EF_STEP) * EF_STEP, EF_MOST)
    settings = "set_config('hnsw.ef_search', %(ef)s, true)"
    if dialect.version >= _ITERATIVE:
        settings += " || set_config('hnsw.iterative_scan', 'strict_order', true)"
    sql = _NEAR.format(
        CLOCK=CLOCK,
        ORDER=ORDER,
        distance=dialect.distance,
        score=dialect.score("c.distance"),
        bound_score=dialect.score("bound.distance"),
        settings=settings,
        where=target.where,
    )
    parameters = {
        **target.parameters,
        "query": encoded(target.vector, dialect.vector_type),
        "ef": str(ef),
        "looked": looked,
    }
    return session.fetch(sql, parameters)


def _is_below(dialect: Dialect, distance: float | None, least: float | None) -> bool:
    """Tell whether all that is farther scores below the least score wanted."""
    if distance is None or least is None:
        return False
    return (1.0 - distance if dialect.distance_type == "cosine" else -distance) < least


@contextmanager
def _memory(session: Session) -> Iterator[None]:
    """Let a build have as much memory as it can use, within bounds: without it, it takes far longer."""
    ((size, setting),) = session.fetch(
        "select pg_relation_size('stateroom.vector') / 1024 * 3 / 2, "
        "(select s.setting::bigint from pg_settings s where s.name = 'maintenance_work_mem')"
    )
    wanted = min(size, BUILD_KIB_MAX)
    # Behind a pooler a setting would stay with a connection that others get.
    if wanted <= setting or not session.prepares:
        yield
        return
    session.script(f"set maintenance_work_mem = '{wanted}kB'")
    try:
        yield
    finally:
        session.script("reset maintenance_work_mem")


@contextmanager
def _progress(connect: Connect, name: str) -> Iterator[None]:
    """Tell the log now and then how far a build is."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(PROGRESS_SECONDS):
            # Somebody else may have the last connection; the building does not depend on this.
            with suppress(psycopg.Error), connect() as session:
                for phase, percent, tuples in session.fetch(_PROGRESS):
                    _log.info("building the index %s: %s, %.0f %%, %d vectors", name, phase, percent, tuples)

    thread = threading.Thread(target=watch, name="stateroom-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
