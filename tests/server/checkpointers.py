"""Checkpointers as applications bring them along, each behind what ``checkpointer.path`` may name."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver as LangGraphSqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from typing_extensions import override

from stateroom import SqliteSaver

FOLDER = "CHECKPOINTERS_FOLDER"
"""The variable that says where the files are."""

memory = InMemorySaver()
one_and_only = InMemorySaver()
nothing = {"no": "checkpointer"}
sync_only = LangGraphSqliteSaver(sqlite3.connect(":memory:", check_same_thread=False))


def folder() -> Path:
    return Path(os.environ[FOLDER])


@asynccontextmanager
async def theirs() -> AsyncIterator[AsyncSqliteSaver]:
    async with AsyncSqliteSaver.from_conn_string(str(folder() / "theirs.db")) as saver:
        yield saver


def ours() -> SqliteSaver:
    return SqliteSaver(folder() / "ours.db")


def needing(argument: object) -> object:
    return argument


class Refusing(InMemorySaver):
    """Has all methods, and says of one that it has it not, as LangGraph's SqliteSaver does."""

    @override
    async def aget_tuple(self, config: Any) -> Any:
        raise NotImplementedError("use the async one")


class Undeletable(InMemorySaver):
    """Cannot delete a thread."""

    adelete_thread = BaseCheckpointSaver.adelete_thread


class Broken(InMemorySaver):
    """Its database cannot be reached."""

    @override
    async def aget_tuple(self, config: Any) -> Any:
        raise OSError("no route to host")
