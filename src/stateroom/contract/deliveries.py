"""The deliveries contract: what a driver must do with webhooks' calls until they have been made.

The docstrings are the specification; ``stateroom.testing`` tests each of their sentences on every driver.
``Runs.settle`` makes deliveries, in the transaction that ends their run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from stateroom.model.delivery import Delivery

__all__ = ["Deliveries"]


class Deliveries(ABC):
    """Deliveries: each is claimed, tried, and then done, to be tried again later, or dead."""

    @abstractmethod
    def get(self, delivery_id: str) -> Delivery | None:
        """Return a delivery, or None."""

    @abstractmethod
    def of_run(self, run_id: str) -> list[Delivery]:
        """Return the deliveries of a run, the newest first."""

    @abstractmethod
    def claim(self, *, lease: int, limit: int = 20) -> list[Delivery]:
        """Take deliveries that are due, the longest due first, for ``lease`` microseconds.

        They become delivering, with one attempt more. One whose claimer said nothing within the lease is due
        again. Nobody else gets one while its lease lasts.
        """

    @abstractmethod
    def succeed(self, delivery_id: str, *, attempts: int) -> bool:
        """Note that a claimed delivery was made, erasing its payload; tell whether it was still claimed.

        It was if it is delivering in the attempt of that number.
        """

    @abstractmethod
    def fail(self, delivery_id: str, *, attempts: int, error: str, retry_in: int | None) -> bool:
        """Note that it failed, to be tried again in ``retry_in`` microseconds; None: never, it is dead."""

    @abstractmethod
    def retry(self, delivery_id: str) -> Delivery | None:
        """Make a delivery due now, with no attempts so far; None when it or its payload is gone."""

    @abstractmethod
    def next_due_at(self) -> int | None:
        """Return when the next delivery is due, None while none is."""

    @abstractmethod
    def sweep(self, *, before: int, limit: int = 1000) -> int:
        """Remove at most ``limit`` delivered and dead ones last changed before that; return how many."""
