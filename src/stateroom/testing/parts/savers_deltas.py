"""What is told of channels whose value is made up from several checkpoints, and that it is never cut off."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.savers.base import Saver
from stateroom.testing.savers_graphs import SNAPSHOT_EVERY, delta_chat, graph_config
from stateroom.testing.savers_harness import SaverHarness, config, count, listed, put, stored, write

__all__ = ["DeltasSuite"]

DEPTH = 150
"""More ancestors than a saver reads at once."""


def history(saver: Saver, number: int | None, *channels: str, ns: str = "") -> dict[str, Any]:
    """Return what made up channels, with the values of their writes alone."""
    found = saver.get_delta_channel_history(config=config(ns=ns, number=number), channels=channels)
    return {
        channel: (entry.get("seed"), [value for *_, value in entry["writes"]])
        for channel, entry in found.items()
    }


def step(saver: Saver, number: int, *, parent: int | None = None, seed: Any = None, **metadata: Any) -> None:
    """Put a checkpoint with a write of its own number to the channel ``d``, and perhaps a value of it."""
    put(saver, number, parent=parent, values=None if seed is None else {"d": seed}, metadata=metadata)
    write(saver, number, ("d", number), ("other", "x"))


class DeltasSuite(SaverHarness):
    """``get_delta_channel_history``, and what removals leave of it."""

    def test_it_begins_with_the_nearest_value_and_has_all_writes_since(self, saver: Saver) -> None:
        step(saver, 1, seed=["far"])
        step(saver, 2, parent=1, seed=["near"])
        step(saver, 3, parent=2)
        step(saver, 4, parent=3)
        assert history(saver, 4, "d") == {"d": (["near"], [2, 3])}
        assert history(saver, None, "d") == {"d": (["near"], [2, 3])}
        assert history(saver, 3, "d") == {"d": (["near"], [2])}
        assert history(saver, 2, "d") == {"d": (["far"], [1])}

    def test_without_a_value_it_goes_back_to_the_first(self, saver: Saver) -> None:
        for number in range(1, DEPTH + 1):
            step(saver, number, parent=number - 1 or None)
        assert history(saver, DEPTH, "d") == {"d": (None, list(range(1, DEPTH)))}

    def test_each_channel_has_its_own_beginning(self, saver: Saver) -> None:
        put(saver, 1, values={"a": [1]})
        put(saver, 2, parent=1, values={"b": [2]})
        put(saver, 3, parent=2)
        for number in (1, 2, 3):
            write(saver, number, ("a", number), ("b", number), ("c", number))
        put(saver, 4, parent=3)
        assert history(saver, 4, "a", "b", "c") == {
            "a": ([1], [1, 2, 3]),
            "b": ([2], [2, 3]),
            "c": (None, [1, 2, 3]),
        }
        assert history(saver, 4) == {}

    def test_only_ancestors_count(self, saver: Saver) -> None:
        step(saver, 1, seed=["root"])
        step(saver, 2, parent=1)
        step(saver, 3, parent=1)
        step(saver, 4, parent=2)
        step(saver, 5, parent=3)
        assert history(saver, 4, "d") == {"d": (["root"], [1, 2])}
        assert history(saver, 5, "d") == {"d": (["root"], [1, 3])}

    def test_an_ancestor_of_a_higher_id_counts(self, saver: Saver) -> None:
        step(saver, 9, seed=["root"])
        step(saver, 3, parent=9)
        put(saver, 5, parent=3)
        assert history(saver, 5, "d") == {"d": (["root"], [9, 3])}

    def test_writes_of_one_step_are_ordered_as_they_were_applied(self, saver: Saver) -> None:
        put(saver, 1, values={"d": []})
        write(saver, 1, ("d", "c"), task_id="t1", path="~pull, b")
        write(saver, 1, ("d", "b"), ("d", "b2"), task_id="t2", path="~pull, a")
        write(saver, 1, ("d", "a"), task_id="t9")
        put(saver, 2, parent=1)
        assert history(saver, 2, "d") == {"d": ([], ["a", "b", "b2", "c"])}

    def test_what_is_not_there_has_no_history(self, saver: Saver) -> None:
        assert history(saver, None, "d") == {"d": (None, [])}
        assert history(saver, 7, "d") == {"d": (None, [])}
        assert history(saver, 7, "d", ns="inner") == {"d": (None, [])}

    def test_a_checkpoint_that_is_its_own_ancestor_is_met_once(self, saver: Saver) -> None:
        step(saver, 1, parent=2)
        step(saver, 2, parent=1)
        step(saver, 3, parent=2)
        # Where a parent stays what it was when it is put again, there is no loop.
        assert history(saver, 3, "d")["d"][1] in ([1, 2], [2])

    def test_pruned_it_is_whole_and_no_longer_than_it_must_be(self, saver: Saver) -> None:
        graph = delta_chat(saver)
        for turn in range(10):
            graph.invoke({"log": [f"turn {turn}"]}, graph_config())
            before = graph.get_state(graph_config())
            most = min(count(saver), SNAPSHOT_EVERY + 4)
            saver.prune(["t"])
            after = graph.get_state(graph_config())
            assert after.values == before.values
            assert after.config == before.config
            assert count(saver) <= most
        found = graph.invoke({"log": ["last"]}, graph_config())
        assert len(found["log"]) == 3 * 11

    def test_a_fork_is_whole_after_pruning(self, saver: Saver) -> None:
        graph = delta_chat(saver)
        for turn in range(4):
            graph.invoke({"log": [f"turn {turn}"]}, graph_config())
        early = list(graph.get_state_history(graph_config()))[-4]
        forked = graph.update_state(early.config, {"log": ["forked"]}, as_node="one")
        expected = graph.get_state(forked).values
        assert expected["log"][:-1] == early.values["log"]
        saver.prune(["t"])
        assert graph.get_state(graph_config()).values == expected

    @pytest.mark.parametrize("turns", range(1, 7))
    def test_a_copy_is_whole(self, saver: Saver, turns: int) -> None:
        graph = delta_chat(saver)
        for turn in range(turns):
            graph.invoke({"log": [f"turn {turn}"]}, graph_config())
        saver.copy_thread("t", "u")
        saver.delete_thread("t")
        found = graph.invoke({"log": ["last"]}, graph_config("u"))
        assert len(found["log"]) == 3 * (turns + 1)

    def test_what_a_later_run_is_made_up_from_stays_when_a_run_is_deleted(self, saver: Saver) -> None:
        graph = delta_chat(saver)
        for turn in range(6):
            at = graph_config()
            at["metadata"] = {"run_id": f"r{turn}"}
            graph.invoke({"log": [f"turn {turn}"]}, at)
        expected = graph.get_state(graph_config()).values
        saver.delete_for_runs(["r0", "r1", "r2", "r3", "r4"])
        assert graph.get_state(graph_config()).values == expected
        assert count(saver) < 4 * 3
        saver.delete_for_runs(["r5"])
        assert stored_runs(saver) <= {"r0", "r1", "r2", "r3", "r4"}

    def test_a_channel_that_was_a_plain_list_before_is_whole(self, saver: Saver) -> None:
        put(saver, 1, values={"d": ["plain"]})
        write(saver, 1, ("d", ["w1"]))
        put(saver, 2, parent=1, metadata={"counters_since_delta_snapshot": {"d": [1, 1]}})
        write(saver, 2, ("d", ["w2"]))
        put(saver, 3, parent=2, metadata={"counters_since_delta_snapshot": {"d": [2, 2]}})
        saver.prune(["t"])
        assert listed(saver) == [3, 2, 1]
        assert history(saver, 3, "d") == {"d": (["plain"], [["w1"], ["w2"]])}
        put(saver, 4, parent=3, values={"d": ["all"]})
        saver.prune(["t"])
        assert listed(saver) == [4]
        assert stored(saver).checkpoint["channel_values"] == {"d": ["all"]}


def stored_runs(saver: Saver) -> set[str]:
    """Return the runs whose checkpoints are there."""
    return {found.metadata["run_id"] for found in saver.list(config())}
