"""Running the operations of many callers over one connection with as few trips as their order allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from stateroom.contract.items import (
    Count,
    Get,
    ListKeys,
    ListNamespaces,
    Operation,
    Outcome,
    Result,
    Search,
)
from stateroom.drivers.aegis.protocol import Answer, Steps
from stateroom.errors import StateroomError, Unavailable
from stateroom.model.namespace import Namespace

__all__ = ["run"]

Plan: TypeAlias = Callable[[Operation], Steps[Result]]
Address: TypeAlias = tuple[Namespace, str]


class _Task(NamedTuple):
    """One operation: whose it is, where its result goes, and what it has to do."""

    batch: int
    place: int
    operation: Operation
    steps: Steps[Result]


def run(batches: Sequence[Sequence[Operation]], plan: Plan) -> Steps[list[Outcome]]:
    """Return the outcome of each batch.

    Operations take effect in their order, batch after batch. Each stands alone: when one fails, those
    before it are done, and the batch is not gone on with but for what is under way already.
    """
    results: list[list[Result]] = [[None] * len(batch) for batch in batches]
    errors: dict[int, tuple[int, StateroomError]] = {}
    groups = [*_groups(_planned(batches, plan, errors))]
    for number, group in enumerate(groups):
        try:
            yield from _together([task for task in group if task.batch not in errors], results, errors)
        except Unavailable as lost:
            # Nothing more can be asked, so whoever still wants something hears of it.
            for task in chain.from_iterable(groups[number + 1 :]):
                errors.setdefault(task.batch, (task.place, lost))
            break
    return [
        _named(*errors[number], batch) if number in errors else results[number]
        for number, batch in enumerate(batches)
    ]


def _planned(
    batches: Sequence[Sequence[Operation]], plan: Plan, errors: dict[int, tuple[int, StateroomError]]
) -> list[_Task]:
    """Plan all operations; a batch with one that cannot be done at all is left out as a whole."""
    planned: list[_Task] = []
    for number, batch in enumerate(batches):
        tasks = []
        for place, operation in enumerate(batch):
            try:
                tasks.append(_Task(number, place, operation, plan(operation)))
            except StateroomError as error:
                errors[number] = place, error
                break
        else:
            planned += tasks
    return planned


def _groups(tasks: Sequence[_Task]) -> Iterator[list[_Task]]:
    """Divide tasks into runs whose members may be under way at once.

    That are operations of which none reads what another one writes, and of which no two write one item.
    """
    group: list[_Task] = []
    read: set[Address] = set()
    written: set[Address] = set()
    scans = False
    for task in tasks:
        operation = task.operation
        if isinstance(operation, Search | Count | ListKeys | ListNamespaces):
            address, waits = None, bool(written)
        else:
            address = operation.namespace, operation.key
            waits = address in written
            if not isinstance(operation, Get):
                waits = waits or scans or address in read
        if waits:
            yield group
            group, read, written, scans = [], set(), set(), False
        group.append(task)
        if address is None:
            scans = True
        else:
            (read if isinstance(operation, Get) else written).add(address)
    if group:
        yield group


def _together(
    tasks: Sequence[_Task], results: list[list[Result]], errors: dict[int, tuple[int, StateroomError]]
) -> Steps[None]:
    """Let tasks do their steps side by side: what all of them ask next goes out together."""
    waiting: list[tuple[_Task, list[bytes]]] = []

    def go_on(task: _Task, answers: list[Answer] | None) -> None:
        try:
            lines = next(task.steps) if answers is None else task.steps.send(answers)
        except StopIteration as end:
            results[task.batch][task.place] = end.value
        except StateroomError as error:
            if task.batch not in errors or task.place < errors[task.batch][0]:
                errors[task.batch] = task.place, error
        else:
            waiting.append((task, lines))

    for task in tasks:
        go_on(task, None)
    while waiting:
        asked, waiting = waiting, []
        try:
            answers = yield [line for _, lines in asked for line in lines]
        except Unavailable as lost:
            for task, _ in asked:
                errors.setdefault(task.batch, (task.place, lost))
            raise
        start = 0
        for task, lines in asked:
            go_on(task, answers[start : start + len(lines)])
            start += len(lines)


def _named(place: int, error: StateroomError, batch: Sequence[Operation]) -> StateroomError:
    """Return the error of a batch, which says how far it came."""
    if len(batch) == 1:
        return error
    named = type(error)(
        f"ops[{place}]: {error}. Of this batch it is the first operation that was not done", field=error.field
    )
    named.__cause__ = error
    return named
