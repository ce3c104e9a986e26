"""uvicorn with what a server needs that faces a network: limits on slow clients, TLS, and quick ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0  # within which a new connection has to send the head of a request
CONNECTIONS = 256
KEEP_ALIVE = 75  # seconds; kube-scheduler keeps its connections open


@dataclass(frozen=True)
class Tls:
    """Files of certificates; `client_authority`: whose certificates clients need."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


class _Impatient(HttpToolsProtocol):
    """Closes connections on which no request begins in time: they would hold places that others need."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)


def make_server(application: Any, host: str, port: int, tls: Tls | None) -> uvicorn.Server:
    """A server that is not running yet."""
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
        http=_Impatient,
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,
        log_level="error",
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=2,
        **files,
    )
    return uvicorn.Server(config)
