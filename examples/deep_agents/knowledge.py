"""A knowledge base: one conversation learns about a project, another one finds what was learnt."""

from __future__ import annotations

import tempfile
from pathlib import Path

from desk import ASSISTANT, Desk, say, use

from stateroom import SqliteStore
from stateroom.files import StoreBackend

PROMPT = "Save what you learn about the user's projects in files below /memories/, and look there first."
NOTES = "We build a web app with React.\nIt talks to the billing service."


def journey(desk: Desk) -> None:
    """Save notes, find them by a word, and rank them from outside by what a question is about."""
    said = desk.talk(
        "learning",
        PROMPT,
        "We're building a web app with React. Save project notes.",
        use("write_file", file_path="/memories/project_notes.txt", content=NOTES),
        use("write_file", file_path="/memories/team.txt", content="Mira leads the project."),
        say("{}"),
    )
    print(f"learnt      {said}")
    said = desk.talk(
        "asking",
        PROMPT,
        "What framework are we using?",
        use("glob", pattern="*.txt", path="/memories"),
        use("grep", pattern="React", path="/memories", output_mode="content"),
        say("{}"),
    )
    print(f"found       {' '.join(said.split())}")
    with SqliteStore(desk.path) as store:
        files = StoreBackend(store=store, namespace=(ASSISTANT, "filesystem"))
        hits = files.search("who is leading the projects?").matches or []
    print(f"ranked      {hits[0]['path']}: {hits[0]['text']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        journey(Desk(Path(folder) / "memory.db"))
