"""Deleting files, and directories with all that is in them."""

from __future__ import annotations

from stateroom.files import writing
from stateroom.testing.files_harness import Files, FilesHarness, OpensFiles

__all__ = ["FilesDeletingSuite"]

PATHS = ["/a", "/b/c", "/b/d/e", "/b/d/.f", "/b.md", "/bb/c", "/B/c", "/b%/c", "/b_/c", "/😀/x"]


class FilesDeletingSuite(FilesHarness):
    """``delete``: exactly what was named, with what is below it."""

    def test_a_file_is_deleted(self, files: Files) -> None:
        for path in PATHS:
            files.write(path, path)
        assert files.ok("delete", "/a").path == "/a"
        assert files.ok("delete", "/b/d/e").path == "/b/d/e"
        assert files.everything().keys() == {*PATHS} - {"/a", "/b/d/e"}
        assert files.refused("delete", "/a") == "Error: File '/a' not found"
        assert files.refused("read", "/a") == "File '/a' not found"
        assert files.names("/b/d") == ["/b/d/.f"]

    def test_a_directory_is_deleted_with_all_that_is_in_it(self, files: Files) -> None:
        for spelled in ("/b", "/b/", "b//", "/./b"):
            for path in PATHS:
                files.write(path, path)
            assert files.ok("delete", spelled).path == "/b"
            assert files.everything().keys() == {path for path in PATHS if not path.startswith("/b/")}
            assert files.names("/b") == []
        for path in ("/b%", "/b_", "/😀"):
            files.ok("delete", path)
            assert files.names(path) == []
        assert files.everything().keys() == {"/a", "/b.md", "/bb/c", "/B/c"}

    def test_a_large_directory_is_deleted_part_by_part(self, opens: OpensFiles) -> None:
        files = opens()
        for most in (2, 3, 4):
            opens.few(writing, "BATCH_OPERATIONS_MAX", most)
            for size in range(1, 8):
                files.write("/other", "x")
                for number in range(size):
                    files.write(f"/d/{number}/f.md", "x")
                assert files.ok("delete", "/d").path == "/d"
                assert files.everything().keys() == {"/other"}
                files.refused("delete", "/d")

    def test_a_name_that_others_gave_to_a_file_and_a_directory_is_deleted_as_both(
        self, opens: OpensFiles
    ) -> None:
        files = opens()
        for size in range(5):
            for path in ("/d", "/d.md", *(f"/d/{number}" for number in range(size))):
                files.plant(path, {"content": ["x"]})
            opens.few(writing, "BATCH_OPERATIONS_MAX", 3)
            files.ok("delete", "/d")
            assert files.everything().keys() == {"/d.md"}

    def test_the_root_is_not_deleted(self, files: Files) -> None:
        files.write("/a", "x")
        for path in ("/", "", "//", ".", "/./"):
            assert "in it" in files.refused("delete", path)

    def test_what_is_not_there_cannot_be_deleted(self, files: Files) -> None:
        assert files.refused("delete", "/a") == "Error: File '/a' not found"
        files.write("/a/b", "x")
        for path in ("/a/b/c", "/A", "/a/", "/a/bb", "/a/*", "/*", "/%"):
            if path != "/a/":
                assert "not found" in files.refused("delete", path)
