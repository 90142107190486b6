"""Self-improving instructions: the agent edits the file that tells it how to work, and that others wrote."""

from __future__ import annotations

import tempfile
from pathlib import Path

from desk import ASSISTANT, Desk, say, use

from stateroom import SqliteStore
from stateroom.files import create_file_data, file_data_to_string

PROMPT = """You have a file at /memories/instructions.txt with additional instructions and preferences.

Read this file at the start of conversations to understand user preferences.

When users provide feedback like "please always do X" or "I prefer Y", update /memories/instructions.txt
using the edit_file tool."""
INSTRUCTIONS = "/memories/instructions.txt"


def journey(desk: Desk) -> None:
    """Write the first instructions from outside, let the agent improve them, and read them from outside."""
    files = (ASSISTANT, "filesystem")
    with SqliteStore(desk.path) as store:
        # The agent's path is /memories/instructions.txt; its key is without what the route stands for.
        store.put(files, "/instructions.txt", create_file_data("Be polite.\nUse metric units."))
    said = desk.talk(
        "first",
        PROMPT,
        "How far is it? I prefer miles.",
        use("read_file", file_path=INSTRUCTIONS),
        use(
            "edit_file",
            file_path=INSTRUCTIONS,
            old_string="Use metric units.",
            new_string="Use miles.\nSay where a distance is from.",
        ),
        say("{}"),
    )
    print(f"edited      {said}")
    said = desk.talk("second", PROMPT, "And now?", use("read_file", file_path=INSTRUCTIONS), say("{}"))
    print(f"read        {said.splitlines()[1:]}")
    with SqliteStore(desk.path) as store:
        item = store.get(files, "/instructions.txt")
    assert item is not None
    print(f"outside     {file_data_to_string(item.value).splitlines()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        journey(Desk(Path(folder) / "memory.db"))
