"""AegisDB's protocol without any input or output: its frames and limits, and its refusals as our errors."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import orjson

from stateroom.errors import LimitExceeded, Misconfigured, NotSupported, StateroomError, Unavailable

__all__ = [
    "DATA_BYTES_MAX",
    "LINE_BYTES_MAX",
    "NOT_FOUND",
    "NOT_READY",
    "OFFSET_MAX",
    "PAGE_MAX",
    "Answer",
    "Exchange",
    "Server",
    "Steps",
    "accepted",
    "frame",
    "no_answer",
    "refusal",
    "unreachable",
]

DATA_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one record's data that a server takes unless it was started with another ``--max-payload``."""

LINE_BYTES_MAX: Final = DATA_BYTES_MAX + 4096
"""Bytes of one request; the server cuts the connection of whoever sends more."""

PAGE_MAX: Final = 1000
"""Records in one answer; the server silently takes a larger page for this one."""

OFFSET_MAX: Final = 100_000
"""Records that a search can skip; the server silently takes a larger offset for this one."""

BURST_BYTES: Final = 32 * 1024
"""Requests sent before their answers are read.

The server reads no further while an answer waits to be taken, so what is under way must fit into the
buffers of the connection, or both sides would wait for each other.
"""

Answer: TypeAlias = dict[str, Any]

T = TypeVar("T")
Steps: TypeAlias = Generator[list[bytes], list[Answer], T]
"""What a connection has to do for an operation: it yields requests and is sent their answers."""


class Server(NamedTuple):
    """Where a server is, as whom to ask it, and how many seconds to wait for it.

    ``agent_id`` is the namespace of AegisDB that everything is written in; None names none.
    """

    host: str
    port: int
    agent_id: str | None
    token: str | None = None
    connect_timeout: float = 2.0
    read_timeout: float = 10.0

    @property
    def identity(self) -> dict[str, str]:
        """The fields of a request that say who asks."""
        fields = {"agent_id": self.agent_id, "token": self.token or None}
        return {name: value for name, value in fields.items() if value is not None}


def frame(identity: dict[str, str], field: str, **request: Any) -> bytes:
    """Return a request as a line of raw UTF-8; LimitExceeded names ``field`` if it is too long."""
    line = orjson.dumps({**request, **identity}) + b"\n"
    if len(line) > LINE_BYTES_MAX:
        raise LimitExceeded(
            f"{field} takes {len(line):,} bytes as AegisDB reads it; at most {LINE_BYTES_MAX:,} are allowed",
            field=field,
        )
    return line


class Exchange:
    """Requests on their way over one connection after another, and the answers so far, in order."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self.answers: list[Answer] = []
        self._lines = lines
        self._awaited = 0
        self._rest = b""

    def burst(self) -> bytes | None:
        """Return what to send next, all of it at once; None when everything has been answered."""
        start = end = len(self.answers)
        if start == len(self._lines):
            return None
        size = 0
        while end < len(self._lines) and (end == start or size + len(self._lines[end]) <= BURST_BYTES):
            size += len(self._lines[end])
            end += 1
        self._awaited = end
        self._rest = b""
        return b"".join(self._lines[start:end])

    def receive(self, chunk: bytes) -> bool:
        """Take what has come; return whether the burst is answered. No bytes at all are a lost connection."""
        if not chunk:
            raise ConnectionResetError("the connection was closed before the answer was complete")
        self._rest += chunk
        if b"\n" in chunk:
            *lines, self._rest = self._rest.split(b"\n")
            self.answers += map(_parse, lines)
        return len(self.answers) >= self._awaited


def _parse(line: bytes) -> Answer:
    try:
        answer = orjson.loads(line)
    except orjson.JSONDecodeError:
        # Somebody else's record may hold what is no UTF-8; it does not keep ours from being read.
        answer = json.loads(line.decode(errors="replace"))
    if not isinstance(answer, dict):
        raise ConnectionResetError("the answer is no JSON object")
    return answer


NOT_FOUND: Final = "NOT_FOUND"
NOT_READY: Final = "NOT_READY"


def refusal(answer: Answer) -> str | None:
    """Return the code with which the server refuses, or None where it does not."""
    if answer.get("ok"):
        return None
    return str((answer.get("error") or {}).get("code") or "INTERNAL")


def accepted(answer: Answer) -> Answer:
    """Return an answer, or raise what its refusal means."""
    code = refusal(answer)
    if code is None:
        return answer
    said = f"{code}: {(answer.get('error') or {}).get('message') or 'no reason given'}"
    kind, advice, field = _REFUSALS.get(code, (NotSupported, "the server does not do this", None))
    raise kind(f"AegisDB refused ({said}); {advice}", field=field)


_REFUSALS: Final[dict[str, tuple[type[StateroomError], str, str | None]]] = {
    "PAYLOAD_TOO_LARGE": (
        LimitExceeded,
        f"value is larger than the server's --max-payload, by default {DATA_BYTES_MAX:,} bytes",
        "value",
    ),
    "QUOTA_EXCEEDED": (LimitExceeded, "delete items, or have the quota of this token raised", "token"),
    "UNAUTHORIZED": (Misconfigured, "pass a token that this server knows", "token"),
    "FORBIDDEN": (Misconfigured, "this token may not do so; pass one that may", "token"),
    "READ_ONLY": (NotSupported, "this server only reads; write to its primary", None),
    "RATE_LIMITED": (Unavailable, "ask again later", None),
    "MEMORY_LIMIT": (Unavailable, "the server takes no new items until it has memory again", None),
    "INTERNAL": (Unavailable, "ask again later", None),
    NOT_READY: (Unavailable, "the server cannot do this now", None),
}


def unreachable(server: Server, error: OSError) -> Unavailable:
    """Return the error of a server that takes no connection."""
    return Unavailable(f"no AegisDB can be reached at {server.host}:{server.port} ({error}); is it running?")


def no_answer(server: Server, error: Exception) -> Unavailable:
    """Return the error of a request that was sent and not answered."""
    reason = str(error) or f"nothing came for {server.read_timeout:g} seconds"
    return Unavailable(
        f"AegisDB at {server.host}:{server.port} gave no answer ({reason}); a write may have taken effect, "
        "and making the same call again does no harm"
    )
