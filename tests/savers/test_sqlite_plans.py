"""That no statement of the saver reads more of the tables than it must, so that large files stay fast."""

from __future__ import annotations

import json
import re
import sqlite3
from importlib.resources import files
from typing import Any

import pytest

from stateroom.drivers.sql.queries import named
from stateroom.savers import SqliteSaver
from stateroom.testing.savers_harness import put

STATEMENTS = named(files("stateroom.drivers.sqlite").joinpath("checkpoints.sql").read_text(encoding="utf-8"))

READS_A_THREAD = {
    *("checkpoints_copy", "writes_copy", "checkpoints_measure", "writes_measure", "remove_stray"),
    *("checkpoints_erase", "writes_erase", "checkpoints_erase_namespace", "writes_erase_namespace"),
    *("checkpoints_namespaces", "writes_namespaces"),
}
"""These are about all rows of a thread, or of a namespace, or step from one namespace to the next."""

NARROW = ("checkpoint_ns=?", "<expr>=?")
"""One of these is how a step finds what it looks for, and not all of a thread."""

PARAMETERS: dict[str, Any] = {
    **dict.fromkeys(
        ("thread_id", "ns", "checkpoint_id", "before", "run_id", "root", "new_id", "parent_id"), "x"
    ),
    **dict.fromkeys(("task_id", "task_path", "channel", "type", "checkpoint", "metadata", "blob"), "x"),
    **dict.fromkeys(("ids", "kept", "channels"), json.dumps(["x"])),
    **dict.fromkeys(("count", "limit", "idx"), 1),
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> sqlite3.Connection:
    path = tmp_path_factory.mktemp("plans") / "checkpoints.db"
    with SqliteSaver(path) as saver:
        put(saver, 1)
    return sqlite3.connect(path)


@pytest.mark.parametrize("name", sorted(set(STATEMENTS) - {"names", "columns"}))
def test_rows_are_found_by_an_index(connection: sqlite3.Connection, name: str) -> None:
    sql = re.sub(r"\{each (?:bigint )?:(\w+)\}", r"json_each(:\1)", STATEMENTS[name])
    if "create " in sql or "alter " in sql:
        return
    steps = [step for *_, step in connection.execute(f"explain query plan {sql}", PARAMETERS)]
    touched = [step for step in steps if re.search(r"\b(checkpoints|writes|c|p)\b", step)]
    assert not [step for step in touched if step.startswith("SCAN")], steps
    if name not in READS_A_THREAD:
        assert all(any(narrow in step for narrow in NARROW) for step in touched), steps


def test_a_thread_s_latest_is_found_without_sorting(connection: sqlite3.Connection) -> None:
    for name in ("newest", "newest_not_of"):
        steps = [
            step for *_, step in connection.execute(f"explain query plan {STATEMENTS[name]}", PARAMETERS)
        ]
        assert not [step for step in steps if "TEMP B-TREE" in step], steps
