"""Answers as JSON, and the headers that say how a list goes on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.responses import Response

from stateroom.model.paging import COUNTED_MAX

__all__ = ["answer", "encoded", "nothing", "page_headers"]

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def answer(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response of JSON. ``orjson.Fragment`` within it is JSON already."""
    return Response(
        encoded(value),
        status,
        headers=None if headers is None else dict(headers),
        media_type="application/json",
    )


def nothing(*, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response that says that all is well, and no more."""
    return Response(None, 204, headers=None if headers is None else dict(headers))


def encoded(value: Any) -> bytes:
    """Return a value as JSON: datetimes in ISO form, integers of any size, NaN and the infinities as null."""
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        # Integers outside 64 bits and lone surrogates are all that orjson refuses in what we answer.
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "replace")


def page_headers(
    total: int | None, *, offset: int, count: int, more: bool, cursor: str | None = None
) -> dict[str, str]:
    """Return the headers of a page that begins at ``offset`` and has ``count`` rows.

    ``total`` is None, or more than ``COUNTED_MAX``, where nobody counted to the end. ``more`` says that rows
    follow, ``cursor`` is what the body's ``after`` takes to go on behind this page.
    """
    headers: dict[str, str] = {}
    if total is not None and total <= COUNTED_MAX:
        headers["X-Pagination-Total"] = str(total)
    if more:
        headers["X-Pagination-Next"] = str(offset + count)
    if cursor is not None:
        headers["X-Pagination-Cursor"] = cursor
    return headers


def _plain(value: Any) -> Any:
    """Return what the standard library's JSON writes as orjson does the rest."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return json.loads(orjson.dumps(value, option=_OPTIONS))
