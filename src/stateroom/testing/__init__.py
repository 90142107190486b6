"""The conformance suites with which a store, a storage or a saver proves that it means what ours mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stateroom.testing.files import FilesSuite

try:
    from stateroom.testing.harness import Memory, Opened, Opens
    from stateroom.testing.needs import needs
    from stateroom.testing.savers import ManagedSaverSuite, SaverSuite
    from stateroom.testing.storage import StorageSuite
    from stateroom.testing.suite import StoreSuite
except ModuleNotFoundError as error:
    if error.name not in ("hypothesis", "pytest", "pytest_asyncio"):
        raise
    raise ModuleNotFoundError(
        f'stateroom.testing needs {error.name}: pip install "stateroom[testing]"', name=error.name
    ) from None

__all__ = [
    "FilesSuite",
    "ManagedSaverSuite",
    "Memory",
    "Opened",
    "Opens",
    "SaverSuite",
    "StorageSuite",
    "StoreSuite",
    "needs",
]


def __getattr__(name: str) -> Any:
    # With the files comes Deep Agents, where it is installed; who tests a store need not wait for it.
    if name == "FilesSuite":
        from stateroom.testing.files import FilesSuite

        return FilesSuite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
