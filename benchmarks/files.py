"""The suite of files: every operation beside Deep Agents' own, and edits by many processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.contenders import analyze
from benchmarks.files_cases import cases
from benchmarks.files_contenders import BACKENDS, pairs, systems
from benchmarks.files_data import Files
from benchmarks.files_edits import measure_edits
from benchmarks.measure import Contender, Line, Options, interleave, lines_of, settle
from benchmarks.progress import bar

__all__ = ["SIZES", "TARGETS", "measure"]

SIZES = (10_000,)
QUICK_SIZE = 140
UPLOAD = 1_000
PROCESSES, EDITS = 8, (20, 200)
QUICK_PROCESSES, QUICK_EDITS = 2, (3,)
"""Processes that edit one file, and the edits of each."""

TARGETS = {
    "sqlite": {
        "ls one directory": 695 / 5,
        "glob *.md": 856 / 50,
        "grep a needle": 832 / 60,
        "read": 0.02 / 0.1,
        "edit": 0.01 / 0.3,
    },
    "postgres": {
        "ls one directory": 2_904 / 5,
        "glob *.md": 3_044 / 50,
        "grep a needle": 4_418 / 60,
        "read": 0.5 / 0.5,
        "edit": 4.0 / 2.0,
    },
}
"""The ratios to the peer that we are after at 10,000 files: its milliseconds once measured, over ours."""


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite."""
    for n in [QUICK_SIZE] if options.quick else options.sizes or SIZES:
        for backend in BACKENDS:
            if options.wants_backend(backend):
                yield from _compare(options, folder / f"files-{backend}-{n}", backend, Files(n))
    processes, edits = (QUICK_PROCESSES, QUICK_EDITS) if options.quick else (PROCESSES, EDITS)
    for backend in BACKENDS[1:]:
        if options.wants_backend(backend) and options.wants(f"edit of one file by {processes} processes"):
            for each in edits:
                place = folder / f"edits-{backend}-{each}"
                yield measure_edits(backend, place, processes, each, peers=options.peers)


def _compare(options: Options, folder: Path, backend: str, files: Files) -> Iterator[Line]:
    with systems(backend, folder, peers=options.peers) as opened:
        _load(opened, files)
        analyze(backend)
        settle()

        def target(one: str, other: str) -> float | None:
            is_promised = (one, other) == ("ours", "peer") and files.n in SIZES
            return TARGETS.get(backend, {}).get(case.operation) if is_promised else None

        for case in cases(files, pairs(opened), min(UPLOAD, files.n)):
            if options.wants(case.operation):
                samples = interleave(opened, case, options.seconds)
                yield from lines_of(case, opened, samples, target, suite="files", backend=backend, n=files.n)


def _load(opened: list[Contender], files: Files) -> None:
    """Upload all files to every file system, as its users would."""
    with bar(files.n) as progress:
        for contender in opened:
            task = progress.add_task(f"uploading: {contender.name}", total=files.n)
            for some in files.uploads():
                contender.store.upload_files(some)
                progress.advance(task, len(some))
