"""Ask the real scheduler where each pod of a cluster could run, as tests/rebalance/golden/feasible.json.gz.

    python -m e2e.feasible [--seed 4]

Nodes and pods have rules of all kinds at random. One pod after another is deleted and made again without a node; what
is recorded are the nodes that pass the scheduler's own filters, which it sends to an extender that then refuses all.

Kubernetes 1.20 counts pods for a spread on nodes that newer versions leave out (those without all labels of a pod's
spreads, or outside of its node affinity). So nodes have all labels here, but for one that no spread asks for, and pods
with a spread have no affinity to nodes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from e2e.api import Api
from e2e.control_plane import ControlPlane, Extender
from e2e.processes import wait_for
from e2e.setting import programs

Json = dict[str, Any]
FILE = Path(__file__).resolve().parents[1] / "tests" / "rebalance" / "golden" / "feasible.json.gz"
HOST, REQUIRED = "kubernetes.io/hostname", "requiredDuringSchedulingIgnoredDuringExecution"
NODES, PODS, NAMESPACES = 14, 75, ("default", "other")
VALUES = {"zone": ["z0", "z1", "z2"], "disk": ["ssd", "hdd"], "cores": ["8", "16"], "rack": ["r0", "r1"]}


class Listener:
    """An extender that writes down the nodes it is asked about, and lets no pod run."""

    def __init__(self) -> None:
        self.heard: dict[str, list[str]] = {}
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked = {name.lower(): value for name, value in body.items()}
                listener.heard[asked["pod"]["metadata"]["name"]] = sorted(asked["nodenames"])
                answer = {"NodeNames": [], "FailedNodes": dict.fromkeys(asked["nodenames"], "recorded"), "Error": ""}
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"


class Cluster:
    """Random objects."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def nodes(self) -> list[Json]:
        taints = {3: [("gpu", "x", "NoSchedule")], 4: [("gpu", "x", "NoSchedule"), ("old", "y", "NoExecute")]}
        taints |= {5: [("old", "y", "NoExecute")], 6: [("new", "", "PreferNoSchedule")]}
        found = []
        for i in range(NODES):
            labels = {HOST: f"n{i}", "zone": f"z{i % 3}", "disk": VALUES["disk"][i % 2], "rack": f"r{i % 2}"}
            if i != NODES - 1:
                labels["cores"] = "16" if i % 4 == 0 else "8"
            size = {"cpu": "4", "memory": "4Gi", "pods": "9"}
            found.append(
                {
                    "metadata": {"name": f"n{i}", "labels": labels},
                    "spec": {
                        "unschedulable": i == 7,
                        "taints": [
                            {"key": key, "value": value, "effect": effect} for key, value, effect in taints.get(i, [])
                        ],
                    },
                    "status": {
                        "allocatable": size,
                        "capacity": size,
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                }
            )
        return found

    def pod(self, number: int) -> Json:
        labels = {"app": self._one("ABCDE")} | ({"tier": "x"} if self._happens(0.3) else {})
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
        return {
            "metadata": {
                "name": f"p{number}",
                "namespace": self._one(["default", *NAMESPACES]),
                "labels": labels,
                "ownerReferences": [owner],
            },
            "spec": self._spec(labels["app"]),
        }

    def place(self) -> str:
        return f"n{self._random.randrange(NODES)}"

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def _one(self, choices: Any) -> Any:
        return self._random.choice(choices)

    def _some(self, choices: Any, most: int = 2) -> list[Any]:
        return self._random.sample(list(choices), self._random.randint(1, most))

    def _spec(self, app: str) -> Json:
        cpu, memory = self._one(["50m", "250m", "1"]), self._one(["64Mi", "256Mi", "1Gi"])
        asked = {name: one for name, one in (("cpu", cpu), ("memory", memory)) if self._happens(0.85)}
        container: Json = {"name": "c", "image": "none", "resources": {"requests": asked}}
        if self._happens(0.15):
            container["ports"] = [{"containerPort": 80, "hostPort": self._one([80, 443])}]
        spec: Json = {"containers": [container]}
        if self._happens(0.15):
            requests = {"cpu": self._one(["200m", "2"])}
            spec["initContainers"] = [{"name": "i", "image": "none", "resources": {"requests": requests}}]
        affinity = {}
        if self._happens(0.3):
            spec["topologySpreadConstraints"] = [self._spread(key, app) for key in self._some(["zone", HOST, "rack"])]
        else:
            if self._happens(0.2):
                spec["nodeSelector"] = {"disk": self._one(VALUES["disk"])}
            if self._happens(0.35):
                terms = [self._term() for _ in range(self._random.randint(1, 2))]
                affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
        for kind in ("podAffinity", "podAntiAffinity"):
            if self._happens(0.08):
                affinity[kind] = {REQUIRED: [self._neighbour() for _ in range(self._random.randint(1, 2))]}
        if self._happens(0.4):
            spec["tolerations"] = [self._toleration() for _ in range(self._random.randint(1, 2))]
        return spec | ({"affinity": affinity} if affinity else {})

    def _term(self) -> Json:
        term: Json = {"matchExpressions": [self._expression() for _ in range(self._random.randint(1, 2))]}
        if self._happens(0.15):
            field = {"key": "metadata.name", "operator": self._one(["In", "NotIn"]), "values": [self.place()]}
            term["matchFields"] = [field]
        if self._happens(0.1):
            del term["matchExpressions"]
        return term

    def _expression(self) -> Json:
        operator, key = self._one(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]), self._one(list(VALUES))
        if operator in ("Gt", "Lt"):
            return {"key": "cores", "operator": operator, "values": [self._one(["4", "8", "15"])]}
        return {"key": key, "operator": operator} | ({"values": self._some(VALUES[key])} if "In" in operator else {})

    def _selector(self) -> Json | None:
        if self._happens(0.8):
            return {"matchLabels": {"app": self._one("ABCDE")}}
        app = {"key": "app", "operator": self._one(["In", "NotIn"]), "values": self._some("ABCDE")}
        tier = {"key": "tier", "operator": self._one(["Exists", "DoesNotExist"])}
        return self._one([{}, None, {"matchExpressions": [app]}, {"matchExpressions": [app, tier]}])

    def _neighbour(self) -> Json:
        rule = {"labelSelector": self._selector(), "topologyKey": self._one(["zone", HOST, "rack", "cores"])}
        return rule | ({"namespaces": self._some(NAMESPACES)} if self._happens(0.3) else {})

    def _spread(self, key: str, app: str) -> Json:
        own = {"matchLabels": {"app": app}}
        return {
            "maxSkew": self._one([1, 2, 3, 5]),
            "topologyKey": key,
            "whenUnsatisfiable": self._one(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": own if self._happens(0.8) else self._selector(),
        }

    def _toleration(self) -> Json:
        one = {"key": self._one(["gpu", "old"]), "operator": self._one(["Exists", "Equal"])}
        one |= {"value": self._one("xy")} if one["operator"] == "Equal" else {}
        return one | ({"effect": self._one(["NoSchedule", "NoExecute"])} if self._happens(0.6) else {})


def record(api: Api, plane: ControlPlane, seed: int) -> Json:
    """Objects of a cluster, and for each pod the nodes where it could run instead, its own among them."""
    cluster, listener = Cluster(seed), Listener()
    api.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    for node in cluster.nodes():
        api.create("/api/v1/nodes", node)
    pods = [cluster.pod(number) for number in range(PODS)]
    places = [cluster.place() for _ in pods]
    for pod, place in zip(pods, places, strict=True):
        _run(api, pod, place)
    lists = [_plain(api.get(f"/api/v1/{kind}")) for kind in ("nodes", "pods")]
    plane.schedule(Extender(url=listener.url, timeout=5.0))
    feasible = {}
    for number, (pod, place) in enumerate(zip(pods, places, strict=True)):
        name, path = f"probe-{number}", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        api.delete(f"{path}/{pod['metadata']['name']}")
        api.create(path, {**pod, "metadata": {**pod["metadata"], "name": name}})
        wait_for(
            f"the scheduler has looked at {name}", lambda path=path, name=name: _considered(api, path, name), 20, 0.02
        )
        feasible[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = listener.heard.get(name, [])
        api.delete(f"{path}/{name}")
        _run(api, pod, place)
    return {"lists": lists, "feasible": feasible}


def _run(api: Api, pod: Json, node: str) -> None:
    """A pod that runs on a node, as if it had always done so."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    api.create(path, {**pod, "spec": {**pod["spec"], "nodeName": node}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.merge(f"{path}/{pod['metadata']['name']}/status", {"status": ready})


def _considered(api: Api, path: str, name: str) -> bool:
    conditions = api.get(f"{path}/{name}").get("status", {}).get("conditions", [])
    return any(one["type"] == "PodScheduled" for one in conditions)


def _plain(listed: Json) -> Json:
    for one in listed["items"]:
        one["metadata"].pop("managedFields", None)
    return listed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=4)
    seed = parser.parse_args().seed
    plane = ControlPlane(programs(), Path(tempfile.mkdtemp(prefix="tvwrl-e2e-")))
    try:
        plane.start()
        found = record(plane.api, plane, seed)
    finally:
        plane.stop()
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
    print(f"{sum(map(len, found['feasible'].values()))} feasible pairs of a pod and a node -> {FILE}")


if __name__ == "__main__":
    main()
