"""A worker that does everything that can be done with the queue, at random, and tells what came of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final

from langgraph.checkpoint.base import empty_checkpoint

from stateroom.contract.runs import NewRun, RunQuery, Settlement
from stateroom.contract.threads import NewThread
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.errors import StateroomError
from stateroom.model.delivery import NewDelivery
from stateroom.model.frame import NewFrame
from stateroom.model.run import Attempt, CancelAction, Multitask, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.savers.attempts import bound
from stateroom.savers.base import Saver
from tests.faults.programs.storage_places import Place, open_storage
from tests.storage.saving import saver_over

__all__ = ["ATTEMPTS", "HOUR", "LEASE", "settle", "work"]

LEASE: Final = 30_000_000
HOUR: Final = 3_600_000_000
ATTEMPTS: Final = 3
THREADS: Final = 4
EXECUTING: Final = 4
FRAME: Final = NewFrame("values", b'{"n":1}')


def work(pipe: Connection, place: Place, name: str, seed: int) -> None:
    """Work until the process is killed, or is told to stop.

    Told ``renew``, it stops, renews its leases, tells which it still has, and waits for the word ``go``.
    """
    with open_storage(place) as storage:
        worker = _Worker(pipe, storage, saver_over(storage), name, seed)
        pipe.send("ready")
        while True:
            while pipe.poll() and pipe.recv() == "renew":
                pipe.send(("paused", worker.renewed()))
                pipe.poll(None)
            worker.step()


class _Worker:
    """Does one thing after the other; says before each what it is about, and after it what it was told."""

    def __init__(self, pipe: Connection, storage: SqlStorage, saver: Saver, name: str, seed: int) -> None:
        self.pipe, self.storage, self.saver, self.name = pipe, storage, saver, name
        self.dice = random.Random(f"{name} {seed}")
        self.numbers = iter(range(1_000_000))
        self.executing: list[Run] = []
        self.lost: list[Attempt] = []
        self.actions: dict[Callable[[], None], float] = {
            self.create: 6,
            self.claim: 5,
            self.append: 6,
            self.checkpoint: 6,
            self.settle: 6,
            self.release: 1,
            self.cancel: 1,
            self.delete_run: 0.5,
            self.delete_thread: 0.5,
            self.reap: 0.5,
            self.write_late: 1,
        }

    def step(self) -> None:
        (action,) = self.dice.choices([*self.actions], [*self.actions.values()])
        action()

    def told(self, kind: str, about: dict[str, Any], call: Callable[[], Any]) -> Any:
        """Do something; tell before and after. Answer None where it was refused, as it may be."""
        self.pipe.send(("try", kind, about, None))
        try:
            result = call()
        except StateroomError as error:
            self.pipe.send(("refused", kind, about, type(error).__name__))
            return None
        self.pipe.send(("done", kind, about, _plain(result)))
        return result

    def named(self, what: str) -> str:
        return f"{what}-{self.name}-{next(self.numbers)}"

    def thread(self) -> str:
        """Return one of a few threads that all workers use, which are others after some time."""
        epoch = self.storage.now() // HOUR
        return f"thread-{epoch}-{self.dice.randrange(THREADS)}"

    def create(self) -> None:
        thread_id = self.thread()
        multitask = self.dice.choices([*Multitask], [1, 10, 1, 1])[0]
        new = [
            NewRun(
                run_id=self.named("run"),
                thread_id=thread_id,
                assistant_id="a",
                assistant_version=1,
                kwargs={"input": {"n": 1}},
                private={"secret": "s"},
                multitask=multitask,
                delay=HOUR if self.dice.random() < 0.1 else 0,
                new_thread=NewThread(thread_id),
            )
            for _ in range(self.dice.choice([1, 1, 1, 3]))
        ]
        about = {"thread": thread_id, "runs": [each.run_id for each in new], "multitask": str(multitask)}
        self.told("create", about, lambda: self.storage.runs.create(new))

    def claim(self) -> None:
        if len(self.executing) >= EXECUTING:
            return
        limit = self.dice.choice([1, 1, 2])
        claimed = self.told(
            "claim",
            {"owner": self.name, "limit": limit},
            lambda: self.storage.runs.claim(self.name, lease=LEASE, limit=limit),
        )
        for run in claimed or []:
            self.executing.append(run)
            self.told("mark", _about(run), partial(self.storage.runs.mark, run.lease))

    def append(self) -> None:
        if run := self.one():
            frames = [FRAME] * self.dice.choice([1, 1, 5])
            self.told(
                "append",
                {**_about(run), "frames": len(frames)},
                lambda: self.storage.events.append(run.lease, frames),
            )

    def checkpoint(self) -> None:
        if run := self.one():
            checkpoint: Any = {**empty_checkpoint(), "channel_values": {"x": run.run_id}}
            version = self.saver.get_next_version(None, None)
            checkpoint["channel_versions"] = {"x": version}
            about = {**_about(run), "checkpoint": checkpoint["id"]}
            self.told("checkpoint", about, lambda: self.put(run.lease, checkpoint, version))

    def put(self, attempt: Attempt, checkpoint: Any, version: Any) -> None:
        """Write a checkpoint, and a task's write beside it, in the name of an attempt."""
        config: Any = {"configurable": {"thread_id": attempt.thread_id, "checkpoint_ns": ""}}
        metadata: Any = {"source": "loop", "step": 1, "run_id": attempt.run_id, "fence": attempt.fence}
        with bound(attempt):
            stored = self.saver.put(config, checkpoint, metadata, {"x": version})
            self.saver.put_writes(stored, [("x", attempt.run_id)], "task")

    def settle(self) -> None:
        if run := self.one():
            settlement = _settlement(self.dice)
            about = {
                **_about(run),
                "status": str(settlement.status),
                "roll_back": settlement.roll_back,
                "delete_thread": settlement.delete_thread,
            }
            self.told("settle", about, lambda: settle(self.storage, run, settlement))
            self.forget(run)

    def release(self) -> None:
        if run := self.one():
            self.told("release", _about(run), lambda: self.storage.runs.release(run.lease))
            self.forget(run)

    def cancel(self) -> None:
        thread_id, action = self.thread(), self.dice.choice([*CancelAction])
        self.told(
            "cancel",
            {"thread": thread_id, "action": str(action)},
            lambda: self.storage.runs.cancel(RunQuery(thread_id=thread_id), action, reason="enough"),
        )

    def delete_run(self) -> None:
        page = self.storage.runs.search(RunQuery(thread_id=self.thread()), limit=5)
        if page.rows:
            run = self.dice.choice(page.rows)
            about = {"thread": run.thread_id, "run": run.run_id}
            self.told("delete_run", about, lambda: self.storage.runs.delete(run.run_id))

    def delete_thread(self) -> None:
        thread_id = self.thread()
        self.told("delete_thread", {"thread": thread_id}, lambda: self.storage.threads.delete(thread_id))

    def reap(self) -> None:
        self.told("reap", {}, lambda: self.storage.runs.reap(max_attempts=ATTEMPTS))

    def write_late(self) -> None:
        """Write in the name of an attempt that is over, which must be refused."""
        if not self.lost:
            return
        attempt = self.dice.choice(self.lost)
        about = {"thread": attempt.thread_id, "run": attempt.run_id, "fence": attempt.fence}
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"x": "late"}}
        version = self.saver.get_next_version(None, None)
        checkpoint["channel_versions"] = {"x": version}
        late: list[Callable[[], Any]] = [
            lambda: self.storage.events.append(attempt, [FRAME]),
            lambda: self.put(attempt, checkpoint, version),
            lambda: self.storage.runs.release(attempt),
            lambda: self.storage.runs.settle(attempt, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE)),
            lambda: self.storage.runs.mark(attempt),
        ]
        self.told("late", about, self.dice.choice(late))

    def one(self) -> Run | None:
        """Return a run that this worker executes, or has lost without knowing."""
        return self.dice.choice(self.executing) if self.executing else None

    def forget(self, run: Run) -> None:
        self.executing.remove(run)
        self.lost.append(run.lease)

    def renewed(self) -> list[str]:
        """Renew all leases; answer the ids of the runs that this worker still has."""
        alive = set()
        for renewal in self.storage.runs.renew([run.lease for run in self.executing], lease=LEASE):
            if renewal.alive:
                alive.add(renewal.attempt)
        for run in [run for run in self.executing if run.lease not in alive]:
            self.forget(run)
        return [attempt.run_id for attempt in alive]


def settle(storage: SqlStorage, run: Run, settlement: Settlement) -> Any:
    """End a run, with a last frame before; answer that frame's number."""
    last = storage.events.append(run.lease, [NewFrame("end", b"{}")])
    storage.runs.settle(run.lease, settlement)
    return last


def _settlement(dice: random.Random) -> Settlement:
    kind = dice.choices(["success", "error", "roll back", "delete"], [10, 2, 3, 0.7])[0]
    if kind == "error":
        error = {"error": "ValueError", "message": "no"}
        return Settlement(RunStatus.ERROR, ThreadStatus.ERROR, error=error, run_error=error)
    if kind == "roll back":
        return Settlement(RunStatus.INTERRUPTED, ThreadStatus.IDLE, roll_back=True)
    if kind == "delete":
        return Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, delete_thread=True)
    delivery = NewDelivery(f"delivery-{dice.getrandbits(64)}", "http://example.org", {"done": True})
    return Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, values={"done": True}, deliveries=[delivery])


def _about(run: Run) -> dict[str, Any]:
    return {"thread": run.thread_id, "run": run.run_id, "fence": run.fence}


def _plain(result: Any) -> Any:
    """Return of a result what the test looks at, in few bytes."""
    if isinstance(result, list):
        return [_plain(each) for each in result]
    if isinstance(result, Run):
        return result.run_id, str(result.status), result.fence
    return tuple(result) if isinstance(result, tuple) else result
