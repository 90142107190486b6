"""Runs that the clock makes, and what is kept of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.assistants import NewAssistant
from stateroom.contract.crons import CronChange, CronQuery, NewCron
from stateroom.contract.storage import Storage
from stateroom.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from stateroom.model.cron import Completion, Cron
from stateroom.model.limits import METADATA_BYTES_MAX
from stateroom.testing.parts.storage_cron_firing import CronFiringSuite, fail, fire, read, update
from stateroom.testing.parts.storage_cron_search import make_cron, new_cron
from stateroom.testing.storage_harness import (
    check_id,
    check_refused,
    check_text,
    make_thread,
    new_run,
    together,
)

__all__ = ["CronSuite"]

CALLERS = 20
PAYLOAD = {"input": {"text": "NUL \0 and half a \ud83d"}, "n": 10**30}


class CronSuite(CronFiringSuite):
    """Crons are made, changed and removed, and fired as ``CronFiringSuite`` says."""

    def test_create_answers_a_cron_as_it_is_kept(self, stocked: Storage, clock: ManualClock) -> None:
        now = clock()
        made = stocked.crons.create(
            NewCron(
                "c",
                "a",
                "0 9 * * 1-5",
                PAYLOAD,
                now + 5,
                thread_id="t",
                timezone="Europe/Berlin",
                enabled=False,
                metadata={"team": "red"},
                on_run_completed=Completion.KEEP,
                user_id="me",
                private={"token": "secret"},
                end_at=now + 9,
            )
        )
        assert made == Cron(
            "c",
            "a",
            "t",
            "0 9 * * 1-5",
            "Europe/Berlin",
            enabled=False,
            payload=PAYLOAD,
            metadata={"team": "red"},
            on_run_completed=Completion.KEEP,
            user_id="me",
            private=None,
            next_run_at=now + 5,
            end_at=now + 9,
            occurrence=0,
            error=None,
            created_at=now,
            updated_at=now,
        )
        assert read(stocked) == made
        assert stocked.crons.get("other") is None

    def test_a_cron_may_lack_what_it_need_not_have(self, stocked: Storage, clock: ManualClock) -> None:
        now = clock()
        made = stocked.crons.create(NewCron("c", "a", "* * * * *", {}, None))
        assert made == Cron(
            *("c", "a", None, "* * * * *", None, True, {}, {}, Completion.DELETE, None, None),
            *(None, None, 0, None, now, now),
        )
        assert read(stocked) == made

    def test_what_is_private_is_answered_by_due_alone(self, stocked: Storage, clock: ManualClock) -> None:
        private = {"token": "secret", "more": "\0"}
        made = make_cron(stocked, private=private, next_run_at=clock())
        (answered,) = stocked.crons.due()
        assert answered.private == private
        (found,) = stocked.crons.search(CronQuery()).rows
        shown = [made, read(stocked), found, update(stocked, schedule="1 * * * *")]
        assert [each.private for each in shown] == [None] * 4
        (answered,) = stocked.crons.due()
        assert answered.private == private

    def test_what_is_private_is_changed_key_by_key(self, stocked: Storage, clock: ManualClock) -> None:
        make_cron(stocked, private={"token": "secret", "context": {"a": 1, "b": 2}}, next_run_at=clock())
        update(stocked, private={"context": {"a": 3}, "more": None})
        (answered,) = stocked.crons.due()
        assert answered.private == {"token": "secret", "context": {"a": 3}, "more": None}

    def test_what_is_private_can_be_added(self, stocked: Storage, clock: ManualClock) -> None:
        make_cron(stocked, next_run_at=clock())
        assert update(stocked, private={"token": "secret"}).private is None
        (answered,) = stocked.crons.due()
        assert answered.private == {"token": "secret"}

    def test_a_crons_id_that_is_taken_is_a_conflict(self, stocked: Storage) -> None:
        made = make_cron(stocked)
        check_refused(
            Conflict, "cron_id", partial(make_cron, stocked, schedule="1 1 1 1 1", metadata={"n": 1})
        )
        assert read(stocked) == made
        assert stocked.crons.count(CronQuery(metadata={"n": 1})) == 0

    def test_of_several_who_create_one_cron_one_makes_it(self, stocked: Storage) -> None:
        outcomes = together(CALLERS, lambda number: make_cron(stocked, schedule=str(number)))
        made = [each for each in outcomes if isinstance(each, Cron)]
        assert made == [read(stocked)]
        assert [type(each) for each in outcomes if not isinstance(each, Cron)] == [Conflict] * 19

    def test_what_a_cron_names_must_exist(self, stocked: Storage) -> None:
        check_refused(NotFound, "assistant_id", partial(make_cron, stocked, assistant_id="gone"))
        check_refused(NotFound, "thread_id", partial(make_cron, stocked, thread_id="gone"))
        assert stocked.crons.get("c") is None

    def test_update_changes_what_it_mentions(self, stocked: Storage, clock: ManualClock) -> None:
        made = make_cron(
            stocked,
            timezone="Europe/Berlin",
            payload={"n": 1},
            metadata={"a": {"x": 1}, "b": 1},
            next_run_at=clock() + 5,
            end_at=clock() + 9,
        )
        changes: list[dict[str, Any]] = [
            {},
            {"schedule": "1 1 * * *"},
            {"timezone": "Asia/Tokyo"},
            {"timezone": None},
            {"enabled": False},
            {"enabled": True},
            {"payload": PAYLOAD},
            {"on_run_completed": Completion.KEEP},
            {"next_run_at": clock() + 7},
            {"next_run_at": None},
            {"end_at": 3},
            {"end_at": None},
            {"metadata": {"a": {"y": 2}, "c": None}},
        ]
        expected = {field: getattr(made, field) for field in CronChange._fields}
        for number, change in enumerate(changes, 1):
            clock.advance(seconds=1)
            changed = update(stocked, **change)
            expected |= change
            if "metadata" in change:
                expected["metadata"] = {"a": {"y": 2}, "b": 1, "c": None}
            assert {field: getattr(changed, field) for field in CronChange._fields} == expected
            assert (changed.created_at, changed.updated_at) == (made.created_at, clock())
            assert changed.occurrence == number
            assert read(stocked) == changed
        assert stocked.crons.count(CronQuery(metadata={"a": {"x": 1}})) == 0
        assert stocked.crons.count(CronQuery(metadata={"a": {"y": 2}, "b": 1})) == 1

    def test_update_clears_the_error(self, stocked: Storage) -> None:
        make_cron(stocked)
        assert fail(stocked)
        assert read(stocked).error == "bad"
        changed = update(stocked)
        assert (changed.error, changed.occurrence) == (None, 2)

    def test_updates_at_one_moment_are_all_made(self, stocked: Storage) -> None:
        make_cron(stocked)
        outcomes = together(CALLERS, lambda number: update(stocked, metadata={str(number): number}))
        occurrences = [each.occurrence for each in outcomes if isinstance(each, Cron)]
        assert sorted(occurrences) == list(range(1, CALLERS + 1))
        assert read(stocked).metadata == {str(number): number for number in range(CALLERS)}

    def test_a_cron_that_does_not_exist_is_not_found(self, stocked: Storage) -> None:
        check_refused(NotFound, "cron_id", partial(update, stocked))
        assert not stocked.crons.delete("c")
        assert not fail(stocked)

    def test_delete_removes_a_cron_and_leaves_its_runs(self, stocked: Storage) -> None:
        cron = make_cron(stocked, metadata={"n": 1}, thread_id="t")
        other = make_cron(stocked, "other", metadata={"n": 1})
        run = fire(stocked, cron, new_run("r", "t"))
        assert run is not None
        assert stocked.crons.delete("c")
        assert stocked.crons.get("c") is None
        assert stocked.crons.search(CronQuery(metadata={"n": 1})).rows == [other]
        assert not stocked.crons.delete("c")
        assert stocked.runs.get("r") == run
        # Nothing of the former one is left.
        assert make_cron(stocked).occurrence == 0
        assert stocked.crons.count(CronQuery(metadata={"n": 1})) == 1

    def test_a_cron_goes_with_its_thread(self, stocked: Storage) -> None:
        make_cron(stocked, thread_id="t", metadata={"n": 1})
        make_cron(stocked, "other", metadata={"n": 1})
        stocked.threads.delete("t")
        assert stocked.crons.get("c") is None
        assert stocked.crons.count(CronQuery(metadata={"n": 1})) == 1

    def test_a_cron_that_is_made_while_its_thread_goes_is_not_left_behind(self, stocked: Storage) -> None:
        for number in range(10):
            make_thread(stocked, str(number))

        def act(number: int) -> object:
            thread = str(number // 2)
            return (
                stocked.threads.delete(thread) if number % 2 else make_cron(stocked, thread, thread_id=thread)
            )

        outcomes = together(CALLERS, act)
        assert {type(each) for each in outcomes} <= {bool, Cron, NotFound}
        assert stocked.crons.count(CronQuery()) == 0

    def test_ids_and_texts_of_crons_that_cannot_be_kept_are_refused(self, stocked: Storage) -> None:
        crons, new = stocked.crons, new_cron()

        def create(**fields: Any) -> None:
            crons.create(new._replace(**fields))
            crons.delete(fields.get("cron_id", "c"))

        long = "i" * 255
        stocked.assistants.create(NewAssistant(long, "g"))
        make_thread(stocked, long)
        check_id("cron_id", lambda text: create(cron_id=text))
        check_id("assistant_id", lambda text: create(assistant_id=text))
        check_id("thread_id", lambda text: create(thread_id=text), optional=True)
        check_text("schedule", lambda text: create(schedule=text))
        check_text("timezone", lambda text: create(timezone=text))
        check_text("user_id", lambda text: create(user_id=text))
        make_cron(stocked, long)
        check_text("schedule", lambda text: update(stocked, long, schedule=text))
        check_text("timezone", lambda text: update(stocked, long, timezone=text))
        check_id("cron_id", crons.get)
        check_id("cron_id", lambda text: update(stocked, text))
        check_id("cron_id", lambda text: crons.fire(text, 0, next_run_at=None, run=None))
        check_id("cron_id", lambda text: fail(stocked, text))
        check_text("error", lambda text: fail(stocked, long, read(stocked, long).occurrence, text))
        check_id("cron_id", crons.delete)

    def test_what_is_no_time_or_no_choice_is_refused(self, stocked: Storage) -> None:
        make_cron(stocked)
        before = read(stocked)
        wrong: list[tuple[str, Any]] = [
            *((field, "soon") for field in ("next_run_at", "end_at", "enabled", "on_run_completed")),
            *((field, None) for field in ("enabled", "on_run_completed")),
            *((field, each) for field in ("next_run_at", "end_at") for each in (1.5, True, 2**63)),
            ("payload", {"x": object()}),
        ]
        for field, value in wrong:
            given: dict[str, Any] = {field: value}
            check_refused(InvalidInput, field, partial(make_cron, stocked, "other", **given))
            check_refused(InvalidInput, field, partial(update, stocked, **given))
        for each in ("soon", 2**63):
            moment: Any = each
            check_refused(
                InvalidInput, "next_run_at", partial(fire, stocked, before, None, next_run_at=moment)
            )
            check_refused(
                InvalidInput, "next_run_at", partial(stocked.crons.fail, "c", 0, "", next_run_at=moment)
            )
        assert read(stocked) == before
        assert stocked.crons.get("other") is None

    def test_metadata_that_are_too_large_are_refused(self, stocked: Storage) -> None:
        most = {"x": "i" * (METADATA_BYTES_MAX - len('{"x":""}'))}
        more = {"x": most["x"] + "i"}
        check_refused(LimitExceeded, "metadata", partial(make_cron, stocked, metadata=more))
        made = make_cron(stocked, metadata=most)
        assert made.metadata == most
        check_refused(LimitExceeded, "metadata", partial(update, stocked, metadata=more))
        check_refused(LimitExceeded, "metadata", partial(update, stocked, metadata={"y": 1}))
        check_refused(InvalidInput, "metadata.y", partial(update, stocked, metadata={"y": object()}))
        assert read(stocked) == made

    @pytest.mark.parametrize("limit", [-1, "1", None, True])
    def test_limits_of_due_that_are_none_are_refused(self, stocked: Storage, limit: Any) -> None:
        check_refused(InvalidInput, "limit", partial(stocked.crons.due, limit=limit))
