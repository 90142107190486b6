"""The ``Idempotency-Key`` of requests that make runs: what they were answered is given again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import orjson
from fastapi import Header
from starlette.requests import Request
from starlette.responses import Response

from stateroom.api.waiting import wait_response
from stateroom.errors import InvalidIdempotencyKey
from stateroom.model.cron import Completion
from stateroom.model.idempotency import IdempotencyRecord
from stateroom.model.run import Run
from stateroom.model.run_kwargs import RunKwargs
from stateroom.service.idempotent import Claim, Keys
from stateroom.service.scope import Scope

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts

__all__ = ["REPLAYED", "Kept", "KeyHeader", "claimed", "refuse_key"]

REPLAYED: Final = {"Idempotent-Replay": "true"}
"""The header of an answer that is given again."""

KeyHeader = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="Repeated with this key, the request makes nothing anew"),
]


@dataclass
class Kept:
    """What a request's key is good for: the answer that its first use got, or a place for this one.

    Without a key it does nothing.
    """

    parts: Parts
    keys: Keys
    claim: Claim | None = None
    found: IdempotencyRecord | None = None
    noted: bool = field(default=False, init=False)

    async def again(self, scope: Scope) -> Response | None:
        """Return the answer of the key's first use, None if this is it; or raise NotFound."""
        if self.found is None:
            return None
        if self.found.thread_id is not None:
            await self.parts.offload(self.parts.threads.get, self.found.thread_id, scope)
        assert self.found.response is not None
        head, _, body = self.found.response.partition(b"\n")
        told = orjson.loads(head)
        headers = {**told["headers"], **REPLAYED}
        if told["waits"] is not None:
            return wait_response(self.parts, told["waits"], headers=headers)
        return Response(body, headers=headers, media_type="application/json")

    async def note(self, body: bytes | None, headers: Mapping[str, str], run: Run | None = None) -> None:
        """Note what this request is answered; without a body, that it waits for what ``run`` answers."""
        if self.claim is None:
            return
        waits = None if body is not None or run is None else run.run_id
        head = orjson.dumps({"headers": dict(headers), "waits": waits})
        lasts = run is not None and not _passes(run)
        await self.parts.offload(
            self.keys.record,
            self.claim,
            head + b"\n" + (body or b""),
            thread_id=run.thread_id if run is not None and lasts else None,
            run_id=run.run_id if run is not None and lasts else None,
        )
        self.noted = True


@asynccontextmanager
async def claimed(parts: Parts, access: Access, request: Request, key: str | None) -> AsyncGenerator[Kept]:
    """Hold a request's key, if it has one, and give it up unless an answer is noted."""
    keys = Keys(parts.storage.idempotency, parts.ids, lifetime=parts.settings.limits.idempotency_lifetime)
    if key is None:
        yield Kept(parts, keys)
        return
    found = await parts.offload(
        keys.claim,
        key,
        method=request.method,
        path=request.scope["path"],
        principal=access.principal,
        body=await request.json(),
    )
    if isinstance(found, IdempotencyRecord):
        yield Kept(parts, keys, found=found)
        return
    kept = Kept(parts, keys, claim=found)
    try:
        yield kept
    finally:
        if not kept.noted:
            await parts.offload(keys.release, found)


def refuse_key(key: str | None) -> None:
    """Raise InvalidIdempotencyKey if there is one: a stream cannot be given again."""
    if key is not None:
        raise InvalidIdempotencyKey(
            "Idempotency-Key is given with a stream, which cannot be given again; leave it out, or create "
            "the run and join its stream",
            field="Idempotency-Key",
        )


def _passes(run: Run) -> bool:
    """Tell whether a run and its thread go when it ends, so that its answer must be kept without them."""
    kwargs = RunKwargs.from_json(run.kwargs)
    return kwargs.temporary and kwargs.on_completion is Completion.DELETE
