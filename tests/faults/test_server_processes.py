"""Real servers that are killed, stopped and started: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.conftest import NewSchema
from tests.faults.relay import Relay, to_socket
from tests.server.conftest import PATIENCE, eventually_now
from tests.server.processes import Process, project

# Several servers start in each of these tests.
pytestmark = pytest.mark.timeout(180)

Place = Callable[[], tuple[Path, dict[str, str]]]

QUICK = {"STATEROOM_LEASE": "1", "STATEROOM_SHUTDOWN_GRACE": "10"}


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Mapping[str, str]]:
    """Return a project, and the variables that say where it is kept."""
    folder = tmp_path / "project"
    folder.mkdir()
    variables = {"STATEROOM_STORAGE": kind, **QUICK}
    if kind == "postgres":
        new_schema: NewSchema = request.getfixturevalue("new_schema")
        variables["STATEROOM_POSTGRES_URI"] = request.getfixturevalue("postgres")
        variables["STATEROOM_SCHEMA"] = new_schema()
    return project(folder), variables


def fill(client: Any) -> dict[str, Any]:
    """Have one of each kind of thing made and acknowledged; return what is answered for each."""
    thread = client.threads.create(metadata={"ship": "Beagle"})["thread_id"]
    client.runs.wait(thread, "echo", input={"messages": ["hi"]})
    client.threads.update_state(thread, {"answer": "noted"})
    client.store.put_item(["graph", "mem"], "k", {"v": 1})
    assistant = client.assistants.create("echo", name="mate", metadata={"made": "here"})["assistant_id"]
    client.crons.create_for_thread(thread, "echo", schedule="0 0 1 1 *", input={"messages": ["new year"]})
    later = client.runs.create(thread, "echo", input={"messages": ["later"]}, after_seconds=3_600)
    return {
        "thread": thread,
        "assistant": assistant,
        "later": later["run_id"],
        **look(client, thread, assistant),
    }


def look(client: Any, thread: str, assistant: str) -> dict[str, Any]:
    """Return what a client sees of what ``fill`` has made."""
    state = client.threads.get_state(thread)
    return {
        "values": state["values"],
        "checkpoint": state["checkpoint"],
        "history": [entry["checkpoint"] for entry in client.threads.get_history(thread)],
        "found": [found["thread_id"] for found in client.threads.search(metadata={"ship": "Beagle"})],
        "item": client.store.get_item(["graph", "mem"], "k"),
        "name": client.assistants.get(assistant)["name"],
        "crons": [cron["cron_id"] for cron in client.crons.search(thread_id=thread)],
        "runs": [(run["run_id"], run["status"]) for run in client.runs.list(thread)],
    }


def ticks(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def started(client: Any, log: Path, **state: Any) -> tuple[str, str]:
    """Start a run of many steps; return its thread and its id once two of the steps are done."""
    thread = client.threads.create()["thread_id"]
    run = client.runs.create(thread, "slow", input={"log_file": str(log), **state})["run_id"]
    eventually_now(lambda: len(ticks(log)) > 2)
    return thread, run


def test_a06_whatever_was_acknowledged_before_a_kill_is_there_after_it(
    place: tuple[Path, Mapping[str, str]],
) -> None:
    file, variables = place
    with Process("dev", file, "--no-reload", variables=variables) as process:
        before = fill(process.client)
        process.kill()
    with Process("dev", file, "--no-reload", variables=variables) as process:
        client = process.client
        after = look(client, before["thread"], before["assistant"])
        assert {name: before[name] for name in after} == after
        assert (before["later"], "pending") in after["runs"]
        client.runs.cancel(before["thread"], before["later"], wait=True)
        answer = client.runs.wait(before["thread"], "echo", input={"messages": ["again"]})
        assert len(answer["messages"]) == len(before["values"]["messages"]) + 2


def test_a04_a_run_that_a_kill_cuts_short_is_ended_or_taken_over(
    kind: str, place: tuple[Path, Mapping[str, str]], tmp_path: Path
) -> None:
    file, variables = place
    log = tmp_path / "ticks"
    with Process("start", file, variables=variables) as process:
        thread, run = started(process.client, log, steps=20, delay=0.1)
        process.kill()
    with Process("start", file, variables=variables) as process:
        client = process.client
        found = eventually_now(lambda: ended(client, thread, run))
        if kind == "postgres":
            assert found["status"] == "success"
            assert client.threads.get_state(thread)["values"]["n"] == 20
            # What was being done when the process died is done again; what was done before is not.
            done = [int(line.removeprefix("tick ")) for line in ticks(log)]
            assert sorted(set(done)) == [*range(1, 21)]
            assert len(done) <= 22
        else:
            assert found["status"] == "error"
            assert "abandoned" in str(client.threads.get(thread)["error"]).lower()
            assert len(ticks(log)) < 20, "its input is never replayed by itself"
        answer = client.runs.wait(thread, "echo", input={"messages": ["again"]})
        assert answer["messages"][-1]["content"] == "echo: again"


def ended(client: Any, thread: str, run: str) -> Any:
    found = client.runs.get(thread, run)
    return found if found["status"] not in ("pending", "running") else None


def read(url: str, thread: str, run: str, events: list[tuple[str, str]], after: str = "0") -> None:
    """Add the number and the name of each event of a run's stream, up to where it is closed."""
    address = f"{url}/threads/{thread}/runs/{run}/stream"
    with httpx.stream("GET", address, headers={"Last-Event-ID": after}, timeout=PATIENCE) as response:
        name = number = ""
        for line in response.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                number = value
            elif not line and name:
                events.append((number, name))
                name = number = ""


def test_a43_a_run_that_a_stop_interrupts_goes_on_after_the_next_start(
    place: tuple[Path, Mapping[str, str]], tmp_path: Path
) -> None:
    file, variables = place
    log, short = tmp_path / "ticks", tmp_path / "short"
    with Process("start", file, variables=variables) as process:
        client = process.client
        thread, run = started(client, log, steps=20, delay=0.1)
        other = client.threads.create()["thread_id"]
        one_step = client.runs.create(other, "slow", input={"log_file": str(short), "steps": 1, "delay": 0.5})
        eventually_now(lambda: ticks(short))
        seen: list[tuple[str, str]] = []
        with ThreadPoolExecutor(1) as reader:
            reading = reader.submit(read, process.url, thread, run, seen)
            eventually_now(lambda: seen)
            assert process.terminate() == 0, process.log
            reading.result()
        assert not any("Traceback" in line for line in process.log), process.log
    assert len(ticks(log)) < 20, "it was drained, not waited for"
    assert ("", "end") not in seen, "the run has not ended"
    with Process("start", file, variables=variables) as process:
        client = process.client
        assert client.runs.get(other, one_step["run_id"])["status"] == "success", "it ended within the grace"
        assert eventually_now(lambda: ended(client, thread, run))["status"] == "success"
        assert ticks(log) == [f"tick {number}" for number in range(1, 21)], "each step once"
        assert ticks(short) == ["tick 1"]
        # Who reads on sees each event once, and the end.
        read(process.url, thread, run, seen, after=seen[-1][0])
        assert seen.pop() == ("", "end")
        assert [int(number) for number, _ in seen] == [*range(1, len(seen) + 1)]


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_second_signal_ends_a_server_that_waits(
    place: tuple[Path, Mapping[str, str]], tmp_path: Path
) -> None:
    file, variables = place
    log = tmp_path / "ticks"
    with Process("start", file, variables={**variables, "STATEROOM_SHUTDOWN_GRACE": "600"}) as process:
        client = process.client
        thread = client.threads.create()["thread_id"]
        client.runs.create(thread, "slow", input={"log_file": str(log), "steps": 1, "delay": 600})
        eventually_now(lambda: ticks(log))
        process.signal(signal.SIGINT)
        eventually_now(lambda: process.says("stopping"))
        process.signal(signal.SIGINT)
        assert process.wait() == 130


@pytest.mark.parametrize("kind", ["postgres"])
def test_a43_another_instance_takes_over_and_a_stopped_one_leaves_no_connection(
    place: tuple[Path, dict[str, str]], postgres: str, tmp_path: Path
) -> None:
    file, variables = place
    named = {**variables, "STATEROOM_POSTGRES_URI": make_conninfo(postgres, application_name="one")}
    log = tmp_path / "ticks"
    # Two at once, on a schema that is not there yet.
    one = Process("start", file, variables=named)
    two = Process("start", file, variables=variables)
    with one, two:
        thread, run = started(one.client, log, steps=20, delay=0.1)
        first = two.client.runs.get(thread, run)
        assert first["status"] == "running"
        assert one.terminate() == 0
        with psycopg.connect(postgres) as connection:
            query = "select count(*) from pg_stat_activity where application_name = 'one'"
            assert connection.execute(query).fetchone() == (0,)
        client = two.client
        assert eventually_now(lambda: ended(client, thread, run))["status"] == "success"
        assert ticks(log) == [f"tick {number}" for number in range(1, 21)], "each step once"


SOON = timedelta(seconds=5)
"""What a user waits for the start of a short run at most, whatever has happened to another instance."""


@pytest.mark.parametrize("kind", ["postgres"])
def test_a12_an_instance_whose_connections_hang_delays_no_run(
    place: tuple[Path, dict[str, str]], postgres: str
) -> None:
    file, variables = place
    folder = conninfo_to_dict(postgres)["host"]
    with Relay(to_socket(f"{folder}/.s.PGSQL.5432")) as relay:
        hung = make_conninfo(postgres, host="127.0.0.1", port=relay.port, sslmode="disable")
        # Neither has room for all, so both have some of the runs when the connections of one hang.
        one = Process("start", file, "-n", "4", variables={**variables, "STATEROOM_POSTGRES_URI": hung})
        two = Process("start", file, "-n", "4", variables=variables)
        with one, two, ThreadPoolExecutor(8) as threads:
            client = two.client

            def short(number: int) -> timedelta:
                if number == 10:
                    relay.freeze()
                thread = client.threads.create()["thread_id"]
                client.runs.wait(thread, "slow", input={"steps": 3, "delay": 0.1})
                (run,) = client.runs.list(thread)
                assert run["status"] == "success"
                return datetime.fromisoformat(run["updated_at"]) - datetime.fromisoformat(run["created_at"])

            taken = list(threads.map(short, range(40)))
            assert max(taken) < SOON


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a20_of_two_that_start_at_once_on_a_file_one_serves(place: tuple[Path, Mapping[str, str]]) -> None:
    file, variables = place
    both = [Process("start", file, variables=variables) for _ in range(2)]
    try:
        eventually_now(lambda: any(each.says("in use by another process") for each in both))
        (loser,) = [each for each in both if each.says("in use by another process")]
        assert loser.wait() == 1
        winner = both[1 - both.index(loser)]
        eventually_now(lambda: winner.url)
        assert winner.client.assistants.count() == 4
    finally:
        for each in both:
            each.kill()
