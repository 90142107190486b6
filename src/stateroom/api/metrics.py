"""Counts of what a server does, as Prometheus reads them."""

from __future__ import annotations

from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.types import Scope

from stateroom.model.paging import COUNTED_MAX

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_OTHER: Final = "other"


class Metrics:
    """The metrics of one application, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter(
            "stateroom_http_requests", "Requests answered", labels, registry=self._registry
        )
        self._durations = Histogram(
            "stateroom_http_request_seconds",
            "Seconds from a request to the end of its answer",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._runs = Gauge(
            "stateroom_runs",
            f"Runs kept, by status, each counted up to {COUNTED_MAX}",
            ("status",),
            registry=self._registry,
        )
        # Looking up children by their labels would cost each request a few locks more.
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def served(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request. One without a status, or of no route, is of the kind ``other``."""
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        key = (method, getattr(scope.get("route"), "path", _OTHER), status)
        children = self._children.get(key)
        if children is None:
            counter = self._requests.labels(method, key[1], str(status) if status else _OTHER)
            children = self._children[key] = (counter, self._durations.labels(method, key[1]))
        children[0].inc()
        children[1].observe(seconds)

    def text(self, runs: dict[str, int]) -> bytes:
        """Return everything in Prometheus' form, given how many runs there are by status."""
        for status, count in runs.items():
            self._runs.labels(status).set(count)
        return generate_latest(self._registry)


_METHODS: Final = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
