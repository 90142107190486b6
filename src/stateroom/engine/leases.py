"""Keeping the runs that this process executes, and freeing those whose processes have died."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage, StorageCapability
from stateroom.engine.endings import Stop
from stateroom.engine.execution import Execution
from stateroom.engine.threads import DaemonThreads
from stateroom.errors import StateroomError
from stateroom.model.run import CancelAction, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.service.elsewhere import Elsewhere, remove_thread
from stateroom.settings import Limits

__all__ = ["CANCEL_GRACE", "LINGER", "Keeper"]

CANCEL_GRACE: Final = 5.0
"""Seconds that a graph has to stop which was asked to; then it is left to itself."""

LINGER: Final = 5.0
"""Seconds for which a thread that was made for one run stays after it, for those who read its end."""

LOOKS_APART: Final = 0.02
"""Seconds between two looks for runs that are to be cancelled, however often there may be some."""

FIRST_PAUSE: Final = 0.1
"""Seconds after which a storage that cannot be reached is tried again; each time twice as many."""

_STOPS: Final = {CancelAction.INTERRUPT: Stop.CANCEL, CancelAction.ROLLBACK: Stop.ROLL_BACK}

_log = logging.getLogger(__name__)


class Keeper:
    """A thread that renews leases, passes on what is asked of runs, and ends those that do not obey.

    It does so whatever users' code does on its loops. ``current`` answers what is being executed,
    ``elsewhere`` is the application's own checkpointer.
    """

    def __init__(
        self,
        storage: Storage,
        current: Callable[[], Sequence[Execution]],
        limits: Limits,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._storage, self._current, self._limits = storage, current, limits
        self._elsewhere = elsewhere
        takes_over = StorageCapability.TAKE_OVER in storage.capabilities
        self._max_attempts = limits.max_attempts if takes_over else 0
        self._helpers = DaemonThreads(8, "stateroom-keeper-helper")
        self._thread = threading.Thread(target=self._run, name="stateroom-keeper", daemon=True)
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._renew_at = self._look_at = 0.0
        self._to_look = False
        self._pause = FIRST_PAUSE
        self._lock = threading.Lock()
        self._outside: set[Execution] = set()
        self._blocked: set[Execution] = set()
        self._lingering: deque[tuple[float, str]] = deque()

    def start(self) -> None:
        """Begin, with whatever died before."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is executed then has no keeper any more."""
        self._stopped.set()
        self._woken.set()
        self._thread.join()
        self._helpers.shutdown()

    def wake(self) -> None:
        """Have the keeper look whether there is something to do."""
        self._woken.set()

    def linger(self, thread_id: str) -> None:
        """Remove a thread a little later."""
        with self._lock:
            self._lingering.append((time.monotonic() + LINGER, thread_id))

    def end_outside(self, execution: Execution) -> None:
        """End an attempt without its code, beside this thread."""
        with self._lock:
            if execution in self._outside:
                return
            self._outside.add(execution)
        self._helpers.submit(execution.end_outside)

    def forget(self, execution: Execution) -> None:
        """Note that an attempt has ended."""
        with self._lock:
            self._outside.discard(execution)
            self._blocked.discard(execution)

    def _run(self) -> None:
        while not self._stopped.is_set():
            now = time.monotonic()
            try:
                if now >= self._renew_at:
                    self._renew()
                    self._reap()
                    self._renew_at, self._pause = now + self._limits.lease / 3, FIRST_PAUSE
                elif self._to_look and now >= self._look_at:
                    self._to_look, self._look_at = False, now + LOOKS_APART
                    self._look()
            except StateroomError:
                _log.warning("the leases of runs cannot be kept, trying again", exc_info=True)
                self._renew_at = now + min(self._pause, self._limits.lease / 3)
                self._pause *= 2
            self._enforce(now)
            self._free(now)
            self._to_look |= self._woken.wait(self._idle_for())
            self._woken.clear()

    # ---- what the storage says

    def _renew(self) -> None:
        executions = {each.run.lease: each for each in self._current()}
        for renewal in self._storage.runs.renew(list(executions), lease=round(self._limits.lease * 1e6)):
            execution = executions[renewal.attempt]
            if not renewal.alive:
                execution.ask(Stop.LOST)
            elif renewal.cancel is not None:
                execution.ask(_STOPS[renewal.cancel])
        for execution in executions.values():
            self._warn_if_blocked(execution)

    def _warn_if_blocked(self, execution: Execution) -> None:
        still = execution.still_for()
        if still < self._limits.lease:
            self._blocked.discard(execution)
        elif execution not in self._blocked:
            self._blocked.add(execution)
            _log.warning(
                "the event loop of run %s of graph %r has not moved for %.0f s: its code, or that of a run"
                " beside it, blocks; make such a node a plain function, or await what it waits for",
                *(execution.run.run_id, execution.graph_id, still),
            )

    def _reap(self) -> None:
        for run in self._storage.runs.reap(max_attempts=self._max_attempts):
            _log.warning("run %s was abandoned by its worker, and is %s now", run.run_id, run.status)

    def _look(self) -> None:
        """Look whether a run is to be cancelled, or has gone."""
        executions = {each.run.run_id: each for each in self._current()}
        if not executions:
            return
        asked = RunQuery(run_ids=list(executions))
        found = {run.run_id: run for run in self._storage.runs.search(asked, limit=len(executions)).rows}
        for run_id, execution in executions.items():
            run = found.get(run_id)
            if run is None or run.status is not RunStatus.RUNNING or run.fence != execution.run.fence:
                execution.ask(Stop.LOST)
            elif run.cancel is not None:
                execution.ask(_STOPS[run.cancel])

    # ---- what time says

    def _enforce(self, now: float) -> None:
        """Stop what takes too long, and leave to itself what does not stop."""
        for execution in self._current():
            timeout = self._limits.run_timeout
            if execution.asked_at is None and timeout is not None and now >= execution.claimed_at + timeout:
                execution.ask(Stop.TIMEOUT)
            if self._is_overdue(execution, now):
                self.end_outside(execution)

    def _is_overdue(self, execution: Execution, now: float) -> bool:
        asked_at = execution.asked_at
        return asked_at is not None and (execution.begun_at is None or now >= asked_at + CANCEL_GRACE)

    def _free(self, now: float) -> None:
        with self._lock:
            due = []
            while self._lingering and self._lingering[0][0] <= now:
                due.append(self._lingering.popleft()[1])
        for thread_id in due:
            self._helpers.submit(self._remove, thread_id)

    def _remove(self, thread_id: str) -> None:
        """Remove a thread, unless somebody has used it meanwhile; then its time to live decides."""
        try:
            thread = self._storage.threads.get(thread_id)
            if thread is not None and thread.status is not ThreadStatus.BUSY:
                remove_thread(
                    self._storage.threads, self._elsewhere, thread_id, if_expires_at=thread.expires_at
                )
        except StateroomError:
            _log.warning("thread %s is left to the next sweep", thread_id, exc_info=True)

    def _idle_for(self) -> float:
        """Return for how long there is nothing to do that time alone brings about."""
        due = [self._renew_at]
        if self._to_look:
            due.append(self._look_at)
        with self._lock:
            if self._lingering:
                due.append(self._lingering[0][0])
            outside = set(self._outside)
        for execution in self._current():
            if execution.asked_at is not None:
                if execution not in outside:
                    due.append(execution.asked_at + CANCEL_GRACE)
            elif self._limits.run_timeout is not None:
                due.append(execution.claimed_at + self._limits.run_timeout)
        return max(0.0, min(due) - time.monotonic())
