"""Files as others write them, and items that are none."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.testing.files_harness import Files, FilesHarness, OpensFiles

__all__ = ["FilesFormatsSuite"]

TIMES = {"created_at": "2026-01-02T03:04:05.000006+00:00", "modified_at": "2026-01-03T00:00:00.000Z"}

FORMS: dict[str, tuple[dict[str, Any], bytes]] = {
    "lines": ({"content": ["one", "two"]} | TIMES, b"one\ntwo"),
    "lines, the last one ended": ({"content": ["one", ""]} | TIMES, b"one\n"),
    "no lines": ({"content": []} | TIMES, b""),
    "lines with line feeds in them": ({"content": ["one\ntwo", "three"]}, b"one\ntwo\nthree"),
    "lines with carriage returns": ({"content": ["one\r", "two\r", ""]}, b"one\r\ntwo\r\n"),
    "text of Python": ({"content": "one\ntwo\n", "encoding": "utf-8"} | TIMES, b"one\ntwo\n"),
    "text without an encoding": ({"content": "one 😀"} | TIMES, "one 😀".encode()),
    "bytes of Python": ({"content": "iVBO/w==", "encoding": "base64"} | TIMES, b"\x89PN\xff"),
    "text of JavaScript": ({"content": "one", "mimeType": "text/plain"} | TIMES, b"one"),
    "bytes of JavaScript": (
        {"content": {"0": 137, "1": 80, "2": 255}, "mimeType": "image/png"} | TIMES,
        b"\x89P\xff",
    ),
    "many bytes of JavaScript": (
        {"content": {str(place): place for place in range(100, -1, -1)}, "mimeType": "image/png"},
        bytes(range(101)),
    ),
    "a buffer of JavaScript": (
        {"content": {"type": "Buffer", "data": [1, 2, 255]}, "mimeType": "x/y"},
        b"\x01\x02\xff",
    ),
    "no bytes of JavaScript": ({"content": {}, "mimeType": "x/y"}, b""),
    "times that are none": ({"content": ["one"], "created_at": 5, "modified_at": None}, b"one"),
}
BINARY = {name for name, (value, _) in FORMS.items() if "ytes" in name or "buffer" in name}

JUNK: dict[str, dict[str, Any]] = {
    "/empty": {},
    "/number": {"content": 5, "kept": "x"},
    "/null": {"content": None},
    "/true": {"content": True},
    "/mixed": {"content": ["one", 2]},
    "/nested": {"content": [["one"]]},
    "/object": {"content": {"a": 1}},
    "/gap": {"content": {"0": 1, "2": 3}},
    "/large": {"content": {"0": 256}},
    "/no-base64": {"content": "no base64!", "encoding": "base64"},
    "/d/other": {"text": "needle one"},
}

# Keys of items that have the form of a file, and are no paths.
ODD_KEYS = [
    "/",
    "//",
    "/d//e.md",
    "/d/../e.md",
    "/d/./e.md",
    "/../e.md",
    "e.md",
    "d/e.md",
    "~",
    " /e",
]


class FilesFormatsSuite(FilesHarness):
    """All forms of ``FileData`` in the wild are read alike; what is no file disturbs nobody."""

    @pytest.mark.parametrize("name", FORMS)
    def test_every_form_is_read(self, files: Files, clock: ManualClock, name: str) -> None:
        value, data = FORMS[name]
        files.plant("/d/f", value)
        assert files.data("/d/f") == data
        read = files.ok("read", "/d/f").file_data
        assert read["encoding"] == ("base64" if name in BINARY else "utf-8")
        for time in ("created_at", "modified_at"):
            told = value.get(time)
            assert read.get(time) == (told if isinstance(told, str) else None)
        (listed,) = files.ok("ls", "/d").entries
        assert (listed["path"], listed["size"], listed["is_dir"]) == ("/d/f", len(data), False)
        assert isinstance(listed["modified_at"], str)
        clock.advance(minutes=1)
        assert files.ok("ls", "/d").entries == [listed]
        assert files.found("*") == ["/d/f"]
        assert files.usage() == (1, len(data))
        if b"one" in data:
            assert files.lines("one") == [("/d/f", 1, data.decode().splitlines()[0])]

    @pytest.mark.parametrize("name", FORMS)
    @pytest.mark.parametrize("file_format", ["v1", "v2"])
    def test_every_form_can_be_edited_and_replaced(
        self, opens: OpensFiles, clock: ManualClock, name: str, file_format: str
    ) -> None:
        files, (value, data) = opens(file_format=file_format), FORMS[name]
        now = microseconds_to_datetime(clock()).isoformat()
        created = value.get("created_at") if isinstance(value.get("created_at"), str) else now
        files.plant("/f", value | {"owner": "somebody", "tags": [1, {"a": None}]})
        if name in BINARY:
            assert "binary" in files.refused("edit", "/f", "a", "b")
        elif data:
            assert files.edit("/f", "one", "1") == 1
            assert files.data("/f") == data.replace(b"one", b"1", 1)
        files.write("/f", "new\n")
        kept = files.everything()["/f"]
        held = {"content": ["new", ""]} if file_format == "v1" else {"content": "new\n", "encoding": "utf-8"}
        kind = {"mimeType": value["mimeType"]} if "mimeType" in value and name not in BINARY else {}
        beside = {"owner": "somebody", "tags": [1, {"a": None}]} | kind
        assert kept == held | {"created_at": created, "modified_at": now} | beside
        files.upload("/f", b"\xff")
        kept = files.everything()["/f"]
        assert kept["encoding"] == "base64"
        assert (kept["owner"], kept["created_at"]) == ("somebody", created)
        assert "mimeType" not in kept

    def test_what_is_no_file_is_not_listed(self, files: Files) -> None:
        files.write("/d/f.md", "needle one")
        for path, value in JUNK.items():
            files.plant(path, value)
        assert files.names("/") == ["/d/"]
        assert files.names("/d") == ["/d/f.md"]
        assert files.found("**") == ["/d/f.md"]
        assert files.lines("") == files.lines("one") == [("/d/f.md", 1, "needle one")]
        assert files.lines("one", "/d/other") == []
        assert files.usage() == (1, 10)

    def test_what_is_no_file_says_so_when_it_is_read(self, files: Files) -> None:
        for path, value in JUNK.items():
            files.plant(path, value)
        for path in JUNK:
            assert files.refused("read", path).startswith(f"Error: '{path}' is no file")
            assert files.refused("edit", path, "a", "b").startswith(f"Error: '{path}' is no file")

    def test_what_is_no_file_can_be_replaced_and_deleted(self, files: Files) -> None:
        for path, value in JUNK.items():
            files.plant(path, value)
        for number, path in enumerate(JUNK):
            if number % 2:
                files.write(path, "text")
            else:
                files.upload(path, b"text")
            assert files.text(path) == "text"
            files.edit(path, "text", "new")
        assert files.everything()["/number"]["kept"] == "x"
        for path, value in JUNK.items():
            files.plant(path, value)
            files.ok("delete", path)
        assert files.everything() == {}

    def test_what_is_under_no_path_is_not_listed(self, files: Files) -> None:
        files.write("/d/f.md", "one")
        for key in ODD_KEYS:
            files.plant(key, {"content": ["one"]})
        assert files.names("/") == ["/d/"]
        assert files.names("/d") == ["/d/f.md"]
        assert files.found("**") == files.found("*") == files.found("*.md", "/d") == ["/d/f.md"]
        assert files.lines("one") == files.lines("one", "/d") == [("/d/f.md", 1, "one")]
        assert files.usage() == (1, 3)
        files.write("/e.md", "new")
        assert files.names("/") == ["/d/", "/e.md"]

    def test_a_directory_may_hold_what_is_no_file(self, files: Files) -> None:
        files.plant("/d/junk", {"content": 5})
        files.write("/d/f.md", "x")
        files.ok("delete", "/d")
        assert files.everything() == {}
