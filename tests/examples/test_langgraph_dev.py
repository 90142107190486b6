"""LangGraph's own development server keeps items and checkpoints in our files, and leaves them there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from langgraph_sdk import get_sync_client

from stateroom import SqliteStore
from stateroom.savers import SqliteSaver

ROOT: Final = Path(__file__).parents[2]
LANGGRAPH: Final = Path(os.environ.get("LANGGRAPH_DEV_VENV", ROOT / ".venv-langgraph")) / "bin" / "langgraph"

START_SECONDS = 60.0
STOP_SECONDS = 30.0

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(autouse=True)
def server_is_installed() -> None:
    # The server is not open source, so it has an environment of its own.
    assert LANGGRAPH.exists(), "run 'make langgraph-dev', which sets up LangGraph's server"


class Server:
    """The server in a folder of its own, reached over loopback alone."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.output: list[str] = []
        self._started = threading.Event()
        self._process = subprocess.Popen(
            [LANGGRAPH, *f"dev --no-browser --no-reload --host 127.0.0.1 --port {self.port}".split()],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "NOTES_FILE": "kept.db",
                "THREADS_FILE": "kept_threads.db",
                "LANGSMITH_TRACING": "false",
                "LANGGRAPH_CLI_NO_ANALYTICS": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait(self) -> None:
        """Wait until it serves."""
        assert self._started.wait(START_SECONDS), self.told()
        assert self._process.poll() is None, self.told()

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._reader.join(STOP_SECONDS)

    def told(self) -> str:
        """Return what it has said."""
        return "".join(self.output)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.output.append(line)
                if "Application started up" in line:
                    self._started.set()
        # It has ended, and whoever waits need not wait on.
        self._started.set()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, since the server leaves files where it runs."""
    return shutil.copytree(
        ROOT / "examples" / "langgraph_dev",
        tmp_path / "app",
        ignore=shutil.ignore_patterns("__pycache__", "*.db"),
    )


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def test_the_server_keeps_items_in_our_store_and_they_outlive_it(server: Server, folder: Path) -> None:
    with get_sync_client(url=f"http://127.0.0.1:{server.port}", api_key=None) as client:
        store = client.store
        store.put_item(["notes", "ann"], "http", {"text": "The giraffes are asleep", "n": 10})
        store.put_item(["notes", "ann"], "other", {"text": "Water the plants", "n": 9})
        item = store.get_item(["notes", "ann"], "http")
        assert (item["namespace"], item["value"]) == (
            ["notes", "ann"],
            {"text": "The giraffes are asleep", "n": 10},
        )
        # Words that were stemmed, and numbers that are compared as numbers: our search, not the server's own.
        found = store.search_items(["notes"], query="a giraffe")["items"]
        assert [hit["key"] for hit in found] == ["http"]
        assert (found[0]["score"] or 0.0) > 0.0
        assert [hit["key"] for hit in store.search_items(["notes"], filter={"n": {"$gt": 9}})["items"]] == [
            "http"
        ]
        assert store.list_namespaces(["notes"])["namespaces"] == [["notes", "ann"]]
        state = client.runs.wait(None, "notes", input={"note": "Feed the giraffe"})
        assert state == {"note": "Feed the giraffe", "found": ["The giraffes are asleep"]}
        store.delete_item(["notes", "ann"], "other")
    server.stop()
    with SqliteStore(folder / "kept.db") as kept:
        texts = {item.namespace: item.value["text"] for item in kept.search(("notes",))}
    assert texts == {("notes", "ann"): "The giraffes are asleep", ("notes",): "Feed the giraffe"}, (
        server.told()
    )


def test_the_server_keeps_checkpoints_in_our_saver_and_they_outlive_it(server: Server, folder: Path) -> None:
    with get_sync_client(url=f"http://127.0.0.1:{server.port}", api_key=None) as client:
        threads, runs = client.threads, client.runs
        thread_id, other = (threads.create()["thread_id"] for _ in range(2))
        runs.wait(thread_id, "notes", input={"note": "One giraffe"})
        runs.wait(thread_id, "notes", input={"note": "Two giraffes"})
        told = {"note": "Two giraffes", "found": ["One giraffe"]}
        assert threads.get_state(thread_id)["values"] == told
        history = len(threads.get_history(thread_id))
        copied = threads.copy(thread_id)["thread_id"]  # type: ignore[func-returns-value, index]  # it does
        assert len(threads.get_history(copied)) == history
        # Which the server refuses with a checkpointer that cannot take a run's checkpoints away.
        undone = runs.create(thread_id, "notes", input={"note": "Three"})["run_id"]
        runs.cancel(thread_id, undone, wait=True, action="rollback")
        assert threads.get_state(thread_id)["values"] == told
        runs.wait(other, "notes", input={"note": "Gone"})
        threads.delete(other)
    server.stop()
    with SqliteSaver(folder / "kept_threads.db") as kept:
        latest = {
            thread_id: found.checkpoint["channel_values"].get("note")
            for thread_id in (thread_id, copied, other)
            if (found := kept.get_tuple({"configurable": {"thread_id": thread_id}}))
        }
    assert latest == {thread_id: "Two giraffes", copied: "Two giraffes"}, server.told()
