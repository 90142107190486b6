"""What a request with an idempotency key was answered, so that its repetition is answered the same."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["IdempotencyRecord"]


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """One use of a key. Times are microseconds since 1970 UTC.

    ``scope`` says whose and for what the key is; ``fingerprint`` is a digest of the request. ``claim_id`` is
    whoever handles it first. ``response`` is what was answered, as bytes, and None while that is being
    worked out. ``thread_id`` and ``run_id`` are what the request made; the record goes with either.
    """

    scope: str
    key: str
    fingerprint: str
    claim_id: str
    response: bytes | None
    thread_id: str | None
    run_id: str | None
    created_at: int
    expires_at: int
