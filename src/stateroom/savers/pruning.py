"""Removing checkpoints so that those that stay can be read and continued."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from stateroom.drivers.sql.checkpoint_rows import Key, SaverTables
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.savers.keeping import (
    ancestors,
    finished_calls,
    is_call,
    lowest_line,
    open_channels,
    parents_of,
)
from stateroom.savers.lines import line_of

__all__ = ["Pruning", "Sends"]

BATCH_ROWS: Final = 500
"""Rows that one transaction removes, about."""

TRIM_ROWS: Final = 100
"""Checkpoints that one put removes at most, so that what is overdue goes little by little."""

Sends = Callable[[Session, Key], str | None]
"""Returns the parent from which a checkpoint of an old format reads what it sends, or None."""


class Pruning:
    """The removals that one saver does."""

    def __init__(self, dialect: Dialect, tables: SaverTables, sends: Sends) -> None:
        self._dialect = dialect
        self._tables = tables
        self._sends = sends

    def erase(self, thread_id: str) -> None:
        """Remove everything of a thread, in transactions of bounded size."""
        self._until_done(lambda session: self._tables.erase(session, thread_id, BATCH_ROWS))

    def keep_latest(self, thread_id: str) -> None:
        """Remove all but the latest checkpoint of each namespace and what that needs, as ``erase`` does.

        The calls go before the checkpoints of the root graph in which they were made, by which they are
        known to be over, so that the removal can be broken off anywhere and done again.
        """
        for ns in self._dialect.read_together(partial(self._finished, thread_id=thread_id)):
            self._until_done(
                partial(self._tables.erase_namespace, thread_id=thread_id, ns=ns, limit=BATCH_ROWS)
            )
        for ns in self._dialect.read(partial(self._tables.namespaces, thread_id=thread_id)):
            keep = partial(self._keep, thread_id=thread_id, ns=ns, count=1, limit=BATCH_ROWS)
            self._until_done(lambda session, keep=keep: not keep(session))  # type: ignore[misc]

    def trim(self, session: Session, thread_id: str, ns: str, count: int, run_id: str | None = None) -> None:
        """Remove some checkpoints of a namespace beyond its newest, and the calls that were made in them.

        The newest that is not of the run ``run_id`` stays too, since the run may yet be rolled back to it.
        """
        start = self._tables.newest_not_of(session, thread_id, ns, run_id) if run_id is not None else None
        gone = self._keep(session, thread_id, ns, count, TRIM_ROWS, start)
        if ns or not gone:
            return
        for call, root in self._roots(session, thread_id):
            if root in gone:
                while not self._tables.erase_namespace(session, thread_id, call, BATCH_ROWS):
                    pass

    def of_runs(self, run_ids: Iterable[str]) -> None:
        """Remove runs' checkpoints, a thread in a transaction, but none that a later one is made up from."""
        keys = self._dialect.read(
            lambda session: sorted(
                {key for run_id in run_ids for key in self._tables.of_run(session, run_id)}
            )
        )
        for thread_id, group in groupby(keys, lambda key: key.thread_id):
            remove = partial(self._remove, thread_id=thread_id, keys=list(group))
            self._dialect.write(remove, repeats=True)

    def _remove(self, session: Session, thread_id: str, keys: Sequence[Key]) -> None:
        for ns, group in groupby(keys, lambda key: key.ns):
            ids = [key.checkpoint_id for key in group]
            children = self._tables.children(session, thread_id, ns, ids)
            needed = self._needed(session, thread_id, ns, children)
            self._tables.remove(session, thread_id, ns, [found for found in ids if found not in needed])

    def _until_done(self, step: Callable[[Session], bool]) -> None:
        """Do a step in one transaction after the other, until it says that nothing is left."""
        while not self._dialect.write(step, repeats=True):
            pass

    def _keep(
        self, session: Session, thread_id: str, ns: str, count: int, limit: int, also: str | None = None
    ) -> list[str]:
        """Remove and return some checkpoints beyond a namespace's newest, without what those need."""
        newest = self._tables.newest(session, thread_id, ns, count)
        if len(newest) < count:
            return []
        kept = [*lowest_line(newest), *([also] if also is not None else [])]
        needed = {*kept, *self._needed(session, thread_id, ns, kept)}
        gone = self._tables.others(session, thread_id, ns, newest[-1][0], sorted(needed), limit)
        if gone:
            self._tables.remove(session, thread_id, ns, gone)
        return gone

    def _needed(self, session: Session, thread_id: str, ns: str, kept: Iterable[str]) -> set[str]:
        """Return the older checkpoints that those which are kept need."""
        needed = set()
        for checkpoint_id in kept:
            key = Key(thread_id, ns, checkpoint_id)
            line = line_of(self._tables, session, key)
            needed |= {*ancestors((link.checkpoint_id, open_channels(link.metadata)) for link in line)}
            if sender := self._sends(session, key):
                needed.add(sender)
        return needed

    def _finished(self, session: Session, thread_id: str) -> list[str]:
        """Return the namespaces of calls that are over."""
        roots = self._roots(session, thread_id)
        kept = {head for head, _ in self._tables.newest(session, thread_id, "", 1)}
        kept |= {sender for head in kept if (sender := self._sends(session, Key(thread_id, "", head)))}
        asked = {root for _, root in roots if root is not None}
        saved = {root for root in asked if self._tables.exists(session, Key(thread_id, "", root))}
        return finished_calls(roots, kept, saved)

    def _roots(self, session: Session, thread_id: str) -> list[tuple[str, str | None]]:
        """Return the namespaces of calls, each with the root graph's checkpoint in which it was made."""
        roots = []
        for ns in filter(is_call, self._tables.namespaces(session, thread_id)):
            for head, _ in self._tables.newest(session, thread_id, ns, 1):
                for link in self._tables.lineage(session, thread_id, ns, head, 1):
                    roots.append((ns, parents_of(link.metadata).get("")))
        return roots
