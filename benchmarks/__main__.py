"""The command line: ``python -m benchmarks`` measures, prints tables, and fails if an answer was wrong."""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from benchmarks import (
    aegis,
    asynchronous,
    checkpoints,
    files,
    files_growth,
    foreign,
    growth,
    kv,
    retrieval,
    server,
    server_readers,
    server_takeover,
    servers,
    storage_events,
    storage_queue,
    storage_threads,
    text,
    vector,
)
from benchmarks.measure import Line, Options
from benchmarks.report import show, show_growth

SUITES: dict[str, Callable[[Options, Path], Iterator[Line]]] = {
    "kv": kv.measure,
    "vector": vector.measure,
    "async": asynchronous.measure,
    "growth": growth.measure,
    "text": text.measure,
    "foreign": foreign.measure,
    "files": files.measure,
    "files-growth": files_growth.measure,
    "queue": storage_queue.measure,
    "threads": storage_threads.measure,
    "checkpoints": checkpoints.measure,
    "events": storage_events.measure,
    "server": server.measure,
    "readers": server_readers.measure,
}
if aegis.SERVER:
    SUITES["aegis"] = aegis.measure
if servers.POSTGRES:
    SUITES["takeover"] = server_takeover.measure
RETRIEVAL = "retrieval"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for; 1 if any of our answers was wrong."""
    options, json_file = _options(arguments)
    console, notes = Console(width=None if sys.stdout.isatty() else 150), Console(stderr=True)
    console.print(_circumstances())
    lines: list[Line] = []
    for suite in options.suites or SUITES:
        if suite == RETRIEVAL:
            retrieval.main(["--data", str(options.data)])
            continue
        with tempfile.TemporaryDirectory(prefix="stateroom-benchmark-") as folder:
            measured = []
            for line in SUITES[suite](options, Path(folder)):
                if notes.is_terminal:
                    notes.print(f"{line.suite} {line.backend} {line.n:,} {line.operation}", style="dim")
                measured.append(line)
        (show_growth if suite.endswith("growth") else show)(measured, console)
        lines += measured
    for note in _missing(options):
        console.print(note)
    wrong = [line for line in lines if line.is_wrong]
    missed = [line for line in lines if line.is_met is False]
    console.print(f"{len(lines)} comparisons, {len(missed)} below target, {len(wrong)} wrong answers of ours")
    if json_file:
        report = {"circumstances": _circumstances(), "lines": [line.as_json() for line in lines]}
        json_file.write_text(json.dumps(report, indent=1))
    return 1 if wrong else 0


def _circumstances() -> str:
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, numpy {version('numpy')}, "
        f"langgraph-checkpoint {version('langgraph-checkpoint')}, "
        f"langgraph-checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}"
    )


def _missing(options: Options) -> list[str]:
    suites = options.suites or SUITES
    if "vector" in suites and options.peers and vector.lacks_sqlite_peer():
        return [vector.LACKS_SQLITE_PEER]
    return []


def _options(arguments: Sequence[str] | None) -> tuple[Options, Path | None]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--suite", type=_list, default=[], help=f"of {', '.join([*SUITES, RETRIEVAL])}")
    parser.add_argument(
        "--backend",
        type=_list,
        default=[],
        help="of memory, sqlite, durable, postgres (if STATEROOM_TEST_POSTGRES names a server); default all",
    )
    parser.add_argument("--n", type=_list, default=[], help="numbers of items; default the suite's own")
    parser.add_argument("--only", type=_list, default=[], help="operations whose name has one of these in it")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each store and operation")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that everything works")
    parser.add_argument("--no-peers", action="store_true", help="measure our stores alone")
    parser.add_argument("--data", type=Path, help="the LoCoMo file, which the retrieval suite needs")
    given = parser.parse_args(arguments)
    if unknown := [suite for suite in given.suite if suite not in (*SUITES, RETRIEVAL)]:
        parser.error(f"no such suite: {', '.join(unknown)}")
    if RETRIEVAL in given.suite and given.data is None:
        parser.error("the retrieval suite needs --data")
    options = Options(
        suites=given.suite,
        backends=given.backend,
        sizes=[int(n.replace("_", "")) for n in given.n],
        only=given.only,
        seconds=0.02 if given.quick else given.seconds,
        quick=given.quick,
        peers=not given.no_peers,
        data=given.data,
    )
    return options, given.json


def _list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


if __name__ == "__main__":
    sys.exit(main())
