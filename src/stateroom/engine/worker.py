"""Taking runs from the queue and having them executed, as many at the same time as there is room for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from langgraph.store.base import BaseStore

from stateroom.contract.storage import Storage, StorageCapability
from stateroom.engine.endings import Stop
from stateroom.engine.execution import Execution, Means
from stateroom.engine.graphs import Graphs
from stateroom.engine.leases import Keeper
from stateroom.engine.loops import Loops
from stateroom.errors import StateroomError, Unavailable
from stateroom.ids import IdSource
from stateroom.model.run import Attempt, Run
from stateroom.offload import Offload
from stateroom.service.elsewhere import Elsewhere
from stateroom.settings import Limits

__all__ = ["POLL_ALONE", "POLL_SHARED", "STOP_GRACE", "Worker"]

POLL_SHARED: Final = 1.0
"""Seconds after which the queue is looked at that nobody told of, where other processes fill it too."""

POLL_ALONE: Final = 15.0
"""The same where this process makes all runs, and is told of each."""

STOP_GRACE: Final = 2.0
"""Seconds that graphs which are cancelled when the server stops have to obey, and the storage to note it."""

FIRST_PAUSE: Final = 0.001
LAST_PAUSE: Final = 0.5
"""Seconds between two tries to claim a run that somebody else holds at this moment, or while the storage
cannot be reached: the first, and the longest."""

_log = logging.getLogger(__name__)


class Worker:
    """Executes runs, on ``loops``, from ``start`` to ``stop``; it has a life only once.

    ``owner`` names this process, as no other is named. ``scoped_store`` returns the store as the user of a
    run may use it, None: as it is. ``elsewhere`` is the application's own checkpointer, None: there is none.
    """

    def __init__(
        self,
        storage: Storage,
        graphs: Graphs,
        loops: Loops,
        limits: Limits,
        *,
        owner: str,
        ids: IdSource,
        scoped_store: Callable[[Mapping[str, Any]], BaseStore] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._storage, self._loops, self._limits = storage, loops, limits
        self._owner = f"{owner}-{ids()}"
        self._offload = Offload(name="stateroom-runs")
        self._means = Means(storage, graphs, self._offload, self._over, scoped_store, elsewhere)
        self._keeper = Keeper(storage, self._current, limits, elsewhere)
        self._dispatcher = threading.Thread(target=self._dispatch, name="stateroom-dispatcher", daemon=True)
        shared = StorageCapability.MULTI_PROCESS in storage.capabilities
        self._poll = POLL_SHARED if shared else POLL_ALONE
        self._executions: dict[Attempt, Execution] = {}
        self._changed = threading.Condition()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._life = threading.Lock()
        self._unsubscribe: Callable[[], None] | None = None
        self._pause = FIRST_PAUSE

    @property
    def executing(self) -> int:
        """How many runs are being executed."""
        return len(self._executions)

    def start(self) -> None:
        """Execute runs from now on; doing so again changes nothing."""
        with self._life:
            if self._unsubscribe is None and not self._stopping.is_set():
                self._unsubscribe = self._storage.runs.subscribe(self._wake)
                self._keeper.start()
                self._dispatcher.start()

    def stop(self) -> None:
        """Execute no more: let graphs come to the end of a step, and hand their runs back; it blocks.

        They have ``shutdown_grace`` for it; then they are cancelled, and those that do not obey are left.
        Doing so again changes nothing.
        """
        with self._life:
            if self._stopping.is_set():
                return
            self._stopping.set()
            if self._unsubscribe is None:
                return
            self._unsubscribe()
            self._woken.set()
            self._dispatcher.join()
            self._drain()
            self._keeper.stop()
            if not self._executions:
                self._offload.close()

    def _drain(self) -> None:
        for execution in self._current():
            if execution.begun_at is None:
                execution.ask(Stop.RELEASE)
                self._keeper.end_outside(execution)
            else:
                execution.drain()
        self._await_none(self._limits.shutdown_grace)
        for execution in self._current():
            execution.ask(Stop.RELEASE)
        self._await_none(STOP_GRACE)
        for execution in self._current():
            self._keeper.end_outside(execution)
        self._await_none(STOP_GRACE)

    def _await_none(self, seconds: float) -> None:
        """Wait until nothing is executed any more, at most for so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._executions, seconds)

    # ---- what others call

    def _wake(self) -> None:
        self._woken.set()
        self._keeper.wake()

    def _current(self) -> list[Execution]:
        with self._changed:
            return list(self._executions.values())

    def _over(self, execution: Execution) -> None:
        """Make room for another run."""
        if execution.left_thread is not None:
            self._keeper.linger(execution.left_thread)
        self._keeper.forget(execution)
        with self._changed:
            self._executions.pop(execution.run.lease, None)
            self._changed.notify_all()
        self._woken.set()

    # ---- the dispatcher

    def _dispatch(self) -> None:
        while not self._stopping.is_set():
            # Before looking, so that nothing is missed that comes meanwhile.
            self._woken.clear()
            try:
                idle = self._claim()
            except Unavailable as error:
                _log.warning("the queue cannot be reached, trying again: %s", error)
                idle = self._longer_pause()
            except StateroomError:
                _log.exception("no run could be claimed, trying again")
                idle = self._longer_pause()
            self._woken.wait(idle)

    def _claim(self) -> float:
        """Claim what there is room for; return for how many seconds there is nothing more to claim."""
        room = self._limits.concurrency - self.executing
        if room <= 0:
            return self._poll
        # Looking first costs nobody anything: every worker is woken whenever there may be something.
        due = self._storage.runs.next_available_at()
        left = self._poll if due is None else (due - self._storage.now()) / 1e6
        if left > 0:
            self._pause = FIRST_PAUSE
            return min(left, self._poll)
        claimed = self._storage.runs.claim(self._owner, lease=round(self._limits.lease * 1e6), limit=room)
        if not claimed:
            # Somebody changes its thread at this moment.
            return self._longer_pause()
        for run in claimed:
            self._begin(run)
        self._pause = FIRST_PAUSE
        return 0.0

    def _longer_pause(self) -> float:
        pause, self._pause = self._pause, min(2 * self._pause, LAST_PAUSE)
        return pause

    def _begin(self, run: Run) -> None:
        execution = Execution(run, self._means)
        with self._changed:
            self._executions[run.lease] = execution
        try:
            execution.start(self._loops)
        except Unavailable:
            execution.ask(Stop.RELEASE)
            self._keeper.end_outside(execution)
        if self._limits.run_timeout is not None:
            self._keeper.wake()
