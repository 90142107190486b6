"""A real server on a real socket, in this process: one for each kind of storage, others as a test asks."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pytest
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient
from psycopg import sql

from stateroom.boot.compose import Server
from stateroom.boot.serving import bind, serve
from stateroom.settings import Limits, Settings

__all__ = ["GRAPHS", "PATIENCE", "Running", "StartServer", "eventually", "eventually_now"]

PATIENCE: Final = 30.0
"""Seconds after which a test gives up to wait for what it waits for."""

PAUSE: Final = 0.02

GRAPHS: Final = Path(__file__).with_name("graphs.py")

NAMES: Final = (
    *("echo", "slow", "hitl", "fail", "memo", "context", "blocking", "blocking_loop"),
    *("subgraph", "parallel", "chat", "custom"),
)

LIMITS: Final = Limits(lease=3.0, shutdown_grace=2.0)

StartServer = Callable[..., "Running"]

_numbers = count()


@dataclass
class Running:
    """A server that answers at ``url``; ``server.parts`` are its parts."""

    server: Server
    url: str
    _stop: Callable[[], object]
    _thread: threading.Thread
    _client: Any = None

    @property
    def client(self) -> Any:
        """The official sync client of the server, whose answers are of any type; it is closed with it."""
        if self._client is None:
            self._client = get_sync_client(url=self.url, api_key=None)
        return self._client

    def close(self) -> None:
        """Stop as on SIGTERM, and wait for the end; again does nothing."""
        if self._client is not None:
            self._client.close()
        if self._thread.is_alive():
            self._stop()
            self._thread.join()


def run_in_thread(server: Server) -> Running:
    """Serve in a thread, on a free port, as ``stateroom start`` does; return when requests are answered."""
    server.open()
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    started: Future[Callable[[], object]] = Future()

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def ready() -> None:
            started.set_result(lambda: loop.call_soon_threadsafe(stop.set))

        await serve(server, listener, stop=stop, ready=ready)

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run, name="test-server", daemon=True)
    thread.start()
    return Running(server, url, started.result(PATIENCE), thread)


def settings_of(kind: str, folder: Path, uri: str | None, schema: str, **changes: Any) -> Settings:
    """Return the settings of a test's server: all graphs of ``graphs.py``, short leases."""
    usual = Settings(
        base=folder,
        graphs={name: f"{GRAPHS}:{name}" for name in NAMES},
        storage=kind,  # type: ignore[arg-type]
        postgres_uri=uri,
        postgres_schema=schema,
        limits=LIMITS,
    )
    return replace(usual, **changes)


@pytest.fixture(scope="session", autouse=True)
def _without_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Spare each HTTP client the reading of certificates, which none needs and which outlasts most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        yield


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return what the server keeps everything in."""
    return str(request.param)


@pytest.fixture(scope="session")
def _places(request: pytest.FixtureRequest) -> Iterator[Callable[[], tuple[str, str]]]:
    """Return what answers the address of the Postgres server, and a schema that goes at the end."""
    made: list[tuple[str, str]] = []

    def new() -> tuple[str, str]:
        uri = str(request.getfixturevalue("postgres"))
        made.append((uri, f"server_{threading.get_native_id()}_{next(_numbers)}"))
        return made[-1]

    yield new
    for uri, name in made:
        # The tests' own server has gone already, with everything in it.
        with suppress(psycopg.OperationalError), psycopg.connect(uri, autocommit=True) as connection:
            connection.execute("set client_min_messages = 'warning'")
            connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def new_settings(
    _places: Callable[[], tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Settings]:
    """Return ``new_settings(kind, **changes)``: settings of a server with a file or a schema of its own."""

    def new(kind: str, **changes: Any) -> Settings:
        uri, schema = _places() if kind == "postgres" else (None, "stateroom")
        return settings_of(kind, tmp_path_factory.mktemp("server"), uri, schema, **changes)

    return new


@pytest.fixture(scope="session")
def running(kind: str, new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return the server that all tests of a kind share; leave nothing behind that others could count."""
    running = run_in_thread(Server(new_settings(kind)))
    yield running
    running.close()


@pytest.fixture
def start_server(new_settings: Callable[..., Settings]) -> Iterator[StartServer]:
    """Return ``start_server(kind="sqlite", *, auth, store, objects, settings, store_section, **changes)``.

    It starts another server, which the end of the test stops. ``changes`` are fields of ``Settings``,
    ``objects`` graphs by id, ``settings`` those of a former server, to start again on the same data;
    ``store`` is an open store, ``store_section`` that of a ``langgraph.json``.
    """
    with ExitStack() as stack:

        def start(
            kind: str = "sqlite",
            *,
            auth: Any = None,
            store: Any = None,
            objects: Mapping[str, Any] | None = None,
            settings: Settings | None = None,
            store_section: Mapping[str, Any] | None = None,
            **changes: Any,
        ) -> Running:
            if store_section is not None:
                changes["store"] = store_section
            chosen = replace(settings, **changes) if settings else new_settings(kind, **changes)
            running = run_in_thread(Server(chosen, auth=auth, store=store, graphs=objects))
            stack.callback(running.close)
            return running

        yield start


@pytest.fixture
def url(running: Running) -> str:
    """Return where the shared server answers."""
    return running.url


@pytest.fixture
async def client(url: str) -> AsyncIterator[LangGraphClient]:
    """Return the official async client of the shared server."""
    async with get_client(url=url, api_key=None) as client:
        yield client


@pytest.fixture
def sync_client(url: str) -> Iterator[SyncLangGraphClient]:
    """Return the official sync client of the shared server."""
    with get_sync_client(url=url, api_key=None) as client:
        yield client


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Return a plain HTTP client of the shared server."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        yield client


async def eventually(check: Callable[[], Any], *, within: float = PATIENCE) -> Any:
    """Call ``check``, sync or async, until it answers something true, and return that; fail in the end."""
    deadline = time.monotonic() + within
    while True:
        found = check()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {within} s: the last answer was {found!r}"
        # tidy: allow sleep because what is waited for cannot be waited on
        await asyncio.sleep(PAUSE)


def eventually_now(check: Callable[[], Any], *, within: float = PATIENCE) -> Any:
    """Do what ``eventually`` does, for tests that are not async."""
    deadline, pause = time.monotonic() + within, threading.Event()
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {within} s: the last answer was {found!r}"
        pause.wait(PAUSE)
    return found
