"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = [
    "Concurrency",
    "Config",
    "Host",
    "Port",
    "RequestLog",
    "RunTimeout",
    "Storage",
    "StorageName",
    "Verbose",
]

StorageName = Literal["memory", "sqlite", "postgres"]

Config = Annotated[Path, typer.Option("--config", "-c", help="The project's langgraph.json.")]
Host = Annotated[str | None, typer.Option(help="The address to listen on. [default: 127.0.0.1]")]
Port = Annotated[int | None, typer.Option("--port", "-p", min=0, max=65_535, help="The port; 0: any.")]
Storage = Annotated[StorageName | None, typer.Option(help="Where everything is kept.")]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--n-jobs-per-worker", "-n", min=1, max=1_000, help="Runs executed at a time. [default: 10]"
    ),
]
RunTimeout = Annotated[
    float | None, typer.Option(min=0.001, help="Seconds after which a run is ended. [default: never]")
]
RequestLog = Annotated[bool, typer.Option("--request-log/--no-request-log", help="Log every request.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log in detail.")]
