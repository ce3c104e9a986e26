"""The scheduler extender over HTTP (ASGI): always an answer within the deadline, whatever is asked and what fails."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tvwrl.serve.deciding import NOTHING, Decider, Decision, NotReady, Scores
from tvwrl.serve.extender_messages import (
    Arguments,
    Binding,
    bound,
    filtered,
    prioritized,
    read_arguments,
    read_binding,
)
from tvwrl.serve.monitoring import Log, Monitoring
from tvwrl.serve.record import Record
from tvwrl.serve.targets import Targets
from tvwrl.types import InputError

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Handler = Callable[[bytes], Awaitable[bytes]]
JSON, TEXT, METRICS = "application/json", "text/plain; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"
MOST_DIGITS = 18  # of the length of a body
DECIDED = 4096  # decisions kept until /prioritize asks for their scores
OPEN = ("/healthz", "/readyz")  # without a token: the kubelet's probes have none
PIECE = 256 * 1024  # bytes of an answer that are sent at a time


@dataclass(frozen=True)
class Limits:
    """What a request may cost."""

    body: int = 32 * 2**20  # bytes; all bodies together may take twice as much
    body_seconds: float = 5.0  # to send it, and to read the answer
    deadline: float = 1.0  # seconds until the answer, from the end of the body
    waiting: int = 32  # decisions that may wait for their turn


class Refused(Exception):
    """A request that is answered with an error of HTTP."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        # The rest of the request is not read, so that the next one on this connection could not be told from it.
        self.headers = {"connection": "close", **(headers or {})}


class Application:
    """An ASGI application that answers kube-scheduler by a `decider`.

    `shadow`: whether it answers "every node, equal scores", and only records what it would have done
    `bind`: binds a pod to a node, or raises InputError; None: /bind is not offered
    `token`: what clients have to send, as a bearer token or as the password of basic authentication; None: nothing
    """

    def __init__(
        self,
        decider: Decider,
        monitoring: Monitoring,
        record: Record,
        log: Log,
        limits: Limits,
        *,
        bind: Callable[[Binding], None] | None = None,
        token: bytes | None = None,
    ) -> None:
        self._decider, self._monitoring, self._record, self._log = decider, monitoring, record, log
        self._limits, self._bind, self._token = limits, bind, token
        self._pool = ThreadPoolExecutor(1, "deciding")  # the scheduler is asked one question at a time
        self._binders = ThreadPoolExecutor(8, "binding")
        self._waiting = self._held = 0  # decisions; bytes of bodies
        self._targets = Targets()
        self._decisions: dict[str, tuple[str | None, Scores]] = {}  # by uid: the node chosen, and scores
        self._routes: dict[str, tuple[str, Handler, str]] = {
            "/filter": ("POST", self._filter, JSON),
            "/prioritize": ("POST", self._prioritize, JSON),
            "/targets": ("POST", self._target, JSON),
            "/healthz": ("GET", self._alive, TEXT),
            "/readyz": ("GET", self._is_ready, TEXT),
            "/metrics": ("GET", self._metrics, METRICS),
        }
        if bind is not None:
            self._routes["/bind"] = ("POST", self._bind_pod, JSON)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """See ASGI 3.0."""
        while scope["type"] == "lifespan":  # the server's start, and its end
            event = (await receive())["type"]
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
        if scope["type"] != "http":
            return
        begin, path = time.perf_counter(), scope["path"]
        headers: dict[str, str] = {}
        kind, parts = TEXT, list[bytes]()
        try:
            handler, kind = self._route(scope)
            async with asyncio.timeout(self._limits.body_seconds):
                await self._receive(scope, receive, parts)
            status, answer = 200, await handler(b"".join(parts))
        except Refused as refused:
            status, answer, headers, kind = refused.status, str(refused).encode(), refused.headers, TEXT
        except InputError as error:
            status, answer, kind = 400, str(error).encode(), TEXT
        except TimeoutError:
            status, answer, kind, headers = 408, b"the body came too slowly", TEXT, {"connection": "close"}
        except ConnectionError:
            return  # the client has gone
        except Exception as error:
            self._log("error", path=path, error=repr(error))
            status, answer, kind = 500, b"internal error; see the server's log", TEXT
        finally:
            self._held -= sum(map(len, parts))
            parts.clear()
        known = path if path in self._routes else "other"
        self._monitoring.requests.labels(known, str(status)).inc()
        self._monitoring.latency.labels(known).observe(time.perf_counter() - begin)
        self._held += len(answer)
        try:  # to a client that does not read, for so long: the server closes the connection
            async with asyncio.timeout(self._limits.body_seconds):
                await _answer(send, status, answer, kind, headers)
        except TimeoutError:
            pass
        finally:
            self._held -= len(answer)

    def close(self) -> None:
        """End the threads that decide and bind."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._binders.shutdown(wait=False, cancel_futures=True)

    def _route(self, scope: dict[str, Any]) -> tuple[Handler, str]:
        path, method = scope["path"], scope["method"]
        if self._token is not None and path not in OPEN and not _may_enter(scope["headers"], self._token):
            raise Refused(401, "a token is needed", {"www-authenticate": 'Bearer, Basic realm="tvwrl"'})
        if scope.get("state", {}).get("spare") and path not in (*OPEN, "/metrics"):
            raise Refused(503, "too many connections at the same time")
        if path not in self._routes:
            raise Refused(404, "no such path; there are " + ", ".join(self._routes))
        wanted, handler, kind = self._routes[path]
        if method != wanted and not (method == "HEAD" and wanted == "GET"):
            raise Refused(405, f"{path} takes {wanted}", {"allow": wanted})
        return handler, kind

    async def _receive(self, scope: dict[str, Any], receive: Receive, parts: list[bytes]) -> None:
        """Append the whole body to `parts`, if it is not too large."""
        most, size = self._limits.body, 0
        declared = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(value.isdigit() and (len(value) > MOST_DIGITS or int(value) > most) for value in declared):
            raise Refused(413, f"the body is larger than {most} bytes")
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            more, part = message.get("more_body", False), message.get("body", b"")
            parts.append(part)
            size, self._held = size + len(part), self._held + len(part)
            del message, part  # or the traceback of an error would keep them
            if size > most:
                raise Refused(413, f"the body is larger than {most} bytes")
            if size and self._held > 2 * most:  # probes have no body
                raise Refused(503, "too many large bodies at the same time")
            if not more:
                return

    async def _filter(self, body: bytes) -> bytes:
        arguments = read_arguments(body)
        decision = await self._decision(arguments)
        if decision is None or self._decider.shadow:
            return filtered(arguments, [True] * len(arguments.names), "", final=False)
        reason = decision.reason if decision.node is None else "no room for it there now"
        return filtered(arguments, decision.passed.tolist(), reason, final=decision.node is None)

    async def _prioritize(self, body: bytes) -> bytes:
        arguments = read_arguments(body)
        names, none = arguments.names, [0] * len(arguments.names)
        if arguments.pod.uid in self._decisions:
            node, scores = self._decisions.pop(arguments.pod.uid)
            if node is None or self._decider.shadow:
                return prioritized(names, none)
            points = scores.of(names)
            if node not in names and names:  # other plugins ruled it out: the best of what is left
                self._later(self._decider.move, arguments.pod.uid, names[points.index(max(points))])
            return prioritized(names, points)
        decision = await self._decision(arguments)  # /filter is not configured
        scored = none if decision is None or self._decider.shadow else decision.scores.of(names)
        return prioritized(names, scored)

    async def _decision(self, arguments: Arguments) -> Decision | None:
        """What the scheduler says within the deadline; None, counted by its reason, if it says nothing."""
        loop, pod = asyncio.get_running_loop(), arguments.pod
        decision, reason = None, ""
        if self._waiting >= self._limits.waiting:
            reason = "busy"
        else:
            self._waiting += 1
            future = loop.run_in_executor(self._pool, self._targets.decide, self._decider, pod, arguments.names)
            future.add_done_callback(self._done)
            try:
                async with asyncio.timeout(self._limits.deadline):
                    decision = await asyncio.shield(future)
            except TimeoutError:
                reason = "late"
                future.add_done_callback(self._withdraw)
            except NotReady as why:
                reason = str(why)
            except Exception as error:
                reason = "failed"
                self._log("error", pod=pod.key, error=repr(error))
        self._decisions.pop(pod.uid, None)  # /prioritize asks next for the scores of the newest decisions
        self._decisions[pod.uid] = (None, NOTHING) if decision is None else (decision.node, decision.scores)
        while len(self._decisions) > DECIDED:
            del self._decisions[next(iter(self._decisions))]
        if decision is None:
            self._monitoring.fallbacks.labels(reason).inc()
            self._log("fallback", pod=pod.key, reason=reason)
            return None
        self._monitoring.decisions.labels("held" if decision.node is None else "placed").inc()
        self._monitoring.deciding.observe(decision.seconds)
        self._record.decided(decision)
        milliseconds = round(1000 * decision.seconds, 3)
        facts = {"pod": pod.key, "uid": pod.uid, "node": decision.node, "reason": decision.reason}
        self._log("decision", **facts, nodes=len(arguments.names), ms=milliseconds, shadow=self._decider.shadow)
        return decision

    def _withdraw(self, future: asyncio.Future[Decision]) -> None:
        """Forget what was decided too late: nobody was told."""
        if not future.cancelled() and future.exception() is None:
            self._later(self._decider.withdraw, future.result())

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        """Tell the decider something in its thread."""
        with suppress(RuntimeError):  # the server is ending
            self._pool.submit(call, *arguments)

    def _done(self, future: asyncio.Future[Decision]) -> None:
        self._waiting -= 1
        if not future.cancelled():
            future.exception()  # one that came too late was already counted

    async def _bind_pod(self, body: bytes) -> bytes:
        binding = read_binding(body)
        assert self._bind is not None
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._binders, self._bind, binding)
        except InputError as error:
            self._log("binding failed", pod=f"{binding.namespace}/{binding.pod}", node=binding.node, error=str(error))
            self._later(self._decider.move, binding.uid, None)
            return bound(str(error))
        self._later(self._decider.move, binding.uid, binding.node)
        return bound()

    async def _target(self, body: bytes) -> bytes:
        self._targets.tell(body)
        return b"{}"

    async def _alive(self, body: bytes) -> bytes:
        return b"ok"

    async def _is_ready(self, body: bytes) -> bytes:
        if not self._decider.ready:
            raise Refused(503, "no fresh metrics: Kubernetes decides alone")
        return b"ok"

    async def _metrics(self, body: bytes) -> bytes:
        return self._monitoring.text()


def _may_enter(headers: Any, token: bytes) -> bool:
    """Whether a request carries the token: `Bearer TOKEN`, or `Basic` with it as the password."""
    sent = [value for name, value in headers if name == b"authorization"]
    if len(sent) != 1:
        return False
    scheme, _, value = sent[0].partition(b" ")
    if scheme.lower() == b"basic":
        try:
            value = base64.b64decode(value, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return False
    elif scheme.lower() != b"bearer":
        return False
    return hmac.compare_digest(value.strip(), token)


async def _answer(send: Send, status: int, body: bytes, kind: str, headers: Mapping[str, str]) -> None:
    pairs = {"content-type": kind, "content-length": str(len(body)), **headers}
    encoded = [(name.encode(), value.encode()) for name, value in pairs.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    for begin in range(0, max(len(body), 1), PIECE):  # each piece waits until the client has read those before
        more = begin + PIECE < len(body)
        await send({"type": "http.response.body", "body": body[begin : begin + PIECE], "more_body": more})
