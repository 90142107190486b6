"""What becomes of runs, of their threads, and of those who wait for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore
from typing_extensions import override

from stateroom.contract.assistants import AssistantChange
from stateroom.contract.runs import RunQuery
from stateroom.engine import leases
from stateroom.engine.endings import MESSAGE_CHARACTERS, error_of
from stateroom.model.cron import Completion
from stateroom.model.run import CancelAction, RunStatus
from stateroom.model.run_kwargs import RunPrivate
from stateroom.model.thread import ThreadStatus
from tests.engine.engines import Engine, until
from tests.engine.graphs import Stage

NewEngine = Callable[..., Engine]


def test_a_run_succeeds(engine: Engine) -> None:
    run = engine.done("echo", "hello")
    thread = engine.thread(run)
    assert (run.status, thread.status) == (RunStatus.SUCCESS, ThreadStatus.IDLE)
    assert thread.values == {"said": "hello", "log": ["hello"]}
    assert (thread.interrupts, thread.error) == ({}, None)
    assert thread.metadata["graph_id"] == "echo"
    assert thread.metadata["assistant_id"] == run.assistant_id
    assert thread.config["configurable"]["run_id"] == run.run_id
    assert engine.output(run) == {"said": "hello", "log": ["hello"]}
    assert engine.events(run) == ["metadata", "values", "values", "__output__"]
    assert engine.data(run, "metadata") == [{"run_id": run.run_id, "attempt": 1}]


def test_a_run_goes_on_from_the_one_before(engine: Engine) -> None:
    first = engine.done("echo", "one")
    second = engine.done("echo", "two", thread=first.thread_id)
    assert engine.log(second) == ["one", "two"]


def test_a_run_fails(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    run = engine.done("failing", "it")
    error = {"error": "ValueError", "message": "cannot do it"}
    thread = engine.thread(run)
    assert (run.status, thread.status) == (RunStatus.ERROR, ThreadStatus.ERROR)
    assert (run.error, thread.error) == (error, error)
    assert engine.log(run) == ["it first"]
    assert engine.events(run)[-2:] == ["error", "__output__"]
    assert engine.data(run, "error") == [error]
    assert engine.output(run) == {"__error__": error}
    # It is said after the settlement.
    until(lambda: caplog.records)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert run.run_id in record.getMessage()
    assert "'failing'" in record.getMessage()
    assert record.exc_info


def test_the_next_success_clears_the_error(engine: Engine) -> None:
    run = engine.done("failing")
    later = engine.done("echo", "b", thread=run.thread_id)
    assert later.status is RunStatus.SUCCESS
    thread = engine.thread(run)
    assert (thread.status, thread.error) == (ThreadStatus.IDLE, None)


def test_a_run_stops_at_a_question_and_is_answered(engine: Engine) -> None:
    run = engine.done("asking", "sure")
    thread = engine.thread(run)
    assert (run.status, thread.status) == (RunStatus.SUCCESS, ThreadStatus.INTERRUPTED)
    ((task_id, (waiting,)),) = thread.interrupts.items()
    assert waiting["value"] == {"question": "sure"}
    assert task_id
    output = engine.output(run)
    assert output["__interrupt__"] == [waiting]
    assert output["log"] == ["sure first"]
    answered = engine.done("asking", thread=run.thread_id, command={"resume": "yes"})
    thread = engine.thread(run)
    assert (answered.status, thread.status, thread.interrupts) == (RunStatus.SUCCESS, ThreadStatus.IDLE, {})
    assert engine.log(run) == ["sure first", "answered yes", "sure last"]
    assert "__interrupt__" not in engine.output(answered)


def test_a_question_is_answered_by_its_id(engine: Engine) -> None:
    run = engine.done("asking", "sure")
    ((waiting,),) = engine.thread(run).interrupts.values()
    engine.done("asking", thread=run.thread_id, command={"resume": {waiting["id"]: "no"}})
    assert "answered no" in engine.log(run)


def test_an_answer_that_names_nothing_open_is_refused_when_asked_strictly(engine: Engine) -> None:
    run = engine.done("asking", "sure")
    wrong = {"resume": {"0" * 32: "no"}}
    answered = engine.done("asking", thread=run.thread_id, command=wrong, strict_resume=True)
    assert answered.error is not None
    assert answered.error["error"] == "UnknownInterruptError"
    # The question can still be answered.
    assert engine.done("asking", thread=run.thread_id, command={"resume": "yes"}).status == "success"
    assert "answered yes" in engine.log(run)


@pytest.mark.parametrize("where", [{"interrupt_before": ("last",)}, {"interrupt_after": ("ask",)}])
def test_a_run_stops_where_it_is_told(engine: Engine, where: dict[str, Any]) -> None:
    run = engine.done("asking", "a")
    stopped = engine.done("asking", thread=run.thread_id, command={"resume": "y"}, **where)
    assert stopped.status is RunStatus.SUCCESS
    assert engine.thread(run).status is ThreadStatus.INTERRUPTED
    assert engine.log(run) == ["a first", "answered y"]
    engine.done("asking", thread=run.thread_id, input=None)
    assert engine.thread(run).status is ThreadStatus.IDLE
    assert engine.log(run)[-1] == "a last"


def test_a_command_updates_and_goes_to(engine: Engine) -> None:
    run = engine.done("asking", "a")
    engine.done("asking", thread=run.thread_id, command={"resume": "y"})
    command = {
        "update": {"log": ["told"]},
        "goto": [{"node": "last", "input": {"said": "sent"}}, "last"],
    }
    engine.done("asking", thread=run.thread_id, command=command)
    assert sorted(engine.log(run)[3:]) == ["a last", "sent last", "told"]


def test_a_run_starts_from_an_earlier_checkpoint(engine: Engine) -> None:
    run = engine.done("echo", "one")
    config: Any = {"configurable": {"thread_id": run.thread_id}}
    before = engine.saver.get_tuple(config)
    assert before is not None
    engine.done("echo", "two", thread=run.thread_id)
    checkpoint = {"checkpoint_id": before.checkpoint["id"]}
    engine.done("echo", "other", thread=run.thread_id, checkpoint=checkpoint)
    assert engine.log(run) == ["one", "other"]


def test_a_graph_that_never_ends_is_ended(engine: Engine) -> None:
    run = engine.done("endless", config={"recursion_limit": 5})
    assert run.error is not None
    assert run.error["error"] == "GraphRecursionError"
    assert engine.log(run) == ["again"] * 5


def test_a_graph_that_is_not_there_is_an_error(engine: Engine) -> None:
    run = engine.done("missing")
    assert run.error is not None
    assert run.error["error"] == "NotFound"
    assert "'missing'" in run.error["message"]
    assert engine.output(run) == {"__error__": run.error}


def test_a_run_keeps_the_version_that_it_was_made_with(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine(concurrency=1)
    held = engine.new("gated", "held")
    engine.entered("held")
    run = engine.new("echo", "a")
    engine.storage.assistants.update(run.assistant_id, AssistantChange(graph_id="failing"))
    stage.gate.set()
    assert engine.ended(run).status is RunStatus.SUCCESS
    assert engine.ended(held).status is RunStatus.SUCCESS


def test_a_run_whose_assistant_has_gone_is_an_error(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine(concurrency=1)
    engine.new("gated", "held")
    engine.entered("held")
    run = engine.new("echo")
    engine.storage.assistants.delete(run.assistant_id)
    stage.gate.set()
    ended = engine.ended(run)
    assert ended.error is not None
    assert ended.error["error"] == "NotFound"
    assert run.assistant_id in ended.error["message"]


def test_a_graph_gets_the_store_as_its_user_may_use_it(new_engine: NewEngine, stage: Stage) -> None:
    stores = {"ann": InMemoryStore()}
    engine = new_engine(scoped_store=lambda user: stores[user["identity"]])
    user = {"identity": "ann", "token": "t"}
    assert engine.done("secretive", private=RunPrivate(user=user)).error is None
    assert stage.seen["store"] is stores["ann"]
    # Nobody's run must not have everybody's.
    refused = engine.done("secretive")
    assert refused.error is not None
    assert refused.error["error"] == "Denied"
    # It has done nothing, and so there is no state.
    assert engine.thread(refused).values is None


def test_a_message_of_any_length_and_none() -> None:
    class WithoutMessage(Exception):
        @override
        def __str__(self) -> str:
            raise RuntimeError

    assert error_of(ValueError("x" * MESSAGE_CHARACTERS))["message"] == "x" * MESSAGE_CHARACTERS
    assert error_of(ValueError("x" * MESSAGE_CHARACTERS + "y"))["message"] == "x" * MESSAGE_CHARACTERS
    assert error_of(WithoutMessage()) == {
        "error": "WithoutMessage",
        "message": "<no message, since RuntimeError was raised for it>",
    }


# ---- cancelling


def cancel(engine: Engine, run: Any, action: CancelAction = CancelAction.INTERRUPT) -> None:
    """Cancel a run, as a user does."""
    engine.storage.runs.cancel(RunQuery(run_ids=[run.run_id]), action, reason="no need")


def test_a_cancelled_run_keeps_its_steps(engine: Engine) -> None:
    run = engine.new("gated_two")
    engine.entered("a")
    cancel(engine, run)
    ended = engine.ended(run)
    assert (ended.status, ended.cancel_reason) == (RunStatus.INTERRUPTED, "no need")
    thread = engine.thread(run)
    # It waits for nobody's answer.
    assert (thread.status, thread.interrupts) == (ThreadStatus.IDLE, {})
    assert engine.log(run) == ["a first"]
    assert engine.output(run)["__error__"]["error"] == "RunCancelled"
    assert "error" not in engine.events(run)
    assert engine.done("echo", "b", thread=run.thread_id).status is RunStatus.SUCCESS


def test_a_run_that_is_rolled_back_leaves_nothing(engine: Engine) -> None:
    before = engine.done("echo", "before")
    run = engine.new("gated_two", thread=before.thread_id)
    engine.entered("a")
    cancel(engine, run, CancelAction.ROLLBACK)
    until(lambda: engine.storage.runs.get(run.run_id) is None)
    thread = engine.thread(before)
    assert (thread.status, thread.values) == (ThreadStatus.IDLE, {"said": "before", "log": ["before"]})
    assert engine.frames(run) == []
    engine.done("echo", "after", thread=before.thread_id)
    assert engine.log(before) == ["before", "after"]


def test_a_roll_back_leaves_the_question_that_was_there(engine: Engine) -> None:
    asked = engine.done("asking_twice", "wait")
    run = engine.new("asking_twice", thread=asked.thread_id, command={"resume": "1"})
    until(lambda: "one 1" in engine.stage.calls)
    waiting = engine.thread(asked).interrupts
    cancel(engine, run, CancelAction.ROLLBACK)
    until(lambda: engine.storage.runs.get(run.run_id) is None)
    thread = engine.thread(asked)
    assert (thread.status, thread.interrupts) == (ThreadStatus.INTERRUPTED, waiting)
    engine.stage.gate.set()
    engine.done("asking_twice", thread=asked.thread_id, command={"resume": "2"})
    assert "one 2" in engine.stage.calls


def test_a_run_whose_thread_is_deleted_is_dropped(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    run = engine.new("gated_two")
    engine.entered("a")
    engine.storage.threads.delete(run.thread_id)
    until(lambda: engine.worker.executing == 0)
    assert engine.storage.runs.get(run.run_id) is None
    assert engine.storage.threads.get(run.thread_id) is None
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# ---- time


def test_a_run_that_takes_too_long_is_ended(new_engine: NewEngine) -> None:
    engine = new_engine(run_timeout=0.3)
    run = engine.done("gated_two")
    thread = engine.thread(run)
    assert (run.status, thread.status) == (RunStatus.TIMEOUT, ThreadStatus.ERROR)
    assert run.error is not None
    assert run.error == thread.error
    assert run.error["error"] == "RunTimeout"
    assert engine.log(run) == ["a first"]
    assert engine.events(run)[-2:] == ["error", "__output__"]
    assert engine.done("echo", "b", thread=run.thread_id).status is RunStatus.SUCCESS


def test_a_run_is_executed_when_it_is_due(engine: Engine) -> None:
    run = engine.new("echo", options={"delay": 200_000})
    ended = engine.ended(run)
    assert ended.started_at is not None
    assert ended.started_at >= run.created_at + 200_000


# ---- threads of one run


@pytest.mark.parametrize("completion", list(Completion))
def test_a_thread_that_was_made_for_a_run_goes_after_it(
    new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch, completion: Completion
) -> None:
    monkeypatch.setattr(leases, "LINGER", 0.2)
    engine = new_engine(lease=0.3)
    run = engine.done("echo", temporary=True, on_completion=completion)
    # Whoever waits reads the end at leisure.
    assert engine.output(run)["log"] == ["a"]
    if completion is Completion.DELETE:
        assert engine.thread(run).ttl is not None
        until(lambda: engine.storage.threads.get(run.thread_id) is None)
    else:
        assert engine.thread(run).ttl is None


def test_a_thread_that_is_used_meanwhile_stays(
    new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LINGER", 0.1)
    engine = new_engine(lease=0.3)
    run = engine.done("echo", temporary=True)
    later = engine.new("gated", "b", thread=run.thread_id)
    engine.entered("b")
    engine.worker._keeper.linger(run.thread_id)
    other = engine.done("echo", temporary=True)
    until(lambda: engine.storage.threads.get(other.thread_id) is None)
    engine.stage.gate.set()
    assert engine.ended(later).status is RunStatus.SUCCESS
