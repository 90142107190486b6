"""Files in stores held against a dictionary at random."""

from __future__ import annotations

import base64
import fnmatch
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom import SqliteStore
from stateroom.clock import ManualClock
from stateroom.files import StoreBackend, grepping, listing, writing
from stateroom.stores.foreign import from_base_store

N = ("ana", "files")
NEIGHBOURS: list[tuple[str, ...]] = [("ana",), (*N, "old"), ("ana", "filesx")]

PARTS = ["a", "b", "a.md", "b.md", ".h.md", "é 😀.md", "%"]
paths = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
spellings = st.sampled_from(["{}", "/{}", "{}", "/.{}"])
directories = st.sampled_from(["/", "/a", "/b", "/a/b", "/a.md", "/none", "/%"])
texts = st.lists(
    st.sampled_from(["", "needle", "two needles", "hay\x0cneedle", "Ünï 😀", "a\u2028b"]), max_size=5
).map("\n".join)
line_ends = st.sampled_from(["\n", "\n", "\r\n"])
small = st.sampled_from(["needle", "two", "hay", "\n", "a", "absent", "needle\ntwo"])
patterns = st.sampled_from(["*", "*.md", "a*", ".*", "?.md", "[ab]*", "needle*"])

PAGES = [(listing, "PAGE"), (grepping, "PAGE"), (writing, "TOGETHER"), (writing, "BATCH_OPERATIONS_MAX")]

Model = dict[str, str | bytes]


def is_below(path: str, directory: str) -> bool:
    return directory == "/" or path.startswith(directory + "/")


class FilesMachine(RuleBasedStateMachine):
    """One backend, written to and read through every operation, and what a dictionary makes of the same."""

    make: Callable[[Path], BaseStore]
    lists_cheaply = True
    page: int | None = None
    """How much is taken at once, so that little is more than that; None: as usual."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        if self.page is not None:
            for module, name in PAGES:
                self.patch.setattr(module, name, self.page)
        self.folder = TemporaryDirectory()
        self.clock = ManualClock()
        self.store = type(self).make(Path(self.folder.name))
        self.backend = StoreBackend(store=self.store, namespace=N, clock=self.clock)
        self.model: Model = {}
        self.written: dict[str, int] = {}
        self.others = {name: StoreBackend(store=self.store, namespace=name) for name in NEIGHBOURS}
        for backend in self.others.values():
            backend.upload_files(
                [(f"/{part}", b"needle of a neighbour") for part in ("a/x.md", "b.md", "n.md")]
            )

    @override
    def teardown(self) -> None:
        self.patch.undo()
        for backend in self.others.values():
            assert backend.usage() == (3, 3 * len("needle of a neighbour"))
        close = getattr(self.store, "close", None)
        if close is not None:
            close()
        self.folder.cleanup()

    # ---- what the model knows

    def can_be_new(self, path: str) -> bool:
        below_a_file = any(path.startswith(other + "/") for other in self.model)
        return not below_a_file and not (self.lists_cheaply and self.is_directory(path))

    def is_directory(self, path: str) -> bool:
        return any(is_below(other, path) for other in self.model)

    def put(self, path: str, content: str | bytes, error: str | None) -> None:
        if path not in self.model and not self.can_be_new(path):
            assert error is not None
            return
        assert error is None
        self.model[path] = content
        self.written[path] = self.clock()

    # ---- changing

    @rule(path=paths, spelling=spellings, text=texts, end=line_ends)
    def write(self, path: str, spelling: str, text: str, end: str) -> None:
        content = text.replace("\n", end)
        result = self.backend.write(spelling.format(path), content)
        assert result.path == (None if result.error else path)
        self.put(path, content, result.error)

    @rule(path=paths, old=small, new=small, replace_all=st.booleans())
    def edit(self, path: str, old: str, new: str, replace_all: bool) -> None:
        result = self.backend.edit(path, old, new, replace_all)
        content = self.model.get(path)
        shown = content.replace("\r\n", "\n") if isinstance(content, str) else ""
        count = shown.count(old)
        if not count or old == new or (count > 1 and not replace_all):
            assert result.error is not None
            return
        assert (result.error, result.occurrences) == (None, count)
        after = shown.replace(old, new)
        end = "\r\n" if isinstance(content, str) and "\r\n" in content else "\n"
        self.model[path] = after.replace("\n", end)
        self.written[path] = self.clock()

    @rule(
        files=st.lists(st.tuples(paths, st.one_of(texts.map(str.encode), st.binary(max_size=5))), max_size=4)
    )
    def upload(self, files: list[tuple[str, bytes]]) -> None:
        responses = self.backend.upload_files(files)
        assert [response.path for response in responses] == [path for path, _ in files]
        for (path, data), response in zip(files, responses, strict=True):
            self.put(path, as_content(data), response.error)

    @rule(path=st.one_of(paths, directories))
    def delete(self, path: str) -> None:
        gone = [other for other in self.model if other == path or is_below(other, path)]
        result = self.backend.delete(path)
        if path == "/" or not gone:
            assert result.error is not None
            return
        assert (result.error, result.path) == (None, path)
        for other in gone:
            del self.model[other]

    @rule(keep=st.integers(0, 6), directory=directories)
    def prune(self, keep: int, directory: str) -> None:
        inside = [path for path in self.model if path == directory or is_below(path, directory)]
        if directory in self.model:
            inside = [directory]
        inside.sort(key=lambda path: (self.written[path], path))
        wanted = inside[: max(len(inside) - keep, 0)]
        result = self.backend.prune(keep=keep, path=directory)
        assert result.error is None
        assert [info["path"] for info in result.files] == wanted
        for path in wanted:
            del self.model[path]

    @rule(path=paths, value=st.sampled_from([{}, {"content": 5}, {"content": {"0": 300}}]))
    def plant_what_is_no_file(self, path: str, value: Mapping[str, Any]) -> None:
        if path in self.model or not self.can_be_new(path):
            return
        self.store.batch([PutOp(N, path, dict(value))])
        assert "is no file" in (self.backend.read(path).error or "")
        self.store.batch([PutOp(N, path, None)])

    @rule(path=paths, form=st.sampled_from(["v1", "v2", "bytes", "js", "js bytes"]))
    def plant_a_file_of_somebody_elses(self, path: str, form: str) -> None:
        if path not in self.model and not self.can_be_new(path):
            return
        content, value = FORMS[form]
        self.store.batch([PutOp(N, path, value)])
        self.model[path] = content
        # These forms have no time of their own, so that of the store counts, which is its clock's.
        self.backend.upload_files([(path, content if isinstance(content, bytes) else content.encode())])
        self.written[path] = self.clock()

    @rule(seconds=st.sampled_from([0.5, 1, 3600]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)

    # ---- looking

    @rule(path=paths, offset=st.integers(-1, 5), limit=st.integers(-1, 4))
    def read(self, path: str, offset: int, limit: int) -> None:
        result = self.backend.read(path, offset, limit)
        content = self.model.get(path)
        if content is None:
            assert result.error == f"File '{path}' not found"
            return
        if isinstance(content, bytes):
            assert result.file_data is not None
            assert base64.b64decode(result.file_data["content"]) == content
            return
        shown = content.replace("\r\n", "\n")
        lines = shown.split("\n")
        lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
        if shown.strip() and limit > 0 and offset >= len(lines):
            assert result.error == f"Line offset {offset} exceeds file length ({len(lines)} lines)"
            return
        assert result.file_data is not None
        start = max(offset, 0)
        wanted = "".join(lines[start : start + max(limit, 0)]) if shown.strip() else shown
        assert result.file_data["content"] == wanted

    @rule(directory=directories)
    def ls(self, directory: str) -> None:
        base = "/" if directory == "/" else directory + "/"
        names = set()
        for path in self.model:
            if path.startswith(base):
                head, slash, _ = path[len(base) :].partition("/")
                names.add(base + head + slash)
        result = self.backend.ls(directory)
        assert [entry["path"] for entry in result.entries or []] == sorted(names)
        for entry in result.entries or []:
            if not entry.get("is_dir"):
                assert entry.get("size") == len(as_bytes(self.model[entry["path"]]))

    @rule(pattern=patterns, directory=directories)
    def glob(self, pattern: str, directory: str) -> None:
        wanted = [path for path in self.inside(directory) if matches(path, pattern)]
        wanted.sort()
        wanted.sort(key=lambda path: self.written[path], reverse=True)
        result = self.backend.glob(pattern, directory)
        assert [info["path"] for info in result.matches or []] == wanted

    @rule(
        pattern=small,
        directory=directories,
        name=st.one_of(st.none(), patterns),
        most=st.one_of(st.none(), st.integers(0, 4)),
    )
    def grep(self, pattern: str, directory: str, name: str | None, most: int | None) -> None:
        wanted = []
        for path in sorted(self.inside(directory)):
            content = self.model[path]
            if isinstance(content, str) and (name is None or matches(path, name)):
                lines = content.replace("\r\n", "\n").split("\n")
                wanted += [(path, number, line) for number, line in enumerate(lines, 1) if pattern in line]
        result = self.backend.grep(pattern, directory, name, max_count=most)
        found = [(match["path"], match["line"], match["text"]) for match in result.matches or []]
        assert found == wanted[:most]
        assert result.truncated is (most is not None and len(wanted) > most)

    @rule()
    def usage(self) -> None:
        sizes = [len(as_bytes(content)) for content in self.model.values()]
        assert self.backend.usage() == (len(sizes), sum(sizes))

    @rule(asked=st.lists(paths, max_size=4))
    def download(self, asked: list[str]) -> None:
        responses = self.backend.download_files(asked)
        for path, response in zip(asked, responses, strict=True):
            content = self.model.get(path)
            assert response.content == (None if content is None else as_bytes(content))
            assert response.error == ("file_not_found" if content is None else None)

    @rule(query=st.sampled_from(["needle", "hay"]), directory=directories)
    def search(self, query: str, directory: str) -> None:
        result = self.backend.search(query, directory, limit=100)
        found = {hit["path"] for hit in result.matches or []}
        wanted = {
            path
            for path, content in self.model.items()
            if (path == directory or is_below(path, directory)) and isinstance(content, str)
            # Plurals are found by the singular, and only whole words.
            if {query, f"{query}s"} & set(re.findall(r"\w+", content))
        }
        assert found == wanted

    @precondition(lambda self: self.model)
    @rule()
    def nothing_else_is_stored(self) -> None:
        found = from_base_store(self.store).search(N, limit=1_000)
        assert {item.key for item in found if item.namespace == N} == set(self.model)

    def inside(self, directory: str) -> list[str]:
        """Return the files at or below a path: the file of that name alone, if there is one."""
        if directory in self.model:
            return [directory]
        return [path for path in self.model if is_below(path, directory)]


FORMS: dict[str, tuple[str | bytes, dict[str, Any]]] = {
    "v1": ("needle\ntwo", {"content": ["needle", "two"]}),
    "v2": ("needle\n", {"content": "needle\n", "encoding": "utf-8"}),
    "bytes": (b"\xff\xfe", {"content": "//4=", "encoding": "base64"}),
    "js": ("two needles", {"content": "two needles", "mimeType": "text/plain"}),
    "js bytes": (b"\x89\xff", {"content": {"0": 137, "1": 255}, "mimeType": "image/png"}),
}


def as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def as_content(data: bytes) -> str | bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return data if "\0" in text else text


def matches(path: str, pattern: str) -> bool:
    """Match a name as Python's fnmatch does, but for names that begin with a dot."""
    name = path.rpartition("/")[2]
    return fnmatch.fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


def open_sqlite(folder: Path) -> BaseStore:
    return SqliteStore(folder / "memory.db")


def open_foreign(folder: Path) -> BaseStore:  # noqa: ARG001  # it is in memory
    return LangGraphInMemoryStore()


class SqliteMachine(FilesMachine):
    make = staticmethod(open_sqlite)


class ForeignMachine(FilesMachine):
    make = staticmethod(open_foreign)
    lists_cheaply = False


class SmallPagesMachine(SqliteMachine):
    page = 2


class SmallForeignPagesMachine(ForeignMachine):
    page = 2


EFFORT = settings(max_examples=50, stateful_step_count=40)

TestSqlite = SqliteMachine.TestCase
TestForeign = ForeignMachine.TestCase
TestSmallPages = SmallPagesMachine.TestCase
TestSmallForeignPages = SmallForeignPagesMachine.TestCase
TestSqlite.settings = TestForeign.settings = EFFORT
TestSmallPages.settings = TestSmallForeignPages.settings = EFFORT
