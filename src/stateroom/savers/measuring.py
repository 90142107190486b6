"""What a thread's checkpoints take in storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ThreadBytes"]


@dataclass(frozen=True, slots=True)
class ThreadBytes:
    """The exact bytes that one thread's checkpoints take, apart from the keys of rows and from indexes.

    ``checkpoint_bytes`` are those of ``checkpoints`` checkpoints with their metadata and without the values
    of channels, which ``channels`` has by name, each version that is stored counted. ``write_bytes`` are
    those of ``writes`` pending writes. All namespaces count.
    """

    checkpoints: int
    checkpoint_bytes: int
    channels: Mapping[str, int]
    writes: int
    write_bytes: int

    @property
    def total(self) -> int:
        """All bytes."""
        return self.checkpoint_bytes + sum(self.channels.values()) + self.write_bytes
