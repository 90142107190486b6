"""A random test that gives a store and the in-memory reference the same calls, and wants the same answers.

The proof for a store of your own is these lines in a file that pytest collects::

    from stateroom.testing.machine import Setup, machine

    def open_store(setup: Setup) -> MyStore:
        return MyStore(setup.folder / "memory.db", **setup.options)

    TestMyStore = machine(open_store, name="MyStore").TestCase

``setup.options`` are the ``index``, ``ttl``, ``index_keys`` and ``clock`` that the reference has too; all
time is that clock's. Values, order, times, expiries and errors must be equal, scores within a tolerance,
and revisions must put items in the same order. A failure prints the shortest sequence of calls found.

The environment variable ``STATEROOM_HYPOTHESIS_PROFILE`` says how hard to try: ``quick`` takes some
seconds for each store and is the default, ``deep`` some minutes; for the latter give pytest ``-o timeout=0``.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from langgraph.store.base import NOT_PROVIDED, GetOp, ListNamespacesOp, MatchCondition, PutOp
from langgraph.store.base import Item as LangGraphItem
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.items import Capability
from stateroom.errors import StateroomError
from stateroom.stores.base import Store
from stateroom.stores.items import Item, SearchItem
from stateroom.stores.memory import InMemoryStore
from stateroom.stores.operations import (
    CountItems,
    DeleteItem,
    GetItem,
    PutItem,
    SearchItems,
    StoreOperation,
)

__all__ = ["OPTIONS", "OpenStore", "Setup", "StoreMachine", "embed", "machine"]

PROFILES: Mapping[str, Mapping[str, int]] = {
    "quick": {"max_examples": 60, "stateful_step_count": 40},
    "deep": {"max_examples": 2_000, "stateful_step_count": 80},
}
PROFILE_VARIABLE = "STATEROOM_HYPOTHESIS_PROFILE"

TEXT_TOLERANCE = 1e-9
VECTOR_TOLERANCE = 1e-6
EVERYTHING = 100_000
ABSENT = ("nowhere",), "nothing"


class Setup(NamedTuple):
    """What a store is opened with; ``folder`` is empty at first, and stays the same while one history runs."""

    folder: Path
    options: Mapping[str, Any]


OpenStore = Callable[[Setup], Store]


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return vectors of four small whole numbers, many of them equal: how often four kinds of letter occur."""
    kinds = "aeiou", "bcdfgh", "rstl", "0123456789"
    return [[float(sum(map(text.count, kind))) for kind in kinds] for text in texts]


VECTORS: Mapping[str, Any] = {"embed": embed, "dims": 4}

OPTIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"index_keys": ("n", "text"), "ttl": {"default_ttl": 2}},
    {"index": {"fields": ["text", "meta.title", "tags[*]"], "language": "german"}},
    {"index": VECTORS, "index_keys": ("n",), "ttl": {"default_ttl": 1, "refresh_on_read": False}},
    {"index": {**VECTORS, "mode": "hybrid", "fields": ["text", "tags[*]"]}, "ttl": {"refresh_on_read": False}},
    {"index": {**VECTORS, "distance_type": "l2", "vector_cache_mb": 0}},
    {"index": {**VECTORS, "distance_type": "inner_product", "text": False, "min_score": 1.0}},
)
"""The options among which every history chooses."""

# ---- What is drawn: few names, so that calls meet, and of those the ones that storages stumble over.

_NAMESPACES = [
    ("a",),
    ("a", "b"),
    ("a", "b", "c"),
    ("a\x01",),
    ("ab",),
    ("*",),
    ("*", "b"),
    ("%", "_"),
    ("é",),
    ("😀", "a b"),
]
_RESERVED = ("langgraph", "a.b")
_KEYS = ["k", "K", "%", "é😀", ""]
_FIELDS = ["n", "text", "tags", "a.b", 'ключ "\\']
_WORDS = "running runs café naïve user_id HTTPServer 42 東京都 Straße the ΣΑΣ % * \" 'AND".split()

_namespaces = st.sampled_from(_NAMESPACES)
_prefixes = st.sampled_from([(), (), *{name[:n] for name in _NAMESPACES for n in range(1, 4)}, ("b",)])
_sentences = st.lists(st.sampled_from(_WORDS), max_size=5).map(" ".join)
_scalars: st.SearchStrategy[Any] = st.one_of(
    st.integers(-2, 2),
    st.sampled_from([2**53, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**70), 10**30]),
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 2.0**53, 9.3e18, 1e300, -5e-324]),
    st.sampled_from([None, True, False]),
    st.sampled_from(["", "a", "A", "é", "\uffff", "😀", "1", "true", "a'b", 'a"b', "\\u0041", "\x01"]),
    _sentences,
)
_values: st.SearchStrategy[Any] = st.one_of(
    _scalars,
    st.lists(_scalars, max_size=3),
    st.dictionaries(st.sampled_from(["title", "n", "x y"]), _scalars, max_size=2),
)
_objects = st.fixed_dictionaries(
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

_orderable = _scalars.filter(lambda operand: isinstance(operand, int | float | str) and operand not in (True, False))
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
_maybe_filters = st.one_of(st.none(), _filters)
_refreshes = st.sampled_from([None, True, False])
_pages: Mapping[str, st.SearchStrategy[int]] = {
    "limit": st.sampled_from([0, 1, 2, 5, 10, 10, 100]),
    "offset": st.sampled_from([0, 0, 0, 1, 3, 20]),
}

CURRENT, STALE = -1, -2
"""Stand for the revision that the item has in the store that is asked, and for one that it no longer has."""

_revisions = st.sampled_from([None, None, None, CURRENT, STALE])
_indexes = st.sampled_from([None, None, None, False, ["text"], ["text", "tags[*]"], ["meta.title", "$"], ["no"]])

_puts = st.builds(
    PutItem,
    _namespaces,
    st.sampled_from(_KEYS),
    _objects,
    index=_indexes,
    ttl=st.sampled_from([NOT_PROVIDED, NOT_PROVIDED, None, 0.5, 1, 2.25, 60]),
    if_revision=_revisions,
    if_absent=st.sampled_from([False, False, False, True]),
)
_deletes = st.builds(DeleteItem, _namespaces, st.sampled_from(_KEYS), _revisions)
_gets = st.builds(GetItem, _namespaces, st.sampled_from(_KEYS), _refreshes)
_lists = st.builds(SearchItems, _prefixes, st.none(), _maybe_filters, refresh_ttl=_refreshes, **_pages)
_queries = st.builds(
    SearchItems,
    _prefixes,
    _sentences,
    _maybe_filters,
    refresh_ttl=_refreshes,
    mode=st.sampled_from(["auto", "text", "vector", "hybrid"]),
    explain=st.booleans(),
    **_pages,
)
_counts = st.builds(CountItems, _prefixes, _maybe_filters)
_patterns = st.lists(st.sampled_from(["*", "a", "b", "%", "a\x01", "é"]), min_size=1, max_size=3).map(tuple)
_matches = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), _patterns)
_listings = st.builds(
    ListNamespacesOp, st.lists(_matches, max_size=2).map(tuple), st.sampled_from([None, 1, 2, 5]), **_pages
)
_upstream = st.one_of(
    st.builds(PutOp, st.just(_RESERVED), st.sampled_from(_KEYS), st.one_of(st.none(), _objects)),
    st.builds(GetOp, st.just(_RESERVED), st.sampled_from(_KEYS)),
)
_batches: st.SearchStrategy[list[StoreOperation]] = st.lists(
    st.one_of(_puts, _puts, _deletes, _gets, _lists, _queries, _counts, _listings, _upstream), max_size=6
)


def machine(
    open_store: OpenStore,
    *,
    name: str,
    options: Sequence[Mapping[str, Any]] = OPTIONS,
    durable: bool | None = None,
    shared: bool | None = None,
) -> type[StoreMachine]:
    """Return a state machine for the stores that ``open_store`` opens; its ``TestCase`` is the test.

    ``open_store`` is called again with the same setup to reopen a store that is ``durable``, and for
    a second store on the same data of one that is ``shared``; None believes the store's capabilities.
    """
    members = {
        "open_store": staticmethod(open_store),
        "options": tuple(options),
        "durable": durable,
        "shared": shared,
        "__doc__": f"Holds {name} against the reference.",
    }
    made: type[StoreMachine] = type(name, (StoreMachine,), members)
    effort = PROFILES[os.environ.get(PROFILE_VARIABLE, "quick")]
    # Many rules need a store that can do them, and a busy machine is no defect.
    made.TestCase.settings = settings(deadline=None, suppress_health_check=list(HealthCheck), **effort)  # type: ignore[arg-type]
    return made


class StoreMachine(RuleBasedStateMachine):
    """Random histories of one store and of the reference; made by ``machine``, and open to more rules."""

    open_store: ClassVar[OpenStore]
    options: ClassVar[Sequence[Mapping[str, Any]]]
    durable: ClassVar[bool | None]
    shared: ClassVar[bool | None]

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Open everything."""
        chosen = data.draw(st.sampled_from(self.options), label="options")
        self.clock = ManualClock()
        self.setup = Setup(Path(tempfile.mkdtemp(prefix="stateroom-")), {**chosen, "clock": self.clock})
        self.reference: Store = InMemoryStore(**self.setup.options)
        self.store = type(self).open_store(self.setup)
        able = self.store.capabilities
        self.is_durable = Capability.DURABLE in able if self.durable is None else self.durable
        is_shared = Capability.MULTI_PROCESS in able if self.shared is None else self.shared
        self.peer = type(self).open_store(self.setup) if is_shared else None
        self.embeds = "embed" in chosen.get("index", {})
        self.newest = 0
        self.steps = 0

    @override
    def teardown(self) -> None:
        """Compare once more, close everything and remove the folder."""
        if not hasattr(self, "store"):
            return
        try:
            self.compare_content(self.store)
        finally:
            for store in (self.store, self.peer, self.reference):
                if store is not None:
                    store.close()
            shutil.rmtree(self.setup.folder)

    @rule(operation=_puts)
    def put(self, operation: PutItem) -> None:
        self._compare(lambda store: store.put_item(**_arguments(operation, store)))

    @rule(operation=_deletes)
    def delete(self, operation: DeleteItem) -> None:
        self._compare(lambda store: store.delete(**_arguments(operation, store)))

    @rule(operation=_gets)
    def get(self, operation: GetItem) -> None:
        self._compare(lambda store: store.get(**operation._asdict()))

    @rule(operation=st.one_of(_lists, _queries))
    def search(self, operation: SearchItems) -> None:
        self._compare(lambda store: _search(store, operation))

    @rule(operation=_counts)
    def count(self, operation: CountItems) -> None:
        self._compare(lambda store: store.count(operation.namespace_prefix, filter=operation.filter))

    @rule(prefix=st.one_of(st.none(), _patterns), suffix=st.one_of(st.none(), _patterns), page=_listings)
    def list_namespaces(
        self, prefix: tuple[str, ...] | None, suffix: tuple[str, ...] | None, page: ListNamespacesOp
    ) -> None:
        cut = {"max_depth": page.max_depth, "limit": page.limit, "offset": page.offset}
        self._compare(lambda store: store.list_namespaces(prefix=prefix, suffix=suffix, **cut))

    @rule(operations=_batches)
    def batch(self, operations: list[StoreOperation]) -> None:
        self._compare(lambda store: store.batch([_resolved(each, store) for each in operations]))

    @precondition(lambda self: not self.embeds)
    @rule(batches=st.lists(_batches, min_size=2, max_size=4))
    def batches_of_concurrent_callers(self, batches: list[list[StoreOperation]]) -> None:
        """Callers that a store gathers get the outcome that each would have had alone, in their order."""
        revisions = [[[_resolved(each, store) for each in one] for one in batches] for store in self._both()]

        async def together() -> list[Any]:
            calls = [self.store.abatch(operations) for operations in revisions[0]]
            return await asyncio.gather(*calls, return_exceptions=True)

        answers = asyncio.run(together())
        for operations, answer in zip(revisions[1], answers, strict=True):
            self._agree(_told(answer), _outcome(self.reference, lambda store: store.batch(operations)))

    @rule(minutes=st.sampled_from([1 / 60_000_000, 0.01, 0.25, 0.5, 1, 2, 59, 10_000]))
    def pass_time(self, minutes: float) -> None:
        self.clock.advance(minutes=minutes)

    @rule()
    def sweep(self) -> None:
        for store in self._both():
            store.sweep_ttl()
            assert store.sweep_ttl() == 0

    @precondition(lambda self: self.is_durable)
    @rule(anew=st.booleans())
    def reopen(self, anew: bool) -> None:
        """Close the store; then open another one, or just go on, which opens it again."""
        self.store.close()
        if anew:
            self.store = type(self).open_store(self.setup)

    @precondition(lambda self: self.peer is not None)
    @rule(operation=st.one_of(_lists, _queries))
    def see_the_same_from_elsewhere(self, operation: SearchItems) -> None:
        """Another store on the same data agrees, whatever it remembers."""
        assert self.peer is not None
        self._flush()
        quiet = operation._replace(refresh_ttl=False)
        answer = _outcome(self.peer, lambda store: _search(store, quiet))
        self._agree(answer, _outcome(self.reference, lambda store: _search(store, quiet)))
        self.compare_content(self.peer)

    @precondition(lambda self: self.peer is not None)
    @rule()
    def go_on_elsewhere(self) -> None:
        """Let the two stores on the same data change places."""
        assert self.peer is not None
        self._flush()
        self.store, self.peer = self.peer, self.store

    @invariant()
    def content_is_equal(self) -> None:
        """Compare everything now and then."""
        self.steps += 1
        if self.steps % 5 == 0:
            self.compare_content(self.store)

    def compare_content(self, store: Store) -> None:
        """Compare all items, their order by revision, and all namespaces with the reference."""
        found, wanted = (_everything(each) for each in (store, self.reference))
        assert _facts(found) == _facts(wanted)
        order, expected = (sorted(items, key=lambda item: item.revision) for items in (found, wanted))
        assert [(i.namespace, i.key) for i in order] == [(i.namespace, i.key) for i in expected]
        names = [each.list_namespaces(limit=EVERYTHING) for each in (store, self.reference)]
        assert names[0] == names[1]

    def _both(self) -> tuple[Store, Store]:
        return self.store, self.reference

    def _compare(self, call: Callable[[Store], Any]) -> None:
        self._agree(_outcome(self.store, call), _outcome(self.reference, call))

    def _agree(self, answer: Any, expected: Any) -> None:
        assert _facts(answer) == _facts(expected)
        self._check_revisions(answer)

    def _check_revisions(self, answer: Any) -> None:
        """A put is told a revision beyond all that were told before it."""
        if isinstance(answer, Item):
            self.newest = max(self.newest, answer.revision)

    def _flush(self) -> None:
        """Have refreshed expiries written, which every write does: other stores cannot know them before."""
        self.store.delete(*ABSENT)
