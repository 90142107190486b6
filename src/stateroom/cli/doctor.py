"""The command ``doctor``: whether a project can be served here, and what to mend if not."""

from __future__ import annotations

from typing import Annotated

import typer

from stateroom.cli.console import log_to_stderr, said
from stateroom.cli.options import Config, Storage, Verbose
from stateroom.cli.serving import PROJECT

__all__ = ["doctor"]


def doctor(
    config: Config = PROJECT,
    storage: Storage = None,
    write_test: Annotated[
        bool,
        typer.Option(
            "--write-test", help="Also write a thread, a checkpoint and an item, read them back, remove them."
        ),
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Check a project: its configuration, graphs, authentication, storage and port; 1 if it cannot run."""
    log_to_stderr(verbose=verbose)
    with said():
        from stateroom.boot.checking import check_project

        healthy = True
        for finding in check_project(config, {"storage": storage}, write_test=write_test):
            mark, colour = ("ok  ", typer.colors.GREEN) if finding.good else ("BAD ", typer.colors.RED)
            if finding.good is None:
                mark, colour = "note", typer.colors.YELLOW
            typer.echo(f"{typer.style(mark, fg=colour)} {finding.what}: {finding.says}")
            healthy = healthy and finding.good is not False
    raise typer.Exit(0 if healthy else 1)
