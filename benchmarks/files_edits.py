"""Edits of one file by many processes: what each costs, and how many of those that succeeded are there."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.store.postgres import PostgresStore as LangGraphPostgresStore

from benchmarks.contenders import POSTGRES, contenders
from benchmarks.files_contenders import ours, theirs
from benchmarks.measure import WRONG, Line
from stateroom import PostgresStore

__all__ = ["measure_edits", "verdict_of"]

NOTE = "/notes/n.md"
HEAD = "HEAD|\n"


class Edited(NamedTuple):
    """What edits of many processes came to: microseconds for each that succeeded, and which those were."""

    micros: float | None
    verdict: str


def measure_edits(backend: str, folder: Path, processes: int, edits: int, *, peers: bool) -> Line:
    """Let processes add lines to one file, of ours and of Deep Agents' over LangGraph's store of the kind."""
    folder.mkdir(parents=True)
    peer = Edited(None, "")
    name = None
    with contenders(backend, folder, ("text", "peer") if peers else ("text",)) as (own, *others):
        edited = _edited("text", ours(own.store), backend, folder, processes, edits)
        for other in others:
            name = f"Deep Agents, {other.name}"
            peer = _edited("peer", theirs(other.store), backend, folder, processes, edits)
    return Line(
        suite="files",
        backend=backend,
        n=processes * edits,
        operation=f"edit of one file by {processes} processes",
        ours=edited.micros,
        verdict=edited.verdict,
        peer_name=name,
        peer=peer.micros,
        peer_verdict=peer.verdict,
    )


def _edited(role: str, files: Any, backend: str, folder: Path, processes: int, edits: int) -> Edited:
    files.write(NOTE, HEAD)
    context = multiprocessing.get_context("forkserver")
    start, reports = context.Barrier(processes), context.SimpleQueue()
    children = [
        context.Process(target=_edit, args=(role, backend, folder, f"process-{each}", edits, start, reports))
        for each in range(processes)
    ]
    for child in children:
        child.start()
    told = [reports.get() for _ in children]
    for child in children:
        child.join()
    succeeded = [line for _, lines, _ in told for line in lines]
    problems = sorted({problem for _, _, found in told for problem in found})
    there = files.read(NOTE).file_data["content"].splitlines()[1:]
    seconds = max(spent for spent, _, _ in told)
    verdict = verdict_of(succeeded, there, processes * edits)
    return Edited(seconds * 1e6 / max(1, len(succeeded)), "; ".join([verdict, *problems]))


def verdict_of(succeeded: Sequence[str], there: Sequence[str], tried: int) -> str:
    """Say how many of the lines whose edits succeeded are there; anything else there is wrong too."""
    kept = len(set(succeeded) & set(there))
    verdict = f"{kept:,} kept of {len(succeeded):,} that succeeded, of {tried:,}"
    return verdict if kept == len(succeeded) == len(there) else f"{WRONG}: {verdict}"


def _edit(
    role: str,
    backend: str,
    folder: Path,
    name: str,
    edits: int,
    start: Barrier,
    reports: SimpleQueue[tuple[float, list[str], list[str]]],
) -> None:
    """Add lines together with all others; report the seconds, what succeeded, and what went wrong."""
    done, problems = [], []
    spent = 0.0
    try:
        with _opened(role, backend, folder) as files:
            start.wait()
            began = time.perf_counter()
            for line in [f"{name}-{number}" for number in range(edits)]:
                try:
                    result = files.edit(NOTE, HEAD, f"{HEAD}{line}\n")
                except Exception as error:  # it is a finding, and must not end the run
                    problems.append(f"{type(error).__name__}: {error}"[:80])
                    continue
                if result.error is None:
                    done.append(line)
                else:
                    problems.append(result.error[:80])
            spent = time.perf_counter() - began
    except BaseException:
        # Nobody is to wait for who will not come.
        start.abort()
        raise
    finally:
        reports.put((spent, done, problems))


@contextmanager
def _opened(role: str, backend: str, folder: Path) -> Iterator[Any]:
    """Open what another process has set up."""
    files = ours if role == "text" else theirs
    if backend != "postgres":
        with contenders(backend, folder, (role,)) as (contender,):
            yield files(contender.store)
    elif role == "text":
        with PostgresStore(POSTGRES, schema="bench_text") as store:
            yield files(store)
    else:
        uri = f"{POSTGRES}{'&' if '?' in POSTGRES else '?'}options=-csearch_path%3Dbench_peer,public"
        with LangGraphPostgresStore.from_conn_string(uri) as store:
            yield files(store)
