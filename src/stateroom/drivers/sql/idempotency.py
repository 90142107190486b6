"""Records of requests in SQL."""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from stateroom.contract.idempotency import Idempotency
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.drivers.sql.documents import checked_duration, checked_id
from stateroom.drivers.sql.queries import queries
from stateroom.model.idempotency import IdempotencyRecord
from stateroom.model.page import check_page

__all__ = ["SqlIdempotency"]

_SQL: Final = queries("idempotency")


class SqlIdempotency(Idempotency):
    """Records in one table."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    @override
    def claim(
        self, scope: str, key: str, *, fingerprint: str, claim_id: str, lifetime: int
    ) -> IdempotencyRecord:
        place = _place(scope, key)
        claim = {
            **place,
            "fingerprint": checked_id(fingerprint, "fingerprint"),
            "claim_id": checked_id(claim_id, "claim_id"),
            "lifetime": checked_duration(lifetime, "lifetime"),
        }

        def work(session: Session) -> IdempotencyRecord:
            # A claim that finds another locks it, so that it is still there to be answered.
            (row,) = session.fetch(_SQL["claim"], claim) or session.fetch(_SQL["holder"], place)
            return IdempotencyRecord(*row)

        return self._dialect.write(work, repeats=True)

    @override
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
        claim = {**_place(scope, key), "claim_id": checked_id(claim_id, "claim_id")}
        made = {
            "thread_id": None if thread_id is None else checked_id(thread_id, "thread_id"),
            "run_id": None if run_id is None else checked_id(run_id, "run_id"),
        }
        noted = {
            **claim,
            **made,
            "response": response,
            "lifetime": checked_duration(lifetime, "lifetime"),
        }

        def work(session: Session) -> bool:
            if not _are_there(session, **made):
                # A record goes with what it names; the request may be made again.
                session.execute(_SQL["forget"], claim)
                return False
            return session.execute(_SQL["record"], noted) > 0

        return self._dialect.write(work, repeats=True)

    @override
    def release(self, scope: str, key: str, *, claim_id: str) -> bool:
        claim = {**_place(scope, key), "claim_id": checked_id(claim_id, "claim_id")}
        return self._dialect.write(lambda session: session.execute(_SQL["release"], claim) > 0)

    @override
    def get(self, scope: str, key: str) -> IdempotencyRecord | None:
        place = _place(scope, key)
        rows = self._dialect.read(lambda session: session.fetch(_SQL["get"], place))
        return IdempotencyRecord(*rows[0]) if rows else None

    @override
    def sweep(self, limit: int = 1000) -> int:
        most, _ = check_page(limit, 0)

        def work(session: Session) -> int:
            rows = session.fetch(_SQL["expired"], {"limit": most})
            if not rows:
                return 0
            last = dict(zip(("expires_at", "scope", "key"), rows[-1], strict=True))
            return session.execute(_SQL["sweep"], last, planned=True)

        return self._dialect.write(work)


def _place(scope: str, key: str) -> dict[str, str]:
    return {"scope": checked_id(scope, "scope"), "key": checked_id(key, "key")}


def _are_there(session: Session, thread_id: str | None, run_id: str | None) -> bool:
    """Tell whether what a request made still exists, and keep it so until the transaction ends."""
    threads = set() if thread_id is None else {thread_id}
    if run_id is not None:
        # A run goes with its thread, at once for everybody but in truth a little later.
        rows = session.fetch(_SQL["thread_of_run"], {"run_id": run_id})
        if not rows:
            return False
        threads.add(rows[0][0])
    if not all(session.fetch(_SQL["thread"], {"thread_id": each}) for each in sorted(threads)):
        return False
    return run_id is None or bool(session.fetch(_SQL["run"], {"run_id": run_id}))
