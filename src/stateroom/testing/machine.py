"""A random test that gives a store and the in-memory reference the same calls, and wants the same answers.

The proof for a store of your own is these lines in a file that pytest collects::

    from stateroom.testing.machine import Setup, machine

    def open_store(setup: Setup) -> MyStore:
        return MyStore(setup.folder / "memory.db", **setup.options)

    TestMyStore = machine(open_store, name="MyStore").TestCase

``setup.options`` are the ``index``, ``ttl``, ``index_keys`` and ``clock`` that the reference has too; all
time is that clock's. Values, order, times, expiries and errors must be equal, scores within a tolerance,
and revisions must put items in the same order. A failure prints the shortest sequence of calls found.

Of a store that lacks a capability nothing is asked that needs it, and ``options`` must ask for nothing that
needs it either. Without ``ANALYSIS`` what queries find is only held against what is there; without
``EXACT_TIMES`` times are not compared, but the order is: let the storage's clock move on with each put.

The environment variable ``STATEROOM_HYPOTHESIS_PROFILE`` says how hard to try: ``quick`` takes some
seconds for each store and is the default, ``deep`` some minutes; for the latter give pytest ``-o timeout=0``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import methodcaller
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from langgraph.store.base import ListNamespacesOp
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.items import Capability
from stateroom.errors import StateroomError
from stateroom.model.item import KeyEntry
from stateroom.stores.base import Store
from stateroom.stores.items import Item
from stateroom.stores.memory import InMemoryStore
from stateroom.stores.operations import (
    CountItems,
    DeleteItem,
    GetItem,
    ListItemKeys,
    PutItem,
    SearchItems,
    StoreOperation,
)
from stateroom.testing import asking, drawing
from stateroom.testing.comparing import check_same, facts, revisions_in

__all__ = ["OPTIONS", "OpenStore", "Setup", "StoreMachine", "embed", "machine", "machine_settings"]

PROFILE_VARIABLE = "STATEROOM_HYPOTHESIS_PROFILE"

ABSENT = ("nowhere",), "nothing"


class Effort(NamedTuple):
    """How many histories to try, of how many calls at most."""

    examples: int
    steps: int


PROFILES: Mapping[str, Effort] = {"quick": Effort(45, 40), "deep": Effort(600, 80)}


class Setup(NamedTuple):
    """What a store is opened with; ``folder`` is empty at first, and one history's own."""

    folder: Path
    options: Mapping[str, Any]


OpenStore = Callable[[Setup], Store]
Asked = TypeVar("Asked", bound=Any)


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return vectors of four whole numbers, many of them equal: how often four kinds of letter occur."""
    kinds = "aeiou", "bcdfgh", "rstl", "0123456789"
    return [[float(sum(map(text.count, kind))) for kind in kinds] for text in texts]


VECTORS: Mapping[str, Any] = {"embed": embed, "dims": 4}

OPTIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"index_keys": ("n", "text"), "ttl": {"default_ttl": 2}},
    {"index": {"fields": ["text", "meta.title", "tags[*]"], "language": "german"}},
    {"index": VECTORS, "index_keys": ("n",), "ttl": {"default_ttl": 1, "refresh_on_read": False}},
    {
        "index": {**VECTORS, "mode": "hybrid", "fields": ["text", "tags[*]"]},
        "ttl": {"refresh_on_read": False},
    },
    {"index": {**VECTORS, "distance_type": "l2"}},
    {"index": {**VECTORS, "distance_type": "inner_product", "text": False, "min_score": 1.0}},
)
"""The options among which every history chooses."""


def machine(
    open_store: OpenStore,
    *,
    name: str,
    options: Sequence[Mapping[str, Any]] = OPTIONS,
    durable: bool | None = None,
    shared: bool | None = None,
    base: type[StoreMachine] | None = None,
) -> type[StoreMachine]:
    """Return a state machine for the stores that ``open_store`` opens; its ``TestCase`` is the test.

    ``open_store`` is called again with the same setup to reopen a store that is ``durable``, and for
    a second store on the same data of one that is ``shared``; None believes the store's capabilities.
    ``base`` may add rules of its own.
    """
    members = {
        "open_store": staticmethod(open_store),
        "options": tuple(options),
        "durable": durable,
        "shared": shared,
        "__doc__": f"Holds {name} against the reference.",
    }
    made: type[StoreMachine] = type(name, (base or StoreMachine,), members)
    made.TestCase.settings = machine_settings()
    return made


def machine_settings() -> settings:
    """Return how hard machines try: as the environment's STATEROOM_HYPOTHESIS_PROFILE says."""
    effort = PROFILES[os.environ.get(PROFILE_VARIABLE, "quick")]
    # A busy machine is no defect; and where a failure comes from is for the reader to find, in less time.
    return settings(
        max_examples=effort.examples,
        stateful_step_count=effort.steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=set(Phase) - {Phase.explain},
        report_multiple_bugs=False,
    )


class StoreMachine(RuleBasedStateMachine):
    """Random histories of one store and of the reference; made by ``machine``, and open to more rules."""

    open_store: ClassVar[OpenStore]
    options: ClassVar[Sequence[Mapping[str, Any]]]
    durable: ClassVar[bool | None]
    shared: ClassVar[bool | None]

    @initialize(data=st.data(), operations=drawing.several_puts)
    def begin(self, data: st.DataObject, operations: list[StoreOperation]) -> None:
        """Open everything and put the first items."""
        chosen = data.draw(st.sampled_from(self.options), label="options")
        self.clock = ManualClock()
        self.setup = Setup(Path(tempfile.mkdtemp(prefix="stateroom-")), {**chosen, "clock": self.clock})
        self.reference: Store = InMemoryStore(**self.setup.options)
        self.store = type(self).open_store(self.setup)
        able = self.store.capabilities
        self.able = able
        self.is_durable = Capability.DURABLE in able if self.durable is None else self.durable
        is_shared = Capability.MULTI_PROCESS in able if self.shared is None else self.shared
        self.peer = type(self).open_store(self.setup) if is_shared else None
        self.embeds = "embed" in chosen.get("index", {})
        self.newest = 0
        self.batch(operations)

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

    @rule(operation=drawing.puts)
    def put(self, operation: PutItem) -> None:
        """A put is told a revision beyond all that anybody was told before it."""
        newest = self.newest
        asked = self._possible(operation)
        answer = self._compare(lambda store: store.put_item(**asking.arguments(asked, store)))
        assert not isinstance(answer, Item) or answer.revision is None or answer.revision > newest

    @rule(operation=drawing.deletes)
    def delete(self, operation: DeleteItem) -> None:
        asked = self._possible(operation)
        self._compare(lambda store: store.delete(**asking.arguments(asked, store)))

    @rule(operation=drawing.gets)
    def get(self, operation: GetItem) -> None:
        self._compare(lambda store: store.get(**operation._asdict()))

    @rule(operation=st.one_of(drawing.lists, drawing.queries))
    def search(self, operation: SearchItems) -> None:
        if self._is_comparable(operation):
            self._compare(lambda store: asking.search(store, operation))
        else:
            self.check_hits(
                operation, asking.outcome(self.store, lambda store: asking.search(store, operation))
            )

    @rule(operation=drawing.counts)
    def count(self, operation: CountItems) -> None:
        self._compare(lambda store: store.count(operation.namespace_prefix, filter=operation.filter))

    @rule(prefix=st.none() | drawing.patterns, suffix=st.none() | drawing.patterns, page=drawing.listings)
    def list_namespaces(
        self, prefix: tuple[str, ...] | None, suffix: tuple[str, ...] | None, page: ListNamespacesOp
    ) -> None:
        depth, limit, offset = page.max_depth, page.limit, page.offset
        self._compare(
            lambda store: store.list_namespaces(
                prefix=prefix, suffix=suffix, max_depth=depth, limit=limit, offset=offset
            )
        )

    @rule(operations=drawing.several_key_listings)
    def list_keys(self, operations: list[ListItemKeys]) -> None:
        """What a listing says of an item is also what a search says of it."""
        found = {(item.namespace, item.key): item for item in asking.everything(self.store)}
        for operation in operations:
            entries: list[KeyEntry] = self._compare(partial(asking.list_keys, operation=operation))
            for entry in entries:
                if not entry.is_prefix:
                    item = found[tuple(operation.namespace), entry.key]
                    assert (entry.revision, entry.updated_at) == (item.revision, item.updated_at)

    @rule(operations=drawing.batches | drawing.several_puts | drawing.several_files)
    def batch(self, operations: list[StoreOperation]) -> None:
        asked = self._asked(operations)
        self._compare(lambda store: store.batch([asking.resolved(each, store) for each in asked]))

    @precondition(lambda self: {Capability.ATOMIC_BATCH, Capability.CONDITIONAL} <= self.able)
    @rule(operations=drawing.failing_batches)
    def batch_that_fails_at_its_end(self, operations: list[StoreOperation]) -> None:
        """Whatever came before the failure has no effect, the refreshes of its reads included."""
        self._compare(lambda store: store.batch([asking.resolved(each, store) for each in operations]))

    @precondition(lambda self: not self.embeds)
    @rule(batches=st.lists(drawing.batches, min_size=2, max_size=4))
    def batches_of_concurrent_callers(self, batches: list[list[StoreOperation]]) -> None:
        """Callers that a store gathers get the outcome that each would have had alone, in their order."""
        asked, expected = (
            [[asking.resolved(each, store) for each in self._asked(operations)] for operations in batches]
            for store in self._both()
        )

        async def together() -> list[Any]:
            calls = map(self.store.abatch, asked)
            return [*await asyncio.gather(*calls, return_exceptions=True)]

        alone = [asking.outcome(self.reference, methodcaller("batch", operations)) for operations in expected]
        self._agree(asyncio.run(together()), alone)

    @rule(minutes=st.sampled_from([0.25, 0.01, 1 / 60_000_000, 0.25, 0.5, 0.75, 2, 59]))
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
    @rule(operation=st.one_of(drawing.lists, drawing.queries))
    def see_the_same_from_elsewhere(self, operation: SearchItems) -> None:
        """Another store on the same data agrees, whatever it remembers."""
        assert self.peer is not None
        self._flush()
        quiet = operation._replace(refresh_ttl=False)
        if self._is_comparable(quiet):
            answer = asking.outcome(self.peer, lambda store: asking.search(store, quiet))
            self._agree(answer, asking.outcome(self.reference, lambda store: asking.search(store, quiet)))
        self.compare_content(self.peer)

    @precondition(lambda self: self.peer is not None)
    @rule()
    def go_on_elsewhere(self) -> None:
        """Let the two stores on the same data change places."""
        assert self.peer is not None
        self._flush()
        self.store, self.peer = self.peer, self.store

    @rule()
    def compare_everything(self) -> None:
        self.compare_content(self.store)

    def compare_content(self, store: Store) -> None:
        """Compare all items, their order by revision, and all namespaces with the reference."""
        found, wanted = (asking.everything(each) for each in (store, self.reference))
        check_same(facts(found, self.able), facts(wanted, self.able))
        order, expected = (asking.as_put(items) for items in (found, wanted))
        check_same(*([(item.namespace, item.key) for item in items] for items in (order, expected)))
        assert all(earlier.updated_at <= later.updated_at for earlier, later in pairwise(order))
        check_same(*(each.list_namespaces(limit=asking.EVERYTHING) for each in (store, self.reference)))

    def _both(self) -> tuple[Store, Store]:
        return self.store, self.reference

    def _compare(self, call: Callable[[Store], Any]) -> Any:
        answer = asking.outcome(self.store, call)
        self._agree(answer, asking.outcome(self.reference, call))
        return answer

    def check_hits(self, operation: SearchItems, answer: Any) -> None:
        """See that hits of a query are items which the rest of the search admits, the best first."""
        if operation.mode not in ("auto", "text"):
            assert isinstance(answer, StateroomError)
            return
        admitted = operation._replace(
            query=None, mode="auto", limit=asking.EVERYTHING, offset=0, explain=False
        )
        known = {(item.namespace, item.key): item.value for item in asking.search(self.reference, admitted)}
        assert len(answer) <= operation.limit
        assert len({(hit.namespace, hit.key) for hit in answer}) == len(answer)
        for hit in answer:
            check_same(hit.value, known[hit.namespace, hit.key])
        scores = [hit.score for hit in answer]
        assert scores == sorted(scores, reverse=True)
        assert min(scores, default=1.0) > 0

    def _is_comparable(self, operation: StoreOperation) -> bool:
        return Capability.ANALYSIS in self.able or not getattr(operation, "query", None)

    def _asked(self, operations: list[StoreOperation]) -> list[StoreOperation]:
        """Return what of a batch the store can be asked."""
        return [self._possible(each) for each in operations if self._is_comparable(each)]

    def _possible(self, operation: Asked) -> Asked:
        """Return an operation without what the store cannot do."""
        lacks = {
            "if_revision": (Capability.CONDITIONAL, None),
            "if_absent": (Capability.CONDITIONAL, False),
            "ttl": (Capability.TTL, None),
        }
        for name, (capability, nothing) in lacks.items():
            if capability not in self.able and name in getattr(operation, "_fields", ()):
                operation = operation._replace(**{name: nothing})
        return operation

    def _agree(self, answer: Any, expected: Any) -> None:
        check_same(facts(answer, self.able), facts(expected, self.able))
        self.newest = max([self.newest, *revisions_in(answer)])

    def _flush(self) -> None:
        """Have refreshed expiries written, as every write does: other stores cannot know them before."""
        self.store.delete(*ABSENT)
