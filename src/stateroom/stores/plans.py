"""Carrying out plans: generators, written once for sync and async callers, that yield what to ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar, cast

__all__ = ["acarry_out", "carry_out"]

A = TypeVar("A")
T = TypeVar("T")


def carry_out(ask: Callable[[list[A]], list[Any]], plan: Generator[list[A], list[Any], T]) -> T:
    """Take a plan to its end; an error of ``ask`` is raised in the plan, where the question was yielded."""
    try:
        asked = next(plan)
        while True:
            try:
                results = ask(asked)
            except Exception as error:
                asked = plan.throw(error)
            else:
                asked = plan.send(results)
    except StopIteration as end:
        return cast(T, end.value)


async def acarry_out(
    ask: Callable[[list[A]], Awaitable[list[Any]]], plan: Generator[list[A], list[Any], T]
) -> T:
    """Take a plan to its end as ``carry_out`` does."""
    try:
        asked = next(plan)
        while True:
            try:
                results = await ask(asked)
            except Exception as error:
                asked = plan.throw(error)
            else:
                asked = plan.send(results)
    except StopIteration as end:
        return cast(T, end.value)
