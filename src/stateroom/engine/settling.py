"""Writing down how an attempt ended, whatever the graph left behind."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from stateroom.contract.runs import Settlement
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadChange
from stateroom.engine.endings import Ending
from stateroom.engine.insisting import insist
from stateroom.errors import InvalidInput, LimitExceeded
from stateroom.model.change import UNSET
from stateroom.model.cron import Completion
from stateroom.model.run import Run
from stateroom.model.run_kwargs import RunKwargs
from stateroom.model.thread import ThreadTTL, TTLStrategy

__all__ = ["TEMPORARY", "settle"]

TEMPORARY: Final = ThreadTTL(1.0, TTLStrategy.DELETE)
"""What is left of the life of a thread that was made for one run, should nobody live to remove it."""

_log = logging.getLogger(__name__)


def settle(
    storage: Storage, run: Run, kwargs: RunKwargs, ending: Ending, config: Mapping[str, Any] | None
) -> bool:
    """Settle an attempt, or hand its run back; tell whether its thread is to be removed a little later.

    ``config`` is what the thread says of the run, None if nobody knows. It blocks, and tries again while the
    storage cannot be reached. ``Fenced`` and ``NotFound`` when the run is somebody else's, or gone.
    """
    settlement = ending.settlement
    if settlement is None:
        insist(lambda: storage.runs.release(run.lease))
        return False
    is_left = kwargs.temporary and kwargs.on_completion is Completion.DELETE
    if is_left:
        change = ThreadChange(ttl=TEMPORARY)
        insist(lambda: storage.threads.update(run.thread_id, change))
    if config is not None and not settlement.roll_back:
        named = {key: config["configurable"][key] for key in ("graph_id", "assistant_id")}
        settlement = replace(settlement, config=config, thread_metadata=named)
    _settle(storage, run, settlement)
    return is_left


def _settle(storage: Storage, run: Run, settlement: Settlement) -> None:
    try:
        insist(lambda: storage.runs.settle(run.lease, settlement))
    except (InvalidInput, LimitExceeded):
        # A run that is done stays done: its checkpoints hold what cannot be kept with the thread.
        _log.warning("what run %s leaves cannot be kept with its thread", run.run_id, exc_info=True)
        bare = replace(settlement, values=UNSET, interrupts=UNSET, config=UNSET, thread_metadata=UNSET)
        insist(lambda: storage.runs.settle(run.lease, bare))
