"""Tests of the benchmarks of storages and savers: on Postgres too, and with faults that must be told."""

from __future__ import annotations

import json
import operator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as program
from benchmarks import checkpoint_growth, contenders, storage_queue, storage_threads
from benchmarks.measure import Line
from benchmarks.promises import Stopwatch, each_second, promised, quantile
from benchmarks.report import show
from benchmarks.storage_events import frame, stamp_of
from benchmarks.storage_queue import Told
from stateroom.drivers.sql.runs import SqlRuns
from stateroom.drivers.sql.threads import SqlThreads
from stateroom.model.paging import Page

SUITES = ("queue", "threads", "checkpoints", "events")


def run(tmp_path: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    file = tmp_path / "report.json"
    code = program.main([*arguments, "--quick", "--json", str(file)])
    return code, json.loads(file.read_text())["lines"]


def wrong(lines: list[dict[str, Any]]) -> dict[str, str]:
    return {line["operation"]: line["verdict"] for line in lines if line["verdict"].startswith("WRONG")}


@pytest.mark.parametrize("suite", SUITES)
def test_each_suite_runs_on_postgres_too_and_every_answer_is_right(
    suite: str, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contenders, "POSTGRES", postgres)
    code, lines = run(tmp_path, "--suite", suite, "--backend", "postgres")
    assert {line["backend"] for line in lines} == {"postgres"}
    assert wrong(lines) == {}
    assert [line["operation"] for line in lines if line["peer_verdict"].startswith("WRONG")] == []
    assert code == 0


def test_a_claim_out_of_turn_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SqlRuns.claim

    def hasty(self: SqlRuns, owner: str, *, lease: int, limit: int = 1) -> Any:
        whole(self, owner, lease=lease, limit=limit)
        return whole(self, owner, lease=lease, limit=limit)

    monkeypatch.setattr(SqlRuns, "claim", hasty)
    code, lines = run(tmp_path, "--suite", "queue", "--only", "one thread")
    assert code == 1
    assert set(wrong(lines)) >= {"claim, one thread, p50", "claim, one thread, p99"}


def test_a_run_that_two_workers_do_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(*_arguments: Any) -> list[Told]:
        return [Told(1.0, ["r0000001"], 0), Told(1.0, ["r0000001"], 0)]

    monkeypatch.setattr(storage_queue, "_in_threads", twice)
    code, lines = run(tmp_path, "--suite", "queue", "--only", "claim and settle")
    assert code == 1
    assert list(wrong(lines)) == ["claim and settle, 2 threads"]


def test_a_search_that_leaves_something_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SqlThreads.search

    def forgetful(self: SqlThreads, *arguments: Any, **options: Any) -> Page[Any]:
        page = whole(self, *arguments, **options)
        return page._replace(rows=page.rows[1:])

    monkeypatch.setattr(SqlThreads, "search", forgetful)
    code, lines = run(tmp_path, "--suite", "threads", "--only", "search,sort,page")
    assert code == 1
    # Who finds nothing loses nothing.
    assert {line["operation"] for line in lines} - set(wrong(lines)) == {
        "search, metadata: nobody",
        f"search, {storage_threads.PROMISED}, limit",
    }


def test_threads_are_copied_with_what_searches_find_them_by(tmp_path: Path) -> None:
    _, lines = run(tmp_path, "--suite", "threads", "--backend", "sqlite", "--only", "count,nested")
    assert [(line["n"], line["operation"]) for line in lines] == [
        (n, operation)
        for n in storage_threads.QUICK_SIZES
        for operation in ("search, metadata: nested", "count, all", "count, one owner")
    ]
    assert wrong(lines) == {}


def test_a_state_that_is_not_what_was_said_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = checkpoint_growth._say

    def forgetful(graph: Any, said: list[str], turn: int) -> None:
        whole(graph, said, turn)
        said.append("never said")

    monkeypatch.setattr(checkpoint_growth, "_say", forgetful)
    code, lines = run(tmp_path, "--suite", "checkpoints", "--only", "stored, keep_last=1", "--no-peers")
    assert code == 1
    assert len(wrong(lines)) == len({line["operation"] for line in lines}) > 0


def test_stored_bytes_are_compared_with_the_peers_of_the_same_list(tmp_path: Path) -> None:
    _, lines = run(tmp_path, "--suite", "checkpoints", "--backend", "sqlite", "--only", "stored,tables")
    last = {line["operation"]: line for line in lines if line["n"] == checkpoint_growth.QUICK_TURNS[-1]}
    assert {line["unit"] for line in lines} == {"kB"}
    # Both write the same rows, so the same bytes but for the ids within them.
    assert last["stored, all"]["ratio"] == pytest.approx(1, rel=0.02)
    assert last["stored, keep_last=1"]["ours"] < last["stored, keep_last=10"]["ours"]
    assert last["stored, all, then prune keep_latest"]["ours"] < last["stored, all"]["ours"] / 2
    assert last["stored, DeltaChannel"]["peer"] < last["stored, all"]["peer"]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100), (0.001, 1)])
def test_quantiles_are_values_that_were_measured(share: float, expected: int) -> None:
    assert quantile([float(number) for number in range(100, 0, -1)], share) == expected


def test_a_limit_is_met_up_to_itself() -> None:
    where: dict[str, Any] = {"suite": "queue", "backend": "sqlite", "n": 1}
    assert promised("claim", 2_000, at_most=2_000, **where).is_met is True
    assert promised("claim", 2_001, at_most=2_000, **where).is_met is False
    assert promised("claim", 2_001, **where).is_met is None
    assert each_second("do", 300, at_least=300, **where).is_met is True
    assert each_second("do", 299, at_least=300, **where).is_met is False
    assert each_second("do", 299, at_least=300, **where).verdict == "299 a second, to be 300"
    assert each_second("do", 299, verdict="WRONG: no", **where).is_wrong


def test_a_stopwatch_notes_each_call_and_hands_on_its_answer() -> None:
    watch = Stopwatch()
    assert [watch.call("add", partial(operator.add, 1, each)) for each in range(3)] == [1, 2, 3]
    assert len(watch.spent["add"]) == 3
    lines = list(watch.lines({"add": 1e9}, suite="queue", backend="sqlite", n=3))
    assert [line.operation for line in lines] == ["add, p50", "add, p99"]
    assert {line.is_met for line in lines} == {True}


def test_a_frame_has_its_size_and_says_when_it_was_made() -> None:
    made = frame(1_234_567)
    assert len(made.data) == 300
    assert stamp_of(made.data) == 1_234_567
    assert json.loads(made.data)["at"] == 1_234_567


def test_figures_are_printed_in_their_unit(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    lines = [
        Line("checkpoints", "sqlite", 50, "stored", 1_234.0, peer_name="peer", peer=5_000.0, unit="kB"),
        Line("checkpoints", "sqlite", 50, "put", 1_234.0),
    ]
    show(lines, Console(width=150))
    printed = capsys.readouterr().out
    assert "1,234 kB" in printed
    assert "5,000 kB" in printed
    assert "1.23 ms" in printed
