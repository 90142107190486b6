"""What namespaces and keys may be, how namespaces sort as bytes, and which of them a pattern selects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from stateroom.errors import InvalidKey, InvalidNamespace
from stateroom.model.limits import KEY_BYTES_MAX, LABEL_BYTES_MAX, NAMESPACE_LABELS_MAX, check_limit
from stateroom.model.text import flaw, show

__all__ = [
    "WILDCARD",
    "Match",
    "Namespace",
    "check_item_namespace",
    "check_key",
    "check_match",
    "check_namespace",
    "check_put_namespace",
    "decode",
    "encode",
    "has_prefix",
    "prefix_range",
]

Namespace = tuple[str, ...]

WILDCARD: Final = "*"
"""In a Match exactly one label of any text; everywhere else an ordinary label."""

RESERVED_ROOT: Final = "langgraph"
"""The root label that LangGraph keeps for itself."""


@dataclass(frozen=True, slots=True)
class Match:
    """A condition on namespaces, made by ``check_match``.

    A ``prefix`` is compared from the first label on, a ``suffix`` up to the last one. WILDCARD in the path
    stands for exactly one label. A path longer than the namespace never matches, an empty one always does.
    """

    kind: Literal["prefix", "suffix"]
    path: Namespace

    def matches(self, namespace: Namespace) -> bool:
        """Tell whether the condition selects ``namespace``."""
        size = len(self.path)
        if size > len(namespace):
            return False
        part = namespace[:size] if self.kind == "prefix" else namespace[len(namespace) - size :]
        if WILDCARD not in self.path:
            return part == self.path
        return all(wanted in (WILDCARD, label) for wanted, label in zip(self.path, part, strict=True))


def check_namespace(namespace: object, *, field: str = "namespace") -> Namespace:
    """Return a list or tuple of labels as a plain tuple of plain strings.

    A label is a non-empty string without NUL and lone surrogates. Raises InvalidNamespace naming the
    position and the value to blame, LimitExceeded above LABEL_BYTES_MAX and NAMESPACE_LABELS_MAX.
    """
    # This runs on every operation. Plain namespaces are let through at once; whatever is special about
    # one is looked at more closely.
    if type(namespace) is tuple and len(namespace) <= NAMESPACE_LABELS_MAX:
        for label in namespace:
            if not (type(label) is str and label and label.isascii() and len(label) <= LABEL_BYTES_MAX):
                break
            if "\0" in label:
                break
        else:
            return namespace
    return _check_anew(namespace, field)


def check_item_namespace(namespace: object, *, field: str = "namespace") -> Namespace:
    """Return what ``check_namespace`` does, and also refuse ``()``, where no item can be."""
    labels = check_namespace(namespace, field=field)
    if not labels:
        raise InvalidNamespace(
            f"{field} is empty; an item needs at least one label, such as ('notes',)", field=field
        )
    return labels


def check_put_namespace(namespace: object, *, field: str = "namespace") -> Namespace:
    """Return what ``check_item_namespace`` does, and also refuse ``.`` in labels and the root ``langgraph``.

    These are LangGraph's rules for ``put``; its ``batch`` is the way past them.
    """
    labels = check_item_namespace(namespace, field=field)
    for position, label in enumerate(labels):
        if "." in label:
            raise InvalidNamespace(
                f"{field}[{position}] is {show(label)}; a label must not contain '.', split it in two",
                field=f"{field}[{position}]",
            )
    if labels[0] == RESERVED_ROOT:
        raise InvalidNamespace(
            f"{field}[0] is {RESERVED_ROOT!r}, which LangGraph keeps for itself; choose another root label",
            field=f"{field}[0]",
        )
    return labels


def check_key(key: object, field: str = "key") -> str:
    """Return ``key`` as a plain string; numbers, UUIDs and the like by ``str``, as LangGraph does.

    Raises InvalidKey for None, bytes, NUL and lone surrogates, LimitExceeded above KEY_BYTES_MAX.
    """
    if type(key) is str and len(key) <= KEY_BYTES_MAX and key.isascii() and "\0" not in key:
        return key
    if key is None or isinstance(key, (bytes, bytearray, memoryview)):
        raise InvalidKey(f"{field} is {show(key)}; pass a string", field=field)
    text = str.__str__(key) if isinstance(key, str) else str(key)
    if fault := flaw(text):
        raise InvalidKey(f"{field} {fault}; remove it", field=field)
    check_limit(len(text.encode()), KEY_BYTES_MAX, "bytes", field=field)
    return text


def check_match(kind: object, path: object, field: str = "path") -> Match:
    """Return the condition; raise InvalidNamespace for an unknown kind or a bad label in ``path``."""
    if kind not in ("prefix", "suffix"):
        raise InvalidNamespace(
            f"{field} has the match type {show(kind)}; use 'prefix' or 'suffix'", field=field
        )
    return Match(kind, check_namespace(path, field=field))


def encode(namespace: Namespace) -> bytes:
    """Return bytes that sort as namespaces do, label by label in code-point order, the shorter first.

    Each label is its UTF-8 bytes and a 0x00, which no label holds, so whole labels are whole byte prefixes.
    """
    return ("\0".join(namespace) + "\0").encode() if namespace else b""


def decode(encoded: bytes) -> Namespace:
    """Return the namespace that ``encode`` was given."""
    return tuple(encoded[:-1].decode().split("\0")) if encoded else ()


def prefix_range(prefix: Namespace) -> tuple[bytes, bytes | None]:
    """Return the first encoding that ``prefix`` selects, and the first one after all of them or None."""
    low = encode(prefix)
    return low, low[:-1] + b"\x01" if low else None


def has_prefix(namespace: Namespace, prefix: Namespace) -> bool:
    """Tell whether ``namespace`` begins with the labels of ``prefix``; ``*`` is an ordinary label."""
    return namespace[: len(prefix)] == prefix


def _check_anew(namespace: object, field: str) -> Namespace:
    if isinstance(namespace, str):
        raise InvalidNamespace(
            f"{field} is the string {show(namespace)}; write a tuple such as ({show(namespace)},)",
            field=field,
        )
    if not isinstance(namespace, (tuple, list)):
        raise InvalidNamespace(f"{field} is {show(namespace)}; pass a tuple of strings", field=field)
    check_limit(len(namespace), NAMESPACE_LABELS_MAX, "labels", field=field)
    return tuple(_check_label(label, f"{field}[{position}]") for position, label in enumerate(namespace))


def _check_label(label: object, field: str) -> str:
    if not isinstance(label, str):
        raise InvalidNamespace(f"{field} is {show(label)}; a label must be a string", field=field)
    text = str.__str__(label)
    if not text:
        raise InvalidNamespace(f"{field} is empty; a label needs at least one character", field=field)
    if fault := flaw(text):
        raise InvalidNamespace(f"{field} {fault}; remove it", field=field)
    check_limit(len(text.encode()), LABEL_BYTES_MAX, "bytes", field=field)
    return text
