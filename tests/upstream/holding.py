"""Holds tests of others to a list of those that must fail, each for a reason: neither more nor fewer do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, ClassVar, NamedTuple

import pytest

__all__ = ["INTERNALS", "PASSED", "PASSED_WITHOUT", "RULE", "SIGNED", "SWAP", "Expected", "Held", "counted"]

INTERNALS = "internals of another class"
RULE = "a rule of ours"
SWAP = "of the swap"
SIGNED = "a divergence we sign"

PASSED = "passed"
PASSED_WITHOUT = "passed without opening anything of ours"
FAILED_AS_EXPECTED = "failed as expected"
GOOD = {PASSED, PASSED_WITHOUT, FAILED_AS_EXPECTED}


class Expected(NamedTuple):
    """A test that must fail with one kind of exception, in every parametrisation unless it names one."""

    test: str
    kind: str
    reason: str
    raises: type[BaseException] = AssertionError


class Opened:
    """How many of our objects have been opened, so that a test that never opens one is seen."""

    count: ClassVar[int] = 0


def counted(ours: type, name: str | None = None, **defaults: Any) -> Any:
    """Return a class of ours whose opening is counted, with other defaults for some of its options."""

    def __init__(self: Any, *args: Any, **options: Any) -> None:
        Opened.count += 1
        ours.__init__(self, *args, **defaults | options)  # type: ignore[misc]

    return type(name or ours.__name__, (ours,), {"__init__": __init__})


class Held:
    """The plug-in that marks what must fail, and notes what became of each test."""

    def __init__(self, name: str, expected: Sequence[Expected]) -> None:
        self.name = name
        self.expected = expected
        self.outcomes: dict[str, str] = {}

    def mark(self, items: list[pytest.Item]) -> None:
        """Mark what is expected to fail, all of which must be there."""
        for expected in self.expected:
            marked = [item for item in items if expected.test in _names(item)]
            if not marked:
                raise pytest.UsageError(f"{self.name}: {expected.test} is expected to fail and is not there")
            for item in marked:
                reason = f"{expected.kind}: {expected.reason}"
                item.add_marker(pytest.mark.xfail(reason=reason, raises=expected.raises, strict=True))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note when a test passed without opening anything of ours, which proves nothing about it."""
        before = Opened.count
        result = yield
        if Opened.count == before and self.outcomes.get(item.nodeid) == PASSED:
            self.outcomes[item.nodeid] = PASSED_WITHOUT
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test; what its set-up and tear-down do matters when they fail or skip."""
        if report.when != "call" and report.passed:
            return
        is_expected = report.skipped and hasattr(report, "wasxfail")
        self.outcomes[report.nodeid] = FAILED_AS_EXPECTED if is_expected else report.outcome

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail for a skipped test too: it proves as little as a failed one."""
        if session.exitstatus == pytest.ExitCode.OK and not set(self.outcomes.values()) <= GOOD:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def place(self, test: str) -> str:
        """Return what a test is counted under: its file and class."""
        return test.rpartition("::")[0]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many there were of each."""
        seen: dict[str, Counter[str]] = {}
        for test, outcome in self.outcomes.items():
            seen.setdefault(self.place(test), Counter())[outcome] += 1
        for place, outcomes in seen.items():
            counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
            terminalreporter.write_line(f"{self.name}: {place}: {counts}")


def _names(item: pytest.Item) -> tuple[str, str]:
    return item.nodeid, item.nodeid.partition("[")[0]
