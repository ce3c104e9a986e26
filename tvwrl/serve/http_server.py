"""uvicorn with what a server needs that faces a network: limits on slow clients, TLS, and quick ends.

uvicorn bounds neither heads nor crowds. So each connection has a guard between the event loop and uvicorn's protocol,
which reads along to see where requests begin and end; an ASGI application around ours tells it when they are answered.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httptools
import uvicorn

from tvwrl.serve.extender import Receive, Send

Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]  # of ASGI 3.0
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


class _Guard(asyncio.Protocol):
    """Closes connections whose requests do not begin in time, whose heads grow too large, or that do not read what they
    asked for; and in a crowd, for each new connection, the one that deserves its place least.

    So many silent connections cannot keep out the kubelet's probes. Where all are active, more are let in, and answered
    only if they ask for the server's health or metrics: others learn at once that there is no room.
    """

    def __init__(self, guards: dict[Any, _Guard], guarded: asyncio.Protocol) -> None:
        self._guards, self._guarded, self._loop = guards, guarded, asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)  # calls the methods on_...
        self._head: float = 0  # bytes of it that have come
        self._asked = self._answered = 0  # requests whose heads have come; answers
        self._whole = self._unread = self.spare = False
        self._active = self._loop.time()
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._deadline = self._loop.call_later(HEADER_SECONDS, transport.abort)
        ends = (transport.get_extra_info(end) for end in ("peername", "sockname"))
        self._key = tuple(end and tuple(end[:2]) for end in ends)
        self._guards[self._key] = self
        self.joined = _Joined(transport)
        self._guarded.connection_made(cast(asyncio.Transport, self.joined))
        if (excess := len(self._guards) - CONNECTIONS) > 0:
            self._enter_crowd(excess)

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # uvicorn goes on, as there is no other protocol here
        except httptools.HttpParserError:
            self._head = max(self._head, 0)  # uvicorn refuses it too; whatever else comes is not worth more than a head
        self._guarded.data_received(data)
        if self._head > HEAD_BYTES:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._whole = False
        self._deadline.cancel()
        self._deadline = self._loop.call_later(HEADER_SECONDS, self._transport.abort)

    def on_headers_complete(self) -> None:
        self._head = -math.inf  # what follows is a body, which the application bounds
        self._asked += 1
        self._deadline.cancel()

    def on_message_complete(self) -> None:
        self._head, self._whole = 0, True

    def was_answered(self) -> None:
        self._answered += 1
        self._active = self._loop.time()

    def eof_received(self) -> bool | None:
        return self._guarded.eof_received()

    def pause_writing(self) -> None:
        self._unread = True
        self._reading = self._loop.call_later(HEADER_SECONDS, self._transport.abort)
        self._guarded.pause_writing()

    def resume_writing(self) -> None:
        self._unread = False
        if self._reading is not None:
            self._reading.cancel()
        self._guarded.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        if self._reading is not None:
            self._reading.cancel()
        self._leave()
        self._guarded.connection_lost(exc)

    def _leave(self) -> None:
        if self._guards.get(self._key) is self:
            del self._guards[self._key]

    def _enter_crowd(self, excess: int) -> None:
        """Take the place of the connection that deserves it least, if it had time to send a request."""
        least = min((one for one in self._guards.values() if one is not self), key=_Guard._claim)
        served, active = least._claim()[0] == SERVED, least._active > self._loop.time() - ACTIVE_SECONDS
        if (served or active) and excess <= SPARE:
            self.spare = True
        elif served:
            self._transport.abort()
        else:
            least._leave()
            least._transport.abort()

    def _claim(self) -> tuple[int, float]:
        """How much it deserves its place: most while a request that has arrived is answered; then, if it has ever been
        answered; then, the later it came or was answered."""
        due = self._asked - self._answered
        if self._unread:
            return 0, self._active
        return SERVED if due > 1 or (due == 1 and self._whole) else int(self._answered > 0), self._active


class _Joined:
    """A transport that sends the head of an answer with the body: uvicorn writes both, and each takes a system call,
    after which this thread has to wait until the one that decides lets it go on."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._kept: bytes | None = None  # b"": the next write is to wait; None: it is not

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def keep(self) -> None:
        """Let what is written next wait for what is written after it."""
        self._kept = b""

    def write(self, data: bytes) -> None:
        if self._kept == b"":
            self._kept = data
            return
        self._transport.write(data if self._kept is None else self._kept + data)
        self._kept = None

    def send(self) -> None:
        """Send what waits, as nothing comes after it."""
        if self._kept:
            self._transport.write(self._kept)
        self._kept = None

    def close(self) -> None:
        self.send()
        self._transport.close()


class GuardedLoop(asyncio.SelectorEventLoop):
    """An event loop that guards the connections of its servers, and bounds the time for TLS's handshake."""

    def __init__(self) -> None:
        super().__init__()
        self.guards: dict[Any, _Guard] = {}  # by addresses of client and server, as in ASGI's scope

    async def create_server(self, protocol_factory: Callable[[], Any], *args: Any, **options: Any) -> asyncio.Server:
        """See asyncio; uvicorn has no option for the handshake, and asyncio's minute is long for silent clients."""
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = HEADER_SECONDS
        return await super().create_server(lambda: _Guard(self.guards, protocol_factory()), *args, **options)


class _Guarded:
    """The application, which tells guards what was answered and learns who may only ask for health and metrics."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        loop, guard = asyncio.get_running_loop(), None
        if scope["type"] == "http" and isinstance(loop, GuardedLoop):
            guard = loop.guards.get((scope["client"], scope["server"]))
        if guard is None:  # the server's start and end, or a client that has gone
            await self._application(scope, receive, send)
            return
        scope["state"]["spare"] = guard.spare

        async def answer(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                guard.joined.keep()
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                guard.joined.send()  # an answer to HEAD has no body
                guard.was_answered()

        await self._application(scope, receive, answer)


def make_server(application: Application, host: str, port: int, tls: Tls | None) -> uvicorn.Server:
    """A server that is not running yet."""
    _allow_files()
    files: dict[str, Any] = {}
    if tls is not None:
        files = {"ssl_certfile": str(tls.certificate), "ssl_keyfile": str(tls.key)}
        if tls.client_authority is not None:
            import ssl

            files |= {"ssl_ca_certs": str(tls.client_authority), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    config = uvicorn.Config(
        _Guarded(application),
        host=host,
        port=port,
        backlog=BACKLOG,
        http="httptools",
        ws="none",
        loop=f"{GuardedLoop.__module__}:{GuardedLoop.__name__}",
        lifespan="on",
        proxy_headers=False,  # guards know clients by the addresses that they really have
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
