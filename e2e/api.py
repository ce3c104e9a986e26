"""How the test talks to the Kubernetes API: JSON over HTTPS on loopback, with a token."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Json = dict[str, Any]
THREADS = 8


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, text: str):
        super().__init__(f"HTTP {status}: {text[:300]}")
        self.status = status


class Api:
    """A client; every thread keeps a connection of its own, and so does every one of the pool for `at_once`."""

    def __init__(self, port: int, token: str):
        self.port = port
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "tvwrl-e2e", "Accept": "application/json"}
        # The server signs its own certificate at every start, and nothing leaves this machine.
        self._tls = ssl._create_unverified_context()
        self._mine = threading.local()
        self._pool = ThreadPoolExecutor(THREADS, "api")

    def call(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Json:
        """Answer to one request; ApiError where the server refuses it."""
        status, _, content = self._exchanged(method, path, body, kind)
        if status >= 300:
            raise ApiError(status, content.decode(errors="replace"))
        return json.loads(content) if content[:1] == b"{" else {}

    def raw(self, method: str, path: str, body: Json | None = None) -> tuple[int, dict[str, str], Json]:
        """Status, headers that a client may look at, and body of an answer, whatever it is."""
        status, headers, content = self._exchanged(method, path, body, "application/json")
        kept = {name: value for name, value in headers.items() if name.lower() in ("retry-after", "content-type")}
        return status, kept, json.loads(content)

    def _exchanged(
        self, method: str, path: str, body: Json | None, kind: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        text = None if body is None else json.dumps(body).encode()
        for attempt in (1, 2):
            connection = self._connection()
            try:
                connection.request(method, path, text, {**self._headers, "Content-Type": kind})
                answer = connection.getresponse()
                content = answer.read()
                break
            except (http.client.HTTPException, OSError):
                self._mine.connection = None
                if attempt == 2:
                    raise
        return answer.status, answer.headers, content

    def get(self, path: str) -> Json:
        """Object or list at ``path``."""
        return self.call("GET", path)

    def create(self, path: str, body: Json) -> Json:
        """New object in the collection at ``path``."""
        return self.call("POST", path, body)

    def merge(self, path: str, body: Json) -> Json:
        """Object at ``path`` with the fields of ``body`` replaced."""
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str) -> None:
        """Delete what is at ``path`` without waiting for a kubelet; nothing happens if it is gone already."""
        try:
            self.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
        except ApiError as error:
            if error.status != 404:
                raise

    def at_once(self, call: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """``call(item)`` of every item, several at a time; the first error is raised."""
        return list(self._pool.map(call, items))

    def watch(self, path: str, version: str, seconds: int = 3600) -> Iterator[Json]:
        """Changes of the collection at ``path`` since resource ``version``, as they happen."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls)
        query = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds={seconds}"
        connection.request("GET", query, headers=self._headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise ApiError(answer.status, answer.read().decode(errors="replace"))
        try:
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls, timeout=60)
            self._mine.connection = connection
        return connection
