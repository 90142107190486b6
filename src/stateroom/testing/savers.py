"""The suite with which a saver proves that it means what every Stateroom saver means."""

from __future__ import annotations

from stateroom.testing.parts.savers_deltas import DeltasSuite
from stateroom.testing.parts.savers_fences import FencesSuite
from stateroom.testing.parts.savers_graphs import GraphsSuite
from stateroom.testing.parts.savers_keeping import KeepingSuite
from stateroom.testing.parts.savers_listing import ListingSuite
from stateroom.testing.parts.savers_measuring import MeasuringSuite
from stateroom.testing.parts.savers_putting import PuttingSuite
from stateroom.testing.parts.savers_removing import RemovingSuite
from stateroom.testing.parts.savers_rolling_back import RollingBackSuite
from stateroom.testing.parts.savers_values import ValuesSuite
from stateroom.testing.parts.savers_writes import WritesSuite

__all__ = ["ManagedSaverSuite", "SaverSuite"]


class SaverSuite(
    DeltasSuite,
    GraphsSuite,
    KeepingSuite,
    ListingSuite,
    MeasuringSuite,
    PuttingSuite,
    RemovingSuite,
    ValuesSuite,
    WritesSuite,
):
    """All parts; a subclass gives the fixture ``new_saver``."""


class ManagedSaverSuite(FencesSuite, RollingBackSuite):
    """All parts for savers over a storage; a subclass gives the fixtures ``new_storage`` and ``over``."""
