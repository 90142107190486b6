"""The entry point of the command line, which says what to install where packages are missing."""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["main"]

NEEDS: Final = {
    "stateroom[cli]": ("typer", "rich"),
    "stateroom[server]": (
        *("cronsim", "dotenv", "fastapi", "langgraph_sdk", "prometheus_client", "starlette", "uvicorn"),
        *("watchfiles", "websockets"),
    ),
}
"""The packages that each extra brings."""


def main() -> None:
    """Run the command that the arguments name."""
    try:
        from stateroom.cli.commands import app

        app()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        for extra, packages in NEEDS.items():
            if missing in packages:
                sys.exit(f"This needs more packages ({missing} is missing): pip install '{extra}'")
        raise
