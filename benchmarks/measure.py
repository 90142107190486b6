"""Timing several stores in turn, call by call, and checking what they answer."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

__all__ = ["Case", "Contender", "Line", "Options", "Sample", "interleave", "settle"]

TURNS_LEAST = 5
SECONDS_MOST = 20.0
"""No case takes longer than this, unless ``TURNS_LEAST`` turns do."""

WRONG = "WRONG"


@dataclass(frozen=True)
class Options:
    """What to measure; what is empty means everything, or the suite's own choice.

    ``only`` picks operations by a part of their name, ``seconds`` is for each store and operation.
    """

    suites: Sequence[str] = ()
    backends: Sequence[str] = ()
    sizes: Sequence[int] = ()
    only: Sequence[str] = ()
    seconds: float = 0.5
    quick: bool = False
    peers: bool = True
    data: Any = None

    def wants(self, operation: str) -> bool:
        """Tell whether an operation is to be measured."""
        return not self.only or any(part in operation for part in self.only)

    def wants_backend(self, backend: str) -> bool:
        """Tell whether a back end is to be measured."""
        return not self.backends or backend in self.backends


@dataclass(frozen=True)
class Contender:
    """One open store in a comparison; its role says which of the comparisons it takes part in."""

    role: str
    name: str
    store: Any
    ours: bool


def _nothing(store: Any, argument: Any) -> None:
    pass


@dataclass(frozen=True)
class Case:
    """One operation, as every contender does it.

    ``prepare`` makes the argument of a turn and ``before`` what must be there first, both untimed.
    ``check`` says what is wrong with the first answer, or None; with ``ours`` it is stricter, since
    others promise less about order. ``pairs`` are the roles that are compared, ours first.
    """

    operation: str
    call: Callable[[Any, Any], Any]
    prepare: Callable[[int], Any] = field(default=lambda turn: turn)
    check: Callable[[Any, Any, Any, bool], str | None] = field(
        default=lambda _store, _argument, _got, _ours: None
    )
    before: Callable[[Any, Any], None] = _nothing
    pairs: tuple[tuple[str, str], ...] = (("ours", "peer"),)
    most: int = 2_000

    @property
    def roles(self) -> set[str]:
        """The roles that take part."""
        return {role for pair in self.pairs for role in pair}


class Sample(NamedTuple):
    """What one contender needed for a call, in microseconds, and what was wrong with its answer."""

    median: float | None
    mean: float | None
    verdict: str

    def by_median(self) -> float | None:
        """Return what a call usually needs."""
        return self.median

    def by_mean(self) -> float | None:
        """Return what a call needs on the whole, with what only some calls pay for."""
        return self.mean


@dataclass(frozen=True)
class Line:
    """One comparison: what a call costs us and the peer, in microseconds, and the ratio we are after.

    ``peer`` is None when there is nobody to compare with, ``target`` when nothing was promised.
    """

    suite: str
    backend: str
    n: int
    operation: str
    ours: float | None
    verdict: str = ""
    peer_name: str | None = None
    peer: float | None = None
    peer_verdict: str = ""
    target: float | None = None
    unit: str = "us"

    @property
    def ratio(self) -> float | None:
        """How many times faster we are; a peer's wrong answer is no figure to compare with."""
        if not self.ours or not self.peer:
            return None
        return self.peer / self.ours

    @property
    def is_met(self) -> bool | None:
        """Whether the target is reached; None when there is none."""
        if self.target is None or self.ratio is None:
            return None
        return self.ratio >= self.target

    @property
    def is_wrong(self) -> bool:
        """Whether our own answer was wrong."""
        return self.verdict.startswith(WRONG)

    def as_json(self) -> dict[str, Any]:
        """Return the line with everything that follows from it."""
        return asdict(self) | {"ratio": self.ratio, "met": self.is_met}


def interleave(contenders: Sequence[Contender], case: Case, seconds: float) -> dict[str, Sample]:
    """Time a case on its contenders in turn, the order alternating, and return a sample by role."""
    taking_part = [contender for contender in contenders if contender.role in case.roles]
    verdicts = {contender.role: _first(contender, case) for contender in taking_part}
    running = [one for one in taking_part if not verdicts[one.role].startswith(f"{WRONG}: raised")]
    times: dict[str, list[int]] = {contender.role: [] for contender in taking_part}
    began = time.perf_counter()
    for turn in range(1, case.most + 1):
        argument = case.prepare(turn)
        for contender in running if turn % 2 else reversed(running):
            case.before(contender.store, argument)
            start = time.perf_counter_ns()
            case.call(contender.store, argument)
            times[contender.role].append(time.perf_counter_ns() - start)
        elapsed = time.perf_counter() - began
        if turn >= TURNS_LEAST and elapsed > min(SECONDS_MOST, seconds * max(1, len(running))):
            break
    return {role: _sample(spent, verdicts[role]) for role, spent in times.items()}


def settle() -> None:
    """Collect garbage and set aside what lives, so that no call pays for another store's objects."""
    gc.collect()
    gc.freeze()


def lines_of(
    case: Case,
    contenders: Iterable[Contender],
    samples: dict[str, Sample],
    target: Callable[[str, str], float | None],
    **where: Any,
) -> list[Line]:
    """Return a line for each pair of a case that took part; ours alone where no peer did."""
    names = {contender.role: contender.name for contender in contenders}
    lines = []
    for one, other in case.pairs:
        if one not in samples:
            continue
        ours, peer = samples[one], samples.get(other)
        alone = one == case.pairs[0][0]
        operation = case.operation if alone else f"{case.operation}, {names[one]}"
        # A text index that catches up now and then shows in the mean and not in the median.
        spent = Sample.by_mean if "text" in (one, other) and not alone else Sample.by_median
        lines.append(
            Line(
                operation=operation,
                ours=spent(ours),
                verdict=ours.verdict,
                peer_name=names.get(other),
                peer=spent(peer) if peer else None,
                peer_verdict=peer.verdict if peer else "",
                target=target(one, other) if peer else None,
                **where,
            )
        )
    return lines


def _first(contender: Contender, case: Case) -> str:
    """Make the first call, untimed, and say what is wrong with its answer."""
    argument = case.prepare(0)
    try:
        case.before(contender.store, argument)
        answer = case.call(contender.store, argument)
        return case.check(contender.store, argument, answer, contender.ours) or ""
    except Exception as error:  # a contender that fails is a finding, and must not end the run
        return f"{WRONG}: raised {type(error).__name__}: {error}"[:200]


def _sample(spent: list[int], verdict: str) -> Sample:
    if not spent:
        return Sample(None, None, verdict)
    return Sample(statistics.median(spent) / 1e3, statistics.fmean(spent) / 1e3, verdict)
