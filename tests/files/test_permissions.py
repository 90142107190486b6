"""Rules say what may be read and written in any backend, and what a human is asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest
from deepagents import FilesystemPermission
from deepagents.backends.filesystem import FilesystemBackend
from deepagents.backends.store import StoreBackend as DeepAgentsStoreBackend
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from langgraph.types import Command

from stateroom import InMemoryStore
from stateroom.errors import InvalidInput, Misconfigured, NotSupported
from stateroom.files import StoreBackend
from stateroom.files.composite import CompositeBackend
from stateroom.files.permissions import FilePermission, PermittedBackend
from stateroom.files.protocol import BackendProtocol
from tests.files.asking import FORMS, Ask

TREE = {
    "/public/a.md": "hit",
    "/secrets/key.pem": "hit",
    "/secrets/.env": "hit",
    "/secrets/shared/b.md": "hit",
    "/c.md": "hit",
}


@pytest.fixture(params=FORMS)
def ask(request: pytest.FixtureRequest) -> Ask:
    return FORMS[request.param]


def files_of(contents: Mapping[str, str]) -> StoreBackend:
    backend = StoreBackend(store=InMemoryStore(), namespace=("rules", "filesystem"))
    for path, content in contents.items():
        assert backend.write(path, content).error is None
    return backend


def ruled(*rules: FilePermission, files: Any = None) -> PermittedBackend:
    return PermittedBackend(files_of(TREE) if files is None else files, rules)


def deny(*paths: str, operations: Sequence[Any] = ("read", "write")) -> FilePermission:
    return FilePermission(operations, paths, "deny")


def allow(*paths: str) -> FilePermission:
    return FilePermission(["read", "write"], paths)


def paths(result: Any) -> list[str]:
    assert result.error is None
    found = result.entries if hasattr(result, "entries") else result.matches
    return sorted(one["path"] for one in found)


class TestReading:
    async def test_what_is_denied_is_not_read_however_it_is_spelled(self, ask: Ask) -> None:
        files = ruled(deny("/secrets/**"))
        for path in ("/secrets/key.pem", "//secrets/./key.pem", "secrets/key.pem"):
            error = (await ask(files, "read", path)).error
            assert error == "Error: permission denied for read on /secrets/key.pem"
        assert (await ask(files, "read", "/public/a.md")).file_data["content"] == "hit"
        assert (await ask(files, "read", "/public/none")).error == "File '/public/none' not found"

    async def test_a_rule_holds_for_names_that_begin_with_a_dot(self, ask: Ask) -> None:
        assert "denied" in (await ask(ruled(deny("/secrets/**")), "read", "/secrets/.env")).error
        assert "denied" in (await ask(ruled(deny("/**")), "write", "/.profile", "x")).error

    async def test_what_is_denied_is_left_out_of_listings_and_searches(self, ask: Ask) -> None:
        files = ruled(deny("/secrets/**"))
        assert paths(await ask(files, "ls", "/")) == ["/c.md", "/public/"]
        assert paths(await ask(files, "glob", "*")) == ["/c.md", "/public/a.md"]
        assert paths(await ask(files, "grep", "hit")) == ["/c.md", "/public/a.md"]
        assert paths(await ask(files, "search", "hit")) == ["/c.md", "/public/a.md"]

    @pytest.mark.parametrize(
        "rule", ["/secrets/**", "/secrets", "/secrets/", "/sec*", "/**", "/{secrets,x}/**"]
    )
    async def test_a_directory_that_is_denied_is_not_looked_into(self, ask: Ask, rule: str) -> None:
        files, error = ruled(deny(rule)), "Error: permission denied for read on /secrets"
        assert (await ask(files, "ls", "/secrets/")).error == error
        assert (await ask(files, "glob", "*", "/secrets")).error == error
        assert (await ask(files, "grep", "hit", "/secrets")).error == error
        assert (await ask(files, "search", "hit", "/secrets")).error == error

    async def test_a_directory_with_something_that_is_allowed_is_seen(self, ask: Ask) -> None:
        files = ruled(allow("/secrets/shared/**"), deny("/secrets/**"))
        assert "/secrets/" in paths(await ask(files, "ls", "/"))
        assert paths(await ask(files, "ls", "/secrets")) == ["/secrets/shared/"]
        assert paths(await ask(files, "glob", "*", "/secrets")) == ["/secrets/shared/b.md"]

    async def test_the_first_rule_that_matches_is_in_force(self, ask: Ask) -> None:
        first = ruled(allow("/public/**"), deny("/**"))
        assert (await ask(first, "read", "/public/a.md")).error is None
        assert "denied" in (await ask(first, "read", "/c.md")).error
        last = ruled(deny("/**"), allow("/public/**"))
        assert "denied" in (await ask(last, "read", "/public/a.md")).error

    async def test_a_rule_is_for_the_operations_that_it_names(self, ask: Ask) -> None:
        files = ruled(deny("/public/**", operations=["write"]))
        assert (await ask(files, "read", "/public/a.md")).error is None
        error = (await ask(files, "write", "/public/a.md", "x")).error
        assert error == "Error: permission denied for write on /public/a.md"

    async def test_what_may_not_be_seen_uses_up_no_limit(self, ask: Ask) -> None:
        files = ruled(deny("/c.md", "/public/**"))
        result = await ask(files, "grep", "hit", max_count=2)
        assert (paths(result), result.truncated) == (["/secrets/.env", "/secrets/key.pem"], True)
        result = await ask(files, "grep", "hit", max_count=3)
        assert (len(paths(result)), result.truncated) == (3, False)
        assert len(paths(await ask(files, "search", "hit", limit=1))) == 1
        assert len(paths(await ask(files, "search", "hit", limit=9))) == len(
            paths(await ask(files, "grep", "hit"))
        )


class TestWriting:
    async def test_what_is_denied_is_not_changed(self, ask: Ask) -> None:
        files = ruled(deny("/secrets/**", operations=["write"]))
        error = "Error: permission denied for write on /secrets/key.pem"
        assert (await ask(files, "write", "/secrets/key.pem", "x")).error == error
        assert (await ask(files, "edit", "/secrets/key.pem", "hit", "x")).error == error
        assert (await ask(files, "multi_edit", "/secrets/key.pem", [("hit", "x")])).error == error
        assert (await ask(files, "delete", "/secrets/key.pem")).error == error
        assert (await ask(files, "read", "/secrets/key.pem")).file_data["content"] == "hit"
        assert (await ask(files, "multi_edit", "/c.md", [("hit", "x")])).occurrences == 1
        assert (await ask(files, "edit", "/c.md", "x", "y")).occurrences == 1
        assert (await ask(files, "write", "/c.md", "z")).path == "/c.md"

    async def test_bytes_go_up_and_come_down_where_that_is_allowed(self, ask: Ask) -> None:
        files = ruled(deny("/secrets/**"))
        up = await ask(files, "upload_files", [("/n", b"1"), ("/secrets/n", b"2"), ("/..", b"3")])
        assert [one.error for one in up] == [None, "permission_denied", "invalid_path"]
        down = await ask(files, "download_files", ["/secrets/key.pem", "/n", "/none", "/n/"])
        assert [one.error for one in down] == ["permission_denied", None, "file_not_found", "invalid_path"]
        assert down[1].content == b"1"
        assert files.backend.read("/secrets/n").error is not None

    @pytest.mark.parametrize(
        ("rule", "path"),
        [
            ("/job/secrets/**", "/job"),
            ("/job/secrets", "/job"),
            ("/job/**/*.log", "/job/sub"),
            ("/job/*/secrets", "/job/app"),
            ("/**/secrets", "/job"),
            ("/job/**", "/job/logs"),
            ("/job", "/job/sub/deep"),
            ("/job/*", "/job/app/child"),
            ("/job/*.log", "/job/app.log/child"),
            ("/job/{secrets,keys}", "/job/keys"),
            ("/job/.env", "/job"),
        ],
    )
    async def test_a_directory_stays_that_could_hold_what_is_denied(
        self, ask: Ask, rule: str, path: str
    ) -> None:
        files = ruled(deny(rule), files=files_of({f"{path}/x": "1"}))
        assert (await ask(files, "delete", path)).error == f"Error: permission denied for write on {path}"
        assert files.backend.read(f"{path}/x").error is None

    @pytest.mark.parametrize(
        ("rule", "path"),
        [
            ("/other/**", "/job"),
            ("/jobshop/**", "/job"),
            ("/job2", "/job"),
            ("/job/*.log", "/job/notes"),
            ("/job/f?le", "/job/other"),
        ],
    )
    async def test_a_directory_goes_that_can_hold_nothing_that_is_denied(
        self, ask: Ask, rule: str, path: str
    ) -> None:
        files = ruled(deny(rule), files=files_of({f"{path}/x": "1"}))
        assert (await ask(files, "delete", path)).path == path

    async def test_in_an_allowed_directory_the_rules_behind_it_deny_nothing(self, ask: Ask) -> None:
        contents = {"/job/a": "1", "/job/sub/b": "1", "/else": "1"}
        files = ruled(allow("/job/**"), deny("/**"), files=files_of(contents))
        assert (await ask(files, "delete", "/job/a")).path == "/job/a"
        assert (await ask(files, "delete", "/job/sub")).path == "/job/sub"
        assert "denied" in (await ask(files, "delete", "/else")).error

    async def test_a_file_is_judged_by_its_own_path(self, ask: Ask, tmp_path: Path) -> None:
        for backend in (files_of({}), FilesystemBackend(root_dir=tmp_path, virtual_mode=True)):
            backend.write("/job/a", "1")
            backend.write("/job/sub/b", "1")
            files = ruled(deny("/**/secrets"), files=backend)
            assert (await ask(files, "delete", "/job/a")).path == "/job/a"
            assert "denied" in (await ask(files, "delete", "/job/sub")).error
        (tmp_path / "job" / "empty").mkdir()
        assert "denied" in (await ask(files, "delete", "/job/empty")).error

    async def test_a_file_that_is_a_directory_too_is_judged_as_one(self, ask: Ask) -> None:
        flat = DeepAgentsStoreBackend(store=LangGraphInMemoryStore(), namespace=lambda _: ("flat",))
        flat.write("/job/item", "1")
        flat.write("/job/item/secrets/key", "1")
        files = ruled(allow("/job/item"), deny("/job/item/secrets/**"), files=flat)
        assert "denied" in (await ask(files, "delete", "/job/item")).error

    async def test_only_what_may_be_written_is_pruned(self, ask: Ask) -> None:
        files = ruled(allow("/secrets/shared/**"), deny("/secrets/**", operations=["write"]))
        would = await ask(files, "prune", older_than=timedelta(), protect=["c.md"], dry_run=True)
        assert sorted(info["path"] for info in would.files) == ["/public/a.md", "/secrets/shared/b.md"]
        done = await ask(files, "prune", older_than=timedelta(), protect=["c.md"])
        assert (sorted(info["path"] for info in done.files), done.bytes) == (
            sorted(info["path"] for info in would.files),
            would.bytes,
        )
        assert paths(await ask(files, "glob", "*")) == ["/c.md", "/secrets/key.pem"]
        assert files.backend.read("/secrets/.env").error is None
        assert (await ask(files, "usage")).files == 3


class State(TypedDict, total=False):
    results: list[Any]


def graph_of(work: Callable[[], Any]) -> Any:
    """Return a graph whose only node does some work, and can wait for an answer in it."""

    async def node(_state: State) -> State:
        return {"results": [await work()]}

    graph: Any = StateGraph(State)
    graph.add_node("work", node)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    return graph.compile(checkpointer=InMemorySaver())


CONFIG: Any = {"configurable": {"thread_id": "1"}}


class TestAsking:
    @pytest.mark.parametrize(
        "answer",
        [
            True,
            "approve",
            {"type": "approve"},
            [{"type": "approve"}],
            {"decisions": [{"type": "approve"}]},
        ],
    )
    async def test_a_graph_waits_until_a_human_has_approved(self, ask: Ask, answer: Any) -> None:
        files = ruled(FilePermission(["write"], ["/secrets/**"], "interrupt"))
        graph = graph_of(lambda: ask(files, "write", "/secrets/new", "x"))
        waiting = await graph.ainvoke({}, CONFIG)
        (request,) = (one.value for one in waiting["__interrupt__"])
        assert (request["operation"], request["path"]) == ("write", "/secrets/new")
        (action,) = request["action_requests"]
        assert (action["name"], action["args"]) == ("write", {"file_path": "/secrets/new", "content": "x"})
        assert files.backend.read("/secrets/new").error is not None
        done = await graph.ainvoke(Command(resume=answer), CONFIG)
        assert done["results"][0].path == "/secrets/new"
        assert files.backend.read("/secrets/new").error is None

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (False, ""),
            ("no", ""),
            (1, ""),
            ({"type": "reject", "message": "not that one"}, ": not that one"),
            ({"decisions": [{"type": "reject"}]}, ""),
            ([{"type": "approve"}, {"type": "reject"}], ""),
            ([], ""),
        ],
    )
    async def test_any_other_answer_is_a_no(self, ask: Ask, answer: Any, said: str) -> None:
        files = ruled(FilePermission(["write"], ["/secrets/**"], "interrupt"))
        graph = graph_of(lambda: ask(files, "delete", "/secrets/key.pem"))
        await graph.ainvoke({}, CONFIG)
        done = await graph.ainvoke(Command(resume=answer), CONFIG)
        assert done["results"][0].error == f"Error: write on /secrets/key.pem was rejected{said}"
        assert files.backend.read("/secrets/key.pem").error is None

    @pytest.mark.parametrize(
        ("method", "args", "path"),
        [
            ("read", ["/secrets/key.pem"], "/secrets/key.pem"),
            ("edit", ["/secrets/key.pem", "hit", "x"], "/secrets/key.pem"),
            ("multi_edit", ["/secrets/key.pem", [("hit", "x")]], "/secrets/key.pem"),
            ("delete", ["/secrets"], "/secrets"),
            ("ls", ["/secrets"], "/secrets"),
            ("glob", ["*"], "/"),
            ("grep", ["hit", "/secrets/shared"], "/secrets/shared"),
            ("search", ["hit"], "/"),
            ("upload_files", [[("/secrets/key.pem", b"x")]], "/secrets/key.pem"),
            ("download_files", [["/secrets/key.pem"]], "/secrets/key.pem"),
        ],
    )
    async def test_whatever_could_touch_it_asks(
        self, ask: Ask, method: str, args: list[Any], path: str
    ) -> None:
        files = ruled(FilePermission(["read", "write"], ["/secrets/**"], "interrupt"))
        graph = graph_of(lambda: ask(files, method, *args))
        (request,) = (await graph.ainvoke({}, CONFIG))["__interrupt__"]
        assert request.value["path"] == path
        assert request.value["action_requests"][0]["name"] == method
        (result,) = (await graph.ainvoke(Command(resume=True), CONFIG))["results"]
        (result,) = result if isinstance(result, list) else [result]
        assert result.error is None

    async def test_pruning_asks_once_for_all_files(self, ask: Ask) -> None:
        files = ruled(FilePermission(["write"], ["/secrets/*"], "interrupt"))
        graph = graph_of(lambda: ask(files, "prune", older_than=timedelta()))
        (request,) = (await graph.ainvoke({}, CONFIG))["__interrupt__"]
        assert sorted(request.value["action_requests"][0]["args"]["files"]) == [
            "/secrets/.env",
            "/secrets/key.pem",
        ]
        (result,) = (await graph.ainvoke(Command(resume=True), CONFIG))["results"]
        assert len(result.files) == len(TREE)

    async def test_what_cannot_touch_it_does_not_ask(self, ask: Ask) -> None:
        files = ruled(FilePermission(["read", "write"], ["/secrets/**"], "interrupt"))
        assert "/secrets/" in paths(await ask(files, "ls", "/"))
        assert paths(await ask(files, "grep", "hit", "/public")) == ["/public/a.md"]
        assert paths(await ask(files, "glob", "/*")) == ["/c.md"]
        assert (await ask(files, "write", "/secret", "x")).error is None
        assert (await ask(files, "delete", "/public")).error is None

    async def test_rules_before_it_are_in_force_first(self, ask: Ask) -> None:
        asking = FilePermission(["read", "write"], ["/secrets/**"], "interrupt")
        denied = ruled(deny("/secrets/**"), asking)
        assert "permission denied" in (await ask(denied, "read", "/secrets/key.pem")).error
        assert paths(await ask(denied, "grep", "hit")) == ["/c.md", "/public/a.md"]
        assert paths(await ask(ruled(allow("/**"), asking), "grep", "hit")) == sorted(TREE)

    async def test_outside_of_a_graph_there_is_nobody_to_ask(self, ask: Ask) -> None:
        files = ruled(FilePermission(["write"], ["/secrets/**"], "interrupt"))
        assert (await ask(files, "write", "/secrets/new", "x")).error == (
            "Error: write on /secrets/new needs approval, and only a graph that is running can ask for it"
        )
        (one,) = await ask(files, "upload_files", [("/secrets/new", b"x")])
        assert one.error == "permission_denied"


class TestConfiguration:
    @pytest.mark.parametrize(
        ("operations", "some", "mode", "field"),
        [
            ("read", ["/a"], "deny", "operations"),
            ([], ["/a"], "deny", "operations"),
            (["execute"], ["/a"], "deny", "operations"),
            ([["read"]], ["/a"], "deny", "operations"),
            (["read"], "/a", "deny", "paths"),
            (["read"], [], "deny", "paths"),
            (["read"], ["/ok", "a/**"], "deny", "paths"),
            (["read"], ["/a/../b"], "deny", "paths"),
            (["read"], ["/a\\..\\b"], "deny", "paths"),
            (["read"], ["/~/a"], "deny", "paths"),
            (["read"], [5], "deny", "paths"),
            (["read"], ["/" + "{a,}" * 18], "deny", "paths"),
            (["read"], ["/a"], "ask", "mode"),
        ],
    )
    def test_a_rule_says_what_is_wrong_with_it(
        self, operations: Any, some: Any, mode: Any, field: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            FilePermission(operations, some, mode)
        assert refused.value.field == field

    def test_rules_of_deep_agents_are_rules(self) -> None:
        theirs = FilesystemPermission(operations=["read"], paths=["/secrets/**"], mode="deny")
        files = PermittedBackend(files_of(TREE), [theirs])
        assert files.permissions == [FilePermission(["read"], ["/secrets/**"], "deny")]
        with pytest.raises(InvalidInput, match="FilePermission"):
            PermittedBackend(files_of({}), ["/secrets/**"])

    def test_only_a_backend_can_have_rules(self) -> None:
        with pytest.raises(Misconfigured, match=r"^backend is"):
            PermittedBackend(StoreBackend, [])

    async def test_what_a_backend_lacks_is_said(self, ask: Ask) -> None:
        files = ruled(files=BackendProtocol())
        assert (await ask(files, "multi_edit", "/a", [("x", "y")])).error == (
            "Error: multi_edit is not supported for '/a'."
        )
        assert "not supported" in (await ask(files, "prune", keep=1)).error
        (one,) = await ask(files, "download_files", ["/a"])
        assert "not supported" in one.error
        with pytest.raises(NotSupported):
            await ask(files, "usage")

    async def test_no_command_gets_round_the_rules(self) -> None:
        assert not hasattr(ruled(), "execute")

    async def test_rules_hold_over_and_under_mounts(self, ask: Ask) -> None:
        over = ruled(deny("/m/secrets/**"), files=CompositeBackend(files_of({}), {"/m/": files_of(TREE)}))
        assert "denied" in (await ask(over, "read", "/m/secrets/key.pem")).error
        under = CompositeBackend(files_of({}), {"/m/": ruled(deny("/secrets/**"))})
        assert (await ask(under, "read", "/m/secrets/key.pem")).error == (
            "Error: permission denied for read on /m/secrets/key.pem"
        )
        for files in (over, under):
            assert paths(await ask(files, "glob", "*")) == ["/m/c.md", "/m/public/a.md"]
