"""Opening the checkpointer that ``checkpointer.path`` of a ``langgraph.json`` names, or that is passed."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from stateroom.errors import Misconfigured
from stateroom.importing import entered, load_named
from stateroom.model.text import show

__all__ = ["lacks", "open_saver"]

_NEEDED: Final = ("aget_tuple", "alist", "aput", "aput_writes", "adelete_thread")
"""The methods without which no thread can be served, or deleted."""

_FORMS = (
    "a BaseCheckpointSaver, an (async) context manager that yields one, or a function that returns either"
)

_FIX = (
    "name one with async methods: AsyncSqliteSaver or AsyncPostgresSaver of LangGraph, or Stateroom's"
    " SqliteSaver or PostgresSaver"
)

_NOBODY: Final[RunnableConfig] = {"configurable": {"thread_id": "stateroom-start", "checkpoint_ns": ""}}

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_saver(named: object, *, base: Path, field: str) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """Open a checkpointer, on the loop that it is used on; close it in the end if it was opened here.

    ``named`` is ``"./file.py:name"``, from the folder ``base``, or ``"package.module:name"``, or what such a
    name stands for: a ``BaseCheckpointSaver``, an (async) context manager that yields one, or a function
    without arguments that returns either. Its tables are made.

    Raises ``Misconfigured``, which names the file, the attribute and the fix, for anything else, and for one
    that cannot be asked asynchronously.
    """
    is_text = isinstance(named, str)
    name = f"{field} {named!r}" if is_text else f"{field} {show(named)}"
    async with AsyncExitStack() as stack:
        found = load_named(str(named), base=base, field=field) if is_text else named
        saver = await entered(found, stack, is_open=_is_open, name=name, forms=_FORMS, field=field)
        if not _is_open(saver):
            raise Misconfigured(f"{name} gives {show(saver)}; make it {_FORMS}", field=field)
        if is_text and saver is found and callable(close := getattr(saver, "close", None)):
            # Nobody else looks after what the file holds ready.
            stack.callback(close)
        _check(saver, name, field)
        await _try(saver, name, field)
        _log.info("%s: %s", name, type(saver).__name__)
        yield saver


def lacks(saver: BaseCheckpointSaver[Any], method: str) -> bool:
    """Tell whether a checkpointer has of a method only what says that it is missing."""
    own = getattr(type(saver), method, None)
    return own is None or own is getattr(BaseCheckpointSaver, method, None)


def _check(saver: BaseCheckpointSaver[Any], name: str, field: str) -> None:
    """Refuse a checkpointer whose methods are not all there, or that belongs to another loop."""
    missing = [method for method in _NEEDED if lacks(saver, method)]
    if missing:
        raise Misconfigured(
            f"{name} is a {type(saver).__name__}, which has no {', '.join(missing)}; {_FIX}", field=field
        )
    loop = getattr(saver, "loop", None)
    if isinstance(loop, asyncio.AbstractEventLoop) and loop is not asyncio.get_running_loop():
        raise Misconfigured(
            f"{name} belongs to the event loop that it was made on, and the server asks it on one of its own;"
            " name the function or context manager that makes it",
            field=field,
        )


async def _try(saver: BaseCheckpointSaver[Any], name: str, field: str) -> None:
    """Make a checkpointer's tables, and ask it for what nobody has."""
    try:
        setup = getattr(saver, "asetup", None) or getattr(saver, "setup", None)
        if callable(setup) and inspect.isawaitable(made := setup()):
            await made
        await saver.aget_tuple(_NOBODY)
        async for _ in saver.alist(_NOBODY, limit=1):
            pass
    except NotImplementedError as error:
        raise Misconfigured(
            f"{name} is a {type(saver).__name__}, which cannot be asked asynchronously; {_FIX}", field=field
        ) from error
    except Exception as error:  # whatever its database says
        raise Misconfigured(f"{name} cannot be read: {type(error).__name__}: {error}", field=field) from error


def _is_open(found: object) -> bool:
    return isinstance(found, BaseCheckpointSaver)
