"""What the commands say to whoever started them, in few words and without a traceback."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer
from typing_extensions import override

from stateroom.errors import StateroomError

__all__ = ["log_to_stderr", "said", "say"]

_COLOURS: Final = {"WARNING": typer.colors.YELLOW, "ERROR": typer.colors.RED, "CRITICAL": typer.colors.RED}


class _Lines(logging.Formatter):
    """One line for each message, in colour on a terminal."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
        self._colour = colour

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = super().formatMessage(record)
        colour = _COLOURS.get(record.levelname) if self._colour else None
        return typer.style(line, fg=colour) if colour else line


def log_to_stderr(*, verbose: bool = False, requests: bool = False) -> None:
    """Show what the server says of itself, with ``verbose`` in detail, and with ``requests`` each of them."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(colour=sys.stderr.isatty()))
    levels = {"stateroom": logging.DEBUG if verbose else logging.INFO, "uvicorn": logging.WARNING}
    levels["uvicorn.access"] = logging.INFO if requests else logging.WARNING
    for name, level in levels.items():
        log = logging.getLogger(name)
        log.setLevel(level)
        log.propagate = False
        log.handlers[:] = [handler]


def say(text: str = "") -> None:
    """Say something to whoever reads along; what a command answers goes to its output instead."""
    typer.echo(text, err=True)


@contextmanager
def said() -> Iterator[None]:
    """Have an error of ours said in one line, and end the program with 1."""
    try:
        yield
    except StateroomError as error:
        say(f"{typer.style(error.code, fg=typer.colors.RED)}: {error}")
        raise typer.Exit(1) from error
