"""Files for agents where Deep Agents is not installed, or too old a release of it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import NotRequired, get_origin, get_type_hints

import pytest
from deepagents.backends import protocol as theirs

from stateroom.files import results as ours

BLOCKED = """
    import sys
    from importlib.abc import MetaPathFinder

    class Blocked(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {blocked}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Blocked())
    if {found}:
        # As if it were not on the disk: looking for it finds nothing, and raises nothing.
        import importlib.util
        find_spec = importlib.util.find_spec
        importlib.util.find_spec = lambda name, package=None: (
            None if name.partition(".")[0] in {blocked} else find_spec(name, package)
        )
"""

USE = """
    import asyncio, dataclasses
    from stateroom import InMemoryStore
    from stateroom.files import StateBackend, StoreBackend, create_deep_agent, results
    from stateroom.files.protocol import HAS_DEEP_AGENTS, BackendProtocol
    assert not HAS_DEEP_AGENTS and BackendProtocol is results.BackendProtocol
    backend = StoreBackend(store=InMemoryStore(), namespace=("ana", "filesystem"))
    answers = {
        "WriteResult": backend.write("/a.md", "one\\ntwo"),
        "EditResult": backend.edit("/a.md", "two", "2"),
        "ReadResult": backend.read("/a.md"),
        "LsResult": backend.ls("/"),
        "GlobResult": backend.glob("*.md"),
        "GrepResult": backend.grep("2"),
        "FileUploadResponse": backend.upload_files([("/b", b"x")])[0],
        "FileDownloadResponse": backend.download_files(["/b"])[0],
        "DeleteResult": asyncio.run(backend.adelete("/b")),
    }
    for name, answer in answers.items():
        assert type(answer) is getattr(results, name), answer
        assert answer.error is None, answer
    assert answers["ReadResult"].file_data["content"] == "one\\n2"
    assert answers["GrepResult"].matches == [{"path": "/a.md", "line": 2, "text": "2"}]
    assert backend.search("one").matches[0]["path"] == "/a.md"
    try:
        create_deep_agent(backend=backend)
    except ValueError as error:
        print(type(error).__name__, error)
    assert "deepagents" not in sys.modules
"""

OLD = """
    from stateroom.errors import Misconfigured
    try:
        import stateroom.files
    except Misconfigured as error:
        print(error)
"""


def run(*parts: str, path: Path | None = None) -> str:
    """Run a program in a Python of its own, with a folder before all others; return what it prints."""
    start = f"import sys; sys.path.insert(0, {str(path)!r})\n" if path else ""
    program = start + "".join(dedent(part) for part in parts)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_everything_but_deep_agents_own_works_without_it() -> None:
    told = run(BLOCKED.format(blocked={"deepagents"}, found=True), USE)
    assert told == "Misconfigured create_deep_agent needs Deep Agents: pip install 'stateroom[deepagents]'"


def test_files_need_neither_langchain_nor_deep_agents() -> None:
    blocked = {"deepagents", "langchain", "langsmith_pyo3"}
    assert run(BLOCKED.format(blocked=blocked, found=True), USE).startswith("Misconfigured")


@pytest.mark.parametrize("source", ["", "class BackendProtocol: pass\n"])
def test_a_release_that_is_too_old_is_named(tmp_path: Path, source: str) -> None:
    package = tmp_path / "deepagents" / "backends"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "protocol.py").write_text(source)
    told = run(OLD, path=tmp_path)
    assert "the installed deepagents is too old" in told
    assert "pip install 'stateroom[deepagents]'" in told


def test_a_release_without_backends_is_named(tmp_path: Path) -> None:
    (tmp_path / "deepagents").mkdir()
    (tmp_path / "deepagents" / "__init__.py").write_text("")
    assert "too old" in run(OLD, path=tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "LsResult",
        "ReadResult",
        "WriteResult",
        "EditResult",
        "DeleteResult",
        "GrepResult",
        "GlobResult",
        "FileUploadResponse",
        "FileDownloadResponse",
    ],
)
def test_our_results_have_the_fields_of_theirs(name: str) -> None:
    def described(kind: type) -> list[tuple[str, object]]:
        return [(field.name, field.default) for field in dataclasses.fields(kind)]

    assert described(getattr(ours, name)) == described(getattr(theirs, name))


@pytest.mark.parametrize("name", ["FileInfo", "FileData"])
def test_our_objects_have_the_members_of_theirs(name: str) -> None:
    def optional(kind: type) -> dict[str, bool]:
        hints = get_type_hints(kind, include_extras=True)
        return {member: get_origin(hint) is NotRequired for member, hint in hints.items()}

    assert optional(getattr(ours, name)) == optional(getattr(theirs, name))


def test_our_protocol_has_the_methods_of_theirs() -> None:
    public = {name for name in vars(theirs.BackendProtocol) if not name.startswith("_")}
    assert public - set(vars(ours.BackendProtocol)) == set()
