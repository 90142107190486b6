"""What the bodies and parameters of all routes have in common."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from stateroom.errors import LimitExceeded
from stateroom.settings import Limits

__all__ = [
    "THREAD_ID_PATTERN",
    "Body",
    "JsonObject",
    "Limit",
    "Offset",
    "Problem",
    "Texts",
    "ThreadId",
    "check_limit",
    "split",
]


class Body(BaseModel):
    """A request's body: what it does not declare is refused with 422, never ignored."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """What every refusal says: a text, a code that programs can act on, and the field to blame."""

    detail: Any
    code: str
    field: str | None = None


JsonObject = dict[str, Any]

THREAD_ID_PATTERN: Final = r"^[A-Za-z0-9_.:@-]{1,255}$"

ThreadId = Annotated[str, StringConstraints(pattern=THREAD_ID_PATTERN)]
"""A thread's id, in a path or a body."""

Limit = Annotated[int, Field(strict=True, ge=0, json_schema_extra={"maximum": Limits().page_size})]
"""The rows of one page in a body. The true maximum is a setting, see ``check_limit``."""

Offset = Annotated[int, Field(strict=True, ge=0, json_schema_extra={"maximum": 2**63 - 1})]
"""How many rows to pass over, in a body."""


def check_limit(limit: int, limits: Limits) -> int:
    """Return ``limit``; refuse, with 422, more rows than one page may have."""
    if limit > limits.page_size:
        raise LimitExceeded(
            f"limit is {limit}; a page has at most {limits.page_size:,} rows, so ask for several",
            field="limit",
        )
    return limit


def split(given: Any) -> Any:
    """Return the texts of a query parameter, however a client spells several of them.

    Python's SDK repeats the parameter or joins by commas, JavaScript's writes one JSON array.
    """
    if not isinstance(given, list):
        return given
    found: list[Any] = []
    for text in given:
        if isinstance(text, str) and text.startswith("["):
            try:
                found += json.loads(text)
                continue
            except ValueError:
                pass
        found += text.split(",") if isinstance(text, str) else [text]
    return [one for one in found if one != ""]


Texts = Annotated[list[str], BeforeValidator(split)]
"""Texts in a query. Write ``Annotated[Texts | None, Query()]``."""
