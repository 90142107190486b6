"""How long files live on a storage that lets them expire."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.testing.files_harness import FilesHarness, OpensFiles, optional

__all__ = ["FilesLifetimesSuite"]

TEN: Final[dict[str, Any]] = {"default_ttl": 10, "refresh_on_read": True}


class FilesLifetimesSuite(FilesHarness):
    """A file's time to live is the store's, starts anew with each write, and only reading prolongs it."""

    @optional
    def test_an_expired_file_is_not_there(self, opens: OpensFiles, clock: ManualClock) -> None:
        files = opens.able(ttl=TEN)
        created = microseconds_to_datetime(clock()).isoformat()
        files.write("/d/f.md", "one")
        clock.advance(minutes=9.9)
        assert files.names("/") == ["/d/"]
        clock.advance(minutes=0.1)
        assert files.refused("read", "/d/f.md") == "File '/d/f.md' not found"
        assert files.names("/") == files.names("/d") == files.found("**") == []
        assert files.lines("one") == []
        assert files.hits("one") == []
        assert files.usage() == (0, 0)
        for method, *arguments in (("edit", "one", "two"), ("delete",)):
            assert "not found" in files.refused(method, "/d/f.md", *arguments)
        files.write("/d", "now a file")
        files.ok("delete", "/d")
        files.write("/d/f.md", "two")
        assert files.ok("read", "/d/f.md").file_data["created_at"] > created

    @optional
    def test_reading_prolongs_and_nothing_else_does(self, opens: OpensFiles, clock: ManualClock) -> None:
        files = opens.able(ttl=TEN)
        for path in ("/downloaded.md", "/read.md", "/d/left.md"):
            files.write(path, "one")
        clock.advance(minutes=6)
        files.text("/read.md")
        files.data("/downloaded.md")
        files.names("/d")
        files.found("**")
        files.lines("one")
        files.lines("one", "/d/left.md")
        files.hits("one")
        files.usage()
        files.ok("prune", older_than=timedelta(days=1))
        files.ok("prune", keep=0, dry_run=True)
        files.refused("edit", "/d/left.md", "absent", "x")
        files.refused("write", "/d/left.md/below", "x")
        clock.advance(minutes=5)
        assert files.names("/") == ["/downloaded.md", "/read.md"]
        clock.advance(minutes=5)
        assert files.names("/") == []

    @optional
    def test_writing_starts_the_time_anew(self, opens: OpensFiles, clock: ManualClock) -> None:
        files = opens.able(ttl=TEN)
        for path in ("/edited", "/written", "/uploaded", "/left"):
            files.write(path, "one")
        clock.advance(minutes=6)
        files.edit("/edited", "one", "two")
        files.write("/written", "two")
        files.upload("/uploaded", b"two")
        clock.advance(minutes=6)
        assert files.names("/") == ["/edited", "/uploaded", "/written"]
        clock.advance(minutes=4)
        assert files.names("/") == []

    @optional
    def test_changes_keep_how_long_a_file_lives(self, opens: OpensFiles, clock: ManualClock) -> None:
        files = opens.able(ttl=TEN)
        for path in ("/edited", "/written", "/uploaded"):
            files.plant(path, {"content": ["one"]}, ttl=30)
            files.plant(f"{path}-for-ever", {"content": ["one"]}, ttl=None)
        clock.advance(minutes=20)
        for end in ("", "-for-ever"):
            files.edit(f"/edited{end}", "one", "two")
            files.write(f"/written{end}", "two")
            files.call("upload_files", [(f"/uploaded{end}", b"two"), (f"/new{end}", b"new")])
        clock.advance(minutes=29)
        assert files.names("/") == sorted(
            f"{path}{end}" for path in ("/edited", "/written", "/uploaded") for end in ("", "-for-ever")
        )
        clock.advance(minutes=1)
        assert files.names("/") == ["/edited-for-ever", "/uploaded-for-ever", "/written-for-ever"]
        clock.advance(minutes=10**6)
        assert len(files.names("/")) == 3
