"""NumPy is imported by those who have vectors, and by nobody else."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from stateroom import InMemoryStore, SqliteStore

with {store} as store:
    store.put(("notes",), "a", {{"text": "a dog barks"}})
    assert store.search(("notes",), query="dog", filter={{"text": "a dog barks"}})[0].key == "a"
print("numpy" in sys.modules)
"""


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("opened", ["InMemoryStore(", "SqliteStore(':memory:', "])
def test_only_a_store_that_embeds_imports_numpy(opened: str, vectors: bool) -> None:
    index = "{'embed': lambda texts: [[1.0, 0.0]] * len(texts), 'dims': 2}" if vectors else "None"
    program = PROGRAM.format(store=f"{opened}index={index})")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(vectors), "")
