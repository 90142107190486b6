"""The tree of graphs that a run has executed, out of what its stream says of their lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from stateroom.model.run import ENDED, Run
from stateroom.model.run_kwargs import PROTOCOL_PREFIX

if TYPE_CHECKING:
    from stateroom.api.parts import Parts

__all__ = ["agent_tree"]

FRAMES_AT_ONCE: Final = 100

_LIFECYCLE: Final = PROTOCOL_PREFIX + "lifecycle"
_STATUSES: Final = {"pending": "started", "running": "running", "success": "completed"}
_STATUSES_OF_FAILURES: Final = {"error": "failed", "timeout": "failed", "interrupted": "interrupted"}

Namespace = tuple[str, ...]


async def agent_tree(parts: Parts, run: Run, graph_name: str) -> dict[str, Any]:
    """Return the run's graph with those inside it, as far as the run has come.

    A run that was not started by this protocol says nothing of the graphs inside.
    """
    status = (_STATUSES | _STATUSES_OF_FAILURES)[run.status]
    root: dict[str, Any] = {"namespace": [], "status": status, "graph_name": graph_name}
    nodes: dict[Namespace, dict[str, Any]] = {(): root}
    after = 0
    while True:
        page = await parts.offload(parts.storage.events.read, run.run_id, after=after, limit=FRAMES_AT_ONCE)
        for frame in page.frames:
            if frame.event == _LIFECYCLE:
                params = orjson.loads(frame.data)
                _note(nodes, tuple(params["namespace"]), params["data"])
        if len(page.frames) < FRAMES_AT_ONCE:
            break
        after = page.frames[-1].seq
    if run.status in ENDED:
        _settle(nodes, status)
    return root


def _note(nodes: dict[Namespace, dict[str, Any]], namespace: Namespace, data: dict[str, Any]) -> None:
    if not namespace:
        return
    node = nodes.get(namespace)
    if node is None:
        node = nodes[namespace] = {"namespace": list(namespace), "status": "", "graph_name": ""}
        above = (namespace[:end] for end in range(len(namespace) - 1, -1, -1))
        over = next(nodes[each] for each in above if each in nodes)
        over.setdefault("children", []).append(node)
    node["status"] = data["event"]
    node["graph_name"] = data.get("graph_name") or node["graph_name"] or namespace[-1].partition(":")[0]


def _settle(nodes: dict[Namespace, dict[str, Any]], status: str) -> None:
    """End with their run those graphs that could not say themselves that they ended."""
    for node in nodes.values():
        if node["status"] in ("started", "running"):
            node["status"] = status
