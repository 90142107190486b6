"""Checkpoints as LangGraph makes them, of a size that is asked for, one after the other on a thread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint

__all__ = ["BIG", "SIZES", "SMALL", "Talk", "text"]

SMALL, BIG = 1, 100
SIZES: Final = {SMALL: "small state", BIG: "100 kB state"}
"""Kilobytes of the state of a thread, and how they are called."""

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz      "


def text(seed: object) -> str:
    """Return a thousand random characters, the same for each seed."""
    return "".join(random.Random(str(seed)).choices(_LETTERS, k=1_000))


class Talk:
    """One thread of a saver, to which checkpoints are added. Each one's state is a list of texts.

    A call is prepared first, so that only the saver's part of it is timed.
    """

    def __init__(self, saver: Any, thread_id: str, kilobytes: int) -> None:
        self.saver = saver
        self.config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        self.thread: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        self.checkpoint: Checkpoint = _empty()
        self.versions: dict[str, Any] = {}
        self.step = 0
        self._texts = [text((kilobytes, number)) for number in range(kilobytes)]
        self._task = 0

    def prepare(self) -> None:
        """Make the next checkpoint."""
        self.step += 1
        before = self.versions.get("messages")
        self.versions = {"messages": self.saver.get_next_version(before, None)}
        self._texts[self.step % len(self._texts)] = text(self.step)
        self.checkpoint = _empty() | {
            "channel_values": {"messages": list(self._texts)},
            "channel_versions": dict(self.versions),
        }

    @property
    def values(self) -> dict[str, Any]:
        """The state of the checkpoint that was prepared last."""
        return self.checkpoint["channel_values"]

    def _arguments(self) -> tuple[Any, ...]:
        return self.config, self.checkpoint, {"source": "loop", "step": self.step}, self.versions

    def put(self) -> None:
        """Store what was prepared."""
        self.config = self.saver.put(*self._arguments())

    async def aput(self) -> None:
        """Store what was prepared."""
        self.config = await self.saver.aput(*self._arguments())

    def writes(self) -> tuple[RunnableConfig, Sequence[tuple[str, Any]], str]:
        """Return the pending writes of a task of its own, which write the whole state."""
        self._task += 1
        return self.config, [("messages", list(self._texts))], f"{self._task:032d}"

    def is_latest(self, got: Any) -> bool:
        """Tell whether a tuple is that of the checkpoint that was stored last, with its state."""
        return bool(got and got.checkpoint["id"] == self.checkpoint["id"]) and (
            got.checkpoint["channel_values"] == self.values
        )


def _empty() -> Checkpoint:
    """Return a checkpoint as graphs make them; LangGraph's own function is still at an older format."""
    return empty_checkpoint() | {"v": 4}
