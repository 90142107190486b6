"""Opening the store that the ``store`` section of a ``langgraph.json`` names."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore

from stateroom.contract.items import Items
from stateroom.errors import Misconfigured
from stateroom.importing import entered, load_named
from stateroom.model.text import show
from stateroom.stores.base import Store
from stateroom.stores.foreign import from_base_store

__all__ = ["open_named_store"]

_log = logging.getLogger(__name__)

_FORMS = "a BaseStore, an (async) context manager that yields one, or a function that returns either"


@asynccontextmanager
async def open_named_store(section: Mapping[str, Any], *, base: Path) -> AsyncIterator[Store]:
    """Open the store that ``section`` names, and close it in the end if it was opened here.

    ``section`` is the ``store`` section of a ``langgraph.json`` in the folder ``base``. Its ``path``
    (``"./file.py:name"`` or ``"package.module:name"``) names what LangGraph's own server takes: a
    ``BaseStore``, an async context manager that yields one, or a function without arguments that
    returns either. Its ``adapter`` may also name an ``Items`` driver. ``ttl`` is for
    ``from_base_store``, which is also applied to whatever is no Stateroom store.

    Raises ``Misconfigured``, which names the file, the attribute and the fix, for anything else.
    """
    setting, reference = _reference(section)
    field = f"store.{setting}"
    async with AsyncExitStack() as stack:
        found = load_named(reference, base=base, field=field)
        name = f"{field} {reference!r}"
        named = await entered(found, stack, is_open=_is_open, name=name, forms=_FORMS, field=field)
        if not _is_open(named):
            raise Misconfigured(f"{name} gives {show(named)}; make it {_FORMS}", field=field)
        if setting == "path" and isinstance(named, Items):
            raise Misconfigured(
                f"{field} {reference!r} is an Items driver; name it by store.adapter", field=field
            )
        try:
            store = from_base_store(named, ttl=section.get("ttl"))
        except Misconfigured as error:
            raise Misconfigured(f"{field} {reference!r}: {error}", field=f"store.{error.field}") from error
        if named is found:
            # Nobody else looks after what the file holds ready; a foreign store is closed by who made it.
            stack.push_async_callback(store.aclose)
        await store.asetup()
        _log.info("%s %r: %s as %s", field, reference, type(named).__name__, type(store).__name__)
        yield store


def _reference(section: Mapping[str, Any]) -> tuple[str, str]:
    """Return which of the two settings names a store, and what it says."""
    given = [setting for setting in ("path", "adapter") if section.get(setting) is not None]
    if len(given) != 1:
        raise Misconfigured(
            "store names its store by one of path and adapter" + ("; remove one" if given else ""),
            field="store",
        )
    (setting,) = given
    if section.get("index") is not None:
        raise Misconfigured(
            f"store.index has no effect beside store.{setting}: give the index to the store that it names",
            field="store.index",
        )
    reference = section[setting]
    if not isinstance(reference, str):
        raise Misconfigured(
            f'store.{setting} is {show(reference)}; write "./file.py:name"', field=f"store.{setting}"
        )
    return setting, reference


def _is_open(found: object) -> bool:
    return isinstance(found, BaseStore | Items)
