"""The checkpointer that keeps graphs' state in a Postgres database, in LangGraph's own tables."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

from langgraph.checkpoint.base import ChannelVersions, Checkpoint
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from typing_extensions import override

from stateroom.drivers.postgres.arguments import check_pool, check_schema
from stateroom.drivers.sql.checkpoint_rows import Key, Stored, Value, Write
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.queries import queries
from stateroom.errors import InvalidValue, Misconfigured
from stateroom.model.text import flaw
from stateroom.savers.admission import Guard, query_of, refused
from stateroom.savers.base import Saver

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    from stateroom.drivers.postgres.database import Database
    from stateroom.drivers.postgres.storage import PostgresStorage

__all__ = ["PostgresSaver"]

ABSENT: Final = "empty"
"""The type under which LangGraph's savers note that a channel has no value."""

INLINE: Final = range(-(2**63), 2**64)
"""The integers that LangGraph's serialiser knows; others go through it, so that it has its say."""

_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


class PostgresSaver(Saver):
    """A checkpointer in a schema of a Postgres database, which any number of processes may share.

    The tables are LangGraph's own: its ``PostgresSaver`` and ``AsyncPostgresSaver`` open what this one wrote
    (with ``options=-csearch_path=<schema>``), and ``schema="public"`` goes on with what they wrote. ``uri``,
    ``pool`` and ``prepared_statements`` are described with ``PostgresStore``, ``serde`` and ``keep_last``
    with ``Saver``.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        serde: SerializerProtocol | None = None,
        schema: str = "stateroom",
        pool: ConnectionPool[Any] | Mapping[str, Any] | None = None,
        prepared_statements: bool = True,
        keep_last: int | None = None,
    ) -> None:
        open_database = _driver()
        check_schema(schema)
        check_pool(uri, pool)
        database = open_database(uri, schema=schema, pool=pool, prepares=prepared_statements)
        self._begin(database, serde=serde, keep_last=keep_last, managed=False)

    @classmethod
    def over(
        cls,
        storage: PostgresStorage,
        *,
        serde: SerializerProtocol | None = None,
        keep_last: int | None = None,
    ) -> Self:
        """Make a managed saver on a storage's connections, which closing it leaves open."""
        saver = cls.__new__(cls)
        saver._begin(storage.items.database, serde=serde, keep_last=keep_last, managed=True)
        return saver

    @classmethod
    def from_conn_string(cls, conn_string: str, *, pipeline: bool = False, **options: Any) -> Self:
        """Make a saver as LangGraph's classes of that name do; it works in ``with`` and in ``async with``.

        Their ``pipeline`` is refused: it could have no effect, since a checkpoint is sent in one statement.
        """
        if pipeline:
            raise Misconfigured(
                "pipeline has no effect: a checkpoint is sent in one statement anyway; leave it out",
                field="pipeline",
            )
        return cls(conn_string, **options)

    def _begin(
        self, database: Database, *, serde: SerializerProtocol | None, keep_last: int | None, managed: bool
    ) -> None:
        from stateroom.drivers.postgres.checkpoints import PostgresCheckpoints
        from stateroom.drivers.postgres.dialect import PostgresDialect

        self._database = database
        self._statements = PostgresDialect(database)
        self._rows = PostgresCheckpoints(database)
        self._is_set_up = False
        super().__init__(self._statements, self._rows, serde=serde, keep_last=keep_last, managed=managed)

    @override
    def setup(self) -> None:
        if self._is_set_up:
            return
        if self._managed:
            self._rows.set_up()
        else:
            self._database.open()
        self._is_set_up = True

    @override
    def close(self) -> None:
        self._is_set_up = False
        if not self._managed:
            self._database.close()

    # ---- One statement instead of a transaction, where one will do.

    @override
    def _load_in(self, work: Callable[[Session], Any]) -> Any:
        return self._ready.read(work)

    @override
    def _save(self, guard: Guard, stored: Stored) -> None:
        if self._keep_last is not None:
            super()._save(guard, stored)
        else:
            self._write_if(guard, lambda *held: self._rows.insert_if(held[0], stored, *held[1:]))

    @override
    def _save_writes(self, guard: Guard, key: Key, writes: Sequence[Write], *, replace: bool) -> None:
        self._write_if(
            guard,
            lambda *held: self._rows.insert_writes_if(held[0], key, writes, *held[1:], replace=replace),
        )

    def _write_if(self, guard: Guard, insert: Callable[[Session, str, Mapping[str, Any]], bool]) -> None:
        """Have rows inserted on condition that the guard holds; raise what ``refused`` returns otherwise."""
        self.setup()
        held, parameters = _held(guard)
        done = self._statements.write_statement(lambda session: insert(session, held, parameters))
        if not done:
            raise refused(guard)

    # ---- What is a row, and what is a value beside it.

    @override
    def _packed(
        self, key: Key, parent_id: str | None, checkpoint: Checkpoint, metadata: bytes, new: ChannelVersions
    ) -> Stored:
        # LangGraph's layout: plain values stay in the row, others are kept once for each version. So are
        # plain ones that JSON in Postgres would not give back as they are.
        inline: dict[str, Any] = {}
        values = []
        for channel, value in checkpoint["channel_values"].items():
            if _is_exact(value):
                inline[channel] = value
                continue
            if isinstance(value, _DeltaSnapshot):
                inline[channel] = True
            version = new.get(channel)
            if version is None and isinstance(value, str | int | float):
                version = _version(checkpoint, channel)
            if version is not None:
                values.append(Value(channel, str(version), *self._dumped(value, channel)))
        row = _json({**checkpoint, "channel_values": inline}, checkpoint)
        return Stored(key, parent_id, None, row, metadata, values)

    @override
    def _unpacked(self, stored: Stored) -> dict[str, Any]:
        checkpoint: dict[str, Any] = json.loads(stored.checkpoint)
        kept_apart = {
            value.channel: self.serde.loads_typed((value.type, value.blob))
            for value in stored.values
            if value.type != ABSENT and value.blob is not None
        }
        checkpoint["channel_values"] = {**(checkpoint.get("channel_values") or {}), **kept_apart}
        return checkpoint

    @override
    def _channel_bytes(self, session: Session, thread_id: str) -> Mapping[str, int]:
        return self._rows.measure_inline(session, thread_id)


def _driver() -> Callable[..., Database]:
    try:
        from stateroom.drivers.postgres.checkpoints import checkpoint_database
    except ModuleNotFoundError as error:
        if error.name not in ("psycopg", "psycopg_pool"):
            raise
        raise Misconfigured("PostgresSaver needs psycopg: pip install 'stateroom[postgres]'") from None
    return checkpoint_database


def _held(guard: Guard) -> tuple[str, dict[str, Any]]:
    """Return the query that has a row if a guard holds, and its parameters, under names of their own."""
    if guard is None:
        return "select 1", {}
    name, parameters = query_of(guard)
    return _renamed(queries("checkpoints")[name]), {f"held_{key}": value for key, value in parameters.items()}


@cache
def _renamed(sql: str) -> str:
    return _PARAMETER.sub(r":held_\1", sql)


def _is_exact(value: Any) -> bool:
    """Tell whether Postgres's JSON gives a value back as it is."""
    if value is None or isinstance(value, bool):
        return True
    if type(value) is str:
        return flaw(value) is None
    if type(value) is int:
        return value in INLINE
    if type(value) is float and math.isfinite(value):
        # It writes large ones out as integers, and knows no negative zero.
        text = repr(value)
        return "e" not in text and text != "-0.0"
    return False


def _version(checkpoint: Checkpoint, channel: str) -> str | int | float:
    """Return the version under which a channel's value is kept, whether or not it has just changed."""
    version = checkpoint["channel_versions"].get(channel)
    if version is None:
        raise InvalidValue(
            f"channel {channel!r} has a value that JSON in Postgres cannot hold, and no version under which "
            "it could be kept beside; give it one in channel_versions",
            field=channel,
        )
    return version


def _json(row: Mapping[str, Any], checkpoint: Checkpoint) -> bytes:
    for channel in (*checkpoint["channel_versions"], *checkpoint["versions_seen"]):
        if problem := flaw(channel):
            raise InvalidValue(f"channel or node {channel!r} {problem}; give it another name", field=channel)
    return json.dumps(row, ensure_ascii=False, allow_nan=False).encode()
