"""Commands that end by themselves, run in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stateroom.cli.commands import app

__all__ = ["AGENT", "FIRST", "Run"]

FIRST = """
import os
from typing import TypedDict
from langgraph.graph import StateGraph

class State(TypedDict, total=False):
    said: str

def say(state):
    return {"said": os.environ.get("SAID", "first")}

graph = StateGraph(State).add_node("say", say).set_entry_point("say").compile()
"""
"""The code of a project: a graph that says something."""

AGENT = {"agent": "./agent.py:graph"}

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a project that has its code."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "agent.py").write_text(FIRST)
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run a command here, which costs no start of a process."""
    logs = [logging.getLogger(name) for name in ("stateroom", "uvicorn", "uvicorn.access")]
    before = [(log, log.level, log.propagate, log.handlers[:]) for log in logs]

    def run(*arguments: object, variables: dict[str, str] | None = None) -> Result:
        for name, value in (variables or {}).items():
            monkeypatch.setenv(name, value)
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    yield run
    for log, level, propagate, handlers in before:
        log.setLevel(level)
        log.propagate, log.handlers[:] = propagate, handlers
