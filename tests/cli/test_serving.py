"""``stateroom dev`` and ``stateroom start``, as a developer and a deployment run them."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conftest import AGENT, FIRST, Run
from tests.conftest import NewSchema
from tests.server.conftest import eventually_now
from tests.server.processes import Process, project


def said(process: Process) -> object:
    return process.client.runs.wait(None, "agent", input={})["said"]


def test_dev_needs_to_be_told_nothing_and_keeps_everything_beside_the_project(folder: Path, run: Run) -> None:
    file = project(folder)
    with Process("dev", file) as process:
        thread = process.client.threads.create()["thread_id"]
        process.client.runs.wait(thread, "echo", input={"messages": ["hi"]})
        assert process.says(f"kept in   {folder / '.stateroom' / 'stateroom.db'}")
        assert not process.says("GET /ok")
        second = run("dev", "-c", file, "-p", "0")
        assert second.exit_code == 1
        assert f"is in use by another process (pid {process.pid})" in second.output
        port = process.port
        assert process.terminate() == 0
    # The port is free at once, and everything is there.
    with Process("dev", file, port=port) as process:
        assert process.client.threads.get_state(thread)["values"]["messages"][0] == "hi"
        page = {"Origin": "http://localhost:3000"}
        assert httpx.get(f"{process.url}/ok", headers=page).headers["access-control-allow-origin"]
        page = {"Origin": "http://localhost.example.org"}
        assert "access-control-allow-origin" not in httpx.get(f"{process.url}/ok", headers=page).headers


def test_dev_serves_what_was_saved_last_and_what_works(folder: Path) -> None:
    (folder / "broken.py").write_text("raise RuntimeError('no key')")
    with Process("dev", project(folder, {**AGENT, "broken": "./broken.py:graph"})) as process:
        assert process.says("the graph 'broken' cannot be used")
        assert said(process) == "first"
        (folder / "agent.py").write_text(FIRST.replace("first", "second"))
        eventually_now(lambda: said(process) == "second")
        (folder / "agent.py").write_text("this is no Python")
        eventually_now(lambda: process.says("what was loaded before stays in use"))
        assert said(process) == "second"


@pytest.mark.parametrize(("arguments", "frozen"), [((), False), (("--no-reload",), True)])
def test_a_server_has_only_what_it_needs_and_frees_what_may_be_reloaded(
    folder: Path, arguments: tuple[str, ...], frozen: bool
) -> None:
    says = "f\"{gc.isenabled()} {gc.get_freeze_count() > 0} {'numpy' in sys.modules}\""
    code = FIRST.replace('os.environ.get("SAID", "first")', says).replace("import os", "import gc, sys")
    (folder / "agent.py").write_text(code)
    with Process("dev", project(folder, AGENT), *arguments) as process:
        # It answers a moment before it says that it is ready.
        eventually_now(lambda: said(process) == f"True {frozen} False")


def test_dev_takes_the_environment_of_the_project_and_says_what_has_no_effect(folder: Path) -> None:
    (folder / ".env").write_text("SAID=by the file\nSTATEROOM_STORAGE=memory\n")
    file = project(folder, AGENT, env=".env", webhooks={}, stor={"x": 1})
    variables = {"STATEROOM_SPEED": "fast"}
    with Process("dev", file, "--no-reload", "--request-log", variables=variables) as process:
        assert said(process) == "by the file"
        assert process.says("memory: nothing survives")
        assert process.says("warning: webhooks has no effect here")
        assert process.says("warning: stor is not known")
        assert process.says("warning: the variable STATEROOM_SPEED is not known")
        (folder / "agent.py").write_text(FIRST.replace("def say(state):", "def say(state):\n    raise 1"))
        assert [said(process) for _ in range(3)] == ["by the file"] * 3
        assert process.terminate() == 0
        assert process.says('"POST /runs/wait HTTP/1.1" 200')
    assert not (folder / ".stateroom").exists()


@pytest.mark.parametrize("arguments", [(), ("--storage", "memory")])
def test_start_must_be_told_where_to_keep_everything(
    folder: Path, run: Run, arguments: tuple[str, ...]
) -> None:
    done = run("start", "-c", project(folder), *arguments)
    assert done.exit_code == 1
    assert "--storage sqlite" in done.output


def test_start_on_postgres_takes_its_address_from_the_environment(
    folder: Path, postgres: str, new_schema: NewSchema
) -> None:
    variables = {"STATEROOM_POSTGRES_URI": postgres, "STATEROOM_SCHEMA": new_schema()}
    file = project(folder, http={"mount_prefix": "/agents"})
    with Process("start", file, variables=variables) as process:
        assert process.url.endswith("/agents")
        info = httpx.get(f"{process.url}/info").json()
        assert info["metadata"]["storage"] == "postgres"
        assert process.says(f"kept in   Postgres, schema {variables['STATEROOM_SCHEMA']}")
        assert process.terminate() == 0


def test_a_port_that_is_taken_is_said_and_nothing_else_happens(folder: Path, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("dev", "-c", project(folder), "-p", str(port))
    assert done.exit_code == 1
    assert f"port {port} of 127.0.0.1 cannot be taken" in done.output
    assert not (folder / ".stateroom").exists()


@pytest.mark.parametrize(
    ("content", "variables", "says"),
    [
        ({"graphs": {"agent": "./nowhere.py:graph"}}, {}, "graphs.agent"),
        ({"graphs": {"agent": "./agent.py:grahp"}}, {}, "graphs.agent"),
        ({"encryption": {"path": "./e.py:e"}}, {}, "misconfigured: encryption"),
        ({"stateroom": {"storage": "redis"}}, {}, "misconfigured: stateroom.storage"),
        ({}, {"PORT": "http"}, "misconfigured: PORT is 'http'"),
        ({"store": {"index": {"dims": 3}}}, {}, "misconfigured: store.index.dims"),
        ({"store": {"path": "./agent.py:graph"}}, {}, "misconfigured: store.path"),
        ({"auth": {"path": "./auth.py:auth"}}, {}, "misconfigured: auth.path"),
        ({"auth": {"path": "./agent.py:graph"}}, {}, "misconfigured: auth.path"),
        ({"http": {"app": "./agent.py:graph"}}, {}, "misconfigured: http.app"),
        ({}, {"STATEROOM_POSTGRES_URI": "postgresql://me:s3cret@127.0.0.1:1/db"}, "unavailable"),
        (
            {},
            {"STATEROOM_POSTGRES_URI": "mysql://me:s3cret@host/db"},
            "misconfigured: STATEROOM_POSTGRES_URI",
        ),
        ({}, {"STATEROOM_POSTGRES_URI": "postgresql://me:s3cret@h/d?a=b"}, "the parameter 'a'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_and_ends_in_an_error(
    folder: Path, run: Run, content: dict[str, Any], variables: dict[str, str], says: str
) -> None:
    kept = () if "STATEROOM_POSTGRES_URI" in variables else ("--storage", "sqlite")
    port = () if "PORT" in variables else ("-p", "0")
    file = project(folder, **{"graphs": AGENT, **content})
    done = run("start", "-c", file, *kept, *port, variables=variables)
    assert done.exit_code == 1
    assert says in done.output
    assert isinstance(done.exception, SystemExit), "it is said, not raised"
    assert "s3cret" not in done.output
