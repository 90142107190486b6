"""Files that several processes work on: no edit that succeeded is lost, and no file is overlooked."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from stateroom.clock import ManualClock
from stateroom.files import StoreBackend, listing, pruning
from stateroom.stores.memory import InMemoryStore
from tests.cases.processes import opened
from tests.conftest import NewSchema
from tests.faults.conftest import Child, Start
from tests.faults.programs.files_children import (
    HEAD,
    NOTE,
    added,
    edit_as_agent,
    edit_note,
    go_on,
    ticked,
    touch,
    write_beside,
)
from tests.faults.programs.files_histories import NAMESPACE, contents, files_at, history, operate
from tests.faults.test_killed import assert_sound
from tests.faults.watching import Watch, named, until

Place = tuple[str, ...]
"""A file, or a URI and a schema, as ``opened`` takes it."""

PROCESSES, EDITS = 8, 20
NAMES = [f"process-{each}" for each in range(PROCESSES)]


@pytest.fixture(params=["SQLite", "Postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return where processes share a store that is not there yet."""
    if request.param == "SQLite":
        return (str(tmp_path / "memory.db"),)
    new_schema: NewSchema = request.getfixturevalue("new_schema")
    schema = new_schema()
    return named(request.getfixturevalue("postgres"), schema), schema


@pytest.fixture
def files(place: Place) -> Iterator[StoreBackend]:
    with opened(*place) as store:
        yield StoreBackend(store=store, namespace=NAMESPACE)


def told(children: list[Child]) -> list[str]:
    """Start all children at once, and return the edits that any of them was told have succeeded."""
    assert [child.pipe.recv() for child in children] == ["ready"] * len(children)
    for child in children:
        child.pipe.send("go")
    return [line for child in children for (done,) in [[*child.messages()]] for line in done]


def lines(files: StoreBackend) -> list[str]:
    """Return the lines of the note that everybody edits."""
    (response,) = files.download_files([NOTE])
    return (response.content or b"").decode().splitlines()


@pytest.mark.parametrize("together", [0, 5], ids=["edit", "aedit"])
def test_of_edits_by_eight_processes_those_that_succeeded_are_there_once_and_no_other(
    start: Start, place: Place, files: StoreBackend, together: int
) -> None:
    everything = [f"{name}-{number}" for name in NAMES for number in range(EDITS)]
    files.write(NOTE, "".join(f"[ ] {line}\n" for line in everything))
    succeeded = told([start(edit_note, place, name, range(EDITS), ticked, together) for name in NAMES])
    assert len(succeeded) > EDITS
    assert lines(files) == [f"[{'x' if line in succeeded else ' '}] {line}" for line in everything]


@pytest.mark.parametrize("together", [0, 10], ids=["edit", "aedit"])
def test_A16_of_twenty_edits_of_one_line_by_two_processes_those_that_succeeded_are_kept(
    start: Start, place: Place, files: StoreBackend, together: int
) -> None:
    files.write(NOTE, HEAD)
    succeeded = told([start(edit_note, place, name, range(10), added, together) for name in NAMES[:2]])
    assert len(succeeded) >= 10
    assert lines(files)[0] == HEAD.strip()
    assert sorted(lines(files)[1:]) == sorted(succeeded)


@pytest.mark.parametrize("place", ["SQLite"], indirect=True)
def test_what_two_deep_agents_were_told_they_have_edited_is_there(
    start: Start, place: Place, files: StoreBackend
) -> None:
    files.write(NOTE, HEAD)
    succeeded = told(
        [
            start(edit_as_agent, place, name, 50, is_async)
            for name, is_async in (("ana", True), ("bob", False))
        ]
    )
    assert len(succeeded) >= 50
    assert sorted(lines(files)[1:]) == sorted(succeeded)


# ---- killed

OPERATIONS, KILLS, SPINS = 400, 8, 400_000
OTHERS = "select pid from pg_stat_activity where application_name = %s and pid <> pg_backend_pid()"


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_loses_no_operation_that_was_acknowledged_and_leaves_none_half_done(
    start: Start, place: Place, seed: int
) -> None:
    dice, operations = random.Random(seed), list(history(seed, OPERATIONS))
    clock = ManualClock()
    wanted = files_at(InMemoryStore(), clock)
    done = 0
    for _ in range(KILLS):
        child = start(go_on, place, seed, OPERATIONS, done)
        acknowledged = kill_after(child, dice.randrange(OPERATIONS // KILLS), dice.randrange(SPINS)) + done
        for operation in operations[done:acknowledged]:
            operate(wanted, clock, operation)
        found = found_at(place)
        if found != contents(wanted):
            # What was at work when the process died may be done without anybody having been told.
            operate(wanted, clock, operations[acknowledged])
            acknowledged += 1
        assert found == contents(wanted), f"after {acknowledged} operations of seed {seed}"
        done = acknowledged
    assert done > KILLS


def kill_after(child: Child, acknowledgements: int, spins: int) -> int:
    """Kill a process some time after that many acknowledgements; return how many there are."""
    messages = child.messages()
    told = list(islice(messages, acknowledgements))
    for _ in range(spins):
        # Whoever is told wakes up at once, and would kill it at the beginning of an operation each time.
        pass
    child.kill()
    told += messages
    return len(told) - told.count("done")


def found_at(place: Place) -> dict[str, object]:
    """Return what a new process would find, once the server has ended what a killed one had begun."""
    if len(place) == 1:
        with opened(*place) as store:
            found = contents(files_at(store))
        assert_sound(Path(*place))
        return found
    uri, schema = place
    watch = Watch(uri, schema)
    until(lambda: not watch.execute(OTHERS, schema))
    with opened(*place) as store:
        return contents(files_at(store))


# ---- looking while others write


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every listing take many pages, between which others write."""
    monkeypatch.setattr(listing, "PAGE", 20)


Look = Callable[[StoreBackend], list[str]]
DIRECTORIES = [f"/d{each}" for each in range(3)]
STABLE = [f"{directory}/f{number}.md" for directory in DIRECTORIES for number in range(60)]


def by_ls(files: StoreBackend) -> list[str]:
    return [info["path"] for directory in DIRECTORIES for info in files.ls(directory).entries or []]


def by_glob(files: StoreBackend) -> list[str]:
    return [info["path"] for info in files.glob("*.md").matches or []]


def by_grep(files: StoreBackend) -> list[str]:
    return [match["path"] for match in files.grep("round").matches or []]


def by_dry_prune(files: StoreBackend) -> list[str]:
    return [info["path"] for info in files.prune(keep=0, dry_run=True).files]


@pytest.mark.usefixtures("small_pages")
def test_no_file_that_is_there_all_the_time_is_overlooked_while_others_write(
    start: Start, place: Place, files: StoreBackend
) -> None:
    files.upload_files([(path, b"round 0") for path in STABLE])
    child = start(write_beside, place, STABLE, 70)
    assert child.pipe.recv() == "ready"
    child.pipe.send("go")
    seen: set[frozenset[str]] = set()
    while not child.pipe.poll():
        for look in (by_ls, by_glob, by_grep, by_dry_prune):
            paths = look(files)
            assert len(paths) == len(set(paths)), f"{look.__name__} has a file twice"
            assert set(STABLE) <= set(paths), f"{look.__name__} misses {set(STABLE) - set(paths)}"
            seen.add(frozenset(paths))
    assert child.pipe.recv() == "done"
    assert len(seen) > 3, "it was looked before or after, not meanwhile"
    assert {info["modified_at"] for info in files.glob("*.md").matches or []}
    assert [match["text"] for match in files.grep("round", "/d1").matches or []] == ["round 10"] * 60


def test_a_file_that_is_edited_while_files_are_pruned_stays(
    start: Start, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "BATCH_OPERATIONS_MAX", 4)
    with opened(*place) as store:
        old = StoreBackend(store=store, namespace=NAMESPACE, clock=ManualClock(1_000_000))
        old.upload_files([(path, f"old {path}".encode()) for path in STABLE])
        child = start(touch, place, STABLE[::-1])
        assert child.pipe.recv() == "ready"
        answers: list[tuple[str, bool]] = []

        def clock() -> int:
            # Asked once everything is listed, and before anything is deleted.
            if not answers:
                child.pipe.send("go")
                answers.extend(islice(child.messages(), 3))
            return 2_000_000

        files = StoreBackend(store=store, namespace=NAMESPACE, clock=clock)
        pruned = files.prune(keep=0)
        answers.extend(child.messages())
        edited = {path for path, success in answers if success}
        assert len(answers) == len(STABLE)
        assert set(by_glob(files)) == edited
        assert {info["path"] for info in pruned.files} == set(STABLE) - edited
        assert pruned.bytes == sum(len(f"old {path}") for path in set(STABLE) - edited)
        assert {match["text"] for match in files.grep("new").matches or []} == {
            f"new {path}" for path in edited
        }
