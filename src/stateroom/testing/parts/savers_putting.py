"""What comes back of a checkpoint that was put, and what may be put."""

from __future__ import annotations

import asyncio
import json
import math
from functools import partial
from typing import Any

import pytest

from stateroom.errors import InvalidInput, InvalidValue, Misconfigured
from stateroom.savers.base import Saver
from stateroom.testing.savers_harness import (
    OpensSaver,
    SaverHarness,
    checkpoint,
    config,
    listed,
    name,
    put,
    stored,
)
from stateroom.testing.storage_harness import check_refused

__all__ = ["PuttingSuite"]

ODD_TEXTS = ("x\0y", "a\\u0000b", "\\", '"', "\u2028", "\U0001f600", "", " ", "null")
"""Texts that some database or encoding has spoilt."""


class PuttingSuite(SaverHarness):
    """``put`` and ``get_tuple``: what is kept, under which config, and what is refused."""

    def test_a_checkpoint_comes_back_as_it_was_put(self, saver: Saver) -> None:
        values = {"text": "a", "number": 1, "list": [1, {"a": None}], "none": None, "raw": b"\0\xff"}
        made = checkpoint(1, values, updated_channels=["text"])
        assert put(saver, 1, values=values, updated_channels=["text"]) == config(number=1)
        found = stored(saver)
        assert found.checkpoint == made
        assert found.config == config(number=1)
        assert found.parent_config is None
        assert found.pending_writes == []
        assert dict(found.metadata) == {"source": "loop", "step": 1, "parents": {}}

    def test_the_latest_is_that_of_the_highest_id(self, saver: Saver) -> None:
        for number in (2, 3, 1):
            put(saver, number)
        assert stored(saver).config == config(number=3)
        assert stored(saver, 2).config == config(number=2)
        assert saver.get_tuple(config(number=4)) is None
        assert saver.get_tuple(config("other")) is None

    def test_a_checkpoint_is_the_child_of_the_one_that_its_config_names(self, saver: Saver) -> None:
        put(saver, 1)
        put(saver, 2, parent=1)
        assert stored(saver, 2).parent_config == config(number=1)
        assert stored(saver, 1).parent_config is None

    def test_a_parent_that_is_not_there_is_none(self, saver: Saver) -> None:
        put(saver, 2, parent=1)
        assert stored(saver, 2).parent_config is None

    def test_namespaces_and_threads_are_apart(self, saver: Saver) -> None:
        places = [("t", ""), ("t", "inner"), ("t", "inner:1"), ("t", "inner:1|deep:2"), ("u", ""), ("T", "")]
        for number, (thread_id, ns) in enumerate(places):
            put(saver, number, thread_id=thread_id, ns=ns, values={"at": number})
        for number, (thread_id, ns) in enumerate(places):
            assert stored(saver, thread_id=thread_id, ns=ns).checkpoint["channel_values"] == {"at": number}

    def test_without_a_namespace_the_root_is_meant(self, saver: Saver) -> None:
        made = checkpoint(1)
        saver.put({"configurable": {"thread_id": "t"}}, made, {}, {})
        found = saver.get_tuple({"configurable": {"thread_id": "t"}})
        assert found is not None
        assert found.config == config(number=1)

    def test_a_thread_may_be_named_by_a_number(self, saver: Saver) -> None:
        saver.put({"configurable": {"thread_id": 7}}, checkpoint(1), {}, {})
        assert listed(saver, thread_id="7") == [1]
        assert saver.get_tuple({"configurable": {"thread_id": 7}}) is not None

    def test_put_again_the_checkpoint_and_its_metadata_are_replaced(self, saver: Saver) -> None:
        put(saver, 1, values={"a": 1})
        put(saver, 1, values={"b": 2}, metadata={"step": 9})
        assert stored(saver).checkpoint["channel_values"] == {"b": 2}
        assert stored(saver).metadata["step"] == 9
        assert listed(saver) == [1]

    def test_a_channel_that_was_not_written_keeps_its_value(self, saver: Saver) -> None:
        put(saver, 1, values={"a": [1], "b": [2]})
        later = checkpoint(2, {"a": [1], "b": [3]})
        later["channel_versions"]["a"] = f"{1:032}.5"
        saver.put(config(number=1), later, {}, {"b": later["channel_versions"]["b"]})
        assert stored(saver).checkpoint["channel_values"] == {"a": [1], "b": [3]}

    def test_a_channel_without_a_version_has_no_value(self, saver: Saver) -> None:
        put(saver, 1, values={"a": [1], "b": [2]})
        put(saver, 2, parent=1, values={"a": [1]})
        assert stored(saver).checkpoint["channel_values"] == {"a": [1]}

    @pytest.mark.parametrize("text", ODD_TEXTS)
    def test_odd_texts_come_back_exactly(self, saver: Saver, text: str) -> None:
        values = {"plain": text, "inside": [{text: text}]}
        put(saver, 1, values=values)
        saver.put_writes(config(number=1), [("plain", text), ("inside", [text])], "task")
        assert stored(saver).checkpoint["channel_values"] == values
        assert [value for *_, value in stored(saver).pending_writes or []] == [text, [text]]

    def test_numbers_that_are_not_finite_come_back(self, saver: Saver) -> None:
        put(saver, 1, values={"score": math.nan, "most": math.inf, "nested": {"least": -math.inf}})
        found = stored(saver).checkpoint["channel_values"]
        assert math.isnan(found["score"])
        assert found["most"] == math.inf
        assert found["nested"] == {"least": -math.inf}

    def test_metadata_are_strict_json_whatever_they_hold(self, saver: Saver) -> None:
        put(
            saver,
            1,
            metadata={"score": math.nan, "note": "x\0y\ud800z", "deep": [{"k\0": math.inf}], "pair": (1, 2)},
        )
        found = dict(stored(saver).metadata)
        assert found["score"] is None
        assert found["note"] == "xyz"
        assert found["deep"] == [{"k": None}]
        assert found["pair"] == [1, 2]
        json.dumps(found, allow_nan=False)

    def test_what_old_releases_wrote_into_metadata_is_left_out_if_it_is_no_json(self, saver: Saver) -> None:
        put(saver, 1, metadata={"writes": {"node": object()}})
        assert "writes" not in stored(saver).metadata
        put(saver, 2, metadata={"writes": {"node": {"a": 1}}})
        assert dict(stored(saver).metadata)["writes"] == {"node": {"a": 1}}

    def test_other_metadata_that_are_no_json_are_refused(self, saver: Saver) -> None:
        check_refused(
            InvalidValue,
            "metadata.own.deep[1]",
            lambda: put(saver, 1, metadata={"own": {"deep": [1, object()]}}),
        )
        assert listed(saver) == []

    def test_what_is_plain_and_public_of_a_config_goes_into_the_metadata(self, saver: Saver) -> None:
        configurable: dict[str, Any] = {
            "user_id": "u1",
            "max_tokens": 5,
            "sure": True,
            "options": {"deep": "SECRET"},
            "__private": "SECRET",
            "_private": "SECRET",
            "jwt": "SECRET",
            "auth_token": "SECRET",
            "authToken": "SECRET",
            "openai_api_key": "SECRET",
            "openaiApiKey": "SECRET",
            "langgraph_auth_user_id": "SECRET",
            "db.password": "SECRET",
            "Authorization": "SECRET",
        }
        asked = config(**configurable)
        asked["metadata"] = {**configurable, "run_id": "r1"}
        saver.put(asked, checkpoint(1), {"source": "input", "step": -1}, {})
        found = dict(stored(saver).metadata)
        public = {"user_id": "u1", "max_tokens": 5, "sure": True, "run_id": "r1"}
        assert found == {"source": "input", "step": -1, **public}

    def test_a_config_that_names_no_thread_is_refused(self, saver: Saver) -> None:
        calls: list[Any] = [
            lambda config: saver.put(config, checkpoint(1), {}, {}),
            lambda config: saver.put_writes(config, [], "task"),
            saver.get_tuple,
            saver.list,
        ]
        empty: list[Any] = [{}, {"configurable": {}}, {"configurable": {"thread_id": None}}]
        for call in calls:
            for wrong in (*empty, config(thread_id="a\0b")):
                check_refused(InvalidInput, "configurable.thread_id", partial(call, wrong))
            check_refused(InvalidInput, "configurable.checkpoint_ns", partial(call, config(ns="a\ud800")))

    @pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "1"])
    def test_a_number_of_checkpoints_to_keep_is_one_or_more(self, new_saver: OpensSaver, wrong: Any) -> None:
        check_refused(Misconfigured, "keep_last", lambda: new_saver(keep_last=wrong))

    def test_versions_go_up_from_whatever_an_old_release_wrote(self, saver: Saver) -> None:
        first = saver.get_next_version(None, None)
        assert first.startswith(f"{1:032}.")
        for old, count in ((first, 2), (f"{41:032}.0.123", 42), (f"{41:032}.", 42), ("7", 8)):
            assert saver.get_next_version(old, None).startswith(f"{count:032}.")
        for number in (7, 7.5):
            # All versions of a checkpoint must be of one kind, since LangGraph compares them.
            assert 8 < saver.get_next_version(number, None) < 9  # type: ignore[arg-type,operator]
        assert saver.get_next_version(first, None) != saver.get_next_version(first, None)
        assert saver.get_next_version(first, None) > first

    def test_versions_that_are_numbers_come_back_as_numbers(self, saver: Saver) -> None:
        versions = {"a": 1, "b": 2.625}
        made = checkpoint(1, {"a": [1], "b": [2]}, channel_versions=versions, versions_seen={"n": {"a": 1}})
        saver.put(config(), made, {}, versions)  # type: ignore[arg-type]
        assert stored(saver).checkpoint == made

    def test_sync_and_async_calls_do_the_same(self, saver: Saver) -> None:
        async def work() -> None:
            at = await saver.aput(config(), checkpoint(1, {"a": 1}), {"step": 1}, {"a": f"{1:032}.5"})
            await saver.aput_writes(at, [("a", 2)], "task")
            found = await saver.aget_tuple(config())
            assert found == stored(saver)
            assert [each async for each in saver.alist(config())] == list(saver.list(config()))
            assert await saver.astorage("t") == saver.storage("t")
            asked: dict[str, Any] = {"config": config(), "channels": ["a"]}
            assert await saver.aget_delta_channel_history(**asked) == saver.get_delta_channel_history(**asked)
            await saver.acopy_thread("t", "u")
            assert listed(saver, thread_id="u") == [1]
            await saver.aprune(["u"], strategy="delete")
            assert listed(saver, thread_id="u") == []
            await saver.adelete_for_runs(["none"])
            await saver.adelete_thread("t")
            assert listed(saver) == []

        asyncio.run(work())

    def test_a_sync_call_inside_a_running_loop_works_in_any_loop(self, saver: Saver) -> None:
        async def work(number: int) -> None:
            put(saver, number)
            saver.put_writes(config(number=number), [("a", 1)], "task")
            assert stored(saver, number).config == config(number=number)
            assert number in listed(saver)

        for number in range(3):
            asyncio.run(work(number))
        saver.delete_thread("t")
        assert listed(saver) == []

    def test_setting_up_and_closing_again_changes_nothing(self, saver: Saver) -> None:
        put(saver, 1)
        saver.setup()
        assert stored(saver).config["configurable"]["checkpoint_id"] == name(1)
        saver.close()
        saver.close()
