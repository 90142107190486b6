"""The conformance suite with which a store proves that it means what every Stateroom store means."""

from __future__ import annotations

from stateroom.testing.harness import Memory, Opened, Opens
from stateroom.testing.needs import needs
from stateroom.testing.suite import StoreSuite

__all__ = ["Memory", "Opened", "Opens", "StoreSuite", "needs"]
