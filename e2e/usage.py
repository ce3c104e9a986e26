"""What cAdvisor and kube-state-metrics would show of the pods and nodes there are, in Prometheus' text format."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

from e2e.kubelets import Kubelets, Life
from e2e.reference_extender import Server

Json = dict[str, Any]
FACTORS = {"k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "m": 1e-3, "": 1.0}


def quantity(text: str) -> float:
    """Value of a Kubernetes quantity such as 500m or 4Gi."""
    digits = text.rstrip("kMGim")
    return float(digits) * FACTORS[text[len(digits) :]]


class Exporter:
    """Serves /metrics on a free port. ``twist`` may change the text before it is sent, as a broken exporter would;
    while it is ``silent`` it answers nothing."""

    def __init__(self, kubelets: Kubelets, nodes: Callable[[], list[Json]]):
        self.kubelets, self.nodes = kubelets, nodes
        self.twist: Callable[[str], str] | None = None
        self.silent = False
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if exporter.silent:
                    self.close_connection = True
                    return
                text = exporter.text()
                body = (exporter.twist(text) if exporter.twist else text).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def text(self) -> str:
        """All series as of now."""
        return "\n".join(_lines(self.nodes(), self.kubelets.alive(), time.time())) + "\n"

    def history(self, nodes: list[Json], first: int, last: int, step: int) -> Iterator[str]:
        """What it would have shown every `step` seconds, a line each with its moment, had the pods that run now run on
        their nodes since `first`. Of these nodes only."""
        lives = [replace(life, bound_at=first) for life in self.kubelets.alive() if life.bound]
        for moment in range(first, last + 1, step):
            for line in _lines(nodes, lives, moment):
                yield f"{line} {moment}"

    def stop(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()


def _lines(nodes: list[Json], lives: list[Life], now: float) -> list[str]:
    lines = [line for node in nodes for line in _of_node(node)]
    for life in lives:
        lines += _of_pod(life, now)
    return lines


def _of_node(node: Json) -> list[str]:
    name = node["metadata"]["name"]
    room = {"cpu": "core", "memory": "byte", "pods": "integer"}
    return [
        f'kube_node_status_allocatable{{node="{name}",resource="{resource}",unit="{unit}"}} '
        f"{quantity(node['status']['allocatable'][resource]):.17g}"
        for resource, unit in room.items()
    ]


def _of_pod(life: Life, now: float) -> list[str]:
    pod = life.pod
    who = f'namespace="{pod["metadata"]["namespace"]}",pod="{life.name}"'
    node = f'node="{life.node or ""}"'
    lines = [f'kube_pod_info{{{who},uid="{life.uid}",{node}}} 1']
    phase = pod["status"].get("phase", "Pending")
    lines.append(f'kube_pod_status_phase{{{who},uid="{life.uid}",phase="{phase}"}} 1')
    for owner in pod["metadata"].get("ownerReferences", ()):
        labels = f'{who},owner_kind="{owner["kind"]}",owner_name="{owner["name"]}",owner_is_controller="true"'
        lines.append(f"kube_pod_owner{{{labels}}} 1")
    for container in pod["spec"]["containers"]:
        inside = f'{who},container="{container["name"]}",{node}'
        for resource, amount in container.get("resources", {}).get("requests", {}).items():
            unit = "core" if resource == "cpu" else "byte"
            labels = f'{inside},resource="{resource}",unit="{unit}"'
            lines.append(f"kube_pod_container_resource_requests{{{labels}}} {quantity(amount):.17g}")
    if life.usage and life.bound_at is not None:
        inside = f'{who},container="{pod["spec"]["containers"][0]["name"]}",{node}'
        used = life.usage.cpu_seconds(max(now - life.bound_at, 0.0))
        lines.append(f"container_cpu_usage_seconds_total{{{inside}}} {used:.17g}")
        lines.append(f"container_memory_working_set_bytes{{{inside}}} {life.usage.bytes:.17g}")
    return lines
