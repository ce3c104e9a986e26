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

HEADER_SECONDS = 10.0  # within which a new connection has to send the head of a request, and read on in an answer
HEAD_BYTES = 64 * 1024  # of a request
CONNECTIONS = 256  # at a time
BACKLOG = 128  # new ones that are accepted at once: asyncio lets all 2,048 of uvicorn in before any is closed
SPARE = 512  # more of them, for the server's health and metrics
ACTIVE_SECONDS = 1.0  # for which a connection that is not being served keeps its place in a crowd
FILES = 65536  # open at a time
SERVED = 2  # the claim to its place of a connection that is being served
KEEP_ALIVE = 75  # seconds; kube-scheduler keeps its connections open


@dataclass(frozen=True)
class Tls:
    """Files of certificates; `client_authority`: whose certificates clients need."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


class _Guarded(HttpToolsProtocol):
    """Closes connections whose requests do not begin in time, whose heads grow too large, or that do not read what they
    asked for; and in a crowd, for each new connection, the one that deserves its place least.

    So many silent connections cannot keep out the kubelet's probes. Where all are active, more are let in, and answered
    only if they ask for the server's health or metrics: others learn at once that there is no room.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head: float = 0
        self._asked = self._answered = 0  # requests whose heads have come; answers
        self._whole = self._unread = self._spare = False
        self._active = self.loop.time()
        self._deadline = self.loop.call_later(HEADER_SECONDS, transport.abort)
        self._reading: asyncio.TimerHandle | None = None
        if (excess := len(self.connections) - CONNECTIONS) > 0:
            self._enter_crowd(excess)

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        if self._head > HEAD_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._whole = False
        self.scope["state"]["spare"] = self._spare
        self._deadline.cancel()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def on_headers_complete(self) -> None:
        self._head = -math.inf  # what follows is a body, which the application bounds
        self._asked += 1
        self._deadline.cancel()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head, self._whole = 0, True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._answered += 1
        self._active = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._unread = True
        self._reading = self.loop.call_later(HEADER_SECONDS, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread = False
        if self._reading is not None:
            self._reading.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        if self._reading is not None:
            self._reading.cancel()
        super().connection_lost(exc)

    def _enter_crowd(self, excess: int) -> None:
        """Take the place of the connection that deserves it least, if it had time to send a request."""
        others = (one for one in self.connections if isinstance(one, _Guarded) and one is not self)
        least = min(others, key=_Guarded._claim)
        served, active = least._claim()[0] == SERVED, least._active > self.loop.time() - ACTIVE_SECONDS
        if (served or active) and excess <= SPARE:
            self._spare = True
        elif served:
            self.transport.abort()
        else:
            self.connections.discard(least)
            least.transport.abort()

    def _claim(self) -> tuple[int, float]:
        """How much it deserves its place: most while a request that has arrived is answered; then, if it has ever been
        answered; then, the later it came or was answered."""
        due = self._asked - self._answered
        if self._unread:
            return 0, self._active
        return SERVED if due > 1 or (due == 1 and self._whole) else int(self._answered > 0), self._active


def make_server(application: Any, host: str, port: int, tls: Tls | None) -> uvicorn.Server:
    """A server that is not running yet."""
    _allow_files()
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
        backlog=BACKLOG,
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


def _allow_files() -> None:
    """Let this process open as many files as it may: connections that have not finished TLS's handshake count, too."""
    try:
        import resource
    except ImportError:  # there is none on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
