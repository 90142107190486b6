"""Ranking files by what they say."""

from __future__ import annotations

from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.files import searching
from stateroom.testing.files_harness import Files, FilesHarness, OpensFiles

__all__ = ["FilesSearchSuite"]

CONTENTS = {
    "/a.md": "# Animals\n\nThe giraffe eats leaves.\nA giraffe is tall; giraffe giraffe.\n",
    "/d/b.md": "Cars and trains.\nOne giraffe was seen beside many other things that day.\n",
    "/d/c.md": "zebra",
    "/dd.md": "giraffe in a file beside the directory, with several other words around it",
}


def filled(files: Files) -> Files:
    for path, content in CONTENTS.items():
        files.write(path, content)
    return files


class FilesSearchSuite(FilesHarness):
    """``search``: the best files first, each with the line that fits best."""

    def test_files_are_ranked(self, files: Files, clock: ManualClock) -> None:
        filled(files)
        result = files.ok("search", "giraffe")
        found = result.matches
        assert found[0]["path"] == "/a.md"
        assert {hit["path"] for hit in found} == {"/a.md", "/d/b.md", "/dd.md"}
        scores = [hit["score"] for hit in found]
        assert scores == sorted(scores, reverse=True)
        lines = {hit["path"]: (hit["line"], hit["text"]) for hit in found}
        assert lines["/a.md"] == (3, "The giraffe eats leaves.")
        assert lines["/d/b.md"] == (2, "One giraffe was seen beside many other things that day.")
        now = microseconds_to_datetime(clock()).isoformat()
        assert {hit["modified_at"] for hit in found} == {now}
        assert files.hits("absent") == []

    def test_the_line_that_fits_best_is_shown(self, files: Files) -> None:
        filled(files)
        files.plant("/plain.md", {"content": ["first", "", "a tall one, and a TALL giraffe", "tall"]})
        for query, line in (("tall giraffes", 3), ("first", 1), ("one first", 1)):
            hits = {hit["path"]: hit for hit in files.ok("search", query).matches}
            assert hits["/plain.md"]["line"] == line, query
            assert "modified_at" not in hits["/plain.md"]

    def test_a_search_looks_at_and_below_a_path(self, files: Files) -> None:
        filled(files)
        for path in ("/d", "d/", "//d/."):
            assert files.hits("giraffe", path) == ["/d/b.md"]
        assert files.hits("giraffe", "/dd.md") == ["/dd.md"]
        assert files.hits("giraffe", "/none") == files.hits("giraffe", "/d/c.md") == []
        assert files.hits("giraffe", "/") == files.hits("giraffe", None) == files.hits("giraffe", "")

    def test_at_most_so_many_are_found(self, opens: OpensFiles) -> None:
        files = filled(opens())
        for number in range(5):
            files.write(f"/more/{number}.md", "giraffe " * (number + 1))
        everything = files.hits("giraffe")
        assert len(everything) == 8
        for page in (1, 2, 3, 100):
            opens.few(searching, "PAGE", page)
            for limit in (1, 2, 5, 8, 100):
                assert files.hits("giraffe", limit=limit) == everything[:limit]
            assert files.hits("giraffe", "/d", limit=1) == ["/d/b.md"]
        assert files.hits("giraffe", limit=0) == []
        for number in range(20):
            files.write(f"/many/{number}.md", "giraffe")
        assert len(files.hits("giraffe")) == 10

    def test_binary_files_and_what_is_no_file_are_not_found(self, files: Files) -> None:
        files.write("/a.md", "giraffe")
        files.upload("/b", b"giraffe \xff")
        files.plant("/number", {"content": 5, "text": "giraffe"})
        files.plant("no/path", {"content": ["giraffe"]})
        files.plant("/base64", {"content": "giraffe=", "encoding": "base64"})
        assert files.hits("giraffe") == ["/a.md"]

    def test_what_was_changed_is_found_as_it_is(self, files: Files) -> None:
        files.write("/a.md", "giraffe")
        files.edit("/a.md", "giraffe", "okapi")
        assert (files.hits("giraffe"), files.hits("okapi")) == ([], ["/a.md"])
        files.ok("delete", "/a.md")
        assert files.hits("okapi") == []

    def test_a_long_line_is_shown_in_part(self, files: Files) -> None:
        files.write("/a.md", "\n" + "giraffe " * 1_000)
        (hit,) = files.ok("search", "giraffe").matches
        assert hit["line"] == 2
        assert hit["text"].startswith("giraffe giraffe")
        assert len(hit["text"]) <= 200

    def test_a_query_must_say_something(self, files: Files) -> None:
        filled(files)
        for query in ("", "  \n", None, 5, b"giraffe"):
            assert "query" in files.refused("search", query)
        assert "mode" in files.refused("search", "giraffe", mode="loud")
        assert "query" in files.refused("search", "a\0b")
        for limit in (-1, None, "1", 1.5, True):
            assert "limit" in files.refused("search", "giraffe", limit=limit)
