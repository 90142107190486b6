"""The suites that ship hold every part, so that one class proves all of a storage or a saver."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

from stateroom.testing import ManagedSaverSuite, SaverSuite, StorageSuite, parts


def parts_of(prefix: str) -> Iterator[tuple[type, str]]:
    """Yield the tests of all parts whose modules begin so."""
    for module in pkgutil.iter_modules(parts.__path__):
        if module.name.startswith(prefix):
            for thing in vars(importlib.import_module(f"{parts.__name__}.{module.name}")).values():
                if isinstance(thing, type) and thing.__name__.endswith("Suite"):
                    yield from ((thing, name) for name in vars(thing) if name.startswith("test_"))


@pytest.mark.parametrize(
    ("prefix", "suites", "least"),
    [("storage_", (StorageSuite,), 200), ("savers_", (SaverSuite, ManagedSaverSuite), 100)],
)
def test_no_part_is_left_out_or_covered_up(prefix: str, suites: tuple[type, ...], least: int) -> None:
    tests = set(parts_of(prefix))
    assert len(tests) >= least
    for part, name in tests:
        assert any(getattr(suite, name, None) is vars(part)[name] for suite in suites), (part, name)
