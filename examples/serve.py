"""A server runs an agent, is killed in the middle of a conversation, and goes on with it: ``make demo``."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_sync_client

PROJECT = Path(__file__).parent / "serving"
ANA = {"guest": "ana"}
STARTING_SECONDS = 30


def main() -> int:
    """Tell the story; 0 if everything that the server had acknowledged was there in its second life."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="stateroom-demo-") as place:
        home = Path(shutil.copytree(PROJECT, Path(place) / "serving"))
        client: Any = get_sync_client(url=f"http://127.0.0.1:{port}")
        say("$ cd serving && stateroom dev")
        with server(home, port) as process:
            first = before(client)
            say("", "kill -9, with a question open", "", "$ stateroom dev")
            process.kill()
        with server(home, port):
            survived = after(client, first)
    say("", "Everything was there." if survived else "Something was lost.")
    return 0 if survived else 1


def before(client: Any) -> str:
    """Talk until the agent has asked something; return the conversation's id."""
    thread: str = client.threads.create(metadata={"guest": "ana"})["thread_id"]
    said(client, thread, "I love window seats.")
    said(client, thread, "Book a table for two at Luna.")
    return thread


def after(client: Any, thread: str) -> bool:
    """Go on where the first server was killed; tell whether all was there."""
    state = client.threads.get_state(thread)
    (waiting,) = client.threads.search(status="interrupted", metadata={"guest": "ana"})
    say(f"  still asks: {state['tasks'][0]['interrupts'][0]['value']['question']}")
    booked = answered(client, thread, resume=True)
    new = client.threads.create(metadata={"guest": "ana"})["thread_id"]
    remembered = said(client, new, "Which seat do I like?")
    kept = client.store.search_items(["ana"])["items"]
    say(
        "",
        f"  {len(client.threads.search())} threads, {len(client.runs.list(thread))} runs of the first, "
        f"{len(client.threads.get_history(thread, limit=100))} checkpoints, {len(kept)} memory",
    )
    return (
        waiting["thread_id"] == thread and booked == "It is booked." and remembered.endswith("window seats.")
    )


def said(client: Any, thread: str, text: str) -> str:
    """Say something in a conversation and stream what comes of it; return the last words."""
    say(f"  ana:   {text}")
    return streamed(client, thread, input={"messages": [{"role": "user", "content": text}]})


def answered(client: Any, thread: str, *, resume: object) -> str:
    """Answer the question that a conversation waits with."""
    say("  ana:   yes")
    return streamed(client, thread, command={"resume": resume})


def streamed(client: Any, thread: str, **asked: Any) -> str:
    """Run the agent and print its steps as they come."""
    words = ""
    for part in client.runs.stream(thread, "concierge", context=ANA, stream_mode="updates", **asked):
        for node, update in (part.data if part.event == "updates" else {}).items():
            if node == "__interrupt__":
                words = update[0]["value"]["question"]
                say(f"  asks:  {words}")
            elif update:
                words = update["messages"][-1]["content"]
                say(f"  agent: {words}")
    return words


@contextmanager
def server(home: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``stateroom dev`` in a folder until it is no longer needed."""
    began = time.monotonic()
    process = subprocess.Popen(  # noqa: S603  # a program of ours, with arguments of ours
        [str(Path(sys.executable).with_name("stateroom")), "dev", "--port", str(port), "--no-reload"],
        cwd=home,
        env=os.environ | {"NO_COLOR": "1"},
        stdout=subprocess.DEVNULL,
        stderr=(home / "log").open("wb"),
    )
    try:
        wait(f"http://127.0.0.1:{port}/ok", process, home / "log")
        say(f"  up in {time.monotonic() - began:.1f} s")
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


def wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the server answers; give up when it has ended."""
    end = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            httpx.get(url, timeout=1).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.05)
        else:
            return
    sys.exit(f"The server did not start:\n{log.read_text()}")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def say(*lines: str) -> None:
    """Print lines at once."""
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
