"""A program that uses one store from many processes at once, and prints what each of them reports.

python tests/cases/processes.py TASK FILE
python tests/cases/processes.py TASK URI SCHEMA
"""

from __future__ import annotations

import multiprocessing
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from typing import Final

from stateroom import SqliteStore, Store
from stateroom.errors import Conflict
from stateroom.stores.postgres import PostgresStore

N: Final = ("a", "b")
NOTE: Final = "/n.md"
PROCESSES: Final = 12
EDITORS: Final = 4
EDITS: Final = 5


def opened(*place: str) -> Store:
    """Open a file of SQLite's, or a schema of the Postgres database at a URI."""
    if len(place) == 1:
        return SqliteStore(*place)
    uri, schema = place
    return PostgresStore(uri, schema=schema)


def set_up(store: Store, name: str) -> list[str]:
    """Set the store up and remember who did."""
    store.setup()
    store.put(N, name, {"by": name})
    return [name]


def edit(store: Store, name: str) -> list[str]:
    """Try some edits of one text, once each; return those that succeeded."""
    done = []
    for number in range(EDITS):
        item = f"{name}-{number}"
        if _edited(store, item):
            done.append(item)
    return done


def edit_until_done(store: Store, name: str) -> list[str]:
    """Make some edits of one text, each again for as long as others come in between."""
    items = [f"{name}-{number}" for number in range(EDITS)]
    for item in items:
        while not _edited(store, item):
            pass
    return items


def _edited(store: Store, item: str) -> bool:
    found = store.get(N, NOTE)
    assert found is not None
    text = found.value["text"].replace("HEAD|", f"HEAD|\n{item}", 1)
    try:
        store.put(N, NOTE, {"text": text}, if_revision=found.revision)
    except Conflict:
        return False
    return True


Task = Callable[[Store, str], list[str]]
TASKS: Final[Mapping[str, tuple[Task, int]]] = {
    "set-up": (set_up, PROCESSES),
    "edit": (edit, EDITORS),
    "edit-until-done": (edit_until_done, EDITORS),
}


def work(task: Task, place: Sequence[str], name: str, start: Barrier, reports: SimpleQueue[str]) -> None:
    """Open the store together with all others, do the task, and report."""
    try:
        start.wait()
        with opened(*place) as store:
            done = task(store, name)
        reports.put("".join(f"{item}\n" for item in done))
    except BaseException:
        reports.put(f"failed: {traceback.format_exc()}\n")
        raise


def main(name: str, *place: str) -> int:
    """Run the task in as many processes as it takes, and print their reports; return how many failed."""
    task, number = TASKS[name]
    # Forked, so that all begin at the same moment and not when each has imported what it needs.
    context = multiprocessing.get_context("fork")
    start, reports = context.Barrier(number), context.SimpleQueue()
    processes = [
        context.Process(target=work, args=(task, place, f"process-{each}", start, reports))
        for each in range(number)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        sys.stdout.write(reports.get())
    for process in processes:
        process.join()
    return sum(process.exitcode != 0 for process in processes)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
