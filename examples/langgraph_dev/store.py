"""The store that ``langgraph dev`` opens at its start and closes at its end: one SQLite file."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stateroom import SqliteStore


@asynccontextmanager
async def open_store() -> AsyncIterator[SqliteStore]:
    """Yield the store; ``NOTES_FILE`` names its file."""
    async with SqliteStore(os.environ.get("NOTES_FILE", "notes.db")) as store:
        yield store
