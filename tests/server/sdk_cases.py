"""What shows that a method of the SDK works: the cases, and what they make."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.server.sdk import Sdk

__all__ = ["CASES", "HELLO", "case", "new_assistant", "new_thread"]

Case = Callable[[Sdk], Awaitable[None]]

HELLO: Final = {"messages": [{"role": "user", "content": "hi"}]}

CASES: dict[str, Case] = {}
"""A case for each method."""


def case(method: str) -> Callable[[Case], Case]:
    """Note what shows that a method works."""

    def noted(show: Case) -> Case:
        CASES[method] = show
        return show

    return noted


async def new_thread(sdk: Sdk, **options: Any) -> str:
    found: str = (await sdk("threads.create", **options))["thread_id"]
    return found


async def new_assistant(sdk: Sdk, **options: Any) -> str:
    found: str = (await sdk("assistants.create", "echo", **options))["assistant_id"]
    return found
