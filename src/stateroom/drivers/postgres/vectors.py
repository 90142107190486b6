"""The vectors of items: keeping them beside the items, and finding the nearest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg import errors

from stateroom.contract.items import Put
from stateroom.drivers.postgres import hnsw
from stateroom.drivers.postgres.arrays import bigints, byteas, integers, uuids
from stateroom.drivers.postgres.database import Database
from stateroom.drivers.postgres.nearest import best_of_items, exact
from stateroom.drivers.postgres.pgvector import (
    MAX_COLUMN_DIMS,
    Dialect,
    encoded,
    encoded_array,
    parse_version,
    quoted,
    rounded,
)
from stateroom.drivers.postgres.rows import address_of
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.target import Target
from stateroom.drivers.postgres.text_search import Scored
from stateroom.errors import Misconfigured
from stateroom.model.item import Record
from stateroom.search.index_config import IndexSettings

__all__ = ["Vectors"]

MERGE_FROM = 1_000
"""Vectors outside the HNSW index from which the upkeep moves them in."""

ORPHANS_LOOKED = 1_024
"""Vectors that the upkeep looks at for whether an item still has them, twice as many as are put meanwhile."""

MERGE_VECTORS = 50
"""Vectors that one statement moves into the HNSW index, at some milliseconds each."""

_log = logging.getLogger(__name__)

_LEAST_VERSIONS: Final = {"halfvec": (0, 7), "hnsw": (0, 5), "iterative scans": (0, 8)}

_STATE = """
select x.extversion, n.nspname, t.oid, held.type, held.dims,
    (select s.value from stateroom.setting s where s.name = 'vector_embed')
from pg_extension x join pg_namespace n on n.oid = x.extnamespace
left join pg_type t on t.typname = %(type)s and t.typnamespace = n.oid
left join lateral (
    select c.typname as type, a.atttypmod as dims from pg_attribute a join pg_type c on c.oid = a.atttypid
    where a.attrelid = to_regclass('stateroom.vector') and a.attname = 'embedding'
) held on true
where x.extname = 'vector'
"""

# A vector belongs to one revision of an item, and so can never be found for another value. ``indexed``
# says that the HNSW index has it, if there is one; null, that it never will, since its numbers are all 0.
_CREATE = """
create table if not exists stateroom.vector (
    revision bigint not null,
    updated_at bigint not null,
    address uuid not null,
    ordinal integer not null,
    indexed boolean,
    digest bytea not null,
    embedding {type}({dims}) not null,
    primary key (revision, ordinal)
);
alter table stateroom.vector alter embedding set storage main;
create index if not exists vector_of_item on stateroom.vector (address);
create index if not exists vector_not_indexed on stateroom.vector (indexed, revision)
    where indexed is not true
"""

_DROP: Final = "drop table stateroom.vector"

_FORGET_OLD = """
delete from stateroom.vector v
where v.address = any(%(addresses)s::uuid[]) and v.revision <> all(%(revisions)s::bigint[])
"""

_WRITE = f"""
with old as ({_FORGET_OLD})
insert into stateroom.vector (revision, updated_at, address, ordinal, indexed, digest, embedding)
select * from unnest(
    %(of_revisions)s::bigint[], %(times)s::bigint[], %(of_addresses)s::uuid[], %(ordinals)s::integer[],
    %(indexed)s::boolean[], %(digests)s::bytea[], %(embeddings)s::{{type}}[]
)
"""  # constants only

_KNOWN = """
select v.digest, v.embedding::real[] from stateroom.item i
join stateroom.vector v on v.revision = i.revision and v.address = i.address
where i.address = any(%(addresses)s::uuid[])
"""

_KNOWN_OF_ONE = _KNOWN.replace("any(%(addresses)s::uuid[])", "%(address)s")

_SCORES = """
select v.revision, max({score}) from stateroom.vector v
where v.revision = any(%(revisions)s::bigint[]) group by v.revision
"""

# A put without an index leaves the vectors of the revision before it behind.
_SWEEP = """
with looked as materialized (
    select v.revision, v.ordinal, v.address from stateroom.vector v where v.revision > %(after)s
    order by v.revision limit %(limit)s
), gone as (
    delete from stateroom.vector v using looked w where v.revision = w.revision and v.ordinal = w.ordinal
    and not exists (
        select 1 from stateroom.item i where i.address = w.address and i.revision = w.revision
    )
)
select max(revision) from looked having count(*) = %(limit)s
"""


class _State(NamedTuple):
    """What is in a database: the extension, and the table with what its vectors were made with."""

    version: tuple[int, ...]
    schema: str
    oid: int | None
    held_type: str | None
    held_dims: int | None
    held_embed: str | None


class Vectors:
    """The vectors of one schema; ``is_prepared`` or ``prepare`` comes before all else."""

    def __init__(self, settings: IndexSettings) -> None:
        assert settings.dims is not None
        self._settings = settings
        self._dims = settings.dims
        # An embedder in an object or a function has no name to recognise it by.
        self._embed = settings.embed if isinstance(settings.embed, str) else None
        self._known_dialect: Dialect | None = None
        self._indexed = not settings.hnsw
        self._has_several = False
        self._looked_up_to = 0

    @property
    def _dialect(self) -> Dialect:
        assert self._known_dialect is not None
        return self._known_dialect

    def is_prepared(self, session: Session) -> bool:
        """Tell whether the database has all that these vectors need, made with the same settings."""
        state = _state(session, self._settings.vector_type)
        if state is None or state.oid is None or self._differences(state) or state.held_type is None:
            return False
        if self._embed not in (None, state.held_embed):
            return False
        self._learn(session, state)
        return not self._settings.hnsw or hnsw.is_built(session, self._dialect)

    def prepare(self, session: Session, connect: Callable[[], AbstractContextManager[Session]]) -> None:
        """Make what is missing; raise ``Misconfigured`` where vectors were made with other settings.

        ``session`` must not be in a transaction, and nobody else may do this at the same time. With
        ``hnsw`` it takes as long as building the index does; ``connect`` lends a second session.
        """
        if self._dims > MAX_COLUMN_DIMS:
            raise Misconfigured(
                f"index.dims is {self._dims:,}, and pgvector stores up to {MAX_COLUMN_DIMS:,} numbers",
                field="index.dims",
            )
        state = _state(session, self._settings.vector_type) or self._extended(session)
        self._check_version(state)
        self._check_pins(session, state)
        self._learn(session, state)
        session.script(_CREATE.format(type=self._dialect.type, dims=self._dims))
        if self._embed is not None:
            session.execute(
                "insert into stateroom.setting (name, value) values ('vector_embed', %(embed)s) "
                "on conflict (name) do update set value = excluded.value",
                {"embed": self._embed},
            )
        if self._settings.hnsw:
            hnsw.build(session, self._dialect, connect)

    def write(self, session: Session, operations: Sequence[Put], records: Sequence[Record]) -> None:
        """Replace the vectors of items that were just put, in the same transaction."""
        addresses = [address_of(record.namespace, record.key) for record in records]
        parameters: dict[str, Any] = {
            "addresses": uuids(addresses),
            "revisions": bigints([record.revision for record in records]),
        }
        each = [
            (address, record, ordinal, embedded)
            for address, record, operation in zip(addresses, records, operations, strict=True)
            for ordinal, embedded in enumerate(operation.vectors)
        ]
        if not each:
            session.execute(_FORGET_OLD, parameters, prepared=True)
            return
        vectors = np.array([embedded.vector for *_, embedded in each])
        numbers = rounded(vectors, self._settings.vector_type)
        parameters |= {
            "of_addresses": uuids(address for address, *_ in each),
            "of_revisions": bigints([record.revision for _, record, *_ in each]),
            "times": bigints([record.updated_at for _, record, *_ in each]),
            "ordinals": integers([ordinal for *_, ordinal, _ in each]),
            "indexed": [self._indexed if row.any() else None for row in numbers],
            "digests": byteas(embedded.digest for *_, embedded in each),
            "embeddings": encoded_array(numbers, self._dialect.oid),
        }
        session.execute(_WRITE.format(type=self._dialect.type), parameters, prepared=True)

    def forget(self, session: Session, addresses: Sequence[UUID]) -> None:
        """Remove the vectors of items that are gone."""
        session.execute(
            "delete from stateroom.vector v where v.address = any(%(addresses)s::uuid[])",
            {"addresses": uuids(addresses)},
            prepared=True,
        )

    def known(self, session: Session, addresses: Sequence[UUID]) -> dict[bytes, NDArray[np.float32]]:
        """Return the vectors of items by the digest of their text."""
        if len(addresses) == 1:
            rows = session.fetch(_KNOWN_OF_ONE, {"address": addresses[0]}, prepared=True)
        else:
            rows = session.fetch(_KNOWN, {"addresses": uuids(addresses)}, prepared=True)
        return {digest: np.array(numbers, np.float32) for digest, numbers in rows}

    def search(self, session: Session, target: Target, need: int) -> list[Scored]:
        """Return the nearest items, at most ``need``, best first, ties by the latest put."""
        if self._settings.hnsw:
            found = hnsw.near(session, self._dialect, target, need)
            if found is not None:
                return found
        hits = exact(session, self._dialect, target, need, several=self._has_several)
        best = best_of_items(hits)
        if len(best) < len(hits) == need:
            # Items have several vectors here, which the next search knows.
            self._has_several = True
            best = exact(session, self._dialect, target, need, several=True)
        return best

    def score_of(
        self, session: Session, query: NDArray[np.float32], revisions: Sequence[int]
    ) -> dict[int, float]:
        """Return the scores of items by their revision, without those that have no vector."""
        if not revisions:
            return {}
        dialect = self._dialect
        rows = session.fetch(
            _SCORES.format(score=dialect.score(dialect.distance)),
            {"query": encoded(query, dialect.vector_type), "revisions": bigints(revisions)},
        )
        return dict(rows)

    def keep_up(self, database: Database, goes_on: Callable[[], bool]) -> None:
        """Remove a few vectors without an item, and move those outside the HNSW index in once they are many.

        That takes long; it ends early when ``goes_on`` says so.
        """
        self.sweep_some(database)
        if not self._settings.hnsw or database.read(hnsw.delta_size) < MERGE_FROM:
            return
        while goes_on() and self._merge(database) == MERGE_VECTORS:
            pass

    def sweep_some(self, database: Database) -> None:
        """Look at the next few vectors for whether an item still has them, and remove those without."""
        after = self._looked_up_to
        looked = database.write_statement(
            lambda session: self.sweep_orphans(session, after, ORPHANS_LOOKED), repeats=True
        )
        self._looked_up_to = looked or 0

    def sweep_orphans(self, session: Session, after: int, limit: int) -> int | None:
        """Remove those of ``limit`` vectors that no item has any more; stores without an index leave such.

        They are looked at in the order of revisions, from the one that follows ``after``; the answer is
        the ``after`` to go on with, or None at the end.
        """
        rows = session.fetch(_SWEEP, {"after": after, "limit": limit})
        return rows[0][0] if rows else None

    @staticmethod
    def _merge(database: Database) -> int:
        return database.write_statement(lambda session: hnsw.merge(session, MERGE_VECTORS), repeats=True)

    def _learn(self, session: Session, state: _State) -> None:
        """Take note of how things are spelled here, and whether new vectors go into an index at once."""
        assert state.oid is not None
        self._known_dialect = Dialect(
            quoted(state.schema),
            self._settings.vector_type,
            self._settings.distance_type,
            state.oid,
            state.version,
        )
        if self._settings.hnsw and state.version < _LEAST_VERSIONS["iterative scans"]:
            _log.warning(
                "pgvector %s has no iterative scans (0.8 has): more searches are exact ones, which take "
                "longer",
                _dotted(state.version),
            )
        left = [] if self._settings.hnsw else hnsw.indexes(session)
        self._indexed = not self._settings.hnsw and not left
        for name in left:
            _log.info("index.hnsw is off: nothing uses the index %s; it may be dropped", name)

    def _differences(self, state: _State) -> list[tuple[str, object, object]]:
        """Return the settings that the vectors in the table were made with other values of."""
        pins = [
            ("dims", self._dims, state.held_dims),
            ("vector_type", self._settings.vector_type, state.held_type),
            ("embed", self._embed, state.held_embed),
        ]
        return [pin for pin in pins if None not in pin and pin[1] != pin[2]]

    def _check_pins(self, session: Session, state: _State) -> None:
        different = self._differences(state)
        if state.held_type is None or not different:
            return
        if session.fetch("select 1 from stateroom.vector limit 1"):
            name, wanted, held = different[0]
            raise Misconfigured(
                f"index.{name} is {wanted!r}, but there are vectors made with {held!r}: set index.{name} to "
                f"that, or start over with {_DROP!r} in this store's schema and put the items again",
                field=f"index.{name}",
            )
        session.script(_DROP)

    def _check_version(self, state: _State) -> None:
        wanted = [self._settings.vector_type] + ["hnsw"] * self._settings.hnsw
        for name in wanted:
            least = _LEAST_VERSIONS.get(name, (0,))
            if state.version < least:
                raise Misconfigured(
                    f"pgvector {_dotted(state.version)} has no {name}: it came with {_dotted(least)}; update "
                    "the extension ('alter extension vector update')",
                    field=f"index.{'hnsw' if name == 'hnsw' else 'vector_type'}",
                )

    def _extended(self, session: Session) -> _State:
        """Create the extension."""
        statement = "create extension if not exists vector"
        try:
            # Who creates it at the same moment makes it fail, "if not exists" or not.
            with suppress(errors.UniqueViolation, errors.DuplicateObject):
                session.script(statement)
        except errors.InsufficientPrivilege as error:
            raise Misconfigured(
                "index.embed needs pgvector, and this user may not create the extension: let a superuser "
                f"run {statement!r} in this database",
                field="index.embed",
            ) from error
        except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
            raise Misconfigured(
                "index.embed needs pgvector, which this server does not have: install it there, or leave "
                "index.embed and index.dims out",
                field="index.embed",
            ) from error
        state = _state(session, self._settings.vector_type)
        assert state is not None
        return state


def _state(session: Session, vector_type: str) -> _State | None:
    """Return what is in the database; None without the extension."""
    rows = session.fetch(_STATE, {"type": vector_type})
    if not rows:
        return None
    version, *rest = rows[0]
    return _State(parse_version(version), *rest)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
