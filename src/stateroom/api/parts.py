"""What the HTTP side is made of: everything that a route may call, in one frozen value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends
from starlette.requests import HTTPConnection

if TYPE_CHECKING:
    from langgraph_sdk import Auth

    from stateroom.contract.storage import Storage
    from stateroom.engine.following import Followers
    from stateroom.engine.graphs import Graphs
    from stateroom.engine.loops import Loops
    from stateroom.engine.states import States
    from stateroom.engine.thread_following import ThreadFollowers
    from stateroom.ids import IdSource
    from stateroom.offload import Offload
    from stateroom.service.assistants import AssistantService
    from stateroom.service.crons import CronService
    from stateroom.service.runs import RunService
    from stateroom.service.threads import ThreadService
    from stateroom.settings import Settings

__all__ = ["Parts", "PartsDep", "parts_of"]


@dataclass(frozen=True)
class Parts:
    """The parts of one server, opened and joined by ``boot``.

    ``store`` is a Stateroom store, see ``stateroom.api.memory``. ``begin`` starts the workers, once however
    often it is called. ``version`` is Stateroom's.
    """

    settings: Settings
    storage: Storage
    store: Any
    offload: Offload
    loops: Loops
    graphs: Graphs
    ids: IdSource
    assistants: AssistantService
    threads: ThreadService
    runs: RunService
    crons: CronService
    states: States
    followers: Followers
    thread_followers: ThreadFollowers
    auth: Auth | None
    version: str
    begin: Callable[[], Awaitable[None]]


async def parts_of(connection: HTTPConnection) -> Parts:
    """Return the parts of the server that a request came to."""
    parts = connection.app.state.parts
    assert isinstance(parts, Parts)
    return parts


PartsDep = Annotated[Parts, Depends(parts_of)]
