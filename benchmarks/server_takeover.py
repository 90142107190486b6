"""Taking over: how long after the death of the server that executes a run another one executes it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx

from benchmarks.measure import Line, Options
from benchmarks.promises import promised
from benchmarks.servers import postgres_server

__all__ = ["measure"]

ROUNDS: Final = 3
SECONDS_MOST: Final = 15.0
"""What was promised: the lease of a run."""


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Kill the server that executes a run, some times over, and wait for the next attempt on another."""
    rounds = 1 if options.quick else ROUNDS
    spent = sorted(_taken_over(folder / str(number)) for number in range(rounds))
    yield promised(
        "kill -9 until the next attempt",
        spent[-1] * 1e6,
        at_most=SECONDS_MOST * 1e6,
        verdict=", ".join(f"{each:.1f} s" for each in spent),
        suite="takeover",
        backend="postgres",
        n=1,
    )


def _taken_over(folder: Path) -> float:
    """Return the seconds from the death of the only server to the next attempt, on one that came later."""
    folder.mkdir()
    with postgres_server("first", folder) as first, httpx.Client(timeout=120) as client:
        thread = client.post(f"{first.url}/threads", json={}).json()["thread_id"]
        body = {"assistant_id": "flood", "input": {"seconds": 30.0}, "stream_mode": ["custom"]}
        run = client.post(f"{first.url}/threads/{thread}/runs", json=body).json()["run_id"]
        with postgres_server("second", folder) as second:
            path = f"/threads/{thread}/runs/{run}"
            if client.get(f"{second.url}{path}").json()["status"] != "running":
                raise RuntimeError("the run is not being executed")
            began = time.perf_counter()
            os.kill(first.pid or 0, signal.SIGKILL)
            with client.stream("GET", f"{second.url}{path}/stream") as answer:
                for line in answer.iter_lines():
                    if line.startswith("data:") and json.loads(line[5:]).get("attempt", 1) > 1:
                        return time.perf_counter() - began
    raise RuntimeError("nobody took the run over")
