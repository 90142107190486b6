"""Graphs' configurations, and all the versions that each of them had."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.assistants import AssistantChange, AssistantQuery, NewAssistant
from stateroom.contract.crons import CronQuery, NewCron
from stateroom.contract.storage import Storage
from stateroom.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from stateroom.model.assistant import Assistant
from stateroom.model.limits import METADATA_BYTES_MAX
from stateroom.testing.parts.storage_assistant_search import AssistantSearchSuite, make_assistant
from stateroom.testing.storage_harness import (
    check_id,
    check_refused,
    check_text,
    make_run,
    make_thread,
    together,
)

__all__ = ["AssistantSuite"]

CALLERS = 20
LONG = "".join(f"{number * 2654435761 % 2**32:08x}" for number in range(8 * 1024))
"""A text as long as texts may be, which no database makes short."""


def update(storage: Storage, assistant_id: str = "a", **fields: Any) -> Assistant:
    """Make the next version of an assistant."""
    return storage.assistants.update(assistant_id, AssistantChange(**fields))


def read(storage: Storage, assistant_id: str = "a") -> Assistant:
    """Return an assistant that must be there."""
    found = storage.assistants.get(assistant_id)
    assert found is not None
    return found


def metadata_of(size: int) -> dict[str, Any]:
    """Return metadata of so many bytes as JSON."""
    return {"x": "i" * (size - len('{"x":""}'))}


class AssistantSuite(AssistantSearchSuite):
    """Assistants, each with all of its versions, of which one is active."""

    def test_create_makes_version_1_and_answers_it(self, storage: Storage, clock: ManualClock) -> None:
        now = clock()
        made = make_assistant(
            storage,
            name="Name",
            description="What it is",
            config={"configurable": {"n": 1}, "tags": ["x"]},
            context={"user": None},
            metadata={"team": "red", "n": 2.5},
        )
        assert made == Assistant(
            *("a", "g", "Name", 1, now, now, "What it is"),
            *({"configurable": {"n": 1}, "tags": ["x"]}, {"user": None}, {"team": "red", "n": 2.5}),
        )
        assert read(storage) == storage.assistants.version("a", 1) == made
        assert storage.assistants.versions("a") == [made]
        assert storage.assistants.get("other") is None

    def test_an_assistant_without_a_name_has_its_graphs_id(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        assert make_assistant(storage) == Assistant("a", "g", "g", 1, clock(), clock(), None, {}, {}, {})
        assert make_assistant(storage, "b", name="").name == ""

    def test_an_assistants_id_that_is_taken_is_a_conflict(self, storage: Storage) -> None:
        made = make_assistant(storage)
        again: dict[str, Any] = {"graph_id": "other", "metadata": {"n": 1}}
        check_refused(Conflict, "assistant_id", lambda: make_assistant(storage, **again))
        assert read(storage) == made
        assert storage.assistants.versions("a") == [made]
        assert storage.assistants.count(AssistantQuery(metadata={"n": 1})) == 0

    def test_an_assistants_id_that_is_taken_is_answered_unchanged(self, storage: Storage) -> None:
        make_assistant(storage)
        updated = update(storage, name="later")
        new = NewAssistant("a", "other", metadata={"n": 1})
        assert storage.assistants.create(new, if_exists="do_nothing") == updated
        assert read(storage) == updated
        made = storage.assistants.create(new._replace(assistant_id="b"), if_exists="do_nothing")
        assert (made.assistant_id, made.graph_id, made.version) == ("b", "other", 1)

    def test_of_several_who_create_one_assistant_one_makes_it(self, storage: Storage) -> None:
        outcomes = together(CALLERS, lambda number: make_assistant(storage, name=str(number)))
        made = [each for each in outcomes if isinstance(each, Assistant)]
        assert made == [read(storage)]
        assert [type(each) for each in outcomes if not isinstance(each, Assistant)] == [Conflict] * 19
        assert storage.assistants.versions("a") == made

    def test_all_who_create_one_id_or_do_nothing_get_the_same(self, storage: Storage) -> None:
        def create(number: int) -> Assistant:
            new = NewAssistant("a", "g", str(number), metadata={"n": number})
            return storage.assistants.create(new, if_exists="do_nothing")

        outcomes = together(CALLERS, create)
        made = read(storage)
        assert outcomes == [made] * CALLERS
        assert storage.assistants.versions("a") == [made]
        assert storage.assistants.count(AssistantQuery(metadata={"n": int(made.name)})) == 1

    def test_update_makes_the_next_version_and_activates_it(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        first = make_assistant(storage)
        clock.advance(seconds=1)
        second = update(storage, description="new")
        assert second == read(storage)
        assert (second.version, second.description) == (2, "new")
        assert (second.created_at, second.updated_at) == (first.created_at, clock())
        assert storage.assistants.version("a", 1) == first

    def test_what_a_change_does_not_mention_comes_from_the_active_version(self, storage: Storage) -> None:
        made = make_assistant(
            storage, name="n", description="d", config={"c": 1}, context={"x": 1}, metadata={"m": 1}
        )
        kept = ("graph_id", "name", "description", "config", "context", "metadata")
        changes: list[dict[str, Any]] = [
            {},
            {"graph_id": "other"},
            {"name": "other"},
            {"description": "other"},
            {"description": None},
            {"config": {"d": 2}},
            {"context": {}},
        ]
        for number, change in enumerate(changes, 2):
            after = update(storage, **change)
            assert after.version == number
            assert {field: getattr(after, field) for field in kept} == {
                **{field: getattr(made, field) for field in kept},
                **change,
            }
            storage.assistants.activate("a", 1)

    def test_metadata_is_merged_by_key_and_the_rest_replaced(self, storage: Storage) -> None:
        make_assistant(storage, metadata={"a": {"x": 1}, "b": 1}, config={"a": {"x": 1}, "b": 1})
        after = update(storage, metadata={"a": {"y": 2}, "c": None}, config={"a": {"y": 2}})
        assert after.metadata == {"a": {"y": 2}, "b": 1, "c": None}
        assert after.config == {"a": {"y": 2}}

    def test_a_version_number_is_one_more_than_any_before(self, storage: Storage) -> None:
        make_assistant(storage, name="one")
        update(storage, name="two")
        update(storage, name="three")
        storage.assistants.activate("a", 1)
        fourth = update(storage, metadata={"n": 4})
        assert (fourth.version, fourth.name) == (4, "one")
        assert [each.version for each in storage.assistants.versions("a")] == [4, 3, 2, 1]

    def test_updates_at_one_moment_make_as_many_versions(self, storage: Storage) -> None:
        make_assistant(storage)
        outcomes = together(CALLERS, lambda number: update(storage, metadata={str(number): number}))
        versions = [each.version for each in outcomes if isinstance(each, Assistant)]
        assert sorted(versions) == list(range(2, CALLERS + 2))
        # Each began with what the one before had made.
        assert read(storage).metadata == {str(number): number for number in range(CALLERS)}
        assert len(storage.assistants.versions("a", limit=100)) == CALLERS + 1

    def test_activate_makes_no_version(self, storage: Storage, clock: ManualClock) -> None:
        make_assistant(storage, name="one", config={"n": 1}, metadata={"n": 1})
        clock.advance(seconds=1)
        second = update(storage, name="two", graph_id="h", config={"n": 2}, metadata={"n": 2})
        clock.advance(seconds=1)
        active = storage.assistants.activate("a", 1)
        assert active == read(storage)
        assert (active.version, active.name, active.graph_id) == (1, "one", "g")
        assert (active.config, active.metadata) == ({"n": 1}, {"n": 1})
        assert (active.created_at, active.updated_at) == (second.created_at, second.updated_at)
        assert len(storage.assistants.versions("a")) == 2
        assert storage.assistants.activate("a", 2) == second
        assert storage.assistants.activate("a", 2) == second

    def test_an_assistant_or_version_that_does_not_exist_is_not_found(self, storage: Storage) -> None:
        check_refused(NotFound, "assistant_id", lambda: update(storage))
        check_refused(NotFound, "assistant_id", lambda: storage.assistants.activate("a", 1))
        make_assistant(storage)
        for version in (0, -1, 2, 2**31, 2**63, 10**30):
            check_refused(NotFound, "version", partial(storage.assistants.activate, "a", version))
            assert storage.assistants.version("a", version) is None
        assert storage.assistants.version("other", 1) is None

    def test_versions_come_newest_first_and_say_when_they_were_made(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        moments = [clock()]
        make_assistant(storage)
        make_assistant(storage, "b")
        for _ in range(3):
            clock.advance(seconds=1)
            moments.append(clock())
            update(storage)
        versions = storage.assistants.versions("a")
        assert [each.version for each in versions] == [4, 3, 2, 1]
        assert [(each.created_at, each.updated_at) for each in versions] == [
            (moment, moment) for moment in reversed(moments)
        ]
        assert storage.assistants.version("a", 3) == versions[1]
        assert storage.assistants.versions("other") == []

    def test_versions_are_paged(self, storage: Storage) -> None:
        make_assistant(storage)
        for _ in range(11):
            update(storage)

        def numbers(**options: Any) -> list[int]:
            return [each.version for each in storage.assistants.versions("a", **options)]

        assert numbers() == list(range(12, 2, -1))
        assert numbers(limit=0) == []
        assert numbers(limit=3) == [12, 11, 10]
        assert numbers(limit=3, offset=2) == [10, 9, 8]
        assert numbers(limit=100, offset=10) == [2, 1]
        assert numbers(offset=12) == []

    def test_versions_that_contain_metadata(self, storage: Storage) -> None:
        make_assistant(storage, metadata={"n": 0, "tags": ["x", {"y": 1, "z": 2}]})
        for number in range(1, 150):
            update(storage, metadata={"n": number % 3})

        def numbers(metadata: Any, **options: Any) -> list[int]:
            return [each.version for each in storage.assistants.versions("a", metadata=metadata, **options)]

        assert numbers({"n": 1}, limit=2) == [149, 146]
        assert numbers({"n": 1.0}, limit=2, offset=2) == [143, 140]
        assert numbers({"n": 1}, limit=100) == list(range(149, 0, -3))
        assert numbers({"n": 1}, limit=100, offset=49) == [2]
        assert numbers({"n": True}) == numbers({"m": 1}) == numbers({"tags": ["y"]}) == []
        assert numbers({"tags": [{"y": 1}]}, limit=1) == numbers({}, limit=1) == [150]

    def test_a_version_never_changes(self, storage: Storage, clock: ManualClock) -> None:
        make_assistant(storage)
        update(storage, name="two")
        clock.advance(seconds=1)
        before = storage.assistants.versions("a")
        storage.assistants.activate("a", 1)
        update(storage, name="three", metadata={"n": 1})
        assert storage.assistants.versions("a", offset=1) == before

    def test_delete_removes_an_assistant_with_its_versions(self, storage: Storage) -> None:
        make_assistant(storage, metadata={"n": 1})
        update(storage)
        kept = make_assistant(storage, "b", metadata={"n": 1})
        assert storage.assistants.delete("a")
        assert storage.assistants.get("a") is None
        assert storage.assistants.version("a", 1) is None
        assert storage.assistants.versions("a") == []
        assert storage.assistants.search(AssistantQuery(metadata={"n": 1})).rows == [kept]
        assert not storage.assistants.delete("a")
        assert make_assistant(storage).version == 1
        assert len(storage.assistants.versions("a")) == 1

    def test_delete_removes_its_crons_and_leaves_its_runs(self, storage: Storage) -> None:
        make_thread(storage, "t")
        for assistant in ("a", "b"):
            make_assistant(storage, assistant)
            make_run(storage, f"run of {assistant}", "t", assistant_id=assistant)
            for number in range(2):
                new = NewCron(f"{assistant}{number}", assistant, "* * * * *", {}, None, metadata={"n": 1})
                storage.crons.create(new)
        assert storage.assistants.delete("a")
        left = storage.crons.search(CronQuery(metadata={"n": 1})).rows
        assert sorted(each.cron_id for each in left) == ["b0", "b1"]
        assert storage.crons.get("a0") is None
        assert storage.crons.count(CronQuery()) == 2
        assert storage.runs.get("run of a") is not None

    def test_a_cron_that_is_made_while_its_assistant_goes_is_not_left_behind(self, storage: Storage) -> None:
        for number in range(10):
            make_assistant(storage, str(number))

        def act(number: int) -> object:
            assistant = str(number // 2)
            if number % 2:
                return storage.assistants.delete(assistant)
            return storage.crons.create(NewCron(assistant, assistant, "* * * * *", {}, None))

        together(CALLERS, act)
        assert storage.crons.count(CronQuery()) == 0

    def test_ids_and_texts_of_assistants_that_cannot_be_kept_are_refused(self, storage: Storage) -> None:
        assistants = storage.assistants
        new, change = NewAssistant("n", "g"), AssistantChange()

        def create(**fields: Any) -> Assistant:
            return assistants.create(new._replace(**fields), if_exists="do_nothing")

        check_id("assistant_id", lambda text: create(assistant_id=text))
        check_id("graph_id", lambda text: create(graph_id=text))
        check_text("name", lambda text: create(name=text))
        check_text("description", lambda text: create(description=text))
        check_id("graph_id", lambda text: assistants.update("n", change._replace(graph_id=text)))
        check_text("name", lambda text: assistants.update("n", change._replace(name=text)))
        check_text("description", lambda text: assistants.update("n", change._replace(description=text)))
        check_id("assistant_id", assistants.get)
        check_id("assistant_id", lambda text: assistants.version(text, 1))
        check_id("assistant_id", assistants.versions)
        check_id("assistant_id", lambda text: assistants.update(text, change))
        check_id("assistant_id", lambda text: assistants.activate(text, 1))
        check_id("assistant_id", assistants.delete)

    def test_a_name_may_be_as_long_as_any_text(self, storage: Storage) -> None:
        made = make_assistant(storage, name=LONG, description=LONG)
        assert (made.name, made.description) == (LONG, LONG)
        assert storage.assistants.search(AssistantQuery(name=LONG)).rows == [made]
        assert update(storage, name=LONG[::-1]).name == LONG[::-1]

    @pytest.mark.parametrize("field", ["config", "context", "metadata"])
    def test_documents_of_assistants_that_are_too_large_are_refused(
        self, storage: Storage, field: str
    ) -> None:
        most: dict[str, Any] = {field: metadata_of(METADATA_BYTES_MAX)}
        more: dict[str, Any] = {field: metadata_of(METADATA_BYTES_MAX + 1)}
        made = make_assistant(storage, **most)
        assert getattr(made, field) == most[field]
        check_refused(LimitExceeded, field, lambda: make_assistant(storage, "b", **more))
        check_refused(LimitExceeded, field, lambda: update(storage, **more))
        assert read(storage) == made
        assert storage.assistants.get("b") is None

    def test_metadata_of_assistants_that_grow_too_large_are_refused(self, storage: Storage) -> None:
        make_assistant(storage, metadata=metadata_of(METADATA_BYTES_MAX))
        check_refused(LimitExceeded, "metadata", lambda: update(storage, metadata={"y": 1}))
        assert read(storage).version == 1

    @pytest.mark.parametrize("field", ["config", "context", "metadata"])
    def test_documents_of_assistants_that_are_no_json_are_refused(self, storage: Storage, field: str) -> None:
        make_assistant(storage)
        wrong: list[tuple[dict[Any, Any], str]] = [
            ({"x": object()}, f"{field}.x"),
            ({"x": "a\0b"}, f"{field}.x"),
            ({"x": float("nan")}, f"{field}.x"),
            ({1: 2}, field),
        ]
        for value, place in wrong:
            given: dict[str, Any] = {field: value}
            check_refused(InvalidInput, place, partial(make_assistant, storage, "b", **given))
            check_refused(InvalidInput, place, partial(update, storage, **given))
        assert storage.assistants.count(AssistantQuery()) == 1
        assert read(storage).version == 1

    def test_an_assistants_if_exists_is_one_of_two(self, storage: Storage) -> None:
        wrong: Any = "replace"
        new = NewAssistant("a", "g")
        check_refused(InvalidInput, "if_exists", lambda: storage.assistants.create(new, if_exists=wrong))

    @pytest.mark.parametrize("field", ["limit", "offset"])
    @pytest.mark.parametrize("wrong", [-1, "1", None, True])
    def test_pages_of_versions_that_are_none_are_refused(
        self, storage: Storage, field: str, wrong: Any
    ) -> None:
        check_refused(InvalidInput, field, lambda: storage.assistants.versions("a", **{field: wrong}))
