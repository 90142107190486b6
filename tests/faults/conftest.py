"""Real processes for the tests of faults: started in a moment, and none left behind."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, NamedTuple

import pytest

__all__ = ["Child", "Start"]

# A server that has imported everything forks the processes, so that each costs no import of its own.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "pytest",
        "tests.faults.programs.children",
        "tests.faults.programs.files_children",
        "tests.faults.programs.postgres_children",
        "tests.faults.programs.queue_children",
        "tests.faults.programs.storage_children",
    ]
)


class Child(NamedTuple):
    """A running process, and the pipe between it and the test."""

    process: ForkServerProcess
    pipe: Connection

    def kill(self) -> None:
        """Have the process die at once, as by ``kill -9``, and wait for its end."""
        self.process.kill()
        self.process.join()

    def messages(self) -> Iterator[Any]:
        """Yield what the process says, up to its end."""
        while True:
            try:
                yield self.pipe.recv()
            except (EOFError, ConnectionResetError):
                return


Start = Callable[..., Child]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start ``program(pipe, *arguments)`` in a process of its own; what still runs at the end is killed."""
    children: list[Child] = []

    def start(program: Callable[..., None], *arguments: Any) -> Child:
        ours, theirs = _context.Pipe()
        process = _context.Process(target=program, args=(theirs, *arguments), daemon=True)
        process.start()
        theirs.close()
        children.append(Child(process, ours))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.pipe.close()
