"""The documented uses of long-term memory, with Deep Agents itself and a store that is opened anew."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore

from stateroom import SearchItem, SqliteStore
from stateroom.files import create_file_data, file_data_to_string

EXAMPLES = Path(__file__).parents[2] / "examples" / "deep_agents"
FILES = ("scribe", "filesystem")

MODES = [
    pytest.param({}, id="instance-sync"),
    pytest.param({"asynchronous": True}, id="instance-async"),
    pytest.param({"as_factory": True}, id="factory-sync"),
    pytest.param({"as_factory": True, "asynchronous": True}, id="factory-async"),
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return tmp_path / "memory.db"


@pytest.fixture(params=MODES)
def desk(request: pytest.FixtureRequest, path: Path) -> Any:
    return importlib.import_module("desk").Desk(path, **request.param)


def play(name: str, desk: Any, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Play a journey; return what it says by the first word of each line."""
    importlib.import_module(name).journey(desk)
    return {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}


def stored(path: Path) -> dict[str, SearchItem]:
    """Return all items of the store by key, which is opened anew for it."""
    with SqliteStore(path) as store:
        assert store.list_namespaces() == [FILES]
        return {item.key: item for item in store.search(FILES, limit=100)}


def check_file_data(value: Mapping[str, Any], lines: list[str]) -> None:
    assert list(value) == ["content", "created_at", "modified_at"]
    assert value["content"] == lines
    created, modified = (datetime.fromisoformat(value[name]) for name in ("created_at", "modified_at"))
    assert created.tzinfo is not None
    assert created <= modified


def test_preferences_last_from_thread_to_thread(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    said = play("preferences", desk, capsys)
    assert "Updated file /draft.txt" in said["monday"]
    assert "/draft.txt" in said["thread"]
    assert "/memories/" in said["thread"]
    assert said["tuesday"].endswith("['Answers: brief', 'Language: French']")
    assert said["transient"].endswith("Error: File '/draft.txt' not found")
    files = stored(desk.path)
    assert list(files) == ["/user_preferences.txt"]
    check_file_data(files["/user_preferences.txt"].value, ["Answers: brief", "Language: French"])


def test_instructions_are_improved_and_read_from_outside(
    desk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    said = play("instructions", desk, capsys)
    path = "/memories/instructions.txt"
    assert said["edited"].endswith(f"Successfully replaced 1 instance(s) of the string in '{path}'")
    lines = ["Be polite.", "Use miles.", "Say where a distance is from."]
    assert said["read"].endswith(str(lines))
    assert said["outside"].endswith(str(lines))
    files = stored(desk.path)
    assert list(files) == ["/instructions.txt"]
    check_file_data(files["/instructions.txt"].value, lines)
    # Put once from outside and edited once: the agent's edit is a write of the same item.
    assert files["/instructions.txt"].created_at < files["/instructions.txt"].updated_at


def test_knowledge_is_found_in_a_later_conversation(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    said = play("knowledge", desk, capsys)
    assert "/memories/project_notes.txt" in said["found"]
    assert "1: We build a web app with React." in said["found"]
    assert said["ranked"].endswith("/team.txt: Mira leads the project.")
    files = stored(desk.path)
    assert sorted(files) == ["/project_notes.txt", "/team.txt"]
    notes = ["We build a web app with React.", "It talks to the billing service."]
    check_file_data(files["/project_notes.txt"].value, notes)


def test_research_goes_on_over_sessions(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    said = play("research", desk, capsys)
    assert said["report"].endswith("Moon and sun pull the sea.")
    assert "3 files, " in said["usage"]
    assert "0 of them" in said["prune"]
    files = stored(desk.path)
    assert sorted(files) == ["/research/notes.txt", "/research/report.md", "/research/sources.txt"]
    check_file_data(files["/research/report.md"].value, ["# Tides", "", "Moon and sun pull the sea.", ""])
    check_file_data(files["/research/sources.txt"].value, ["An almanac", "A harbour master"])


@pytest.mark.parametrize(
    "value",
    [
        {
            "content": ["line 1", "line 2"],
            "created_at": "2024-01-15T10:30:00Z",
            "modified_at": "2024-01-15T10:30:00Z",
        },
        create_file_data("line 1\nline 2", file_format="v2"),
        {
            "content": "line 1\nline 2",
            "mimeType": "text/plain",
            "created_at": "",
            "modified_at": "",
            "owner": "ana",
        },
        {"content": ["line 1", "line 2"]},
    ],
    ids=["documented", "v2", "javascript", "bare"],
)
def test_what_outside_code_puts_the_agent_reads_and_edits(desk: Any, value: dict[str, Any]) -> None:
    told = importlib.import_module("desk")
    with SqliteStore(desk.path) as store:
        store.put(FILES, "/preferences.txt", value)
    path = "/memories/preferences.txt"
    said = desk.talk(
        "thread",
        "You remember things.",
        "What is in it? Change it.",
        told.use("read_file", file_path=path),
        told.use("edit_file", file_path=path, old_string="line 2", new_string="line two"),
        told.use("read_file", file_path=path),
        told.say("{}"),
    )
    assert said.splitlines()[1:] == ["line 1", "line two"]
    after = stored(desk.path)["/preferences.txt"].value
    assert file_data_to_string(after) == "line 1\nline two"
    assert after["content"] == ["line 1", "line two"]
    assert after.get("owner") == value.get("owner")
    if value.get("created_at"):
        assert after["created_at"] == value["created_at"]
    assert after["modified_at"] != value.get("modified_at")


@pytest.mark.parametrize("kind", ["memory", "langgraph"])
def test_any_langgraph_store_works(path: Path, kind: str) -> None:  # noqa: ARG001  # it finds the examples
    from deepagents import create_deep_agent
    from langgraph.store.memory import InMemoryStore as LangGraphStore

    from stateroom import InMemoryStore

    desk = importlib.import_module("desk")
    store: BaseStore = InMemoryStore() if kind == "memory" else LangGraphStore()
    turns = [desk.use("write_file", file_path="/memories/a.txt", content="x\ny"), desk.say("{}")]
    # Without a factory Deep Agents' own function takes our backends as they are.
    agent = create_deep_agent(desk.ScriptedModel(turns=turns), backend=desk.routed(None), store=store)
    asked: Any = {"messages": [("user", "Remember.")]}
    answer = agent.invoke(asked, {"configurable": {"assistant_id": "scribe"}})
    assert answer["messages"][-1].text == "Updated file /memories/a.txt"
    item = store.get(FILES, "/a.txt")
    assert item is not None
    check_file_data(item.value, ["x", "y"])


def test_assistants_share_nothing_and_no_assistant_has_a_place_of_its_own(path: Path) -> None:
    from stateroom.files import create_deep_agent

    desk = importlib.import_module("desk")
    with SqliteStore(path) as store:
        for assistant in ("scribe", "clerk", None):
            turns = [
                desk.use("ls", path="/memories"),
                desk.use("write_file", file_path="/memories/a.txt", content=str(assistant)),
                desk.say("done"),
            ]
            agent = create_deep_agent(desk.ScriptedModel(turns=turns), backend=desk.routed, store=store)
            config: Any = {"configurable": {} if assistant is None else {"assistant_id": assistant}}
            answer = agent.invoke({"messages": [("user", "Remember.")]}, config)
            listed = next(message for message in answer["messages"] if message.type == "tool")
            assert "a.txt" not in listed.text
        assert store.list_namespaces() == [("clerk", "filesystem"), ("filesystem",), ("scribe", "filesystem")]


@pytest.mark.parametrize("as_factory", [False, True])
def test_what_else_deep_agents_does_with_files_works(path: Path, as_factory: bool) -> None:
    from deepagents import FilesystemPermission

    from stateroom.files import create_deep_agent

    desk = importlib.import_module("desk")
    heard: list[str] = []

    class Listening(desk.ScriptedModel):  # type: ignore[misc, name-defined]  # it is imported when the test runs
        def _generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> Any:
            heard.append(messages[0].text)
            return super()._generate(messages, *args, **kwargs)

    turns = [
        desk.use("write_file", file_path="/memories/secret/key.txt", content="no"),
        desk.use("delete", file_path="/memories/old"),
        desk.say("{}"),
    ]
    with SqliteStore(path) as store:
        for key in ("/AGENTS.md", "/old/a.txt", "/old/b.txt"):
            store.put(FILES, key, create_file_data("Always be kind."))
        agent = create_deep_agent(
            Listening(turns=turns),
            backend=desk.routed if as_factory else desk.routed(None),
            store=store,
            memory=["/memories/AGENTS.md"],
            permissions=[
                FilesystemPermission(operations=["write"], paths=["/memories/secret/**"], mode="deny")
            ],
        )
        asked: Any = {"messages": [("user", "Go on.")]}
        answer = agent.invoke(asked, {"configurable": {"assistant_id": "scribe"}})
    answered = [message.text for message in answer["messages"] if message.type == "tool"]
    assert answered == [
        "Error: permission denied for write on /memories/secret/key.txt",
        "Deleted /memories/old",
    ]
    assert "Always be kind." in heard[0]
    assert list(stored(path)) == ["/AGENTS.md"]
