"""Filling stores, with a bar for those who wait."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.data import Rows
from benchmarks.measure import Contender

__all__ = ["bar", "load"]

SLOW_ROWS = 5_000
"""Fewer rows than this are there before anybody looks."""


def bar(rows: int) -> Progress:
    """Return a progress bar on the error stream, which hides itself when it is not worth showing."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=rows < SLOW_ROWS or not console.is_terminal,
    )


def load(contenders: Sequence[Contender], rows: Rows) -> None:
    """Store all rows in every contender."""
    with bar(rows.total) as progress:
        for contender in contenders:
            task = progress.add_task(f"loading: {contender.name}", total=rows.total)
            for operations in rows.puts(0, rows.total):
                contender.store.batch(operations)
                progress.advance(task, len(operations))
