"""Checks whether a project can be served, one finding after the other, each with what to mend."""

from __future__ import annotations

import importlib.metadata
import platform
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from langgraph.checkpoint.base import empty_checkpoint

from stateroom.boot.compose import Server
from stateroom.boot.environment import configure
from stateroom.boot.serving import bind
from stateroom.boot.storing import make_kept, names_a_store
from stateroom.contract.threads import NewThread
from stateroom.errors import StateroomError
from stateroom.ids import random_ids
from stateroom.settings import Settings

__all__ = ["PACKAGES", "Finding", "check_project"]

PACKAGES: Final = (
    *("stateroom", "langgraph", "langgraph-checkpoint", "langgraph-sdk", "fastapi", "uvicorn"),
    *("langgraph-checkpoint-postgres", "psycopg", "langchain-core", "pydantic"),
)
"""The packages whose versions decide what works."""

_NAMESPACE: Final = ("stateroom-doctor",)


class Finding(NamedTuple):
    """What was looked at, whether it is good (None: neither), and what there is to say, with the fix."""

    what: str
    good: bool | None
    says: str


def check_project(file: Path, said: Mapping[str, Any], *, write_test: bool = False) -> Iterator[Finding]:
    """Yield what is found, in the order in which a server starts.

    What keeps the next checks from being made is the last finding. Nothing is left behind but the tables,
    which a server makes too.
    """
    yield Finding("packages", True, _versions())
    try:
        found = configure(file, said)
    except StateroomError as error:
        yield Finding("configuration", False, str(error))
        return
    for warning in found.warnings:
        yield Finding("configuration", None, warning)
    yield Finding("configuration", True, f"{file} with {', '.join(found.settings.graphs)}")
    yield _port(found.settings)
    yield from _server(found.settings, write_test=write_test)


def _versions() -> str:
    shown = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    for name in PACKAGES:
        try:
            shown.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(shown)


def _port(settings: Settings) -> Finding:
    http = settings.http
    try:
        bind(http.host, http.port).close()
    except StateroomError as error:
        return Finding("port", None, str(error))
    return Finding("port", True, f"{http.port} of {http.host} is free")


def _server(settings: Settings, *, write_test: bool) -> Iterator[Finding]:
    """Open the storage, and then the whole server with graphs and authentication, without executing runs."""
    try:
        kept = make_kept(settings)
        kept.storage.open()
    except StateroomError as error:
        yield Finding("storage", False, str(error))
        return
    kept.storage.close()
    yield Finding("storage", True, f"{settings.storage}: reached, and its tables are up to date")
    server = Server(settings)
    try:
        server.open()
    except StateroomError as error:
        yield Finding(error.field or "server", False, str(error))
        return
    try:
        yield Finding("graphs", True, f"loaded {', '.join(server.parts.graphs.ids)}")
        guarded = server.parts.auth is not None
        says = "callers are asked who they are" if guarded else "none: anybody may do anything"
        yield Finding("authentication", True if guarded else None, says)
    finally:
        server.close()
    if write_test:
        yield from _written(settings)


def _written(settings: Settings) -> Iterator[Finding]:
    """Write one of each kind, open everything anew, and tell what is still there."""
    name = f"doctor-{random_ids()}"
    value = {"text": f"written by stateroom doctor: {name}"}
    config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    try:
        with _opened(settings) as server:
            server.parts.storage.threads.create(NewThread(name, metadata=value))
            server.saver.put(config, empty_checkpoint(), {"source": "update", "step": -1, "parents": {}}, {})
            server.parts.store.put(_NAMESPACE, name, value)
        with _opened(settings) as server:
            try:
                yield from _read_back(server, name, value, config)
            finally:
                server.parts.threads.remove(name)
                server.parts.store.delete(_NAMESPACE, name)
    except StateroomError as error:
        yield Finding("write test", False, f"{type(error).__name__}: {error}")


def _read_back(server: Server, name: str, value: Mapping[str, Any], config: Any) -> Iterator[Finding]:
    settings = server.settings
    lasts = settings.storage != "memory"
    thread = server.parts.storage.threads.get(name)
    item = server.parts.store.get(_NAMESPACE, name)
    there = {
        "thread": thread is not None and dict(thread.metadata) == dict(value),
        "checkpoint": server.saver.get_tuple(config) is not None,
        "item": item is not None and item.value == dict(value),
    }
    for kind, survived in there.items():
        if lasts or (kind == "item" and names_a_store(settings)):
            says = "survived a reopening" if survived else "is lost after a reopening"
            yield Finding(f"write test: {kind}", survived, says)
        else:
            yield Finding(f"write test: {kind}", None, "was written; memory keeps nothing beyond the process")


@contextmanager
def _opened(settings: Settings) -> Iterator[Server]:
    server = Server(settings)
    server.open()
    try:
        yield server
    finally:
        server.close()
