"""Reading files by windows of lines, and whole where they are binary."""

from __future__ import annotations

import base64

import pytest

from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.testing.files_harness import Files, FilesHarness

__all__ = ["FilesReadingSuite"]

FIVE = "one\ntwo\nthree\nfour\nfive"

# What separates lines to Python, to Unicode, or to a printer, and to nobody who counts lines here.
ODD_LINES = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh\nneedle \x0c\u2028needle\nend\x0c"

WINDOWS = [
    # offset, limit; what is shown, the first line, the last line
    (0, 2_000, FIVE, 1, 5),
    (0, 5, FIVE, 1, 5),
    (0, 4, "one\ntwo\nthree\nfour\n", 1, 4),
    (0, 1, "one\n", 1, 1),
    (1, 2, "two\nthree\n", 2, 3),
    (3, 2, "four\nfive", 4, 5),
    (3, 10**12, "four\nfive", 4, 5),
    (4, 1, "five", 5, 5),
    (-1, 1, "one\n", 1, 1),
    (-(10**12), 2, "one\ntwo\n", 1, 2),
]


class FilesReadingSuite(FilesHarness):
    """``read``: a window of lines for an agent."""

    def test_a_file_is_read_as_it_was_written(self, files: Files, clock: ManualClock) -> None:
        written = microseconds_to_datetime(clock()).isoformat()
        for content in (
            FIVE,
            FIVE + "\n",
            "x",
            "\n\nx\n\n",
            "\ufeffbom",
            "naïve 😀 e\u0301\n",
            '"\\u0041\\"',
        ):
            files.write("/f.md", content)
            result = files.ok("read", "/f.md")
            assert result.file_data == {
                "content": content,
                "encoding": "utf-8",
                "created_at": written,
                "modified_at": microseconds_to_datetime(clock()).isoformat(),
            }
            assert files.data("/f.md") == content.encode()
            clock.advance(seconds=1)

    def test_a_window_of_lines_is_read(self, files: Files) -> None:
        for end in ("", "\n"):
            files.write("/f.md", FIVE + end)
            for offset, limit, shown, first, last in WINDOWS:
                result = files.ok("read", "/f.md", offset, limit)
                assert result.file_data["content"] == shown + (end if last == 5 else "")
                assert (result.total_lines, result.start_line, result.end_line) == (5, first, last)
                assert result.next_offset == (last if last < 5 else None)
                assert result.no_lines_requested is False

    def test_windows_join_to_the_whole(self, files: Files) -> None:
        for content in (FIVE, FIVE + "\n", "\n\n\na\n\n\n", ODD_LINES, "x"):
            files.write("/f.md", content)
            for size in (1, 2, 3):
                offset: int | None = 0
                joined = ""
                while offset is not None:
                    result = files.ok("read", "/f.md", offset, size)
                    joined += result.file_data["content"]
                    assert result.next_offset is None or result.next_offset == offset + size
                    offset = result.next_offset
                assert joined == content

    @pytest.mark.parametrize(("content", "lines"), [(FIVE, 5), (FIVE + "\n", 5), ("one", 1), ("one\n", 1)])
    def test_an_offset_behind_the_last_line_is_an_error(self, files: Files, content: str, lines: int) -> None:
        files.write("/f.md", content)
        for offset in (lines, lines + 1, 10**12):
            error = files.refused("read", "/f.md", offset)
            assert error == f"Line offset {offset} exceeds file length ({lines} lines)"

    def test_no_lines_may_be_asked_for(self, files: Files) -> None:
        files.write("/f.md", FIVE)
        for limit in (0, -1, -(10**12)):
            result = files.ok("read", "/f.md", 0, limit)
            assert result.no_lines_requested is True
            assert result.file_data["content"] == ""
            assert (result.total_lines, result.start_line, result.end_line) == (None, None, None)

    def test_two_thousand_lines_are_read_unless_told_otherwise(self, files: Files) -> None:
        files.write("/f.md", "".join(f"{number}\n" for number in range(2_001)))
        result = files.ok("read", "/f.md")
        assert (result.total_lines, result.end_line, result.next_offset) == (2_001, 2_000, 2_000)
        assert files.text("/f.md", 2_000) == "2000\n"

    def test_a_blank_file_is_read_whole(self, files: Files) -> None:
        for content in ("", "\n", " \n\t\n \n"):
            files.write("/f.md", content)
            assert files.ok("read", "/f.md").file_data["content"] == content
            assert files.data("/f.md") == content.encode()

    def test_lines_end_at_a_line_feed_and_nowhere_else(self, files: Files) -> None:
        files.write("/f.md", ODD_LINES)
        lines = ODD_LINES.split("\n")
        assert files.ok("read", "/f.md").total_lines == len(lines) == 3
        assert files.text("/f.md", 1, 1) == lines[1] + "\n"
        assert files.lines("needle") == [("/f.md", 2, lines[1])]

    def test_the_number_of_a_line_that_grep_finds_is_where_read_shows_it(self, files: Files) -> None:
        contents = [ODD_LINES, FIVE, "e\r\ne\r\n\r\n e", "\n\n\x0ce\n", "\x1d\ne\x1e\ne\u2029", "e\n" * 3]
        for number, content in enumerate(contents):
            files.write(f"/{number}.md", content)
        found = files.lines("e")
        assert len(found) == 15
        for path, line, text in found:
            assert files.text(path, line - 1, 1).removesuffix("\n") == text
            assert "e" in text

    def test_line_ends_of_windows_are_shown_as_line_feeds(self, files: Files) -> None:
        files.write("/f.md", "one\r\ntwo\r\n\r\nthree\rfour\r\n")
        assert files.text("/f.md") == "one\ntwo\n\nthree\rfour\n"
        assert [files.text("/f.md", offset, 1) for offset in range(4)] == [
            "one\n",
            "two\n",
            "\n",
            "three\rfour\n",
        ]
        assert files.lines("o") == [("/f.md", 1, "one"), ("/f.md", 2, "two"), ("/f.md", 4, "three\rfour")]
        assert files.data("/f.md") == b"one\r\ntwo\r\n\r\nthree\rfour\r\n"

    def test_a_binary_file_is_read_whole(self, files: Files) -> None:
        data = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
        for path in ("/a.png", "/a.bin", "/a.md"):
            files.upload(path, data)
            for window in ((), (0, 1), (10**6, 1), (0, 0)):
                result = files.ok("read", path, *window)
                assert base64.b64decode(result.file_data["content"]) == data
                assert result.file_data["encoding"] == "base64"

    def test_text_under_the_name_of_an_image_is_read_whole(self, files: Files) -> None:
        files.write("/drawing.PNG", "one\ntwo\n")
        result = files.ok("read", "/drawing.PNG", 1, 1)
        assert (result.file_data["content"], result.file_data["encoding"]) == ("one\ntwo\n", "utf-8")

    def test_what_is_not_there_cannot_be_read(self, files: Files) -> None:
        files.write("/d/f.md", "x")
        for path in ("/none", "/d", "/d/f", "/d/f.md/below", "/D/f.md"):
            assert files.refused("read", path) == f"File '{path}' not found"

    def test_what_is_no_number_of_lines_is_refused(self, files: Files) -> None:
        files.write("/f.md", FIVE)
        for odd in (None, "1", 1.5, b"1", [1]):
            assert "offset" in files.refused("read", "/f.md", odd)
            assert "limit" in files.refused("read", "/f.md", 0, odd)

    def test_reading_changes_nothing(self, files: Files) -> None:
        files.write("/d/f.md", FIVE)
        before = files.everything()
        files.text("/d/f.md")
        files.text("/d/f.md", 2, 1)
        files.names("/d")
        files.data("/d/f.md")
        assert files.everything() == before
