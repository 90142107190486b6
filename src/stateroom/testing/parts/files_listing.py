"""Finding files by their paths: directories and patterns."""

from __future__ import annotations

import pytest

from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.files import listing
from stateroom.testing.files_harness import Files, FilesHarness, OpensFiles

__all__ = ["FilesListingSuite"]

TREE = [
    "/.env.md",
    "/.git/config.md",
    "/a.md",
    "/a.txt",
    "/docs/.draft.md",
    "/docs/b.md",
    "/docs/deep/c.md",
    "/docs/deep/er/d.md",
    "/docs/deep/er/d.txt",
    "/docs/e.MD",
    "/docs.md",
    "/docs2/f.md",
    "/odd/[x].md",
    "/odd/naïve 😀.md",
    "/odd/x.md",
    "/odd/{y}.txt",
]

DIRECTORIES = {
    "/": ["/.env.md", "/.git/", "/a.md", "/a.txt", "/docs.md", "/docs/", "/docs2/", "/odd/"],
    "/docs": ["/docs/.draft.md", "/docs/b.md", "/docs/deep/", "/docs/e.MD"],
    "/docs/deep": ["/docs/deep/c.md", "/docs/deep/er/"],
    "/docs/deep/er": ["/docs/deep/er/d.md", "/docs/deep/er/d.txt"],
    "/.git": ["/.git/config.md"],
    "/odd": ["/odd/[x].md", "/odd/naïve 😀.md", "/odd/x.md", "/odd/{y}.txt"],
    # Neither a file nor the start of a name is a directory.
    "/a.md": [],
    "/doc": [],
    "/none/at/all": [],
    "/DOCS": [],
    "/%": [],
    "/docs*": [],
}

PATTERNS: list[tuple[str, str | None, list[str]]] = [
    # A pattern without a slash is matched with names, at any depth.
    ("a.md", None, ["/a.md"]),
    ("d.*", None, ["/docs/deep/er/d.md", "/docs/deep/er/d.txt"]),
    ("*.txt", None, ["/a.txt", "/docs/deep/er/d.txt", "/odd/{y}.txt"]),
    ("*.MD", None, ["/docs/e.MD"]),
    ("?.md", "/docs", ["/docs/b.md", "/docs/deep/c.md", "/docs/deep/er/d.md"]),
    (".*", "/docs", ["/docs/.draft.md"]),
    (".*.md", None, ["/.env.md", "/docs/.draft.md"]),
    ("[bc].md", None, ["/docs/b.md", "/docs/deep/c.md"]),
    ("[!x].md", "/docs/deep", ["/docs/deep/c.md", "/docs/deep/er/d.md"]),
    ("[[]x].md", None, ["/odd/[x].md"]),
    ("\\[x\\].md", None, ["/odd/[x].md"]),
    ("{b,c,none}.md", None, ["/docs/b.md", "/docs/deep/c.md"]),
    ("*.{md,txt}", "/docs/deep/er", ["/docs/deep/er/d.md", "/docs/deep/er/d.txt"]),
    ("na*😀.md", None, ["/odd/naïve 😀.md"]),
    ("none", None, []),
    ("docs", None, []),
    # No file's path ends with a slash.
    ("docs/", None, []),
    ("**/", None, []),
    ("/", None, []),
    ("", None, []),
    # With a slash, with whole paths below the directory; one that begins with it says no more than that.
    ("/a.md", None, ["/a.md"]),
    ("/*.md", None, ["/a.md", "/docs.md"]),
    ("./*.md", None, ["/a.md", "/docs.md"]),
    ("docs/*.md", None, ["/docs/b.md"]),
    ("/docs/*.md", None, ["/docs/b.md"]),
    ("docs/.*.md", None, ["/docs/.draft.md"]),
    ("*/*.md", None, ["/docs/b.md", "/docs2/f.md", "/odd/[x].md", "/odd/naïve 😀.md", "/odd/x.md"]),
    ("doc*/?.md", None, ["/docs/b.md", "/docs2/f.md"]),
    (".git/*", None, ["/.git/config.md"]),
    ("/b.md", "/docs", ["/docs/b.md"]),
    ("deep/*.md", "/docs", ["/docs/deep/c.md"]),
    ("docs/b.md", "/docs", []),
    ("{docs,odd}/{b,x}.md", None, ["/docs/b.md", "/odd/x.md"]),
    # Two stars are any number of directories, none included, whose names begin with no dot.
    ("**/d.md", None, ["/docs/deep/er/d.md"]),
    ("docs/**/*.md", None, ["/docs/b.md", "/docs/deep/c.md", "/docs/deep/er/d.md"]),
    ("docs/**/er/*", None, ["/docs/deep/er/d.md", "/docs/deep/er/d.txt"]),
    ("**/deep/**/d.*", None, ["/docs/deep/er/d.md", "/docs/deep/er/d.txt"]),
    ("/**/config.md", None, []),
    ("**", "/docs/deep", ["/docs/deep/c.md", "/docs/deep/er/d.md", "/docs/deep/er/d.txt"]),
    ("deep/**", "/docs", ["/docs/deep/c.md", "/docs/deep/er/d.md", "/docs/deep/er/d.txt"]),
    # A path may be one file, whose name is matched.
    ("*.md", "/docs/b.md", ["/docs/b.md"]),
    ("*.txt", "/docs/b.md", []),
    ("*.md", "/docs/", ["/docs/b.md", "/docs/deep/c.md", "/docs/deep/er/d.md"]),
    ("*.md", "docs//deep/.", ["/docs/deep/c.md", "/docs/deep/er/d.md"]),
    ("*", "/none", []),
    ("*", "/doc", []),
]


def planted(files: Files) -> Files:
    """Write the tree, one file after the other, so that the first is the oldest."""
    for path in TREE:
        files.write(path, path)
    return files


class FilesListingSuite(FilesHarness):
    """``ls`` and ``glob``: names, sizes and times, of which no file is read."""

    def test_a_directory_is_listed(self, files: Files) -> None:
        planted(files)
        for path, names in DIRECTORIES.items():
            assert files.names(path) == names, path
        for spelled in ("", "//", "/.", "."):
            assert files.names(spelled) == DIRECTORIES["/"]
        for spelled in ("docs", "/docs/", "//docs//", "/./docs/."):
            assert files.names(spelled) == DIRECTORIES["/docs"]

    def test_an_entry_says_what_it_is(self, files: Files, clock: ManualClock) -> None:
        files.write("/f.md", "naïve\n")
        clock.advance(minutes=1)
        files.upload("/d/f.bin", bytes(range(256)))
        files.write("/empty.md")
        now = microseconds_to_datetime(clock()).isoformat()
        clock.advance(minutes=1)
        files.edit("/f.md", "naïve", "😀")
        later = microseconds_to_datetime(clock()).isoformat()
        listed = [
            {"path": "/d/", "is_dir": True, "size": 0, "modified_at": ""},
            {"path": "/empty.md", "is_dir": False, "size": 0, "modified_at": now},
            {"path": "/f.md", "is_dir": False, "size": 5, "modified_at": later},
        ]
        binary = {"path": "/d/f.bin", "is_dir": False, "size": 256, "modified_at": now}
        assert files.ok("ls", "/").entries == listed
        assert files.ok("ls", "/d").entries == [binary]
        assert files.ok("glob", "**").matches == [listed[2], binary, listed[1]]

    def test_an_empty_file_system_has_an_empty_root(self, files: Files) -> None:
        for path in ("/", "/a", ""):
            assert files.names(path) == []
            assert files.found("**", path) == []
        assert files.lines("") == []
        assert files.usage() == (0, 0)

    def test_a_directory_is_there_while_it_holds_a_file(self, files: Files) -> None:
        files.write("/a/b/c/d.md")
        assert [files.names(path) for path in ("/", "/a", "/a/b")] == [["/a/"], ["/a/b/"], ["/a/b/c/"]]
        files.ok("delete", "/a/b/c/d.md")
        assert [files.names(path) for path in ("/", "/a", "/a/b")] == [[], [], []]

    @pytest.mark.parametrize("size", [1, 2, 3, 10_000])
    def test_listings_are_as_long_as_there_are_files(self, opens: OpensFiles, size: int) -> None:
        files = planted(opens())
        opens.few(listing, "PAGE", size)
        for path, names in DIRECTORIES.items():
            assert files.names(path) == names, path
        assert sorted(files.found("docs/**/*")) == [
            path for path in sorted(TREE) if path.startswith("/docs/") and "/." not in path
        ]
        assert sorted(files.found("*.md", "/odd")) == ["/odd/[x].md", "/odd/naïve 😀.md", "/odd/x.md"]
        assert files.usage() == (len(TREE), sum(len(path.encode()) for path in TREE))

    def test_a_pattern_finds_files(self, files: Files) -> None:
        planted(files)
        for pattern, path, found in PATTERNS:
            assert sorted(files.found(pattern, path)) == found, (pattern, path)

    def test_the_last_modified_come_first_and_then_by_path(self, files: Files, clock: ManualClock) -> None:
        for paths in (["/d/b", "/a"], ["/z", "/d/a", "/m/m"], ["/c"]):
            for path in paths:
                files.write(path)
            clock.advance(seconds=1)
        assert files.found("**") == ["/c", "/d/a", "/m/m", "/z", "/a", "/d/b"]
        files.write("/a")
        assert files.found("*", "/") == ["/a", "/c", "/d/a", "/m/m", "/z", "/d/b"]

    def test_times_of_others_are_put_in_order_whatever_their_zone(self, files: Files) -> None:
        for path, modified_at in (
            ("/second", "2026-01-01T10:00:00+09:00"),
            ("/third", "2026-01-01T00:59:59.999Z"),
            ("/first", "2026-01-01T01:00:00.000001+00:00"),
        ):
            files.plant(path, {"content": ["x"], "created_at": modified_at, "modified_at": modified_at})
        assert files.found("*") == ["/first", "/second", "/third"]

    def test_a_pattern_that_cannot_be_used_is_refused(self, files: Files) -> None:
        planted(files)
        for pattern in ("../*", "docs/../*.md", "/..", "..", "{a,..}/b", "a\\/../b"):
            for path in (None, "/docs"):
                error = files.refused("glob", pattern, path)
                assert "Path traversal not allowed in glob pattern" in error
                error = files.refused("grep", "x", path, pattern)
                assert "Path traversal not allowed in glob pattern" in error
        for odd in ("a\0b", "\ud800", "{a,b}" * 20, 5, b"*"):
            assert "Invalid glob pattern" in files.refused("glob", odd)
            assert "Invalid glob pattern" in files.refused("grep", "x", None, odd)
        # Two dots are refused where they are a name; elsewhere they are a part of one.
        assert files.found("..*") == files.found("a..md") == []

    def test_a_path_that_cannot_be_is_refused(self, files: Files) -> None:
        planted(files)
        for path in ("../a", "/docs/..", "a\0", "C:\\x", "\ud800", 5, "/" + "x" * 10_000):
            files.refused("ls", path)
            files.refused("glob", "*", path)
            files.refused("grep", "x", path)
