"""Paths: the one spelling of each, and what cannot be one."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.model.limits import KEY_BYTES_MAX
from stateroom.testing.files_harness import Files, FilesHarness

__all__ = ["FilesPathsSuite"]

SPELLED = {
    "/a.md": ["a.md", "/a.md", "//a.md", "/./a.md", "./a.md", "///.//a.md"],
    "/d/e/f": ["d/e/f", "/d//e/f", "/d/./e/./f", "//d///e//f"],
    "/...": ["...", "/..."],
    "/..a/b..": ["..a/b..", "//..a/./b.."],
    "/~/.x": ["~/.x", "/~/.x"],
    "/C:": ["C:", "/C:"],
}

# Anything else that a name may hold, among it what storages, shells and patterns take for something.
NAMES = [
    *("my-doc.md#0", "a.b", "user@example.org", "x|y", "it's", "100%", "naïve 😀", " lead", "trail ", "a\\b"),
    *("{x}", "[x]", "*", "?", "**", '"', "\x01", "\x7f", "\n", "\t", "\u2028", "\ufeff", "\uffff"),
    *("\U0010ffff", "e\u0301", "é", "É", "_", "%", "$1", "NULL", "--", ";", "a" * 255, "~", "C", "CON"),
]

REFUSED: dict[str, Any] = {
    "up": "/../a.md",
    "up in the middle": "/d/../a.md",
    "up at the end": "/d/..",
    "only up": "..",
    "NUL": "/a\0.md",
    "a lone surrogate": "/\ud800.md",
    "a drive": "C:\\a.md",
    "a drive with a slash": "c:/a.md",
    "a number": 5,
    "nothing": None,
    "bytes": b"/a.md",
    "too long": "/" + "a" * KEY_BYTES_MAX,
    "too long in bytes": "/" + "é" * (KEY_BYTES_MAX // 2),
}


class FilesPathsSuite(FilesHarness):
    """Every path has one spelling, whoever spells it, and any name can be in it."""

    @pytest.mark.parametrize("path", SPELLED)
    def test_a_path_may_be_spelled_in_any_way(self, files: Files, path: str) -> None:
        for spelled in SPELLED[path]:
            assert files.write(spelled, spelled) == path
            assert files.everything().keys() == {path}
            for other in SPELLED[path]:
                assert files.text(other) == spelled
                assert files.data(other) == spelled.encode()
                assert files.lines("", other)[0][0] == path
            files.edit(spelled, spelled, "new")
            files.ok("delete", spelled)
            assert files.everything() == {}

    def test_any_name_is_a_name(self, files: Files) -> None:
        for name in NAMES:
            files.write(f"/{name}", name)
            files.write(f"/in/{name}/x", name)
        assert files.names("/") == sorted([*(f"/{name}" for name in NAMES), "/in/"])
        assert files.names("/in") == sorted(f"/in/{name}/" for name in NAMES)
        for name in NAMES:
            assert files.data(f"/{name}") == name.encode()
            assert files.names(f"/in/{name}") == [f"/in/{name}/x"]
            assert files.found("x", f"/in/{name}") == [f"/in/{name}/x"]
            assert [path for path, _, _ in files.lines("", f"/{name}")][:1] == [f"/{name}"]
        for name in NAMES:
            files.ok("delete", f"/{name}")
            files.ok("delete", f"/in/{name}")
            assert f"/{name}" not in files.everything()
        assert files.everything() == {}

    @pytest.mark.parametrize("name", REFUSED)
    def test_what_is_no_path_is_refused(self, files: Files, name: str) -> None:
        files.write("/a.md", "text")
        files.write("/d/a.md", "text")
        path = REFUSED[name]
        for method, *arguments in (("read",), ("write", "x"), ("edit", "text", "x"), ("delete",)):
            error = files.refused(method, path, *arguments)
            assert error.startswith("Error: file_path ")
        files.refused("multi_edit", path, [("text", "x")])
        (uploaded,) = files.call("upload_files", [(path, b"x")])
        (downloaded,) = files.call("download_files", [path])
        assert uploaded.error is not None
        assert downloaded.error is not None
        assert (uploaded.path, downloaded.path, downloaded.content) == (path, path, None)
        assert {**files.everything()}.keys() == {"/a.md", "/d/a.md"}
        assert files.refused("ls", path).startswith("Error: path ")
        if path is not None:
            for method, *arguments in (("glob", "*", path), ("grep", "x", path)):
                assert files.refused(method, *arguments).startswith("Error: path ")
            assert files.refused("search", "text", path).startswith("Error: path ")
            assert files.refused("prune", keep=0, path=path).startswith("Error: path ")

    def test_the_longest_path_is_one(self, files: Files) -> None:
        for path in ("/" + "a" * (KEY_BYTES_MAX - 1), "/d" * (KEY_BYTES_MAX // 2)):
            files.write(path, "x")
            assert files.text(path) == "x"
            assert files.lines("x", path) == [(path, 1, "x")]
            files.ok("delete", path)

    def test_an_error_shows_no_more_than_the_beginning_of_a_path(self, files: Files) -> None:
        for path in ("/../" + "x" * 100_000, "/" + "x" * 100_000, "C:/" + "x" * 100_000):
            for method, *arguments in (("read",), ("write", "x"), ("ls",)):
                assert len(files.refused(method, path, *arguments)) < 300

    def test_a_dot_at_the_end_names_a_directory(self, files: Files) -> None:
        files.write("/d/f", "x")
        for path in ("/d/.", "/d/f/.", "/new/.", ".", "/./."):
            for method, *arguments in (("read",), ("write", "x"), ("edit", "x", "y")):
                assert "names a directory" in files.refused(method, path, *arguments)
