"""Finding lines that hold a literal text."""

from __future__ import annotations

import pytest

from stateroom.files import grepping
from stateroom.testing.files_harness import Files, FilesHarness, OpensFiles

__all__ = ["FilesGrepSuite"]

CONTENTS = {
    "/a.md": "red\ngreen red\nblue\n",
    "/d/.b.md": "red",
    "/d/b.md": "Red\n\nred and red\n",
    "/d/e/c.txt": "nothing of note\nred",
    "/d.md": "green",
    "/odd.md": 'a.c\na*c [x] $1 ^\\ %_ "quoted" it\'s\tté😀\nabc\n\x01\x7f',
}


def filled(files: Files) -> Files:
    for path, content in CONTENTS.items():
        files.write(path, content)
    return files


class FilesGrepSuite(FilesHarness):
    """``grep``: literal, by path and line."""

    def test_lines_that_hold_a_text_are_found(self, files: Files) -> None:
        filled(files)
        assert files.lines("red") == [
            ("/a.md", 1, "red"),
            ("/a.md", 2, "green red"),
            ("/d/.b.md", 1, "red"),
            ("/d/b.md", 3, "red and red"),
            ("/d/e/c.txt", 2, "red"),
        ]
        assert files.lines("Red") == [("/d/b.md", 1, "Red")]
        assert files.lines("green r") == [("/a.md", 2, "green red")]
        assert files.lines("absent") == []

    def test_a_text_is_taken_literally(self, files: Files) -> None:
        filled(files)
        content = CONTENTS["/odd.md"].split("\n")
        for text, lines in {
            "a.c": [1],
            "a*c": [2],
            "[x]": [2],
            "$1 ^\\": [2],
            "%_": [2],
            '"quoted"': [2],
            "it's": [2],
            "\t": [2],
            "té😀": [2],
            "é": [2],
            "\x01\x7f": [4],
            ".*": [],
            "a.*": [],
            "(": [],
            "\\\\": [],
            "\\u": [],
            "e": [2],
        }.items():
            assert files.lines(text, "/odd.md") == [("/odd.md", n, content[n - 1]) for n in lines], text

    def test_every_form_of_line_end_and_content_is_looked_into(self, files: Files) -> None:
        planted: dict[str, dict[str, object]] = {
            "/lines.md": {"content": ['say "red"', "x"]},
            "/string.md": {"content": 'x\nsay "red"', "encoding": "utf-8"},
            "/other.md": {"content": 'x\r\nsay "red"\r\n', "mimeType": "text/markdown"},
            "/within.md": {"content": ['x\ny\nsay "red"', "z"]},
        }
        for path, value in planted.items():
            files.plant(path, value)
        found = [("/lines.md", 1), ("/other.md", 2), ("/string.md", 2), ("/within.md", 3)]
        assert files.lines('"red"') == [(path, line, 'say "red"') for path, line in found]
        assert files.lines("z") == [("/within.md", 4, "z")]

    def test_what_is_no_line_is_not_found(self, files: Files) -> None:
        filled(files)
        files.upload("/f.bin", b"red\xff")
        files.plant("/base64.md", {"content": "cmVk", "encoding": "base64", "red": "red"})
        files.plant("/beside.md", {"content": ["x"], "red": "red", "tags": ["red"]})
        for text in ("red\n", "red\ngreen", "\n", "cmVk", "utf-8", "content", "modified_at", "created"):
            assert files.lines(text) == [], text
        assert {path for path, _, _ in files.lines("red")} == {"/a.md", "/d/.b.md", "/d/b.md", "/d/e/c.txt"}

    def test_every_line_holds_the_empty_text(self, files: Files) -> None:
        files.write("/f.md", "one\n\ntwo\n")
        files.write("/g.md", "three")
        files.write("/h.md", "")
        shown = [("/f.md", 1, "one"), ("/f.md", 2, ""), ("/f.md", 3, "two"), ("/g.md", 1, "three")]
        assert [found for found in files.lines("") if found[0] != "/h.md"] == shown

    def test_a_path_says_where_to_look(self, files: Files) -> None:
        filled(files)
        below = [("/d/.b.md", 1, "red"), ("/d/b.md", 3, "red and red"), ("/d/e/c.txt", 2, "red")]
        for path in ("/d", "d/", "//d/./"):
            assert files.lines("red", path) == below
        assert files.lines("red", "/d/e") == below[2:]
        assert files.lines("red", "/d/b.md") == files.lines("red", path="d//b.md") == below[1:2]
        assert files.lines("red", "/d.md") == files.lines("red", "/none") == files.lines("red", "/d/b") == []
        assert files.lines("red", None) == files.lines("red", "/") == files.lines("red", "")

    def test_a_pattern_says_which_files_to_look_into(self, files: Files) -> None:
        filled(files)
        for path, glob, found in (
            (None, "*.txt", ["/d/e/c.txt"]),
            (None, "*.md", ["/a.md", "/d/b.md"]),
            (None, "d/*.md", ["/d/b.md"]),
            (None, "/d/**/*.{md,txt}", ["/d/b.md", "/d/e/c.txt"]),
            ("/d", "*.md", ["/d/b.md"]),
            ("/d", ".*", ["/d/.b.md"]),
            ("/d", "e/*", ["/d/e/c.txt"]),
            ("/d/b.md", "*.md", ["/d/b.md"]),
            ("/d/b.md", "*.txt", []),
            (None, "none", []),
        ):
            lines = files.lines("red", path, glob)
            assert sorted({where for where, _, _ in lines}) == found, (path, glob)
            assert lines == files.lines("red", path, glob=glob, max_count=100)

    @pytest.mark.parametrize("size", [1, 2, 500])
    def test_at_most_so_many_lines_are_found(self, opens: OpensFiles, size: int) -> None:
        files = filled(opens())
        opens.few(grepping, "PAGE", size)
        everything = files.lines("red")
        assert len(everything) == 5
        for most in range(8):
            result = files.ok("grep", "red", max_count=most)
            found = [(match["path"], match["line"], match["text"]) for match in result.matches]
            assert found == everything[:most]
            assert result.truncated is (most < 5)
        assert files.ok("grep", "red").truncated is False
        assert files.ok("grep", "absent", max_count=0).truncated is False

    def test_what_cannot_be_looked_for_is_refused(self, files: Files) -> None:
        filled(files)
        for pattern in (None, 5, b"red", ["red"]):
            assert "pattern" in files.refused("grep", pattern)
        for most in (-1, True, 1.5, "1"):
            assert "max_count" in files.refused("grep", "red", max_count=most)
        for text in ("a\0b", "\ud800"):
            # No file can hold it; that may be said, or nothing be found.
            result = files.call("grep", text)
            assert result.error is not None or result.matches == []
