"""The checkpointer that ``langgraph dev`` opens at its start and closes at its end: one SQLite file."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stateroom import SqliteSaver


@asynccontextmanager
async def open_saver() -> AsyncIterator[SqliteSaver]:
    """Yield the checkpointer; ``THREADS_FILE`` names its file."""
    async with SqliteSaver(os.environ.get("THREADS_FILE", "threads.db")) as saver:
        yield saver
