"""Replacing texts in files, one or several at once."""

from __future__ import annotations

from typing import Any

from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.testing.files_harness import Files, FilesHarness

__all__ = ["FilesEditingSuite"]

HINT = "old_string ends with a newline, but the file does not end with a newline."

WRONG_EDITS: list[Any] = [
    [],
    ["text"],
    [5],
    [None],
    [("one",)],
    [("one", "two", False, 1)],
    [{"old_string": "one"}],
    [{"new_string": "one"}],
    [{"old_string": "one", "new_string": "two", "count": 1}],
    [{"old_string": "one", "new_string": None}],
    [(b"one", "two")],
    [("one", "a\0b")],
    [("one", "\ud800")],
]


class FilesEditingSuite(FilesHarness):
    """``edit`` and ``multi_edit``: what is replaced is what was read."""

    def test_a_text_that_occurs_once_is_replaced(self, files: Files, clock: ManualClock) -> None:
        created = microseconds_to_datetime(clock()).isoformat()
        files.write("/f.md", "one two\nthree\n")
        clock.advance(minutes=1)
        for old, new, shown in (
            ("two\nthree", "2\n3", "one 2\n3\n"),
            ("one ", "", "2\n3\n"),
            ("3\n", "3", "2\n3"),
            ("2", "\\1 $2 😀", "\\1 $2 😀\n3"),
            (".", ".", None),
            ("\\1 $2 😀\n3", "", ""),
        ):
            if shown is None:
                files.refused("edit", "/f.md", old, new)
                continue
            assert files.edit("/f.md", old, new) == 1
            assert files.text("/f.md") == shown
        data = files.ok("read", "/f.md").file_data
        modified = microseconds_to_datetime(clock()).isoformat()
        assert (data["created_at"], data["modified_at"]) == (created, modified)

    def test_a_text_that_occurs_often_is_replaced_on_demand(self, files: Files) -> None:
        files.write("/f.md", "a b a\na")
        error = files.refused("edit", "/f.md", "a", "c")
        assert error.startswith("Error: String 'a' appears 3 times in file. ")
        assert "replace_all=True" in error
        assert files.edit("/f.md", "a", "aa", replace_all=True) == 3
        assert files.text("/f.md") == "aa b aa\naa"
        assert files.edit("/f.md", " b ", " ", replace_all=True) == 1
        assert files.ok("edit", "/f.md", "aa aa", new_string="b").occurrences == 1
        assert files.text("/f.md") == "b\naa"

    def test_an_edit_that_cannot_be_made_says_why(self, files: Files) -> None:
        files.write("/f.md", "one\ntwo")
        files.upload("/f.bin", b"\xff\x00one")
        files.upload("/f.png", b"\x89PNG")
        for path, old, error in (
            ("/none.md", "one", "Error: File '/none.md' not found"),
            ("/f.md", "three", "Error: String not found in file: 'three'"),
            ("/f.md", "ONE", "Error: String not found in file: 'ONE'"),
            ("/f.md", "", "Error: old_string cannot be empty. Provide the exact text to replace."),
            ("/f.bin", "one", "Error: Cannot edit binary files with text replacements."),
            ("/f.png", "P", "Error: Cannot edit binary files with text replacements."),
        ):
            assert files.refused("edit", path, old, "new") == error
        assert "the same" in files.refused("edit", "/f.md", "one", "one")
        for odd in (None, 5, b"one", "a\0", "\ud800"):
            assert "old_string" in files.refused("edit", "/f.md", odd, "x")
            assert "new_string" in files.refused("edit", "/f.md", "one", odd)

    def test_a_line_feed_that_the_file_lacks_is_hinted_at(self, files: Files) -> None:
        files.write("/f.md", "one\ntwo")
        assert files.refused("edit", "/f.md", "two\n", "2\n").startswith(f"Error: {HINT}")
        files.write("/f.md", "two\ntwo ends and two")
        error = files.refused("edit", "/f.md", "two\n\n", "2")
        assert "String not found" in error
        files.write("/f.md", "no end, two and two")
        error = files.refused("edit", "/f.md", "two\n", "2\n")
        assert error.startswith(f"Error: {HINT}")
        assert "appear 2 times" in error

    def test_an_error_repeats_no_more_than_the_beginning_of_a_text(self, files: Files) -> None:
        files.write("/f.md", "x\n" * 3 + "y" * 1_000 + "z" + "y" * 1_000)
        for old in ("absent " * 20_000, "y" * 1_000, "😀" * 100_000):
            error = files.refused("edit", "/f.md", old, "new")
            assert len(error) < 600
            assert old[:100] in error

    def test_an_edit_finds_what_read_shows_of_other_line_ends(self, files: Files) -> None:
        files.write("/f.md", "one\r\ntwo\r\nthree\r\n")
        assert files.edit("/f.md", "one\ntwo\n", "1\n2\n2b\n") == 1
        assert files.data("/f.md") == b"1\r\n2\r\n2b\r\nthree\r\n"
        assert files.edit("/f.md", "2b\r\nthree", "3") == 1
        assert files.data("/f.md") == b"1\r\n2\r\n3\r\n"
        assert files.edit("/f.md", "\n", "\n\n", replace_all=True) == 3
        assert files.data("/f.md") == b"1\r\n\r\n2\r\n\r\n3\r\n\r\n"

    def test_an_edit_keeps_the_line_ends_of_a_file(self, files: Files) -> None:
        files.write("/f.md", "one\r\ntwo\r\n")
        files.edit("/f.md", "two", "2\n3")
        assert files.data("/f.md") == b"one\r\n2\r\n3\r\n"
        files.edit("/f.md", "one", "0\r\n1")
        assert files.data("/f.md") == b"0\r\n1\r\n2\r\n3\r\n"

    def test_an_edit_finds_what_read_shows_where_line_ends_are_mixed(self, files: Files) -> None:
        files.write("/f.md", "one\r\ntwo\nthree\r\nfour")
        shown = files.text("/f.md")
        assert files.edit("/f.md", shown[:-4], "five\n") == 1
        assert files.text("/f.md") == "five\nfour"
        files.write("/f.md", "x\r\ny\nx\ny\n")
        assert "appears 2 times" in files.refused("edit", "/f.md", "x\ny\n", "z\n")
        assert files.edit("/f.md", "x\ny\n", "z\n", replace_all=True) == 2
        assert files.text("/f.md") == "z\nz\n"

    def test_several_edits_are_made_one_after_the_other(self, files: Files) -> None:
        files.write("/f.md", "one two two")
        edits = [
            {"old_string": "one", "new_string": "1"},
            ("1 ", "uno "),
            {"old_string": "two", "new_string": "2", "replace_all": True},
            ("uno 2", "done", False),
        ]
        assert files.ok("multi_edit", "f.md", edits).occurrences == 5
        assert files.text("/f.md") == "done 2"
        result = files.ok("multi_edit", "/f.md", iter([("done", "all")]))
        assert (result.path, result.occurrences) == ("/f.md", 1)
        assert files.text("/f.md") == "all 2"

    def test_several_edits_are_made_all_or_none(self, files: Files) -> None:
        files.write("/f.md", "one two two")
        files.upload("/f.bin", b"\xff")
        first = ("one", "1")
        for second, told in (
            (("absent", "x"), "Error: edit 2: String not found in file: 'absent'"),
            (("one", "x"), "Error: edit 2: String not found in file: 'one'"),
            (("two", "x"), "Error: edit 2: String 'two' appears 2 times in file. "),
            (("", "x"), "Error: edit 2: old_string cannot be empty."),
            (("1", "1"), "Error: edit 2: "),
        ):
            assert files.refused("multi_edit", "/f.md", [first, second]).startswith(told)
        assert "not found" in files.refused("multi_edit", "/none", [first])
        assert "binary" in files.refused("multi_edit", "/f.bin", [first])
        assert files.text("/f.md") == "one two two"

    def test_an_edit_that_is_none_is_refused_by_its_place(self, files: Files) -> None:
        files.write("/f.md", "one")
        for edits in (*WRONG_EDITS, None, 5):
            assert "edits" in files.refused("multi_edit", "/f.md", edits)
        assert "edits[1].new_string" in files.refused("multi_edit", "/f.md", [("one", "1"), ("1", 2)])
