"""LangGraph's JavaScript SDK drives the server through what applications do with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1] / "javascript"


def test_journeys(url: str) -> None:
    node = Path(sys.executable).with_name("node")
    assert (HERE / "node_modules").is_dir(), "run make javascript"
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", "journeys.test.mjs"],
        cwd=HERE,
        env=os.environ | {"STATEROOM_URL": url},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 11" in done.stdout
