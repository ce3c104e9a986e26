"""Objects of small clusters, as the API of Kubernetes has them."""

from __future__ import annotations

from typing import Any

from tvwrl.rebalance import ClusterState, Objects, state_of

NOW = 1_767_571_200.0  # 2026-01-05T00:00:00Z
HASH = "5d9c7b6f4"  # as a Deployment appends to the name of its ReplicaSet
READY = [{"type": "Ready", "status": "True"}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, labels: dict[str, str] | None = None, taints: Any = None, **more: Any) -> dict[str, Any]:
    """A node of 4 cores and 16 GiB that takes pods."""
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    one = {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": taints},
        "status": {"allocatable": allocatable, "conditions": READY},
    }
    return merged(one, more)


def pod(name: str, at: str = "a", app: str = "cart", **more: Any) -> dict[str, Any]:
    """A pod of a Deployment in the namespace shop that runs, is ready and may be moved."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-{HASH}", "controller": True}
    one = {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "labels": {"app": app},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": at, "containers": [container("250m", "512Mi")]},
        "status": {"phase": "Running", "conditions": READY, "startTime": "2026-01-04T00:00:00Z"},
    }
    return merged(one, more)


def container(cpu: str | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    asked = {"cpu": cpu, "memory": memory}
    return {"name": "main", "resources": {"requests": {name: one for name, one in asked.items() if one}}, **more}


def budget(name: str, selector: Any, allowed: Any = 1, **more: Any) -> dict[str, Any]:
    one = {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": {"name": name, "namespace": "shop", "generation": 2},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 2},
    }
    return merged(one, more)


def claim(name: str, volume: str, mode: str = "ReadWriteOnce", **more: Any) -> dict[str, Any]:
    one = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"volumeName": volume, "accessModes": [mode]},
    }
    return merged(one, more)


def volume(name: str, **more: Any) -> dict[str, Any]:
    return merged({"kind": "PersistentVolume", "metadata": {"name": name}, "spec": {"csi": {}}}, more)


def claiming(*names: str) -> dict[str, Any]:
    """The specification of a pod with these claims."""
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]}


def marked(**annotations: str) -> dict[str, Any]:
    """Metadata with annotations; "__" stands for "/", "_" for "-"."""
    return {"annotations": {name.replace("__", "/").replace("_", "-"): one for name, one in annotations.items()}}


def merged(one: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """An object with some fields of it, and of the objects in it, replaced."""
    for key, value in more.items():
        one = {**one, key: merged(one[key], value) if isinstance(value, dict) and key in one else value}
    return one


def objects(*given: dict[str, Any], unreadable: dict[str, str] | None = None, empty: tuple[str, ...] = ()) -> Objects:
    """Objects by their kinds, of which some are `empty`."""
    by_kind: dict[str, list[dict[str, Any]]] = {kind: [] for kind in ("Node", "Pod", *empty)}
    for one in given:
        by_kind.setdefault(one["kind"], []).append(one)
    return Objects(by_kind, "here", NOW, unreadable or {})


def read(*given: dict[str, Any], **more: Any) -> ClusterState:
    """The state of a cluster with these objects, and with two nodes a and b if no node is among them."""
    nodes = () if any(one["kind"] == "Node" for one in given) else (node("a"), node("b"))
    return state_of(objects(*nodes, *given, **more))


def goes(state: ClusterState, name: str) -> set[str]:
    """The nodes that the rules of a pod allow."""
    row = state.pod.tolist().index(f"shop/{name}")
    return set(state.node[state.allowed[state.group[row]]].tolist())


def reason(state: ClusterState, name: str) -> str:
    """Why a pod stays."""
    return str(state.stays[state.pod.tolist().index(f"shop/{name}")])
