"""Runs as a queue: which is claimed when, by whom, and what ends its execution."""

from __future__ import annotations

from stateroom.testing.parts.storage_queue_claiming import ClaimingSuite
from stateroom.testing.parts.storage_queue_ending import EndingSuite
from stateroom.testing.parts.storage_queue_losing import LosingSuite
from stateroom.testing.parts.storage_queue_racing import RacingSuite

__all__ = ["QueueSuite"]


class QueueSuite(ClaimingSuite, EndingSuite, LosingSuite, RacingSuite):
    """Claiming, renewing, settling, releasing and reaping."""
