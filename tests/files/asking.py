"""Calling a backend's methods in their sync and their async form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

__all__ = ["FORMS", "Ask"]

Ask: TypeAlias = Callable[..., Awaitable[Any]]
"""Called with a backend, the name of a method, and what it is called with."""


async def ask_sync(backend: Any, method: str, *args: Any, **options: Any) -> Any:
    return getattr(backend, method)(*args, **options)


async def ask_async(backend: Any, method: str, *args: Any, **options: Any) -> Any:
    return await getattr(backend, f"a{method}")(*args, **options)


FORMS = {"sync": ask_sync, "async": ask_async}
