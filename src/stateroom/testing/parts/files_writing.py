"""Creating and replacing files, and what names they may have beside each other."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.model.limits import VALUE_BYTES_MAX
from stateroom.testing.files_harness import Files, FilesHarness, OpensFiles

__all__ = ["FilesWritingSuite"]

NO_TEXT: list[Any] = [None, 5, b"bytes", ["lines"], {"content": "x"}]
NO_STORABLE_TEXT = ["a\0b", "lone \ud800 surrogate", "\udfff"]


class FilesWritingSuite(FilesHarness):
    """``write``: create a file, or replace what it holds."""

    def test_a_new_file_is_written_in_lines_unless_told_otherwise(
        self, opens: OpensFiles, clock: ManualClock
    ) -> None:
        now = microseconds_to_datetime(clock()).isoformat()
        times = {"created_at": now, "modified_at": now}
        for file_format, held in (
            ("v1", {"content": ["one", "two", ""]}),
            ("v2", {"content": "one\ntwo\n", "encoding": "utf-8"}),
        ):
            files = opens(file_format=file_format)
            assert files.write(f"/{file_format}.md", "one\ntwo\n") == f"/{file_format}.md"
            assert files.everything()[f"/{file_format}.md"] == held | times
            assert files.text(f"/{file_format}.md") == "one\ntwo\n"

    def test_writing_again_replaces_the_content_and_keeps_the_creation(
        self, files: Files, clock: ManualClock
    ) -> None:
        created = microseconds_to_datetime(clock()).isoformat()
        files.write("/f.md", "one")
        for content in ("two", "two", "", "three\n"):
            clock.advance(minutes=1)
            files.write("/f.md", content)
            data = files.ok("read", "/f.md").file_data
            modified = microseconds_to_datetime(clock()).isoformat()
            assert (data["content"], data["created_at"], data["modified_at"]) == (content, created, modified)
        files.ok("delete", "/f.md")
        files.write("/f.md", "four")
        assert files.ok("read", "/f.md").file_data["created_at"] == modified

    def test_a_binary_file_may_become_text_and_text_binary(self, files: Files) -> None:
        files.write("/f", "text")
        files.upload("/f", b"\xff")
        assert files.ok("read", "/f").file_data["encoding"] == "base64"
        files.write("/f", "text")
        assert files.ok("read", "/f").file_data["encoding"] == "utf-8"
        assert files.lines("text") == [("/f", 1, "text")]

    def test_the_content_must_be_text_that_can_be_stored(self, files: Files) -> None:
        files.write("/f.md", "text")
        for content in (*NO_TEXT, *NO_STORABLE_TEXT):
            for path in ("/f.md", "/new.md"):
                assert "content" in files.refused("write", path, content)
        assert "NUL" in files.refused("write", "/f.md", "a\0b")
        assert "surrogate" in files.refused("write", "/f.md", "\ud800")

    def test_nothing_can_be_created_below_a_file(self, files: Files) -> None:
        files.write("/a/f", "text")
        for path in ("/a/f/b", "/a/f/b/c", "/a/f/./b"):
            error = files.refused("write", path, "x")
            assert error.startswith("Error: '/a/f' is a file")
        files.write("/a/ff/b", "x")
        files.write("/a/f.md", "x")

    def test_no_file_can_be_created_where_a_directory_is(self, files: Files) -> None:
        files.write("/a/b/c.md", "text")
        if not files.system.lists_cheaply:
            # It would have to read everything to know.
            return
        for path in ("/a", "/a/b", "//a"):
            assert "is a directory" in files.refused("write", path, "x")
        files.write("/a/b.md", "x")
        files.ok("delete", "/a/b")
        files.write("/a/b", "x")
        assert files.names("/a") == ["/a/b", "/a/b.md"]

    def test_a_directory_is_named_by_its_files_and_can_be_none_itself(self, files: Files) -> None:
        files.write("/a/b.md", "text")
        for path in ("/", "", "//", "/.", "/d/", "/a/", "/a//", "/a/b.md/"):
            assert "names a directory" in files.refused("write", path, "x")
            assert "names a directory" in files.refused("edit", path, "text", "x")
            assert "names a directory" in files.refused("read", path)

    def test_objects_that_are_handed_over_stay_the_callers(self, files: Files) -> None:
        value: dict[str, Any] = {"content": ["one"], "tags": ["x"]}
        files.plant("/f.md", value)
        kept = files.everything()["/f.md"]
        assert kept == {"content": ["one"], "tags": ["x"]}
        files.ok("read", "/f.md").file_data["content"] = "changed"
        files.ok("ls", "/").entries.clear()
        files.ok("glob", "*").matches[0]["path"] = "/changed"
        files.ok("grep", "one").matches[0]["text"] = "changed"
        assert files.text("/f.md") == "one"
        assert files.found("*") == ["/f.md"]
        assert files.lines("one") == [("/f.md", 1, "one")]

    def test_a_file_of_a_megabyte_is_as_any_other(self, files: Files) -> None:
        count = 25_000 if files.system.has_full_limits else 10_000
        lines = [f"line {number} of many, with some words on it" for number in range(count)]
        files.write("/large.md", "\n".join(lines))
        assert files.text("/large.md", count - 9) == "\n".join(lines[-9:])
        assert files.edit("/large.md", f"line {count - 1} of", "the last of") == 1
        assert files.edit("/large.md", "line ", "row ", replace_all=True) == count - 1
        last = "the last of many, with some words on it"
        assert files.lines("the last of many") == [("/large.md", count, last)]
        assert files.usage() == (1, len(files.data("/large.md")))

    def test_what_is_too_large_is_refused(self, files: Files) -> None:
        files.write("/f.md", "small")
        for path in ("/f.md", "/new.md"):
            files.refused("write", path, "x" * (VALUE_BYTES_MAX + 1))

    @pytest.mark.parametrize("method", ["write", "edit", "delete", "read"])
    def test_the_path_that_is_answered_is_the_one_that_is_stored(self, files: Files, method: str) -> None:
        files.write("/a/f.md", "old")
        arguments = {"write": ("new",), "edit": ("old", "new")}.get(method, ())
        result = files.ok(method, "a//./f.md", *arguments)
        if method != "read":
            assert result.path == "/a/f.md"
        assert files.names("/") == ([] if method == "delete" else ["/a/"])
