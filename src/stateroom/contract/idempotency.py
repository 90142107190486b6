"""The idempotency contract: what a driver must do so that a repeated request is answered, not repeated.

The docstrings are the specification; ``stateroom.testing`` tests each of their sentences on every driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from stateroom.model.idempotency import IdempotencyRecord

__all__ = ["Idempotency"]


class Idempotency(ABC):
    """Records of requests by scope and key, until they expire. An expired one is absent."""

    @abstractmethod
    def claim(
        self, scope: str, key: str, *, fingerprint: str, claim_id: str, lifetime: int
    ) -> IdempotencyRecord:
        """Claim a key for ``lifetime`` microseconds unless somebody has it; answer who has it.

        Of all who claim one key exactly one sees his own ``claim_id`` in the answer.
        """

    @abstractmethod
    def record(
        self,
        scope: str,
        key: str,
        *,
        claim_id: str,
        response: bytes,
        thread_id: str | None,
        run_id: str | None,
        lifetime: int,
    ) -> bool:
        """Note the answer, for ``lifetime`` microseconds from now; tell whether the claim was still held.

        It is not noted when the thread or the run that it names is gone already; the claim is then given up.
        """

    @abstractmethod
    def release(self, scope: str, key: str, *, claim_id: str) -> bool:
        """Give up a claim that has no answer, so that another may have it; tell whether it was held."""

    @abstractmethod
    def get(self, scope: str, key: str) -> IdempotencyRecord | None:
        """Return the record of a key, or None."""

    @abstractmethod
    def sweep(self, limit: int = 1000) -> int:
        """Remove at most ``limit`` expired records; return how many."""
