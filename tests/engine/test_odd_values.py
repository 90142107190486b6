"""What graphs leave behind that no JSON can say, or no database: the run is done all the same."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from stateroom.model.run import RunStatus
from stateroom.model.thread import ThreadStatus
from tests.engine.engines import Engine
from tests.engine.graphs import Stage


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a08_nul_characters_and_their_spelling_are_kept(engine: Engine, stage: Stage) -> None:
    stage.seen["odd"] = {"nul": "a\x00b", "spelled": "a\\u0000b"}
    run = engine.done("odd")
    assert run.status is RunStatus.SUCCESS
    thread = engine.thread(run)
    assert thread.values is not None
    assert thread.values["extra"] == {"nul": "a\x00b", "spelled": "a\\u0000b"}
    assert engine.output(run)["extra"] == {"nul": "a\x00b", "spelled": "a\\u0000b"}
    assert engine.done("odd", thread=run.thread_id).status is RunStatus.SUCCESS


def test_a23_numbers_that_are_none(engine: Engine, stage: Stage) -> None:
    stage.seen["odd"] = {"score": math.nan, "nested": [math.inf, -math.inf]}
    run = engine.done("odd")
    assert run.status is RunStatus.SUCCESS
    # Strict JSON knows no such numbers.
    assert engine.output(run)["extra"] == {"score": None, "nested": [None, None]}
    thread = engine.thread(run)
    assert thread.values is not None
    assert math.isnan(thread.values["extra"]["score"])
    assert thread.values["extra"]["nested"] == [math.inf, -math.inf]


@pytest.mark.parametrize("odd", [{1, 2}, b"\xff", 2**64 - 1, "\ud800", {"a": {1: "one"}}])
def test_a33_what_json_cannot_say(engine: Engine, stage: Stage, odd: Any) -> None:
    stage.seen["odd"] = odd
    run = engine.done("odd")
    assert run.error is None
    assert engine.output(run)["log"] == ["x\x00y"]


def test_a_state_that_cannot_be_kept_with_the_thread(
    engine: Engine, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stateroom.engine.snapshots.plain", lambda value: value)
    stage.seen["odd"] = {1, 2}
    run = engine.done("odd")
    assert run.status is RunStatus.SUCCESS
    thread = engine.thread(run)
    assert (thread.status, thread.values) == (ThreadStatus.IDLE, None)
    assert run.run_id in caplog.text


def test_a_message_of_an_error_may_hold_anything(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    # The message is logged as it is, and no report of a test can carry that to another process.
    monkeypatch.setattr(logging.getLogger("stateroom.engine.execution"), "disabled", True)
    run = engine.done("failing", "\x00 \ud800")
    assert run.error is not None
    assert run.error["message"].startswith("cannot do \x00 ")
