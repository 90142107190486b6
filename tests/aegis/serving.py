"""Where tests find an AegisDB: a small one of their own, or the one that an environment variable names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

from stateroom.clock import Clock, system_clock
from stateroom.errors import NotSupported
from stateroom.model.ttl import parse_ttl_config
from stateroom.search.analysis import Analyzer
from stateroom.search.index_config import parse_index_config
from stateroom.stores.aegis import AegisStore
from tests.aegis.server import AegisServer

__all__ = ["Place", "at_hand"]

VARIABLE = "STATEROOM_TEST_AEGIS"


class Place(NamedTuple):
    """A namespace of a server, which is empty at first."""

    host: str
    port: int
    namespace: str

    def open(
        self,
        *,
        index: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        index_keys: Sequence[str] = (),  # noqa: ARG002  # they make nothing slower or faster here
        clock: Clock = system_clock,  # noqa: ARG002  # the server has its own
    ) -> AegisStore:
        """Open a store as the conformance suite does; a setting that the store does not have is refused."""
        Analyzer(parse_index_config(index).language)
        parse_ttl_config(ttl)
        for field, setting in (("index", index), ("ttl", ttl)):
            if setting is not None:
                raise NotSupported(f"{field}: AegisStore has no such setting", field=field)
        return AegisStore(host=self.host, port=self.port, namespace=self.namespace)


@contextmanager
def at_hand() -> Iterator[Place]:
    """Serve a new namespace: of the server ``host:port`` that STATEROOM_TEST_AEGIS names, or of our own."""
    if named := os.environ.get(VARIABLE):
        host, _, port = named.rpartition(":")
        yield Place(host, int(port), f"test-{uuid4().hex}")
    else:
        with AegisServer() as server:
            yield Place("127.0.0.1", server.port, "test")
