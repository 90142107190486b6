"""What is refused, by which error, naming which argument; and that it changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from stateroom.contract.items import Capability
from stateroom.errors import (
    InvalidFilter,
    InvalidIndex,
    InvalidInput,
    InvalidKey,
    InvalidNamespace,
    InvalidPage,
    InvalidTTL,
    InvalidValue,
    LimitExceeded,
    Misconfigured,
    StateroomError,
)
from stateroom.model.limits import (
    KEY_BYTES_MAX,
    LABEL_BYTES_MAX,
    NAMESPACE_LABELS_MAX,
    PAGE_NUMBER_MAX,
    TTL_MINUTES_MAX,
)
from stateroom.stores.operations import CountItems, DeleteItem, GetItem, ListItemKeys, PutItem, SearchItems
from stateroom.testing.harness import Call, Harness, Memory, Opens, ask
from stateroom.testing.needs import needs
from stateroom.testing.snapshot import snapshot

__all__ = ["RefusalSuite"]

CODES: dict[type[StateroomError], str] = {
    InvalidFilter: "invalid_filter",
    InvalidIndex: "invalid_index",
    InvalidInput: "invalid_input",
    InvalidKey: "invalid_key",
    InvalidNamespace: "invalid_namespace",
    InvalidPage: "invalid_page",
    InvalidTTL: "invalid_ttl",
    InvalidValue: "invalid_value",
    LimitExceeded: "limit_exceeded",
    Misconfigured: "misconfigured",
}

Refusal = tuple[str, Call, type[StateroomError], str]
"""What is wrong, the call, and the error and the field with which it is refused."""

A = ("a",)

BAD_NAMESPACES: list[tuple[str, Any, type[StateroomError], str]] = [
    ("a string", "users", InvalidNamespace, ""),
    ("None", None, InvalidNamespace, ""),
    ("a number", 5, InvalidNamespace, ""),
    ("a set", {"users"}, InvalidNamespace, ""),
    ("bytes", b"users", InvalidNamespace, ""),
    ("an empty label", ("users", ""), InvalidNamespace, "[1]"),
    ("None as label", (None,), InvalidNamespace, "[0]"),
    ("a number as label", ("users", 1), InvalidNamespace, "[1]"),
    ("true as label", (True, "x"), InvalidNamespace, "[0]"),
    ("a tuple as label", (("users",),), InvalidNamespace, "[0]"),
    ("bytes as label", ("a", "b", b"c"), InvalidNamespace, "[2]"),
    ("nul in a label", ("a", "b\0"), InvalidNamespace, "[1]"),
    ("a lone surrogate in a label", ("\ud800", "b"), InvalidNamespace, "[0]"),
    ("a long label", ("a", "x" * (LABEL_BYTES_MAX + 1)), LimitExceeded, "[1]"),
    ("too many labels", ("a",) * (NAMESPACE_LABELS_MAX + 1), LimitExceeded, ""),
]

BAD_KEYS: list[tuple[str, Any, type[StateroomError]]] = [
    ("None", None, InvalidKey),
    ("bytes", b"k", InvalidKey),
    ("nul", "k\0", InvalidKey),
    ("a lone surrogate", "\udfff", InvalidKey),
    ("a long key", "k" * (KEY_BYTES_MAX + 1), LimitExceeded),
]

BAD_PAGES: list[tuple[Any, type[StateroomError]]] = [
    (-1, InvalidPage),
    (1.0, InvalidPage),
    ("1", InvalidPage),
    (None, InvalidPage),
    (True, InvalidPage),
    (PAGE_NUMBER_MAX + 1, LimitExceeded),
]

BAD_TTLS: list[tuple[Any, type[StateroomError]]] = [
    (0, InvalidTTL),
    (-1, InvalidTTL),
    (float("nan"), InvalidTTL),
    (float("inf"), InvalidTTL),
    ("5", InvalidTTL),
    (True, InvalidTTL),
    ([5], InvalidTTL),
    (TTL_MINUTES_MAX + 1, LimitExceeded),
]

BAD_INDEXES: list[tuple[str, Any, str]] = [
    ("true", True, "index"),
    ("a string", "text", "index"),
    ("a mapping", {"text": 1}, "index"),
    ("a number", 0, "index"),
    ("a number as path", ["text", 1], "index[1]"),
    ("None as path", [None], "index[0]"),
    ("nul in a path", ["a\0"], "index[0]"),
    ("a lone surrogate in a path", ["\ud800"], "index[0]"),
    ("a long path", ["x" * 1_025], "index[0]"),
]

BAD_SETTINGS: list[tuple[str, dict[str, Any], str]] = [
    ("index", {"unknown": 1}, "unknown"),
    ("index", {"language": "klingon"}, "language"),
    ("index", {"dims": 3}, "embed"),
    ("index", {"embed": lambda texts: texts}, "dims"),
    ("index", {"mode": "vector"}, "mode"),
    ("index", {"fields": "text"}, "fields"),
    ("ttl", {"unknown": 1}, "unknown"),
    ("ttl", {"default_ttl": -1}, "default_ttl"),
    ("ttl", {"refresh_on_read": "yes"}, "refresh_on_read"),
    ("ttl", {"sweep_interval_minutes": 0}, "sweep_interval_minutes"),
]

BAD_REVISIONS: list[Any] = ["1", 1.0, True, [1]]


def addressed() -> list[Refusal]:
    """Return calls of every method with a bad namespace or key."""
    calls: list[Refusal] = []
    for name, bad, error, place in BAD_NAMESPACES:
        here, prefix = f"namespace{place}", f"namespace_prefix{place}"
        calls += [
            (f"put: {name}", ask("put", bad, "k", {}), error, here),
            (f"put_item: {name}", ask("put_item", bad, "k", {}), error, here),
            (f"get: {name}", ask("get", bad, "k"), error, here),
            (f"delete: {name}", ask("delete", bad, "k"), error, here),
            (f"search: {name}", ask("search", bad), error, prefix),
            (f"count: {name}", ask("count", bad), error, prefix),
            (f"list_keys: {name}", ask("list_keys", bad), error, here),
        ]
    for name, bad, error in BAD_KEYS:
        calls += [
            (f"put key: {name}", ask("put", A, bad, {}), error, "key"),
            (f"put_item key: {name}", ask("put_item", A, bad, {}), error, "key"),
            (f"get key: {name}", ask("get", A, bad), error, "key"),
            (f"delete key: {name}", ask("delete", A, bad), error, "key"),
        ]
    for method in ("put", "put_item"):
        calls.append((f"{method}: no label", ask(method, (), "k", {}), InvalidNamespace, "namespace"))
    return calls


def paged() -> list[Refusal]:
    """Return searches and listings with a bad limit, offset, depth, query or mode."""
    calls: list[Refusal] = []
    for bad, error in BAD_PAGES:
        for field in ("limit", "offset"):
            calls.append((f"search {field} {bad}", ask("search", A, **{field: bad}), error, field))
            calls.append((f"listing {field} {bad}", ask("list_namespaces", **{field: bad}), error, field))
        calls.append((f"list_keys limit {bad}", ask("list_keys", A, limit=bad), error, "limit"))
    for bad, error in [(0, InvalidPage), *BAD_PAGES]:
        if bad is not None:
            calls.append((f"depth {bad}", ask("list_namespaces", max_depth=bad), error, "max_depth"))
    for bad in (5, ["word"], b"word", "word\0", "\ud800"):
        calls.append((f"query {bad!r}", ask("search", A, query=bad), InvalidInput, "query"))
    for bad in ("fuzzy", "", None, "TEXT"):
        calls.append((f"mode {bad!r}", ask("search", A, query="word", mode=bad), InvalidInput, "mode"))
        calls.append((f"mode {bad!r} alone", ask("search", A, mode=bad), InvalidInput, "mode"))
    return calls


def listed() -> list[Refusal]:
    """Return listings with a bad prefix or suffix."""
    return [
        (f"{field}: {name}", ask("list_namespaces", **{field: bad}), error, f"{field}{place}")
        for name, bad, error, place in BAD_NAMESPACES
        for field in ("prefix", "suffix")
        if bad is not None
    ]


def keys_listed() -> list[Refusal]:
    """Return listings of keys by what no key can begin with, end with, hold or come after."""
    texts: list[tuple[str, Any]] = [
        (field, bad)
        for field in ("prefix", "suffix", "delimiter", "after", "containing")
        for bad in (5, True, b"a", ["a"], "a\0", "\0", "\ud800", None)
        if bad is not None or field in ("prefix", "suffix")
    ]
    delimiters = [("delimiter", bad) for bad in ("", "ab", "//", "e\u0301")]
    return [
        (f"list_keys {field} {bad!r}", ask("list_keys", A, **{field: bad}), InvalidInput, field)
        for field, bad in texts + delimiters
    ]


def written() -> list[Refusal]:
    """Return puts with a bad value or index."""
    calls: list[Refusal] = []
    for method in ("put", "put_item"):
        for name, bad, field in BAD_INDEXES:
            calls.append((f"{method} index: {name}", ask(method, A, "k", {}, index=bad), InvalidIndex, field))
        calls.append((f"{method}: a list", ask(method, A, "k", [1]), InvalidValue, "value"))
        calls.append((f"{method}: nan", ask(method, A, "k", {"n": float("nan")}), InvalidValue, "value.n"))
        calls.append((f"{method}: nul", ask(method, A, "k", {"n": ["\0"]}), InvalidValue, "value.n[0]"))
    calls.append(("put_item: None", ask("put_item", A, "k", None), InvalidValue, "value"))
    return calls


def batched() -> list[Refusal]:
    """Return batches with one bad operation, behind one that is good."""
    bad: list[tuple[str, Any, type[StateroomError], str]] = [
        ("PutOp label", PutOp(("a", ""), "k", {}), InvalidNamespace, "namespace[1]"),
        ("PutOp nul", PutOp(("a\0",), "k", {}), InvalidNamespace, "namespace[0]"),
        ("PutOp surrogate", PutOp(("\ud800",), "k", {}), InvalidNamespace, "namespace[0]"),
        ("PutOp no label", PutOp((), "k", {}), InvalidNamespace, "namespace"),
        ("PutOp string", PutOp("users", "k", {}), InvalidNamespace, "namespace"),  # type: ignore[arg-type]
        ("PutOp deletion", PutOp((), "k", None), InvalidNamespace, "namespace"),
        ("PutOp key", PutOp(A, "k\0", {}), InvalidKey, "key"),
        ("PutOp value", PutOp(A, "k", {"x": b""}), InvalidValue, "value.x"),
        ("PutOp index", PutOp(A, "k", {}, index=True), InvalidIndex, "index"),  # type: ignore[arg-type]
        ("GetOp label", GetOp((1,), "k"), InvalidNamespace, "namespace[0]"),  # type: ignore[arg-type]
        ("GetOp key", GetOp(A, None), InvalidKey, "key"),  # type: ignore[arg-type]
        ("SearchOp label", SearchOp(("a\0",)), InvalidNamespace, "namespace_prefix[0]"),
        ("SearchOp limit", SearchOp(A, limit=-1), InvalidPage, "limit"),
        ("SearchOp offset", SearchOp(A, offset=-1), InvalidPage, "offset"),
        ("SearchOp filter", SearchOp(A, filter={"$x": 1}), InvalidFilter, "filter.$x"),
        ("ListNamespacesOp limit", ListNamespacesOp(limit=-1), InvalidPage, "limit"),
        ("ListNamespacesOp depth", ListNamespacesOp(max_depth=0), InvalidPage, "max_depth"),
        ("PutItem no label", PutItem((), "k", {}), InvalidNamespace, "namespace"),
        ("PutItem None", PutItem(A, "k", None), InvalidValue, "value"),  # type: ignore[arg-type]
        ("GetItem key", GetItem(A, b"k"), InvalidKey, "key"),  # type: ignore[arg-type]
        ("DeleteItem label", DeleteItem(("",), "k"), InvalidNamespace, "namespace[0]"),
        ("SearchItems mode", SearchItems(A, mode="x"), InvalidInput, "mode"),  # type: ignore[arg-type]
        ("ListItemKeys label", ListItemKeys(("",)), InvalidNamespace, "namespace[0]"),
        ("ListItemKeys delimiter", ListItemKeys(A, delimiter="ab"), InvalidInput, "delimiter"),
        ("ListItemKeys limit", ListItemKeys(A, limit=-1), InvalidPage, "limit"),
        ("CountItems filter", CountItems(A, {"a": {"$x": 1}}), InvalidFilter, "filter.a.$x"),
    ]
    good = PutItem(A, "new", {"t": "word"})
    return [(name, ask("batch", [good, operation]), error, field) for name, operation, error, field in bad]


REFUSALS = {
    "addresses": addressed(),
    "pages": paged(),
    "listings": listed(),
    "listings of keys": keys_listed(),
    "writes": written(),
    "batches": batched(),
}


def populated(memory: Memory) -> list[Any]:
    """Put something into a store, and return everything that can be read of it."""
    memory.put(("a",), "k", {"t": "word", "n": 1})
    memory.put(("a", "b"), "k", {"t": "other word"})
    memory.put(("c",), "k", {}, index=False)
    return snapshot(memory, "word", "other")


def refused(memory: Memory, refusal: Refusal) -> None:
    """See a call be refused as it should be."""
    name, (method, arguments, options), error, field = refusal
    try:
        memory.call(method, *arguments, **options)
    except Exception as caught:  # whatever else it is, the comparison says
        raised = caught
    else:
        raise AssertionError(f"{name} is not refused")
    assert isinstance(raised, StateroomError), f"{name}: {raised!r}"
    assert (type(raised), raised.code, raised.field) == (error, CODES[error], field), name
    assert isinstance(raised, ValueError)
    assert not raised.retryable
    assert isinstance(raised, InvalidNamespaceError) == (error is InvalidNamespace)
    assert field in str(raised)


class RefusalSuite(Harness):
    """A refused call names the argument to blame, by a code that programs can act on, and does nothing."""

    @pytest.mark.parametrize("subject", REFUSALS)
    def test_a_bad_call_is_refused_and_changes_nothing(self, memory: Memory, subject: str) -> None:
        before = populated(memory)
        for refusal in REFUSALS[subject]:
            refused(memory, refusal)
            assert snapshot(memory, "word", "other") == before, refusal[0]

    @needs(Capability.TTL)
    def test_a_bad_ttl_is_refused(self, memory: Memory) -> None:
        before = populated(memory)
        for ttl, error in BAD_TTLS:
            refused(memory, (f"put {ttl}", ask("put", A, "k", {}, ttl=ttl), error, "ttl"))
            refused(memory, (f"put_item {ttl}", ask("put_item", A, "k", {}, ttl=ttl), error, "ttl"))
            refused(memory, (f"PutOp {ttl}", ask("batch", [PutOp(A, "k", {}, ttl=ttl)]), error, "ttl"))
        assert snapshot(memory, "word", "other") == before

    @needs(Capability.CONDITIONAL)
    def test_a_bad_revision_is_refused(self, memory: Memory) -> None:
        before = populated(memory)
        for revision in BAD_REVISIONS:
            for method, *value in (("put", {}), ("put_item", {}), ("delete",)):
                call = ask(method, A, "k", *value, if_revision=revision)
                refused(memory, (f"{method} {revision!r}", call, InvalidInput, "if_revision"))
            operations = [PutItem(A, "new", {}), DeleteItem(A, "k", revision)]
            refused(memory, (f"batch {revision!r}", ask("batch", operations), InvalidInput, "if_revision"))
        assert snapshot(memory, "word", "other") == before

    def test_an_unknown_kind_of_match_is_refused(self, memory: Memory) -> None:
        unknown: Any = "infix"
        with pytest.raises(InvalidNamespace, match="infix"):
            memory.batch([ListNamespacesOp((MatchCondition(unknown, ("a",)),))])

    def test_the_first_of_several_offences_is_named(self, memory: Memory) -> None:
        refused(memory, ("put", ask("put", "users", None, []), InvalidNamespace, "namespace"))
        refused(memory, ("put", ask("put", A, None, []), InvalidKey, "key"))
        refused(memory, ("put", ask("put", A, "k", [], ttl=None, index=None), InvalidValue, "value"))

    def test_a_wrong_setting_is_refused_when_the_store_is_opened(self, opens: Opens) -> None:
        for option, settings, field in BAD_SETTINGS:
            with pytest.raises(Misconfigured) as caught:
                opens(**{option: settings})
            assert (caught.value.code, caught.value.field) == ("misconfigured", f"{option}.{field}")
            assert isinstance(caught.value, ValueError)
