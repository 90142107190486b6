"""A research project: sources, notes and a report grow over several sessions, and old sources are pruned."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from desk import ASSISTANT, Desk, say, use

from stateroom import SqliteStore
from stateroom.files import StoreBackend

PROMPT = """You are a research assistant.

Save your research progress to /memories/research/:
- /memories/research/sources.txt - List of sources found
- /memories/research/notes.txt - Key findings and notes
- /memories/research/report.md - Final report draft

This allows research to continue across multiple sessions."""
RESEARCH = "/memories/research"


def journey(desk: Desk) -> None:
    """Collect on one day, write on another, and see from outside what there is and what may go."""
    said = desk.talk(
        "collecting",
        PROMPT,
        "Find out how tides work.",
        use("write_file", file_path=f"{RESEARCH}/sources.txt", content="An almanac\nA harbour master"),
        use(
            "write_file",
            file_path=f"{RESEARCH}/notes.txt",
            content="The moon pulls the sea.\nSo does the sun.\n",
        ),
        say("{}"),
    )
    print(f"collected   {said}")
    said = desk.talk(
        "writing",
        PROMPT,
        "Write the report.",
        use("ls", path=RESEARCH),
        use("read_file", file_path=f"{RESEARCH}/notes.txt"),
        use("write_file", file_path=f"{RESEARCH}/report.md", content="# Tides\n\nThe moon pulls the sea.\n"),
        use(
            "edit_file",
            file_path=f"{RESEARCH}/report.md",
            old_string="The moon pulls",
            new_string="Moon and sun pull",
        ),
        say("{}"),
    )
    print(f"written     {said}")
    said = desk.talk(
        "reading", PROMPT, "Show me.", use("read_file", file_path=f"{RESEARCH}/report.md"), say("{}")
    )
    print(f"report      {said.splitlines()[-1]}")
    with SqliteStore(desk.path) as store:
        files = StoreBackend(store=store, namespace=(ASSISTANT, "filesystem"))
        print(f"usage       {files.usage().files} files, {files.usage().bytes} bytes")
        old = files.prune(older_than=timedelta(days=30), keep=1, protect=["*.md"], dry_run=True)
    print(f"prune       {len(old.files)} of them are older than 30 days")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        journey(Desk(Path(folder) / "memory.db"))
