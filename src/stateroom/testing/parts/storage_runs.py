"""Runs as what is made, looked up, cancelled and removed."""

from __future__ import annotations

from stateroom.testing.parts.storage_runs_creation import CreationSuite
from stateroom.testing.parts.storage_runs_finding import FindingSuite

__all__ = ["RunSuite"]


class RunSuite(CreationSuite, FindingSuite):
    """Making runs, looking them up, cancelling and deleting them."""
