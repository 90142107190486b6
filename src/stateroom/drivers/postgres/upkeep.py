"""Work on a database that nobody waits for, done in a thread of its own when enough has come together."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from stateroom.drivers.postgres.session import Session
from stateroom.errors import StateroomError

__all__ = ["ANALYZE_GROWTH", "ANALYZE_LEAST", "Upkeep", "analyze_if_grown"]

ANALYZE_GROWTH = 4
"""How many times as many items as Postgres knows of there must be before it is told to look again."""

COUNTED_MAX = 100_000
"""Items that are counted for that; more have been looked at by Postgres itself long ago."""

ANALYZE_LEAST = 1_000
"""Puts before which nobody looks at that."""

WRITES_BETWEEN = 512
"""Writes of this process after which it does the upkeep."""

_log = logging.getLogger(__name__)


def analyze_if_grown(session: Session) -> None:
    """Have Postgres look how large the tables are, if what it knows is from when they were much smaller.

    It does so by itself within a minute or so; meanwhile connections would keep plans of empty tables.
    """
    ((known, there),) = session.fetch(
        "select c.reltuples::bigint, (select count(*) from (select 1 from stateroom.item limit %(some)s) i) "
        "from pg_class c where c.oid = 'stateroom.item'::regclass",
        {"some": COUNTED_MAX},
    )
    if there > ANALYZE_GROWTH * max(known, 0):
        session.script("analyze stateroom.item")
        session.script("analyze stateroom.namespace")


class Upkeep:
    """Calls ``act`` after every so many writes, never twice at once."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._lock = threading.Lock()
        self._writes = 0
        self._thread: threading.Thread | None = None
        self._finishing = False

    @property
    def goes_on(self) -> bool:
        """Whether what is being done may go on; nobody waits for all of it when a store is closed."""
        return not self._finishing

    def note(self, writes: int) -> None:
        """Count writes, and begin the upkeep when it is time."""
        with self._lock:
            self._writes += writes
            if self._writes < WRITES_BETWEEN or self._thread is not None:
                return
            self._writes = 0
            self._thread = threading.Thread(target=self._run, name="stateroom-upkeep", daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Have what is being done end soon, and wait for that."""
        self._finishing = True
        thread = self._thread
        if thread is not None:
            thread.join()
        self._finishing = False

    def _run(self) -> None:
        try:
            self._act()
        except StateroomError:
            # Nobody waits for this thread: what could not be done now is done after further writes.
            _log.warning("the upkeep of the database failed", exc_info=True)
        finally:
            self._thread = None
