"""Runs above storage: whose they are, what they are made with, and what stopping them does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.assistants import AssistantChange, NewAssistant
from stateroom.contract.runs import NewRun, RunQuery, Settlement
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.errors import (
    Conflict,
    InvalidAssistant,
    InvalidInput,
    LimitExceeded,
    NotFound,
    NotSupported,
    ThreadBusy,
    ThreadStatusMismatch,
)
from stateroom.model.limits import RUN_BATCH_MAX
from stateroom.model.run import Run, RunStatus
from stateroom.model.run_kwargs import RunKwargs, RunPrivate
from stateroom.model.thread import ThreadStatus, ThreadTTL
from stateroom.service import runs as runs_module
from stateroom.service.assistants import AssistantService, graph_assistant_id
from stateroom.service.runs import RunRequest, RunService, Selection
from stateroom.service.scope import EVERYTHING, Principal, Scope

LEASE = 60_000_000
AGENT = graph_assistant_id("agent")

ANN = Scope(Principal("ann", ("read",), {"identity": "ann", "token": "secret"}), {"owner": "ann"})
BOB = Scope(Principal("bob"), {"owner": "bob"})


def ask(thread_id: str | None = "t", **said: Any) -> RunRequest:
    return RunRequest(**{"assistant_id": "agent", "thread_id": thread_id, **said})


def make(runs: RunService, thread_id: str | None = "t", scope: Scope = EVERYTHING, **said: Any) -> Run:
    (run,) = runs.create([ask(thread_id, **said)], scope)
    return run


def claim(storage: Storage, many: int = 1) -> list[Run]:
    return storage.runs.claim("w", lease=LEASE, limit=many)


def end(storage: Storage, run: Run) -> None:
    storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE))


@pytest.fixture(autouse=True)
def threads(storage: Storage) -> None:
    storage.threads.create(NewThread("t", {"owner": "ann"}))
    storage.threads.create(NewThread("b", {"owner": "bob"}))


# ---- What a run is made with.


def test_a_run_is_made_with_what_was_asked_for(runs: RunService, storage: Storage) -> None:
    made = make(
        runs,
        input={"n": 1},
        metadata={"m": 1},
        multitask_strategy="interrupt",
        config={"configurable": {"model": "m", "token": "secret"}, "tags": ["x"]},
        context={"jwt": "secret"},
    )
    assert (made.thread_id, made.assistant_id, made.assistant_version) == ("t", AGENT, 1)
    assert (made.status, made.metadata, made.multitask) == ("pending", {"m": 1}, "interrupt")
    expected = RunKwargs(input={"n": 1}, config={"configurable": {"model": "m"}, "tags": ["x"]})
    assert RunKwargs.from_json(made.kwargs) == expected
    (claimed,) = claim(storage)
    assert RunPrivate.from_json(claimed.private) == RunPrivate(
        context={"jwt": "secret"}, configurable={"token": "secret"}
    )


def test_a_run_that_is_asked_for_without_anything_apart_has_nothing_apart(
    runs: RunService, storage: Storage
) -> None:
    make(runs)
    assert claim(storage)[0].private is None


def test_the_caller_and_his_headers_reach_the_run_apart(runs: RunService, storage: Storage) -> None:
    runs.create([ask(context={"a": 1})], ANN, headers={"x-user": "u", "token": "of the header"})
    (claimed,) = claim(storage)
    assert RunPrivate.from_json(claimed.private) == RunPrivate(
        context={"a": 1},
        user={"identity": "ann", "token": "secret", "permissions": ["read"]},
        configurable={"x-user": "u", "token": "of the header"},
    )


def test_the_context_is_the_assistants_with_the_callers_over_it(runs: RunService, storage: Storage) -> None:
    storage.assistants.create(NewAssistant("own", "agent", context={"a": 1, "b": 1}, config={"tags": ["a"]}))
    made = make(runs, assistant_id="own", context={"b": 2, "c": 2})
    (claimed,) = claim(storage)
    assert RunPrivate.from_json(claimed.private).context == {"a": 1, "b": 2, "c": 2}
    # The execution merges the config, of the version that is pinned.
    assert RunKwargs.from_json(made.kwargs).config == {}


def test_a_run_keeps_the_version_of_its_assistant(runs: RunService, storage: Storage) -> None:
    storage.assistants.create(NewAssistant("own", "agent", context={"a": 1}))
    made = make(runs, assistant_id="own")
    storage.assistants.update("own", AssistantChange(context={"a": 2}))
    assert storage.runs.get(made.run_id) == made
    assert (made.assistant_version, make(runs, assistant_id="own").assistant_version) == (1, 2)


def test_an_assistant_that_is_none_or_not_his_is_refused(runs: RunService, storage: Storage) -> None:
    missing = "0c9f5b6a-7d1e-4f60-9a55-3f0f4b0f5b11"
    with pytest.raises(NotFound):
        make(runs, assistant_id=missing)
    with pytest.raises(InvalidAssistant):
        make(runs, assistant_id="zzz")
    storage.assistants.create(NewAssistant(missing, "agent", metadata={"owner": "bob"}))
    with pytest.raises(NotFound):
        runs.create([ask(assistant_id=missing)], ANN, assistants=ANN)
    assert storage.runs.count(RunQuery()) == 0


# ---- Its thread.


def test_a_thread_that_is_not_there_is_refused_or_made(runs: RunService, storage: Storage) -> None:
    with pytest.raises(NotFound) as caught:
        make(runs, "new")
    assert caught.value.field == "thread_id"
    make(runs, "new", if_not_exists="create", metadata={"m": 1})
    thread = storage.threads.get("new")
    assert thread is not None
    assert thread.metadata == {"m": 1, "graph_id": "agent", "assistant_id": AGENT}


def test_a_run_without_a_thread_gets_one_of_its_own(runs: RunService, storage: Storage) -> None:
    first, second = make(runs, None), make(runs, None, if_thread_status=["idle"])
    assert first.thread_id != second.thread_id
    thread = storage.threads.get(first.thread_id)
    assert thread is not None
    assert thread.metadata == {"graph_id": "agent", "assistant_id": AGENT}


def test_a_thread_learns_whose_graph_is_run_on_it_first(runs: RunService, storage: Storage) -> None:
    make(runs, assistant_id="other")
    make(runs)
    thread = storage.threads.get("t")
    assert thread is not None
    assert thread.metadata == {
        "owner": "ann",
        "graph_id": "other",
        "assistant_id": graph_assistant_id("other"),
    }


def test_a_thread_learns_nothing_from_a_run_that_is_refused(runs: RunService, storage: Storage) -> None:
    storage.runs.create([NewRun("r", "t", AGENT, 1, {})])
    with pytest.raises(ThreadBusy):
        make(runs, assistant_id="other", multitask_strategy="reject")
    thread = storage.threads.get("t")
    assert thread is not None
    assert thread.metadata == {"owner": "ann"}


def test_threads_that_are_made_get_the_usual_time_to_live(
    storage: Storage, assistants: AssistantService
) -> None:
    service = RunService(storage, assistants, iter("abcdef").__next__, thread_ttl=ThreadTTL(5))
    for made in (make(service, None), make(service, "new", if_not_exists="create")):
        thread = storage.threads.get(made.thread_id)
        assert thread is not None
        assert thread.ttl == ThreadTTL(5)


def test_a_thread_that_is_somebody_elses_is_not_there(runs: RunService, storage: Storage) -> None:
    for said in ({}, {"if_not_exists": "create"}):
        with pytest.raises(NotFound) as caught:
            make(runs, "b", ANN, **said)
        assert str(caught.value) == "there is no thread 'b'"
    assert storage.runs.count(RunQuery()) == 0
    make(runs, "b", BOB)


@pytest.mark.parametrize("thread_id", ["new", None])
def test_a_thread_that_is_made_is_seen_by_who_makes_it(
    runs: RunService, storage: Storage, thread_id: str | None
) -> None:
    made = make(runs, thread_id, ANN, if_not_exists="create", metadata={"m": 1})
    assert runs.get(made.run_id, ANN) == made
    thread = storage.threads.get(made.thread_id)
    assert thread is not None
    assert thread.metadata.items() >= {"owner": "ann", "m": 1}.items()
    with pytest.raises(NotFound):
        runs.get(made.run_id, BOB)


def test_the_status_of_the_thread_can_be_a_condition(runs: RunService, storage: Storage) -> None:
    make(runs, if_thread_status=["idle"])
    claim(storage)
    with pytest.raises(ThreadStatusMismatch):
        make(runs, if_thread_status=["idle", "error"])
    make(runs, if_thread_status=["busy"])


# ---- Several at once.


def test_several_runs_are_made_together_or_not_at_all(runs: RunService, storage: Storage) -> None:
    made = runs.create([ask("t"), ask(None), ask("t", assistant_id="other")], EVERYTHING)
    assert [run.thread_id for run in made][::2] == ["t", "t"]
    before = storage.runs.count(RunQuery())
    for bad in (ask("gone"), ask(webhook="https://x"), ask(assistant_id="zzz"), ask(stream_mode="x")):
        with pytest.raises((NotFound, NotSupported, InvalidInput)):
            runs.create([ask("t"), ask(None), bad], EVERYTHING)
    with pytest.raises(NotFound):
        runs.create([ask("t"), ask("b")], ANN)
    assert storage.runs.count(RunQuery()) == before


def test_as_many_runs_as_the_limit_says_can_be_made_together(runs: RunService) -> None:
    assert len(runs.create([ask()] * RUN_BATCH_MAX, EVERYTHING)) == RUN_BATCH_MAX
    with pytest.raises(LimitExceeded):
        runs.create([ask()] * (RUN_BATCH_MAX + 1), EVERYTHING)
    with pytest.raises(InvalidInput):
        runs.create([], EVERYTHING)


# ---- Finding.


def test_a_run_is_found_on_its_thread_alone(runs: RunService) -> None:
    made = make(runs)
    assert runs.get(made.run_id, ANN) == made
    assert runs.get(made.run_id, EVERYTHING, thread_id="t") == made
    for scope, thread_id in [(EVERYTHING, "b"), (BOB, "t"), (BOB, None)]:
        with pytest.raises(NotFound) as caught:
            runs.get(made.run_id, scope, thread_id=thread_id)
        assert str(caught.value) == f"there is no run {made.run_id!r}"
    with pytest.raises(NotFound):
        runs.get("gone", EVERYTHING)


def test_the_runs_of_a_thread_are_listed_with_their_number(runs: RunService, storage: Storage) -> None:
    made = [make(runs) for _ in range(3)]
    claim(storage)
    page, total = runs.search("t", ANN, limit=2)
    assert ([run.run_id for run in page.rows], total) == ([made[2].run_id, made[1].run_id], 3)
    page, total = runs.search("t", ANN, limit=2, after=page.next)
    assert ([run.run_id for run in page.rows], total, page.next) == ([made[0].run_id], 3, None)
    page, total = runs.search("t", ANN, status=RunStatus.RUNNING)
    assert ([run.run_id for run in page.rows], total) == ([made[0].run_id], 1)
    assert runs.search("b", EVERYTHING) == (([], None), 0)
    for scope, thread_id in [(BOB, "t"), (EVERYTHING, "gone")]:
        with pytest.raises(NotFound):
            runs.search(thread_id, scope)


# ---- Deleting.


def test_a_run_can_be_deleted_unless_it_executes(runs: RunService, storage: Storage) -> None:
    made = make(runs)
    with pytest.raises(NotFound):
        runs.delete(made.run_id, BOB, thread_id="t")
    with pytest.raises(NotFound):
        runs.delete(made.run_id, EVERYTHING, thread_id="b")
    (claimed,) = claim(storage)
    with pytest.raises(Conflict):
        runs.delete(made.run_id, EVERYTHING, thread_id="t")
    end(storage, claimed)
    runs.delete(made.run_id, ANN, thread_id="t")
    with pytest.raises(NotFound):
        runs.delete(made.run_id, ANN, thread_id="t")


# ---- Stopping one.


def test_a_pending_run_is_stopped_at_once_and_an_executing_one_is_asked(
    runs: RunService, storage: Storage
) -> None:
    first, second = make(runs), make(runs)
    (claimed,) = claim(storage)
    assert runs.cancel(second.run_id, ANN, thread_id="t", reason="no more") == (second.run_id, "t", True)
    stopped = runs.get(second.run_id, ANN)
    assert (stopped.status, stopped.cancel_reason) == ("interrupted", "no more")
    assert runs.cancel(first.run_id, ANN, action="rollback") == (first.run_id, "t", False)
    assert storage.runs.renew([claimed.lease], lease=LEASE)[0].cancel == "rollback"


def test_what_is_not_his_or_has_ended_cannot_be_stopped(runs: RunService, storage: Storage) -> None:
    made = make(runs)
    for scope, thread_id in [(BOB, "t"), (EVERYTHING, "b")]:
        with pytest.raises(NotFound):
            runs.cancel(made.run_id, scope, thread_id=thread_id)
    with pytest.raises(InvalidInput) as caught:
        runs.cancel(made.run_id, EVERYTHING, action="kill")
    assert caught.value.field == "action"
    assert runs.get(made.run_id, EVERYTHING).status == "pending"
    end(storage, claim(storage)[0])
    with pytest.raises(NotFound, match="has ended"):
        runs.cancel(made.run_id, EVERYTHING)


def test_a_run_that_is_rolled_back_before_it_began_is_gone(runs: RunService) -> None:
    made = make(runs)
    runs.cancel(made.run_id, EVERYTHING, action="rollback")
    with pytest.raises(NotFound):
        runs.get(made.run_id, EVERYTHING)


def test_a_run_can_be_abandoned_whatever_it_is_doing(runs: RunService) -> None:
    made = make(runs)
    runs.abandon(made.run_id, "left")
    runs.abandon(made.run_id, "left again")
    runs.abandon("gone", "left")
    assert runs.get(made.run_id, EVERYTHING).cancel_reason == "left"


# ---- Stopping many.


@pytest.fixture
def some(runs: RunService, storage: Storage) -> dict[str, str]:
    """Return the ids of one executing and two pending runs of Ann, a pending of Bob's, and one that ended."""
    ended = make(runs, "b")
    end(storage, claim(storage)[0])
    executing = make(runs)
    claim(storage)
    made = {"executing": executing, "pending": make(runs), "later": make(runs, after_seconds=60)}
    made |= {"bobs": make(runs, "b"), "ended": ended}
    return {name: run.run_id for name, run in made.items()}


@pytest.mark.parametrize(
    ("selection", "scope", "stopped"),
    [
        (Selection(), EVERYTHING, ["executing", "pending", "later", "bobs"]),
        (Selection(), ANN, ["executing", "pending", "later"]),
        (Selection(), BOB, ["bobs"]),
        (Selection(thread_id="t"), EVERYTHING, ["executing", "pending", "later"]),
        (Selection(thread_id="t"), ANN, ["executing", "pending", "later"]),
        (Selection(status="pending"), ANN, ["pending", "later"]),
        (Selection(status="running"), EVERYTHING, ["executing"]),
        (Selection(thread_id="t", status="running"), ANN, ["executing"]),
        (Selection(run_ids=["later", "bobs", "ended", "gone"]), EVERYTHING, ["later", "bobs"]),
        (Selection(run_ids=["later", "bobs", "ended", "gone"]), ANN, ["later"]),
        (Selection("t", ["pending", "bobs"], "all"), EVERYTHING, ["pending"]),
        (Selection(run_ids=["executing"], status="pending"), EVERYTHING, []),
        (Selection(run_ids=[]), EVERYTHING, []),
        (Selection(run_ids=[]), ANN, []),
    ],
)
def test_a_selection_is_stopped_as_far_as_the_caller_sees_it(
    runs: RunService, some: dict[str, str], selection: Selection, scope: Scope, stopped: list[str]
) -> None:
    if selection.run_ids is not None:
        selection = selection._replace(run_ids=[some.get(name, name) for name in selection.run_ids])
    found = runs.cancel_many(selection, scope)
    assert [each.run_id for each in found.cancelled] == [some[name] for name in stopped]
    assert [each.ended for each in found.cancelled] == [name != "executing" for name in stopped]
    assert not found.truncated


@pytest.mark.usefixtures("some")
def test_a_selection_of_a_thread_that_is_not_his_is_refused(runs: RunService) -> None:
    for scope, thread_id in [(BOB, "t"), (EVERYTHING, "gone")]:
        with pytest.raises(NotFound):
            runs.cancel_many(Selection(thread_id=thread_id), scope)


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize("scope", [EVERYTHING, ANN])
def test_a_selection_that_is_too_large_says_so(
    runs: RunService, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_module, "CANCELLED_MAX", 2)
    found = runs.cancel_many(Selection(status="pending", thread_id="t"), scope)
    assert (len(found.cancelled), found.truncated) == (2, False)
    for _ in range(3):
        make(runs)
    found = runs.cancel_many(Selection(status="pending"), scope)
    assert (len(found.cancelled), found.truncated) == (2, True)


def test_a_put_off_run_waits_for_its_time(runs: RunService, storage: Storage, clock: ManualClock) -> None:
    made = make(runs, after_seconds=10)
    assert claim(storage) == []
    clock.advance(seconds=10)
    assert [run.run_id for run in claim(storage)] == [made.run_id]


def test_the_service_makes_of_a_request_what_storage_can_keep(runs: RunService) -> None:
    made = make(runs, input={"nul": "\0", "nan": float("nan"), "big": 10**40})
    found = runs.get(made.run_id, EVERYTHING)
    assert repr(found.kwargs) == repr(made.kwargs)
    assert replace(found, kwargs={}) == replace(made, kwargs={})
