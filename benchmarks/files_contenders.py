"""The file systems that are measured: ours over our stores and over others', and Deep Agents' own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from deepagents.backends import StoreBackend as TheirStoreBackend

from benchmarks.contenders import POSTGRES, contenders
from benchmarks.measure import Contender
from stateroom.files import StoreBackend

__all__ = ["BACKENDS", "NAMESPACE", "ours", "pairs", "systems", "theirs"]

BACKENDS = ("memory", "sqlite", "postgres") if POSTGRES else ("memory", "sqlite")
NAMESPACE = ("ana", "filesystem")
ADOPTED = ("bob", "filesystem")
"""Where our files are in a store of LangGraph's that has Deep Agents' files too."""


def ours(store: Any, namespace: tuple[str, ...] = NAMESPACE) -> StoreBackend:
    """Return our file system over a store."""
    return StoreBackend(store=store, namespace=namespace)


def theirs(store: Any) -> TheirStoreBackend:
    """Return Deep Agents' file system over a store."""
    return TheirStoreBackend(store=store, namespace=lambda _runtime: NAMESPACE)


@contextmanager
def systems(backend: str, folder: Path, *, peers: bool) -> Iterator[list[Contender]]:
    """Open the file systems that are compared, by role.

    ``ours`` is over our store as it comes, with the text index; ``peer`` is Deep Agents' over LangGraph's
    store of the kind, which for SQLite is the one in memory; ``alike`` is theirs over LangGraph's SQLite;
    ``adopted`` is ours over the peer's store.
    """
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        (own,) = stack.enter_context(contenders(backend, folder, ("text",)))
        opened = [Contender("ours", "Stateroom", ours(own.store), ours=True)]
        if peers:
            kind = "memory" if backend == "sqlite" else backend
            (peer,) = stack.enter_context(contenders(kind, folder, ("peer",)))
            opened.append(Contender("peer", f"Deep Agents, {peer.name}", theirs(peer.store), ours=False))
            if backend == "sqlite":
                (alike,) = stack.enter_context(contenders(backend, folder, ("peer",)))
                opened.append(
                    Contender("alike", f"Deep Agents, {alike.name}", theirs(alike.store), ours=False)
                )
            else:
                name = f"ours over {peer.name}"
                opened.append(Contender("adopted", name, ours(peer.store, ADOPTED), ours=True))
        yield opened


def pairs(opened: list[Contender]) -> tuple[tuple[str, str], ...]:
    """Return which of the opened are compared, ours first."""
    roles = {contender.role for contender in opened}
    wanted = (("ours", "peer"), ("ours", "alike"), ("adopted", "peer"))
    return tuple(pair for pair in wanted if roles.issuperset(pair)) or (("ours", "peer"),)
