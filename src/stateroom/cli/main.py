"""The entry point of the command line, which says what to install where its own packages are missing."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command that the arguments name."""
    try:
        from stateroom.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The command line needs two more packages: pip install 'stateroom[cli]'")
    app()
