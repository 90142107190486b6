"""What the repositories ask of the tables in which LangGraph's checkpoints are."""

from __future__ import annotations

from typing import Protocol

from stateroom.drivers.sql.dialect import Session

__all__ = ["CheckpointTables"]


class CheckpointTables(Protocol):
    """LangGraph's own tables, in the same database as the threads."""

    def set_up(self) -> None:
        """See to it that they exist, as LangGraph's savers make them; doing so again changes nothing."""

    def erase(self, session: Session, thread_id: str, limit: int) -> bool:
        """Remove at most about ``limit`` rows of a thread; tell whether none is left."""

    def copy(self, session: Session, thread_id: str, new_id: str) -> None:
        """Copy everything of a thread, as it is at one moment, to an id that has nothing yet."""

    def mark(self, session: Session, thread_id: str, checkpoint_id: str | None) -> bytes:
        """Return what ``roll_back`` needs to know of a thread from which a run is about to start.

        These are the pending writes of the checkpoint that it starts from (None: the latest of the root
        namespace) and of those of subgraphs that were interrupted in it.
        """

    def roll_back(self, session: Session, thread_id: str, run_id: str, mark: bytes | None) -> None:
        """Remove the checkpoints that a run made, with their blobs and writes, in every namespace.

        The pending writes of the checkpoint that it started from become again what ``mark`` says.
        """
