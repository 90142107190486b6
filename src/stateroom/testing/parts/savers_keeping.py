"""What a saver keeps that keeps a number of checkpoints of each namespace."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from langchain_core.runnables import RunnableConfig

from stateroom.savers.base import Saver
from stateroom.testing.parts.savers_removing import call, fill
from stateroom.testing.savers_graphs import (
    asking,
    chat,
    delta_chat,
    graph_config,
    nested,
    remembering,
    resume,
)
from stateroom.testing.savers_harness import (
    OpensSaver,
    SaverHarness,
    config,
    count,
    listed,
    put,
    stored,
    write,
)

__all__ = ["KeepingSuite"]

TURNS = 12

SIZE = 1000
"""Letters of one answer."""


class KeepingSuite(SaverHarness):
    """``keep_last``: what goes with a put, and that what stays is whole."""

    @pytest.mark.parametrize("most", [1, 2, 3])
    def test_each_namespace_keeps_its_newest(self, new_saver: OpensSaver, most: int) -> None:
        with new_saver(keep_last=most) as saver:
            for ns in ("", "inner", "call:1"):
                fill(saver, ns=ns, count=5)
                assert listed(saver, ns=ns) == [5, 4, 3, 2, 1][:most]
            fill(saver, "u", count=1)
            found = saver.storage("t")
            assert (found.checkpoints, found.writes) == (3 * most, 3 * most)
            assert stored(saver).checkpoint["channel_values"] == {"a": [5]}
            assert [value for *_, value in stored(saver).pending_writes or []] == [[5]]
            assert listed(saver, thread_id="u") == [1]

    def test_without_it_all_stay(self, saver: Saver) -> None:
        fill(saver, count=5)
        assert listed(saver) == [5, 4, 3, 2, 1]

    def test_what_was_there_before_goes_little_by_little(self, new_saver: OpensSaver) -> None:
        with new_saver() as saver:
            fill(saver, count=350)
            saver._keep_last = 2
            left = 350
            for number in range(351, 355):
                put(saver, number, parent=number - 1)
                now = len(listed(saver))
                assert now >= left - 150
                left = now
            assert left == 2

    def test_calls_go_with_the_checkpoint_in_which_they_were_made(self, new_saver: OpensSaver) -> None:
        with new_saver(keep_last=2) as saver:
            for number in range(1, 6):
                put(saver, number, parent=number - 1 or None)
                call(saver, f"call:{number}", number)
            assert [listed(saver, ns=f"call:{number}") for number in range(1, 6)] == [
                [],
                [],
                [],
                [2, 1],
                [2, 1],
            ]

    def test_writes_that_came_too_late_go_with_the_next(self, new_saver: OpensSaver) -> None:
        with new_saver(keep_last=1) as saver:
            fill(saver, count=3)
            write(saver, 2, ("a", "late"))
            put(saver, 4, parent=3)
            assert saver.storage("t").writes == 0

    @pytest.mark.parametrize("most", [1, 3])
    def test_a_long_list_grows_with_what_is_added(self, new_saver: OpensSaver, most: int) -> None:
        sizes = []
        with new_saver(keep_last=most) as saver:
            graph = chat(saver, lambda state: f"{len(state['log']):0{SIZE}}")
            for turn in range(TURNS):
                found = graph.invoke({"log": [turn]}, graph_config())
                sizes.append(saver.storage("t").total)
            assert graph.get_state(graph_config()).values == found
            assert len(found["log"]) == 2 * TURNS
        added = {after - before for before, after in pairwise(sizes[4:])}
        # The checkpoints that are kept all have the list, and one beside it may have the newest answer.
        assert max(added) < (most + 1) * SIZE * 1.1

    @pytest.mark.parametrize("most", [1, 2, 5])
    def test_a_delta_channel_stays_whole(self, new_saver: OpensSaver, most: int) -> None:
        with new_saver(keep_last=most) as saver, new_saver() as plain:
            kept, all_kept = delta_chat(saver), delta_chat(plain)
            highest = 0
            for turn in range(TURNS):
                asked = {"log": [f"turn {turn}"]}
                expected = all_kept.invoke(asked, graph_config("plain"))
                assert kept.invoke(asked, graph_config()) == expected
                assert kept.get_state(graph_config()).values == expected
                for at in newest(saver, most):
                    assert len(kept.get_state(at).values["log"]) >= len(expected["log"]) - 2 * most
                highest = max(highest, saver.storage("t").checkpoints)
            assert highest < most + 12

    def test_a_run_that_asks_goes_on_from_the_one_that_is_kept(self, new_saver: OpensSaver) -> None:
        for build in (asking, nested):
            with new_saver(keep_last=1) as saver:
                graph = build(saver)
                for turn in range(3):
                    at = graph_config(build.__name__)
                    graph.invoke({"log": [turn]}, at)
                    found = graph.invoke(resume(turn), at)
                    assert f"said {turn}" in found["log"]
                    assert graph.get_state(at).next == ()
                assert len([*saver.list({"configurable": {"thread_id": build.__name__}})]) == 1

    def test_a_subgraph_that_remembers_goes_on(self, new_saver: OpensSaver) -> None:
        with new_saver(keep_last=1) as saver:
            graph = remembering(saver)
            for turn in range(1, 4):
                found = graph.invoke({"log": []}, graph_config())
                assert found["log"][-1] == [entry for each in range(turn) for entry in ("call", 2 * each + 1)]
            assert count(saver, ns="call") == 1


def newest(saver: Saver, most: int) -> Iterator[RunnableConfig]:
    """Yield the configs of the root namespace's newest checkpoints."""
    return (found.config for found in saver.list(config(), limit=most))
