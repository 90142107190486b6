"""Benchmarks beside a Postgres server of their own, from the wheel that the tests use."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from tests.postgres.server import Server

SETTINGS: Final[Mapping[str, str]] = {"shared_buffers": "128MB"}
"""As a server sets itself up; the tests' are smaller. It writes to the disk whatever it acknowledges."""


def main() -> int:
    """Start the server, measure with the arguments that were given, and stop the server."""
    with Server(SETTINGS) as server:
        os.environ["STATEROOM_TEST_POSTGRES"] = server.uri
        # It reads the environment when it is imported, here and in processes that it starts.
        from benchmarks.__main__ import main as measure

        return measure(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
