"""Graph files that change while the server runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest
from typing_extensions import override

from stateroom.boot.watching import watching
from stateroom.engine.graphs import Graphs
from stateroom.engine.loading import Project
from stateroom.errors import Misconfigured
from tests.server.graph_projects import ENTERED, GO, STATE, graphs_of, says, source, write

PATIENCE = 30.0


@pytest.fixture(autouse=True)
def tidy_imports() -> Iterator[None]:
    """Take back what a test adds to Python's own tables."""
    path, modules = sys.path.copy(), sys.modules.copy()
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - modules.keys():
        del sys.modules[name]


PROJECT = {
    "parcel/__init__.py": "",
    "parcel/state.py": STATE,
    "parcel/words.py": "WORDS = ['one']",
    "parcel/graph.py": source("WORDS[0]", "from .state import S\nfrom .words import WORDS"),
    "flat.py": source("parcel.words.WORDS[0] + '!'", "from parcel.state import S\nimport parcel.words"),
    "logging/graph.py": source("WORD_", "from parcel.state import S\nfrom .word import WORD_"),
    "logging/word.py": "WORD_ = 'private'",
}
SOURCES = {"a": "./parcel/graph.py:graph", "b": "flat:make", "c": "logging/graph.py:builder"}


@pytest.fixture
def graphs(tmp_path: Path) -> Graphs:
    """The graphs of a project that has been loaded."""
    graphs = graphs_of(write(tmp_path, PROJECT), SOURCES)
    graphs.load()
    return graphs


async def test_hot_reload_serves_what_was_saved_last_and_keeps_the_state(
    graphs: Graphs, tmp_path: Path
) -> None:
    """Versions of one size, saved within a second: Python itself would take them for one and the same."""
    expected = []
    for word in ("one", "two", "six", "ten", "one"):
        write(tmp_path, {"parcel/words.py": f"WORDS = ['{word}']", "logging/word.py": f"WORD_ = '{word}'"})
        graphs.reload()
        expected.append(word)
        assert await says(graphs, "a", thread="kept") == expected
        assert [await says(graphs, "b"), await says(graphs, "c")] == [[f"{word}!"], [word]]


async def test_hot_reload_leaves_what_is_open_as_it_was(graphs: Graphs, tmp_path: Path) -> None:
    async with graphs.open("a") as old:
        write(tmp_path, {"parcel/graph.py": source("'new'")})
        graphs.reload()
        assert (await old.ainvoke({}, {"configurable": {"thread_id": "old"}}))["said"] == ["one"]
    assert await says(graphs, "a") == ["new"]


def test_hot_reload_imports_nothing_that_is_not_the_projects(graphs: Graphs) -> None:
    kept = {
        name: sys.modules[name]
        for name in ("logging", "langgraph.graph", "stateroom.engine.graphs", __name__)
    }
    old = sys.modules["parcel.state"]
    graphs.reload()
    assert {name: sys.modules[name] for name in kept} == kept
    assert sys.modules["parcel.state"] is not old


def test_hot_reload_leaves_what_is_installed_inside_of_the_project_alone() -> None:
    """Such as a virtual environment in the project's folder; and Stateroom, where it is the project."""
    others = ("stateroom.engine.loading", "langgraph.graph")
    with contextlib.suppress(KeyboardInterrupt), Project(Path(__file__).parents[2]).afresh():
        kept = [name for name in others if name in sys.modules]
        dropped = __name__ not in sys.modules
        # So that everything is back as it was.
        raise KeyboardInterrupt
    assert (tuple(kept), dropped) == (others, True)


@pytest.mark.parametrize(
    "broken",
    ["x = = 1", "import nothing_of_the_kind", "raise ValueError('no')", "", "graph = 5"],
)
async def test_hot_reload_keeps_the_old_if_the_new_cannot_be_loaded(
    graphs: Graphs, tmp_path: Path, broken: str
) -> None:
    modules = {name: module for name, module in sys.modules.items() if name.startswith("parcel")}
    fresh = {"parcel/fresh.py": "", "parcel/words.py": "from . import fresh\nWORDS = ['new']"}
    write(tmp_path, {**fresh, "parcel/graph.py": f"from . import words\n{broken}"})
    with pytest.raises(Misconfigured, match=r"parcel/graph\.py"):
        graphs.reload()
    now = {name: module for name, module in sys.modules.items() if name.startswith("parcel")}
    assert now == modules
    assert [await says(graphs, name) for name in SOURCES] == [["one"], ["one!"], ["private"]]
    write(tmp_path, {"parcel/graph.py": PROJECT["parcel/graph.py"]})
    graphs.reload()
    assert [await says(graphs, name) for name in SOURCES] == [["new"], ["new!"], ["private"]]


async def test_a41_in_development_a_broken_graph_stops_no_reload_and_comes_back(tmp_path: Path) -> None:
    write(tmp_path, {**PROJECT, "bad.py": "raise ValueError('no')"})
    graphs = graphs_of(tmp_path, {"bad": "bad.py:graph", **SOURCES}, lenient=True)
    graphs.load()
    write(tmp_path, {"parcel/words.py": "WORDS = ['new']"})
    graphs.reload()
    assert await says(graphs, "a") == ["new"]
    with pytest.raises(Misconfigured, match="ValueError: no"):
        await says(graphs, "bad")
    write(tmp_path, {"bad.py": source("'good'", "from parcel.state import S")})
    graphs.reload()
    assert await says(graphs, "bad") == ["good"]
    write(tmp_path, {"bad.py": "raise ValueError('again')"})
    with pytest.raises(Misconfigured, match="ValueError: again"):
        graphs.reload()
    assert await says(graphs, "bad") == ["good"]


async def test_graphs_are_open_while_others_are_loaded_anew(graphs: Graphs, tmp_path: Path) -> None:
    """Whoever opens one meanwhile gets the old, and does not wait for the new."""
    waiting = "from tests.server.graph_projects import ENTERED, GO\nENTERED.set()\nGO.wait(30)\n"
    write(tmp_path, {"parcel/graph.py": waiting + source("'new'")})
    reloading = asyncio.create_task(asyncio.to_thread(graphs.reload))
    try:
        assert await asyncio.to_thread(ENTERED.wait, PATIENCE)
        assert [await says(graphs, name) for name in SOURCES] == [["one"], ["one!"], ["private"]]
    finally:
        GO.set()
    await reloading
    assert await says(graphs, "a") == ["new"]


# ---- watching


class Log(logging.Handler):
    """Every message of the watcher, to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: Queue[str] = Queue()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.messages.put(f"{record.levelname} {record.getMessage()}")

    def after(self, change: Callable[[], object], beginning: str) -> str:
        """Make a change until there is such a message; the watch begins a moment after it was asked for."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            change()
            with contextlib.suppress(Empty):
                while not (message := self.messages.get(timeout=0.5)).startswith(beginning):
                    pass
                return message
        raise AssertionError("nobody saw the change")


@pytest.fixture
def log() -> Iterator[Log]:
    """What the watcher says."""
    logger, log = logging.getLogger("stateroom.boot.watching"), Log()
    before = logger.level
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    yield log
    logger.setLevel(before)
    logger.removeHandler(log)


async def test_what_is_saved_is_served_and_the_log_says_so(graphs: Graphs, tmp_path: Path, log: Log) -> None:
    noise = dict.fromkeys(
        [".venv/x.py", "parcel/__pycache__/x.py", ".stateroom/x.py", ".git/x.py", "a.txt"], ""
    )
    words = "parcel/words.py"
    with watching(tmp_path, graphs.reload, folders=graphs.folders):
        said = log.after(lambda: write(tmp_path, {**noise, words: "WORDS = ['two']"}), "INFO")
        assert said == f"INFO changed: {words}; the graphs were loaded anew"
        assert await says(graphs, "a") == ["two"]
        said = log.after(lambda: write(tmp_path, {words: "WORDS = ["}), "ERROR")
        assert said.startswith(f"ERROR changed: {words}; what was loaded before stays in use: graphs.a: ")
        assert await says(graphs, "a") == ["two"]
        said = log.after(lambda: write(tmp_path, {"langgraph.json": "{}", ".env": ""}), "WARNING")
        assert said == "WARNING changed: .env, langgraph.json; restart the server to have it read"


def test_watching_outlives_what_the_callback_raises(tmp_path: Path, log: Log) -> None:
    called = []

    def changed() -> None:
        called.append(1)
        raise RuntimeError("unforeseen")

    many = {f"{number}.py": "" for number in range(7)}
    with watching(tmp_path, changed):
        said = log.after(lambda: write(tmp_path, many), "ERROR")
        assert said.startswith("ERROR changed: 0.py, 1.py, 2.py, 3.py, 4.py and 2 more; what was")
        so_far = len(called)
        log.after(lambda: write(tmp_path, {"later.py": ""}), "ERROR changed: later.py")
        assert len(called) > so_far
