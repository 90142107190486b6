"""Graph files wherever a project may have them, each imported once, and what is said of those that fail."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest

from stateroom.engine.loading import Project
from stateroom.errors import Misconfigured, NotFound
from stateroom.importing import file_of, load_named
from tests.server.graph_projects import STATE, graphs_of, says, source, write


@pytest.fixture(autouse=True)
def tidy_imports() -> Iterator[None]:
    """Take back what a test adds to Python's own tables."""
    path, modules = sys.path.copy(), sys.modules.copy()
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - modules.keys():
        del sys.modules[name]


def modules_of(file: Path) -> dict[str, ModuleType]:
    """Return every module that a file has been imported as."""
    return {name: module for name, module in sys.modules.copy().items() if file_of(module) == file}


async def test_a41_files_in_packages_load_by_path_and_by_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "src/parcel/__init__.py": "",
            "src/parcel/state.py": STATE,
            "src/parcel/graph.py": source("'parcel'"),
            "other/graph.py": source("'other'", "from parcel.state import S"),
        },
    )
    sources = {
        "a": "./src/parcel/graph.py:make",
        "b": "parcel.graph:make",
        "c": "other/graph.py:make",
        "e": "./src/parcel/graph.py:builder",
        "f": "./src/parcel/graph.py:graph",
    }
    graphs = graphs_of(tmp_path, sources, descriptions={"a": "says it"})
    graphs.load()
    assert graphs.ids == tuple(sources)
    assert (graphs.description("a"), graphs.description("b")) == ("says it", None)
    said = [await says(graphs, name) for name in sources]
    assert said == [["parcel"], ["parcel"], ["other"], ["parcel"], ["parcel"]]
    assert list(modules_of(tmp_path / "src/parcel/graph.py")) == ["parcel.graph"]
    with pytest.raises(NotFound, match="no graph 'd'"):
        await says(graphs, "d")


ONE_NAME = {
    "__init__.py": "",
    "state.py": STATE,
    "graph.py": source("WORDS[0]", "from .state import S, WORDS"),
}


@pytest.mark.parametrize("package", [True, False], ids=["packages", "folders"])
@pytest.mark.parametrize("depth", ["", "agents/"])
async def test_a41_files_of_the_same_name_do_not_shadow_each_other(
    tmp_path: Path, package: bool, depth: str
) -> None:
    for word in ("one", "two"):
        files = {**ONE_NAME, "state.py": f"{STATE}\n    WORDS = ['{word}']\n"}
        if not package:
            del files["__init__.py"]
        write(tmp_path / depth / word, files)
    graphs = graphs_of(tmp_path, {word: f"./{depth}{word}/graph.py:graph" for word in ("one", "two")})
    assert [await says(graphs, "one"), await says(graphs, "two")] == [["one"], ["two"]]


@pytest.mark.parametrize("package", [True, False], ids=["packages", "folders"])
@pytest.mark.parametrize("name", ["parcel", "logging", "langgraph", "my-agent"])
async def test_a41_packages_of_one_name_are_told_apart(tmp_path: Path, package: bool, name: str) -> None:
    """The second has the name of the first, which may be one that is installed, and gets a private one."""
    for word in ("first", "second"):
        files = {**ONE_NAME, "state.py": f"{STATE}\n    WORDS = ['{word}']\n"}
        if not package:
            del files["__init__.py"]
        write(tmp_path / word / name, files)
    sources = dict.fromkeys(("first", "second"), f"./{name}/graph.py:graph")
    first = graphs_of(tmp_path / "first", {"first": sources["first"]})
    second = graphs_of(tmp_path / "second", {"second": sources["second"]})
    assert [await says(first, "first"), await says(second, "second")] == [["first"], ["second"]]
    assert [len(modules_of(tmp_path / word / name / "graph.py")) for word in ("first", "second")] == [1, 1]
    installed = file_of(importlib.import_module("logging"))
    assert installed is not None
    assert tmp_path not in installed.parents


def test_a41_a_file_is_imported_once_whoever_names_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "flat.py": "class Auth: pass\nauth = Auth()",
            "src/deep/__init__.py": "",
            "src/deep/embed.py": "class E: pass\nembed = E()",
            "src/top/graph.py": "class G: pass\ngraph = G()",
            "named/first.py": "class F: pass\nf = F()",
        },
    )
    Project(tmp_path).prepare()
    sys.path.append(str(tmp_path / "named"))
    by_name = load_named("named.first:f", base=tmp_path, field="x")
    assert load_named("named/first.py:f", base=tmp_path, field="x") is by_name
    for path, names in {
        "flat.py:auth": ["flat:auth"],
        "src/deep/embed.py:embed": ["deep.embed:embed", "src.deep.embed:embed"],
        "src/top/graph.py:graph": ["top.graph:graph", "src.top.graph:graph"],
    }.items():
        spelled = [path, f"./{path}", str(tmp_path / path), *names]
        found = [load_named(each, base=tmp_path, field="x") for each in spelled]
        assert all(each is found[0] for each in found), path
        assert len(modules_of(tmp_path / path.partition(":")[0])) == 1


@pytest.mark.parametrize("place", ["agent.py", "inner/agent.py", "logging/agent.py", "pack/agent.py"])
def test_a41_classes_of_a_graph_file_are_found_again(tmp_path: Path, place: str) -> None:
    """Modules are registered: what asks for a class by the name of its module gets this very class."""
    text = """
        from __future__ import annotations
        import dataclasses

        @dataclasses.dataclass
        class Note:
            next: Note | None = None
    """
    write(tmp_path, {place: text, "pack/__init__.py": ""})
    Project(tmp_path).prepare()
    note = load_named(f"{place}:Note", base=tmp_path, field="x")
    assert isinstance(note, type)
    assert pickle.loads(pickle.dumps(note(note()))) == note(note())  # noqa: S301
    assert get_type_hints(note) == {"next": note | None}
    assert [field.name for field in dataclasses.fields(note)] == ["next"]


def test_a41_a_private_name_is_the_same_wherever_the_project_lies(tmp_path: Path) -> None:
    """A checkpoint names the module of a file's class, and may be read on another machine."""
    names = []
    for home in ("here", "there"):
        write(tmp_path / home, {"logging/agent.py": "class Note: pass"})
        Project(tmp_path / home).prepare()
        note = load_named("logging/agent.py:Note", base=tmp_path / home, field="x")
        names.append(note.__module__)
        sys.path.remove(str(tmp_path / home))
        for name in [name for name in sys.modules if name.startswith("stateroom_file_")]:
            del sys.modules[name]
    assert names[0] == names[1]
    assert names[0].startswith("stateroom_file_")


async def test_a41_siblings_and_dependencies_are_importable(tmp_path: Path) -> None:
    imports = "from shared.state import S\nimport lib_a, lib_b.inner, flat\n"
    write(
        tmp_path,
        {
            "app/agents/graph.py": source("lib_a.W + lib_b.inner.W + flat.W", imports),
            "app/shared/state.py": STATE,
            "libs/a/src/lib_a/__init__.py": "W = 'a'",
            "libs/lib_b/__init__.py": "",
            "libs/lib_b/inner.py": "W = 'b'",
            "libs/c/flat.py": "W = 'c'",
        },
    )
    dependencies = [".", "../libs/a", "../libs/lib_b", "../libs/c", "httpx", "not-installed>=1"]
    sources = {"g": "./agents/graph.py:graph"}
    graphs = graphs_of(tmp_path / "app", sources, dependencies=dependencies)
    assert await says(graphs, "g") == ["abc"]
    assert graphs.folders == tuple(tmp_path / folder for folder in ("app", "libs/a", "libs/lib_b", "libs/c"))
    with pytest.raises(Misconfigured, match=r"no folder .*absent; correct it") as caught:
        graphs_of(tmp_path / "app", sources, dependencies=["./absent"]).load()
    assert caught.value.field == "dependencies"


async def test_a41_a_langgraph_json_inside_of_a_package(tmp_path: Path) -> None:
    """Both ways to import a neighbour work: from outside of the package, and as if run as a script."""
    write(
        tmp_path,
        {
            "outer/__init__.py": "",
            "outer/topic/__init__.py": "",
            "outer/topic/state.py": STATE,
            "outer/topic/graph.py": source("WORD_", "from .state import S\nfrom outer.words import WORD_"),
            "outer/topic/script.py": source("'script'", "from state import S"),
            "outer/words.py": "WORD_ = 'w'",
        },
    )
    graphs = graphs_of(tmp_path / "outer/topic", {"a": "graph.py:graph", "b": "./script.py:graph"})
    assert [await says(graphs, "a"), await says(graphs, "b")] == [["w"], ["script"]]
    assert list(modules_of(tmp_path / "outer/topic/graph.py")) == ["outer.topic.graph"]


async def test_a41_a_src_folder_that_is_a_package(tmp_path: Path) -> None:
    imports = "from .state import S\nfrom src.agent.words import A\nfrom agent.other import B"
    write(
        tmp_path,
        {
            "src/__init__.py": "",
            "src/agent/__init__.py": "",
            "src/agent/state.py": STATE,
            "src/agent/words.py": "A = 'a'",
            "src/agent/other.py": "B = 'b'",
            "src/agent/graph.py": source("A + B", imports),
        },
    )
    assert await says(graphs_of(tmp_path, {"g": "src/agent/graph.py:graph"}), "g") == ["ab"]


BROKEN = {
    "graph.py": source("'fine'", "from parcel.state import S"),
    "parcel/__init__.py": "",
    "parcel/state.py": STATE,
    "parcel/raises.py": "x = 1\ndef f():\n    return {}['key']\nf()",
    "parcel/calls.py": "from . import raises",
    "parcel/syntax.py": "x = 1\ny = = 2",
    "parcel/absent.py": "\nimport nothing_of_the_kind",
    "parcel/bare.py": "from state import S",
    "parcel/wrong.py": "from .state import Nothing",
    "parcel/leaves.py": "raise SystemExit(3)",
    "bad/__init__.py": "import nothing_else",
    "bad/graph.py": "",
    "loop.py": "from ring import a\nb = 1",
    "ring.py": "from loop import b\na = 1",
}


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("./parcel/raises.py:g", r"raises\.py failed to load: KeyError: 'key' \(at .*raises\.py, line 3\)$"),
        ("./parcel/calls.py:g", r"calls\.py failed to load: KeyError: 'key' \(at .*raises\.py, line 3\)$"),
        ("parcel.calls:g", r"module parcel\.calls failed to load: KeyError.* \(at .*raises\.py, line 3\)$"),
        ("./parcel/syntax.py:g", r"SyntaxError: .* \(at .*syntax\.py, line 2\)$"),
        (
            "./parcel/absent.py:g",
            r"No module named 'nothing_of_\w*' \(at .*, line 2\);.* searched: .*BASE",
        ),
        (
            "./parcel/bare.py:g",
            r'state lies beside that file: write "from \.state .*parcel in dependencies$',
        ),
        ("./parcel/wrong.py:g", r"ImportError: cannot import name 'Nothing'.* line 1\).*BASE"),
        ("./parcel/leaves.py:g", r"leaves\.py failed to load: SystemExit: 3"),
        ("./bad/graph.py:g", r"No module named 'nothing_else' \(at .*bad/__init__\.py, line 1\)"),
        (
            "bad.graph:g",
            r"module bad\.graph failed .*'nothing_else' \(at .*bad/__init__\.py, line 1\)",
        ),
        ("./loop.py:b", r"ImportError: .*partially initialized.* \(at .*ring\.py, line 1\)"),
        ("no_such.module:g", r'no module no_such\.module; write "\./file\.py:name".* searched: .*BASE'),
        ("parcel.none:g", r"no module parcel\.none"),
        ("parcel..none:g", r"no module parcel\.\.none"),
        ("./absent.py:g", r"no file .*absent\.py$"),
        ("./graph.py:absent", r"graph\.py has no attribute 'absent'$"),
        (
            "./graph.py:WORD",
            r"graph\.py:WORD' is 'fine'; make it a compiled graph, a StateGraph, or a f",
        ),
        ("./graph.py", r'must be "\./file\.py:name" or "package\.module:name"$'),
    ],
)
async def test_a41_an_error_says_what_really_happened_and_where(
    tmp_path: Path, named: str, message: str
) -> None:
    write(tmp_path, BROKEN)
    sources = {"bad": named, "good": "./graph.py:graph"}
    with pytest.raises(Misconfigured, match=message.replace("BASE", str(tmp_path))) as caught:
        graphs_of(tmp_path, sources).load()
    assert caught.value.field == "graphs.bad"
    assert "depend" not in str(caught.value) or "lies beside" in str(caught.value)


async def test_a41_a_broken_graph_does_not_stop_the_others_in_development(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, BROKEN)
    graphs = graphs_of(tmp_path, {"bad": "parcel/raises.py:g", "good": "graph.py:graph"}, lenient=True)
    graphs.load()
    assert "the graph 'bad' cannot be used: graphs.bad: " in caplog.text
    assert graphs.ids == ("bad", "good")
    assert await says(graphs, "good") == ["fine"]
    for _ in range(2):
        with pytest.raises(Misconfigured, match="KeyError: 'key'") as caught:
            await says(graphs, "bad")
        assert caught.value.field == "graphs.bad"
