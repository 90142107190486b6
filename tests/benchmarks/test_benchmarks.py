"""Tests of the benchmarks: each suite runs, its checks of answers pass, and a wrong answer is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as program
from benchmarks.data import Rows, Vectors
from benchmarks.files_data import NEEDLE, Files
from benchmarks.files_edits import verdict_of
from benchmarks.kv import measure as measure_kv
from benchmarks.measure import Case, Contender, Line, Options, interleave
from benchmarks.targets import target
from stateroom import InMemoryStore

Report = list[dict[str, Any]]


def run(tmp_path: Path, *arguments: str) -> tuple[int, Report]:
    file = tmp_path / "report.json"
    code = program.main([*arguments, "--quick", "--json", str(file)])
    return code, json.loads(file.read_text())["lines"]


@pytest.mark.parametrize("suite", program.SUITES)
def test_each_suite_runs_and_every_answer_is_right(suite: str, tmp_path: Path) -> None:
    code, lines = run(tmp_path, "--suite", suite)
    assert {line["suite"] for line in lines} == {suite}
    assert [line for line in lines if line["verdict"].startswith("WRONG")] == []
    assert code == 0
    assert [line for line in lines if line["ours"] is None] == []


def test_a_comparison_has_both_figures_their_ratio_and_a_target(tmp_path: Path) -> None:
    _, lines = run(tmp_path, "--suite", "kv", "--backend", "memory", "--only", "get miss")
    (line,) = lines
    assert line["ratio"] == pytest.approx(line["peer"] / line["ours"])
    assert line["target"] == 1.0
    assert line["met"] is (line["ratio"] >= 1.0)


def test_puts_are_measured_with_and_without_the_text_index(tmp_path: Path) -> None:
    _, lines = run(tmp_path, "--suite", "kv", "--backend", "sqlite", "--only", "put new")
    assert [(line["operation"], line["peer_name"].split(",")[0]) for line in lines] == [
        ("put new", "LangGraph SqliteStore"),
        ("put new, text index on", "LangGraph SqliteStore"),
        ("put new, text index on", "text off"),
    ]


def test_without_peers_our_stores_are_measured_alone(tmp_path: Path) -> None:
    code, lines = run(tmp_path, "--suite", "kv,async", "--backend", "sqlite", "--no-peers", "--only", "get")
    assert code == 0
    assert {line["peer"] for line in lines} == {None}
    assert {line["met"] for line in lines} == {None}


def test_retrieval_is_handed_to_its_own_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [
        {"id": "D1:1", "session": 1, "when": "today", "speaker": "Ann", "text": "My cat is called Tom."},
        {"id": "D1:2", "session": 1, "when": "today", "speaker": "Bob", "text": "It rains in Oslo."},
    ]
    questions = [{"question": "What is the cat called?", "evidence": ["D1:1"], "category": 1}]
    conversations = [{"conversation": name, "turns": turns, "questions": questions} for name in ("a", "b")]
    data = tmp_path / "data.json"
    data.write_text(json.dumps(conversations))
    assert program.main(["--suite", "retrieval", "--data", str(data)]) == 0
    assert "hybrid" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--suite", "nothing"], ["--suite", "retrieval"]])
def test_a_suite_that_cannot_run_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(arguments)


def test_a_wrong_answer_is_told_and_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forgetful(options: Options, folder: Path) -> Iterator[Line]:
        # The suite checks what the store says, so a store that loses every tenth item is enough.
        whole = Rows.puts

        def most(self: Rows, start: int, stop: int) -> Iterator[list[Any]]:
            for operations in whole(self, start, stop):
                yield [op for place, op in enumerate(operations) if place % 10]

        monkeypatch.setattr(Rows, "puts", most)
        yield from measure_kv(options, folder)

    monkeypatch.setitem(program.SUITES, "kv", forgetful)
    code, lines = run(tmp_path, "--suite", "kv", "--backend", "memory", "--no-peers", "--only", "search")
    assert code == 1
    assert all(line["verdict"].startswith("WRONG") for line in lines)
    assert "WRONG" in capsys.readouterr().out


def test_files_that_are_lost_are_told_by_every_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Files.uploads

    def most(self: Files, size: int = 1_000) -> Iterator[list[tuple[str, bytes]]]:
        yield from ([file for place, file in enumerate(some) if place % 2] for some in whole(self, size))

    monkeypatch.setattr(Files, "uploads", most)
    only = "ls one,glob,grep,usage"
    code, lines = run(tmp_path, "--suite", "files", "--backend", "memory", "--only", only)
    assert code == 1
    assert len(lines) == 14
    assert [line["operation"] for line in lines if not line["verdict"].startswith("WRONG")] == [
        "grep a word, max_count=1",
        "grep a word, max_count=1, ours over LangGraph InMemoryStore",
    ]
    assert {line["peer_verdict"][:5] for line in lines if line["peer_name"]} == {"WRONG", ""}


def test_files_are_measured_beside_deep_agents_own(tmp_path: Path) -> None:
    _, lines = run(tmp_path, "--suite", "files", "--backend", "sqlite", "--only", "read,edit of one file")
    assert [(line["operation"], line["peer_name"]) for line in lines] == [
        ("read", "Deep Agents, LangGraph InMemoryStore"),
        ("read", "Deep Agents, LangGraph SqliteStore, WAL, NORMAL"),
        ("edit of one file by 2 processes", "Deep Agents, LangGraph SqliteStore, WAL, NORMAL"),
    ]
    assert lines[-1]["verdict"] == "6 kept of 6 that succeeded, of 6"


def test_an_edit_that_is_lost_or_made_twice_is_told() -> None:
    assert verdict_of(["a", "b"], ["b", "a"], 3) == "2 kept of 2 that succeeded, of 3"
    for there in (["a"], ["a", "b", "b"], ["a", "b", "c"]):
        assert verdict_of(["a", "b"], there, 3).startswith("WRONG")


def test_files_are_the_same_each_time_of_one_size_and_what_is_said_of_them_is_so() -> None:
    files = Files(300)
    assert [files.text(number) for number in range(300)] == [Files(300).text(number) for number in range(300)]
    assert {len(files.text(number)) for number in range(300)} <= {1_023, 1_024}
    assert files.holding(NEEDLE) == {files.paths[150]}
    assert files.named("f*00.md") == {"/d0/s2/f100.md", "/d0/s4/f200.md"}
    assert files.inside("") == {f"/d{number}/" for number in range(10)}
    assert files.inside("/d1") == {f"/d1/s{number}/" for number in range(7)}
    assert sum(len(files.inside(f"/d{each % 10}/s{each % 7}")) for each in range(70)) == 300


def test_contenders_take_turns_and_the_order_alternates() -> None:
    calls: list[str] = []
    contenders = [Contender(role, role, role, ours=role == "ours") for role in ("ours", "peer")]
    case = Case("note", lambda store, turn: calls.append(f"{store}{turn}"), most=3)
    samples = interleave(contenders, case, seconds=10)
    assert calls == ["ours0", "peer0", "ours1", "peer1", "peer2", "ours2", "ours3", "peer3"]
    assert set(samples) == {"ours", "peer"}


def test_a_contender_that_raises_is_reported_and_the_other_still_measured() -> None:
    def call(store: str, _turn: int) -> None:
        if store == "ours":
            raise LookupError("lost")

    contenders = [Contender(role, role, role, ours=role == "ours") for role in ("ours", "peer")]
    samples = interleave(contenders, Case("fail", call, most=3), seconds=1)
    assert samples["ours"].verdict == "WRONG: raised LookupError: lost"
    assert samples["ours"].median is None
    assert samples["peer"].median is not None


def test_only_a_ratio_that_reaches_its_target_is_met() -> None:
    line = Line("kv", "memory", 10, "get", ours=2.0, peer=3.0, target=1.5)
    assert line.is_met is True
    assert Line("kv", "memory", 10, "get", ours=2.1, peer=3.0, target=1.5).is_met is False
    assert Line("kv", "memory", 10, "get", ours=2.0).is_met is None


def test_targets_belong_to_their_size_and_elsewhere_nothing_may_be_slower() -> None:
    assert target("sqlite", 100_000, "get") == 3.0
    assert target("sqlite", 1_000, "get") == 1.0
    assert target("memory", 10_000, "get") == 3.0
    assert target("durable", 100_000, "get") == 1.0


def test_rows_are_the_same_each_time_and_their_masks_agree_with_their_namespaces() -> None:
    rows, again = Rows(2_000, home=20, large=50), Rows(2_000, home=20, large=50)
    assert [rows.value(row) for row in range(0, rows.total, 97)] == [
        again.value(row) for row in range(0, rows.total, 97)
    ]
    for row in (0, 19, 20, 1_033, 2_019, 2_020, 2_069):
        same = [other for other in range(rows.total) if rows.namespace(other) == rows.namespace(row)]
        assert rows.in_namespace_of(row).nonzero()[0].tolist() == same
    org = [row for row in range(rows.total) if rows.namespace(row)[:2] == ("mem", "org07")]
    assert rows.in_org(7).nonzero()[0].tolist() == org


def test_vectors_of_texts_are_looked_up_by_their_first_word() -> None:
    rows, vectors = Rows(50), Vectors(60, 8)
    row, query = vectors.embed([rows.text(7), "q3"])
    assert row == vectors.rows[7].tolist()
    assert query == vectors.queries[3].tolist()
    with InMemoryStore(index={"dims": 8, "embed": vectors.embed, "fields": ["text"]}) as store:
        store.put(("a",), "k", rows.value(7))
        (hit,) = store.search((), query="q3")
    assert hit.score == pytest.approx(float(vectors.rows[7] @ vectors.queries[3]), abs=1e-6)
