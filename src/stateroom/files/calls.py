"""Operations that are put together from other backends' operations, written once for sync and async callers.

An operation is a generator. It yields calls that do not depend on each other, and is sent their answers.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from stateroom.errors import Misconfigured
from stateroom.files.protocol import BackendProtocol, LsResult
from stateroom.model.text import show

__all__ = [
    "Call",
    "Calls",
    "acall",
    "call",
    "check_backend",
    "lacks",
    "result_of",
    "takes",
    "unsupported",
]

T = TypeVar("T")

_NOUNS: Final = {
    "delete": "deletion",
    "download_files": "downloading",
    "edit": "editing",
    "glob": "glob",
    "grep": "grep",
    "ls": "listing",
    "read": "reading",
    "upload_files": "uploading",
    "write": "writing",
}


class Call(NamedTuple):
    """One method of a backend, and what it is called with. Its name is that of the sync form."""

    backend: Any
    method: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012  # never changed


Calls: TypeAlias = Generator[list[Call], list[Any], T]
"""A call whose method the backend does not offer is answered with ``NotImplemented``."""


def lacks(backend: Any, method: str) -> bool:
    """Tell whether a backend has no such method at all."""
    return not callable(getattr(backend, method, None))


def takes(backend: Any, method: str, option: str) -> bool:
    """Tell whether a method of somebody else's, sync and async, has an option that older ones lack."""
    forms = (getattr(backend, name, None) for name in (method, f"a{method}"))
    return all(_takes(form, option) for form in forms if form is not None)


def _takes(form: Any, option: str) -> bool:
    try:
        parameters = inspect.signature(form).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(one.name == option or one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


def unsupported(method: str, path: str) -> str:
    """Return the error for a method that the backend of a path does not offer."""
    return f"Error: {_NOUNS.get(method, method)} is not supported for '{path}'."


def result_of(kind: type[T], answer: Any, method: str, path: str) -> T:
    """Return an answer as a result: older backends answered with lists, and with texts for errors."""
    if answer is NotImplemented:
        return kind(error=unsupported(method, path))  # type: ignore[call-arg]  # every result has one
    if isinstance(answer, str):
        return kind(error=answer)  # type: ignore[call-arg]
    if isinstance(answer, list):
        return kind(**{"entries" if kind is LsResult else "matches": answer})
    return cast(T, answer)


def check_backend(backend: Any, field: str) -> None:
    """Raise Misconfigured for what is no backend, as a function that makes one."""
    if isinstance(backend, type) or not _is_backend(backend):
        made = "makes a backend" if callable(backend) else "is no backend"
        raise Misconfigured(
            f"{field} is {show(backend)}, which {made}; pass the backend itself, as StateBackend(). It finds "
            "the graph that is running by itself",
            field=field,
        )


def _is_backend(backend: Any) -> bool:
    """Tell whether something has the methods that every backend has, whatever protocol it derives from."""
    return isinstance(backend, BackendProtocol) or all(
        callable(getattr(backend, method, None)) for method in ("ls", "read", "write")
    )


def call(operation: Calls[T]) -> T:
    """Do an operation, one call after the other."""
    try:
        asked = next(operation)
        while True:
            asked = operation.send([_answer(one) for one in asked])
    except StopIteration as end:
        return cast(T, end.value)


async def acall(operation: Calls[T]) -> T:
    """Do an operation as ``call`` does; calls that are yielded together run together."""
    try:
        asked = next(operation)
        while True:
            asked = operation.send(await _answers(asked))
    except StopIteration as end:
        return cast(T, end.value)


def _answer(one: Call) -> Any:
    if lacks(one.backend, one.method):
        return NotImplemented
    try:
        return getattr(one.backend, one.method)(*one.args, **one.options)
    except NotImplementedError:
        return NotImplemented


async def _answers(asked: list[Call]) -> list[Any]:
    if len(asked) == 1:
        return [await _aanswer(asked[0])]
    return await asyncio.gather(*map(_aanswer, asked))


async def _aanswer(one: Call) -> Any:
    """Return the answer of the async form, or of the sync one in a thread if there is no other."""
    if lacks(one.backend, f"a{one.method}"):
        return await asyncio.to_thread(_answer, one)
    try:
        return await getattr(one.backend, f"a{one.method}")(*one.args, **one.options)
    except NotImplementedError:
        return NotImplemented
