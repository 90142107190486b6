"""User preferences: what a user says once, the agent knows in every later conversation."""

from __future__ import annotations

import tempfile
from pathlib import Path

from desk import Desk, say, use

PROMPT = (
    "When users tell you their preferences, save them to /memories/user_preferences.txt "
    "so you remember them in future conversations."
)
PREFERENCES = "/memories/user_preferences.txt"


def journey(desk: Desk) -> None:
    """Keep a preference, and a draft that is of no use after the thread."""
    said = desk.talk(
        "monday",
        PROMPT,
        "Please answer briefly, and in French. And draft a letter.",
        use("write_file", file_path=PREFERENCES, content="Answers: brief\nLanguage: French"),
        use("write_file", file_path="/draft.txt", content="Chère Madame,"),
        say("{}"),
    )
    print(f"monday      {said}")
    said = desk.talk("monday", PROMPT, "Go on.", use("ls", path="/"), say("I see {}"))
    print(f"thread      {said}")
    said = desk.talk("tuesday", PROMPT, "What do I like?", use("read_file", file_path=PREFERENCES), say("{}"))
    print(f"tuesday     {said.splitlines()[1:]}")
    said = desk.talk("tuesday", PROMPT, "My draft?", use("read_file", file_path="/draft.txt"), say("{}"))
    print(f"transient   {said}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        journey(Desk(Path(folder) / "memory.db"))
