"""Sync and async forms that belong together, also where somebody derives from a backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from typing_extensions import override

from stateroom.files.protocol import BackendProtocol

__all__ = ["OPERATIONS", "PairedBackend"]

OPERATIONS: Final = (
    "ls",
    "read",
    "write",
    "edit",
    "multi_edit",
    "delete",
    "glob",
    "grep",
    "upload_files",
    "download_files",
    "search",
    "prune",
    "usage",
)
"""What a backend does; each has an async form, whose name begins with an ``a``."""


class PairedBackend(BackendProtocol):
    """A backend with async forms of its own.

    Who derives from it and replaces a sync method alone, as one may with Deep Agents' backends, has replaced
    the async form too: it runs the sync one in a thread.
    """

    @override
    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in OPERATIONS:
            if name in vars(cls) and f"a{name}" not in vars(cls):
                setattr(cls, f"a{name}", _in_thread(name, vars(cls)[name]))


def _in_thread(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def twin(self: PairedBackend, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **options)

    return twin
