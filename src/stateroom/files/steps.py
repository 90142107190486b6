"""Operations on files as steps: generators that yield store operations and are sent their results.

The same lines so serve sync and async callers, files in a store and files in a graph's state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar, cast

from stateroom.errors import StateroomError
from stateroom.stores.operations import StoreOperation

__all__ = ["AsyncBatch", "Batch", "Steps", "arun", "run"]

T = TypeVar("T")

Steps: TypeAlias = Generator[list[StoreOperation], list[Any], T]
Batch: TypeAlias = Callable[[list[StoreOperation]], list[Any]]
AsyncBatch: TypeAlias = Callable[[list[StoreOperation]], Awaitable[list[Any]]]


def run(batch: Batch, steps: Steps[T]) -> T:
    """Take steps to their end; an error of a batch is raised where the step was asked."""
    try:
        asked = next(steps)
        while True:
            try:
                results = batch(asked)
            except StateroomError as error:
                asked = steps.throw(error)
            else:
                asked = steps.send(results)
    except StopIteration as end:
        return cast(T, end.value)


async def arun(batch: AsyncBatch, steps: Steps[T]) -> T:
    """Take steps to their end as ``run`` does."""
    try:
        asked = next(steps)
        while True:
            try:
                results = await batch(asked)
            except StateroomError as error:
                asked = steps.throw(error)
            else:
                asked = steps.send(results)
    except StopIteration as end:
        return cast(T, end.value)
