"""Real graphs on a saver: interrupts, subgraphs, time travel, also after pruning and copying."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from stateroom.savers.base import Saver
from stateroom.testing.savers_graphs import (
    Graph,
    asking,
    chat,
    confiding,
    graph_config,
    nested,
    remembering,
    resume,
    sending,
)
from stateroom.testing.savers_harness import SaverHarness
from stateroom.testing.storage_harness import together

__all__ = ["GraphsSuite"]

ASKED = (
    [asking, ["hi", "said yes", "beside", "end"]],
    [nested, ["hi", "before", "hi", "before", "said yes", "beside", "end"]],
)

THREADS = 8

HIDDEN = "SECRET"


class GraphsSuite(SaverHarness):
    """What LangGraph does with a checkpointer."""

    def test_a_conversation_goes_on(self, saver: Saver) -> None:
        for turn in range(3):
            found = chat(saver).invoke({"log": [turn]}, graph_config())
        assert found["log"] == [0, "answer 1", 1, "answer 3", 2, "answer 5"]

    @pytest.mark.parametrize(("build", "expected"), ASKED, ids=["root", "subgraph"])
    def test_a_run_that_asks_is_resumed(
        self, saver: Saver, build: Callable[[Saver], Graph], expected: list[str]
    ) -> None:
        asked = build(saver).invoke({"log": ["hi"]}, graph_config())
        assert [each.value for each in asked["__interrupt__"]] == ["which?"]
        graph = build(saver)
        assert [each.value for task in graph.get_state(graph_config()).tasks for each in task.interrupts] == [
            "which?"
        ]
        assert graph.invoke(resume("yes"), graph_config())["log"] == expected

    @pytest.mark.parametrize(("build", "expected"), ASKED, ids=["root", "subgraph"])
    def test_pruned_or_copied_it_still_can_be(
        self, saver: Saver, build: Callable[[Saver], Graph], expected: list[str]
    ) -> None:
        graph = build(saver)
        graph.invoke({"log": ["hi"]}, graph_config())
        saver.copy_thread("t", "u")
        saver.prune(["t"])
        saver.copy_thread("t", "v")
        for thread_id in ("t", "u", "v"):
            state = graph.get_state(graph_config(thread_id), subgraphs=True)
            assert len(state.tasks) == (2 if build is asking else 1)
            assert graph.invoke(resume("yes"), graph_config(thread_id))["log"] == expected

    def test_time_travel_makes_a_branch(self, saver: Saver) -> None:
        graph = chat(saver)
        for turn in range(3):
            graph.invoke({"log": [turn]}, graph_config())
        ended = [state for state in graph.get_state_history(graph_config()) if not state.next]
        past = ended[-1]
        assert past.values["log"] == [0, "answer 1"]
        branch = graph.invoke({"log": ["again"]}, past.config)
        assert branch["log"] == [0, "answer 1", "again", "answer 3"]
        assert graph.get_state(graph_config()).values == branch
        changed = graph.update_state(past.config, {"log": ["changed"]})
        assert graph.get_state(changed).values["log"] == [0, "answer 1", "changed"]

    def test_a_pruned_thread_goes_on(self, saver: Saver) -> None:
        for build in (chat, remembering, sending):
            graph, at = build(saver), graph_config(build.__name__)
            graph.invoke({"log": [1]}, at)
            before = graph.get_state(at)
            saver.prune([build.__name__])
            after = graph.get_state(at)
            assert (after.values, after.next, after.config) == (before.values, before.next, before.config)
            assert len(list(graph.get_state_history(at))) == 1
            assert len(graph.invoke({"log": [2]}, at)["log"]) > len(before.values["log"])

    def test_sent_tasks_that_were_done_are_not_done_again(self, saver: Saver) -> None:
        assert sorted(sending(saver).invoke({"log": ["a", "b"]}, graph_config())["log"]) == [
            "a",
            "b",
            "did a",
            "did b",
        ]

    def test_async_graphs_run_in_any_loop(self, saver: Saver) -> None:
        async def turn(number: int) -> list[object]:
            graph = chat(saver)
            found = await graph.ainvoke({"log": [number]}, graph_config())
            # Sync calls work there too.
            assert graph.get_state(graph_config()).values == found
            history = [state.values async for state in graph.aget_state_history(graph_config())]
            assert history[0] == found
            return list(found["log"])

        for number in range(3):
            found = asyncio.run(turn(number))
        assert found == [0, "answer 1", 1, "answer 3", 2, "answer 5"]

    def test_many_threads_at_once_do_not_mix(self, saver: Saver) -> None:
        graph = chat(saver)

        def talk(number: int) -> list[object]:
            for _ in range(4):
                found = graph.invoke({"log": [number]}, graph_config(str(number)))
            return list(found["log"])

        for number, log in enumerate(together(THREADS, talk)):
            assert log == [entry for turn in range(4) for entry in (number, f"answer {2 * turn + 1}")]

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_each_durability_keeps_the_state(self, saver: Saver, durability: str) -> None:
        for build in (asking, nested):
            at = graph_config(build.__name__)
            graph = build(saver)
            graph.invoke({"log": ["hi"]}, at, durability=durability)  # type: ignore[call-overload]
            saver.prune([build.__name__])
            found = graph.invoke(resume("yes"), at, durability=durability)  # type: ignore[call-overload]
            assert "said yes" in found["log"]
            saver.prune([build.__name__])
            assert graph.get_state(at).values == found

    def test_what_is_private_of_a_run_is_nowhere_in_its_checkpoints(self, saver: Saver) -> None:
        graph = confiding(saver)
        at = graph_config()
        at["configurable"] |= {
            "langgraph_auth_user": {"token": HIDDEN},
            "langgraph_auth_user_id": HIDDEN,
            "jwt": HIDDEN,
            "__private": HIDDEN,
        }
        asked = graph.invoke({"log": ["hi"]}, at, context={"jwt": HIDDEN})
        assert asked["__interrupt__"]
        # The context is new with each run.
        graph.invoke(resume("yes"), at, context={"jwt": "new"})
        assert graph.get_state(at).values["log"] == ["hi", "knows", "said yes", "knows another"]
        everything = list(saver.list(None))
        assert len(everything) == 5
        assert HIDDEN not in str(everything)
