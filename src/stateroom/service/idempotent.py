"""Answering a repeated request as its first was answered, by the key that the client gives it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, NamedTuple

from stateroom.contract.idempotency import Idempotency
from stateroom.errors import IdempotencyKeyInFlight, IdempotencyKeyReused, InvalidIdempotencyKey
from stateroom.ids import IdSource
from stateroom.model.idempotency import IdempotencyRecord
from stateroom.model.limits import IDEMPOTENCY_KEY_MAX
from stateroom.model.text import show
from stateroom.service.scope import Principal

__all__ = ["CLAIM_SECONDS", "Claim", "Keys", "check_key", "fingerprint"]

CLAIM_SECONDS: Final = 60
"""How long a request may take until its answer is noted; a key whose request died is free again then."""


class Claim(NamedTuple):
    """The first use of a key, by the request that has it."""

    scope: str
    key: str
    claim_id: str


class Keys:
    """The keys of requests; the methods block. ``lifetime`` is how many seconds answers are given again."""

    def __init__(self, records: Idempotency, ids: IdSource, *, lifetime: float) -> None:
        self._records = records
        self._ids = ids
        self._lifetime = round(lifetime * 1_000_000)

    def claim(
        self, key: str, *, method: str, path: str, principal: Principal | None, body: Any
    ) -> Claim | IdempotencyRecord:
        """Return the claim of whoever uses a key first, to others what he was answered.

        A key is the caller's, for one method and path. Raises InvalidIdempotencyKey; IdempotencyKeyReused
        for another body; IdempotencyKeyInFlight while there is no answer.
        """
        who = "" if principal is None else principal.identity
        wanted = Claim(_digest([method, path, principal is not None, who]), check_key(key), self._ids())
        print_ = fingerprint(body)
        found = self._records.claim(
            wanted.scope,
            wanted.key,
            fingerprint=print_,
            claim_id=wanted.claim_id,
            lifetime=CLAIM_SECONDS * 1_000_000,
        )
        if found.claim_id == wanted.claim_id:
            return wanted
        if found.fingerprint != print_:
            raise IdempotencyKeyReused(
                f"Idempotency-Key {show(key)} was used before for another body; send a new key",
                field="Idempotency-Key",
            )
        if found.response is None:
            raise IdempotencyKeyInFlight(
                f"the request with Idempotency-Key {show(key)} is being answered; send it again later",
                field="Idempotency-Key",
            )
        return found

    def record(
        self, claim: Claim, response: bytes, *, thread_id: str | None = None, run_id: str | None = None
    ) -> None:
        """Note what is answered, once more if it has changed; it goes with the thread and the run named."""
        self._records.record(
            *claim[:2],
            claim_id=claim.claim_id,
            response=response,
            thread_id=thread_id,
            run_id=run_id,
            lifetime=self._lifetime,
        )

    def release(self, claim: Claim) -> None:
        """Give up a key whose request failed, so that it can be tried again."""
        self._records.release(*claim[:2], claim_id=claim.claim_id)


def check_key(key: str) -> str:
    """Return a key; raise InvalidIdempotencyKey unless it is printable ASCII and not too long."""
    if not 0 < len(key) <= IDEMPOTENCY_KEY_MAX or not (key.isascii() and key.isprintable()):
        raise InvalidIdempotencyKey(
            f"Idempotency-Key is {show(key)}; pass 1 to {IDEMPOTENCY_KEY_MAX} printable ASCII characters",
            field="Idempotency-Key",
        )
    return key


def fingerprint(body: Any) -> str:
    """Return a digest of a body: the same for the same JSON, whatever the order of keys and the spaces."""
    return _digest(body)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
