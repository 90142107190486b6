"""What random tests of stores draw: few names, so that calls meet, and such as storages stumble over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from hypothesis import strategies as st
from langgraph.store.base import NOT_PROVIDED, GetOp, ListNamespacesOp, MatchCondition, PutOp

from stateroom.stores.operations import (
    CountItems,
    DeleteItem,
    GetItem,
    ListItemKeys,
    PutItem,
    SearchItems,
    StoreOperation,
)

__all__ = [
    "CURRENT",
    "STALE",
    "batches",
    "counts",
    "deletes",
    "failing_batches",
    "file_puts",
    "gets",
    "listings",
    "lists",
    "patterns",
    "plain_puts",
    "puts",
    "queries",
    "several_files",
    "several_key_listings",
    "several_puts",
]

_T = TypeVar("_T")

_NAMESPACES = [
    ("a",),
    ("a", "b"),
    ("a", "b", "c"),
    ("a\x01",),
    ("ab",),
    ("*", "b"),
    ("%", "é"),
    ("😀",),
]
_RESERVED = ("langgraph", "a.b")
_KEYS = ["k", "K", "é😀", ""]
_FILED = [("a",), ("a", "b")]
_PATHS = ["/", "/a", "/a/b.md", "/a/é/b.md", "/a/_", "/\uffff", "/😀/b.md"]
_FIELDS = ["n", "text", "tags", "a.b", 'ключ "\\']
# No text that holds what JSON writes between two members, whose order not every store keeps.
_NEEDLES = ["content", "content", "HTTP", "42", "café", "n", "A", "%", '"', "\\", "\x01", "é", "東京", "'"]
_TEXT = "running runs café naïve user_id HTTPServer 42 東京都 Straße the ΣΑΣ % * \" 'AND"


def _named(strategy: st.SearchStrategy[_T]) -> st.SearchStrategy[_T]:
    """Return the strategy under a short name; Hypothesis may write it out at every step otherwise."""

    @st.composite
    def drawn(draw: st.DrawFn) -> _T:
        return draw(strategy)

    return drawn()


_namespaces = st.sampled_from(_NAMESPACES)
_keys = st.sampled_from([*_KEYS, *_KEYS, *_PATHS[:3]])
_prefixes = st.sampled_from(
    [(), (), (), ("a",), ("b",), *sorted({name[:depth] for name in _NAMESPACES for depth in (1, 2, 3)})]
)
_sentences = st.lists(st.sampled_from(_TEXT.split()), min_size=1, max_size=5).map(" ".join)
_every_scalar: st.SearchStrategy[Any] = st.one_of(
    st.integers(-2, 2),
    st.sampled_from([2**53, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**70), 10**30]),
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 2.0**53, 9.3e18, 1e300, -5e-324]),
    st.sampled_from([None, True, False]),
    st.sampled_from(["", "a", "A", "é", "\uffff", "😀", "1", "true", "a'b", 'a"b', "\\u0041", "\x01"]),
    _sentences,
)
_scalars = _named(_every_scalar)
_every_value: st.SearchStrategy[Any] = st.one_of(
    _scalars,
    st.lists(_scalars, max_size=3),
    st.dictionaries(st.sampled_from(["title", "n", "x y"]), _scalars, max_size=2),
)
_values = _named(_every_value)
_members = st.fixed_dictionaries(
    {},
    optional={
        "text": st.one_of(_sentences, _scalars),
        "n": _scalars,
        "tags": st.one_of(st.lists(_scalars, max_size=3), _values),
        "a.b": _values,
        _FIELDS[-1]: _values,
        "meta": st.fixed_dictionaries({"title": _sentences}, optional={"deep": _values}),
    },
)

_objects = _named(_members)

_contents: st.SearchStrategy[Any] = st.one_of(
    _sentences,
    st.lists(_sentences, max_size=3),
    st.sampled_from(["", "aGVsbG8=", {"0": 137, "1": 80}, {"type": "Buffer", "data": [1, 2, 3]}, {"0": 300}]),
    _scalars,
)
_files = _named(
    st.fixed_dictionaries(
        {"content": _contents},
        optional={
            "encoding": st.sampled_from(["utf-8", "base64"]),
            "modified_at": st.sampled_from(["2026-01-02T03:04:05+00:00", "", None, 5]),
            "n": _scalars,
        },
    )
)

_orderable = _scalars.filter(lambda operand: operand is not None and not isinstance(operand, bool))
_operators = st.one_of(
    st.fixed_dictionaries({}, optional={"$eq": _values, "$ne": _values}),
    st.fixed_dictionaries({}, optional=dict.fromkeys(["$gt", "$lte"], _orderable)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(["$gte", "$lt"], _orderable)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(["$in", "$nin"], st.lists(_values, max_size=3))),
    st.fixed_dictionaries({}, optional={"$exists": st.booleans(), "$contains": _values}),
)
_conditions = st.one_of(_values, _operators, _operators.map(lambda inner: {"$not": inner}))
_bags: st.SearchStrategy[dict[str, Any]] = st.dictionaries(st.sampled_from(_FIELDS), _conditions, max_size=2)
_filters: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _bags,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$and": parts}),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$or": parts}),
        inner.map(lambda part: {"$not": part}),
    ),
    max_leaves=4,
)
_maybe_filters = _named(st.one_of(st.none(), _filters))
_refreshes = st.sampled_from([None, True, False])
_pages: Mapping[str, st.SearchStrategy[int]] = {
    "limit": st.sampled_from([10, 100, 5, 2, 1, 0]),
    "offset": st.sampled_from([0, 0, 0, 1, 3]),
}

CURRENT, STALE = -1, -2
"""Stand for the revision that the item has in the store that is asked, and for one that it no longer has."""

_revisions = st.sampled_from([None, None, None, CURRENT, STALE])
_indexes = st.sampled_from(
    [None, None, None, False, ["text"], ["text", "tags[*]"], ["meta.title", "$"], ["no"]]
)

plain_puts = st.builds(
    PutItem,
    _namespaces,
    _keys,
    _objects,
    index=_indexes,
    ttl=st.sampled_from([NOT_PROVIDED, None, 0.5, 1, 2.25, 60]),
    if_revision=st.none(),
    if_absent=st.just(False),
)
file_puts = st.builds(
    PutItem,
    st.sampled_from(_FILED),
    st.sampled_from(_PATHS),
    _files,
    index=st.none(),
    ttl=st.sampled_from([NOT_PROVIDED, None, None, 2]),
    if_revision=st.none(),
    if_absent=st.just(False),
)
_absent_puts = plain_puts.map(lambda put: put._replace(if_absent=True))
_conditional_puts = st.builds(
    lambda put, revision: put._replace(if_revision=revision), plain_puts, st.sampled_from([CURRENT, STALE])
)
puts = plain_puts | file_puts | _absent_puts | _conditional_puts
several_files = _named(st.lists(file_puts, min_size=6, max_size=12))
several_puts = _named(st.lists(plain_puts | file_puts, min_size=4, max_size=12))
deletes = st.builds(DeleteItem, _namespaces, _keys, _revisions) | st.builds(
    DeleteItem, st.sampled_from(_FILED), st.sampled_from(_PATHS), _revisions
)
gets = st.builds(GetItem, _namespaces, _keys, _refreshes)
lists = st.builds(SearchItems, _prefixes, st.none(), _maybe_filters, refresh_ttl=_refreshes, **_pages)
queries = st.builds(
    SearchItems,
    _prefixes,
    _sentences,
    _maybe_filters,
    refresh_ttl=_refreshes,
    mode=st.sampled_from(["auto", "text", "vector", "hybrid"]),
    explain=st.booleans(),
    **_pages,
)
_narrowings: Mapping[str, st.SearchStrategy[Any]] = {
    "prefix": st.sampled_from(["/", "/", "/a", "/a", "/a/", "k", "/\uffff", "/😀", "\U0010ffff"]),
    "suffix": st.sampled_from([".md", "b.md", "/", "K", "_"]),
    "after": st.sampled_from(["", "", "/", "/", "/a", "/a/", "/a/b", "/a/b.md", "/b", "/\uffff"]),
    "limit": st.sampled_from([3, 2, 1, 0]),
    "containing": st.sampled_from(_NEEDLES),
}
_key_listings = st.builds(
    lambda namespace, delimiter, values, narrowed: ListItemKeys(
        namespace, delimiter=delimiter, values=values, **narrowed
    ),
    st.sampled_from([*_FILED, *_FILED, *_FILED, *_NAMESPACES]),
    st.sampled_from([None, None, "/", "/", "b", "é", "😀"]),
    st.booleans(),
    # One at a time, mostly: together they leave nothing.
    st.one_of(
        *(st.fixed_dictionaries({name: drawn}) for name, drawn in _narrowings.items()),
        st.fixed_dictionaries({}, optional=_narrowings),
    ),
)
several_key_listings = _named(st.lists(_key_listings, min_size=2, max_size=8))
counts = st.builds(CountItems, _prefixes, _maybe_filters)
patterns = st.lists(st.sampled_from(["*", "a", "b", "%", "a\x01", "é"]), min_size=1, max_size=3).map(tuple)
_matches = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), patterns)
listings = st.builds(
    ListNamespacesOp, st.lists(_matches, max_size=2).map(tuple), st.sampled_from([None, 1, 2, 5]), **_pages
)
_upstream = st.one_of(
    st.builds(
        PutOp, st.just(_RESERVED), st.sampled_from(_KEYS), st.none() | _objects, st.none(), ttl=st.none()
    ),
    st.builds(GetOp, st.just(_RESERVED), st.sampled_from(_KEYS), st.booleans()),
)
_operations: st.SearchStrategy[StoreOperation] = st.one_of(
    puts, puts, deletes, gets, lists, queries, counts, listings, _key_listings, _upstream
)
batches = _named(st.lists(_operations, max_size=6))
failing_batches = _named(
    st.tuples(st.lists(_operations, max_size=4), puts.map(lambda put: put._replace(if_revision=STALE))).map(
        lambda parts: [*parts[0], parts[1]]
    )
)
