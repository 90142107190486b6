"""The command line: ``stateroom``."""

from stateroom.cli.main import main

__all__ = ["main"]
