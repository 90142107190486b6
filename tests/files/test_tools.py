"""File tools as a model meets them: what they take, what they answer, what they refuse."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.tools import BaseTool
from pydantic import BaseModel
from typing_extensions import override

from stateroom import InMemoryStore, SqliteStore
from stateroom.errors import InvalidInput, Misconfigured, OutsideGraph
from stateroom.files import CompositeBackend, FilePermission, StateBackend, StoreBackend, file_tools
from stateroom.files.protocol import BackendProtocol, LsResult, ReadResult

ANA = ("ana", "filesystem")
NAMES = [
    "ls",
    "read_file",
    "write_file",
    "edit_file",
    "multi_edit_file",
    "delete",
    "glob",
    "grep",
    "search_files",
]


@pytest.fixture
def backend() -> StoreBackend:
    return StoreBackend(store=InMemoryStore(), namespace=ANA)


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Asking:
    """Calls tools by name, sync or async."""

    def __init__(self, tools: list[BaseTool], mode: str) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.mode = mode

    async def __call__(self, name: str, **arguments: Any) -> Any:
        tool = self.tools[name]
        return tool.invoke(arguments) if self.mode == "sync" else await tool.ainvoke(arguments)


@pytest.fixture
def ask(backend: StoreBackend, mode: str) -> Asking:
    return Asking(file_tools(backend), mode)


class ReadOnly(BackendProtocol):
    """Somebody else's backend, which can list and read, and nothing more."""

    @override
    def ls(self, path: str) -> LsResult:
        return LsResult(entries=[{"path": path + "a.txt"}])

    @override
    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return ReadResult(error="file_not_found")


class Older:
    """A backend of another protocol, with other names for its arguments, and with lists for results."""

    def ls(self, where: str) -> list[dict[str, Any]]:
        return [{"path": where + "b.txt"}]

    def read(self, what: str, skip: int, most: int) -> str:
        return f"Error: {what} {skip} {most}"

    def write(self, what: str, content: str) -> None:
        raise NotImplementedError

    def grep(self, text: str, path: str | None, glob: str | None) -> list[dict[str, Any]]:
        return [{"path": path, "line": 1, "text": f"{text} {glob}"}]


def test_tools_have_the_names_and_arguments_of_deep_agents(backend: StoreBackend) -> None:
    from deepagents.middleware.filesystem import FilesystemMiddleware

    ours = {tool.name: tool for tool in file_tools(backend)}
    assert list(ours) == NAMES
    # The type checker takes our stand-ins for the protocol, whether or not Deep Agents is installed.
    theirs_all = FilesystemMiddleware(backend=cast(Any, backend)).tools
    for theirs in theirs_all:
        if theirs.name == "execute":
            continue
        mine = ours[theirs.name]
        assert list(mine.args) == list(theirs.args), theirs.name
        for name, argument in theirs.args.items():
            assert mine.args[name].get("default") == argument.get("default"), (theirs.name, name)
    schema = ours["read_file"].tool_call_schema
    assert isinstance(schema, type)
    assert issubclass(schema, BaseModel)
    assert set(schema.model_fields) == {"file_path", "offset", "limit"}


async def test_a_file_goes_through_its_life(ask: Asking) -> None:
    assert await ask("ls", path="/") == "No files found"
    assert (
        await ask("write_file", file_path="notes//a.md", content="one\ntwo\n") == "Updated file /notes/a.md"
    )
    assert await ask("ls", path="/") == "/notes/"
    assert await ask("read_file", file_path="/notes/a.md") == "[lines 1-2 of 2]\none\ntwo\n"
    edited = await ask("edit_file", file_path="/notes/a.md", old_string="two", new_string="three")
    assert edited == "Successfully replaced 1 instance(s) of the string in '/notes/a.md'"
    edits = [
        {"old_string": "one", "new_string": "e"},
        {"old_string": "e", "new_string": "E", "replace_all": True},
    ]
    many = await ask("multi_edit_file", file_path="/notes/a.md", edits=edits)
    assert many == "Successfully made 2 edit(s) in '/notes/a.md', which replaced 4 instance(s)"
    assert await ask("read_file", file_path="/notes/a.md") == "[lines 1-2 of 2]\nE\nthrEE\n"
    assert await ask("glob", pattern="*.md") == "/notes/a.md"
    assert await ask("glob", pattern="*.txt") == "No files found"
    assert await ask("delete", file_path="/notes") == "Deleted /notes"
    assert await ask("delete", file_path="/notes") == "Error: File '/notes' not found"


async def test_grep_shows_paths_lines_or_counts(ask: Asking) -> None:
    await ask("write_file", file_path="/a.md", content="tea\ncoffee\ntea and milk")
    await ask("write_file", file_path="/b.txt", content="more tea")
    assert await ask("grep", pattern="tea") == "/a.md\n/b.txt"
    assert await ask("grep", pattern="tea", glob="*.md", output_mode="count") == "/a.md: 2"
    lines = await ask("grep", pattern="tea", output_mode="content", max_count=2)
    assert lines == (
        "/a.md:1: tea\n/a.md:3: tea and milk\n"
        "[there are more: raise max_count, or use a narrower pattern, path or glob]"
    )
    assert await ask("grep", pattern="tea", path="/b.txt", output_mode="content") == "/b.txt:1: more tea"
    assert await ask("grep", pattern="T.a") == "No matches found"


async def test_grep_finds_a_thousand_lines_unless_told_otherwise(ask: Asking) -> None:
    await ask("write_file", file_path="/a.txt", content="x\n" * 1_001)
    found = await ask("grep", pattern="x", output_mode="count")
    assert found.splitlines()[0] == "/a.txt: 1000"
    assert "there are more" in found
    assert await ask("grep", pattern="x", output_mode="count", max_count=1_001) == "/a.txt: 1001"


async def test_search_ranks_files_with_the_line_that_fits(ask: Asking) -> None:
    await ask("write_file", file_path="/food.md", content="# Food\nNo meat for Ana.")
    await ask("write_file", file_path="/trip.md", content="# Trip\nA train to Lisbon.")
    assert await ask("search_files", query="lisbon train") == "/trip.md:2: A train to Lisbon."
    assert await ask("search_files", query="lisbon", path="/elsewhere") == "No matches found"
    assert await ask("search_files", query=" ") == "Error: query is ' '; pass what to look for"


async def test_reading_says_which_lines_and_how_to_go_on(ask: Asking) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 251))
    await ask("write_file", file_path="/long.txt", content=text)
    first = await ask("read_file", file_path="/long.txt")
    assert first.splitlines()[:2] == ["[lines 1-100 of 250; go on with offset=100]", "line 1"]
    assert first.endswith("line 100\n")
    last = await ask("read_file", file_path="/long.txt", offset=200, limit=100)
    assert last.splitlines()[:2] == ["[lines 201-250 of 250]", "line 201"]
    beyond = await ask("read_file", file_path="/long.txt", offset=250)
    assert beyond == "Error: Line offset 250 exceeds file length (250 lines)"
    assert "limit of 1 or more" in await ask("read_file", file_path="/long.txt", limit=0)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("", "'/a.txt' is empty."),
        (" \n\n", "[lines 1-2 of 2]\n \n\n"),
        ("no end", "[lines 1-1 of 1]\nno end"),
        ("a\r\nb\r\n", "[lines 1-2 of 2]\na\nb\n"),
        ("[lines 1-9 of 9]\n", "[lines 1-1 of 1]\n[lines 1-9 of 9]\n"),
    ],
)
async def test_the_text_below_the_header_is_the_file_s(ask: Asking, content: str, shown: str) -> None:
    await ask("write_file", file_path="/a.txt", content=content)
    assert await ask("read_file", file_path="/a.txt") == shown


async def test_what_is_read_is_cut_at_a_line_and_goes_on_there(ask: Asking) -> None:
    lines = [f"{number:04} " + "x" * 995 + "\n" for number in range(100)]
    await ask("write_file", file_path="/big.txt", content="".join(lines))
    first = await ask("read_file", file_path="/big.txt")
    header, _, shown = first.partition("\n")
    assert (header, shown) == ("[lines 1-79 of 100; go on with offset=79]", "".join(lines[:79]))
    second = await ask("read_file", file_path="/big.txt", offset=79)
    assert second == "[lines 80-100 of 100]\n" + "".join(lines[79:])


async def test_of_a_line_that_is_too_long_the_beginning_is_shown(ask: Asking) -> None:
    await ask("write_file", file_path="/wide.txt", content="y" * 80_001 + "\nnext")
    header, _, shown = (await ask("read_file", file_path="/wide.txt")).partition("\n")
    assert header == (
        "[lines 1-1 of 2; line 1 is longer than this and goes on; find parts with grep; go on with offset=1]"
    )
    assert shown == "y" * 80_000


async def test_long_lists_are_cut_and_say_so(ask: Asking, backend: StoreBackend) -> None:
    backend.upload_files([(f"/{number:04}{'n' * 95}", b"x") for number in range(900)])
    for listing in (
        await ask("ls", path="/"),
        await ask("glob", pattern="*"),
        await ask("grep", pattern="x"),
    ):
        assert len(listing) < 80_200
        *shown, last = listing.splitlines()
        assert last.startswith(f"[{900 - len(shown)} more are not shown: ")
        assert len(shown) == 792


async def test_one_line_that_is_too_long_for_a_list_is_cut_too(ask: Asking) -> None:
    await ask("write_file", file_path="/wide.txt", content="z" * 100_000 + "\nz")
    shown, last = (await ask("grep", pattern="z", output_mode="content")).splitlines()
    assert len(shown) == 80_000
    assert last.startswith("[cut here, and 1 more are not shown: ")


async def test_binary_files_are_content_blocks(ask: Asking, backend: StoreBackend) -> None:
    data = b"\x89PNG\xff\x00"
    backend.upload_files([(f"/x.{suffix}", data) for suffix in ("png", "mp3", "mp4", "pdf", "bin")])
    for suffix, kind, mime_type in (
        ("png", "image", "image/png"),
        ("mp3", "file", "audio/mpeg"),
        ("mp4", "file", "video/mp4"),
        ("pdf", "file", "application/pdf"),
        ("bin", "file", "application/octet-stream"),
    ):
        (block,) = await ask("read_file", file_path=f"/x.{suffix}")
        assert block == {"type": kind, "base64": base64.b64encode(data).decode(), "mime_type": mime_type}


async def test_arguments_that_do_not_fit_are_answered_readably(ask: Asking, backend: StoreBackend) -> None:
    for name, arguments, blamed in (
        ("read_file", {"file_path": "/a", "offset": "many"}, "offset: "),
        ("read_file", {}, "file_path: "),
        ("grep", {"pattern": "x", "max_count": 0}, "max_count: "),
        ("grep", {"pattern": "x", "output_mode": "lines"}, "output_mode: "),
        ("multi_edit_file", {"file_path": "/a", "edits": [{"old_string": "a"}]}, "edits.0.new_string: "),
    ):
        answer = await ask(name, **arguments)
        assert answer.startswith(f"Error: {blamed}"), answer
    assert backend.usage().files == 0


@pytest.mark.parametrize("path", ["/a/../b", "/nul\0", "/", "/dir/", ""])
async def test_paths_that_cannot_be_written_are_answered(ask: Asking, path: str) -> None:
    answer = await ask("write_file", file_path=path, content="x")
    assert answer.startswith("Error: file_path ")


async def test_a_message_of_an_error_says_that_it_is_one(ask: Asking) -> None:
    call = {"name": "read_file", "args": {"file_path": "/no.txt"}, "id": "1", "type": "tool_call"}
    message = ask.tools["read_file"].invoke(call)
    assert (message.status, message.content) == ("error", "Error: File '/no.txt' not found")
    call = {"name": "ls", "args": {"path": "/"}, "id": "2", "type": "tool_call"}
    assert ask.tools["ls"].invoke(call).status == "success"


async def test_what_is_no_matter_of_the_model_is_raised(mode: str, tmp_path: Path) -> None:
    with pytest.raises(OutsideGraph):
        await Asking(file_tools(StateBackend()), mode)("ls", path="/")
    (tmp_path / "no.db").write_text("This is no database.")
    ask = Asking(file_tools(StoreBackend(store=SqliteStore(tmp_path / "no.db"), namespace=ANA)), mode)
    with pytest.raises(Misconfigured, match="is not an SQLite database"):
        await ask("read_file", file_path="/a")


def test_tools_are_chosen_by_name(backend: StoreBackend) -> None:
    assert [tool.name for tool in file_tools(backend, tools=["grep", "ls", "grep"])] == ["grep", "ls"]
    assert file_tools(backend, tools=[]) == []
    with pytest.raises(InvalidInput, match="'grap'; there are ls, read_file") as caught:
        file_tools(backend, tools=["ls", "grap"])
    assert caught.value.field == "tools[1]"
    with pytest.raises(InvalidInput, match="list of names") as caught:
        file_tools(backend, tools="ls")
    assert caught.value.field == "tools"


async def test_a_backend_of_somebody_else_has_the_tools_that_it_offers(mode: str) -> None:
    tools = file_tools(ReadOnly())
    assert [tool.name for tool in tools] == ["ls", "read_file"]
    ask = Asking(tools, mode)
    assert await ask("ls", path="/") == "/a.txt"
    assert await ask("read_file", file_path="/a.txt") == "Error: file_not_found"
    with pytest.raises(InvalidInput, match="does not offer") as caught:
        file_tools(ReadOnly(), tools=["search_files"])
    assert caught.value.field == "tools[0]"


async def test_a_backend_of_an_older_protocol_is_asked_as_it_can_be(mode: str) -> None:
    backend: Any = Older()
    ask = Asking(file_tools(backend), mode)
    assert list(ask.tools) == ["ls", "read_file", "write_file", "grep"]
    assert await ask("ls", path="/") == "/b.txt"
    assert await ask("read_file", limit=7, offset=3, file_path="/a") == "Error: /a 3 7"
    assert await ask("write_file", content="x", file_path="/a") == "Error: writing is not supported for '/a'."
    assert await ask("grep", pattern="x", path="/p", glob="*.md", output_mode="content") == "/p:1: x *.md"


async def test_a_factory_is_asked_at_every_call(mode: str) -> None:
    store = InMemoryStore()
    asked = []

    def factory(config: Any) -> StoreBackend:
        asked.append(dict(config))
        return StoreBackend(config, store=store)

    tools = {tool.name: tool for tool in file_tools(factory)}
    assert list(tools) == NAMES
    assert asked == []
    tools["write_file"].invoke(
        {"file_path": "/a", "content": "x"}, {"configurable": {"assistant_id": "scribe"}}
    )
    assert len(asked) > 0
    assert store.get(("scribe", "filesystem"), "/a") is not None
    assert await Asking(list(tools.values()), mode)("ls", path="/") == "No files found"


@pytest.mark.parametrize("backend", [None, "files", StoreBackend])
def test_what_is_no_backend_is_refused(backend: Any) -> None:
    with pytest.raises(Misconfigured) as caught:
        file_tools(backend)
    assert caught.value.field == "backend"


async def test_permissions_hold(mode: str, backend: StoreBackend) -> None:
    backend.upload_files([("/rules/a.md", b"rule"), ("/secret/b.md", b"rule"), ("/c.md", b"rule")])
    rules = [
        FilePermission(operations=["read", "write"], paths=["/secret/**"], mode="deny"),
        FilePermission(operations=["write"], paths=["/rules/**"], mode="deny"),
    ]
    ask = Asking(file_tools(backend, permissions=rules), mode)
    assert await ask("grep", pattern="rule") == "/c.md\n/rules/a.md"
    assert (await ask("read_file", file_path="/secret/b.md")).startswith("Error: permission denied for read")
    for name, arguments in (
        ("write_file", {"content": "x"}),
        ("edit_file", {"old_string": "rule", "new_string": "x"}),
        ("multi_edit_file", {"edits": [{"old_string": "rule", "new_string": "x"}]}),
        ("delete", {}),
    ):
        answer = await ask(name, file_path="/rules/a.md", **arguments)
        assert answer.startswith("Error: permission denied for write on /rules/a.md"), name
    assert await ask("read_file", file_path="/rules/a.md") == "[lines 1-1 of 1]\nrule"


def test_permissions_leave_out_no_tool_and_add_none(backend: StoreBackend) -> None:
    rule = FilePermission(operations=["write"], paths=["/**"], mode="deny")
    assert [tool.name for tool in file_tools(backend, permissions=[rule])] == NAMES
    assert [tool.name for tool in file_tools(ReadOnly(), permissions=[rule])] == ["ls", "read_file"]


async def test_tools_serve_a_composite(mode: str) -> None:
    store = InMemoryStore()
    outer = StoreBackend(store=store, namespace=("outer",))
    inner = StoreBackend(store=store, namespace=("inner",))
    ask = Asking(file_tools(CompositeBackend(outer, {"/memories/": inner})), mode)
    await ask("write_file", file_path="/memories/a.md", content="tea")
    assert await ask("ls", path="/") == "/memories/"
    assert await ask("glob", pattern="*.md") == "/memories/a.md"
    assert await ask("search_files", query="tea") == "/memories/a.md:1: tea"
    assert store.get(("inner",), "/a.md") is not None
