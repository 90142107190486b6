"""Files on Postgres while its connections are cut: what an edit said is so, and no edit is made twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from stateroom.errors import Unavailable
from stateroom.files import StoreBackend
from stateroom.stores.postgres import PostgresStore
from tests.conftest import NewSchema
from tests.faults.conftest import Start
from tests.faults.programs.files_children import HEAD, NOTE, added, edit_note
from tests.faults.programs.files_histories import NAMESPACE
from tests.faults.watching import Watch, named, until

EDITORS, EDITS = 4, 40
CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"

Edit = Callable[[StoreBackend, str, str], object]


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture
def files(watch: Watch) -> Iterator[StoreBackend]:
    """Return files with a note in them, on a store whose sessions ``watch`` does not see."""
    with PostgresStore(watch.uri, schema=watch.name) as store:
        files = StoreBackend(store=store, namespace=NAMESPACE)
        files.write(NOTE, HEAD)
        yield files


@pytest.fixture
def cut_off(watch: Watch, files: StoreBackend) -> Iterator[StoreBackend]:
    """Return the same files on a store of one session, which ``watch`` sees."""
    assert files
    uri = named(watch.uri, watch.name)
    with PostgresStore(uri, schema=watch.name, pool={"min_size": 1, "max_size": 1}) as store:
        yield StoreBackend(store=store, namespace=NAMESPACE)


def edit(files: StoreBackend, old: str, new: str) -> object:
    return files.edit(NOTE, old, new)


def aedit(files: StoreBackend, old: str, new: str) -> object:
    return asyncio.run(files.aedit(NOTE, old, new))


def lines(files: StoreBackend) -> list[str]:
    """Return the lines below the head of the note."""
    (response,) = files.download_files([NOTE])
    head, *rest = (response.content or b"").decode().splitlines()
    assert f"{head}\n" == HEAD
    return rest


@pytest.mark.parametrize("act", [edit, aedit])
def test_an_edit_that_is_cut_while_it_writes_is_said_to_have_failed_and_has(
    files: StoreBackend, cut_off: StoreBackend, watch: Watch, act: Edit
) -> None:
    act(cut_off, HEAD, f"{HEAD}first\n")
    with ThreadPoolExecutor(1) as thread:
        # The file can be read, and not be written.
        with watch.holding("lock table {}.item in share mode"):
            running = thread.submit(act, cut_off, HEAD, f"{HEAD}second\n")
            until(watch.waiting)
            assert watch.cut_waiting() == 1
            with pytest.raises(Unavailable) as raised:
                running.result()
        assert raised.value.retryable
    assert lines(files) == ["first"]
    act(cut_off, HEAD, f"{HEAD}second\n")
    assert lines(files) == ["second", "first"]


@pytest.mark.parametrize("together", [0, 8], ids=["edit", "aedit"])
def test_edits_of_several_processes_whose_connections_are_cut_are_kept_as_they_said(
    start: Start, files: StoreBackend, watch: Watch, together: int
) -> None:
    place = named(watch.uri, watch.name), watch.name
    names = [f"process-{each}" for each in range(EDITORS)]
    children = [start(edit_note, place, name, range(EDITS), added, together) for name in names]
    assert [child.pipe.recv() for child in children] == ["ready"] * EDITORS
    for child in children:
        child.pipe.send("go")
    cuts = 0
    while not all(child.pipe.poll() for child in children):
        # Between two cuts something gets done, so that there is something to lose.
        before = len(lines(files))
        while len(lines(files)) == before and not all(child.pipe.poll() for child in children):
            pass
        # Some may end by themselves meanwhile.
        cuts += sum(was_cut for (was_cut,) in watch.execute(CUT, watch.name))
    succeeded = [line for child in children for (done,) in [[*child.messages()]] for line in done]
    assert cuts > 1
    there = lines(files)
    assert len(there) == len(set(there)), "an edit was made twice"
    assert set(succeeded) <= set(there), "an edit that succeeded is lost"
    assert set(there) <= {f"{name}-{number}" for name in names for number in range(EDITS)}


def test_an_upload_that_is_cut_while_it_writes_leaves_nothing_or_everything(
    files: StoreBackend, cut_off: StoreBackend, watch: Watch
) -> None:
    some = [(f"/up/{number}.md", b"tide") for number in range(50)]
    with ThreadPoolExecutor(1) as thread, watch.holding("lock table {}.item in share mode"):
        running = thread.submit(cut_off.upload_files, some)
        until(watch.waiting)
        assert watch.cut_waiting() == 1
        # All were new, and to put them again might replace what somebody else has written since.
        with pytest.raises(Unavailable):
            running.result()
    assert files.ls("/up").entries == []
    assert [response.error for response in cut_off.upload_files(some)] == [None] * 50
    assert len(files.ls("/up").entries or []) == 50
