"""What do scheduler and extender say to each other? A proxy between them that keeps requests and answers."""

from __future__ import annotations

import http.client
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from e2e.reference_extender import Server


@dataclass(frozen=True)
class Exchange:
    """One request of the scheduler and the extender's answer, as they were sent."""

    path: str
    headers: dict[str, str]
    request: bytes
    status: int
    answer: bytes


class Recorder:
    """Listens on a free port, passes requests on to ``port`` and keeps them in ``exchanges``."""

    def __init__(self, port: int):
        self.exchanges: list[Exchange] = []
        exchanges = self.exchanges

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                request = self.rfile.read(int(self.headers["Content-Length"]))
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("POST", self.path, request, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                body = answer.read()
                connection.close()
                exchanges.append(Exchange(self.path, dict(self.headers), request, answer.status, body))
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: the exchanges are the log."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where the scheduler is to send its requests."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()
