"""What is said of runs that could not say themselves how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stateroom.model.run import RunStatus
from stateroom.model.run_kwargs import OUTPUT_EVENT

if TYPE_CHECKING:
    from stateroom.api.parts import Parts

__all__ = ["FAILED", "failure", "unsaid_failure"]

FAILED: Final = frozenset({RunStatus.ERROR, RunStatus.TIMEOUT})
"""The statuses of runs whose streams tell an error."""

UNSAID: Final[Mapping[RunStatus | None, tuple[str, str]]] = {
    RunStatus.INTERRUPTED: ("RunCancelled", "the run was cancelled"),
    RunStatus.TIMEOUT: ("RunTimeout", "the run took longer than it may"),
    RunStatus.ERROR: ("RunFailed", "the run failed"),
    RunStatus.SUCCESS: ("OutputGone", "what the run answered is no longer kept; GET the state of its thread"),
    None: ("RunGone", "the run was rolled back or deleted"),
}
"""The name and the message of what became of a run that left no word of it."""


async def failure(parts: Parts, run_id: str, status: RunStatus | None) -> dict[str, str]:
    """Return what became of an ended run without output, as an error: the run's own, if it has one."""
    run = None if status is None else await parts.offload(parts.storage.runs.get, run_id)
    if run is not None and run.error:
        return {key: str(run.error.get(key, "")) for key in ("error", "message")}
    name, message = UNSAID[status]
    if run is not None and run.cancel_reason:
        message += f": {run.cancel_reason}"
    return {"error": name, "message": message}


async def unsaid_failure(parts: Parts, run_id: str, status: RunStatus | None) -> dict[str, str] | None:
    """Return why a run failed whose stream does not say so, since its worker died, say; None for others."""
    if status not in FAILED:
        return None
    last = await parts.offload(parts.storage.events.last, run_id)
    # Whoever wrote the output has written the error before it.
    if last is not None and last.event == OUTPUT_EVENT:
        return None
    return await failure(parts, run_id, status)
