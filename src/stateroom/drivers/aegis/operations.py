"""What each operation asks of AegisDB, and what it makes of the answers, whatever the connection is like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from stateroom.contract.items import (
    Count,
    Delete,
    Get,
    ListKeys,
    ListNamespaces,
    Operation,
    Put,
    Query,
    Result,
    Search,
)
from stateroom.contract.keys import list_keys
from stateroom.drivers.aegis.mapping import (
    MARKER,
    Found,
    encode_data,
    items,
    key_tag,
    make_record,
    namespaces,
    prefix_tag,
    read,
    strings,
    tags,
)
from stateroom.drivers.aegis.protocol import (
    NOT_FOUND,
    NOT_READY,
    OFFSET_MAX,
    Answer,
    Server,
    Steps,
    accepted,
    frame,
    refusal,
)
from stateroom.drivers.aegis.scanning import scan
from stateroom.drivers.aegis.terms import terms
from stateroom.errors import NotSupported, Unavailable
from stateroom.model.filter import Test, compile_filter
from stateroom.model.item import Hit, KeyEntry, Record
from stateroom.model.listing import select_namespaces
from stateroom.model.namespace import WILDCARD, Namespace, has_prefix

__all__ = ["Operations"]

TWINS_MAX: Final = 100
"""Records of one key that are looked at together; there is one, unless writers who do not look have raced."""

ATTEMPTS: Final = 10
"""How often a put goes after an item that others delete under its hands."""


class Operations:
    """The operations on one server; ``page`` is how many records a scan asks for at a time."""

    def __init__(self, server: Server, page: int) -> None:
        self._identity = server.identity
        self._is_named = server.agent_id is not None
        self._page = page
        self._is_large = False

    def steps(self, operation: Operation) -> Steps[Result]:
        """Return what an operation does; raise what keeps a put from being stored at all."""
        if isinstance(operation, Get):
            return self.get(operation)
        if isinstance(operation, Put):
            return self.put(operation)
        if isinstance(operation, Delete):
            return self.delete(operation)
        if isinstance(operation, Search):
            return self.search(operation)
        if isinstance(operation, Count):
            return self._count(operation)
        if isinstance(operation, ListKeys):
            return self._keys(operation)
        return self._list(operation)

    def ping(self) -> Steps[None]:
        """Return what asks whether the server is there; anybody may ask that."""
        return _ping([frame({}, "ping", operation="ping")])

    def get(self, operation: Get) -> Steps[Record | None]:
        """Return what reads an item."""
        (answer,) = yield [self._find(operation.namespace, operation.key)]
        return _first(answer, operation)

    def get_all(self, operations: Sequence[Get]) -> Steps[list[Record | None]]:
        """Return what reads many items in one burst."""
        answers = yield [self._find(operation.namespace, operation.key) for operation in operations]
        return [_first(answer, operation) for answer, operation in zip(answers, operations, strict=True)]

    def put(self, operation: Put) -> Steps[Record]:
        """Return what stores an item; LimitExceeded if AegisDB cannot hold it."""
        namespace, key, raw, paths, *_ = operation
        data, wanted = encode_data(namespace, key, raw, is_indexed=paths != ()), tags(namespace, key)
        insert = self._ask("value", "insert", type="semantic", data=data, tags=wanted)
        return self._put(operation, insert, data, wanted)

    def _put(self, operation: Put, insert: bytes, data: str, wanted: list[str]) -> Steps[Record]:
        """Update the item, or insert it and look whether somebody else has done so meanwhile.

        Of several records of one key the oldest is the item. Whoever sees others puts its own value
        there and removes them, so that writers who race leave one record.
        """
        address = operation.namespace, operation.key
        find = self._find(*address)
        twins = _twins((yield [find])[0], *address)
        for _ in range(ATTEMPTS):
            if not twins:
                answer, seen = yield [insert, find]
                record = _stored(answer, operation)
                twins = _twins(seen, *address)
                if len(twins) <= 1:
                    return record
            oldest, *others = twins
            # The server need not find a new place in its index for tags that stay as they are.
            changed = {} if oldest.tags == wanted else {"tags": wanted}
            update = self._ask("value", "update", id=oldest.id, data=data, **changed)
            answer, *removals = yield [update, *(self._remove(twin) for twin in others)]
            for removal in removals:
                if refusal(removal) != NOT_FOUND:
                    accepted(removal)
            if refusal(answer) != NOT_FOUND:
                return _stored(answer, operation)
            twins = _twins((yield [find])[0], *address)
        raise Unavailable(f"key {operation.key!r} in {operation.namespace!r} is being deleted all the time")

    def delete(self, operation: Delete) -> Steps[None]:
        """Return what removes an item, with all records that there are of it."""
        namespace, key, _ = operation
        wanted = [key_tag(namespace, key), prefix_tag(namespace), MARKER]
        return _delete([self._ask("key", "delete", tags=wanted, match="all")])

    def search(self, operation: Search) -> Steps[list[Hit]]:
        """Return what finds items."""
        if operation.limit == 0:
            return _nothing()
        if operation.query is None:
            return self._browse(operation)
        return self._query(operation, operation.query)

    def _browse(self, operation: Search) -> Steps[list[Hit]]:
        """Find items without a query, the last put first."""
        records = yield from self._records(operation.prefix)
        records.sort(key=lambda record: (record["updated"], record["id"]), reverse=True)
        matches = _test(operation)
        found = (item for item in items(records, operation.prefix) if matches is None or matches(item.value))
        page = islice(found, operation.offset, operation.offset + operation.limit)
        return [Hit(item.record) for item in page]

    def _query(self, operation: Search, query: Query) -> Steps[list[Hit]]:
        """Find items by the server's text index, going on until the page is full.

        What matched by the names of members, or by the namespace, is passed over: the server indexes
        all of a record's data.
        """
        matches, wanted = _test(operation), set(terms(query.text))
        needed = operation.offset + operation.limit
        found: list[Found] = []
        known: set[tuple[Namespace, str]] = set()
        offset, size = 0, min(needed, self._page)
        while len(found) < needed and offset <= OFFSET_MAX:
            line = self._ask_tagged(
                operation.prefix, "query", query=query.text, explain=True, top_k=size, offset=offset
            )
            records = _ranked((yield [line])[0])
            for item in filter(None, map(read, records)):
                address = item.namespace, item.key
                if address not in known and has_prefix(item.namespace, operation.prefix) and item.is_indexed:
                    known.add(address)
                    if not wanted.isdisjoint(_terms_of(item)) and (matches is None or matches(item.value)):
                        found.append(item)
            if len(records) < size:
                break
            offset, size = offset + size, self._page
        page = found[operation.offset : needed]
        return [Hit(item.record, item.score, item.score) for item in page]

    def _count(self, operation: Count) -> Steps[int]:
        records = yield from self._records(operation.prefix)
        matches = _test(operation)
        return sum(matches is None or matches(item.value) for item in items(records, operation.prefix))

    def _keys(self, operation: ListKeys) -> Steps[list[KeyEntry]]:
        """List keys, for which everything at and below the namespace is read."""
        namespace = operation.namespace
        if operation.limit == 0 or not namespace:
            return []
        records = yield from self._records(namespace)
        own = {item.key: item for item in items(records, namespace) if item.namespace == namespace}
        return list_keys(operation, sorted(own), own)

    def _list(self, operation: ListNamespaces) -> Steps[list[Namespace]]:
        if operation.limit == 0:
            return []
        records = yield from self._records(_common_prefix(operation))
        return select_namespaces(
            sorted(namespaces(records)),
            operation.matches,
            operation.max_depth,
            operation.limit,
            operation.offset,
        )

    def _records(self, prefix: Namespace) -> Steps[list[dict[str, Any]]]:
        """Read all records of items at or below a namespace, with others perhaps."""
        everything = prefix == ()
        records = yield from scan(
            lambda size, offset: self._ask_tagged(prefix, "namespace_prefix", top_k=size, offset=offset),
            lambda size, after: self._ask("namespace_prefix", "export", after_id=after, limit=size),
            page=self._page,
            exports_at_once=everything and self._is_large and self._is_named,
            can_export=self._is_named,
        )
        if everything:
            # Only a guess at what will be faster the next time.
            self._is_large = len(records) >= self._page
        return records

    def _find(self, namespace: Namespace, key: str) -> bytes:
        wanted = [key_tag(namespace, key), MARKER]
        return self._ask("key", "search", tags=wanted, match="all", top_k=TWINS_MAX, track_usage=False)

    def _remove(self, twin: Found) -> bytes:
        return self._ask("key", "delete", id=twin.id)

    def _ask_tagged(self, prefix: Namespace, field: str, **request: Any) -> bytes:
        # The rarer tag first: the server walks the records of the first one.
        wanted = [prefix_tag(prefix), MARKER]
        return self._ask(field, "search", tags=wanted, match="all", track_usage=False, **request)

    def _ask(self, field: str, name: str, **request: Any) -> bytes:
        return frame(self._identity, field, operation=name, **request)


def _ping(lines: list[bytes]) -> Steps[None]:
    accepted((yield lines)[0])


def _first(answer: Answer, operation: Get) -> Record | None:
    found = _twins(answer, operation.namespace, operation.key)
    return found[0].record if found else None


def _delete(lines: list[bytes]) -> Steps[None]:
    accepted((yield lines)[0])


def _nothing() -> Steps[list[Hit]]:
    yield from ()
    return []


def _twins(answer: Answer, namespace: Namespace, key: str) -> list[Found]:
    """Return the records of one item, the oldest first; others may have a tag of the same digest."""
    found = filter(None, map(read, accepted(answer)["records"]))
    own = [item for item in found if item.key == key and item.namespace == namespace]
    return sorted(own, key=lambda item: item.id)


def _stored(answer: Answer, operation: Put) -> Record:
    record = accepted(answer)["record"]
    times = int(record["created"]), int(record["updated"])
    return make_record(operation.namespace, operation.key, operation.raw, *times)


def _ranked(answer: Answer) -> list[dict[str, Any]]:
    if refusal(answer) == NOT_READY:
        raise NotSupported(
            "query: this AegisDB was started with --no-lexical-index, so it finds nothing by words; drop the "
            "query, or start the server without that flag",
            field="query",
        )
    records: list[dict[str, Any]] = accepted(answer)["records"]
    return records


def _test(operation: Search | Count) -> Test | None:
    return compile_filter(operation.filter) if operation.filter is not None else None


def _terms_of(item: Found) -> Iterator[bytes]:
    return (term for text in strings(item.value) for term in terms(text))


def _common_prefix(operation: ListNamespaces) -> Namespace:
    """Return the longest prefix without wildcards that all listed namespaces have."""
    literal: Sequence[str] = ()
    for match in operation.matches:
        if match.kind == "prefix":
            stop = match.path.index(WILDCARD) if WILDCARD in match.path else len(match.path)
            literal = max(literal, match.path[:stop], key=len)
    return tuple(literal)
