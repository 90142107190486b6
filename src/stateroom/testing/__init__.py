"""The conformance suite with which a store proves that it means what every Stateroom store means."""

from __future__ import annotations

try:
    from stateroom.testing.harness import Memory, Opened, Opens
    from stateroom.testing.needs import needs
    from stateroom.testing.suite import StoreSuite
except ModuleNotFoundError as error:
    if error.name not in ("hypothesis", "pytest", "pytest_asyncio"):
        raise
    raise ModuleNotFoundError(
        f'stateroom.testing needs {error.name}: pip install "stateroom[testing]"', name=error.name
    ) from None

__all__ = ["Memory", "Opened", "Opens", "StoreSuite", "needs"]
