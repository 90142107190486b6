"""What deleting, pruning and copying leave, and what they take along."""

from __future__ import annotations

from functools import partial
from typing import Any

from langgraph.checkpoint.serde.types import TASKS

from stateroom.errors import Conflict, InvalidInput
from stateroom.savers.base import Saver
from stateroom.testing.savers_harness import SaverHarness, config, listed, put, stored, write
from stateroom.testing.storage_harness import check_refused

__all__ = ["RemovingSuite"]

MANY = 700
"""More rows than one transaction removes."""

NOTHING = (0, 0, 0)


def rows(saver: Saver, thread_id: str = "t") -> tuple[int, int, int]:
    """Return how many checkpoints, pending writes and bytes a thread has."""
    found = saver.storage(thread_id)
    return found.checkpoints, found.writes, found.total


def fill(saver: Saver, thread_id: str = "t", *, ns: str = "", count: int = 4, **metadata: Any) -> None:
    """Put a line of checkpoints, each with a value of its own and a write."""
    for number in range(1, count + 1):
        put(
            saver,
            number,
            thread_id=thread_id,
            ns=ns,
            parent=number - 1 or None,
            values={"a": [number]},
            metadata=metadata,
        )
        write(saver, number, ("a", [number]), thread_id=thread_id, ns=ns)


def call(saver: Saver, ns: str, root: int, *, count: int = 2) -> None:
    """Put what a subgraph leaves that was called in a checkpoint of the root graph."""
    fill(saver, ns=ns, count=count, parents={"": f"{root:08}"})


class RemovingSuite(SaverHarness):
    """``delete_thread``, ``delete_for_runs``, ``prune`` and ``copy_thread``."""

    def test_a_deleted_thread_leaves_nothing(self, saver: Saver) -> None:
        for ns in ("", "inner", "call:1", "call:1|deep:2"):
            fill(saver, ns=ns)
        write(saver, 9, ("a", 1), ns="never:saved")
        fill(saver, "u")
        before = rows(saver, "u")
        saver.delete_thread("t")
        assert rows(saver) == NOTHING
        assert listed(saver) == []
        assert rows(saver, "u") == before
        saver.delete_thread("t")

    def test_a_large_thread_goes_wholly(self, saver: Saver) -> None:
        fill(saver, count=MANY)
        saver.delete_thread("t")
        assert rows(saver) == NOTHING

    def test_the_checkpoints_of_runs_go_from_every_thread_and_namespace(self, saver: Saver) -> None:
        fill(saver, run_id="r1")
        put(saver, 5, parent=4, metadata={"run_id": "r2"})
        fill(saver, ns="call:1", run_id="r2")
        fill(saver, "u", run_id="r2")
        fill(saver, "v", run_id="r3")
        before = rows(saver, "v")
        saver.delete_for_runs(["r2", "r0"])
        assert listed(saver) == [4, 3, 2, 1]
        assert listed(saver, ns="call:1") == []
        assert rows(saver, "u") == NOTHING
        assert rows(saver, "v") == before
        saver.delete_for_runs([])
        saver.delete_for_runs(["r1"])
        assert rows(saver) == NOTHING

    def test_the_child_of_a_deleted_checkpoint_has_no_parent(self, saver: Saver) -> None:
        put(saver, 1, metadata={"run_id": "r1"})
        put(saver, 2, parent=1, metadata={"run_id": "r2"})
        saver.delete_for_runs(["r1"])
        assert stored(saver, 2).parent_config is None

    def test_the_latest_of_each_namespace_stays_with_its_writes(self, saver: Saver) -> None:
        for ns in ("", "inner", "other"):
            fill(saver, ns=ns)
        latest = {ns: stored(saver, ns=ns) for ns in ("", "inner", "other")}
        fill(saver, "u")
        saver.prune(["t", "none"])
        for ns, found in latest.items():
            assert listed(saver, ns=ns) == [4]
            assert stored(saver, ns=ns) == found._replace(parent_config=None)
        assert listed(saver, thread_id="u") == [4, 3, 2, 1]
        assert rows(saver)[:2] == (3, 3)
        before = rows(saver)
        saver.prune(["t"])
        assert rows(saver) == before

    def test_only_the_values_of_what_stays_are_stored(self, saver: Saver) -> None:
        for number in range(1, 6):
            put(saver, number, parent=number - 1 or None, values={"a": ["x" * 1000], "b": [number]})
        # The last two have one version of ``a``.
        later = stored(saver).checkpoint
        later["id"] = f"{6:08}"
        later["channel_values"]["b"] = [6]
        later["channel_versions"]["b"] = f"{6:032}.5"
        saver.put(config(number=5), later, {}, {"b": later["channel_versions"]["b"]})
        one = len(saver.serde.dumps_typed(["x" * 1000])[1])
        saver.prune(["t"])
        assert stored(saver).checkpoint["channel_values"] == {"a": ["x" * 1000], "b": [6]}
        assert saver.storage("t").channels == {"a": one, "b": len(saver.serde.dumps_typed([6])[1])}

    def test_calls_go_that_were_made_in_a_checkpoint_that_goes(self, saver: Saver) -> None:
        fill(saver)
        for ns, root in (("old:1", 2), ("old:1|deep:2", 2), ("now:1", 4), ("now:1|deep:2", 4), ("yet:1", 9)):
            call(saver, ns, root)
        fill(saver, ns="remembers", parents={"": f"{2:08}"})
        saver.prune(["t"])
        places = [("", [4]), ("old:1", []), ("old:1|deep:2", []), ("remembers", [4])]
        # What is not saved yet may be on its way.
        places += [("now:1", [2]), ("now:1|deep:2", [2]), ("yet:1", [2])]
        for ns, expected in places:
            assert listed(saver, ns=ns) == expected, ns
        assert rows(saver)[:2] == (5, 5)

    def test_writes_that_came_too_late_go(self, saver: Saver) -> None:
        fill(saver, count=3)
        saver.prune(["t"])
        write(saver, 1, ("a", "late"))
        write(saver, 9, ("a", "early"))
        saver.prune(["t"])
        put(saver, 9, parent=3)
        assert [value for *_, value in stored(saver).pending_writes or []] == ["early"]
        assert rows(saver)[:2] == (2, 2)

    def test_what_an_old_checkpoint_sends_stays_with_its_parent(self, saver: Saver) -> None:
        fill(saver, count=3)
        write(saver, 3, (TASKS, "sent"), task_id="sender")
        put(saver, 4, parent=3, v=1)
        saver.prune(["t"])
        assert listed(saver) == [4, 3]
        assert stored(saver, 4).checkpoint["channel_values"][TASKS] == ["sent"]
        put(saver, 5, parent=4)
        saver.prune(["t"])
        assert listed(saver) == [5]

    def test_many_go_in_steps(self, saver: Saver) -> None:
        fill(saver, count=MANY)
        for number in range(3):
            call(saver, f"call:{number}", 1)
        saver.prune(["t"])
        assert listed(saver) == [MANY]
        assert rows(saver)[:2] == (1, 1)

    def test_everything_goes_by_delete(self, saver: Saver) -> None:
        fill(saver)
        fill(saver, ns="inner")
        fill(saver, "u")
        fill(saver, "v")
        saver.prune(["t", "u"], strategy="delete")
        assert rows(saver) == rows(saver, "u") == NOTHING
        assert listed(saver, thread_id="v") == [4, 3, 2, 1]

    def test_another_strategy_or_a_string_is_refused(self, saver: Saver) -> None:
        fill(saver)
        check_refused(InvalidInput, "strategy", partial(saver.prune, ["t"], strategy="keep"))
        check_refused(InvalidInput, "thread_ids", partial(saver.prune, "t"))
        check_refused(InvalidInput, "run_ids", partial(saver.delete_for_runs, "t"))
        assert listed(saver) == [4, 3, 2, 1]

    def test_a_copy_has_everything_and_is_its_own(self, saver: Saver) -> None:
        fill(saver)
        fill(saver, ns="inner")
        call(saver, "call:1", 4)
        write(saver, 9, ("a", "early"), ns="never:saved")
        saver.copy_thread("t", "u")
        assert rows(saver, "u") == rows(saver)
        for ns in ("", "inner", "call:1"):
            originals = saver.list(config(ns=ns))
            for copied, original in zip(saver.list(config("u", ns)), originals, strict=True):
                assert copied.checkpoint == original.checkpoint
                assert copied.metadata == original.metadata
                assert copied.pending_writes == original.pending_writes
                assert copied.config["configurable"]["thread_id"] == "u"
        put(saver, 5, thread_id="u", parent=4, values={"a": ["theirs"]})
        assert listed(saver) == [4, 3, 2, 1]
        saver.delete_thread("t")
        assert listed(saver, thread_id="u") == [5, 4, 3, 2, 1]

    def test_a_copy_does_not_mix_with_what_is_there(self, saver: Saver) -> None:
        fill(saver)
        put(saver, 9, thread_id="u")
        check_refused(Conflict, "target_thread_id", partial(saver.copy_thread, "t", "u"))
        check_refused(Conflict, "target_thread_id", partial(saver.copy_thread, "t", "t"))
        assert listed(saver, thread_id="u") == [9]
        saver.copy_thread("none", "v")
        assert rows(saver, "v") == NOTHING
