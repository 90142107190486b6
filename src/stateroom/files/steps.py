"""Operations on files as steps: generators that yield store operations and are sent their results.

The same lines so serve sync and async callers, files in a store and files in a graph's state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar

from stateroom.stores.operations import StoreOperation

__all__ = ["AsyncBatch", "Batch", "Steps"]

T = TypeVar("T")

Steps: TypeAlias = Generator[list[StoreOperation], list[Any], T]
Batch: TypeAlias = Callable[[list[StoreOperation]], list[Any]]
AsyncBatch: TypeAlias = Callable[[list[StoreOperation]], Awaitable[list[Any]]]
