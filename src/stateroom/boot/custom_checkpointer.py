"""Opens the checkpointer that an application brings along, instead of the storage's own."""

from __future__ import annotations

import logging
from contextlib import ExitStack

from stateroom.contract.storage import Storage
from stateroom.engine.custom_checkpoints import CustomSaver
from stateroom.engine.loops import Loops
from stateroom.errors import Misconfigured, NotSupported
from stateroom.model.thread import TTLStrategy
from stateroom.offload import Offload
from stateroom.savers.loading import open_saver
from stateroom.settings import Settings

__all__ = ["open_custom_saver"]

_log = logging.getLogger(__name__)


def open_custom_saver(
    settings: Settings, given: object, storage: Storage, offload: Offload, stack: ExitStack
) -> CustomSaver | None:
    """Return the checkpointer that is ``given`` or that the settings name, None for none.

    It lives on a loop of its own, on which nothing else runs; the stack closes it there.
    """
    field = "checkpointer.path" if given is None else "checkpointer"
    named = settings.checkpointer_path if given is None else given
    if named is None:
        return None
    if settings.serde is not None:
        raise Misconfigured(
            "checkpointer.serde has no effect beside a checkpointer of your own: give it to that one",
            field="checkpointer.serde",
        )
    loops = Loops(most=1, name="stateroom-checkpointer")
    stack.callback(loops.close)
    opening = open_saver(named, base=settings.base, field=field)
    saver = loops.submit(opening.__aenter__).result()
    stack.callback(lambda: loops.submit(lambda: opening.__aexit__(None, None, None)).result())
    custom = CustomSaver(saver, loops, storage, offload)
    _check_ttl(settings, custom)
    _log.warning(
        "checkpoints are kept by %s, outside of the server's storage: what the two do is no single"
        " transaction, so that a worker which loses its run may still land the write that it is at",
        type(saver).__name__,
    )
    return custom


def _check_ttl(settings: Settings, custom: CustomSaver) -> None:
    """Refuse threads that could never be pruned."""
    if settings.thread_ttl is None or settings.thread_ttl.strategy is not TTLStrategy.KEEP_LATEST:
        return
    try:
        custom.require("aprune")
    except NotSupported as error:
        field = "checkpointer.ttl.strategy"
        raise Misconfigured(f'{field} is keep_latest, and {error}; use "delete"', field=field) from error
