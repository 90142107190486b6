"""What has failed users of Deep Agents' own file backends, each as a test of what is right.

The comments say what Deep Agents 0.7 does. The weaknesses of routing are in ``test_composite.py``. Cases with
a number are those of ``tests/cases``, told of files.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom import InMemoryStore, SqliteStore
from stateroom.clock import ManualClock
from stateroom.files import FactoryBackend, StateBackend, StoreBackend, create_file_data, file_tools, listing
from stateroom.stores.items import Item
from stateroom.stores.operations import ListItemKeys, PutItem
from stateroom.stores.postgres import PostgresStore
from tests.conftest import NewSchema
from tests.files.others import SlowStore
from tests.files.test_running import within

N = ("tenant", "acme")
THREADS = 8
EDITS = 20
TASKS = 20
SECONDS = 30.0


@pytest.fixture(params=["memory", "SQLite", "Postgres", "LangGraph's memory", "slow"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    """Return a store of each kind."""
    if request.param in ("LangGraph's memory", "slow"):
        yield SlowStore() if request.param == "slow" else LangGraphInMemoryStore()
        return
    if request.param == "Postgres":
        new_schema: NewSchema = request.getfixturevalue("new_schema")
        made: Any = PostgresStore(request.getfixturevalue("postgres"), schema=new_schema())
    else:
        made = InMemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "memory.db")
    with made:
        yield made


@pytest.fixture
def backend(store: BaseStore) -> StoreBackend:
    return StoreBackend(store=store, namespace=N)


def names(backend: StoreBackend, path: str = "/") -> list[str]:
    result = backend.ls(path)
    assert result.error is None
    return [entry["path"] for entry in result.entries or []]


def text(backend: StoreBackend, path: str) -> str:
    result = backend.read(path, 0, 1_000_000)
    assert result.file_data is not None, result.error
    return result.file_data["content"]


def lines(backend: StoreBackend, pattern: str) -> list[tuple[str, int]]:
    result = backend.grep(pattern)
    assert result.error is None
    return [(match["path"], match["line"]) for match in result.matches or []]


# ---- 1. Edits that report success are lost: of 160 on Postgres 22 were there, of two tasks one.


def test_A16_edits_of_many_threads_that_succeed_are_all_kept(store: BaseStore) -> None:
    StoreBackend(store=store, namespace=N).write("/n.md", "HEAD|\n")
    start = threading.Barrier(THREADS, timeout=SECONDS)

    def edit(number: int) -> list[str]:
        own, made = StoreBackend(store=store, namespace=N), []
        start.wait()
        for part in range(EDITS):
            result = own.edit("/n.md", "HEAD|", f"HEAD|\n{number}-{part}")
            if result.error is None:
                made.append(f"{number}-{part}")
        return made

    with ThreadPoolExecutor(THREADS) as threads:
        succeeded = [item for made in threads.map(edit, range(THREADS)) for item in made]
    head, *kept = text(StoreBackend(store=store, namespace=N), "/n.md").splitlines()
    assert head == "HEAD|"
    assert sorted(kept) == sorted(succeeded)
    assert len(kept) == THREADS * EDITS


async def test_A16_edits_of_many_tasks_that_succeed_are_all_kept(store: BaseStore) -> None:
    backends = [StoreBackend(store=store, namespace=N) for _ in range(TASKS)]
    await backends[0].awrite("/n.md", "HEAD|\n")
    edits = (
        backend.aedit("/n.md", "HEAD|", f"HEAD|\nitem-{number}") for number, backend in enumerate(backends)
    )
    results = await asyncio.gather(*edits)
    read = await backends[0].aread("/n.md")
    assert read.file_data is not None
    head, *kept = read.file_data["content"].splitlines()
    assert head == "HEAD|"
    assert sorted(kept) == sorted(f"item-{n}" for n, result in enumerate(results) if result.error is None)
    assert len(kept) == TASKS


async def test_A16_a_writer_who_is_cancelled_stops_no_other(store: BaseStore) -> None:
    backend = StoreBackend(store=store, namespace=N)
    await backend.awrite("/n.md", "HEAD|")
    tasks = [
        asyncio.create_task(backend.aedit("/n.md", "HEAD|", f"HEAD|\nitem-{number}"))
        for number in range(TASKS)
    ]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), SECONDS)
    assert (await backend.aedit("/n.md", "HEAD|", "HEAD|\nlast")).error is None
    read = await backend.aread("/n.md")
    assert read.file_data is not None
    kept = set(read.file_data["content"].splitlines())
    done = {f"item-{n}" for n, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)}
    assert len(done) >= TASKS - len(tasks[::3])
    # Of who was cancelled nobody can say whether he had written.
    assert done <= kept
    assert "last" in kept


# ---- 2. So are edits by the tools: of two agents' 100 edits 63 were there.


def test_edits_of_two_agents_by_their_tools_are_all_kept(store: BaseStore) -> None:
    StoreBackend(store=store, namespace=N).write("/n.md", "HEAD|\n")
    start = threading.Barrier(2, timeout=SECONDS)

    def agent(number: int) -> list[str]:
        tools = {tool.name: tool for tool in file_tools(StoreBackend(store=store, namespace=N))}
        start.wait()
        answers = []
        for part in range(EDITS):
            arguments = {"old_string": "HEAD|", "new_string": f"HEAD|\n{number}-{part}"}
            answers.append(tools["edit_file"].invoke({"file_path": "/n.md", **arguments}))
        return answers

    with ThreadPoolExecutor(2) as threads:
        answers = [answer for told in threads.map(agent, range(2)) for answer in told]
    assert not [answer for answer in answers if "rror" in answer]
    assert len(text(StoreBackend(store=store, namespace=N), "/n.md").splitlines()) == 1 + 2 * EDITS


# ---- 3. Listings lose files: 1,000 written in one batch and 334 written again leave 66 that are never seen.


def test_files_of_one_moment_are_all_listed(store: BaseStore, backend: StoreBackend) -> None:
    paths = {f"/{number % 7}/{number:04}.md" for number in range(1_003)}
    puts = [PutOp(N, path, create_file_data("needle")) for path in sorted(paths)]
    store.batch(puts)
    store.batch(puts[::3])
    for _ in range(2):
        listed = [path for number in range(7) for path in names(backend, f"/{number}")]
        assert sorted(listed) == sorted(paths)
        assert {info["path"] for info in backend.glob("*.md").matches or []} == paths
        assert {path for path, _ in lines(backend, "needle")} == paths
        for path in sorted(paths)[::50]:
            backend.write(path, "needle")
    for number in range(7):
        assert backend.delete(f"/{number}").error is None
    assert backend.usage() == (0, 0)


class BusyStore(InMemoryStore):
    """A store in which other files are edited whenever a page is listed."""

    @override
    def batch(self, ops: Any) -> list[Any]:
        asked = list(ops)
        if any(isinstance(each, ListItemKeys) for each in asked):
            page = super().batch([ListItemKeys(N, values=True)])[0]
            super().batch([PutItem(N, entry.key, entry.value) for entry in page[::5]])
        return super().batch(asked)


def test_files_that_are_edited_while_others_are_listed_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 10)
    backend = StoreBackend(store=BusyStore(), namespace=N)
    paths = [f"/{number:03}.md" for number in range(95)]
    backend.upload_files([(path, b"needle") for path in paths])
    assert names(backend) == paths
    assert sorted(info["path"] for info in backend.glob("*.md").matches or []) == paths
    assert [path for path, _ in lines(backend, "needle")] == paths


# ---- 4. A namespace shows the files of those below it, with their text, and says that it has deleted them.


@pytest.mark.parametrize(
    "neighbour", [(*N, "eu"), ("tenant", "acme-corp"), ("tenant", "acm"), ("tenant",), ("tenant.acme",)]
)
def test_A02_files_of_a_neighbour_are_neither_seen_nor_deleted(
    store: BaseStore, backend: StoreBackend, neighbour: tuple[str, ...]
) -> None:
    theirs = StoreBackend(store=store, namespace=neighbour)
    theirs.write("/secret.md", "their needle")
    theirs.write("/same.md", "their needle")
    backend.write("/same.md", "own needle")
    assert names(backend) == ["/same.md"]
    assert [info["path"] for info in backend.glob("**").matches or []] == ["/same.md"]
    assert lines(backend, "needle") == [("/same.md", 1)]
    assert lines(backend, "their") == []
    assert backend.search("their").matches == []
    assert backend.delete("/secret.md").error == "Error: File '/secret.md' not found"
    assert backend.prune(keep=0).error is None
    assert names(theirs) == ["/same.md", "/secret.md"]


# ---- 5. Written to the name of a route, the key "/" hides every other file from grep and glob.


def test_the_root_is_no_file_and_a_file_of_that_name_hides_nothing(
    store: BaseStore, backend: StoreBackend
) -> None:
    backend.write("/a.md", "needle")
    for path in ("/", "", "//", "/./"):
        assert "names a directory" in (backend.write(path, "poison").error or "")
    store.batch([PutOp(N, "/", create_file_data("needle"))])
    assert lines(backend, "needle") == [("/a.md", 1)]
    assert [info["path"] for info in backend.glob("**/*").matches or []] == ["/a.md"]
    assert names(backend) == ["/a.md"]


# ---- 6. The edges


@pytest.mark.parametrize(
    "namespace", [("alice@example.com", "filesystem"), ("langgraph", "files"), ("v1.2", "a b", "Ünï")]
)
def test_an_identity_may_hold_dots_and_be_called_like_a_framework(
    store: BaseStore, namespace: tuple[str, ...]
) -> None:
    # Every operation raises InvalidNamespaceError there, though the backend has taken the namespace.
    backend = StoreBackend(store=store, namespace=namespace)
    assert backend.write("/a.md", "needle").error is None
    assert (names(backend), lines(backend, "needle")) == (["/a.md"], [("/a.md", 1)])
    assert backend.edit("/a.md", "needle", "x").error is None
    assert backend.delete("/a.md").error is None


@pytest.mark.parametrize(
    "value", [{"content": 5}, {"content": {"a": 1}}, {"text": "no content"}, {"content": None}, {}]
)
def test_one_item_that_is_no_file_breaks_nothing_and_can_be_replaced(
    store: BaseStore, backend: StoreBackend, value: dict[str, Any]
) -> None:
    # There one item with a number as its content makes ls, glob and grep raise for the whole namespace.
    backend.write("/a.md", "needle")
    store.batch([PutOp(N, "/odd.md", value)])
    assert (names(backend), lines(backend, "needle")) == (["/a.md"], [("/a.md", 1)])
    assert "is no file" in (backend.read("/odd.md").error or "")
    assert backend.write("/odd.md", "needle").error is None
    assert names(backend) == ["/a.md", "/odd.md"]


def test_every_file_that_can_be_written_is_listed(backend: StoreBackend) -> None:
    # A path without its slash is stored as it is there, and never listed.
    for path in ("rel.md", "./dot.md", "//double.md", "~/home.md"):
        assert backend.write(path, "needle").error is None
    assert names(backend) == ["/dot.md", "/double.md", "/rel.md", "/~/"]
    assert len(lines(backend, "needle")) == 4
    for path in ("/d/", "/a/../b.md", "C:\\x.md", "/nul\0.md", "/\ud800.md"):
        assert (backend.write(path, "x").error or "").startswith("Error: file_path")


def test_a_file_and_a_directory_have_different_names(backend: StoreBackend) -> None:
    backend.write("/a", "x")
    assert "is a file" in (backend.write("/a/b.md", "x").error or "")
    backend.write("/d/b.md", "x")
    is_known = backend.is_conditional
    assert ("is a directory" in (backend.write("/d", "x").error or "")) is is_known


def test_an_edit_finds_what_read_shows_of_line_ends(backend: StoreBackend) -> None:
    # Refused there: read shows line feeds, edit looks for what is stored.
    backend.upload_files([("/crlf.md", b"one\r\ntwo\r\nthree\r\n")])
    assert text(backend, "/crlf.md") == "one\ntwo\nthree\n"
    assert backend.edit("/crlf.md", "one\ntwo\n", "1\n2\n").error is None
    assert backend.download_files(["/crlf.md"])[0].content == b"1\r\n2\r\nthree\r\n"


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\r"])
def test_grep_and_read_count_lines_alike(backend: StoreBackend, odd: str) -> None:
    # There read ends lines at each of these, and grep at line feeds alone.
    backend.write("/f.md", f"one{odd}two\nneedle{odd}\nend")
    ((path, number),) = lines(backend, "needle")
    result = backend.read(path, number - 1, 1)
    assert result.file_data is not None
    assert result.file_data["content"] == f"needle{odd}\n".replace("\r\n", "\n")


def test_text_that_a_database_cannot_hold_is_answered(backend: StoreBackend) -> None:
    # The database's own error comes out of the backend there.
    backend.write("/a.md", "x")
    for bad in ("a\0b", "\ud800"):
        assert backend.write("/a.md", bad).error is not None
        assert backend.edit("/a.md", "x", bad).error is not None
    assert text(backend, "/a.md") == "x"


def test_an_error_of_an_edit_is_short_and_an_edit_changes_something(backend: StoreBackend) -> None:
    # 100 KB of old_string come back in the message there, and old_string may be new_string.
    backend.write("/a.md", "x")
    assert len(backend.edit("/a.md", "y" * 100_000, "z").error or "") < 600
    assert "the same" in (backend.edit("/a.md", "x", "x").error or "")


# ---- 8. To list is to keep alive: one ls writes the expiry of every file, so that nothing ever expires.


def test_files_that_are_only_listed_expire() -> None:
    clock = ManualClock()
    store = InMemoryStore(ttl={"default_ttl": 60, "refresh_on_read": True}, clock=clock)
    backend = StoreBackend(store=store, namespace=N, clock=clock)
    backend.upload_files([(f"/{number}.md", b"needle") for number in range(50)])
    for _ in range(3):
        clock.advance(minutes=19)
        assert backend.ls("/nothing-here").entries == []
        assert len(names(backend)) == len(lines(backend, "needle")) == 50
        assert text(backend, "/7.md") == "needle"
    clock.advance(minutes=4)
    assert names(backend) == ["/7.md"]


# ---- 10. What is missing there altogether


def test_old_files_can_be_pruned_and_bounded_and_found_by_what_they_say() -> None:
    clock = ManualClock()
    backend = StoreBackend(store=InMemoryStore(clock=clock), namespace=N, clock=clock, max_files=2)
    backend.write("/old.md", "The customer prefers tea")
    clock.advance(minutes=60 * 24 * 40)
    backend.write("/new.md", "The customer lives in Lisbon")
    assert backend.write("/third.md", "x").error is not None
    assert [hit["path"] for hit in backend.search("preference for tea").matches or []][:1] == ["/old.md"]
    pruned = backend.prune(older_than=timedelta(days=30))
    assert [info["path"] for info in pruned.files] == ["/old.md"]
    assert backend.write("/third.md", "x").error is None


def test_a_query_is_for_what_files_say_and_not_for_how_they_are_kept() -> None:
    for file_format in ("v1", "v2"):
        backend = StoreBackend(store=InMemoryStore(), namespace=N, file_format=file_format)
        backend.write("/a.md", "giraffe")
        backend.upload_files([("/b", b"\xff")])
        now = text_of_time(backend)
        for query in ("utf", "utf-8", "base64", "content", "created_at", now, now[:4]):
            assert backend.search(query).matches == [], query


def text_of_time(backend: StoreBackend) -> str:
    data = backend.read("/a.md").file_data
    assert data is not None
    return data["modified_at"]


# ---- public complaints


def test_several_edits_of_a_file_are_one_change(backend: StoreBackend) -> None:
    # deepagentsjs 869
    backend.write("/a.md", "one two")
    assert backend.multi_edit("/a.md", [("one", "1"), ("absent", "x")]).error is not None
    assert text(backend, "/a.md") == "one two"
    assert backend.multi_edit("/a.md", [("one", "1"), ("two", "2")]).occurrences == 2
    assert text(backend, "/a.md") == "1 2"


def test_bytes_that_went_through_javascript_are_files(store: BaseStore, backend: StoreBackend) -> None:
    # deepagentsjs 642: one such item makes ls, glob, grep and read raise for the whole namespace.
    backend.write("/a.md", "needle")
    value = {"content": {"0": 137, "1": 80}, "mimeType": "image/png", "created_at": "", "modified_at": ""}
    store.batch([PutOp(N, "/picture.png", value)])
    assert names(backend) == ["/a.md", "/picture.png"]
    assert lines(backend, "needle") == [("/a.md", 1)]
    assert backend.download_files(["/picture.png"])[0].content == b"\x89P"


def test_bytes_stay_bytes_in_a_store_and_in_a_state(backend: StoreBackend) -> None:
    # deepagents 4563 and 3657: corrupted in a state, and read as text.
    data = bytes(range(256))
    seen: list[Any] = []

    def node() -> None:
        state = StateBackend()
        state.upload_files([("/a.bin", data)])
        seen.append((state.download_files(["/a.bin"])[0].content, state.read("/a.bin").file_data))

    within(node)
    backend.upload_files([("/a.bin", data)])
    seen.append((backend.download_files(["/a.bin"])[0].content, backend.read("/a.bin").file_data))
    for content, read in seen:
        assert content == data
        assert read["encoding"] == "base64"


def test_writing_replaces_what_is_there(backend: StoreBackend) -> None:
    # deepagents 3731, deepagentsjs 225: refused before 0.7.
    backend.write("/a.md", "one")
    assert backend.write("/a.md", "two").error is None
    assert text(backend, "/a.md") == "two"


def test_factories_and_the_default_namespace_work_as_documented() -> None:
    # open-swe 1806: a factory is a TypeError since 0.7, and a namespace must be named.
    store = InMemoryStore()
    backend = FactoryBackend(lambda config: StoreBackend(config))
    config = {"configurable": {"assistant_id": "helpdesk"}}
    assert within(lambda: backend.write("/preferences.txt", "tea").error, config, store=store) is None
    item = store.get(("helpdesk", "filesystem"), "/preferences.txt")
    assert isinstance(item, Item)
    assert item.value["content"] == ["tea"]


def test_patterns_mean_the_same_in_a_store_and_in_a_state(backend: StoreBackend) -> None:
    # deepagents 3922
    paths = ["/a.md", "/.b.md", "/d/c.md", "/d/.e/f.md", "/d/g.txt", "/[x].md"]
    patterns = ["*.md", "**/*.md", "/*.md", "d/**", "**", ".*", "d/.e/*", "[[]x].md", "{a,c}.md", "/d/*"]
    found: list[list[list[str]]] = []

    def globbed(each: Any) -> None:
        for path in paths:
            each.write(path, path)
        found.append([sorted(info["path"] for info in each.glob(pattern).matches) for pattern in patterns])

    within(lambda: globbed(StateBackend()))
    globbed(backend)
    assert found[0] == found[1]


# ---- other cases of users, told of files


@pytest.mark.parametrize(
    "name",
    [
        "my-doc.md#0",
        "a.b",
        "a/b",
        "user@example.org",
        "x|y",
        "it's",
        "100%",
        "naïve 😀",
        " lead",
        "a\\b",
        "{x}",
    ],
)
def test_A31_a_file_of_any_name_can_be_written_found_and_deleted(backend: StoreBackend, name: str) -> None:
    path = f"/{name}"
    assert backend.write(path, "needle").path == path
    assert text(backend, path) == "needle"
    assert lines(backend, "needle") == [(path, 1)]
    assert [hit["path"] for hit in backend.search("needle").matches or []] == [path]
    assert backend.edit(path, "needle", "new").path == path
    assert backend.delete(path).path == path
    assert backend.read(path).error == f"File '{path}' not found"


def test_A27_changing_an_object_changes_no_file(store: BaseStore, backend: StoreBackend) -> None:
    value = create_file_data("one")
    StoreBackend(store=store, namespace=N).upload_files([("/a.md", b"one")])
    store.batch([PutOp(N, "/b.md", dict(value))])
    for path in ("/a.md", "/b.md"):
        data = backend.read(path).file_data
        assert data is not None
        data["content"] = "changed"
        (backend.ls("/").entries or [])[0]["path"] = "/changed"
        assert text(backend, path) == "one"
    assert names(backend) == ["/a.md", "/b.md"]
