"""Reads one section of a configuration, key by key, and knows which keys nobody asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stateroom.errors import Misconfigured
from stateroom.model.text import show

__all__ = ["LIMITS", "Layer", "Section", "number"]

Layer = dict[str, Any]
"""Fields of ``Settings`` that somebody has set; those of its parts are named ``limits.lease`` and so on."""

LIMITS: Final[Mapping[str, tuple[type[int] | type[float], float, float]]] = {
    "concurrency": (int, 1, 1_000),
    "lease": (float, 1, 3_600),
    "max_attempts": (int, 1, 1_000),
    "run_timeout": (float, 0.001, 31_536_000),
    "shutdown_grace": (float, 0, 86_400),
    "heartbeat": (float, 0.1, 3_600),
    "page_size": (int, 1, 1_000_000),
    "body_bytes": (int, 1_024, 2**40),
    "frames_per_run": (int, 1, 10**9),
    "bytes_per_run": (int, 1_024, 2**40),
    "retained_runs": (int, 0, 10**9),
    "idempotency_lifetime": (float, 1, 31_536_000),
}
"""What each field of ``Limits`` may be: a whole number or any, from, to."""


class Section:
    """A JSON object that stands at ``place`` in a configuration; what is null counts as absent.

    Each method returns None for a key that is absent, and raises Misconfigured for a wrong value.
    """

    def __init__(self, content: object, place: str = "") -> None:
        if not isinstance(content, Mapping):
            raise Misconfigured(f"{place or 'the file'} must be an object, not {show(content)}", field=place)
        self.content = {key: value for key, value in content.items() if value is not None}
        self._place = place
        self._asked: set[str] = set()

    def field(self, key: str) -> str:
        """Return how messages name a key."""
        return f"{self._place}.{key}" if self._place else key

    def any(self, key: str) -> Any:
        """Return whatever is there."""
        self._asked.add(key)
        return self.content.get(key)

    def refuse(self, key: str, rule: str) -> Misconfigured:
        """Return the error for a key whose value breaks a rule."""
        return Misconfigured(
            f"{self.field(key)} is {show(self.content.get(key))}; {rule}", field=self.field(key)
        )

    def section(self, key: str) -> Section:
        """Return a section inside this one, empty if it is absent."""
        found = self.any(key)
        return Section({} if found is None else found, self.field(key))

    def text(self, key: str) -> str | None:
        """Return a text that is not empty."""
        found = self.any(key)
        if found is not None and not (isinstance(found, str) and found.strip()):
            raise self.refuse(key, "write a text")
        return found

    def reference(self, key: str) -> str | None:
        """Return what names an attribute of a file or module."""
        found = self.text(key)
        if found is not None and not all(found.rpartition(":")[::2]):
            raise self.refuse(key, 'write "./file.py:name" or "package.module:name"')
        return found

    def flag(self, key: str) -> bool | None:
        """Return true or false."""
        found = self.any(key)
        if found is not None and not isinstance(found, bool):
            raise self.refuse(key, "write true or false")
        return found

    def one_of(self, key: str, choices: Sequence[str]) -> str | None:
        """Return one of the choices."""
        found = self.any(key)
        if found is None:
            return None
        if found not in choices:
            raise self.refuse(key, f"write one of {', '.join(choices)}")
        return str(found)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts."""
        found = self.any(key)
        if found is None:
            return None
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise self.refuse(key, "write a list of texts")
        return tuple(found)

    def mapping(self, key: str) -> dict[str, Any] | None:
        """Return an object, whatever is in it."""
        found = self.any(key)
        if found is not None and not isinstance(found, dict):
            raise self.refuse(key, "write an object")
        return found

    def number(self, key: str, kind: type[int] | type[float], low: float, high: float) -> Any:
        """Return a number between two."""
        found = self.any(key)
        return None if found is None else number(found, kind, low, high, field=self.field(key))

    def unasked(self) -> list[str]:
        """Return the keys that nobody has asked for, as messages name them."""
        return [self.field(key) for key in self.content if key not in self._asked]


def number(
    value: object, kind: type[int] | type[float], low: float, high: float, *, field: str
) -> int | float:
    """Return a number of a kind between two; raise Misconfigured for anything else."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or (kind is int and not isinstance(value, int)) or not low <= value <= high:  # type: ignore[operator]  # a number, as just checked
        what = "a whole number" if kind is int else "a number"
        raise Misconfigured(f"{field} is {show(value)}; write {what} from {low:,} to {high:,}", field=field)
    assert isinstance(value, (int, float))
    return value if kind is int else float(value)
