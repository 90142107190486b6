"""Which checkpoints must stay so that those that are kept can be read and continued: choices without SQL."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["ancestors", "finished_calls", "is_call", "lowest_line", "open_channels", "parents_of"]


def open_channels(metadata: bytes | None) -> frozenset[str]:
    """Return the delta channels whose value a checkpoint lacks, so that its ancestors must make it up.

    LangGraph counts in the metadata what was written to each since its last snapshot, and drops the count
    in a checkpoint that has the snapshot itself.
    """
    return frozenset(_of(metadata).get("counters_since_delta_snapshot") or ())


def parents_of(metadata: bytes | None) -> Mapping[str, str]:
    """Return the checkpoint of each outer graph in which a subgraph's checkpoint was made, by namespace."""
    parents = _of(metadata).get("parents")
    return parents if isinstance(parents, dict) else {}


def ancestors(line: Iterable[tuple[str, frozenset[str]]]) -> Iterator[str]:
    """Yield the ancestors that a checkpoint is made up from; ``line`` is it and they, the nearest first.

    Each comes with its open channels. The one that has a channel's snapshot is the last for that channel:
    its writes count too.
    """
    steps = iter(line)
    _, missing = next(steps, ("", frozenset[str]()))
    while missing:
        step = next(steps, None)
        if step is None:
            return
        yield step[0]
        missing &= step[1]


def lowest_line(newest: Sequence[tuple[str, str | None]]) -> list[str]:
    """Return those of some checkpoints, each with its parent, whose parent is not among them.

    What the others need of older checkpoints, one of these needs too.
    """
    ids = {checkpoint_id for checkpoint_id, _ in newest}
    return [checkpoint_id for checkpoint_id, parent_id in newest if parent_id not in ids]


def is_call(ns: str) -> bool:
    """Tell whether a namespace is that of one call of a subgraph, and not of one that remembers."""
    return ":" in ns


def finished_calls(
    roots: Iterable[tuple[str, str | None]], kept: Collection[str], saved: Collection[str]
) -> list[str]:
    """Return the namespaces of calls that nothing can resume.

    ``roots`` are the namespaces of calls, each with the root graph's checkpoint in which the call was made.
    It is over once that checkpoint is not kept. One that is not saved may yet come: runs save in the
    background.
    """
    return [ns for ns, root in roots if root in saved and root not in kept]


def _of(metadata: bytes | None) -> Mapping[str, Any]:
    found = json.loads(metadata) if metadata else {}
    return found if isinstance(found, dict) else {}
