"""Why a pod must not be moved, as descheduler, cluster-autoscaler and Karpenter see it, in a few words."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tvwrl.rebalance.kubernetes_objects import Field
from tvwrl.traces import quantity

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
NOT_DISRUPTED, NOT_EVICTED_BEFORE = "karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-evict"  # the latter is older
NOT_EVICTED = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
MIRROR, SOURCE = "kubernetes.io/config.mirror", "kubernetes.io/config.source"  # of static pods
CRITICAL = 2_000_000_000  # the least priority of what the system needs
CRITICAL_CLASSES = {"system-cluster-critical": CRITICAL, "system-node-critical": CRITICAL + 1000}
OWN = ("cpu", "memory", "ephemeral-storage")  # resources that every node has
DURATION = re.compile(r"(?:\d+(?:\.\d*)?(?:h|m(?!s)|s|ms))+", re.ASCII)
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
# Volumes that a pod finds on any node. Claims and local ones are looked at; any other kind stays where it is.
ANYWHERE = {"configMap", "secret", "projected", "downwardAPI", "csi", "nfs", "image"}
# Fields that do not restrict where a pod may run, or of which the restriction is looked at. One that is not listed may
# be a rule that came with a newer Kubernetes.
# fmt: off
KNOWN = {
    "volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy", "terminationGracePeriodSeconds",
    "activeDeadlineSeconds", "dnsPolicy", "nodeSelector", "serviceAccountName", "serviceAccount",
    "automountServiceAccountToken", "nodeName", "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace",
    "securityContext", "imagePullSecrets", "hostname", "subdomain", "affinity", "schedulerName", "tolerations",
    "hostAliases", "priorityClassName", "priority", "dnsConfig", "readinessGates", "runtimeClassName",
    "enableServiceLinks", "preemptionPolicy", "overhead", "topologySpreadConstraints", "setHostnameAsFQDN", "os",
    "hostUsers", "schedulingGates", "resourceClaims", "resources", "hostnameOverride",
}
KNOWN_OF_SPREAD = {
    "maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector", "minDomains", "nodeAffinityPolicy",
    "nodeTaintsPolicy", "matchLabelKeys",
}
KNOWN_OF_NEIGHBOURS = {
    "labelSelector", "namespaces", "namespaceSelector", "topologyKey", "matchLabelKeys", "mismatchLabelKeys",
}
# fmt: on
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Surroundings:
    """What must be known beside a pod."""

    time: float  # seconds since 1970
    schedulers: Collection[str]  # whose pods may be moved
    replica_sets: Mapping[str, Field] | None  # namespace/name -> object; None: they were not read
    classes: Mapping[str, int]  # PriorityClass -> its value
    delete_emptydir_data: bool = False  # whether what is in emptyDir volumes may be lost


def containers(spec: Field) -> Iterator[Field]:
    """All containers of a pod that run at some time."""
    yield from spec.at("containers")
    yield from spec.at("initContainers")


def controller(pod: Field) -> Field | None:
    """The reference to the controller of a pod, which makes another when it is gone."""
    return next((one for one in pod.at("metadata", "ownerReferences") if one.at("controller").flag()), None)


def belongs_to_node(pod: Field) -> bool:
    """Whether a pod is of a DaemonSet, or static."""
    annotations = pod.at("metadata", "annotations")
    if annotations.at(MIRROR).given or annotations.at(SOURCE).value not in (None, "api"):
        return True
    return any(one.at("kind").text() in ("DaemonSet", "Node") for one in pod.at("metadata", "ownerReferences"))


def priority_of(pod: Field, classes: Mapping[str, int]) -> int | None:
    """Its priority; None if it is of a class of which nothing is known."""
    spec = pod.at("spec")
    name = spec.at("priorityClassName").text()
    known = CRITICAL_CLASSES.get(name, classes.get(name, None if name else 0))
    return spec.at("priority").whole() if spec.at("priority").given else known


def why_it_stays(pod: Field, name: str, around: Surroundings) -> str:
    """Why a pod, `name` being namespace/name, must not be moved whatever else runs in the cluster; "": it may be."""
    return next(_reasons(pod, name, around), "")


def _reasons(pod: Field, name: str, around: Surroundings) -> Iterator[str]:
    spec, status, annotations = pod.at("spec"), pod.at("status"), pod.at("metadata", "annotations")
    if belongs_to_node(pod):
        yield "belongs to its node (of a DaemonSet, or static)"
    owner = controller(pod)
    if owner is None:
        yield "has no controller that would replace it"
    else:
        kind, its_name = owner.at("kind").text(), f"{name.partition('/')[0]}/{owner.at('name').text()}"
        if kind == "Job" or spec.at("restartPolicy").text() not in ("", "Always"):
            yield "runs to its end (Job)"
        if kind == "ReplicaSet" and around.replica_sets is not None:
            replicas = around.replica_sets.get(its_name)
            if replicas is None:
                yield "its ReplicaSet is not there"
            elif replicas.at("metadata", "deletionTimestamp").given:
                yield "its ReplicaSet is being deleted"
            elif replicas.at("spec", "template", "spec", "nodeName").given:
                yield "its ReplicaSet names its node"
            elif replicas.at("spec", "replicas").whole(1) < replicas.at("status", "replicas").whole():
                yield "its ReplicaSet is being scaled down"
    if pod.at("metadata", "deletionTimestamp").given:
        yield "is being deleted"
    if not spec.at("nodeName").given:
        yield "waits for this node"
    if status.at("phase").text() != "Running":
        yield "is not running"
    conditions = {one.at("type").text(): one.at("status").text() for one in status.at("conditions")}
    if conditions.get("Ready") != "True":
        yield "is not ready"
    resizing = "True" in (conditions.get("PodResizePending"), conditions.get("PodResizeInProgress"))
    if resizing or status.at("resize").text():  # a condition, and the field that older versions have
        yield "is being resized"
    if annotations.at(SAFE).text() not in ("", "true"):
        yield f"is marked {SAFE}: {annotations.at(SAFE).text()}"
    if _not_disrupted(pod, around.time):
        yield f"is marked {NOT_DISRUPTED}"
    if annotations.at(NOT_EVICTED_BEFORE).text() == "true":
        yield f"is marked {NOT_EVICTED_BEFORE}"
    if annotations.at(NOT_EVICTED).given:
        yield f"is marked {NOT_EVICTED}"
    priority = priority_of(pod, around.classes)
    if priority is None:
        yield "its priority is not known"
    elif priority >= CRITICAL:
        yield "has a priority of what the system needs"
    yield from _by_scheduling(spec, around)
    yield from _by_volume(spec, annotations, around.delete_emptydir_data)


def _by_scheduling(spec: Field, around: Surroundings) -> Iterator[str]:
    scheduler = spec.at("schedulerName").text() or "default-scheduler"
    if scheduler not in around.schedulers:
        yield f"is placed by the scheduler {scheduler}"
    if any(True for _ in spec.at("resourceClaims")):
        yield "has resource claims"
    for part in (spec, *containers(spec)):
        if any(True for _ in part.at("resources", "claims")):
            yield "has resource claims"
        for asked in (part.at("resources", "requests"), part.at("resources", "limits")):
            for resource in asked.fields():
                if resource not in OWN and quantity(asked.value[resource], str(asked.at(resource))) > 0:
                    yield f"requests {resource}"
    for field in spec.fields():
        if field not in KNOWN:
            yield f"has a field that is not known here: spec.{field}"
    for one in spec.at("topologySpreadConstraints"):
        if one.at("whenUnsatisfiable").text() == "ScheduleAnyway":
            continue
        unknown = [field for field in one.fields() if field not in KNOWN_OF_SPREAD]
        unknown += [
            field for field in ("nodeAffinityPolicy", "nodeTaintsPolicy")
            if one.at(field).text() not in ("", "Honor", "Ignore")
        ]  # fmt: skip
        if unknown:
            yield f"has a field that is not known here: spec.topologySpreadConstraints.{unknown[0]}"
    for kind in ("podAffinity", "podAntiAffinity"):
        for one in spec.at("affinity", kind, REQUIRED):
            for field in one.fields():
                if field not in KNOWN_OF_NEIGHBOURS:
                    yield f"has a field that is not known here: spec.affinity.{kind}.{field}"
    for field in spec.at("affinity").fields():
        if field not in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
            yield f"has a field that is not known here: spec.affinity.{field}"


def _by_volume(spec: Field, annotations: Field, delete_emptydir_data: bool) -> Iterator[str]:
    safe = annotations.at(SAFE).text() == "true"
    harmless = {name.strip() for name in annotations.at(SAFE_VOLUMES).text().split(",")}
    for volume in spec.at("volumes"):
        kinds = [kind for kind in volume.fields() if kind != "name" and volume.value[kind] is not None]
        for kind in kinds:
            on_disk = kind == "emptyDir" and volume.at("emptyDir", "medium").text() != "Memory"
            if kind == "hostPath" or (on_disk and not delete_emptydir_data):
                if not safe and volume.at("name").text() not in harmless:
                    yield f"has local storage ({kind})"
            elif kind not in ANYWHERE and kind not in ("emptyDir", "persistentVolumeClaim"):
                yield f"has a volume of the kind {kind}"


def _not_disrupted(pod: Field, now: float) -> bool:
    """Whether Karpenter's mark holds: for good, or for a time that began with the pod."""
    marked = pod.at("metadata", "annotations", NOT_DISRUPTED).text()
    if not DURATION.fullmatch(marked):
        return marked not in ("", "false")  # what cannot be read was meant to keep the pod
    seconds = sum(float(number) * SECONDS[unit] for number, unit in re.findall(r"([\d.]+)(ms|[hms])", marked))
    began = pod.at("status", "startTime").moment()
    return math.isnan(began) or now - began < seconds
