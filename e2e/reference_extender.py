"""Where does a pod go if a rule that fits in one line decides? A scheduler extender of the standard library alone.

The rule: of the nodes that the scheduler offers, the one whose name has the smallest checksum together with the pod's.
It needs no state, so anybody can tell from a log whether the scheduler went where it was told, and what the test
measures with it is the limit of the scheduler, not of the rule.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
_decided: dict[str, int] = {"tvwrl_decisions_total": 0, "tvwrl_fallbacks_total": 0}
_lock = threading.Lock()


def choose(uid: str, nodes: list[str]) -> str:
    """The node that the rule takes for the pod with this uid."""
    return min(nodes, key=lambda node: zlib.crc32(f"{uid}/{node}".encode()))


def names(request: Json) -> list[str]:
    """Names of the nodes that the scheduler offers, in either form of the request."""
    listed = request.get("NodeNames") or request.get("nodenames")
    if listed is not None:
        return list(listed)
    whole = request.get("Nodes") or request.get("nodes") or {"items": []}
    return [item["metadata"]["name"] for item in whole["items"]]


def parts(request: Json) -> tuple[Json, list[str]]:
    """Pod and names of nodes of a request."""
    return request.get("Pod") or request["pod"], names(request)


def filtered(request: Json) -> Json:
    """ExtenderFilterResult that leaves all nodes; /prioritize says which one is meant."""
    pod, nodes = parts(request)
    meta = pod["metadata"]
    decision = {"pod": f"{meta['namespace']}/{meta['name']}", "uid": meta["uid"], "node": choose(meta["uid"], nodes)}
    with _lock:
        _decided["tvwrl_decisions_total"] += 1
        print(json.dumps({"event": "decision", **decision, "reason": "checksum"}), flush=True)
    whole = request.get("Nodes") or request.get("nodes")
    listed = None if whole else nodes
    return {"Nodes": whole, "NodeNames": listed, "FailedNodes": {}, "Error": ""}


def prioritized(request: Json) -> list[Json]:
    """HostPriorityList: 10 for the node that the rule takes, 0 for others."""
    pod, nodes = parts(request)
    node = choose(pod["metadata"]["uid"], nodes)
    return [{"Host": name, "Score": 10 if name == node else 0} for name in nodes]


class Handler(BaseHTTPRequestHandler):
    """One connection of the scheduler."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer /filter and /prioritize."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"/filter": filtered, "/prioritize": prioritized}.get(self.path)
        self._send(200, json.dumps(answer(request)).encode()) if answer else self._send(404, b"{}")

    def do_GET(self) -> None:
        """Answer /healthz, /readyz and /metrics."""
        counters = "".join(f"{name} {value}\n" for name, value in _decided.items())
        self._send(200, counters.encode() if self.path == "/metrics" else b"ok")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the log holds decisions."""


class Server(ThreadingHTTPServer):
    """A server that a hundred connections at once do not overrun."""

    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up, which programs that are killed do."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main() -> int:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:8888", help="address and port")
    host, _, port = parser.parse_args().listen.rpartition(":")
    Server((host, int(port)), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
