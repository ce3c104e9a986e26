"""Which nodes and pods a test creates, and what its pods use over time."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, dataclass
from typing import Any

Json = dict[str, Any]
GIB = 2**30
SIZES = ((8, 32 * GIB), (16, 64 * GIB))
"""cores and bytes of the two kinds of node"""
CURVE = "tvwrl.e2e/usage"
"""annotation of a pod with its usage over time, as JSON"""


@dataclass(frozen=True)
class Usage:
    """What a pod uses ``t`` seconds after its start: a daily wave in small."""

    cores: float
    """mean of the processor cores used"""
    bytes: float
    """memory used"""
    swing: float = 0.0
    """share of the mean by which usage rises and falls, 0 to 1"""
    period: float = 60.0
    """seconds from peak to peak"""
    phase: float = 0.0
    """where in the period the pod starts, 0 to 1"""
    lifetime: float | None = None
    """seconds from its start until the pod ends; None: it stays"""

    def cpu_seconds(self, t: float) -> float:
        """Cores used, added up over the ``t`` seconds since the start: the counter that cAdvisor shows."""
        turn = 2 * math.pi / self.period
        start = 2 * math.pi * self.phase
        wave = (math.cos(start) - math.cos(start + turn * t)) / turn
        return self.cores * (t + self.swing * wave)


def node(name: str, size: int, labels: Json | None = None) -> Json:
    """Node object of a size in ``SIZES`` that reports itself ready."""
    cores, memory = SIZES[size]
    room = {"cpu": str(cores), "memory": f"{memory // GIB}Gi", "pods": "250"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def nodes(count: int) -> list[Json]:
    """``count`` nodes, every fourth of the larger kind."""
    return [node(f"node-{i:03d}", int(i % 4 == 3)) for i in range(count)]


def pod(name: str, usage: Usage | None, requests: Json | None, owner: str | None = None, **spec: Any) -> Json:
    """Pod object with one container; ``requests`` such as ``{"cpu": "500m"}``, ``owner`` the name of a ReplicaSet."""
    metadata: Json = {"name": name}
    if usage:
        metadata["annotations"] = {CURVE: json.dumps(asdict(usage))}
    if owner:
        metadata["labels"] = {"app": owner}
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-of-{owner}"}
        metadata["ownerReferences"] = [reference | {"controller": True}]
    container = {"name": "main", "image": "none", "resources": {"requests": requests} if requests else {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0} | spec,
    }


def usage_of(pod: Json) -> Usage | None:
    """Usage that a pod of the test carries in its annotation."""
    text = pod["metadata"].get("annotations", {}).get(CURVE)
    return Usage(**json.loads(text)) if text else None


def population(count: int, seed: int = 0, prefix: str = "pod", lifetime: float | None = None) -> list[Json]:
    """``count`` pods of 40 applications: each application has requests and a wave of its own."""
    draw = random.Random(seed)
    applications = []
    for _ in range(40):
        cores, memory = draw.choice((0.25, 0.5, 1.0, 2.0)), draw.choice((0.5, 1.0, 2.0, 4.0)) * GIB
        applications.append((cores, memory, draw.uniform(0.2, 0.8), draw.random()))
    pods = []
    for i in range(count):
        kind = draw.randrange(len(applications))
        cores, memory, swing, phase = applications[kind]
        ends = None if lifetime is None or draw.random() < 0.5 else lifetime * draw.uniform(0.5, 1.5)
        usage = Usage(cores * 0.6, memory * 0.7, swing, phase=phase, lifetime=ends)
        requests = {"cpu": f"{int(cores * 1000)}m", "memory": f"{int(memory / 2**20)}Mi"}
        pods.append(pod(f"{prefix}-{i:04d}", usage, requests, owner=f"application-{kind}"))
    return pods
