"""A real PgBouncer in front of a test's server, which gives each transaction whatever connection is free."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from tests.postgres.server import Server

__all__ = ["PROGRAM", "Pooler"]

# Debian puts it where only administrators look.
PROGRAM: Final = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")

CONFIG: Final = """
[databases]
postgres = host={server} port={port} user=postgres dbname=postgres
[pgbouncer]
pool_mode = transaction
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
default_pool_size = {size}
max_client_conn = 200
"""


class Pooler:
    """A transaction pooler with so many connections to the server, until it closes."""

    def __init__(self, server: Server, size: int) -> None:
        assert PROGRAM is not None
        self._folder = Path(tempfile.mkdtemp(prefix="bouncer-"))
        as_user: list[str] = []
        if os.geteuid() == 0:
            # It refuses to run as root.
            as_user = ["-u", "nobody"]
            shutil.chown(self._folder, "nobody")
        config = self._folder / "ini"
        config.write_text(
            CONFIG.format(server=server.folder, port=server.port, folder=self._folder, size=size)
        )
        self.uri = f"postgresql://postgres@/postgres?host={quote(str(self._folder))}&port=6432"
        self._process = subprocess.Popen(
            [PROGRAM, *as_user, config], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if "process up" in line:
                return
        raise AssertionError("".join(said))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        shutil.rmtree(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
