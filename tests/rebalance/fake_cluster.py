"""An API server in memory, with controllers, a scheduler and kubelets that take their time; also over HTTP."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tvwrl.rebalance.kube_api import Answer, KubeApi

Json = dict[str, Any]
COLLECTIONS = {
    "/api/v1/nodes": "nodes", "/api/v1/pods": "pods", "/apis/apps/v1/replicasets": "replicasets",
    "/apis/policy/v1/poddisruptionbudgets": "budgets", "/apis/policy/v1beta1/poddisruptionbudgets": "budgets",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "none", "/api/v1/persistentvolumeclaims": "none",
    "/api/v1/persistentvolumes": "none", "/api/v1/namespaces": "namespaces",
}  # fmt: skip
BEGIN = 1_900_000_000.0


def rfc3339(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


@dataclass
class FakeCluster:
    """`trouble(method, path)`: an Answer or an OSError instead of what would happen, or None.

    `place(pod, nodes)`: where the scheduler puts a pod, among nodes with room; `targets` have what was handed over
    """

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)  # by namespace/name
    replicasets: dict[str, Json] = field(default_factory=dict)
    budgets: dict[str, Json] = field(default_factory=dict)
    leases: dict[str, Json] = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)
    namespaces: dict[str, Json] = field(default_factory=dict)
    none: dict[str, Json] = field(default_factory=dict)
    time: float = BEGIN
    minor: str = "25"
    startup: float = 4.0  # seconds from the eviction until the replacement is ready
    trouble: Callable[[str, str], Answer | OSError | None] = lambda method, path: None
    place: Callable[[Json, list[str]], str] | None = None
    targets: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)  # controller -> node, avoided
    evicted: list[tuple[str, str, str, float]] = field(default_factory=list)  # uid, owner, node, time
    returns: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)
    _version: int = 0

    # what a test sets up

    def add_node(self, name: str, cores: float = 8, memory: int = 32, pods: int = 110, **spec: Any) -> None:
        room = {"cpu": f"{int(cores * 1000)}m", "memory": f"{memory}Gi", "pods": str(pods)}
        self.nodes[name] = self._made(
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": spec,
                "status": {
                    "allocatable": room,
                    "capacity": room,
                    "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": rfc3339(self.time)}],
                },
            }
        )

    def add_owner(
        self, name: str, nodes: list[str], cpu: str = "500m", memory: str = "1Gi", namespace: str = "shop"
    ) -> None:
        """A ReplicaSet of a Deployment with a pod on each of these nodes."""
        self.namespaces.setdefault(
            namespace,
            self._made({"metadata": {"name": namespace, "labels": {"kubernetes.io/metadata.name": namespace}}}),
        )
        owner = [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"uid-{name}", "controller": True}
        ]
        labels = {"app": name}
        containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
        self.replicasets[f"{namespace}/{name}-7d4f9c6b5"] = self._made(
            {
                "metadata": {
                    "name": f"{name}-7d4f9c6b5", "namespace": namespace, "uid": f"uid-rs-{name}", "labels": labels,
                    "ownerReferences": owner,
                },
                "spec": {
                    "replicas": len(nodes), "selector": {"matchLabels": labels}, "template": {"containers": containers},
                },
                "status": {"replicas": len(nodes)},
            }
        )  # fmt: skip
        for node in nodes:
            pod = self._new_pod(f"{namespace}/{name}-7d4f9c6b5", self.time - 3600)
            self._bind(pod, node, ready=True)

    def protect(self, name: str, least: int, namespace: str = "shop") -> None:
        """A PodDisruptionBudget for an owner."""
        self.budgets[f"{namespace}/{name}"] = self._made(
            {
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"selector": {"matchLabels": {"app": name}}, "minAvailable": least},
                "status": {"observedGeneration": 1},
            }
        )

    def of(self, owner: str) -> list[Json]:
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"]["app"] == owner]

    def api(self, **options: Any) -> KubeApi:
        """A client without a network, whose time is the cluster's."""
        return KubeApi(self.transport, clock=lambda: self.time - BEGIN, sleep=self.sleep, **options)

    def hand_over(self, controller: str, node: str, avoid: Any, seconds: float) -> None:
        if seconds:
            self.targets[controller] = (node, tuple(avoid))
        else:
            self.targets.pop(controller, None)

    def sleep(self, seconds: float) -> bool:
        with self.lock:
            self.time += max(seconds, 0.01)
            self._live()
        return True

    def transport(self, method: str, path: str, body: bytes | None, seconds: float) -> Answer:
        with self.lock:
            self.time += 0.003
            wrong = self.trouble(method, path)
            if isinstance(wrong, OSError):
                raise wrong
            self.requests.append((method, path))
            if wrong is not None:
                return Answer(
                    wrong.status, {"date": formatdate(self.time, usegmt=True)} | dict(wrong.headers), wrong.body
                )
            status, content = self._answer(method, path, None if body is None else json.loads(body))
            return Answer(status, {"date": formatdate(self.time, usegmt=True)}, json.dumps(content).encode())

    # what it does

    def _made(self, one: Json) -> Json:
        self._version += 1
        one["metadata"].setdefault("uid", f"uid-{self._version}")
        one["metadata"].setdefault("creationTimestamp", rfc3339(self.time))
        one["metadata"]["resourceVersion"] = str(self._version)
        return one

    def _new_pod(self, owner: str, created: float) -> Json:
        owning = self.replicasets[owner]
        namespace, name = owner.split("/")
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
        pod = self._made(
            {
                "metadata": {
                    "name": f"{name}-{self._version:05x}", "namespace": namespace,
                    "labels": owning["metadata"]["labels"],
                    "ownerReferences": [reference | {"uid": owning["metadata"]["uid"]}],
                    "creationTimestamp": rfc3339(created),
                },
                "spec": {"containers": owning["spec"]["template"]["containers"], "schedulerName": "tvwrl"},
                "status": {"phase": "Pending"},
            }
        )  # fmt: skip
        pod["at"] = created
        self.pods[f"{namespace}/{pod['metadata']['name']}"] = pod
        return pod

    def _bind(self, pod: Json, node: str, ready: bool = False) -> None:
        pod["spec"]["nodeName"] = node
        if ready:
            pod["status"] = {
                "phase": "Running",
                "startTime": rfc3339(self.time),
                "conditions": [{"type": "Ready", "status": "True"}],
            }

    def _live(self) -> None:
        """Controllers, the scheduler and kubelets do what is due."""
        for owner, one in self.replicasets.items():
            mine = [
                pod for pod in self.of(one["metadata"]["labels"]["app"]) if "deletionTimestamp" not in pod["metadata"]
            ]
            for _ in range(one["spec"]["replicas"] - len(mine)):
                self._new_pod(owner, self.time)
        for key, pod in list(self.pods.items()):
            if pod["metadata"].get("deletionTimestamp") and self.time >= pod["ends"]:
                del self.pods[key]
            elif "nodeName" not in pod["spec"]:
                if self.time >= pod["at"] + self.startup / 2 and (node := self._chosen(pod)):
                    self._bind(pod, node)
            elif pod["status"]["phase"] == "Pending" and self.time >= pod["at"] + self.startup:
                self._bind(pod, pod["spec"]["nodeName"], ready=True)

    def _chosen(self, pod: Json) -> str | None:
        roomy = [name for name in self.nodes if self._room(name, pod)]
        controller = pod["metadata"]["ownerReferences"][0]["uid"]
        if not roomy:
            return None
        if controller in self.targets:
            node, avoid = self.targets.pop(controller)
            if node in roomy:
                return node
            roomy = [name for name in roomy if name not in avoid] or roomy
        return self.place(pod, roomy) if self.place else roomy[0]

    def _room(self, node: str, pod: Json) -> bool:
        if self.nodes[node]["spec"].get("unschedulable"):
            return False
        used = [one for one in self.pods.values() if one["spec"].get("nodeName") == node]
        room = self.nodes[node]["status"]["allocatable"]

        def cpu(one: Json) -> int:
            return int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"][:-1])

        return sum(map(cpu, used)) + cpu(pod) <= int(room["cpu"][:-1]) and len(used) < int(room["pods"])

    def allowed(self, budget: Json) -> int:
        wanted = budget["spec"]["selector"].get("matchLabels", {}).get("app", "")
        ready = [
            pod for pod in self.of(wanted)
            if pod["status"].get("conditions") and "deletionTimestamp" not in pod["metadata"]
        ]  # fmt: skip
        return max(len(ready) - budget["spec"]["minAvailable"], 0)

    def _answer(self, method: str, path: str, body: Json | None) -> tuple[int, Json]:
        parts = urlsplit(path)
        query = {name: value[0] for name, value in parse_qs(parts.query).items()}
        if parts.path == "/version":
            return 200, {"major": "1", "minor": self.minor}
        if method == "GET" and parts.path in COLLECTIONS:
            return self._listed(list(getattr(self, COLLECTIONS[parts.path]).values()), query)
        if found := re.fullmatch(r"/api/v1/namespaces/([^/]+)/pods", parts.path):
            wanted = query.get("fieldSelector", "").removeprefix("metadata.name=")
            pods = [
                pod for pod in self.pods.values()
                if pod["metadata"]["namespace"] == found[1] and (not wanted or pod["metadata"]["name"] == wanted)
            ]  # fmt: skip
            return self._listed(pods, query)
        if found := re.fullmatch(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction", parts.path):
            assert body is not None
            return self._evict(f"{found[1]}/{found[2]}", body)
        if method == "POST" and re.fullmatch(r"/api/v1/namespaces/[^/]+/events", parts.path):
            assert body is not None
            self.events.append(body)
            return 201, body
        if found := re.fullmatch(r"/apis/coordination.k8s.io/v1/namespaces/([^/]+)/leases(?:/([^/]+))?", parts.path):
            return self._lease(method, found[1], found[2], body)
        return _status(404, "NotFound", f"no such path: {path}")

    def _listed(self, items: list[Json], query: dict[str, str]) -> tuple[int, Json]:
        begin, most = int(query.get("continue", "0")), int(query.get("limit", "500"))
        following = str(begin + most) if begin + most < len(items) else ""
        page = json.loads(json.dumps(items[begin : begin + most]))
        for one in page:
            if "minAvailable" in one.get("spec", {}):
                one["status"]["disruptionsAllowed"] = self.allowed(one)
        return 200, {"items": page, "metadata": {"continue": following, "resourceVersion": str(self._version)}}

    def _evict(self, key: str, body: Json) -> tuple[int, Json]:
        pod = self.pods.get(key)
        if pod is None:
            return _status(404, "NotFound", f'pods "{key.split("/")[1]}" not found')
        uid = pod["metadata"]["uid"]
        if (body.get("deleteOptions") or {}).get("preconditions", {}).get("uid") not in (None, uid):
            return _status(409, "Conflict", f'Operation cannot be fulfilled on Pod "{key}": the UID does not match')
        covering = [
            one for one in self.budgets.values()
            if one["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        ]  # fmt: skip
        if len(covering) > 1:
            return _status(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            )
        if covering and self.allowed(covering[0]) < 1:
            causes = [
                {
                    "reason": "DisruptionBudget",
                    "message": f"The disruption budget {covering[0]['metadata']['name']} needs more",
                }
            ]
            return _status(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
                {"causes": causes},
            )
        app = pod["metadata"]["labels"]["app"]
        self.evicted.append((uid, app, pod["spec"]["nodeName"], self.time))
        pod["metadata"]["deletionTimestamp"] = rfc3339(self.time)
        pod["ends"] = self.time + 1.0
        return 201, {"kind": "Status", "status": "Success"}

    def _lease(self, method: str, namespace: str, name: str | None, body: Json | None) -> tuple[int, Json]:
        if method == "GET":
            known = self.leases.get(f"{namespace}/{name}")
            return (200, known) if known else _status(404, "NotFound", f'leases "{name}" not found')
        assert body is not None
        key = f"{namespace}/{body['metadata']['name']}"
        known = self.leases.get(key)
        if method == "POST" and known:
            return _status(409, "AlreadyExists", f'leases "{key}" already exists')
        if method == "PUT" and not known:
            return _status(404, "NotFound", "leases not found")
        if known and known["metadata"]["resourceVersion"] != body["metadata"].get("resourceVersion"):
            return _status(
                409, "Conflict", "the object has been modified; please apply your changes to the latest version"
            )
        self.leases[key] = self._made(json.loads(json.dumps(body)))
        return 200 if known else 201, json.loads(json.dumps(self.leases[key]))


def _status(code: int, reason: str, message: str, details: Json | None = None) -> tuple[int, Json]:
    return code, {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code,
        "details": details or {},
    }  # fmt: skip


@contextmanager
def over_http(cluster: FakeCluster) -> Iterator[str]:
    """The address of a server in a thread of its own that answers for a cluster; OSError from `trouble` hangs.

    It also takes targets, as `tvwrl serve` does.
    """
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            try:
                if self.path == "/targets":
                    cluster.hand_over(**json.loads(body or b""))
                    answer = Answer(200, {}, b"{}")
                else:
                    answer = cluster.transport(self.command, self.path, body, 10.0)
            except OSError:
                ended.wait(30)
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = _do

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


def kubeconfig(server: str) -> str:
    """A kubeconfig file for a server."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": server}}],
            "users": [{"name": "fake", "user": {"token": "secret"}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }
    )


def scattered(owners: int, replicas: int, nodes: int, seed: int = 0, **node: Any) -> FakeCluster:
    """A cluster with pods anywhere."""
    cluster, draw = FakeCluster(), random.Random(seed)
    for i in range(nodes):
        cluster.add_node(f"node-{i:02d}", **node)
    for i in range(owners):
        cluster.add_owner(f"app-{i:02d}", [f"node-{draw.randrange(nodes):02d}" for _ in range(replicas)])
    return cluster
