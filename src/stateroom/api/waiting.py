"""Answers of whoever waits for a run: what it answers, behind signs of life for proxies on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import orjson

from stateroom.api.live import LiveResponse, OnDisconnect
from stateroom.api.outcomes import failure

if TYPE_CHECKING:
    from stateroom.api.parts import Parts

__all__ = ["SIGN", "Remember", "run_output", "wait_response"]

Remember = Callable[[bytes], Awaitable[None]]

SIGN: Final = b"\n"
"""White space, which JSON may begin with."""


def wait_response(
    parts: Parts,
    run_id: str,
    *,
    headers: Mapping[str, str] | None = None,
    on_disconnect: OnDisconnect | None = None,
    remember: Remember | None = None,
) -> LiveResponse:
    """Return an answer that comes when the run has ended; its status and headers go out at once.

    ``remember`` is called with it before it goes out.
    """
    return LiveResponse(
        _body(parts, run_id, remember),
        sign=SIGN,
        heartbeat=parts.settings.limits.heartbeat,
        media_type="application/json",
        headers=headers or {},
        resumable=False,
        on_disconnect=on_disconnect,
    )


async def run_output(parts: Parts, run_id: str) -> bytes:
    """Wait for the end of a run; return the JSON that it answers: its final values, or ``__error__``."""
    status, output = await parts.followers.output(run_id)
    if output is not None:
        return output
    return orjson.dumps({"__error__": await failure(parts, run_id, status)})


async def _body(parts: Parts, run_id: str, remember: Remember | None) -> AsyncGenerator[bytes]:
    output = await run_output(parts, run_id)
    if remember is not None:
        await remember(output)
    yield output
