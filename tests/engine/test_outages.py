"""A storage that cannot be reached for a while: runs are neither lost nor done twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stateroom.contract.runs import RunQuery
from stateroom.errors import Unavailable
from stateroom.model.run import CancelAction, RunStatus
from tests.engine.engines import Engine, until
from tests.engine.graphs import Stage

NewEngine = Callable[..., Engine]


class Outage:
    """Makes calls of a repository fail, as long as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, repository: object, name: str) -> None:
        self.left = 0
        self.failed = 0
        real = getattr(repository, name)

        def call(*args: Any, **options: Any) -> Any:
            if self.left > 0:
                self.left -= 1
                self.failed += 1
                raise Unavailable("down")
            return real(*args, **options)

        monkeypatch.setattr(repository, name, call)


@pytest.mark.parametrize("name", ["claim", "next_available_at", "mark", "settle"])
def test_a_run_ends_after_an_outage(engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    outage = Outage(monkeypatch, engine.storage.runs, name)
    outage.left = 3
    run = engine.done("echo")
    assert outage.failed == 3
    assert run.status is RunStatus.SUCCESS
    assert engine.log(run) == ["a"]
    assert engine.events(run).count("__output__") == 1


def test_leases_are_kept_again_after_an_outage(
    new_engine: NewEngine, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = new_engine(lease=0.3)
    run = engine.new("gated", "a")
    engine.entered("a")
    outage = Outage(monkeypatch, engine.storage.runs, "renew")
    outage.left = 3
    until(lambda: outage.left == 0)
    was = engine.storage.runs.get(run.run_id)
    assert was is not None

    def renewed() -> bool:
        now = engine.storage.runs.get(run.run_id)
        assert now is not None
        assert was is not None
        return (now.lease_until or 0) > (was.lease_until or 0)

    until(renewed)
    stage.gate.set()
    assert engine.ended(run).attempt == 1


def test_a_request_to_cancel_survives_an_outage(
    engine: Engine, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.new("gated", "a")
    engine.entered("a")
    outage = Outage(monkeypatch, engine.storage.runs, "search")
    outage.left = 2
    engine.storage.runs.cancel(RunQuery(run_ids=[run.run_id]), CancelAction.INTERRUPT)
    assert engine.ended(run).status is RunStatus.INTERRUPTED
    assert not stage.gate.is_set()
