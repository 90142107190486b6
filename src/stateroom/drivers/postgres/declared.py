"""The indexes of declared keys, built while everybody goes on writing."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.where import key_indexes

__all__ = ["DeclaredKeys"]

_log = logging.getLogger(__name__)

_VALID = """
select c.relname from pg_index x join pg_class c on c.oid = x.indexrelid
where x.indisvalid and x.indrelid = 'stateroom.item'::regclass and c.relname = any(%(names)s)
"""

_INVALID = _VALID.replace("x.indisvalid", "not x.indisvalid")


class DeclaredKeys:
    """The keys whose filters are answered from indexes."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = frozenset(keys)
        self._indexes = {index.name: index for key in keys for index in key_indexes(key)}

    def is_prepared(self, session: Session) -> bool:
        """Tell whether all indexes are there and complete."""
        return not self._indexes or len(self._find(session, _VALID)) == len(self._indexes)

    def prepare(self, session: Session) -> None:
        """Build the missing indexes, and anew those whose building was interrupted."""
        for name in self._find(session, _INVALID):
            session.script(f"drop index concurrently if exists stateroom.{name}")
        missing = self._indexes.keys() - set(self._find(session, _VALID))
        for name in sorted(missing):
            _log.info("building the index %s of a declared key", name)
            session.script(self._indexes[name].create_sql)
            session.script(self._indexes[name].statistics_sql)
        if missing:
            session.script("analyze stateroom.item")

    def _find(self, session: Session, sql: str) -> list[str]:
        return [name for (name,) in session.fetch(sql, {"names": list(self._indexes)})]
