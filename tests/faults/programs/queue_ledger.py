"""What workers were told, and whether a database agrees with it after one of them was killed."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from stateroom.drivers.sql.storage import SqlStorage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.model.run import ENDED, CancelAction, Multitask, RunStatus
from tests.faults.programs.queue_children import ATTEMPTS

__all__ = ["Ledger", "assert_whole", "rows"]

REFUSALS = {"Fenced", "NotFound", "Conflict", "ThreadBusy", "ThreadStatusMismatch"}

Try = tuple[str, dict[str, Any]]


@dataclass
class Fact:
    """What is known of a run: what somebody was told, and what may have come of what nobody was told of."""

    thread: str = ""
    ended: str | None = None
    gone: bool = False
    rolled_back: bool = False
    executing: bool = False
    asked: bool = False
    may_be_gone: bool = False
    may_have: set[str] = field(default_factory=set)
    frames: int = 0
    all_frames: int | None = None
    checkpoints: set[str] = field(default_factory=set)


class Ledger:
    """Hears what workers say, one after the other, and compares."""

    def __init__(self, *, alone: bool) -> None:
        """``alone`` says that there is one worker at a time, whose last runs are not executed again."""
        self.alone = alone
        self.facts: dict[str, Fact] = {}
        self.refused: set[str] = set()
        self.unfinished: dict[str, Try] = {}
        self.claims: Counter[str] = Counter()
        self.deleted: set[str] = set()
        self.done: Counter[str] = Counter()
        # Threads of which runs were removed or ended that the worker who did it may not have known.
        self._swept: list[tuple[str, str]] = []
        self._reaped = False

    def hear(self, worker: str, message: Any) -> None:
        """Take in one message of a worker's."""
        what, kind, about, result = message
        if what == "try":
            self.unfinished[worker] = kind, about
            return
        del self.unfinished[worker]
        if what == "refused":
            assert result in REFUSALS, message
            self.refused.update(about.get("runs", ()))
            return
        self.done[kind] += 1
        getattr(self, f"_{kind}")(about, result)

    def fact(self, run_id: str, thread: str = "") -> Fact:
        """Return what is known of a run."""
        fact = self.facts.setdefault(run_id, Fact())
        fact.thread = fact.thread or thread
        return fact

    # ---- what was told

    def _create(self, about: dict[str, Any], result: list[Any]) -> None:
        self._sweep(about["thread"], about["multitask"])
        for run_id, status, _ in result:
            assert status == "pending"
            self.fact(run_id, about["thread"])

    def _claim(self, _: dict[str, Any], result: list[Any]) -> None:
        for run_id, status, _fence in result:
            assert status == "running"
            fact = self.fact(run_id)
            # Of several workers the words come in any order.
            assert fact.ended is None or not self.alone, f"{run_id} was executed again after its end"
            fact.executing = True
            self.claims[run_id] += 1

    def _mark(self, *_: object) -> None:
        pass

    def _append(self, about: dict[str, Any], result: int) -> None:
        fact = self.fact(about["run"])
        assert result >= about["frames"]
        fact.frames = max(fact.frames, result)

    def _checkpoint(self, about: dict[str, Any], _: None) -> None:
        self.fact(about["run"]).checkpoints.add(about["checkpoint"])

    def _settle(self, about: dict[str, Any], result: int) -> None:
        fact = self.fact(about["run"])
        fact.executing, fact.frames, fact.all_frames = False, result, result
        fact.ended = about["status"]
        # It may be known already that another has deleted it since.
        fact.gone |= about["roll_back"]
        fact.rolled_back |= about["roll_back"]
        if about["delete_thread"]:
            self._delete_thread(about, True)

    def _release(self, about: dict[str, Any], _: object) -> None:
        self.fact(about["run"]).executing = False
        self.claims[about["run"]] -= 1

    def _cancel(self, about: dict[str, Any], result: list[Any]) -> None:
        for run_id, thread, ended in result:
            fact = self.fact(run_id, thread)
            if not ended:
                fact.asked = True
            elif about["action"] == CancelAction.ROLLBACK:
                fact.gone = fact.rolled_back = True
            else:
                fact.ended = RunStatus.INTERRUPTED

    def _delete_run(self, about: dict[str, Any], result: bool) -> None:
        fact = self.fact(about["run"], about["thread"])
        fact.gone = fact.gone or result

    def _delete_thread(self, about: dict[str, Any], result: bool) -> None:
        if result:
            self.deleted.add(about["thread"])
            self._sweep(about["thread"], "delete")
            for fact in self._of(about["thread"]):
                fact.may_be_gone = True
                # Where one works alone, what is known by now was made before.
                fact.gone |= self.alone

    def _reap(self, _: dict[str, Any], result: list[Any]) -> None:
        for run_id, status, _fence in result:
            fact = self.fact(run_id)
            fact.executing = False
            if status in ENDED:
                fact.ended = status

    def _late(self, about: dict[str, Any], _: object) -> None:
        raise AssertionError(f"an attempt that is over has written: {about}")

    def _sweep(self, thread: str, how: str) -> None:
        """Note that runs of a thread may have been stopped; others may be heard of later that were, too."""
        if how in (Multitask.INTERRUPT, Multitask.ROLLBACK, "delete"):
            self._swept.append((thread, how))

    def _of(self, thread: str) -> list[Fact]:
        return [fact for fact in self.facts.values() if fact.thread == thread]

    # ---- what nobody was told

    def killed(self, worker: str) -> None:
        """Note what may or may not have come of the last that a worker had tried."""
        kind, about = self.unfinished.pop(worker, ("", {}))
        for fact in [self.facts[about["run"]]] if about.get("run") in self.facts else []:
            if kind == "settle":
                fact.may_have.add(about["status"])
                fact.may_be_gone |= about["roll_back"] or about["delete_thread"]
            fact.may_be_gone |= kind == "delete_run"
            if kind == "release":
                fact.may_have.add("pending")
                self.claims[about["run"]] -= 1
        if kind == "delete_thread" or about.get("delete_thread"):
            self._sweep(about["thread"], "delete")
        if kind == "cancel":
            self._sweep(about["thread"], about["action"])
        if kind == "create":
            self._sweep(about["thread"], about["multitask"])
            self._may_exist = set(about["runs"])
            self._rolls_back = about["multitask"] == Multitask.ROLLBACK
        if kind == "claim":
            self._may_claim = about["limit"]
        self._reaped |= kind == "reap"

    _may_exist: frozenset[str] | set[str] = frozenset()
    _rolls_back = False
    _may_claim = 0

    def _doubt(self) -> None:
        for thread, how in self._swept:
            for fact in self._of(thread):
                if how == Multitask.INTERRUPT:
                    fact.may_have.add("interrupted")
                else:
                    fact.may_be_gone = True
                fact.asked |= how != "delete"
        self._swept.clear()

    # ---- the comparison

    def compare(self, storage: SqlStorage, alive: set[str]) -> None:
        """Compare with a storage, where nobody is at work but who has the runs ``alive``."""
        found = {
            run_id: (status, thread, attempt, error)
            for run_id, status, thread, attempt, error in rows(
                storage, "select run_id, status, thread_id, attempt, error from stateroom.run"
            )
        }
        assert not found.keys() & self.refused
        new = found.keys() - self.facts.keys()
        # Of some a survivor may have told that he claimed them.
        untold = self._may_exist - self.facts.keys()
        # The last of several that roll back leaves of the others those alone that are not due yet.
        assert new in (set(), untold) or (self._rolls_back and new < untold), (
            f"{new} are there, of {untold} nobody was told"
        )
        for run_id, (_, thread, _, _) in found.items():
            self.fact(run_id, thread)
        # Now that all are known: of runs that one call made, a later one may have stopped an earlier.
        self._doubt()
        for run_id, fact in self.facts.items():
            if run_id in found:
                status, thread, attempt, error = found[run_id]
                assert thread == fact.thread
                self._agrees(run_id, fact, status, error, alive)
                assert max(attempt, self.claims[run_id]) <= (1 if self.alone else ATTEMPTS)
            else:
                assert fact.gone or fact.may_be_gone, f"{run_id} is lost: {fact}"
        self._frames(storage, found)
        self._checkpoints(storage, found)
        for run_id, fact in self.facts.items():
            self._adopt(fact, found[run_id][0] if run_id in found else None)
        self._may_exist, self._may_claim, self._reaped = frozenset(), 0, False

    def _agrees(self, run_id: str, fact: Fact, status: str, error: Any, alive: set[str]) -> None:
        said = f"{run_id} is {status}: {fact}"
        assert not fact.gone, said
        if status == RunStatus.RUNNING:
            assert run_id in alive, said
        elif status == RunStatus.PENDING:
            assert fact.ended is None, said
            if self.alone:
                # What was executing when the process died is not executed again.
                assert not fact.executing or "pending" in fact.may_have, said
        elif fact.ended is None:
            assert status in fact.may_have or self._was_given_up(fact, status, error), said
        else:
            assert status == fact.ended, said

    def _was_given_up(self, fact: Fact, status: str, error: Any) -> bool:
        """Tell whether a run ended because its worker died, which only the database knows."""
        if status == RunStatus.INTERRUPTED:
            return fact.asked
        was_executing = fact.executing or self._may_claim > 0
        if not self.alone and not self._reaped:
            return False
        return was_executing and json.loads(bytes(error))["error"] == "abandoned"

    def _frames(self, storage: SqlStorage, found: dict[str, Any]) -> None:
        kept = rows(storage, "select run_id, first, last from stateroom.stream")
        counted = dict(rows(storage, "select run_id, count(*) from stateroom.frame group by run_id"))
        lasts = {}
        for run_id, first, last in kept:
            assert run_id in found, f"{run_id} is gone, and its stream is not"
            assert first == 1
            assert counted.pop(run_id) == last, f"the frames of {run_id} have a gap"
            lasts[run_id] = last
        assert not counted, "frames without a stream"
        for run_id in found:
            fact = self.facts[run_id]
            last = lasts.get(run_id, 0)
            assert last >= fact.frames, (
                f"of {run_id} {fact.frames} frames were acknowledged, {last} are there"
            )
            if fact.all_frames is not None:
                assert last == fact.all_frames, f"{run_id} has frames behind its end"

    def _checkpoints(self, storage: SqlStorage, found: dict[str, Any]) -> None:
        table = _langgraphs(storage)[0]
        there = dict(rows(storage, f"select checkpoint_id, metadata from {table}"))  # noqa: S608  # a constant
        by_run = Counter(_loaded(metadata)["run_id"] for metadata in there.values())
        for run_id, fact in self.facts.items():
            if fact.rolled_back:
                assert not by_run[run_id], f"{run_id} was rolled back, and its checkpoints are there"
            elif run_id in found and not fact.may_be_gone:
                lost = fact.checkpoints - there.keys()
                assert not lost, f"checkpoints of {run_id} are lost: {lost}"

    def _adopt(self, fact: Fact, status: str | None) -> None:
        fact.gone = status is None
        fact.ended = status if status in ENDED else None
        fact.executing = status == RunStatus.RUNNING
        fact.may_be_gone = False
        fact.may_have.clear()
        fact.asked &= fact.executing


def _loaded(metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = metadata if isinstance(metadata, dict) else json.loads(metadata)
    return found


def rows(storage: SqlStorage, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query of portable SQL."""
    return storage.dialect.read(lambda session: session.fetch(statement, planned=True))


def _langgraphs(storage: SqlStorage) -> list[str]:
    """Return the names of LangGraph's tables as a query says them, that of checkpoints in front."""
    if isinstance(storage, SqliteStorage):
        return ["checkpoints", "writes"]
    return ["stateroom.checkpoints", "stateroom.checkpoint_blobs", "stateroom.checkpoint_writes"]


def assert_whole(storage: SqlStorage) -> None:
    """Check what holds of every database at every moment, whatever was done with it."""
    for thread, status, next_at, running, first in rows(
        storage,
        "select t.thread_id, t.status, t.next_at, "
        "(select count(*) from stateroom.run r where r.thread_id = t.thread_id and r.status = 'running'), "
        "(select min(r.available_at) from stateroom.run r "
        "where r.thread_id = t.thread_id and r.status = 'pending') from stateroom.thread t",
    ):
        assert running <= 1, f"{thread} executes {running} runs"
        assert (status == "busy") == (running == 1), f"{thread} is {status} and executes {running}"
        assert next_at == (None if running else first), f"{thread} is to be claimed at {next_at}, not {first}"
    assert not rows(
        storage,
        "select run_id from stateroom.run where (status = 'running') <> (lease_owner is not null) "
        "or (status = 'running') <> (lease_until is not null) "
        "or (status in ('pending', 'running')) <> (ended_at is null) "
        "or (status not in ('pending', 'running') and private is not null)",
    ), "a run's lease, end or private part is not what its status says"
    for table in ("stateroom.run", "stateroom.stream", "stateroom.delivery", *_langgraphs(storage)):
        assert not rows(
            storage,
            f"select thread_id from {table} where thread_id not in (select thread_id from stateroom.thread)",  # noqa: S608
        ), f"{table} has something of a thread that is gone"
    assert rows(storage, "select * from stateroom.deletion") == []
