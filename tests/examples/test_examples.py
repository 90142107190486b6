"""The examples run as a user runs them, and show what they promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from examples.remembering.story import Story

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
USERS = {"ana", "ben"}


def run(
    name: str, *arguments: str, hide: str = "", folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run an example; ``hide`` is a package that it and its child processes shall not find."""
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    environment |= {"NO_COLOR": "1", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    if folder is not None:
        (folder / "sitecustomize.py").write_text(
            f"import sys\nsys.modules[{hide!r}] = None\n", encoding="utf-8"
        )
        environment["PYTHONPATH"] = str(folder)
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        cwd=folder,
        timeout=50,
        check=False,
    )


def shown(name: str) -> dict[str, str]:
    """Run an example that must succeed; return what it says by the first word of each line."""
    done = run(name)
    assert (done.returncode, done.stderr) == (0, "")
    return {line.split()[0]: line for line in done.stdout.splitlines()}


@cache
def story() -> dict[str, Any]:
    """Return what the demo says to machines; it is run once for all tests that ask."""
    done = run("remember.py", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def answers(by: str) -> list[dict[str, Any]]:
    return [answer for answer in story()["answers"] if answer["by"] == by]


def test_demo_kills_the_process_that_was_told_and_asks_another() -> None:
    assert story()["killed"]
    first, second = story()["pids"]
    assert first != second


def test_demo_finds_every_acknowledged_memory_after_the_kill() -> None:
    told = {(memory["user"], memory["key"], memory["text"]) for memory in story()["remembered"]}
    stored = {(user, *item) for user, texts in story()["stored"].items() for item in texts.items()}
    assert len(told) == 8
    assert stored == told


def test_demo_finds_exact_identifiers_by_their_text() -> None:
    (error, *codes) = answers("text")
    assert "ERR_SYNC_4711" in error["question"]
    assert "ERR_SYNC_4711" in error["reply"]
    assert [(code["user"], code["hits"][0]["text"][-8:-1]) for code in codes] == [
        ("ana", "QX7-44B"),
        ("ben", "ZP3-19K"),
    ]


def test_demo_finds_by_meaning_what_shares_no_word_with_the_question() -> None:
    found = answers("meaning")
    assert [answer["hits"][0]["text"] for answer in found] == [
        "I never eat meat.",
        "My daughter Mira plays the cello.",
    ]
    for answer in found:
        assert answer["hits"][0]["components"]["text"] is None
        assert answer["hits"][0]["components"]["vector"] >= 0.2


def test_demo_gives_nobody_the_memories_of_somebody_else() -> None:
    (stranger,) = answers("nothing")
    assert (stranger["user"], "QX7-44B" in stranger["question"]) == ("ben", True)
    assert any("QX7-44B" in text for text in story()["stored"]["ana"].values())
    for answer in story()["answers"]:
        own = set(story()["stored"][answer["user"]].values())
        assert {hit["text"] for hit in answer["hits"]} <= own
        (other,) = USERS - {answer["user"]}
        assert not own & set(story()["stored"][other].values())


def test_demo_asks_on_threads_that_were_not_told_anything() -> None:
    assert {answer["thread"] for answer in story()["answers"]} == {"ana-tuesday", "ben-tuesday"}


def test_demo_reads_well_without_colours_and_keeps_the_file_that_it_is_given(tmp_path: Path) -> None:
    done = run("remember.py", "--path", str(tmp_path / "kept.db"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert "8 of 8 acknowledged memories are still there after the kill" in done.stdout
    assert "All as it should be" in lines[-2]
    assert lines[-1] == f"Kept: {tmp_path / 'kept.db'}"
    assert (tmp_path / "kept.db").stat().st_size > 0


def test_demo_in_memory_says_why_it_kills_nothing_and_needs_no_rich(tmp_path: Path) -> None:
    done = run("remember.py", "--store", "memory", hide="rich", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing would survive its death, so it is not killed." in done.stdout
    assert "SIGKILL" not in done.stdout
    assert "╭" not in done.stdout
    assert "8 of 8 acknowledged memories are there" in done.stdout


def test_demo_without_the_local_embedder_says_what_to_install(tmp_path: Path) -> None:
    done = run("remember.py", "--plain", hide="wordllama", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert 'The demo cannot start. index.embed is "local"' in done.stdout
    assert 'pip install "stateroom[local]"' in done.stdout


def test_demo_fails_when_an_expectation_fails() -> None:
    told = story()
    retold = Story("sqlite", None, list(told["pids"]), told["remembered"], told["stored"], told["answers"])
    retold.killed = retold.done = True
    assert retold.ok()
    (forgotten, *_) = retold.stored["ana"]
    retold.stored["ana"] = {key: text for key, text in retold.stored["ana"].items() if key != forgotten}
    assert not retold.ok()
    assert [check.name for check in retold.checks() if not check.ok][:1] == ["stored"]


def test_quickstart_shows_each_thing_once() -> None:
    said = shown("quickstart.py")
    assert "revision 1" in said["get"]
    assert "'qx7-44b' finds trip" in said["search"]
    assert "['cello']" in said["filter"]
    assert "1 of 3" in said["count"]
    assert "[('ana', 'notes'), ('ben', 'notes')]" in said["namespaces"]
    assert "1 hit for Ana, of 2" in said["isolated"]
    assert "nothing was overwritten" in said["conflict"]
    assert "nights 5, seat 14A" in said["edited"]
    assert "None, and 1 item swept away" in said["expired"]


def test_semantic_example_finds_by_meaning_what_words_cannot() -> None:
    done = run("semantic.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(" ")] == [
        ["text", "nothing"],
        ["vector", "food"],
        ["hybrid", "food"],
        ["text", "work"],
        ["vector", "work"],
        ["hybrid", "work"],
    ]


def test_an_embedder_of_ones_own_is_called_once_a_batch_and_checked() -> None:
    said = shown("bring_your_embedder.py")
    assert "3 texts in 1 call" in said["embedded"]
    assert "1 call still" in said["unchanged"]
    assert "The night train" in said["search"]
    assert "index.dims is 1536 but the embedder returned 3 numbers" in said["refused"]


def test_async_agent_keeps_users_that_write_at_once_apart() -> None:
    done = run("async_agent.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 of 20 users got their own memory back" in done.stdout
    assert "40 memories in 20 namespaces" in done.stdout


@pytest.mark.parametrize("hide", ["", "deepagents"])
def test_files_without_deep_agents_are_written_searched_and_kept_from_writing(
    hide: str, tmp_path: Path
) -> None:
    done = run("files_tools.py", hide=hide, folder=tmp_path if hide else None)
    assert (done.returncode, done.stderr) == (0, "")
    *said, stored = done.stdout.splitlines()
    first = [line.split(maxsplit=1)[1] for line in said if line.startswith("first")]
    assert first == [
        "write_file: Updated file /memories/plan.md",
        "multi_edit_file: Successfully made 2 edit(s) in '/memories/plan.md', which replaced 2 instance(s)",
        "write_file: Updated file /scratch.txt",
        "write_file: Error: permission denied for write on /memories/rules/style.md",
    ]
    second = [line.split(maxsplit=1)[1] for line in said if line.startswith("second")]
    assert second == [
        "search_files: /memories/plan.md:3: - call Mira on Friday",
        "read_file: Error: File '/scratch.txt' not found",
    ]
    assert stored == "stored      ['/plan.md']"


@pytest.mark.parametrize("name", ["preferences", "instructions", "knowledge", "research"])
def test_examples_with_deep_agents_run(name: str) -> None:
    # What they say and store is tested in tests/files/test_journeys.py.
    assert len(shown(f"deep_agents/{name}.py")) > 2
