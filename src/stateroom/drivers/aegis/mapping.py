"""How an item lies in an AegisDB record: byte for byte as the public ``aegisdb-langgraph`` package has it.

The record belongs to the store's ``agent_id`` and is of the type ``semantic``. Its tags are ``lg-store``,
``k-`` with the digest of the namespace and the key, and ``p-`` with that of each prefix of the namespace,
the empty one first. Its data is a JSON object of ``key``, ``ns`` and ``value``, all keys sorted. Two more
members, which the public package passes over, are there only when they are needed: ``words`` repeats words
that JSON's escapes hide from the server, ``index`` is false when no query may find the item.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson

from stateroom.drivers.aegis.protocol import DATA_BYTES_MAX
from stateroom.errors import LimitExceeded
from stateroom.model.file import Stat, stat_of
from stateroom.model.item import Record
from stateroom.model.json_values import decode_value
from stateroom.model.namespace import Namespace, has_prefix

__all__ = [
    "DEPTH_MAX",
    "MARKER",
    "Found",
    "encode_data",
    "items",
    "key_tag",
    "make_record",
    "namespaces",
    "prefix_tag",
    "read",
    "strings",
    "tags",
]

MARKER: Final = "lg-store"
"""The tag of every record that is an item."""

DEPTH_MAX: Final = 29
"""Labels of a namespace: AegisDB takes 32 tags, and each prefix, the key and the marker need one."""


class Found(NamedTuple):
    """A record that holds an item, as the server sent it; times are milliseconds since 1970."""

    id: int
    created: int
    updated: int
    namespace: Namespace
    key: str
    value: dict[str, Any]
    is_indexed: bool
    score: float | None
    tags: list[str]

    @property
    def record(self) -> Record:
        """The item as drivers answer it."""
        try:
            raw = orjson.dumps(self.value)
        except TypeError:
            # As `encode_value` marks integers beyond 64 bits; what else is wrong with a value stays so.
            text = json.dumps(self.value, ensure_ascii=False, separators=(",", ":"))
            raw = b" " + text.encode(errors="replace")
        return make_record(self.namespace, self.key, raw, self.created, self.updated)

    @property
    def stat(self) -> Stat | None:
        """What the item is as a file, read from its value."""
        return stat_of(self.key, self.record.raw)


def tags(namespace: Namespace, key: str) -> list[str]:
    """Return the tags of an item's record; LimitExceeded if its namespace is too deep for AegisDB."""
    if len(namespace) > DEPTH_MAX:
        raise LimitExceeded(
            f"namespace has {len(namespace)} labels; at most {DEPTH_MAX} are allowed, because AegisDB keeps "
            "32 tags for a record and each prefix of the namespace needs one",
            field="namespace",
        )
    prefixes = [prefix_tag(namespace[:depth]) for depth in range(len(namespace) + 1)]
    return [MARKER, key_tag(namespace, key), *prefixes]


def key_tag(namespace: Namespace, key: str) -> str:
    """Return the tag that finds one item."""
    return f"k-{_digest((*namespace, key))}"


@lru_cache(maxsize=4096)
def prefix_tag(prefix: Namespace) -> str:
    """Return the tag that finds all items at or below a namespace."""
    return f"p-{_digest(prefix)}"


def _digest(segments: Sequence[str]) -> str:
    # Each segment with its length in front, so that ("a", "bc") and ("ab", "c") stay apart.
    encoded = (segment.encode() for segment in segments)
    return sha256(b"".join(b"%d:%b" % (len(each), each) for each in encoded)).hexdigest()[:16]


def encode_data(namespace: Namespace, key: str, raw: bytes, *, is_indexed: bool = True) -> str:
    """Return the data of an item's record; LimitExceeded if it is more than AegisDB takes."""
    value = decode_value(raw)
    body: dict[str, Any] = {"key": key, "ns": list(namespace), "value": value}
    if not is_indexed:
        body["index"] = False
    data = _dump(body)
    size = len(data.encode())
    if size > DATA_BYTES_MAX:
        raise LimitExceeded(
            f"value takes {size:,} bytes as AegisDB stores it; at most {DATA_BYTES_MAX:,} are allowed",
            field="value",
        )
    if is_indexed and "\\" in data and (words := _hidden_words(value)):
        longer = _dump({**body, "words": words})
        # What the server can store is more than what it can find.
        return longer if len(longer.encode()) <= DATA_BYTES_MAX else data
    return data


def _dump(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, sort_keys=True)


_BEHIND_CONTROL: Final = re.compile(r"[\x00-\x1f]([^\x00-\x20]+)")
"""A word that follows a control character: JSON's escape ends in a letter or digit, which the server adds
to it, so that of two lines it would know "hello" and "nworld"."""


def _hidden_words(value: dict[str, Any]) -> str:
    return " ".join(word for text in strings(value) for word in _BEHIND_CONTROL.findall(text))


def strings(value: object) -> Iterator[str]:
    """Yield the strings and numbers of a value, but not its keys."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, str):
            yield part
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield str(part)


def read(record: dict[str, Any]) -> Found | None:
    """Return the item in a record, or None where somebody else's record is no item."""
    body = _load(record.get("data"))
    if not isinstance(body, dict) or not isinstance(body.get("key"), str):
        return None
    namespace, value = body.get("ns"), body.get("value") or {}
    if not isinstance(namespace, list) or not isinstance(value, dict):
        return None
    if not namespace or not all(isinstance(label, str) for label in namespace):
        return None
    explained = record.get("explain")
    return Found(
        int(record["id"]),
        int(record["created"]),
        int(record["updated"]),
        tuple(namespace),
        body["key"],
        value,
        body.get("index") is not False,
        float(explained["score"]) if isinstance(explained, dict) else None,
        record.get("tags") or [],
    )


def items(records: Sequence[dict[str, Any]], prefix: Namespace) -> Iterator[Found]:
    """Yield the items at or below a namespace, in the order of their records; of twins the oldest alone.

    Only what is asked for is decoded: the tag of the key tells where there are twins to look for.
    """
    seen = Counter(map(_key_tag_of, records))
    doubtful = [record for record in records if seen[_key_tag_of(record)] > 1]
    oldest: dict[tuple[Namespace, str], int] = {}
    for twin in filter(None, map(read, doubtful)):
        address = twin.namespace, twin.key
        oldest[address] = min(twin.id, oldest.get(address, twin.id))
    for item in filter(None, map(read, records)):
        is_item = oldest.get((item.namespace, item.key), item.id) == item.id
        if is_item and has_prefix(item.namespace, prefix):
            yield item


def _key_tag_of(record: dict[str, Any]) -> object:
    # Where we and the public package put it; whatever else is there, the item itself is looked at.
    found: list[Any] = record.get("tags") or []
    return found[1] if len(found) > 1 and str(found[1]).startswith("k-") else None


def namespaces(records: Sequence[dict[str, Any]]) -> set[Namespace]:
    """Return the namespaces of all items in records."""
    known: dict[str, Namespace] = {}
    for record in records:
        spelled = _namespace_text(record.get("data"))
        if spelled is None or spelled not in known:
            item = read(record)
            if item is not None:
                known[spelled or repr(item.namespace)] = item.namespace
    return set(known.values())


def _namespace_text(data: object) -> str | None:
    """Return the part of a record's data that spells the namespace, if it is written as we write it.

    No string in JSON holds a bare quotation mark, so the first that looks like a member is one.
    """
    if not isinstance(data, str) or not data.startswith(_BEGINNINGS):
        return None
    start = data.find('", "ns": [')
    end = data.find('"], "value": {', start)
    return data[start:end] if 0 < start < end else None


_BEGINNINGS: Final = ('{"key": "', '{"index": false, "key": "')
_LONG_INTEGER: Final = re.compile(r"[0-9]{19}")


def _load(data: object) -> Any:
    if not isinstance(data, str):
        return None
    try:
        if not _LONG_INTEGER.search(data):
            return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    # Integers beyond 64 bits, which orjson would round, and NaN, which others write and nobody can compare.
    try:
        return json.loads(data, parse_constant=lambda _constant: None)
    except (ValueError, RecursionError):
        return None


def make_record(namespace: Namespace, key: str, raw: bytes, created: int, updated: int) -> Record:
    """Return an item with times in milliseconds, as the server has them."""
    return Record(namespace, key, raw, 0, created * 1000, updated * 1000, None, None)
