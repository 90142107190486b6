"""The suite of files' growth: what reads of one directory, and of all, cost as there are more of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from langgraph.store.base import PutOp

from benchmarks.contenders import analyze, contenders
from benchmarks.files_contenders import BACKENDS, ours
from benchmarks.files_data import NEEDLE, Files
from benchmarks.measure import WRONG, Case, Contender, Line, Options, interleave, settle
from benchmarks.progress import bar
from benchmarks.targets import GROWTH

__all__ = ["OTHERS", "SIZES", "measure"]

SIZES = (1_000, 10_000, 50_000)
QUICK_SIZES = (70, 140)
OTHERS, QUICK_OTHERS = 100_000, 200
"""Items in other namespaces, in a store with the fewest files."""

HOME = "/home/notes"
HOME_FILES = 100
OTHER_ITEMS = 50
"""Items of each of the other namespaces, half of which are files."""

BATCH = 500


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite: each store grows from size to size; another one grows in other namespaces alone."""
    sizes = sorted(QUICK_SIZES if options.quick else options.sizes or SIZES)
    others = QUICK_OTHERS if options.quick else OTHERS
    for backend in BACKENDS:
        if options.wants_backend(backend):
            yield from _grow(options, folder / f"growth-{backend}", backend, sizes)
            yield from _surround(options, folder / f"others-{backend}", backend, sizes[0], others)


def _grow(options: Options, folder: Path, backend: str, sizes: Sequence[int]) -> Iterator[Line]:
    folder.mkdir(parents=True)
    all_files = Files(sizes[-1])
    first: dict[str, float | None] = {}
    with contenders(backend, folder, ("text",)) as (own,):
        files = ours(own.store)
        _upload_home(files)
        start = 0
        for n in sizes:
            with bar(n - start) as progress:
                task = progress.add_task(f"growing to {n:,} files", total=n - start)
                while start < n:
                    stop = min(start + BATCH, n)
                    numbers = range(start, stop)
                    files.upload_files(
                        [(all_files.paths[each], all_files.text(each).encode()) for each in numbers]
                    )
                    progress.advance(task, stop - start)
                    start = stop
            yield from _measure(options, backend, backend, n, files, first, n)


def _surround(options: Options, folder: Path, backend: str, n: int, others: int) -> Iterator[Line]:
    """Measure the same files without and with others in other namespaces."""
    folder.mkdir(parents=True)
    mine, first = Files(n), dict[str, float | None]()
    with contenders(backend, folder, ("text",)) as (own,):
        files = ours(own.store)
        _upload_home(files)
        for some in mine.uploads(BATCH):
            files.upload_files(some)
        title = f"{backend}, {n:,} files among so many items of others"
        yield from _measure(options, backend, title, 0, files, first, n)
        with bar(others) as progress:
            task = progress.add_task("growing beside", total=others)
            for start in range(0, others, BATCH):
                stop = min(start + BATCH, others)
                own.store.batch([_other(number, mine) for number in range(start, stop)])
                progress.advance(task, stop - start)
        yield from _measure(options, backend, title, others, files, first, n)


def _other(number: int, files: Files) -> PutOp:
    namespace = ("ana", "filesystem", "x") if number % 3 == 0 else (f"user{number // OTHER_ITEMS}", "files")
    content = {
        "content": files.text(number % files.n).split("\n"),
        "modified_at": "2026-01-01T00:00:00+00:00",
    }
    return PutOp(namespace, f"{HOME if number % 2 else ''}/n{number}.md", content)


def _upload_home(files: Any) -> None:
    files.upload_files([(f"{HOME}/h{number}.md", f"home {number}".encode()) for number in range(HOME_FILES)])


def _measure(
    options: Options,
    backend: str,
    title: str,
    n: int,
    files: Any,
    first: dict[str, float | None],
    count: int,
) -> Iterator[Line]:
    """Time all cases; those that look at one directory have promised not to become slower."""
    # The first search after so many puts finishes the text index.
    files.search("needles")
    analyze(backend)
    settle()
    contender = Contender("ours", "Stateroom", files, ours=True)
    for case, is_promised in _cases(count):
        if not options.wants(case.operation):
            continue
        median = interleave([contender], case, options.seconds)["ours"]
        is_first = case.operation not in first
        base = first.setdefault(case.operation, median.median)
        yield Line(
            suite="files-growth",
            backend=title,
            n=n,
            operation=case.operation,
            ours=median.median,
            verdict=median.verdict,
            peer_name=None if is_first else "itself at the first size",
            peer=None if is_first else base,
            target=GROWTH if is_promised and not is_first else None,
        )


def _cases(n: int) -> list[tuple[Case, bool]]:
    def edit_and_back(store: Any, turn: int) -> Any:
        path = f"{HOME}/h{turn % HOME_FILES}.md"
        return store.edit(path, "home", "house").error or store.edit(path, "house", "home").error

    def none(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
        return f"{WRONG}: {got}" if got else None

    def has(field: str, expected: int) -> Any:
        def check(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
            number = len(getattr(got, field))
            return None if number == expected else f"{WRONG}: {number} instead of {expected}"

        return check

    def counted(_store: Any, _asked: Any, got: Any, _ours: bool) -> str | None:
        return None if got.files == n + HOME_FILES else f"{WRONG}: {got}"

    hundredth = len(Files(n).named("f*00.md"))
    return [
        (Case("one: ls", lambda store, _: store.ls(HOME), check=has("entries", HOME_FILES)), True),
        (
            Case("one: glob", lambda store, _: store.glob("*.md", HOME), check=has("matches", HOME_FILES)),
            True,
        ),
        (Case("one: grep", lambda store, _: store.grep("home 7", HOME), check=has("matches", 11)), True),
        (Case("one: read", lambda store, turn: store.read(f"{HOME}/h{turn % HOME_FILES}.md")), True),
        (Case("one: delete, absent", lambda store, _: store.delete("/home/none.md")), True),
        (Case("all: ls /", lambda store, _: store.ls("/"), check=has("entries", 11)), False),
        (
            Case("all: glob 1 %", lambda store, _: store.glob("f*00.md"), check=has("matches", hundredth)),
            False,
        ),
        (Case("all: glob *.md", lambda store, _: store.glob("*.md")), False),
        (Case("all: grep a needle", lambda store, _: store.grep(NEEDLE)), False),
        (Case("all: usage", lambda store, _: store.usage(), check=counted), False),
        (Case("all: search a rare word", lambda store, _: store.search("needles")), False),
        # The last one, since it writes.
        (Case("one: edit, and back", edit_and_back, check=none), True),
    ]
