"""Items over a store that somebody else has written: any ``BaseStore`` of LangGraph's."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Literal

from langgraph.store.base import GetOp, InvalidNamespaceError, Op, PutOp
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom.contract.items import (
    Capability,
    Count,
    Delete,
    Get,
    Items,
    ListKeys,
    ListNamespaces,
    Operation,
    Outcome,
    Put,
    Result,
    Search,
)
from stateroom.errors import (
    InvalidNamespace,
    LimitExceeded,
    Misconfigured,
    NotSupported,
    StateroomError,
    Unavailable,
)
from stateroom.model.json_values import decode_value
from stateroom.model.namespace import Namespace
from stateroom.search.index_config import IndexSettings
from stateroom.stores.foreign_finding import Finding, Plan
from stateroom.stores.foreign_rows import Address, record_of
from stateroom.stores.plans import acarry_out, carry_out

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BlindPut", "ForeignItems", "translated"]

_TOO_LARGE: Final = "54"
"""The class of the SQLSTATEs with which databases refuse what will never fit."""


class BlindPut(Put):
    """A ``Put`` whose answer nobody looks at, which spares the foreign store a read: the answer is None."""

    __slots__ = ()


class ForeignItems(Items):
    """Gets, puts and deletes go straight through; searches read all candidates and start over from there.

    ``settings`` say how texts are analysed; whatever is embedded is embedded by the store itself, which
    also rules the times and expires items. Revisions are 0: there are none. An error of the store
    becomes one of ours where it is clear which, and otherwise passes through with a note.
    """

    def __init__(self, store: Any, settings: IndexSettings) -> None:
        self._store = store
        # LangGraph's store in process is not made for threads, and one operation of it costs nothing.
        self._is_local = isinstance(store, LangGraphInMemoryStore)
        supports_ttl = bool(getattr(store, "supports_ttl", False))
        optional = {
            Capability.TTL: supports_ttl,
            Capability.VECTOR: bool(getattr(store, "index_config", None)),
            Capability.KEY_ORDER: self._is_local,
            Capability.FULL_LIMITS: self._is_local,
        }
        self.capabilities = frozenset(
            {Capability.TEXT, Capability.ANALYSIS} | {each for each, there in optional.items() if there}
        )
        self._finding = Finding(settings, refreshes=supports_ttl)
        self._lock: AbstractContextManager[Any] = threading.RLock() if self._is_local else nullcontext()
        self._is_async = True
        self._home: asyncio.AbstractEventLoop | None = None

    @override
    def open(self) -> None:
        if self._has_async("setup"):
            raise NotSupported("this store sets itself up asynchronously: await asetup()")
        self._own("setup")

    async def aopen(self) -> None:
        """Do ``open`` without blocking the event loop."""
        if self._has_async("setup"):
            await self._store.setup()
        else:
            await asyncio.to_thread(self.open)

    @override
    def close(self) -> None:
        """Do nothing: whoever has opened the foreign store closes it."""

    @override
    def apply(self, operations: Sequence[Operation]) -> list[Result]:
        (outcome,) = self.apply_each([operations])
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    @override
    def apply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        return [self._outcome(batch) for batch in batches]

    @override
    async def aapply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        self._home = asyncio.get_running_loop()
        if self._is_local and Capability.VECTOR not in self.capabilities:
            return self.apply_each(batches)
        last: dict[Address, asyncio.Task[Outcome]] = {}
        tasks = []
        for batch in batches:
            # Callers who write to one item, or read what was just written, come in their order.
            before = {last[address] for address in _addresses(batch, Put | Delete | Get) if address in last}
            tasks.append(asyncio.create_task(self._aoutcome(batch, before)))
            last.update(dict.fromkeys(_addresses(batch, Put | Delete), tasks[-1]))
        return await asyncio.gather(*tasks)

    @override
    def vectors(self, namespace: Namespace, key: str) -> dict[bytes, NDArray[np.float32]]:
        return {}

    @override
    def sweep(self, limit: int) -> int:
        """Have the store sweep, which frees all that has expired, however small ``limit`` is."""
        if not self._has_async("sweep_ttl"):
            return self._own("sweep_ttl") or 0
        if self._home is None or not self._home.is_running() or self._home is _running_loop():
            raise NotSupported("this store sweeps asynchronously: await asweep_ttl()")
        return asyncio.run_coroutine_threadsafe(self.asweep(), self._home).result()

    async def asweep(self) -> int:
        """Do ``sweep`` without blocking the event loop."""
        if not self._has_async("sweep_ttl"):
            return await asyncio.to_thread(self.sweep, 0)
        try:
            return int(await self._store.sweep_ttl())
        except Exception as error:
            raise translated(error) from error

    def _has_async(self, method: str) -> bool:
        return inspect.iscoroutinefunction(getattr(self._store, method, None))

    def _own(self, method: str) -> Any:
        """Call a method that only some stores have."""
        try:
            return getattr(self._store, method, lambda: None)()
        except Exception as error:
            raise translated(error) from error

    def _outcome(self, batch: Sequence[Operation]) -> Outcome:
        try:
            return carry_out(self._batch, self._plan(batch))
        except Exception as error:
            return _failed(error)

    async def _aoutcome(self, batch: Sequence[Operation], before: set[asyncio.Task[Outcome]]) -> Outcome:
        if before:
            await asyncio.wait(before)
        try:
            return await acarry_out(self._abatch, self._plan(batch))
        except Exception as error:
            return _failed(error)

    def _batch(self, asked: list[Op]) -> list[Any]:
        with self._lock:
            return _complete(self._store.batch(asked), asked)

    async def _abatch(self, asked: list[Op]) -> list[Any]:
        if self._is_async:
            try:
                return _complete(await self._store.abatch(asked), asked)
            except NotImplementedError:
                # Some stores have nothing but sync methods; should these refuse as well, they say why.
                results = await asyncio.to_thread(self._batch, asked)
                self._is_async = False
                return results
        return await asyncio.to_thread(self._batch, asked)

    def _plan(self, batch: Sequence[Operation]) -> Plan[list[Result]]:
        """Apply a batch in order, so that later operations see earlier ones; it stops where one fails."""
        results: list[Result] = []
        for run in _runs(batch, singly=self._is_local):
            first = run[0]
            if isinstance(first, Put | Delete):
                results += yield from _write(run)
            elif isinstance(first, Get):
                results += yield from _read(run)
            elif isinstance(first, Search):
                results.append((yield from self._finding.search(first)))
            elif isinstance(first, Count):
                results.append((yield from self._finding.count(first)))
            elif isinstance(first, ListKeys):
                results.append((yield from self._finding.keys(first)))
            else:
                assert isinstance(first, ListNamespaces)
                results.append((yield from self._finding.namespaces(first)))
        return results


def translated(error: Exception) -> Exception:
    """Return a foreign error as one of ours, or itself with a note where it is none of these."""
    if isinstance(error, StateroomError):
        return error
    if isinstance(error, InvalidNamespaceError):
        return InvalidNamespace(f"namespace: the store refuses it: {error}", field="namespace")
    if isinstance(error, NotImplementedError):
        return NotSupported(f"the store does not support this: {error or 'it gives no reason'}")
    if isinstance(error, asyncio.InvalidStateError):
        return NotSupported(f"the store refuses sync calls on its own event loop; await instead: {error}")
    if str(getattr(error, "sqlstate", None) or "").startswith(_TOO_LARGE):
        return LimitExceeded(f"the store cannot hold it: {type(error).__name__}: {error}")
    if _is_unreachable(error):
        return Unavailable(f"the store cannot be reached: {type(error).__name__}: {error}")
    error.add_note("This comes from the store that was given to from_base_store.")
    return error


def _is_unreachable(error: Exception) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    # Every Python database driver has errors of these names (PEP 249), and no common base for them.
    names = {kind.__name__ for kind in type(error).__mro__}
    return not names.isdisjoint({"OperationalError", "InterfaceError"})


def _failed(error: Exception) -> Outcome:
    """Return the outcome of a batch that failed; a foreign error in its place reaches the caller as well."""
    ours = translated(error)
    if ours is not error:
        ours.__cause__ = error
    return ours  # type: ignore[return-value]  # whoever takes outcomes raises whatever exception they are


def _complete(results: Any, asked: Sequence[Op]) -> list[Any]:
    answered = list(results)
    if len(answered) != len(asked):
        raise Misconfigured(
            f"store: it gave {len(answered)} results for {len(asked)} operations; its batch and abatch must "
            "give one for each",
            field="store",
        )
    return answered


def _runs(batch: Sequence[Operation], *, singly: bool) -> Iterator[list[Operation]]:
    """Cut a batch into runs that the store may take at once: gets, and writes of different items.

    A foreign store may read before it writes, and keep only the last of several writes of one item.
    Put ``singly``, two items never have one time.
    """
    run: list[Operation] = []
    written: set[Address] = set()
    for operation in batch:
        is_write = isinstance(operation, Put | Delete)
        address = (operation.namespace, operation.key) if isinstance(operation, Put | Delete | Get) else None
        fits = (
            bool(run)
            and address is not None
            and isinstance(run[-1], Get) != is_write
            and isinstance(run[-1], Put | Delete | Get)
            and not (singly and isinstance(operation, Put))
            and not (is_write and address in written)
        )
        if run and not fits:
            yield run
            run, written = [], set()
        run.append(operation)
        if is_write and address is not None:
            written.add(address)
    if run:
        yield run


def _addresses(batch: Sequence[Operation], kinds: Any) -> set[Address]:
    return {(operation.namespace, operation.key) for operation in batch if isinstance(operation, kinds)}


def _write(run: Sequence[Operation]) -> Plan[list[Result]]:
    writes = [operation for operation in run if isinstance(operation, Put | Delete)]
    yield [_written(operation) for operation in writes]
    asked = [operation for operation in writes if type(operation) is Put]
    found = iter((yield from _read([Get(put.namespace, put.key) for put in asked])) if asked else [])
    answers: list[Result] = [next(found) if type(operation) is Put else None for operation in writes]
    for operation, answer in zip(writes, answers, strict=True):
        if answer is None and type(operation) is Put:
            raise Unavailable(
                f"key {operation.key!r} in {operation.namespace!r} was put, and gone before it could be read "
                "back: somebody has deleted it, or its ttl is too short"
            )
    return answers


def _written(operation: Put | Delete) -> Op:
    if isinstance(operation, Delete):
        return PutOp(operation.namespace, operation.key, None)
    index: Literal[False] | list[str] | None = None
    if operation.paths is not None:
        index = list(operation.paths) or False
    return PutOp(operation.namespace, operation.key, decode_value(operation.raw), index, operation.ttl)


def _read(run: Sequence[Operation]) -> Plan[list[Result]]:
    gets = [operation for operation in run if isinstance(operation, Get)]
    items = yield [GetOp(get.namespace, get.key, get.refresh) for get in gets]
    return [
        None if item is None else record_of(item, get.namespace, get.key)
        for get, item in zip(gets, items, strict=True)
    ]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
