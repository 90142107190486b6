"""A LangGraph agent is told things, is killed, and still knows them in its next life: ``make demo``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from remembering.plain import PlainView
from remembering.story import Event, Story

HERE = Path(__file__).parent


class View(Protocol):
    """Whoever tells the story to people."""

    def opening(self, story: Story) -> None: ...
    def event(self, event: Event, story: Story) -> None: ...
    def killed(self, story: Story) -> None: ...
    def refused(self, refusal: Event) -> None: ...
    def verdict(self, story: Story, seconds: float) -> None: ...


class Silence:
    """Tells nothing, since the document at the end says it all."""

    def opening(self, story: Story) -> None: ...
    def event(self, event: Event, story: Story) -> None: ...
    def killed(self, story: Story) -> None: ...
    def refused(self, refusal: Event) -> None: ...
    def verdict(self, story: Story, seconds: float) -> None: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if all went as expected, 1 if not, 2 if it could not start."""
    options = parsed(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        # A terminal without the signs that are printed gets question marks, not a traceback.
        sys.stdout.reconfigure(errors="replace")
    began = time.monotonic()
    view = chosen_view(options)
    with place(options) as path:
        story = Story(options.store, path)
        view.opening(story)
        parts = ["both"] if path is None else ["monday", "tuesday"]
        for part in parts:
            if not play(part, story, view):
                break
        seconds = time.monotonic() - began
        if story.refused:
            view.refused(story.refused)
        else:
            view.verdict(story, seconds)
        if options.json:
            print(json.dumps(story.document() | {"seconds": round(seconds, 3)}, indent=2, ensure_ascii=False))
        elif path is not None and (options.keep or options.path) and not story.refused:
            print(f"Kept: {path}")
    return 2 if story.refused else 0 if story.ok() else 1


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="remember.py", description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "memory"], default="sqlite", help="default: sqlite")
    parser.add_argument(
        "--path", metavar="FILE", help="the SQLite file, kept afterwards; default: a temporary one"
    )
    parser.add_argument("--keep", action="store_true", help="keep the temporary file, and say where it is")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON document instead of the story")
    output.add_argument("--plain", action="store_true", help="print plain text, as without the package rich")
    options = parser.parse_args(arguments)
    if options.store == "memory" and (options.path or options.keep):
        parser.error("--store memory keeps nothing, so --path and --keep make no sense with it")
    return options


def chosen_view(options: argparse.Namespace) -> View:
    """Return how the story is told."""
    if options.json:
        return Silence()
    if not options.plain:
        try:
            from remembering.panels import PanelView
        except ImportError:
            return PlainView()
        return PanelView()
    return PlainView()


@contextmanager
def place(options: argparse.Namespace) -> Iterator[str | None]:
    """Yield where the database is, None for memory; remove it afterwards if nobody asked for it."""
    if options.store == "memory":
        yield None
    elif options.path:
        yield str(Path(options.path).resolve())
    elif options.keep:
        yield str(Path(tempfile.mkdtemp(prefix="stateroom-demo-")) / "memory.db")
    else:
        with tempfile.TemporaryDirectory(prefix="stateroom-demo-", ignore_cleanup_errors=True) as folder:
            yield str(Path(folder) / "memory.db")


def play(part: str, story: Story, view: View) -> bool:
    """Run one process and follow what it reports; kill it when it waits for that; tell whether to go on."""
    command = [sys.executable, "-m", "remembering.process", part]
    if story.path is not None:
        command += ["--path", story.path]
    with subprocess.Popen(  # noqa: S603  # this file's own program
        command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "waiting":
                process.kill()
                story.killed = process.wait() != 0
                view.killed(story)
                return True
            story.add(event)
            view.event(event, story)
    return process.returncode == 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # The reader has seen enough, as `head` does; Python must not try to write the rest at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
