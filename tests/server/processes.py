"""Real ``stateroom dev`` and ``stateroom start`` processes, for the tests that kill them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from langgraph_sdk import get_sync_client

from tests.server.conftest import GRAPHS, PATIENCE

__all__ = ["COMMAND", "Process", "environment", "project", "run"]

COMMAND: Final = Path(sys.executable).parent / "stateroom"

SERVED: Final = ("echo", "slow", "hitl", "memo")

_READY: Final = re.compile(r"^Stateroom .* at (http://\S+)$")


def project(folder: Path, graphs: Mapping[str, str] | None = None, **content: Any) -> Path:
    """Write a ``langgraph.json`` with the tests' graphs; return the file."""
    named = {name: f"{GRAPHS}:{name}" for name in SERVED} if graphs is None else graphs
    file = folder / "langgraph.json"
    file.write_text(json.dumps({"graphs": named, **content}))
    return file


def environment(**variables: str) -> dict[str, str]:
    """Return an environment without settings of this machine's, with these."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "LANG")}
    return {**kept, "COLUMNS": "200", "NO_COLOR": "1", **variables}


class Process:
    """A server in a process of its own; ``url`` is where it answers, ``log`` what it has said."""

    def __init__(
        self,
        command: str,
        file: Path,
        *arguments: str,
        port: int = 0,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [COMMAND, command, "-c", file, "-p", str(port), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**(variables or {})),
            # Its folder is not the project's: nothing may depend on where it is started.
            cwd=file.parent.parent,
        )
        self.log: list[str] = []
        self.url = ""
        self._client: Any = None
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Process:
        self._ready.wait(PATIENCE)
        if not self.url:
            self.kill()
            raise AssertionError("\n".join(self.log))
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def client(self) -> Any:
        """The official sync client of the server, whose answers are of any type."""
        if self._client is None:
            self._client = get_sync_client(url=self.url, api_key=None)
        return self._client

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """End the process at once, as ``kill -9`` does."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._end()

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask the process to end."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; return its exit code."""
        code = self._process.wait(PATIENCE)
        self._end()
        return code

    def terminate(self) -> int:
        """Ask the process to end, and wait for it; return its exit code."""
        self.signal()
        return self.wait()

    def says(self, text: str) -> bool:
        """Tell whether it has said so."""
        return any(text in line for line in self.log)

    def _end(self) -> None:
        self._process.wait(PATIENCE)
        if self._client is not None:
            self._client.close()
        self._reader.join(PATIENCE)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with suppress(ValueError):
            for line in self._process.stderr:
                self.log.append(line.rstrip("\n"))
                if found := _READY.match(self.log[-1]):
                    self.url = found[1]
                    self._ready.set()
        self._ready.set()


def run(*arguments: str | Path, variables: Mapping[str, str] | None = None, cwd: Path | None = None) -> Any:
    """Run a command to its end; return it with its output."""
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(**(variables or {})),
        cwd=cwd,
        timeout=PATIENCE,
    )
