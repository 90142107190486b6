"""What tasks wrote, and nobody has applied yet."""

from __future__ import annotations

from functools import partial

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, SCHEDULED

from stateroom.errors import InvalidInput
from stateroom.savers.base import Saver
from stateroom.testing.savers_harness import SaverHarness, config, listed, put, stored, write
from stateroom.testing.storage_harness import check_refused

__all__ = ["WritesSuite"]


class WritesSuite(SaverHarness):
    """``put_writes``: which count, in which order."""

    def test_writes_come_with_their_checkpoint_and_no_other(self, saver: Saver) -> None:
        put(saver, 1)
        write(saver, 1, ("a", {"n": [1]}), ("a", None), ("b", b"raw"))
        put(saver, 2, parent=1)
        put(saver, 1, ns="inner")
        assert stored(saver, 1).pending_writes == [
            ("task", "a", {"n": [1]}),
            ("task", "a", None),
            ("task", "b", b"raw"),
        ]
        assert stored(saver, 2).pending_writes == []
        assert stored(saver, ns="inner").pending_writes == []

    def test_they_may_come_before_their_checkpoint(self, saver: Saver) -> None:
        write(saver, 1, ("a", 1))
        assert saver.get_tuple(config()) is None
        put(saver, 1)
        assert stored(saver).pending_writes == [("task", "a", 1)]

    def test_they_are_ordered_by_path_then_task_then_number(self, saver: Saver) -> None:
        put(saver, 1)
        # Ten and more writes of a task: their numbers are no texts.
        write(saver, 1, *(("c", number) for number in range(12)), task_id="t1", path="~pull, b")
        write(saver, 1, ("c", "second"), task_id="t0", path="~pull, b")
        write(saver, 1, ("c", "first"), task_id="t9", path="~pull, a")
        write(saver, 1, ("c", "none"), task_id="t5")
        found = [value for _, _, value in stored(saver).pending_writes or []]
        assert found == ["none", "first", "second", *range(12)]

    def test_the_first_save_of_a_write_counts(self, saver: Saver) -> None:
        put(saver, 1)
        write(saver, 1, ("a", "first"), ("b", "second"))
        write(saver, 1, ("a", "other"), ("b", "other"), ("c", "third"))
        assert stored(saver).pending_writes == [
            ("task", "a", "first"),
            ("task", "b", "second"),
            ("task", "c", "third"),
        ]

    def test_errors_interrupts_and_answers_replace_what_the_task_had(self, saver: Saver) -> None:
        put(saver, 1)
        write(saver, 1, ("a", 1))
        for channel in (ERROR, SCHEDULED, INTERRUPT, RESUME):
            write(saver, 1, (channel, "old"))
            write(saver, 1, (channel, "new"))
        special = sorted((number, channel) for channel, number in WRITES_IDX_MAP.items() if number < 0)
        found = [(channel, value) for _, channel, value in stored(saver).pending_writes or []]
        known = {ERROR, SCHEDULED, INTERRUPT, RESUME}
        assert found == [*((channel, "new") for _, channel in special if channel in known), ("a", 1)]

    def test_they_belong_to_a_checkpoint(self, saver: Saver) -> None:
        call = partial(saver.put_writes, config(), [("a", 1)], "task")
        check_refused(InvalidInput, "configurable.checkpoint_id", call)
        assert listed(saver) == []

    def test_no_writes_are_none(self, saver: Saver) -> None:
        put(saver, 1)
        write(saver, 1)
        assert stored(saver).pending_writes == []
