"""Printing what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Line

__all__ = ["show", "show_growth", "time_of"]

MET = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}


def show(lines: Iterable[Line], console: Console) -> None:
    """Print comparisons: a table for each back end and size."""
    for (suite, backend, n), group in groupby(lines, key=lambda line: (line.suite, line.backend, line.n)):
        rows = list(group)
        table = Table(title=f"{suite}, {backend}, N = {n:,}", title_justify="left")
        for name in ("operation", "peer", "peer's", "ours", "ratio", "target", "met", "answers"):
            table.add_column(name, justify="left" if name in ("operation", "peer", "answers") else "right")
        for line in rows:
            table.add_row(
                line.operation,
                line.peer_name or "",
                _spelled(line.peer, line.unit),
                _spelled(line.ours, line.unit),
                _times(line.ratio),
                _times(line.target),
                MET[line.is_met],
                _answers(line),
            )
        console.print(table)


def show_growth(lines: Sequence[Line], console: Console) -> None:
    """Print a table for each back end with a column for each size."""
    for backend in dict.fromkeys(line.backend for line in lines):
        own = [line for line in lines if line.backend == backend]
        sizes = sorted({line.n for line in own})
        table = Table(title=f"growth, {backend}", title_justify="left")
        table.add_column("operation")
        for n in sizes:
            table.add_column(f"{n:,}", justify="right")
        for name in ("last against first", "at most", "met", "answers"):
            table.add_column(name, justify="right")
        for operation in dict.fromkeys(line.operation for line in own):
            by_size = {line.n: line for line in own if line.operation == operation}
            last = by_size[max(by_size)]
            table.add_row(
                operation,
                *(_figure(by_size.get(n)) for n in sizes),
                _times(1 / last.ratio if last.ratio else None),
                _times(1 / last.target if last.target else None),
                MET[last.is_met],
                next((line.verdict for line in by_size.values() if line.verdict), ""),
            )
        console.print(table)


def time_of(microseconds: float | None) -> str:
    """Spell a time."""
    if microseconds is None:
        return ""
    if microseconds < 1_000:
        return f"{microseconds:.1f} µs" if microseconds < 100 else f"{microseconds:.0f} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1e3:.2f} ms"
    return f"{microseconds / 1e6:.2f} s"


def _figure(line: Line | None) -> str:
    return "" if line is None else _spelled(line.ours, line.unit)


def _spelled(figure: float | None, unit: str) -> str:
    if figure is None or unit == "us":
        return time_of(figure)
    return f"{figure:,.0f} {unit}"


def _times(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.1f}x" if ratio >= 10 else f"{ratio:.2f}x"


def _answers(line: Line) -> str:
    ours = f"[bold red]{line.verdict}[/]" if line.is_wrong else line.verdict
    peers = f"peer: {line.peer_verdict}" if line.peer_verdict else ""
    return "; ".join(filter(None, (ours, peers)))
