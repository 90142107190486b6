"""The store that keeps long-term memory in a Postgres database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from stateroom.clock import Clock, system_clock
from stateroom.drivers.postgres.arguments import check_pool, check_schema
from stateroom.errors import Misconfigured
from stateroom.model.ttl import parse_ttl_config
from stateroom.search.index_config import (
    DistanceType,
    IndexSettings,
    VectorType,
    check_index_keys,
    parse_index_config,
)
from stateroom.stores.base import Store
from stateroom.stores.preparing import embedder_of

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    from stateroom.drivers.postgres.items import PostgresItems

__all__ = ["PostgresStore", "migrate_postgres"]

_SUPPORTS: Final = frozenset({"hnsw", "vector_type"})


class PostgresStore(Store):
    """Long-term memory in a schema of a Postgres database, which any number of processes may share.

    ``uri`` is a URL or a ``key=value`` string, as any console hands it out. ``pool`` is a psycopg
    ``ConnectionPool`` that is shared with others and stays theirs, or the options of one that the store
    makes for itself (``min_size``, ``max_size``, ``timeout`` in seconds, ``kwargs``, ...). ``schema`` is
    where the tables are. ``prepared_statements`` False is for a pooler that cannot keep them; one that loses
    them is noticed. ``index`` is LangGraph's ``IndexConfig`` and more (see the documentation of
    settings), ``ttl`` its ``TTLConfig``. ``index_keys`` are the top-level keys whose filters are answered
    from indexes of their own. Time is the database's unless a ``clock`` is given, which returns
    microseconds since 1970 UTC.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        index: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        index_keys: Sequence[str] = (),
        pool: ConnectionPool[Any] | Mapping[str, Any] | None = None,
        schema: str = "stateroom",
        prepared_statements: bool = True,
        clock: Clock = system_clock,
    ) -> None:
        settings = parse_index_config(index, supports=_SUPPORTS)
        make_items = _driver()
        check_schema(schema)
        check_pool(uri, pool)
        items = make_items(
            uri,
            settings,
            index_keys=check_index_keys(index_keys),
            clock=clock,
            schema=schema,
            pool=pool,
            prepares=prepared_statements,
        )
        super().__init__(
            items,
            index=settings,
            ttl=parse_ttl_config(ttl),
            index_config=index,
            ttl_config=ttl,
            embedder=embedder_of(settings),
        )

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,
        pool_config: Mapping[str, Any] | None = None,
        index: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Make a store as LangGraph's class of that name does; it works in ``with`` and in ``async with``.

        Its ``pipeline`` is refused: it could have no effect, since a batch is a few statements at most.
        """
        if pipeline:
            raise Misconfigured(
                "pipeline has no effect: a batch is sent in a few statements anyway; leave it out",
                field="pipeline",
            )
        return cls(conn_string, pool=pool_config, index=index, ttl=ttl, **options)

    @classmethod
    def from_pool(cls, pool: ConnectionPool[Any], **options: Any) -> Self:
        """Make a store on connections that are shared with others; closing the store leaves the pool open."""
        return cls(pool=pool, **options)


def migrate_postgres(
    uri: str,
    *,
    schema: str = "stateroom",
    index_keys: Sequence[str] = (),
    dims: int | None = None,
    distance_type: DistanceType = "cosine",
    vector_type: VectorType = "vector",
    hnsw: bool = False,
) -> None:
    """Do what ``PostgresStore.setup`` does, without an embedder; the text index is left as it is.

    Raises ``Misconfigured`` as the store would, and for ``hnsw`` without ``dims``.
    """
    if dims is None and hnsw:
        raise Misconfigured("hnsw needs dims: how many numbers the vectors have", field="dims")
    settings = IndexSettings(text=False)
    if dims is not None:
        vectors = {"dims": dims, "distance_type": distance_type, "vector_type": vector_type, "hnsw": hnsw}
        # Checked as a store's are; which embedder will make them is the store's to say.
        checked = parse_index_config({"text": False, "embed": "any", **vectors}, supports=_SUPPORTS)
        settings = replace(checked, embed=None)
    check_schema(schema)
    items = _driver()(
        uri,
        settings,
        index_keys=check_index_keys(index_keys),
        clock=system_clock,
        schema=schema,
        pool=None,
        prepares=True,
    )
    try:
        items.open()
    finally:
        items.close()


def _driver() -> type[PostgresItems]:
    try:
        from stateroom.drivers.postgres.items import PostgresItems
    except ModuleNotFoundError as error:
        if error.name not in ("psycopg", "psycopg_pool"):
            raise
        raise Misconfigured("PostgresStore needs psycopg: pip install 'stateroom[postgres]'") from None
    return PostgresItems
