"""What every part of the suite stands on: opening the store under test, and asking it both ways."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import repeat
from typing import Any, Final, Protocol, TypeAlias

import pytest
from typing_extensions import override

from stateroom.clock import Clock, ManualClock, system_clock
from stateroom.contract.items import Capability
from stateroom.errors import StateroomError
from stateroom.model.item import KeyEntry
from stateroom.stores.base import Store
from stateroom.stores.items import Item, SearchItem
from stateroom.stores.operations import StoreOperation

__all__ = ["MEET", "Async", "Call", "Harness", "Memory", "Opened", "Opens", "Script", "Sync", "ask"]


class Opened(Protocol):
    """What the fixture ``open_store`` returns: a function that opens the storage of the running test.

    The storage is empty when it is opened first. Opened again it is the same storage if the store is
    ``DURABLE``, beside the first opening if it is ``MULTI_PROCESS``, and otherwise a new, empty one. The
    options mean what they mean to every store; the suite closes what it has opened.
    """

    def __call__(
        self,
        *,
        index: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        index_keys: Sequence[str] = (),
        clock: Clock = system_clock,
    ) -> Store:
        """Open the storage."""


Call: TypeAlias = tuple[str, tuple[Any, ...], dict[str, Any]]
"""The name of a method (of the sync one), and its arguments."""

Script: TypeAlias = Generator[Call, Any, Any]
"""A caller of its own: it yields calls, is sent their results, and is thrown their errors."""


MEET: Final[Call] = "", (), {}
"""What a script yields to wait until every other one that runs beside it has come to its own ``MEET``."""

MEETING_SECONDS: Final = 30.0
"""How long threads wait for each other; longer means that one of them has failed."""


def ask(method: str, /, *args: Any, **options: Any) -> Call:
    """Return a call for a script to yield."""
    return method, args, options


class Memory(ABC):
    """A store with one set of methods, which are its sync methods or its async ones."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the store can do."""
        return self.store.capabilities

    @abstractmethod
    def call(self, method: str, /, *args: Any, **options: Any) -> Any:
        """Call one method and return its result."""

    @abstractmethod
    def together(self, scripts: Sequence[Script]) -> list[Any]:
        """Run callers at the same time; return what each returned, or the exception that ended it."""

    def put(self, *args: Any, **options: Any) -> None:
        """Do what ``Store.put`` does."""
        self.call("put", *args, **options)

    def put_item(self, *args: Any, **options: Any) -> Item:
        """Do what ``Store.put_item`` does."""
        item: Item = self.call("put_item", *args, **options)
        return item

    def get(self, *args: Any, **options: Any) -> Item | None:
        """Do what ``Store.get`` does."""
        item: Item | None = self.call("get", *args, **options)
        return item

    def read(self, *args: Any, **options: Any) -> Item:
        """Do what ``get`` does, for an item that must be there."""
        item = self.get(*args, **options)
        assert item is not None, f"there is no item {args}"
        return item

    def delete(self, *args: Any, **options: Any) -> None:
        """Do what ``Store.delete`` does."""
        self.call("delete", *args, **options)

    def search(self, *args: Any, **options: Any) -> list[SearchItem]:
        """Do what ``Store.search`` does."""
        found: list[SearchItem] = self.call("search", *args, **options)
        return found

    def keys(self, *args: Any, **options: Any) -> list[str]:
        """Return the keys of what ``search`` finds, in its order."""
        return [item.key for item in self.search(*args, **options)]

    def count(self, *args: Any, **options: Any) -> int:
        """Do what ``Store.count`` does."""
        number: int = self.call("count", *args, **options)
        return number

    def list_keys(self, *args: Any, **options: Any) -> list[KeyEntry]:
        """Do what ``Store.list_keys`` does."""
        entries: list[KeyEntry] = self.call("list_keys", *args, **options)
        return entries

    def listed(self, *args: Any, **options: Any) -> list[str]:
        """Return the keys of what ``list_keys`` lists, in its order."""
        return [entry.key for entry in self.list_keys(*args, **options)]

    def list_namespaces(self, **options: Any) -> list[tuple[str, ...]]:
        """Do what ``Store.list_namespaces`` does."""
        found: list[tuple[str, ...]] = self.call("list_namespaces", **options)
        return found

    def batch(self, operations: Sequence[StoreOperation]) -> list[Any]:
        """Do what ``Store.batch`` does."""
        results: list[Any] = self.call("batch", operations)
        return results

    def sweep_ttl(self) -> int:
        """Do what ``Store.sweep_ttl`` does."""
        number: int = self.call("sweep_ttl")
        return number

    def close(self) -> None:
        """Do what ``Store.close`` does."""
        self.call("close")


class Sync(Memory):
    """The sync methods; callers that run together have a thread each."""

    @override
    def call(self, method: str, /, *args: Any, **options: Any) -> Any:
        return getattr(self.store, method)(*args, **options)

    @override
    def together(self, scripts: Sequence[Script]) -> list[Any]:
        barrier = threading.Barrier(len(scripts), timeout=MEETING_SECONDS)
        with ThreadPoolExecutor(len(scripts)) as threads:
            return list(threads.map(self._outcome, scripts, repeat(barrier)))

    def _outcome(self, script: Script, barrier: threading.Barrier) -> Any:
        try:
            method, args, options = next(script)
            while True:
                try:
                    meets = method == MEET[0]
                    result = barrier.wait() if meets else self.call(method, *args, **options)
                except StateroomError as error:
                    method, args, options = script.throw(error)
                else:
                    method, args, options = script.send(result)
        except StopIteration as end:
            return end.value
        except StateroomError as error:
            return error


class Async(Memory):
    """The async methods; callers that run together have a task each on one event loop."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(store)
        self._loop = loop

    @override
    def call(self, method: str, /, *args: Any, **options: Any) -> Any:
        return self._loop.run_until_complete(self._call(method, *args, **options))

    @override
    def together(self, scripts: Sequence[Script]) -> list[Any]:
        async def gathered() -> list[Any]:
            barrier = asyncio.Barrier(len(scripts))
            return await asyncio.gather(*(self._outcome(script, barrier) for script in scripts))

        return self._loop.run_until_complete(gathered())

    async def _call(self, method: str, /, *args: Any, **options: Any) -> Any:
        return await getattr(self.store, f"a{method}")(*args, **options)

    async def _outcome(self, script: Script, barrier: asyncio.Barrier) -> Any:
        try:
            method, args, options = next(script)
            while True:
                try:
                    meets = method == MEET[0]
                    result = await (barrier.wait() if meets else self._call(method, *args, **options))
                except StateroomError as error:
                    method, args, options = script.throw(error)
                else:
                    method, args, options = script.send(result)
        except StopIteration as end:
            return end.value
        except StateroomError as error:
            return error


class Opens:
    """Opens the store under test with options, as often as a test likes, in one of the two ways."""

    def __init__(self, opened: Opened, make: Callable[[Store], Memory], closing: ExitStack) -> None:
        self._opened = opened
        self._make = make
        self._closing = closing

    def __call__(self, **options: Any) -> Memory:
        """Open the store; the end of the test closes it."""
        memory = self._make(self._opened(**options))
        self._closing.callback(memory.close)
        return memory

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """What the store under test can do."""
        store = self._opened()
        store.close()
        return store.capabilities


class Harness:
    """The fixtures of the suite."""

    @pytest.fixture
    def open_store(self) -> Opened:
        """Return a function that opens the store under test; every subclass has one of its own."""
        raise NotImplementedError(
            f"{type(self).__name__} needs a fixture open_store, which returns a function from options "
            "(index, ttl, index_keys, clock) to a store"
        )

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the clock that the store under test reads."""
        return ManualClock()

    @pytest.fixture(params=["sync", "async"])
    def opens(
        self, request: pytest.FixtureRequest, open_store: Opened, clock: ManualClock
    ) -> Iterator[Opens]:
        """Return what opens the store under test with options."""

        def opened(**options: Any) -> Store:
            return open_store(**({"clock": clock} | options))

        with ExitStack() as closing:
            make: Callable[[Store], Memory] = Sync
            if request.param == "async":
                # Not through the runner's own `run`, which spells out every result.
                loop = closing.enter_context(asyncio.Runner()).get_loop()
                make = partial(Async, loop=loop)
            yield Opens(opened, make, closing)

    @pytest.fixture
    def memory(self, opens: Opens) -> Memory:
        """Return the store under test without any option: text search alone, no default time to live."""
        return opens()
