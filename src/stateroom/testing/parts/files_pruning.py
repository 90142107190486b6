"""Deleting what is old, and counting what is there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from stateroom.clock import ManualClock
from stateroom.files import listing, pruning
from stateroom.testing.files_harness import Files, FilesHarness, OpensFiles

__all__ = ["FilesPruningSuite"]

# The oldest first; each is an hour younger than the one before.
PATHS = ["/notes/a.md", "/z.md", "/notes/old/b.md", "/.hidden/c.md", "/keep/d.md", "/notes/e.txt"]

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "older_than"),
    ({"older_than": 5}, "older_than"),
    ({"older_than": timedelta(seconds=-1)}, "older_than"),
    ({"keep": -1}, "keep"),
    ({"keep": True}, "keep"),
    ({"keep": 1.5}, "keep"),
    ({"keep": 0, "protect": "*.md"}, "protect"),
    ({"keep": 0, "protect": None}, "protect"),
    ({"keep": 0, "protect": 5}, "protect"),
    ({"keep": 0, "protect": ["../*"]}, "Path traversal"),
    ({"keep": 0, "protect": [5]}, "Invalid glob pattern"),
    ({"keep": 0, "path": "/.."}, "path"),
]


def aged(files: Files, clock: ManualClock) -> Files:
    """Write the files an hour apart; the last one is written now."""
    for path in PATHS:
        files.write(path, path)
        if path != PATHS[-1]:
            clock.advance(minutes=60)
    return files


def pruned(files: Files, **options: Any) -> list[str]:
    """Prune, and see that just what is answered is gone and a dry run answers the same."""
    before = files.everything()
    dry = files.ok("prune", **options, dry_run=True)
    assert files.everything() == before
    result = files.ok("prune", **options)
    gone = [info["path"] for info in result.files]
    assert (dry.files, dry.bytes, dry.dry_run) == (result.files, result.bytes, True)
    assert result.dry_run is False
    assert result.bytes == sum(info["size"] for info in result.files)
    assert files.everything() == {path: before[path] for path in before if path not in gone}
    return gone


class FilesPruningSuite(FilesHarness):
    """``prune`` and ``usage``."""

    def test_files_that_nobody_modified_for_long_go(self, files: Files, clock: ManualClock) -> None:
        aged(files, clock)
        assert pruned(files, older_than=timedelta(hours=9)) == []
        assert pruned(files, older_than=timedelta(hours=2, minutes=30)) == PATHS[:3]
        assert pruned(files, older_than=timedelta(hours=2, minutes=30)) == []
        clock.advance(minutes=1)
        assert pruned(files, older_than=timedelta()) == PATHS[3:]
        assert pruned(files, older_than=timedelta()) == []

    def test_what_was_modified_is_young_again(self, files: Files, clock: ManualClock) -> None:
        aged(files, clock)
        files.edit("/notes/a.md", "a", "b")
        files.write("/z.md", "x")
        files.upload("/notes/old/b.md", b"\xff")
        files.text("/.hidden/c.md")
        assert pruned(files, older_than=timedelta(minutes=30)) == ["/.hidden/c.md", "/keep/d.md"]

    def test_the_last_modified_can_be_kept(self, opens: OpensFiles, clock: ManualClock) -> None:
        files = aged(opens(), clock)
        assert pruned(files, keep=len(PATHS)) == pruned(files, keep=10**9) == []
        assert pruned(files, keep=4) == PATHS[:2]
        assert pruned(files, keep=2, older_than=timedelta(hours=9)) == []
        assert pruned(files, keep=2, older_than=timedelta(minutes=90)) == PATHS[2:4]
        assert pruned(files, keep=1, older_than=timedelta(minutes=30)) == PATHS[4:5]
        assert pruned(files, keep=0) == PATHS[5:]

    def test_of_files_of_one_time_the_first_by_path_go(self, files: Files) -> None:
        for path in ("/c", "/a", "/d/b", "/b"):
            files.write(path)
        assert pruned(files, keep=2) == ["/a", "/b"]

    def test_only_files_below_a_path_are_looked_at(self, files: Files, clock: ManualClock) -> None:
        aged(files, clock)
        files.write("/notesx/f.md")
        assert pruned(files, keep=1, path="/notes") == ["/notes/a.md", "/notes/old/b.md"]
        assert pruned(files, keep=0, path="keep//") == ["/keep/d.md"]
        assert pruned(files, keep=0, path="/none") == []
        assert pruned(files, keep=0, path="/z.md") == ["/z.md"]

    def test_protected_files_stay_and_are_not_counted(self, files: Files, clock: ManualClock) -> None:
        aged(files, clock)
        assert pruned(files, keep=1, protect=["keep/**", "*.txt"]) == [
            "/notes/a.md",
            "/z.md",
            "/notes/old/b.md",
        ]
        assert pruned(files, keep=0, path="/notes", protect=["/*.txt"]) == []
        assert pruned(files, keep=0, protect=["/**"]) == ["/.hidden/c.md"]
        assert pruned(files, keep=0, protect=("d.md", "none")) == ["/notes/e.txt"]

    def test_a_lot_is_pruned_part_by_part(self, opens: OpensFiles) -> None:
        files = opens()
        for together in (1, 2, 3):
            opens.few(pruning, "BATCH_OPERATIONS_MAX", together)
            opens.few(listing, "PAGE", together)
            for number in range(7):
                files.write(f"/{number}", "x")
            assert pruned(files, keep=2) == [f"/{number}" for number in range(5)]

    def test_times_that_are_none_do_not_disturb(self, files: Files, clock: ManualClock) -> None:
        for path, modified_at in (
            ("/zone", "2026-01-01T10:00:00+09:00"),
            ("/no-zone", "2026-01-01T02:00:00"),
            ("/day", "2026-01-01"),
            ("/z", "2026-01-01T03:00:00Z"),
        ):
            files.plant(path, {"content": ["x"], "modified_at": modified_at})
        assert pruned(files, keep=1) == ["/day", "/zone", "/no-zone"]
        for path, odd in (("/text", "yesterday"), ("/number", 5), ("/null", None)):
            files.plant(path, {"content": ["x"], "modified_at": odd})
        files.plant("/junk", {"content": 5})
        clock.advance(minutes=1)
        assert "/z" in pruned(files, older_than=timedelta())
        assert "/junk" in files.everything()

    def test_no_age_is_too_great(self, files: Files, clock: ManualClock) -> None:
        aged(files, clock)
        for older_than in (timedelta(days=365 * 3_000), timedelta.max):
            assert pruned(files, older_than=older_than) == []
            assert pruned(files, older_than=older_than, keep=0) == []

    def test_what_makes_no_sense_is_refused(self, files: Files, clock: ManualClock) -> None:
        aged(files, clock)
        for options, told in WRONG:
            assert told in files.refused("prune", **options)

    def test_usage_counts_files_and_bytes(self, files: Files) -> None:
        assert files.usage() == (0, 0)
        files.write("/a.md", "naïve\r\n")
        files.write("/.d/.b", "x")
        files.upload("/c", b"\xff\xfe")
        files.plant("/junk", {"content": 5})
        assert files.usage() == (3, 8 + 1 + 2)
        files.write("/a.md", "")
        files.ok("delete", "/.d")
        assert files.usage() == (2, 2)
