"""Who in this process wants to be told when something has happened."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

__all__ = ["Signals"]

Woken = Callable[[], None]

_log = logging.getLogger(__name__)


class Signals:
    """Calls everybody who subscribed to a topic whenever it is sent, in the thread that sends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._woken: dict[str, dict[object, Woken]] = {}

    def subscribe(self, topic: str, woken: Woken) -> Callable[[], None]:
        """Have ``woken`` called whenever the topic is sent; return what ends that."""
        # Known by itself: the same function may have been subscribed twice.
        subscription = object()
        with self._lock:
            self._woken.setdefault(topic, {})[subscription] = woken

        def unsubscribe() -> None:
            with self._lock:
                subscribed = self._woken.get(topic, {})
                subscribed.pop(subscription, None)
                if not subscribed:
                    self._woken.pop(topic, None)

        return unsubscribe

    def send(self, *topics: str) -> None:
        """Call who subscribed to any of the topics; to be done after the commit, never before."""
        with self._lock:
            woken = [call for topic in topics for call in self._woken.get(topic, {}).values()]
        for call in woken:
            _call(call)

    def send_all(self, topics: Iterable[str]) -> None:
        """Send each topic once."""
        self.send(*dict.fromkeys(topics))


def _call(woken: Woken) -> None:
    try:
        woken()
    except Exception:
        # One listener's mistake, such as an event loop that has been closed, is no reason not to tell others.
        _log.warning("a listener failed", exc_info=True)
