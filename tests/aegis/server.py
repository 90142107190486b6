"""A small AegisDB for tests: it speaks the protocol, with the limits and quirks of the real one."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import log
from types import TracebackType
from typing import Any, NamedTuple, Self

from typing_extensions import override

PAYLOAD_MAX = 1024 * 1024
LINE_MAX = PAYLOAD_MAX + 4096
TOP_K_MAX = 1_000
OFFSET_MAX = 100_000
CANDIDATES_MAX = 8_192
BATCH_MAX = 1_000
TAGS_MAX = 32

Request = Mapping[str, Any]


class Refused(Exception):
    """What the server answers instead of doing something."""

    def __init__(self, code: str, message: str = "no") -> None:
        super().__init__(code, message)


class Token(NamedTuple):
    """Whom a token belongs to: a namespace, or None for all of them."""

    namespace: str | None = None
    may_write: bool = True


@dataclass
class Row:
    """One record."""

    id: int
    type: str
    created: int
    updated: int
    agent_id: str | None
    tags: list[str]
    data: str
    expires_at: int | None = None
    recalls: int = 0
    terms: Counter[str] = field(default_factory=Counter)

    def shown(self) -> dict[str, Any]:
        """Return the record as an answer has it."""
        owner = {} if self.agent_id is None else {"agent_id": self.agent_id}
        return {
            "id": self.id,
            "type": self.type,
            "created": self.created,
            "updated": self.updated,
            "importance": 0,
            "confidence": 1,
            **owner,
            "tags": self.tags,
            "data": self.data,
        }


class Ticks:
    """A clock of milliseconds that moves on with every look, so that no two writes are of one moment."""

    def __init__(self) -> None:
        self.now = int(time.time() * 1000)

    def __call__(self) -> int:
        self.now += 1
        return self.now


class Table:
    """The records, and every operation on them; no input or output."""

    def __init__(
        self,
        *,
        version: str = "0.7.0",
        tokens: Mapping[str, Token] | None = None,
        is_read_only: bool = False,
        has_lexical_index: bool = True,
        records_max: int | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.version = version
        self.tokens = dict(tokens or {})
        self.is_read_only = is_read_only
        self.has_lexical_index = has_lexical_index
        self.records_max = records_max
        self.clock = clock or Ticks()
        self.rows: dict[int, Row] = {}
        self._by_tag: dict[str, dict[int, Row]] = {}
        self._last_id = 0

    def answer(self, request: Request) -> dict[str, Any]:
        """Do one operation."""
        try:
            operation = getattr(self, f"do_{request.get('operation')}", None)
            if operation is None:
                raise Refused("INVALID_REQUEST", "unknown operation")
            answer = operation(request if operation == self.do_ping else self._identified(request))
        except Refused as refused:
            code, message = refused.args
            return {"ok": False, "error": {"code": code, "message": message}}
        return {"ok": True, **answer}

    def _identified(self, request: Request) -> Request:
        """Return the request with the namespace that its token pins, as ``pinned`` and as ``agent_id``."""
        if not self.tokens:
            token = Token()
        elif request.get("token") in self.tokens:
            token = self.tokens[request["token"]]
        else:
            raise Refused("UNAUTHORIZED")
        writes = request["operation"] in ("insert", "update", "delete", "purge")
        if writes and not token.may_write:
            raise Refused("FORBIDDEN")
        if writes and self.is_read_only:
            raise Refused("READ_ONLY")
        if request["operation"] == "stats" and token.namespace:
            raise Refused("FORBIDDEN")
        owner = {"agent_id": token.namespace} if token.namespace else {}
        return {**request, **owner, "pinned": token.namespace}

    def do_ping(self, _request: Request) -> dict[str, Any]:
        """Tell that the server is there."""
        return {"version": self.version, "phase": 4}

    def do_stats(self, _request: Request) -> dict[str, Any]:
        """Tell how much there is."""
        return {"records": len(self.rows), "uptime_ms": 1}

    def do_insert(self, request: Request) -> dict[str, Any]:
        """Make one record, or several after all have been checked."""
        if not isinstance(request.get("records"), list):
            self._check(request)
            return {"record": self._insert(request).shown()}
        records = [{**each, **_owner(request)} for each in request["records"]]
        if not 1 <= len(records) <= BATCH_MAX:
            raise Refused("INVALID_REQUEST")
        for each in records:
            self._check(each)
        made = [self._insert(each).shown() for each in records]
        return {"records": made, "count": len(made)}

    def _check(self, request: Request) -> None:
        owner = request.get("agent_id")
        if request.get("type") not in ("semantic", "episodic") or not request.get("data"):
            raise Refused("INVALID_REQUEST")
        if owner is not None and not 1 <= len(owner.encode()) <= 128:
            raise Refused("INVALID_REQUEST")
        if owner is not None and re.search(r"[\x00-\x1f\x7f]", owner):
            raise Refused("INVALID_REQUEST")
        self._check_parts(request)

    def _check_parts(self, request: Request) -> None:
        if len(request.get("data", "").encode()) > PAYLOAD_MAX:
            raise Refused("PAYLOAD_TOO_LARGE")
        if len(request.get("tags", ())) > TAGS_MAX:
            raise Refused("INVALID_REQUEST")
        if not all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tag) for tag in request.get("tags", ())):
            raise Refused("INVALID_REQUEST")

    def _insert(self, request: Request) -> Row:
        owner = request.get("agent_id")
        held = sum(row.agent_id == owner for row in self.rows.values()) if self.records_max else 0
        if self.tokens and self.records_max and held >= self.records_max:
            raise Refused("QUOTA_EXCEEDED")
        now = self.clock()
        self._last_id += 1
        row = Row(self._last_id, request["type"], now, now, owner, list(request.get("tags", ())), "")
        if request.get("ttl_ms"):
            row.expires_at = now + int(request["ttl_ms"])
        self.rows[row.id] = row
        self._index(row, request["data"])
        return row

    def _index(self, row: Row, data: str) -> None:
        row.data, row.terms = data, Counter(terms(data))
        for tag in row.tags:
            self._by_tag.setdefault(tag, {})[row.id] = row

    def _unindex(self, row: Row) -> None:
        for tag in row.tags:
            del self._by_tag[tag][row.id]

    def do_get(self, request: Request) -> dict[str, Any]:
        """Read a record by id."""
        row = self.rows.get(request["id"])
        if row is None or not self._is_visible(row, request):
            raise Refused("NOT_FOUND")
        return {"record": row.shown()}

    def do_update(self, request: Request) -> dict[str, Any]:
        """Change a record, whoever's it is unless a token pins a namespace."""
        row = self._owned(request)
        if row.type != "semantic":
            raise Refused("IMMUTABLE")
        self._check_parts(request)
        self._unindex(row)
        row.tags = list(request.get("tags", row.tags))
        row.updated = self.clock()
        self._index(row, request.get("data", row.data))
        return {"record": row.shown()}

    def _owned(self, request: Request) -> Row:
        row = self.rows.get(request["id"])
        if row is None or (request["pinned"] and row.agent_id != request["pinned"]):
            raise Refused("NOT_FOUND")
        return row

    def do_delete(self, request: Request) -> dict[str, Any]:
        """Remove a record by id, likewise whoever's it is, or all that a filter finds."""
        if "id" in request:
            self._remove(self._owned(request))
            return {"id": request["id"], "deleted": True}
        if not request.get("tags") and not request.get("type"):
            raise Refused("INVALID_REQUEST")
        found = self._filtered(request)
        for row in found:
            self._remove(row)
        return {"deleted": len(found)}

    def _remove(self, row: Row) -> None:
        self._unindex(row)
        del self.rows[row.id]

    def do_search(self, request: Request) -> dict[str, Any]:
        """Find records by tags, the oldest first, or by words, the best first."""
        top_k = min(request.get("top_k") or 10, TOP_K_MAX)
        start = min(request.get("offset", 0), OFFSET_MAX)
        query = request.get("query")
        if query and not self.has_lexical_index:
            raise Refused("NOT_READY", "lexical index is disabled (--no-lexical-index)")
        ranked = self._ranked(query, request) if query else self._listed(request, start + top_k)
        page = ranked[start : start + top_k]
        if request.get("track_usage", True):
            for row, _ in page:
                row.recalls += 1
        explained = [
            {**row.shown(), "explain": {"score": score}} if request.get("explain") else row.shown()
            for row, score in page
        ]
        return {"records": explained, "total": len(page)}

    def _listed(self, request: Request, wanted: int) -> list[tuple[Row, float]]:
        found = self._filtered(request)
        if self.version < "0.8.0":
            # The real one sorts as many as it needs, and what is of one moment comes as it happens to.
            random.Random(wanted).shuffle(found)
            found.sort(key=lambda row: row.created)
        else:
            found.sort(key=lambda row: (row.created, row.id))
        return [(row, 0.0) for row in found]

    def _ranked(self, query: str, request: Request) -> list[tuple[Row, float]]:
        """Rank all records of all namespaces, and look only at the best whether they are asked for."""
        asked = set(terms(query))
        live = [row for row in self.rows.values() if row.terms]
        average = sum(row.terms.total() for row in live) / len(live) if live else 1.0
        counts = {term: sum(term in row.terms for row in live) for term in asked}
        weights = {term: log(1 + (len(live) - n + 0.5) / (n + 0.5)) for term, n in counts.items()}
        scored = []
        for row in live:
            damping = 1.2 * (0.25 + 0.75 * row.terms.total() / average)
            score = sum(w * row.terms[t] * 2.2 / (row.terms[t] + damping) for t, w in weights.items())
            if asked & row.terms.keys():
                scored.append((row, score))
        scored.sort(key=lambda each: (-each[1], each[0].id))
        wanted = {row.id for row in self._filtered(request)}
        return [each for each in scored[:CANDIDATES_MAX] if each[0].id in wanted]

    def do_count(self, request: Request) -> dict[str, Any]:
        """Count what a filter finds."""
        return {"count": len(self._filtered(request))}

    def do_export(self, request: Request) -> dict[str, Any]:
        """List the records of one namespace by id."""
        if not request.get("agent_id"):
            raise Refused("INVALID_REQUEST")
        after, limit = request.get("after_id", 0), min(request.get("limit") or 100, 1_000)
        rows = [row for id, row in sorted(self.rows.items()) if id > after and self._is_visible(row, request)]
        page = rows[:limit]
        return {
            "namespace": request["agent_id"],
            "records": [row.shown() for row in page],
            "count": len(page),
            "cursor": page[-1].id if page else after,
            "has_more": len(rows) > limit,
        }

    def do_purge(self, request: Request) -> dict[str, Any]:
        """Remove a whole namespace."""
        if not request.get("agent_id"):
            raise Refused("INVALID_REQUEST")
        found = [row for row in self.rows.values() if self._is_visible(row, request)]
        for row in found:
            self._remove(row)
        return {"purged": len(found)}

    def _filtered(self, request: Request) -> list[Row]:
        wanted = request.get("tags") or []
        if len(wanted) > TAGS_MAX:
            raise Refused("INVALID_REQUEST")
        rows: Iterable[Row] = self._by_tag.get(wanted[0], {}).values() if wanted else self.rows.values()
        kind = request.get("type")
        return [
            row
            for row in rows
            if self._is_visible(row, request)
            and all(row.id in self._by_tag.get(tag, {}) for tag in wanted)
            and kind in (None, row.type)
        ]

    def _is_visible(self, row: Row, request: Request) -> bool:
        owner = request.get("agent_id")
        return owner in (None, row.agent_id) and (row.expires_at is None or row.expires_at > self.clock())


def _owner(request: Request) -> dict[str, Any]:
    return {"agent_id": request["pinned"]} if request["pinned"] else {}


TERM = re.compile(rb"[A-Za-z0-9_\-.:/+#\x80-\xff]+")


def terms(text: str) -> list[str]:
    """Cut a text into terms: no stemming, no folding beyond ASCII, compounds whole and in parts."""
    found = []
    for match in TERM.finditer(text.encode()):
        term = match[0].strip(b"-.:/+#")[:64].lower()
        if term:
            parts = [part for part in re.split(rb"[_\-.:/+#]+", term) if 2 <= len(part) < len(term)]
            found += [each.decode("latin-1") for each in (term, *parts)]
    return found


class AegisServer:
    """A table behind a port of 127.0.0.1, served by a thread until the ``with`` block ends.

    ``bursts`` tells how many requests came together, connection by connection; ``requests`` holds all of
    them. ``faults`` are used up one by one by requests that are no ping: ``"cut"`` closes the connection
    instead of doing anything, ``"lose"`` does what is asked and closes it without an answer, ``"half"``
    closes it amidst the answer, ``"hang"`` answers nothing.
    """

    def __init__(self, **options: Any) -> None:
        self.table = Table(**options)
        self.port = 0
        self.requests: list[dict[str, Any]] = []
        self.bursts: list[int] = []
        self.faults: deque[str] = deque()
        self.accepted = 0
        self._open: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aegis-server", daemon=True)
        self._listener: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """How many connections are open."""
        number: int = self._call(lambda: len(self._open))
        return number

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self) -> None:
        """Listen, on the same port as before."""

        async def listen() -> asyncio.Server:
            return await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port)

        self._listener = asyncio.run_coroutine_threadsafe(listen(), self._loop).result()
        self.port = self._listener.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Go away, with all connections."""

        def close() -> None:
            if self._listener is not None:
                self._listener.close()

        self._call(close)
        self.reap()

    def reap(self) -> None:
        """Close all connections, as the real one does with those that have been idle for a minute."""

        async def closed() -> None:
            gone = [connection.gone for connection in self._open]
            for connection in [*self._open]:
                connection.transport.close()
            await asyncio.gather(*gone)

        asyncio.run_coroutine_threadsafe(closed(), self._loop).result()

    def _call(self, act: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return act()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def opened(self, connection: _Connection) -> None:
        """Note a new connection."""
        self.accepted += 1
        self._open.add(connection)

    def closed(self, connection: _Connection) -> None:
        """Note that a connection is gone."""
        self._open.discard(connection)


class _Connection(asyncio.Protocol):
    """One client: a line each way, one at a time."""

    transport: asyncio.Transport

    def __init__(self, server: AegisServer) -> None:
        self._server = server
        self._rest = b""
        self._line = 0
        self.gone = asyncio.get_running_loop().create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.opened(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        self.gone.set_result(None)

    @override
    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._server.bursts += [len(lines)] if lines else []
        for line in lines:
            if self.transport.is_closing():
                return
            self._serve(line.removesuffix(b"\r"))
        if len(self._rest) > LINE_MAX:
            self._refuse_and_close()

    def _serve(self, line: bytes) -> None:
        if len(line) > LINE_MAX:
            self._refuse_and_close()
        elif line:
            self._answer(line)

    def _refuse_and_close(self) -> None:
        self._send({"ok": False, "error": {"code": "PAYLOAD_TOO_LARGE", "message": "too large"}})
        self.transport.close()

    def _answer(self, line: bytes) -> None:
        try:
            request = json.loads(line)
            json.dumps(request, ensure_ascii=False).encode()
        except ValueError:
            request = None
        if not isinstance(request, dict):
            self._send({"ok": False, "error": {"code": "INVALID_REQUEST", "message": "no JSON object"}})
            return
        self._server.requests.append(request)
        faults = self._server.faults
        fault = faults.popleft() if faults and request.get("operation") != "ping" else None
        if fault == "cut":
            self.transport.abort()
            return
        answer = self._server.table.answer(request)
        if "request_id" in request:
            answer["request_id"] = request["request_id"]
        if fault == "lose":
            self.transport.close()
        elif fault == "half":
            self.transport.write(json.dumps(answer).encode()[:20])
            self.transport.close()
        elif fault != "hang":
            self._send(answer)

    def _send(self, answer: Mapping[str, Any]) -> None:
        self.transport.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
