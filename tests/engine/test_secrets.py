"""What a run needs and nobody may keep: it reaches the graph, and no table, no frame and no log."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateroom.model.run_kwargs import STREAM_MODES, RunPrivate
from tests.engine.engines import Engine
from tests.engine.graphs import Stage

PRIVATE = RunPrivate(
    context={"jwt": "SECRET-1"},
    user={"identity": "ann", "permissions": ["read"], "token": "SECRET-2"},
    configurable={"api_key": "SECRET-3", "x-tenant": "SECRET-4"},
)


def cells(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield what every row of every table of a database holds."""
    with sqlite3.connect(path) as connection:
        tables = connection.execute("select name, rootpage from sqlite_master where type = 'table'")
        for name, page in tables.fetchall():
            if page:
                for row in connection.execute(f'select * from "{name}"'):  # noqa: S608
                    yield from ((name, value) for value in row)
    connection.close()


def kept(path: Path) -> list[tuple[str, Any]]:
    """Return the cells of a database that hold a secret."""
    found = [(name, value) for name, value in cells(path) if value is not None]
    return [
        (name, value)
        for name, value in found
        if "SECRET" in (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))
    ]


@pytest.mark.parametrize("protocol", [False, True])
def test_secrets_reach_the_graph_and_nothing_that_lasts(
    engine: Engine, stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture, protocol: bool
) -> None:
    caplog.set_level("DEBUG")
    run = engine.done("secretive", private=PRIVATE, stream_mode=STREAM_MODES, protocol=protocol)
    assert run.error is None
    assert stage.seen["context"] == {"jwt": "SECRET-1"}
    assert stage.seen["user"] == ("ann", "SECRET-2", ["read"])
    assert stage.seen["server"].user.identity == "ann"
    assert stage.seen["configurable"]["api_key"] == "SECRET-3"
    assert stage.seen["configurable"]["x-tenant"] == "SECRET-4"
    assert stage.seen["configurable"]["langgraph_auth_user_id"] == "ann"
    assert stage.seen["configurable"]["langgraph_auth_permissions"] == ["read"]
    assert "SECRET" not in json.dumps(stage.seen["metadata"], default=repr)
    assert "SECRET" not in repr(stage.seen["configurable"]["langgraph_auth_user"])
    assert len(engine.frames(run)) > 5
    assert kept(tmp_path / "server.db") == []
    assert "SECRET" not in caplog.text

    answered = engine.done(
        "secretive",
        thread=run.thread_id,
        command={"resume": "yes"},
        private=RunPrivate(context={"jwt": "SECRET-5"}),
    )
    assert answered.error is None
    assert engine.log(run) == ["looked", "answered yes"]
    assert kept(tmp_path / "server.db") == []


def test_the_new_context_counts_after_an_answer(engine: Engine, stage: Stage) -> None:
    run = engine.done("secretive", private=PRIVATE)
    engine.done(
        "secretive", thread=run.thread_id, input={"said": "b"}, private=RunPrivate({"jwt": "SECRET-6"})
    )
    assert stage.seen["context"] == {"jwt": "SECRET-6"}
    assert stage.seen["user"] is None


def test_the_search_finds_what_is_kept(engine: Engine, tmp_path: Path) -> None:
    engine.done("echo", "SECRET")
    assert {name for name, _ in kept(tmp_path / "server.db")} >= {
        *("stateroom_run", "stateroom_thread_state", "stateroom_frame", "checkpoints"),
    }
