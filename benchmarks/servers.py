"""Starting the agent servers that are compared, each as a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import httpx

__all__ = ["POSTGRES", "AgentServer", "postgres_server", "servers", "tree_megabytes"]

PROJECT: Final = Path(__file__).parent / "server_project"
STATEROOM: Final = str(Path(sys.executable).with_name("stateroom"))
LANGGRAPH: Final = Path(__file__).parents[1] / ".venv-langgraph" / "bin" / "langgraph"
POSTGRES: Final = os.environ.get("STATEROOM_TEST_POSTGRES", "")
OTHERS: Final = os.environ.get("STATEROOM_BENCH_SERVERS", "")
"""Further servers, which run already and have a graph ``echo``: ``name=http://127.0.0.1:8000,...``."""

STARTING_SECONDS: Final = 60.0


class AgentServer(NamedTuple):
    """A server that answers: after how long it did, and its process, None when somebody else has it."""

    name: str
    url: str
    ours: bool
    started_in: float | None = None
    pid: int | None = None


@contextmanager
def servers(folder: Path, *, peers: bool, backends: Sequence[str]) -> Iterator[list[AgentServer]]:
    """Start ours on each database, and LangGraph's own; stop them in the end."""
    with ExitStack() as stack:
        found = []
        if not backends or "sqlite" in backends:
            found.append(stack.enter_context(_server("sqlite", [STATEROOM, "dev", "--no-reload"], folder)))
        if POSTGRES and (not backends or "postgres" in backends):
            found.append(stack.enter_context(postgres_server("postgres", folder)))
        if peers and LANGGRAPH.exists():
            command = [str(LANGGRAPH), "dev", "--no-browser", "--no-reload", "--n-jobs-per-worker", "10"]
            found.append(stack.enter_context(_server("langgraph dev", command, folder, ours=False)))
        if peers:
            for other in filter(None, OTHERS.split(",")):
                name, _, url = other.partition("=")
                found.append(AgentServer(name, url, ours=False))
        yield found


def postgres_server(name: str, folder: Path) -> AbstractContextManager[AgentServer]:
    """Return what starts one of ours on the database that all of them share."""
    command = [STATEROOM, "start", "--storage", "postgres"]
    return _server(name, command, folder, {"STATEROOM_POSTGRES_URI": POSTGRES})


@contextmanager
def _server(
    name: str,
    command: Sequence[str],
    folder: Path,
    environment: dict[str, str] | None = None,
    *,
    ours: bool = True,
) -> Iterator[AgentServer]:
    home = folder / name.replace(" ", "-")
    shutil.copytree(PROJECT, home)
    port = _free_port()
    began = time.perf_counter()
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=home,
            env=os.environ | (environment or {}),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        yield AgentServer(name, url, ours, _wait(url, began, home, process), process.pid)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _wait(url: str, began: float, home: Path, process: subprocess.Popen[bytes]) -> float:
    """Return after how many seconds a server answered."""
    while time.perf_counter() - began < STARTING_SECONDS and process.poll() is None:
        try:
            if httpx.get(f"{url}/ok", timeout=1).status_code == 200:
                return time.perf_counter() - began
        except httpx.TransportError:
            time.sleep(0.02)
    raise RuntimeError(f"{home.name} did not start: {(home / 'log').read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def tree_megabytes(pid: int, kind: str = "VmRSS") -> float:
    """Return how much memory a process and its children have resident; ``RssAnon``: without files' pages."""
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            lines = Path(f"/proc/{one}/status").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith(kind))
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, StopIteration):
            continue
    return total / 1024
