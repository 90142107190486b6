"""How items of long-term memory are spelled in requests and answers."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from stateroom.api.memory import Hit, Kept, Memory
from stateroom.api.wire.base import Body, JsonObject, Limit, Offset
from stateroom.contract.items import Capability
from stateroom.errors import InvalidInput, InvalidNamespace
from stateroom.model.limits import TTL_MINUTES_MAX
from stateroom.model.text import show
from stateroom.search.fields import MAX_PATH_CHARS

__all__ = [
    "ETAG_PATTERN",
    "CountItems",
    "DeleteItem",
    "ListNamespaces",
    "PutItem",
    "SearchItems",
    "etag_of",
    "hit_json",
    "item_json",
    "parse_namespace",
    "revision_of",
]

ETAG_PATTERN: Final = r'^"([0-9]{1,18})"$'
"""How an ETag of an item is spelled."""


# The document says what of a text is refused beyond its type; what refuses it, and why, is the model's.
_LABEL: Final = {"pattern": r"^[^\u0000]+$"}
_PUT_LABEL: Final = {"pattern": r"^[^.\u0000]+$"}
_MINUTES: Final = {"exclusiveMinimum": 0, "maximum": TTL_MINUTES_MAX}
_PATH: Final = {"pattern": r"^[^\u0000]*$", "maxLength": MAX_PATH_CHARS}
_TEXT: Final = {"pattern": r"^[^\u0000]*$"}

Labels = list[Annotated[str, Field(min_length=1, json_schema_extra=_LABEL)]]
PutLabels = Annotated[
    list[Annotated[str, Field(min_length=1, json_schema_extra=_PUT_LABEL)]],
    Field(json_schema_extra={"minItems": 1}),
]
Key = Annotated[str, Field(json_schema_extra=_TEXT)]


class PutItem(Body):
    """An item to be kept. ``ttl`` is in minutes; null never expires, left out is as configured."""

    namespace: PutLabels
    key: Key
    value: JsonObject
    index: Literal[False] | list[Annotated[str, Field(json_schema_extra=_PATH)]] | None = None
    ttl: Annotated[float, Field(json_schema_extra=_MINUTES)] | None = None


class DeleteItem(Body):
    """An item to be removed."""

    namespace: Labels
    key: Key


class SearchItems(Body):
    """What to find. ``mode`` and ``explain`` are described with ``Store.search``."""

    namespace_prefix: Labels = Field(default=[])
    filter: JsonObject | None = None
    limit: Limit = 10
    offset: Offset = 0
    query: Annotated[str, Field(json_schema_extra=_TEXT)] | None = None
    refresh_ttl: bool | None = None
    mode: Literal["auto", "text", "vector", "hybrid"] = "auto"
    explain: bool = False


class CountItems(Body):
    """What to count."""

    namespace_prefix: Labels = Field(default=[])
    filter: JsonObject | None = None


class ListNamespaces(Body):
    """Which namespaces to list; ``*`` in ``prefix`` and ``suffix`` stands for one label."""

    prefix: Labels | None = None
    suffix: Labels | None = None
    max_depth: Annotated[int, Field(strict=True, ge=1)] | None = None
    limit: Limit = 100
    offset: Offset = 0


def item_json(item: Kept, memory: Memory) -> dict[str, Any]:
    """Return an item as it is answered; what its storage cannot tell is left out."""
    found = {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
    if item.revision is not None:
        found["revision"] = item.revision
    if Capability.TTL in memory.capabilities:
        found |= {"ttl": item.ttl, "expires_at": item.expires_at}
    return found


def hit_json(hit: Hit, memory: Memory) -> dict[str, Any]:
    """Return a found item as it is answered."""
    found = item_json(hit, memory) | {"score": hit.score}
    return found if hit.components is None else found | {"components": hit.components}


def parse_namespace(text: str) -> tuple[str, ...]:
    """Return the namespace that a query names: ``a.b``, or a JSON array where labels have dots."""
    if not text.startswith("["):
        return tuple(text.split(".")) if text else ()
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidNamespace(
            f'namespace is {show(text)}; write a.b, or a JSON array such as ["a","b"]', field="namespace"
        ) from error
    if not isinstance(labels, list):
        raise InvalidNamespace(f"namespace is {show(text)}; write a JSON array of labels", field="namespace")
    return tuple(labels)


def etag_of(item: Kept) -> dict[str, str]:
    """Return the header that names an item's revision, none if its storage has no revisions."""
    return {} if item.revision is None else {"ETag": f'"{item.revision}"'}


def revision_of(etag: str, field: str) -> int:
    """Return the revision that a header names."""
    found = re.fullmatch(ETAG_PATTERN, etag.strip())
    if found is None:
        raise InvalidInput(
            f"{field} is {show(etag)}; give the ETag of one item as it was answered, quotes and all",
            field=field,
        )
    return int(found[1])
