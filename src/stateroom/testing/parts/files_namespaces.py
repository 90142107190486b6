"""Which files belong to a file system, and which to its neighbours."""

from __future__ import annotations

from stateroom.testing.files_harness import HOME, FilesHarness, OpensFiles

__all__ = ["FilesNamespacesSuite"]

NEIGHBOURS = {
    "child": (*HOME, "eu"),
    "deep child": (*HOME, "eu", "x"),
    "parent": HOME[:-1],
    "sibling": (*HOME[:-1], "other"),
    "sibling that begins alike": (*HOME[:-1], f"{HOME[-1]}-corp"),
    "sibling with a beginning": (*HOME[:-1], HOME[-1][:-1]),
    "sibling in capitals": (*HOME[:-1], HOME[-1].upper()),
    "cousin": ("else", HOME[-1]),
    "joined with a dot": (".".join(HOME),),
    "joined with a slash": ("/".join(HOME),),
    "joined with a colon": (":".join(HOME),),
    "pattern of a database": (*HOME[:-1], "%"),
    "one character of a database": (*HOME[:-1], f"{HOME[-1][:-1]}_"),
}


class FilesNamespacesSuite(FilesHarness):
    """A file system is exactly one namespace: nothing above, below or beside it is seen or changed."""

    def test_neighbours_see_nothing_of_each_other(self, opens: OpensFiles) -> None:
        everybody = {"home": opens()} | {
            name: opens(namespace=namespace) for name, namespace in NEIGHBOURS.items()
        }
        names = {name: name.replace(" ", "-") for name in everybody}
        for name, files in everybody.items():
            files.write("/same.md", f"needle of {names[name]}")
            files.write(f"/d/{names[name]}.md", f"needle {name}")
        for name, files in everybody.items():
            own = {"/same.md", f"/d/{names[name]}.md"}
            assert set(files.everything()) == own
            assert files.names("/") == ["/d/", "/same.md"]
            assert files.names("/d") == [f"/d/{names[name]}.md"]
            assert set(files.found("**")) == set(files.hits("needle", limit=50)) == own
            assert files.lines("needle", "/same.md") == [("/same.md", 1, f"needle of {names[name]}")]
            assert {path for path, _, _ in files.lines("needle")} == own
            assert files.usage()[0] == 2

    def test_changes_reach_no_neighbour(self, opens: OpensFiles) -> None:
        home = opens()
        neighbours = [opens(namespace=namespace) for namespace in NEIGHBOURS.values()]
        for files in (home, *neighbours):
            files.write("/d/f.md", "text")
            files.write("/f.md", "text")
        before = [files.everything() for files in neighbours]
        home.edit("/f.md", "text", "new")
        home.write("/d/f.md", "new")
        home.ok("prune", keep=1)
        for path in ("/d", "/f.md"):
            home.call("delete", path)
        assert home.everything() == {}
        home.refused("delete", "/d")
        assert [files.everything() for files in neighbours] == before
        for files in neighbours:
            files.ok("delete", "/d")
        home.upload("/d/f.md", b"x")
        assert [files.names("/d") for files in neighbours] == [[]] * len(neighbours)

    def test_what_is_missing_here_is_missing_though_a_neighbour_has_it(self, opens: OpensFiles) -> None:
        home = opens()
        for namespace in NEIGHBOURS.values():
            opens(namespace=namespace).write("/d/f.md", "needle")
        for method, *arguments in (("read",), ("edit", "needle", "x"), ("delete",)):
            assert "not found" in home.refused(method, "/d/f.md", *arguments)
        assert home.names("/") == home.found("**") == home.hits("needle") == []
        assert home.lines("needle") == []
        assert home.call("download_files", ["/d/f.md"])[0].error == "file_not_found"
        home.write("/d", "a file here")
