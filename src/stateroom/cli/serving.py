"""The commands that serve a project: ``dev`` and ``start``."""

from __future__ import annotations

import gc
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from stateroom import __version__
from stateroom.cli.console import log_to_stderr, said, say
from stateroom.cli.options import Concurrency, Config, Host, Port, RequestLog, RunTimeout, Storage, Verbose

if TYPE_CHECKING:
    from stateroom.boot.compose import Server
    from stateroom.settings import Settings

__all__ = ["DEV_CORS", "DEV_PORT", "START_PORT", "dev", "start"]

DEV_PORT: Final = 2024
START_PORT: Final = 8123

DEV_CORS: Final = {"allow_origin_regex": r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"}
"""Pages that may call ``stateroom dev`` from a browser unless ``http.cors`` says which: this machine's."""

PROJECT: Final = Path("langgraph.json")


def dev(
    config: Config = PROJECT,
    host: Host = None,
    port: Port = None,
    storage: Storage = None,
    n_jobs_per_worker: Concurrency = None,
    run_timeout: RunTimeout = None,
    no_reload: Annotated[
        bool, typer.Option("--no-reload", help="Leave the graphs as they are when files change.")
    ] = False,
    request_log: RequestLog = False,
    verbose: Verbose = False,
) -> None:
    """Serve a project while it is written: kept in .stateroom/ beside it, reloaded when its files change."""
    log_to_stderr(verbose=verbose, requests=request_log)
    given = _given(host, port, storage, n_jobs_per_worker, run_timeout)
    with said():
        settings = _settings(config, given, production=False)
        _serve(settings, reload=not no_reload, request_log=request_log)


def start(
    config: Config = PROJECT,
    host: Host = None,
    port: Port = None,
    storage: Storage = None,
    n_jobs_per_worker: Concurrency = None,
    run_timeout: RunTimeout = None,
    request_log: RequestLog = False,
    verbose: Verbose = False,
) -> None:
    """Serve a project in production: where it is kept must be said, and it survives a power cut there."""
    log_to_stderr(verbose=verbose, requests=request_log)
    given = _given(host, port, storage, n_jobs_per_worker, run_timeout)
    with said():
        settings = _settings(config, given, production=True)
        _serve(settings, reload=False, request_log=request_log)


def _given(
    host: str | None, port: int | None, storage: str | None, concurrency: int | None, timeout: float | None
) -> dict[str, Any]:
    return {
        "http.host": host,
        "http.port": port,
        "storage": storage,
        "limits.concurrency": concurrency,
        "limits.run_timeout": timeout,
    }


def _settings(config: Path, given: Mapping[str, Any], *, production: bool) -> Settings:
    """Return the settings in force, after saying what of them is not understood."""
    from stateroom.boot.environment import configure
    from stateroom.errors import Misconfigured

    usual: dict[str, Any] = {"http.port": DEV_PORT, "http.cors": DEV_CORS}
    if production:
        usual = {"http.port": START_PORT, "synchronous": "FULL", "studio_auth": False}
    found = configure(config, given, **usual)
    for warning in found.warnings:
        say(f"{typer.style('warning', fg=typer.colors.YELLOW)}: {warning}")
    if production and (not found.says_storage or found.settings.storage == "memory"):
        raise Misconfigured(
            "start must be told where to keep everything: --storage sqlite, or --storage postgres with "
            "STATEROOM_POSTGRES_URI; `stateroom dev` needs to be told nothing, and takes memory too",
            field="storage",
        )
    return found.settings


def _serve(settings: Settings, *, reload: bool, request_log: bool) -> None:
    with ExitStack() as stack:
        # Modules, models and routes stay as long as the process: to look for garbage among them again and
        # again, while they become more, would be a tenth of the start.
        gc.disable()
        stack.callback(gc.enable)
        # Before everything else: it takes a moment to open, and none to see that somebody else serves.
        from stateroom.boot.serving import bind, run

        listener = stack.enter_context(bind(settings.http.host, settings.http.port))
        from stateroom.boot.compose import Server

        server = Server(settings, lenient=reload)
        stack.callback(server.close)
        server.open()
        if reload:
            from stateroom.boot.watching import watching

            folders = server.parts.graphs.folders
            stack.enter_context(watching(settings.base, server.reload, folders=folders))

        def ready() -> None:
            if not reload:
                # Nor is it looked for among them from now on. What may be reloaded is to be freed one day.
                gc.freeze()
            gc.enable()
            _greet(server, listener)

        run(server, listener, request_log=request_log, ready=ready)


def _greet(server: Server, listener: socket.socket) -> None:
    settings = server.settings
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}{settings.http.mount_prefix}"
    say(f"Stateroom {__version__} serves {', '.join(server.parts.graphs.ids)} at {url}")
    say(f"  documents {url}/docs")
    say(f"  kept in   {_place(settings)}")
    if server.parts.auth is None and host not in ("127.0.0.1", "::1"):
        say("  anybody who reaches this address may do anything: there is no auth.path")


def _place(settings: Settings) -> str:
    """Say where everything is kept, without a password."""
    if settings.storage == "sqlite":
        return str(settings.base / Path(settings.sqlite_path).expanduser())
    if settings.storage == "postgres":
        return f"Postgres, schema {settings.postgres_schema}"
    return "memory: nothing survives this process"
