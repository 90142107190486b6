"""Turning what callers ask, in LangGraph's operations or ours, into checked operations of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from langgraph.store.base import NOT_PROVIDED, GetOp, ListNamespacesOp, NotProvided, PutOp, SearchOp

from stateroom.contract.items import (
    Capability,
    Count,
    Delete,
    Get,
    ListKeys,
    ListNamespaces,
    Operation,
    Put,
    Query,
    Search,
)
from stateroom.errors import InvalidInput, NotSupported
from stateroom.model.file import stat_of
from stateroom.model.filter import parse_filter
from stateroom.model.json_values import encode_value, json_spelling
from stateroom.model.namespace import (
    Namespace,
    check_item_namespace,
    check_key,
    check_match,
    check_namespace,
)
from stateroom.model.page import check_max_depth, check_page
from stateroom.model.text import flaw, show
from stateroom.model.ttl import TTLSettings, check_ttl
from stateroom.search.fields import check_paths
from stateroom.search.index_config import IndexSettings

__all__ = [
    "CountItems",
    "DeleteItem",
    "GetItem",
    "ListItemKeys",
    "Mode",
    "PutItem",
    "SearchItems",
    "StoreOperation",
    "Translation",
]

Mode: TypeAlias = Literal["auto", "text", "vector", "hybrid"]


class PutItem(NamedTuple):
    """An operation for ``batch``: ``put_item`` with all of its arguments; its result is the stored item."""

    namespace: Sequence[str]
    key: str
    value: Mapping[str, Any]
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]  # tuple has a method so named
    ttl: float | NotProvided | None = NOT_PROVIDED
    if_revision: int | None = None
    if_absent: bool = False


class GetItem(NamedTuple):
    """An operation for ``batch``: ``get`` with the configured refreshing unless told otherwise."""

    namespace: Sequence[str]
    key: str
    refresh_ttl: bool | None = None


class DeleteItem(NamedTuple):
    """An operation for ``batch``: ``delete``, conditional if a revision is named."""

    namespace: Sequence[str]
    key: str
    if_revision: int | None = None


class SearchItems(NamedTuple):
    """An operation for ``batch``: ``search`` with all of its arguments."""

    namespace_prefix: Sequence[str]
    query: str | None = None
    filter: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    refresh_ttl: bool | None = None
    mode: Mode = "auto"
    explain: bool = False


class CountItems(NamedTuple):
    """An operation for ``batch``: ``count``."""

    namespace_prefix: Sequence[str]
    filter: Mapping[str, Any] | None = None


class ListItemKeys(NamedTuple):
    """An operation for ``batch``: ``list_keys`` with all of its arguments."""

    namespace: Sequence[str]
    prefix: str = ""
    suffix: str = ""
    delimiter: str | None = None
    after: str | None = None
    limit: int = 1000
    containing: str | None = None
    values: bool = False


StoreOperation: TypeAlias = (
    PutOp
    | GetOp
    | SearchOp
    | ListNamespacesOp
    | PutItem
    | GetItem
    | DeleteItem
    | SearchItems
    | CountItems
    | ListItemKeys
)


class Translation:
    """The rules of one store: its defaults, and what it must refuse."""

    def __init__(
        self, index: IndexSettings, ttl: TTLSettings, capabilities: frozenset[Capability], *, embeds: bool
    ) -> None:
        self.index = index
        self.ttl = ttl
        self._capabilities = capabilities
        self._embeds = embeds

    def operation(self, asked: StoreOperation) -> Operation:
        """Check any operation that ``batch`` takes.

        LangGraph's own operations mean what they mean there: a ``ttl`` of None never expires, and the
        checks of ``put`` on reserved names do not apply.
        """
        match asked:
            case PutOp(namespace, key, value, index, ttl):
                if value is None:
                    return Delete(check_item_namespace(namespace), check_key(key))
                return self.put(check_item_namespace(namespace), key, value, index, ttl)
            case PutItem():
                return self.put(check_item_namespace(asked[0]), *asked[1:])
            case GetOp(namespace, key, refresh) | GetItem(namespace, key, refresh):
                return self.get(namespace, key, refresh)
            case DeleteItem(namespace, key, revision):
                return self.delete(namespace, key, revision)
            case SearchOp(prefix, condition, limit, offset, query, refresh):
                return self.search(SearchItems(prefix, query, condition, limit, offset, refresh))
            case SearchItems():
                return self.search(asked)
            case CountItems(prefix, condition):
                return self.count(prefix, condition)
            case ListItemKeys():
                return self.list_keys(asked)
            case ListNamespacesOp():
                return self.list_namespaces(asked)
            case _:
                raise InvalidInput(f"ops holds a {type(asked).__name__}; pass store operations", field="ops")

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        ttl: float | NotProvided | None = NOT_PROVIDED,
        if_revision: int | None = None,
        if_absent: bool = False,
    ) -> Put:
        """Check a put whose namespace has been checked."""
        minutes = self.ttl.default_ttl if ttl is NOT_PROVIDED else check_ttl(ttl)
        if minutes is not None:
            self._require(Capability.TTL, "ttl")
        if if_absent or if_revision is not None:
            self._require(Capability.CONDITIONAL, "if_absent" if if_absent else "if_revision")
            _check_revision(if_revision)
        paths = None if index is None else check_paths(index)
        key, raw = check_key(key), encode_value(value)
        stat = stat_of(key, raw)
        return Put(namespace, key, raw, paths, (), minutes, if_revision, if_absent, stat)

    def get(self, namespace: Sequence[str], key: str, refresh: bool | None) -> Get:
        """Check a get."""
        return Get(check_namespace(namespace), check_key(key), self.refreshes(refresh))

    def delete(self, namespace: Sequence[str], key: str, revision: int | None) -> Delete:
        """Check a delete."""
        if revision is not None:
            self._require(Capability.CONDITIONAL, "if_revision")
            _check_revision(revision)
        return Delete(check_namespace(namespace), check_key(key), revision)

    def search(self, search: SearchItems) -> Search:
        """Check a search and settle its mode; the text of a vector query is still to be embedded."""
        limit, offset = check_page(search.limit, search.offset)
        operation = Search(
            check_namespace(search.namespace_prefix, field="namespace_prefix"),
            parse_filter(search.filter),
            limit,
            offset,
            self.refreshes(search.refresh_ttl),
        )
        mode = self._mode(search.mode)
        if not search.query:
            return operation
        text = _check_text(search.query, "query")
        if mode is None:
            raise NotSupported(
                "query: this store was opened with index={'text': False} and no embedder, so it can only "
                "list and filter; drop the query or configure an index",
                field="query",
            )
        if mode != "vector":
            self._require(Capability.TEXT, "query")
        if mode != "text":
            self._require(Capability.VECTOR, "query")
        query = Query(text, mode, None, self.index.min_score if mode == "vector" else None)
        return operation._replace(query=query)

    def count(self, prefix: Sequence[str], condition: Mapping[str, Any] | None) -> Count:
        """Check a count."""
        return Count(check_namespace(prefix, field="namespace_prefix"), parse_filter(condition))

    def list_keys(self, asked: ListItemKeys) -> ListKeys:
        """Check a listing of keys."""
        limit, _ = check_page(asked.limit, 0)
        if asked.delimiter is not None and len(_check_text(asked.delimiter, "delimiter")) != 1:
            raise InvalidInput(
                f"delimiter is {show(asked.delimiter)}; pass one character, or None", field="delimiter"
            )
        return ListKeys(
            check_namespace(asked.namespace),
            _check_text(asked.prefix, "prefix"),
            _check_text(asked.suffix, "suffix"),
            asked.delimiter,
            None if asked.after is None else _check_text(asked.after, "after"),
            limit,
            None if asked.containing is None else json_spelling(_check_text(asked.containing, "containing")),
            bool(asked.values),
        )

    def list_namespaces(self, operation: ListNamespacesOp) -> ListNamespaces:
        """Check a listing of namespaces."""
        limit, offset = check_page(operation.limit, operation.offset)
        check_max_depth(operation.max_depth)
        return ListNamespaces(
            tuple(
                check_match(condition.match_type, condition.path, _side(condition.match_type))
                for condition in operation.match_conditions or ()
            ),
            operation.max_depth,
            limit,
            offset,
        )

    def refreshes(self, refresh: bool | None) -> bool:
        """Settle whether a read refreshes."""
        return self.ttl.refresh_on_read if refresh is None else refresh

    def _mode(self, mode: Mode) -> Literal["text", "vector", "hybrid"] | None:
        if mode == "auto":
            return self.index.default_mode
        if mode not in ("text", "vector", "hybrid"):
            raise InvalidInput(f"mode is {mode!r}; use 'text', 'vector', 'hybrid' or 'auto'", field="mode")
        if mode != "text" and not self._embeds:
            raise NotSupported(
                f"mode={mode!r} needs vectors: open the store with index={{'embed': ..., 'dims': ...}}",
                field="mode",
            )
        if mode != "vector" and not self.index.text:
            raise NotSupported(
                f"mode={mode!r} needs the text index, which index={{'text': False}} turned off", field="mode"
            )
        return mode

    def _require(self, capability: Capability, field: str) -> None:
        if capability not in self._capabilities:
            raise NotSupported(f"{field}: this store does not support {capability.value}", field=field)


def _side(match_type: object) -> str:
    """Return the argument of ``list_namespaces`` that a condition comes from."""
    return str(match_type) if match_type in ("prefix", "suffix") else "path"


def _check_text(text: object, field: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"{field} is {show(text)}; pass a string", field=field)
    if fault := flaw(text):
        raise InvalidInput(f"{field} {fault}; remove it", field=field)
    return str.__str__(text)


def _check_revision(revision: int | None) -> None:
    if revision is not None and (not isinstance(revision, int) or isinstance(revision, bool)):
        raise InvalidInput(f"if_revision is {revision!r}; pass an item's revision", field="if_revision")
