"""Webhooks' calls in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from typing_extensions import override

from stateroom.contract.deliveries import Deliveries
from stateroom.drivers.sql.dialect import Dialect, Row, Session
from stateroom.drivers.sql.documents import (
    checked_duration,
    checked_id,
    checked_text,
    maybe_state,
    state_bytes,
)
from stateroom.drivers.sql.queries import queries
from stateroom.errors import Conflict
from stateroom.model.delivery import Delivery, DeliveryStatus, NewDelivery
from stateroom.model.page import check_page
from stateroom.model.run import Run
from stateroom.model.text import show

__all__ = ["SqlDeliveries", "insert_deliveries"]

_SQL: Final = queries("deliveries")


class SqlDeliveries(Deliveries):
    """Deliveries in one table, which is their queue."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    @override
    def get(self, delivery_id: str) -> Delivery | None:
        asked = {"delivery_id": checked_id(delivery_id, "delivery_id")}
        rows = self._dialect.read(lambda session: session.fetch(_SQL["get"], asked))
        return _delivery(rows[0]) if rows else None

    @override
    def of_run(self, run_id: str) -> list[Delivery]:
        asked = {"run_id": checked_id(run_id, "run_id")}
        return [_delivery(row) for row in self._dialect.read(lambda s: s.fetch(_SQL["of_run"], asked))]

    @override
    def claim(self, *, lease: int, limit: int = 20) -> list[Delivery]:
        most, _ = check_page(limit, 0)
        lasting = checked_duration(lease, "lease", least=1)

        def work(session: Session) -> list[Row]:
            ids = [each for (each,) in session.fetch(_SQL["due"], {"limit": most})]
            if not ids:
                return []
            claimed = {row[0]: row for row in session.fetch(_SQL["claim"], {"ids": ids, "lease": lasting})}
            return [claimed[each] for each in ids]

        return [_delivery(row) for row in self._dialect.write(work)]

    @override
    def succeed(self, delivery_id: str, *, attempts: int) -> bool:
        attempt = {"delivery_id": checked_id(delivery_id, "delivery_id"), "attempts": attempts}
        return self._dialect.write(lambda session: session.execute(_SQL["succeed"], attempt) > 0)

    @override
    def fail(self, delivery_id: str, *, attempts: int, error: str, retry_in: int | None) -> bool:
        failure = {
            "delivery_id": checked_id(delivery_id, "delivery_id"),
            "attempts": attempts,
            "error": checked_text(error, "error"),
            "retry_in": None if retry_in is None else checked_duration(retry_in, "retry_in"),
        }
        return self._dialect.write(lambda session: session.execute(_SQL["fail"], failure) > 0)

    @override
    def retry(self, delivery_id: str) -> Delivery | None:
        asked = {"delivery_id": checked_id(delivery_id, "delivery_id")}
        rows = self._dialect.write(lambda session: session.fetch(_SQL["retry"], asked), repeats=True)
        return _delivery(rows[0]) if rows else None

    @override
    def next_due_at(self) -> int | None:
        rows = self._dialect.read(lambda session: session.fetch(_SQL["next_due_at"]))
        return rows[0][0] if rows else None

    @override
    def sweep(self, *, before: int, limit: int = 1000) -> int:
        most, _ = check_page(limit, 0)

        def work(session: Session) -> int:
            ids = [each for (each,) in session.fetch(_SQL["done"], {"before": before, "limit": most})]
            return session.execute(_SQL["remove"], {"ids": ids}) if ids else 0

        return self._dialect.write(work)


def insert_deliveries(session: Session, run: Run, deliveries: Sequence[NewDelivery]) -> None:
    """Make the deliveries of a run, due now; ``Conflict`` when the id of one is taken."""
    for new in deliveries:
        made = session.execute(
            _SQL["insert"],
            {
                "delivery_id": checked_id(new.delivery_id, "delivery_id"),
                "run_id": run.run_id,
                "thread_id": run.thread_id,
                "url": checked_text(new.url, "url"),
                "payload": state_bytes(new.payload, "payload"),
            },
        )
        if not made:
            raise Conflict(
                f"delivery {show(new.delivery_id)} exists already; pass another id", field="delivery_id"
            )


def _delivery(row: Row) -> Delivery:
    delivery_id, run_id, thread_id, url, payload, status, *rest = row
    return Delivery(delivery_id, run_id, thread_id, url, maybe_state(payload), DeliveryStatus(status), *rest)
