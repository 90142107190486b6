"""Crons above storage: when they are due, whose they are, and what their runs are made with."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.contract.crons import CronChange, CronQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.errors import (
    Denied,
    InvalidAssistant,
    InvalidInput,
    InvalidSchedule,
    NotFound,
    NotSupported,
    StateroomError,
)
from stateroom.model.change import UNSET
from stateroom.model.cron import Completion, Cron
from stateroom.model.paging import Sort
from stateroom.service.assistants import graph_assistant_id
from stateroom.service.crons import CronRequest, CronService, CronUpdate
from stateroom.service.run_requests import RunRequest
from stateroom.service.schedules import parse_moment
from stateroom.service.scope import EVERYTHING, Principal, Scope

AGENT = graph_assistant_id("agent")
MINUTE = 60_000_000

ANN = Scope(Principal("ann", ("read",), {"token": "secret"}), {"owner": "ann"})
BOB = Scope(Principal("bob"), {"owner": "bob"})


def ask(thread_id: str | None = None, *, schedule: str = "* * * * *", **said: Any) -> CronRequest:
    own = {name: said.pop(name) for name in CronRequest.__slots__ if name in said}
    run = RunRequest(**{"assistant_id": "agent", "thread_id": thread_id, **said})
    return CronRequest(run=run, schedule=schedule, **own)


def make(crons: CronService, thread_id: str | None = None, scope: Scope = EVERYTHING, **said: Any) -> Cron:
    return crons.create(ask(thread_id, **said), scope)


@pytest.fixture(autouse=True)
def thread(storage: Storage) -> None:
    storage.threads.create(NewThread("t", {"owner": "ann"}))


def next_minute(clock: ManualClock) -> int:
    return clock() // MINUTE * MINUTE + MINUTE


# ---- Making one.


def test_a_cron_is_made_with_what_was_asked_for(crons: CronService, clock: ManualClock) -> None:
    made = make(crons, input={"n": 1}, metadata={"m": 1}, multitask_strategy="reject", durability="exit")
    assert (made.assistant_id, made.thread_id, made.enabled, made.timezone) == (AGENT, None, True, None)
    assert made.payload == {
        "assistant_id": AGENT,
        "input": {"n": 1},
        "metadata": {"m": 1},
        "multitask_strategy": "reject",
        "durability": "exit",
    }
    assert (made.metadata, made.user_id, made.on_run_completed) == ({"m": 1}, None, Completion.DELETE)
    assert made.next_run_at == next_minute(clock)
    assert crons.get(made.cron_id, EVERYTHING) == made


def test_what_may_not_be_seen_of_a_cron_is_kept_apart(
    crons: CronService, storage: Storage, clock: ManualClock
) -> None:
    config = {"configurable": {"model": "m", "api_key": "secret"}}
    made = make(crons, None, ANN, context={"jwt": "secret"}, config=config)
    assert "secret" not in repr(made)
    assert made.user_id == "ann"
    clock.advance(minutes=1)
    (due,) = storage.crons.due()
    assert due.private == {
        "context": {"jwt": "secret"},
        "configurable": {"api_key": "secret"},
        "user": {"identity": "ann", "permissions": ["read"], "token": "secret"},
    }


def test_the_thread_of_a_cron_must_be_there_and_his(crons: CronService, storage: Storage) -> None:
    made = crons.create(ask("t"), ANN, threads=ANN)
    assert (made.thread_id, made.on_run_completed) == ("t", Completion.KEEP)
    assert made.payload["thread_id"] == "t"
    with pytest.raises(NotFound):
        make(crons, "gone")
    with pytest.raises(NotFound):
        crons.create(ask("t"), BOB, threads=BOB)
    assert storage.crons.count(CronQuery()) == 1


@pytest.mark.parametrize(
    ("said", "kind", "field"),
    [
        ({"schedule": "soon"}, InvalidSchedule, "schedule"),
        ({"schedule": "0 0 30 2 *"}, InvalidSchedule, "schedule"),
        ({"timezone": "Mars/Base"}, InvalidSchedule, "timezone"),
        ({"end_time": "soon"}, InvalidSchedule, "end_time"),
        ({"assistant_id": "zzz"}, InvalidAssistant, "assistant_id"),
        ({"webhook": "https://example.org"}, NotSupported, "webhook"),
        ({"stream_mode": "vaules"}, InvalidInput, "stream_mode"),
        ({"config": {"recursion_limit": 0}}, InvalidInput, "config.recursion_limit"),
        ({"multitask_strategy": "x"}, InvalidInput, "multitask_strategy"),
        ({"if_not_exists": "create"}, InvalidInput, "if_not_exists"),
        ({"on_run_completed": "hide"}, InvalidInput, "on_run_completed"),
        ({"on_run_completed": "delete", "thread_id": "t"}, InvalidInput, "on_run_completed"),
    ],
)
def test_a_cron_that_could_not_run_is_refused(
    crons: CronService, storage: Storage, said: dict[str, Any], kind: type[StateroomError], field: str
) -> None:
    with pytest.raises(kind) as caught:
        make(crons, **said)
    assert (caught.value.field, storage.crons.count(CronQuery())) == (field, 0)


# ---- When it is due.


def test_a_cron_is_due_by_the_clock_of_its_zone(crons: CronService, clock: ManualClock) -> None:
    clock.microseconds = parse_moment("2026-03-28T12:00Z", "x")
    made = make(crons, schedule="0 9 * * *", timezone="Europe/Berlin")
    assert made.next_run_at == parse_moment("2026-03-29T09:00+02:00", "x")
    clock.microseconds = parse_moment("2026-10-24T12:00Z", "x")
    moved = crons.update(made.cron_id, CronUpdate(enabled=True), EVERYTHING)
    assert moved.next_run_at == parse_moment("2026-10-25T09:00+01:00", "x")
    in_utc = crons.update(made.cron_id, CronUpdate(timezone=None), EVERYTHING)
    assert (in_utc.timezone, in_utc.next_run_at) == (None, parse_moment("2026-10-25T09:00Z", "x"))


def test_a_cron_is_not_due_behind_its_end(crons: CronService, clock: ManualClock) -> None:
    due = next_minute(clock)

    def ending(at: int) -> Cron:
        return make(crons, end_time=microseconds_to_datetime(at).isoformat())

    assert (ending(due).end_at, ending(due).next_run_at) == (due, due)
    assert ending(due - 1).next_run_at is None


def test_an_end_can_be_taken_away_and_the_cron_lives_again(crons: CronService, clock: ManualClock) -> None:
    made = make(crons, end_time="2020-01-01T00:00:00+01:00")
    assert made.next_run_at is None
    same = crons.update(made.cron_id, CronUpdate(schedule="*/2 * * * *"), EVERYTHING)
    assert (same.end_at, same.next_run_at) == (made.end_at, None)
    revived = crons.update(made.cron_id, CronUpdate(end_time=None), EVERYTHING)
    assert revived.end_at is None
    assert revived.next_run_at is not None
    assert revived.next_run_at > clock()
    with pytest.raises(InvalidSchedule):
        crons.update(made.cron_id, CronUpdate(end_time="soon"), EVERYTHING)


def test_a_cron_that_is_disabled_is_never_due(crons: CronService, clock: ManualClock) -> None:
    made = make(crons, enabled=False)
    assert (made.enabled, made.next_run_at) == (False, None)
    clock.advance(minutes=90)
    on = crons.update(made.cron_id, CronUpdate(enabled=True), EVERYTHING)
    assert (on.enabled, on.next_run_at) == (True, next_minute(clock))
    off = crons.update(made.cron_id, CronUpdate(enabled=False), EVERYTHING)
    assert (off.enabled, off.next_run_at) == (False, None)


# ---- Changing one.


def test_an_update_changes_what_it_mentions(crons: CronService) -> None:
    made = make(crons, input={"n": 1}, metadata={"a": 1, "b": 1}, stream_mode="updates")
    changed = crons.update(
        made.cron_id,
        CronUpdate(
            run={"input": {"n": 2}, "interrupt_before": ["a"]},
            metadata={"b": 2},
            on_run_completed="keep",
        ),
        EVERYTHING,
    )
    assert changed.payload == {
        "assistant_id": AGENT,
        "input": {"n": 2},
        "metadata": {"a": 1, "b": 2},
        "stream_mode": "updates",
        "interrupt_before": ["a"],
    }
    assert (changed.metadata, changed.on_run_completed) == ({"a": 1, "b": 2}, Completion.KEEP)
    same = crons.update(made.cron_id, CronUpdate(), EVERYTHING)
    assert (same.payload, same.metadata, same.schedule) == (
        changed.payload,
        changed.metadata,
        changed.schedule,
    )


def test_an_update_changes_what_is_kept_apart(
    crons: CronService, storage: Storage, clock: ManualClock
) -> None:
    made = make(crons, None, ANN, context={"a": 1}, config={"configurable": {"token": "old", "m": 1}})
    user = {"identity": "ann", "permissions": ["read"], "token": "secret"}
    clock.advance(minutes=1)

    def private() -> Any:
        # As due as it was, to be seen with what is kept apart.
        storage.crons.update(made.cron_id, _due(clock))
        return storage.crons.due()[0].private

    crons.update(made.cron_id, CronUpdate(run={"input": 1}), ANN)
    assert private() == {"context": {"a": 1}, "configurable": {"token": "old"}, "user": user}
    crons.update(made.cron_id, CronUpdate(run={"context": {"b": 2}}), ANN)
    assert private() == {"context": {"b": 2}, "configurable": {"token": "old"}, "user": user}
    changed = crons.update(made.cron_id, CronUpdate(run={"config": {"configurable": {"token": "new"}}}), ANN)
    assert "config" not in changed.payload
    assert private() == {"context": {"b": 2}, "configurable": {"token": "new"}, "user": user}
    crons.update(made.cron_id, CronUpdate(run={"context": None, "config": {}}), ANN)
    assert private() == {"context": {}, "configurable": {}, "user": user}


def _due(clock: ManualClock) -> Any:
    return CronChange(next_run_at=clock())


@pytest.mark.parametrize(
    "update",
    [
        CronUpdate(schedule="x"),
        CronUpdate(timezone="x"),
        CronUpdate(end_time="x"),
        CronUpdate(on_run_completed="x"),
        CronUpdate(run={"webhook": "https://x"}),
        CronUpdate(run={"stream_mode": "x"}),
        CronUpdate(run={"config": {"recursion_limit": 0}}),
    ],
)
def test_an_update_that_breaks_a_rule_changes_nothing(crons: CronService, update: CronUpdate) -> None:
    made = make(crons)
    with pytest.raises((InvalidInput, NotSupported)):
        crons.update(made.cron_id, update, EVERYTHING)
    assert crons.get(made.cron_id, EVERYTHING) == made


# ---- Whose they are.


def test_a_cron_belongs_to_who_made_it(crons: CronService, storage: Storage) -> None:
    made = make(crons, None, ANN, metadata={"m": 1})
    assert made.metadata == {"owner": "ann", "m": 1}
    assert crons.get(made.cron_id, ANN) == made
    for call in (
        lambda: crons.get(made.cron_id, BOB),
        lambda: crons.update(made.cron_id, CronUpdate(enabled=False), BOB),
        lambda: crons.delete(made.cron_id, BOB),
    ):
        with pytest.raises(NotFound) as caught:
            call()
        assert str(caught.value) == f"there is no cron {made.cron_id!r}"
    with pytest.raises(Denied):
        crons.update(made.cron_id, CronUpdate(metadata={"owner": "bob"}), ANN)
    assert storage.crons.get(made.cron_id) == made
    assert (crons.count(CronQuery(), ANN), crons.count(CronQuery(), BOB)) == (1, 0)
    assert crons.search(CronQuery(), BOB) == (([], None), 0)
    crons.delete(made.cron_id, ANN)
    with pytest.raises(NotFound):
        crons.delete(made.cron_id, ANN)


def test_crons_are_found_by_their_graph_and_listed_with_their_number(crons: CronService) -> None:
    made = [make(crons, schedule=f"{minute} * * * *") for minute in range(3)]
    make(crons, assistant_id="other")
    for name in ("agent", AGENT):
        page, total = crons.search(
            CronQuery(assistant_id=name), EVERYTHING, sort=Sort("created_at", descending=False), limit=2
        )
        assert ([each.cron_id for each in page.rows], total) == ([each.cron_id for each in made[:2]], 3)
        assert crons.count(CronQuery(assistant_id=name), EVERYTHING) == 3
    assert crons.count(CronQuery(assistant_id="zzz"), EVERYTHING) == 0


def test_an_update_that_says_nothing_says_nothing() -> None:
    update = CronUpdate()
    assert {getattr(update, name) for name in ("schedule", "timezone", "end_time", "enabled")} == {UNSET}
