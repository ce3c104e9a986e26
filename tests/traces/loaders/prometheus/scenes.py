"""Clusters as cAdvisor, kube-state-metrics and kube-scheduler would have exported them, with what happens in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.traces.loaders.prometheus.conftest import GIB, HOUR, T0
from tvwrl.traces.loaders.prometheus_server import (
    CPU,
    INIT_INFO,
    INIT_REQUESTS,
    MEMORY,
    OVERHEAD,
    OWNER,
    REQUESTS,
    SIZES,
)

SCRAPES = (15, 60)  # seconds
SPAN = 2 * HOUR
RESTART = HOUR + 2 * 60 + 7  # seconds after T0


def line(metric: str, value: Any, t: float, **labels: Any) -> str:
    listed = ",".join(f'{name}="{text}"' for name, text in labels.items() if text is not None)
    return f"{metric}{{{listed}}} {value} {T0 + t}"


class Scene:
    """Samples of one cluster, scraped every `step` seconds."""

    def __init__(self, cluster: str, step: int) -> None:
        self.cluster, self.step, self.lines = f"{cluster}-{step}", step, list[str]()

    def gauge(self, metric: str, value: Any, first: float = 0, last: float = SPAN, **labels: Any) -> None:
        for t in range(int(first), int(last) + 1, self.step):
            self.lines.append(line(metric, value, t, **{"cluster": self.cluster, **labels}))

    def node(
        self, name: str, cores: float = 8, gib: float = 32, first: float = 0, last: float = SPAN, **more: Any
    ) -> None:
        for kind, size in (("cpu", cores), ("memory", gib * GIB)):
            self.gauge(SIZES[0], size, first, last, node=name, resource=kind, **more)

    def pod(self, name: str, node: str, first: float = 0, last: float = SPAN, **more: Any) -> None:
        """What kube-state-metrics says of a pod of a StatefulSet, but for requests."""
        known = {"namespace": "prod", "pod": name, "job": "ksm", "uid": f"u-{name}", **more}
        self.gauge("kube_pod_info", 1, first, last, node=node, **known)
        owner = {"owner_kind": "StatefulSet", "owner_name": "db", "owner_is_controller": "true"}
        self.gauge(OWNER, 1, first, last, **known, **owner)

    def uses(self, pod: str, cores: float, gib: float, first: float = 0, last: float = SPAN, **labels: Any) -> None:
        """What cAdvisor says of a container, and nothing of the pod as a whole."""
        named = {"namespace": "prod", "pod": pod, "container": "app", "job": "cadvisor", "cluster": self.cluster}
        named |= {"id": f"/kubepods/{pod}/1", **labels}
        for t in range(int(first), int(last) + 1, self.step):
            self.lines.append(line(CPU, repr(cores * (t - first)), t, **named))
            self.lines.append(line(MEMORY, int(gib * GIB), t, **named))

    def requests(self, pod: str, cores: float, gib: float, first: float = 0, last: float = SPAN, **labels: Any) -> None:
        named = {"namespace": "prod", "pod": pod, "container": "app", "job": "ksm", **labels}
        self.gauge(REQUESTS, cores, first, last, resource="cpu", **named)
        self.gauge(REQUESTS, int(gib * GIB), first, last, resource="memory", **named)


CASES: dict[str, Callable[[Scene], None]] = {}


def case(make: Callable[[Scene], None]) -> Callable[[Scene], None]:
    CASES[make.__name__.strip("_")] = make
    return make


def plain(scene: Scene, pod: str = "db-0") -> None:
    """Two nodes, and a pod that requests 2 cores and 10 GiB."""
    scene.node("n1")
    scene.node("n2")
    scene.pod(pod, "n1")
    scene.requests(pod, 2, 10)


@case
def restarted(scene: Scene) -> None:
    plain(scene)
    scene.uses("db-0", 1, 9, last=RESTART)
    scene.uses("db-0", 1, 9, first=RESTART + 5, id="/kubepods/db-0/2")


@case
def restarted_beside_a_sidecar(scene: Scene) -> None:
    restarted(scene)
    scene.uses("db-0", 0.5, 1, container="proxy", id="/kubepods/db-0/3")


@case
def crashing(scene: Scene) -> None:
    """Started anew every 90 s from RESTART on: each time it grows to 2 GiB."""
    plain(scene)
    scene.uses("db-0", 1, 2, last=RESTART)
    for number in range(30):
        begin = RESTART + 5 + 90 * number
        scene.uses("db-0", 1, 2, first=begin, last=begin + 80, id=f"/kubepods/db-0/{number + 2}")


@case
def two_jobs(scene: Scene) -> None:
    """Everything is scraped by two jobs; the second drops the ids of containers. The container restarts, too."""
    scene.pod("db-0", "n1", job="ksm-2")
    scene.requests("db-0", 2, 10, job="ksm-2")
    for node in ("n1", "n2"):
        scene.node(node, job="ksm-2")
    restarted(scene)
    scene.uses("db-0", 1, 9, job="cadvisor-2", id=None, instance="n1:10250")


@case
def two_replicas(scene: Scene) -> None:
    """Two Prometheus servers with labels of their own, side by side, as an undeduplicated Thanos shows them."""
    for replica in ("a", "b"):
        mine = Scene("", scene.step)
        mine.cluster = scene.cluster
        restarted(mine)
        scene.lines += [one.replace("{", f'{{prometheus_replica="{replica}",', 1) for one in mine.lines]


@case
def moved_exporter(scene: Scene) -> None:
    """kube-state-metrics has another address for one moment, and its old series linger."""
    plain(scene)
    scene.pod("db-0", "n1", first=HOUR, last=HOUR + 60, instance="10.0.0.2:8080")
    scene.requests("db-0", 2, 10, first=HOUR, last=HOUR + 60, instance="10.0.0.2:8080")
    scene.uses("db-0", 1, 9)


@case
def init_container(scene: Scene) -> None:
    """An init container uses 9 GiB for ten minutes, then the container does. The pod as a whole is sampled, too."""
    plain(scene)
    scene.uses("db-0", 1, 9, last=600, container="prepare", id="/kubepods/db-0/0")
    scene.uses("db-0", 1, 9, first=600 + scene.step)
    scene.uses("db-0", 1, 9, container=None, id="/kubepods/db-0")
    scene.uses("db-0", 0, 0.001, container="POD", id="/kubepods/db-0/pause")


@case
def two_nodes(scene: Scene, before: str = "n1", after: str = "n2") -> None:
    """The pod was deleted on n1 and made anew on n2, while what is known of n1 lingers for two minutes."""
    for node in ("n1", "n2"):
        scene.node(node)
    scene.pod("db-0", before, last=HOUR + 120, uid="old", instance="old:8080")
    scene.pod("db-0", after, first=HOUR + scene.step, uid="new")
    scene.requests("db-0", 2, 10)
    scene.uses("db-0", 1, 9, last=HOUR)
    scene.uses("db-0", 1, 9, first=HOUR + 5, id="/kubepods/db-0/2")


@case
def two_nodes_and_back(scene: Scene) -> None:
    """From n2 to n1: the alphabet does not decide."""
    two_nodes(scene, "n2", "n1")


@case
def split_jobs(scene: Scene) -> None:
    """One job has the pod as a whole, often; another its containers, seldom."""
    plain(scene)
    seldom = Scene("", 2 * scene.step)
    seldom.cluster = scene.cluster
    restarted(seldom)
    scene.lines += [one for one in seldom.lines if one.startswith("container")]
    scene.uses("db-0", 1, 9, container=None, id="/kubepods/db-0", job="cadvisor-2")


@case
def nested(scene: Scene) -> None:
    """A container that manages control groups of its own is there several times, with the same name."""
    plain(scene)
    scene.uses("db-0", 1, 9, last=RESTART, name="1a2b")
    scene.uses("db-0", 1, 9, last=RESTART, name="1a2b", id="/kubepods/db-0/1/kubepods/db-0/1")
    scene.uses("db-0", 1, 9, first=RESTART + 5, name="3c4d", id="/kubepods/db-0/2")


@case
def two_views(scene: Scene) -> None:
    """The kubelet's /metrics/resource, in the same job: without ids and names, and as CPU core by core."""
    restarted(scene)
    scene.uses("db-0", 1, 9, id=None, metrics_path="/metrics/resource")


@case
def core_by_core(scene: Scene) -> None:
    plain(scene)
    for core in range(4):
        scene.uses("db-0", 0.25, 9, cpu=f"cpu{core:02d}", node="n1")


@case
def short(scene: Scene) -> None:
    """A Job that comes and goes within an hour."""
    plain(scene)
    scene.uses("db-0", 1, 9)
    scene.pod("job-0", "n2", first=600, last=1800)
    scene.requests("job-0", 3, 6, first=600, last=1800)
    scene.uses("job-0", 2, 5, first=600, last=1800, id="/kubepods/job-0/1")


@case
def late_twin(scene: Scene) -> None:
    """Another cluster with the same names, told apart by no usual label, for the last third of the time."""
    plain(scene)
    scene.uses("db-0", 1, 9, shop="a")
    scene.node("n1", first=80 * 60, shop="b")
    scene.pod("db-0", "n1", first=80 * 60, uid="other", shop="b")


@case
def evicted(scene: Scene) -> None:
    """A namesake was evicted before, and is still listed."""
    plain(scene)
    scene.gauge("kube_pod_status_phase", 1, namespace="prod", pod="db-0", uid="old", phase="Failed")
    scene.pod("db-0", "n2", last=120, uid="old")
    scene.requests("db-0", 7, 30, uid="old")
    scene.uses("db-0", 1, 9)


@case
def gaps(scene: Scene) -> None:
    """NaN and +Inf for a while, as other servers give where there is no sample."""
    plain(scene)
    scene.uses("db-0", 1, 9, last=HOUR)
    for value, first in (("NaN", HOUR), ("+Inf", HOUR + 600)):
        named = {"namespace": "prod", "pod": "db-0", "container": "app", "job": "cadvisor", "id": "/kubepods/db-0/1"}
        scene.gauge(MEMORY, value, first + scene.step, first + 599, **named)
    scene.uses("db-0", 1, 9, first=HOUR + 1200)


@case
def too_much(scene: Scene) -> None:
    """The same container under two names: nobody can know that it is one."""
    scene.node("n1", cores=8, gib=32)
    scene.pod("db-0", "n1")
    for name in ("app", "app-again"):
        scene.uses("db-0", 1, 20, container=name)
        scene.requests("db-0", 5, 20, container=name)


@case
def half_recorded(scene: Scene) -> None:
    """Of one pod only memory is recorded, of another only CPU."""
    plain(scene)
    scene.uses("db-0", 1, 9)
    for name, metric in (("no-cpu", MEMORY), ("no-memory", CPU)):
        scene.pod(name, "n2")
        other = Scene("", scene.step)
        other.cluster = scene.cluster
        other.uses(name, 1, 2)
        scene.lines += [one for one in other.lines if one.startswith(metric)]


@case
def resized(scene: Scene) -> None:
    """Another, larger machine under the name of n2."""
    scene.node("n1")
    scene.node("n2", last=HOUR)
    scene.node("n2", cores=16, first=HOUR + scene.step)
    scene.pod("db-0", "n1")
    scene.requests("db-0", 2, 10)
    scene.uses("db-0", 1, 9)


def foreign(scene: Scene) -> None:
    """kube-state-metrics was scraped without honor_labels."""
    scene.node("n1")
    known = {"namespace": "monitoring", "pod": "ksm-0", "exported_namespace": "prod", "exported_pod": "db-0"}
    scene.gauge("kube_pod_info", 1, node="n1", **known)
    scene.uses("db-0", 1, 9)


STEP_FIRST = {"containers": [("1", "1Gi")], "initContainers": [("5", "1Gi", None), ("2", "1Gi", "Always")]}
SPECS: dict[str, dict[str, Any]] = {  # pods as their makers wrote them: containers, init containers, overhead
    "plain": {"containers": [("500m", "1Gi"), ("250m", None)]},
    "sidecar": {"containers": [("1", "1Gi")], "initContainers": [("500m", "2Gi", "Always")]},
    "step": {"containers": [("1", "1Gi")], "initContainers": [("3", "512Mi", None)]},
    "both": {"containers": [("1", "1Gi")], "initContainers": [("500m", "1Gi", "Always"), ("2", "4Gi", None)]},
    "step-first": STEP_FIRST,  # before the sidecar runs
    "step-first-unscheduled": STEP_FIRST,  # of which kube-scheduler says nothing
    "overhead": {"containers": [("1", None)], "overhead": {"cpu": "250m", "memory": "120Mi"}},
    "only-overhead": {"containers": [(None, None)], "overhead": {"cpu": "250m"}},
    "nothing": {"containers": [(None, None)]},
    "whole": {"containers": [("1", "1Gi")], "resources": {"requests": {"cpu": "3"}}},
}
UNITS = {"m": 1e-3, "Mi": 2**20, "Gi": 2**30}


def amount(text: str) -> float:
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    return float(text.removesuffix(unit)) * UNITS.get(unit, 1)


def spec_of(short: dict[str, Any]) -> dict[str, Any]:
    """`spec` of the pod."""

    def container(cpu: str | None, memory: str | None, policy: str | None = None) -> dict[str, Any]:
        asked = {kind: text for kind, text in (("cpu", cpu), ("memory", memory)) if text}
        return {"resources": {"requests": asked}} | ({"restartPolicy": policy} if policy else {})

    lists = {name: [container(*one) for one in short.get(name, ())] for name in ("containers", "initContainers")}
    return short | lists


@case
def requested(scene: Scene) -> None:
    """The pods of SPECS, as kube-state-metrics and kube-scheduler show them."""
    scene.node("n1", cores=64, gib=256)
    for name, short in SPECS.items():
        scene.pod(name, "n1")
        scene.uses(name, 0.1, 0.1)
        for kind, metric in (("containers", REQUESTS), ("initContainers", INIT_REQUESTS)):
            for number, (cpu, memory, *policy) in enumerate(short.get(kind, ())):
                named = {"namespace": "prod", "pod": name, "container": f"{kind}-{number}".lower()}
                for resource, text in (("cpu", cpu), ("memory", memory)):
                    if text:
                        scene.gauge(metric, amount(text), resource=resource, **named)
                if policy:
                    scene.gauge(INIT_INFO, 1, restart_policy=policy[0] or "", **named)
        for resource, text in short.get("overhead", {}).items():
            scene.gauge(OVERHEAD[resource], amount(text), namespace="prod", pod=name)
    # Only the scheduler knows the resources of a whole pod, and the order of init containers. Scraped without
    # honor_labels, it says nothing of a pod.
    for name, kind, value in (("whole", "cpu", 3), ("step-first", "cpu", 5), ("step-first", "memory", 2 * GIB)):
        scene.gauge("kube_pod_resource_request", value, namespace="prod", pod=name, resource=kind)
    other = {"namespace": "prod", "pod": "plain", "exported_namespace": "kube-system", "exported_pod": "x"}
    scene.gauge("kube_pod_resource_request", 50, resource="cpu", **other)
