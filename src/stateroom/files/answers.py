"""The line between what is answered, since an agent did it wrong, and what is raised."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from stateroom.errors import Conflict, InvalidInput, InvalidNamespace, LimitExceeded, NotSupported
from stateroom.files.text import EditRefused

__all__ = ["Refused", "answering", "message"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
Y = TypeVar("Y")


class Refused(Exception):
    """An operation on files cannot be done as it was asked; the message says why."""


_ANSWERED: Final = (Conflict, EditRefused, InvalidInput, LimitExceeded, NotSupported, Refused)


def message(error: Exception) -> str:
    """Return what an agent is told of an error; raise it again if it is none of an agent's."""
    if isinstance(error, InvalidNamespace) or not isinstance(error, _ANSWERED):
        raise error
    return f"Error: {error}"


def answering(
    result: Callable[..., R],
) -> Callable[[Callable[P, Generator[Y, S, R]]], Callable[P, Generator[Y, S, R]]]:
    """Make an operation, which is a generator, answer ``result(error=...)`` for an error of an agent's."""

    def decorate(operation: Callable[P, Generator[Y, S, R]]) -> Callable[P, Generator[Y, S, R]]:
        @wraps(operation)
        def answered(*args: P.args, **kwargs: P.kwargs) -> Generator[Y, S, R]:
            try:
                return (yield from operation(*args, **kwargs))
            except _ANSWERED as error:
                return result(error=message(error))

        return answered

    return decorate
