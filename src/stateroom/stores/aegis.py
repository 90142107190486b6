"""The store that keeps long-term memory on an AegisDB server."""

from __future__ import annotations

from typing import Any, Final

from typing_extensions import override

from stateroom.contract.items import Capability
from stateroom.drivers.aegis import AegisItems, Server
from stateroom.errors import Misconfigured, NotSupported
from stateroom.model.text import show
from stateroom.model.ttl import parse_ttl_config
from stateroom.search.index_config import parse_index_config
from stateroom.stores.base import Store
from stateroom.stores.operations import Translation

__all__ = ["AegisStore"]

HOST: Final = "127.0.0.1"
PORT: Final = 9470
NAMESPACE: Final = "langgraph"
SCAN_LIMIT_MAX: Final = 1000
NAMESPACE_BYTES_MAX: Final = 128


class AegisStore(Store):
    """Long-term memory on an AegisDB server, shared with users of the public ``aegisdb-langgraph`` package.

    ``namespace`` is AegisDB's own (its ``agent_id``, ``"langgraph"`` unless named): the server lets
    nobody read from another one. Labels and keys lie inside it. ``token`` is for a server that asks for
    one. ``client`` is an ``aegisdb.AegisClient``, whose address, token, timeouts and ``agent_id`` are
    used instead; the connections are the store's own. ``search_scan_limit`` is how many records a scan
    asks for at a time, at most 1000: answers are complete whatever it is.

    Operations of a batch stand alone, and writes have no conditions. A ``ttl`` is refused.
    ``put(..., index=False)`` keeps an item from queries; paths in ``index`` are accepted and change
    nothing, since the server indexes all of a value.
    """

    def __init__(
        self,
        *,
        host: str = HOST,
        port: int = PORT,
        namespace: str | None = None,
        token: str | None = None,
        client: Any = None,
        search_scan_limit: int = SCAN_LIMIT_MAX,
    ) -> None:
        if client is None:
            server = Server(host, port, NAMESPACE if namespace is None else namespace, token)
        else:
            if (host, port, token) != (HOST, PORT, None):
                raise Misconfigured(
                    "client has an address and a token of its own; leave host, port and token out",
                    field="client",
                )
            server = _server_of(client, namespace)
        _check(server)
        items = AegisItems(server, page=_check_scan_limit(search_scan_limit))
        settings, expiring = parse_index_config(None), parse_ttl_config(None)
        super().__init__(
            items, index=settings, ttl=expiring, index_config=None, ttl_config=None, embedder=None
        )
        self._aegis = items
        self._translation = _Translation(settings, expiring, items.capabilities, embeds=False)
        self.namespace: str | None = server.agent_id
        self.search_scan_limit = min(search_scan_limit, SCAN_LIMIT_MAX)

    @override
    async def asetup(self) -> None:
        """See that the server is there, as ``setup`` does."""
        await self._aegis.aopen()

    @override
    async def aclose(self) -> None:
        """Close the connections, as ``close`` does; the next call opens new ones."""
        self.close()


class _Translation(Translation):
    """Refuses what AegisDB cannot do by saying what can be done instead."""

    @override
    def _require(self, capability: Capability, field: str) -> None:
        if capability is Capability.TTL:
            raise NotSupported(
                "ttl: items on AegisDB do not expire, because it is only its working memory, the buffer of a "
                "session, that does; leave ttl out, and age items with the server's `forget` operation",
                field=field,
            )
        super()._require(capability, field)


_CLIENT_FIELDS: Final = ("host", "port", "token", "agent_id", "connect_timeout", "read_timeout")


def _server_of(client: Any, namespace: str | None) -> Server:
    """Return where a client of the public ``aegisdb`` package asks, and as whom."""
    missing = [name for name in _CLIENT_FIELDS if not hasattr(client, name)]
    if missing:
        raise Misconfigured(
            f"client is {show(client)}, which has no {missing[0]}; pass an aegisdb.AegisClient",
            field="client",
        )
    if namespace is not None and namespace != client.agent_id:
        raise Misconfigured(
            f"namespace is {show(namespace)} but client has the agent_id {show(client.agent_id)}; pass one "
            "of the two",
            field="namespace",
        )
    return Server(
        client.host,
        client.port,
        client.agent_id,
        client.token or None,
        client.connect_timeout,
        client.read_timeout,
    )


def _check(server: Server) -> None:
    if not isinstance(server.host, str) or not server.host:
        raise Misconfigured(f"host is {show(server.host)}; name a host", field="host")
    port = server.port
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65_536:
        raise Misconfigured(f"port is {show(port)}; pass a number from 1 to 65535", field="port")
    if server.token is not None and not isinstance(server.token, str):
        raise Misconfigured(f"token is {show(server.token)}; pass a string", field="token")
    if server.agent_id is not None and not _is_agent_id(server.agent_id):
        raise Misconfigured(
            f"namespace is {show(server.agent_id)}; AegisDB takes 1 to {NAMESPACE_BYTES_MAX} bytes without "
            "control characters",
            field="namespace",
        )


def _is_agent_id(text: object) -> bool:
    if not isinstance(text, str) or any(
        char < " " or char in "\x7f" or "\ud800" <= char <= "\udfff" for char in text
    ):
        return False
    return 1 <= len(text.encode()) <= NAMESPACE_BYTES_MAX


def _check_scan_limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise Misconfigured(
            f"search_scan_limit is {show(limit)}; pass a number of records from 1", field="search_scan_limit"
        )
    return min(limit, SCAN_LIMIT_MAX)
