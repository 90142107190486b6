"""NumPy is imported by those who have vectors, and by nobody else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import NewSchema

PROGRAM = """
import sys
from stateroom import InMemoryStore, PostgresStore, SqliteStore

with {store} as store:
    store.put(("notes",), "a", {{"text": "a dog barks"}})
    assert store.search(("notes",), query="dog", filter={{"text": "a dog barks"}})[0].key == "a"
print("numpy" in sys.modules)
"""


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("kind", ["memory", "SQLite", "Postgres"])
def test_only_a_store_that_embeds_imports_numpy(
    kind: str, vectors: bool, postgres: str, new_schema: NewSchema
) -> None:
    opened = {
        "memory": "InMemoryStore(",
        "SQLite": "SqliteStore(':memory:', ",
        "Postgres": f"PostgresStore({postgres!r}, schema={new_schema()!r}, ",
    }
    index = "{'embed': lambda texts: [[1.0, 0.0]] * len(texts), 'dims': 2}" if vectors else "None"
    program = PROGRAM.format(store=f"{opened[kind]}index={index})")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(vectors), "")
