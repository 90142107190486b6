"""Backends mounted over each other are one file system, in which each path belongs to one of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends.filesystem import FilesystemBackend
from deepagents.backends.protocol import ExecuteResponse, SandboxBackendProtocol
from deepagents.backends.store import StoreBackend as DeepAgentsStoreBackend
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom import InMemoryStore
from stateroom.errors import Misconfigured, NotSupported
from stateroom.files import StateBackend, StoreBackend
from stateroom.files.composite import CompositeBackend
from stateroom.files.globs import compile_glob
from stateroom.files.protocol import BackendProtocol, GlobResult, GrepMatch, GrepResult, LsResult
from tests.files.asking import FORMS, Ask


@pytest.fixture(params=FORMS)
def ask(request: pytest.FixtureRequest) -> Ask:
    return FORMS[request.param]


def files_of(name: str, contents: Mapping[str, str] | None = None, store: Any = None) -> StoreBackend:
    backend = StoreBackend(store=InMemoryStore() if store is None else store, namespace=(name, "filesystem"))
    for path, content in (contents or {}).items():
        assert backend.write(path, content).error is None
    return backend


def mounted(default: Mapping[str, str], routes: Mapping[str, Mapping[str, str]]) -> CompositeBackend:
    """Return files over files, by directory."""
    return CompositeBackend(
        files_of("default", default),
        {
            directory: files_of(f"at{number}", files)
            for number, (directory, files) in enumerate(routes.items())
        },
    )


def paths(result: Any) -> list[str]:
    assert result.error is None
    found = result.entries if hasattr(result, "entries") else result.matches
    return [one["path"] for one in found]


class TestRouting:
    async def test_a_file_is_kept_where_its_directory_is_mounted(self, ask: Ask) -> None:
        files = mounted({}, {"/memories/": {}})
        written = await ask(files, "write", "/memories/a.md", "one")
        assert (written.error, written.path) == (None, "/memories/a.md")
        edited = await ask(files, "edit", "/memories/a.md", "one", "two")
        assert (edited.path, edited.occurrences) == ("/memories/a.md", 1)
        assert files.routes["/memories/"].read("/a.md").file_data["content"] == "two"
        assert (await ask(files, "read", "/memories/a.md")).file_data["content"] == "two"
        assert paths(files.default.ls("/")) == []
        assert (await ask(files, "delete", "/memories/a.md")).path == "/memories/a.md"
        assert paths(await ask(files, "ls", "/memories")) == []

    async def test_the_longest_directory_wins_and_only_whole_names_count(self, ask: Ask) -> None:
        files = mounted({}, {"/a/": {}, "/a/b/c": {}, "/a/b": {}})
        for path in ("/a/x", "/a/b/x", "/a/b/c/x", "/a/bc/x", "/abc"):
            assert (await ask(files, "write", path, path)).error is None
        assert paths(files.routes["/a/"].glob("*")) == ["/bc/x", "/x"]
        assert paths(files.routes["/a/b/"].glob("*")) == ["/x"]
        assert paths(files.routes["/a/b/c/"].glob("*")) == ["/x"]
        assert paths(files.default.glob("*")) == ["/abc"]
        assert [prefix for prefix, _ in files.sorted_routes] == ["/a/b/c/", "/a/b/", "/a/"]

    @pytest.mark.parametrize(
        "path", ["//memories/x", "/./memories/x", "memories/x", "/memories//x", "/memories/./x"]
    )
    async def test_a_path_reaches_its_mount_however_it_is_spelled(self, ask: Ask, path: str) -> None:
        files = mounted({}, {"/memories/": {}})
        assert (await ask(files, "write", path, "kept")).path == "/memories/x"
        assert files.routes["/memories/"].read("/x").error is None

    async def test_several_edits_go_to_the_backend_that_can_make_them(self, ask: Ask, tmp_path: Path) -> None:
        disk = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
        files = CompositeBackend(files_of("default", {"/a": "x y"}), {"/disk/": disk})
        assert (await ask(files, "multi_edit", "/a", [("x", "1"), ("y", "2")])).occurrences == 2
        refused = await ask(files, "multi_edit", "/disk/a", [("x", "1")])
        assert refused.error == "Error: multi_edit is not supported for '/disk/a'."

    async def test_bytes_go_up_and_come_down_in_the_order_that_they_are_asked_for(
        self, ask: Ask, tmp_path: Path
    ) -> None:
        disk = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
        files = CompositeBackend(disk, {"/memories/": files_of("memories")})
        sent = [
            ("/memories/a", b"1"),
            ("/b", b"2"),
            ("/../c", b"3"),
            ("//memories/d", b"4"),
            ("/memories", b"5"),
        ]
        answers = await ask(files, "upload_files", sent)
        assert [(one.path, one.error) for one in answers] == [
            ("/memories/a", None),
            ("/b", None),
            ("/../c", "invalid_path"),
            ("//memories/d", None),
            ("/memories", "invalid_path"),
        ]
        got = await ask(
            files, "download_files", ["/b", "/memories/none", "/memories/d", "/memories/a", "/../c"]
        )
        assert [one.content for one in got] == [b"2", None, b"4", b"1", None]
        assert [one.error for one in got] == [None, "file_not_found", None, None, "invalid_path"]
        assert got[1].path == "/memories/none"

    async def test_errors_show_the_path_that_was_asked_for(self, ask: Ask) -> None:
        files = mounted({}, {"/memories/": {"/notes": "a text"}})
        assert "'/memories/none'" in (await ask(files, "read", "/memories/none")).error
        assert "'/memories/none'" in (await ask(files, "edit", "/memories/none", "a", "b")).error
        assert "'/memories/none'" in (await ask(files, "delete", "/memories/none")).error
        below = (await ask(files, "write", "/memories/notes/a.md", "x")).error
        assert "'/memories/notes'" in below

    async def test_an_error_repeats_what_it_was_given_as_it_was(self, ask: Ask) -> None:
        files = mounted({}, {"/memories/": {"/notes": "a text"}})
        assert "'/notes'" in (await ask(files, "edit", "/memories/notes", "/notes", "b")).error

    @pytest.mark.parametrize("path", ["/../x", "/memories/../x", "/a\0", "C:\\x", ""])
    async def test_what_is_no_path_of_a_file_is_answered(self, ask: Ask, path: str) -> None:
        files = mounted({}, {"/memories/": {}})
        for result in (await ask(files, "write", path, "x"), await ask(files, "edit", path, "x", "y")):
            assert result.error.startswith("Error: file_path")

    @pytest.mark.parametrize("path", ["/memories", "/memories/", "/deep", "/deep/in"])
    async def test_no_file_is_written_where_a_mount_is_or_leads_to(self, ask: Ask, path: str) -> None:
        files = mounted({}, {"/memories/": {}, "/deep/in/it": {}})
        assert (await ask(files, "write", path, "x")).error is not None
        assert paths(await ask(files, "glob", "**/*")) == []


class TestDeleting:
    async def test_the_root_stays(self, ask: Ask) -> None:
        files = mounted({"/a": "x"}, {"/memories/": {"/b": "x"}})
        assert "'/'" in (await ask(files, "delete", "/")).error
        assert len(paths(await ask(files, "glob", "*"))) == 2

    @pytest.mark.parametrize("path", ["/memories", "/memories/", "/a", "/a/b/"])
    async def test_what_is_or_holds_a_mount_stays(self, ask: Ask, path: str) -> None:
        files = mounted({"/a/x": "x"}, {"/memories/": {"/b": "x"}, "/a/b/c/": {"/d": "x"}})
        assert "mounted" in (await ask(files, "delete", path)).error
        assert len(paths(await ask(files, "glob", "*"))) == 3

    async def test_a_directory_in_a_mount_goes_as_a_whole(self, ask: Ask) -> None:
        files = mounted({}, {"/memories/": {"/d/a": "x", "/d/e/b": "x", "/c": "x"}})
        assert (await ask(files, "delete", "/memories/d/")).path == "/memories/d"
        assert paths(await ask(files, "glob", "*")) == ["/memories/c"]

    async def test_a_backend_that_cannot_delete_is_named(self, ask: Ask) -> None:
        files = CompositeBackend(files_of("default"), {"/fixed/": BackendProtocol()})
        assert (await ask(files, "delete", "/fixed/x")).error == (
            "Error: deletion is not supported for '/fixed/x'."
        )


class TestListing:
    async def test_mounts_are_directories_where_they_are(self, ask: Ask) -> None:
        files = mounted(
            {"/a.md": "x", "/z/b.md": "x"},
            {"/memories/": {"/m": "x"}, "/memories/private/": {"/p": "x"}, "/deep/in/it": {"/i": "x"}},
        )
        assert paths(await ask(files, "ls", "/")) == ["/a.md", "/deep/", "/memories/", "/z/"]
        assert paths(await ask(files, "ls", "/memories/")) == ["/memories/m", "/memories/private/"]
        assert paths(await ask(files, "ls", "/memories/private")) == ["/memories/private/p"]
        assert paths(await ask(files, "ls", "/deep")) == ["/deep/in/"]
        assert paths(await ask(files, "ls", "/deep/in")) == ["/deep/in/it/"]

    async def test_each_directory_is_shown_once_and_what_a_mount_hides_is_not(self, ask: Ask) -> None:
        files = mounted({"/a/b/hidden": "x", "/a/seen": "x"}, {"/a/b/": {"/own": "x"}})
        assert paths(await ask(files, "ls", "/")) == ["/a/"]
        assert paths(await ask(files, "ls", "/a")) == ["/a/b/", "/a/seen"]
        assert paths(await ask(files, "ls", "/a/b")) == ["/a/b/own"]
        assert set(paths(await ask(files, "glob", "*"))) == {"/a/b/own", "/a/seen"}
        assert paths(await ask(files, "grep", "x")) == ["/a/b/own", "/a/seen"]

    async def test_a_directory_that_only_leads_to_a_mount_is_there(self, ask: Ask, tmp_path: Path) -> None:
        disk = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
        files = CompositeBackend(disk, {"/deep/in/": files_of("in", {"/i": "x"})})
        assert paths(await ask(files, "ls", "/deep/")) == ["/deep/in/"]
        assert (await ask(files, "ls", "/none/")).error == "Path '/none/': path_not_found"

    async def test_an_error_of_the_directorys_backend_is_answered(self, ask: Ask) -> None:
        class Lost(BackendProtocol):
            @override
            def ls(self, path: str) -> LsResult:
                return LsResult(error="Error: connection lost")

        files = CompositeBackend(Lost(), {"/memories/": files_of("memories")})
        assert (await ask(files, "ls", "/")).error == "Error: connection lost"


class TestSearching:
    TREE = (
        {"/a.md": "hit", "/b.txt": "hit", "/notes/c.md": "hit"},
        {
            "/memories/": {"/d.md": "hit", "/sub/e.md": "hit", "/f.txt": "hit"},
            "/memories/private/": {"/g.md": "hit"},
            "/.hidden/": {"/h.md": "hit"},
        },
    )
    ALL = (
        *("/.hidden/h.md", "/a.md", "/b.txt", "/memories/d.md", "/memories/f.txt"),
        *("/memories/private/g.md", "/memories/sub/e.md", "/notes/c.md"),
    )

    @pytest.mark.parametrize(
        "pattern",
        [
            *(
                "*.md",
                "**/*.md",
                "/memories/*.md",
                "memories/**/*.md",
                "m*/**",
                "/*/*.md",
                "/*.md",
                "**/sub/*",
            ),
            *("{memories,notes}/*.md", "**/private/**", "/memories", "*/*/g.md", ".hidden/*", "**", "none"),
            "{memories/sub,**}/*.md",
        ],
    )
    @pytest.mark.parametrize("path", [None, "/", "/memories", "/memories/private"])
    async def test_patterns_look_at_paths_below_the_directory_whatever_is_mounted(
        self, ask: Ask, pattern: str, path: str | None
    ) -> None:
        files = mounted(*self.TREE)
        base, glob = ("/" if path in (None, "/") else f"{path}/"), compile_glob(pattern)
        expected = [one for one in self.ALL if one.startswith(base) and glob.matches(one[len(base) :])]
        found = await ask(files, "glob", pattern, path)
        assert sorted(paths(found)) == expected
        lines = await ask(files, "grep", "hit", path, pattern)
        assert paths(lines) == expected

    async def test_the_last_modified_come_first_over_all_backends(self, ask: Ask) -> None:
        files = mounted({"/1": "x"}, {"/memories/": {"/2": "x"}})
        files.write("/3", "x")
        files.write("/memories/4", "x")
        assert paths(await ask(files, "glob", "*")) == ["/memories/4", "/3", "/memories/2", "/1"]

    async def test_one_limit_holds_for_all_backends(self, ask: Ask) -> None:
        files = mounted({"/a": "hit\nhit"}, {"/m/": {"/b": "hit"}, "/n/": {"/c": "hit"}})
        for limit, expected in ((0, []), (1, ["/a"]), (3, ["/a", "/a", "/m/b"])):
            result = await ask(files, "grep", "hit", max_count=limit)
            assert (paths(result), result.truncated) == (expected, True)
        for enough in (4, 5, None):
            result = await ask(files, "grep", "hit", max_count=enough)
            assert (paths(result), result.truncated) == (["/a", "/a", "/m/b", "/n/c"], False)

    async def test_a_backend_is_asked_for_what_is_left_of_the_limit_and_for_nothing_beyond_it(
        self, ask: Ask
    ) -> None:
        asked: list[int | None] = []

        class Recording(BackendProtocol):
            @override
            def grep(self, *args: Any, max_count: int | None = None) -> GrepResult:
                asked.append(max_count)
                return GrepResult(matches=[GrepMatch(path="/b", line=1, text="hit")])

        files = CompositeBackend(files_of("default", {"/a": "hit"}), {"/m/": Recording(), "/n/": Recording()})
        assert (await ask(files, "grep", "hit", max_count=2)).truncated
        assert asked == [1, 1]
        assert (await ask(files, "grep", "hit", max_count=1)).truncated
        assert asked == [1, 1, 1]

    async def test_what_a_backend_leaves_out_is_left_out_of_the_whole(self, ask: Ask) -> None:
        class Hasty(BackendProtocol):
            @override
            def grep(self, *args: Any, **options: Any) -> GrepResult:
                return GrepResult(matches=[], truncated=True)

            @override
            def glob(self, pattern: str, path: str | None = None) -> GlobResult:
                return GlobResult(matches=[], truncated=True, truncation_reason="unreadable")

        files = CompositeBackend(files_of("default", {"/a": "hit"}), {"/m/": Hasty(), "/n/": files_of("n")})
        for limit in (None, 5):
            assert (await ask(files, "grep", "hit", max_count=limit)).truncated
        found = await ask(files, "glob", "*")
        assert (paths(found), found.truncated, found.truncation_reason) == (["/a"], True, "unreadable")
        assert not (await ask(files, "grep", "hit", "/n")).truncated

    async def test_lines_that_two_patterns_find_are_shown_once(self, ask: Ask) -> None:
        files = mounted({}, {"/m/p/": {"/p/a": "hit", "/b": "hit"}})
        for limit, truncated in ((1, True), (2, False), (None, False)):
            result = await ask(files, "grep", "hit", glob="**/p/*", max_count=limit)
            assert (paths(result), result.truncated) == (["/m/p/b", "/m/p/p/a"][-(limit or 2) :], truncated)

    async def test_a_limit_that_the_rest_does_not_pass_is_not_reported(self, ask: Ask) -> None:
        files = mounted({"/a": "hit"}, {"/m/": {"/b": "none"}})
        result = await ask(files, "grep", "hit", max_count=1)
        assert (paths(result), result.truncated) == (["/a"], False)

    async def test_what_a_mount_hides_uses_up_no_limit(self, ask: Ask) -> None:
        files = mounted({"/m/1": "hit", "/m/2": "hit", "/z": "hit"}, {"/m/": {"/b": "none"}})
        result = await ask(files, "grep", "hit", max_count=2)
        assert (paths(result), result.truncated) == (["/z"], False)

    @pytest.mark.parametrize("limit", [-1, 1.5, "3"])
    async def test_a_limit_is_a_number(self, ask: Ask, limit: Any) -> None:
        assert "max_count" in (await ask(mounted({}, {"/m/": {}}), "grep", "x", max_count=limit)).error

    async def test_a_pattern_that_cannot_be_used_is_answered(self, ask: Ask) -> None:
        files = mounted({}, {"/m/": {}})
        for result in (await ask(files, "glob", "../*"), await ask(files, "grep", "x", glob="../*")):
            assert "Path traversal not allowed in glob pattern '../*'" in result.error

    async def test_an_error_of_any_backend_is_answered_with_full_paths(self, ask: Ask) -> None:
        class Broken(BackendProtocol):
            @override
            def glob(self, pattern: str, path: str | None = None) -> GlobResult:
                return GlobResult(error="Error: '/' cannot be read")

            @override
            def grep(self, *args: Any, **options: Any) -> GrepResult:
                return GrepResult(error="Error: '/' cannot be read")

        files = CompositeBackend(files_of("default", {"/a": "x"}), {"/broken/": Broken()})
        for result in (await ask(files, "glob", "*"), await ask(files, "grep", "x")):
            assert result.error == "Error: '/broken' cannot be read"

    async def test_files_are_ranked_over_all_backends(self, ask: Ask, tmp_path: Path) -> None:
        files = mounted({"/a": "apples and pears"}, {"/m/": {"/b": "apples", "/c": "plums"}})
        result = await ask(files, "search", "apples", limit=5)
        assert {one["path"] for one in result.matches} == {"/a", "/m/b"}
        scores = [one["score"] for one in result.matches]
        assert scores == sorted(scores, reverse=True)
        assert paths(await ask(files, "search", "apples", "/m")) == ["/m/b"]
        disk = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
        partly = CompositeBackend(disk, {"/m/": files.routes["/m/"]})
        assert (await ask(partly, "search", "apples")).error == (
            "Error: search is not supported for '/'; it is for '/m'"
        )
        assert paths(await ask(partly, "search", "apples", "/m")) == ["/m/b"]


class TestKeeping:
    async def test_old_files_are_pruned_in_every_backend(self, ask: Ask) -> None:
        files = mounted({"/a": "x", "/m/hidden": "x", "/keep.md": "x"}, {"/m/": {"/b": "x", "/keep.md": "x"}})
        options = {"older_than": timedelta(), "protect": ["/m/keep.md", "keep.md"]}
        would = await ask(files, "prune", **options, dry_run=True)
        assert sorted(info["path"] for info in would.files) == ["/a", "/m/b"]
        done = await ask(files, "prune", **options)
        assert (done.error, done.bytes) == (None, 2)
        assert sorted(paths(await ask(files, "glob", "*"))) == ["/keep.md", "/m/keep.md"]
        assert files.default.read("/m/hidden").error is None

    async def test_how_many_to_keep_is_said_of_one_backend(self, ask: Ask) -> None:
        files = mounted({"/a": "x"}, {"/m/": {"/b": "x", "/c": "x"}})
        assert "keep" in (await ask(files, "prune", keep=1)).error
        done = await ask(files, "prune", keep=1, path="/m")
        assert [info["path"] for info in done.files] == ["/m/b"]

    async def test_a_backend_that_cannot_prune_is_named_before_anything_goes(
        self, ask: Ask, tmp_path: Path
    ) -> None:
        disk = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
        files = CompositeBackend(files_of("default", {"/a": "x"}), {"/disk/": disk})
        assert "'/disk'" in (await ask(files, "prune", older_than=timedelta())).error
        assert paths(files.default.glob("*")) == ["/a"]

    async def test_usage_counts_each_backend_once(self, ask: Ask, tmp_path: Path) -> None:
        shared = files_of("shared", {"/a": "xy"})
        files = CompositeBackend(files_of("default", {"/b": "z"}), {"/m/": shared, "/n/": shared})
        assert await ask(files, "usage") == (2, 3)
        disk = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
        with pytest.raises(NotSupported, match="'/disk'"):
            await ask(CompositeBackend(shared, {"/disk/": disk}), "usage")


class TestForeignBackends:
    async def test_deep_agents_own_backends_are_mounted_as_they_are(self, ask: Ask, tmp_path: Path) -> None:
        disk = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
        kept = DeepAgentsStoreBackend(store=LangGraphInMemoryStore(), namespace=lambda _: ("kept",))
        files = CompositeBackend(files_of("default"), {"/disk/": disk, "/kept/": kept})
        for path in ("/disk/sub/a.md", "/kept/b.md", "/c.md"):
            assert (await ask(files, "write", path, "hit\n")).path == path
            assert (await ask(files, "edit", path, "hit", "hits")).occurrences == 1
        assert (tmp_path / "sub" / "a.md").read_text() == "hits\n"
        assert paths(await ask(files, "ls", "/")) == ["/c.md", "/disk/", "/kept/"]
        assert paths(await ask(files, "ls", "/disk/sub")) == ["/disk/sub/a.md"]
        assert sorted(paths(await ask(files, "glob", "*/**/*.md"))) == ["/disk/sub/a.md", "/kept/b.md"]
        assert paths(await ask(files, "grep", "hits")) == ["/c.md", "/disk/sub/a.md", "/kept/b.md"]
        assert "'/disk/none'" in (await ask(files, "read", "/disk/none")).error
        assert (await ask(files, "delete", "/disk/sub")).path == "/disk/sub"

    async def test_an_older_backend_without_limits_and_results_is_understood(self, ask: Ask) -> None:
        class Old(BackendProtocol):
            @override
            def grep(  # type: ignore[override]  # as it was before there were limits
                self,
                pattern: str,
                path: str | None = None,
                glob: str | None = None,
            ) -> Any:
                return [GrepMatch(path=f"/{number}", line=1, text=pattern) for number in range(3)]

            @override
            async def agrep(  # type: ignore[override]
                self, pattern: str, path: str | None = None, glob: str | None = None
            ) -> Any:
                return self.grep(pattern, path, glob)

            @override
            def ls(self, path: str) -> Any:
                return [{"path": "/0"}]

        files = CompositeBackend(Old(), {"/old/": Old()})
        assert len(paths(await ask(files, "grep", "x"))) == 6
        limited = await ask(files, "grep", "x", max_count=4)
        assert (paths(limited), limited.truncated) == (["/0", "/1", "/2", "/old/0"], True)
        assert paths(await ask(files, "ls", "/old")) == ["/old/0"]

    async def test_commands_run_where_the_default_backend_runs_them(self, ask: Ask) -> None:
        class Sandbox(SandboxBackendProtocol):
            @property
            @override
            def id(self) -> str:
                return "box"

            @override
            def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
                return ExecuteResponse(output=f"{command} {timeout}", exit_code=0)

        files = CompositeBackend(Sandbox(), {"/m/": files_of("m")})
        assert files.id == "box"
        assert (await ask(files, "execute", "ls", timeout=3)).output == "ls 3"
        assert (await ask(files, "execute", "ls")).output == "ls None"
        without = CompositeBackend(files_of("default"), {"/box/": Sandbox()})
        assert not hasattr(without, "id")
        with pytest.raises(NotImplementedError, match="doesn't support command execution"):
            await ask(without, "execute", "ls")

    async def test_file_systems_of_mounts_are_mounts_again(self, ask: Ask) -> None:
        inner = mounted({"/a": "hit"}, {"/in/": {"/b": "hit"}})
        files = CompositeBackend(files_of("default"), {"/out/": inner})
        assert paths(await ask(files, "grep", "hit")) == ["/out/a", "/out/in/b"]
        assert paths(await ask(files, "ls", "/out")) == ["/out/a", "/out/in/"]
        assert "'/out/in'" in (await ask(files, "delete", "/out/in")).error


class TestConfiguration:
    @pytest.mark.parametrize(
        ("routes", "named"),
        [
            ({"memories/": 1}, "memories/"),
            ({"/": 1}, "/"),
            ({"//": 1}, "//"),
            ({"/a/../b": 1}, "/a/../b"),
            ({"/a\0": 1}, "/a"),
            ({"/a": 1, "//a/": 1}, "//a/"),
            ({5: 1}, "5"),
        ],
    )
    def test_a_route_is_a_directory(self, routes: Mapping[Any, int], named: str) -> None:
        with pytest.raises(Misconfigured) as refused:
            CompositeBackend(files_of("default"), dict.fromkeys(routes, files_of("routed")))
        assert (refused.value.field or "").startswith("routes[")
        assert named in (refused.value.field or "")

    @pytest.mark.parametrize("backend", [StoreBackend, lambda _: files_of("made"), None, "files"])
    def test_what_is_no_backend_is_refused_with_the_way_out(self, backend: Any) -> None:
        with pytest.raises(Misconfigured, match=r"^default is .* pass the backend itself"):
            CompositeBackend(backend, {})
        with pytest.raises(Misconfigured, match=r"^routes\['/m/'\] is .* pass the backend itself"):
            CompositeBackend(StateBackend(), {"/m/": backend})

    def test_routes_and_artifacts_root_are_what_they_are_called(self) -> None:
        with pytest.raises(Misconfigured) as refused:
            CompositeBackend(files_of("default"), [("/m/", files_of("m"))])  # type: ignore[arg-type]
        assert refused.value.field == "routes"
        with pytest.raises(Misconfigured) as refused:
            CompositeBackend(files_of("default"), {}, artifacts_root="work")
        assert refused.value.field == "artifacts_root"
        assert CompositeBackend(files_of("default"), {}).artifacts_root == "/"


NAMES = st.sampled_from(["a", "b", ".c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names) + "/f")
ROUTES = st.lists(
    st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names)), unique=True
)
PATTERNS = st.lists(st.sampled_from(["a", "*", "**", ".c", "{a,b}", "f", "?"]), min_size=1, max_size=4).map(
    "/".join
)


@given(st.lists(PATHS, max_size=6, unique=True), ROUTES, PATTERNS, st.one_of(st.none(), PATHS))
def test_mounts_are_no_different_from_directories(
    some: list[str], routes: list[str], pattern: str, path: str | None
) -> None:
    plain = files_of("plain", dict.fromkeys(some, "hit"))
    files = mounted({}, {route: {} for route in routes})
    for one in some:
        assert files.write(one, "hit").error is None
    where = path and path.rpartition("/")[0]
    assert sorted(paths(files.glob(pattern, where))) == sorted(paths(plain.glob(pattern, where)))
    assert paths(files.grep("hit", where, pattern)) == paths(plain.grep("hit", where, pattern))
    shown = {one for one in paths(files.ls(where or "/")) if not f"{one}".endswith("/")}
    assert shown == {one for one in paths(plain.ls(where or "/")) if not one.endswith("/")}
