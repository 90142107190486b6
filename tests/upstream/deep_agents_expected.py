"""The tests of Deep Agents that must fail on our backends, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

from .holding import Expected  # noqa: TID252  # as deep_agents.py says

EXPECTED: tuple[Expected, ...] = ()
EXPECTED_BY_SUITE: Mapping[str, tuple[Expected, ...]] = {}
