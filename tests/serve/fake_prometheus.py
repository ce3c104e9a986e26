"""A small Prometheus server whose answers change while it runs: it tells the truth, lies, dawdles or is gone."""

import json
import math
import socket
import struct
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

GIB = 2.0**30
LONGEST = 60.0  # seconds that a slow answer takes, unless the mood changes before
DAMAGED = {
    "error": (500, b"out of order"),
    "refused": (403, b"no"),
    "not json": (200, b"<html>hello</html>"),
    "truncated": (200, b'{"status": "success", "data": {"resu'),
    "foreign": (200, b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": 5}]}}'),
}
LIES = {  # what becomes of each number
    "nan": lambda value: math.nan,
    "negative": lambda value: -1 - value,
    "huge": lambda value: 1e300,
    "infinite": lambda value: math.inf,
}


@dataclass(frozen=True)
class RunningPod:
    """A pod that runs on a node, and what it uses."""

    name: str
    node: str
    cores: float = 0.5
    gib: float = 1.0
    owner: str = "app"
    namespace: str = "default"


class FakePrometheus:
    """Answers what `Watcher` asks about `nodes` (name -> cores, GiB) and `pods`, in the `mood` it is in.

    `mood`: "normal"; "empty": no series; "gone": connections are reset; "slow": no answer until the mood changes; "old"
    and "future": samples of an hour ago and in an hour; one of `DAMAGED`; one of `LIES`: about every number, or about
    usage alone with "usage " before it
    `ahead`: seconds by which its clock is ahead of that of this machine
    """

    def __init__(self, nodes, pods=()):
        self.nodes, self.pods, self.ahead = dict(nodes), list(pods), 0.0
        self._mood, self._changed, self.asked = "normal", threading.Condition(), 0
        handler = type("MyHandler", (_Handler,), {"prometheus": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def mood(self):
        return self._mood

    @mood.setter
    def mood(self, mood):
        with self._changed:
            self._mood = mood
            self._changed.notify_all()

    def close(self):
        self.mood = "gone"
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def dawdle(self):
        """Wait as long as the mood is "slow"."""
        with self._changed:
            self._changed.wait_for(lambda: self._mood != "slow", LONGEST)

    def data(self, query, start, end, step):
        """The member "data" of the answer."""
        now = time.time() + self.ahead
        if query == "time()":
            return {"resultType": "scalar", "result": [now, str(now)]}
        result = []
        for labels, value in [] if self.mood == "empty" else self._series(query):
            values = [[moment, str(self._told(query, value, moment))] for moment in range(start, end + 1, step)]
            result.append({"metric": labels, "values": values})
        return {"resultType": "matrix", "result": result}

    def _told(self, query, value, moment):
        if value is None:  # the moment of the newest sample
            value = moment + {"old": -3600, "future": 3600}.get(self.mood, -1)
        lie = LIES.get(self.mood.removeprefix("usage "))
        about = "usage" in query or "working_set" in query or not self.mood.startswith("usage ")
        return lie(value) if lie and about else value

    def _series(self, query):
        """Labels and value of each series; None: a moment."""
        if query.startswith("count"):
            return []  # every name stands for one pod or node
        names = [({"namespace": pod.namespace, "pod": pod.name}, pod) for pod in self.pods]
        if '"part"' in query:
            names = [(labels | {"part": "containers"}, pod) for labels, pod in names]
            sizes = [(labels, ("cpu", 2 * pod.cores), ("memory", 2 * pod.gib * GIB)) for labels, pod in names]
            return [(labels | {"resource": kind}, size) for labels, *both in sizes for kind, size in both]
        if "allocatable" in query:
            kind = 0 if '"cpu"' in query else 1
            return [({"node": name}, size[kind] * (1, GIB)[kind]) for name, size in self.nodes.items()]
        if "kube_pod_info" in query:
            return [(labels | {"node": pod.node}, 1) for labels, pod in names]
        if "kube_pod_owner" in query:
            return [(labels | {"owner_kind": "StatefulSet", "owner_name": pod.owner}, 1) for labels, pod in names]
        if "timestamp" in query:
            return [({}, None)] if self.pods else []
        if "cpu_usage" in query:
            return [(labels, pod.cores) for labels, pod in names]
        if "working_set" in query:
            return [(labels, pod.gib * GIB) for labels, pod in names]
        return []


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_):
        pass  # the client closed the connection first


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        prometheus = self.prometheus
        prometheus.asked += 1
        prometheus.dawdle()
        if prometheus.mood == "gone":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        status, body = DAMAGED.get(prometheus.mood) or (200, self._answer())
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self):
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        start, end, step = (int(asked.get(name, 1)) for name in ("start", "end", "step"))
        listing = self.path.startswith(("/api/v1/labels", "/api/v1/series"))
        data = [] if listing else self.prometheus.data(asked.get("query", ""), start, end, step)
        return json.dumps({"status": "success", "data": data}).encode()
