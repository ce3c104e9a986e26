"""uvicorn with what a server needs that faces a network: limits on slow clients, TLS, and quick ends."""

from __future__ import annotations

import asyncio
import asyncio.constants
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0  # within which a new connection has to send the head of a request
HEAD_BYTES = 64 * 1024  # of a request
CONNECTIONS = 256  # at a time
KEEP_ALIVE = 75  # seconds; kube-scheduler keeps its connections open


@dataclass(frozen=True)
class Tls:
    """Files of certificates; `client_authority`: whose certificates clients need."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


class _Guarded(HttpToolsProtocol):
    """Closes connections whose requests do not begin in time or whose heads grow too large, and refuses new ones in a
    crowd: those that are being served go on."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head: float = 0
        self._deadline = self.loop.call_later(HEADER_SECONDS, transport.close)
        if len(self.connections) > CONNECTIONS:
            transport.close()

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        if self._head > HEAD_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._deadline.cancel()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def on_headers_complete(self) -> None:
        self._head = -math.inf  # what follows is a body, which the application bounds
        self._deadline.cancel()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)


def make_server(application: Any, host: str, port: int, tls: Tls | None) -> uvicorn.Server:
    """A server that is not running yet."""
    # uvicorn has no option for it, and asyncio's minute is long for clients that open connections and say nothing.
    asyncio.constants.SSL_HANDSHAKE_TIMEOUT = HEADER_SECONDS
    files: dict[str, Any] = {}
    if tls is not None:
        files = {"ssl_certfile": str(tls.certificate), "ssl_keyfile": str(tls.key)}
        if tls.client_authority is not None:
            import ssl

            files |= {"ssl_ca_certs": str(tls.client_authority), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        http=_Guarded,
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,
        log_level="error",
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=2,
        **files,
    )
    return uvicorn.Server(config)
