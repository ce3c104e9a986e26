"""From the objects of Kubernetes to what may be moved where."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.rebalance.cluster_state import AFFINITY, ANTI_AFFINITY, SPREAD, Budget, ClusterState, Term, Waiting
from tvwrl.rebalance.kubernetes_objects import Field, Objects, read_objects
from tvwrl.rebalance.kubernetes_rules import (
    Labels,
    Requirement,
    Selector,
    Taints,
    label_selector,
    nodes_selected,
    of_same_labels,
)
from tvwrl.rebalance.staying import (
    OWN,
    REQUIRED,
    SAFE,
    Surroundings,
    belongs_to_node,
    containers,
    controller,
    priority_of,
    why_it_stays,
)
from tvwrl.traces import owner_of, quantity, request_of
from tvwrl.types import Bool, Float, InputError, Int, Strings

SCHEDULERS = ("default-scheduler", "tvwrl")  # the one of every cluster, and the one of `deploy/scheduler.yaml`
GIB = 2.0**30
LEAVING = {  # taints of nodes that something else removes, or is about to
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "cloud.google.com/impending-node-termination",
}
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
NOT_REMOVED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
ILL = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")  # pods may tolerate the taints of these
SYSTEM = ("kubernetes.io/os", "kubernetes.io/arch")
INSTANCE_TYPE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
NAMESPACE_NAME = "kubernetes.io/metadata.name"  # label that every namespace has
PLACES = {  # labels of volumes that bind them to nodes with the same, by their older names too
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
DISK = "ephemeral-storage"
MOST_PODS = 2**31  # of a node: a quantity may be larger than what arrays can have
Selection = tuple[tuple[str, ...], Selector | None]  # namespaces, and a selector of pods within them
WANTED = {  # kind -> what is assumed of pods that need its objects, where nothing is known of them
    "PodDisruptionBudget": "that there are none",
    "ReplicaSet": "that those of the pods exist and will replace them",
    "PriorityClass": "that pods whose own priority does not stand in them must not be moved",
    "PersistentVolumeClaim": "that pods with a claim must not be moved",
    "PersistentVolume": "that pods with a claim must not be moved",
}


@dataclass(frozen=True)
class MovableOptions:
    """Which pods may be moved."""

    heading = "what may move"
    delete_emptydir_data: bool = False
    """Move pods with emptyDir volumes too, which lose what is in them, as with kubectl drain; without it only those
    that are marked with the cluster autoscaler's safe-to-evict or safe-to-evict-local-volumes."""


def read_state(
    path: Path, schedulers: Collection[str] = SCHEDULERS, delete_emptydir_data: bool = False
) -> ClusterState:
    """Read what may be moved where from what kubectl wrote.

    Parameters
    ----------
    path : Path
        See `read_objects`.
    schedulers : collection of str
        See `state_of`.
    delete_emptydir_data : bool
        See `state_of`.

    Returns
    -------
    ClusterState
        See `state_of`.

    Raises
    ------
    InputError
        For what cannot be read, or is not what kubectl writes.

    Examples
    --------
    >>> len(read_state(Path("objects.json")))  # doctest: +SKIP
    1042
    """
    return state_of(read_objects(path), schedulers, delete_emptydir_data)


def state_of(
    objects: Objects, schedulers: Collection[str] = SCHEDULERS, delete_emptydir_data: bool = False
) -> ClusterState:
    """Read what may be moved where from the objects of a cluster.

    Parameters
    ----------
    objects : Objects
        Nodes and pods at least.
    schedulers : collection of str
        Pods that another scheduler places stay: its rules are not known.
    delete_emptydir_data : bool
        Whether pods with emptyDir volumes may be moved, which lose what is in them.

    Returns
    -------
    ClusterState
        Nodes and pods in the order of their names. Its `unknown` says what could not be known, and what is assumed
        instead.

    Raises
    ------
    InputError
        For a field that is not what Kubernetes has, with source, object, field and limit; for no node.

    Examples
    --------
    >>> node = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}}
    >>> state = state_of(Objects({"Node": [node], "Pod": []}, "here", 0.0))
    >>> state.size.tolist(), state.open.tolist()
    ([[4.0, 16.0]], [False])
    """
    for kind in ("Node", "Pod"):
        if kind in objects.unreadable:
            raise InputError(f"{objects.source}: {kind}: cannot be read: {objects.unreadable[kind]}")
    return _Reading(objects, schedulers, delete_emptydir_data).state()


class _Reading:
    """Objects on their way to a state. Rows of pods and nodes are those of the state."""

    def __init__(self, objects: Objects, schedulers: Collection[str], delete_emptydir_data: bool) -> None:
        self.objects = objects
        self.schedulers, self.delete_emptydir_data = schedulers, delete_emptydir_data
        self.unknown: list[str] = []
        nodes = objects.named("Node")
        if not nodes:
            raise InputError(f"{objects.source}: there is no node")
        self.nodes = list(nodes.values())
        self.node = list(nodes)
        self.node_labels = Labels([node.at("metadata", "labels").texts() for node in self.nodes])
        self.taints = Taints(node.at("spec", "taints") for node in self.nodes)
        self.volumes = objects.named("PersistentVolume")
        self._choose_pods(objects.named("Pod"))
        self._domains: dict[str, Int] = {}
        self._selected: dict[str, Bool] = {}
        self._tolerated: dict[str, Bool] = {}
        self._matched: dict[Hashable, Int] = {}

    def _choose_pods(self, pods: dict[str, Field]) -> None:
        """Those that hold room on a node, or will."""
        row, lost, held = {name: number for number, name in enumerate(self.node)}, 0, 0
        self.pending: dict[str, Field] = {}
        self.pod: list[str] = []
        self.pods: list[Field] = []
        at = []
        for name, pod in pods.items():
            if pod.at("status", "phase").text() in ("Succeeded", "Failed"):
                continue
            bound_to = pod.at("spec", "nodeName").text()
            node = row.get(bound_to or pod.at("status", "nominatedNodeName").text(), -1)
            lost += node < 0 and bool(bound_to)
            if node < 0 and not bound_to:
                if _waits(pod):
                    self.pending[name] = pod
                else:
                    held += 1
            if node >= 0:
                self.pod.append(name)
                self.pods.append(pod)
                at.append(node)
        self.at = np.array(at, np.int64)
        if lost:
            self.unknown.append(
                f"{_count(lost, 'pod')} on nodes that are not there; assumed is that they do not count."
            )
        if waiting := len(self.pending):
            wait, them, take = ("waits", "it", "takes") if waiting == 1 else ("wait", "them", "take")
            self.unknown.append(
                f"{_count(waiting, 'pod')} {wait} for a node, such as {next(iter(self.pending))}: no room is kept for "
                f"{them} where pods go, but what {them if waiting > 1 else 'it'} {take} of the nodes that are emptied "
                "is no saving."
            )
        if held:
            self.unknown.append(
                f"{_count(held, 'pod')} without a node {'is' if held == 1 else 'are'} held back (by scheduling gates, "
                "or as a DaemonSet's), or about to end; assumed is that they need no room."
            )
        self.labels = [pod.at("metadata", "labels").texts() for pod in self.pods]
        self.namespace = [name.partition("/")[0] for name in self.pod]
        by_namespace = defaultdict(list)
        for number, namespace in enumerate(self.namespace):
            by_namespace[namespace].append(number)
        self.within = {
            namespace: (np.array(rows, np.int64), Labels([self.labels[one] for one in rows]))
            for namespace, rows in by_namespace.items()
        }

    def state(self) -> ClusterState:
        objects, number = self.objects, len(self.pods)
        size, most_pods, open_, kind = self._sizes()
        classes = {name: one.at("value").whole() for name, one in objects.named("PriorityClass").items()}
        known = objects.named("ReplicaSet") if _known(objects, "ReplicaSet") else None
        around = Surroundings(objects.time, self.schedulers, known, classes, self.delete_emptydir_data)
        self._say_what_is_missing()
        self.stays = [why_it_stays(pod, name, around) for pod, name in zip(self.pods, self.pod, strict=True)]
        self._stay_by_nodes()
        budgets = self._budgets()
        volumes = self._volumes()
        terms = (*self._host_ports(), *self._neighbours(), *self._spread())
        group, allowed = self._groups(volumes)
        request = np.zeros((number, 2))
        for row, pod in enumerate(self.pods):
            request[row] = request_of(_with_resizes(pod), str(pod.at("spec")))
        return ClusterState(
            source=objects.source,
            time=objects.time,
            node=_strings(self.node),
            size=size,
            most_pods=most_pods,
            open=open_,
            kind=kind,
            price=np.full(len(self.nodes), np.nan),
            pod=_strings(self.pod),
            uid=_strings(pod.at("metadata", "uid").text() for pod in self.pods),
            owner=_strings(_owner(pod, name) for pod, name in zip(self.pods, self.pod, strict=True)),
            at=self.at,
            request=np.nan_to_num(request) / (1.0, GIB),
            priority=np.array([priority_of(pod, classes) or 0 for pod in self.pods], np.int64),
            bound=np.array([belongs_to_node(pod) for pod in self.pods], np.bool_),
            stays=_strings(self.stays),
            group=group,
            allowed=allowed,
            terms=terms,
            budgets=budgets,
            unknown=tuple(self.unknown),
            unsaved={name: why for name, node in zip(self.node, self.nodes, strict=True) if (why := _unsaved(node))},
            waiting=tuple(self._waiting()),
        )

    def _waiting(self) -> Iterator[Waiting]:
        """Pods without a node."""
        claims = self.objects.named("PersistentVolumeClaim")
        for name, pod in self.pending.items():
            allowed = self._chosen(pod) & self._tolerating(pod) & self._offering(pod)
            for one in pod.at("spec", "volumes"):
                claim = claims.get(f"{name.partition('/')[0]}/{one.at('persistentVolumeClaim', 'claimName').text()}")
                volume = "" if claim is None else claim.at("spec", "volumeName").text()
                if volume in self.volumes:
                    allowed &= self._reach(volume)
            request = request_of(pod.at("spec").value or {}, str(pod.at("spec")))
            tried = any(
                one.at("type").text() == "PodScheduled" and one.at("reason").text() == "Unschedulable"
                for one in pod.at("status", "conditions")
            )
            yield Waiting(name, _owner(pod, name), np.nan_to_num(request) / (1.0, GIB), allowed, tried)

    def _offering(self, pod: Field) -> Bool:
        """(M,) nodes that have at all what a pod requests beside CPU, memory and disk."""
        offering = np.ones(len(self.nodes), np.bool_)
        for one in containers(pod.at("spec")):
            asked = one.at("resources", "requests")
            for resource in asked.fields():
                if resource not in OWN:
                    least = _amount(asked.at(resource))
                    offering &= [_amount(node.at("status", "allocatable", resource)) >= least for node in self.nodes]
        return offering

    def _say_what_is_missing(self) -> None:
        needed = {"PodDisruptionBudget"}
        for pod in self.pods:
            owner = controller(pod)
            if owner is not None and owner.at("kind").text() == "ReplicaSet":
                needed.add("ReplicaSet")
            if priority_of(pod, {}) is None:
                needed.add("PriorityClass")
            if any(volume.at("persistentVolumeClaim").given for volume in pod.at("spec", "volumes")):
                needed |= {"PersistentVolumeClaim", "PersistentVolume"}
        for kind, assumed in WANTED.items():
            reason = self.objects.unreadable.get(kind)
            if reason is not None:
                assumed = "that no pod may be moved" if kind == "PodDisruptionBudget" else assumed
                self.unknown.append(f"{kind}: cannot be read: {reason}; assumed is {assumed}.")
            elif kind in needed and kind not in self.objects.by_kind:
                self.unknown.append(f"{kind}: there are none, or they were not read; assumed is {assumed}.")

    def _stay(self, rows: Iterable[int], reason: str) -> None:
        for row in rows:
            self.stays[row] = self.stays[row] or reason

    def _sizes(self) -> tuple[Float, Int, Bool, Strings]:
        """What nodes have, how many pods they may run, whether they are open, and of which kind they are."""
        size, most_pods = np.zeros((len(self.nodes), 2)), np.zeros(len(self.nodes), np.int64)
        open_, kinds, unsized = np.zeros(len(self.nodes), np.bool_), [], 0
        for row, node in enumerate(self.nodes):
            amounts = node.at("status", "allocatable")
            cpu, memory, pods = (_amount(amounts.at(name)) for name in ("cpu", "memory", "pods"))
            size[row], most_pods[row] = (cpu, memory / GIB), int(min(pods, MOST_PODS))
            unsized += not (cpu and memory and pods)
            true = {
                one.at("type").text() for one in node.at("status", "conditions") if one.at("status").text() == "True"
            }
            well = "Ready" in true and not true.intersection(ILL)
            going = _leaves(node) or node.at("spec", "unschedulable").flag()
            open_[row] = well and not going and bool(cpu and memory and pods)
            labels = node.at("metadata", "labels")
            kinds.append(next((labels.at(name).text() for name in INSTANCE_TYPE if labels.at(name).given), ""))
        if unsized:
            self.unknown.append(
                f"{_count(unsized, 'node')} without allocatable resources; assumed is that no pod may go there."
            )
        return size, most_pods, open_, _strings(kinds)

    def _stay_by_nodes(self) -> None:
        mark = "karpenter.sh/do-not-disrupt"
        marked = np.array([node.at("metadata", "annotations", mark).text() == "true" for node in self.nodes], np.bool_)
        self._stay(np.flatnonzero(marked[self.at]), f"its node is marked {mark}")

    def _matching(self, namespaces: Iterable[str], selector: Selector | None) -> Int:
        """Rows of the pods of these namespaces that a selector matches, sorted."""
        if selector is None:
            return np.empty(0, np.int64)
        found = []
        for namespace in namespaces:
            if namespace in self.within:
                key = (namespace, selector)
                if key not in self._matched:
                    rows, labels = self.within[namespace]
                    self._matched[key] = rows[labels.match(selector)]
                found.append(self._matched[key])
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)

    def _budgets(self) -> tuple[Budget, ...]:
        if "PodDisruptionBudget" in self.objects.unreadable:
            self._stay(range(len(self.pods)), "disruption budgets cannot be read")
        budgets, covered = [], np.zeros(len(self.pods), np.int64)
        for name, one in self.objects.named("PodDisruptionBudget").items():
            selector = label_selector(one.at("spec", "selector"))
            if selector == () and one.at("apiVersion").text() == "policy/v1beta1":
                selector = None  # in that version, the empty one matches nothing
            rows = self._matching([name.partition("/")[0]], selector)
            status = one.at("status")
            stale = status.at("observedGeneration").whole() < one.at("metadata", "generation").whole()
            # Pods that are not ready stay, so unhealthyPodEvictionPolicy allows no move that is not allowed here.
            allowed = 0 if stale else max(status.at("disruptionsAllowed").whole(), 0)
            covered[rows] += 1
            if len(rows):
                budgets.append(Budget(name, rows, allowed))
        self._stay(np.flatnonzero(covered > 1), "is covered by several disruption budgets, so no eviction is possible")
        unsafe = [
            row
            for row in np.flatnonzero(covered == 0).tolist()
            if self.namespace[row] == "kube-system"
            and self.pods[row].at("metadata", "annotations", SAFE).text() != "true"
        ]
        self._stay(unsafe, "is in kube-system without a disruption budget")
        return tuple(budgets)

    def _volumes(self) -> list[tuple[str, ...]]:
        """Of each pod the volumes that bind it to some nodes; pods of which they are not known stay."""
        claims, volumes = self.objects.named("PersistentVolumeClaim"), self.volumes
        of_pod = [
            [volume.at("persistentVolumeClaim", "claimName").text() for volume in pod.at("spec", "volumes")]
            for pod in self.pods
        ]
        used = Counter(
            f"{namespace}/{claim}"
            for namespace, names in zip(self.namespace, of_pod, strict=True)
            for claim in {*names}
        )
        found: list[tuple[str, ...]] = []
        moving = 0
        for row, names in enumerate(of_pod):
            its_volumes = []
            for claim in filter(None, names):
                key = f"{self.namespace[row]}/{claim}"
                one = claims.get(key)
                volume = "" if one is None else one.at("spec", "volumeName").text()
                if one is None or volume not in volumes:
                    self._stay([row], "has a volume of which nothing is known")
                    continue
                its_volumes.append(volume)
                of_volume = volumes[volume].at("spec")
                modes = {mode.text() for mode in one.at("spec", "accessModes")}
                if "ReadWriteOncePod" in modes:
                    self._stay([row], "has a volume that only one pod may use (ReadWriteOncePod)")
                elif modes <= {"ReadWriteOnce"} and used[key] > 1:
                    self._stay([row], "shares a volume that only one node may use (ReadWriteOnce)")
                if of_volume.at("local").given or of_volume.at("hostPath").given:
                    self._stay([row], "has a local volume")
                if one.at("metadata", "deletionTimestamp").given:
                    self._stay([row], "has a volume that is being deleted")
            found.append(tuple(sorted(its_volumes)))
            moving += bool(its_volumes) and not self.stays[row]
        if moving:
            self.unknown.append("How many volumes nodes can attach is not known; assumed is that there is no limit.")
        return found

    def _reach(self, volume: str) -> Bool:
        """(M,) nodes that can use a persistent volume."""
        one = self.volumes[volume]
        required = one.at("spec", "nodeAffinity", "required")
        allowed = np.ones(len(self.nodes), np.bool_)
        if required.given:
            allowed &= nodes_selected(required, self.node, self.node_labels)
        labels = one.at("metadata", "labels")
        for key, newer in PLACES.items():
            if labels.at(key).given:
                values = tuple(labels.at(key).text().split("__"))
                by_key, by_newer = (self.node_labels.match((Requirement(one, "In", values),)) for one in (key, newer))
                allowed &= by_key | by_newer
        return allowed

    def _groups(self, volumes: Sequence[tuple[str, ...]]) -> tuple[Int, Bool]:
        """Pods with the same rules about nodes, and the nodes that these allow."""
        disk = np.array([_disk(pod) for pod in self.pods])
        number: dict[tuple[str, str, tuple[str, ...], bool, int], int] = {}
        rows: list[Bool] = []
        group = np.zeros(len(self.pods), np.int64)
        reach = {name: self._reach(name) for name in sorted({one for several in volumes for one in several})}
        roomy = self._roomy(disk)
        system = self._systems()
        for row, pod in enumerate(self.pods):
            its_system = int(system[self.at[row]])
            key = (_affinity_key(pod), _toleration_key(pod), volumes[row], bool(disk[row]), its_system)
            if key not in number:
                number[key] = len(rows)
                allowed = self._chosen(pod) & self._tolerating(pod) & (system == its_system)
                for volume in volumes[row]:
                    allowed = allowed & reach[volume]
                rows.append(allowed & roomy if disk[row] else allowed)
            group[row] = number[key]
        return group, np.array(rows, np.bool_).reshape(len(rows), len(self.nodes))

    def _systems(self) -> Int:
        """(M,) the same number for nodes of the same operating system and architecture.

        Of others it is not known whether the image of a pod runs there, and no scheduler asks.
        """
        labels = [node.at("metadata", "labels") for node in self.nodes]
        systems = [tuple(one.at(name).text() for name in SYSTEM) for one in labels]
        known = {one: number for number, one in enumerate(sorted(set(systems)))}
        return np.array([known[one] for one in systems], np.int64)

    def _roomy(self, disk: Float) -> Bool:
        """(M,) nodes whose disks have room for all pods that ask for some and may be moved.

        A state has no disks; on such nodes none can be exceeded, whatever is moved.
        """
        movable = np.array([not reason for reason in self.stays], np.bool_)
        free = np.array([_amount(node.at("status", "allocatable", DISK)) for node in self.nodes])
        np.subtract.at(free, self.at, disk)
        own = np.zeros(len(self.nodes))
        np.add.at(own, self.at[movable], disk[movable])
        roomy: Bool = free >= disk[movable].sum() - own
        return roomy

    def _chosen(self, pod: Field) -> Bool:
        """(M,) nodes that node selector and required node affinity allow."""
        key = _affinity_key(pod)
        if key not in self._selected:
            wanted = pod.at("spec", "nodeSelector").texts()
            chosen = self.node_labels.match(tuple(Requirement(name, "In", (value,)) for name, value in wanted.items()))
            required = pod.at("spec", "affinity", "nodeAffinity", REQUIRED)
            if required.given:
                chosen = chosen & nodes_selected(required, self.node, self.node_labels)
            self._selected[key] = chosen
        return self._selected[key]

    def _tolerating(self, pod: Field) -> Bool:
        """(M,) nodes of which the pod tolerates every taint."""
        key = _toleration_key(pod)
        if key not in self._tolerated:
            self._tolerated[key] = self.taints.tolerated(pod.at("spec", "tolerations"))
        return self._tolerated[key]

    def _domain(self, key: str) -> Int:
        """(M,) the domain of each node by a label; -1: the node lacks it."""
        if key not in self._domains:
            self._domains[key] = self.node_labels.values(key)
        return self._domains[key]

    def _host_ports(self) -> list[Term]:
        """No two pods with the same port of their host run on one node, whatever address they bind."""
        users = defaultdict(list)
        for row, pod in enumerate(self.pods):
            ports = {
                (one.at("protocol").text() or "TCP", one.at("hostPort").whole())
                for container in containers(pod.at("spec"))
                for one in container.at("ports")
            }
            for port in ports:
                if port[1]:
                    users[port].append(row)
        every = np.arange(len(self.nodes))
        return [Term(ANTI_AFFINITY, np.array(rows), np.array(rows), every) for rows in users.values() if len(rows) > 1]

    def _neighbours(self) -> list[Term]:
        """Required affinity and anti-affinity between pods.

        Of the affinities of a pod, a neighbour counts only if it meets all.
        """
        carriers: dict[tuple[str, tuple[Selection, ...], str], list[int]] = defaultdict(list)
        for row, pod in enumerate(self.pods):
            for kind, name in ((AFFINITY, "podAffinity"), (ANTI_AFFINITY, "podAntiAffinity")):
                rules = [self._neighbour(row, one) for one in pod.at("spec", "affinity", name, REQUIRED)]
                every = tuple(sorted({selection for selection, _ in rules}, key=repr))
                for selection, key in dict.fromkeys(rules):
                    carriers[kind, every if kind == AFFINITY else (selection,), key].append(row)
        terms = []
        for (kind, all_of, key), rows in carriers.items():
            matched = self._matching(*all_of[0])
            for one in all_of[1:]:
                matched = np.intersect1d(matched, self._matching(*one))
            terms.append(Term(kind, np.array(rows), matched, self._domain(key)))
        return terms

    def _neighbour(self, row: int, rule: Field) -> tuple[Selection, str]:
        """Whom a rule is about, and its topology key.

        Where the labels of namespaces are not known, it may be about any, so the pod stays.
        """
        namespaces = {one.text() for one in rule.at("namespaces")}
        selected = rule.at("namespaceSelector")
        if selected.given:
            among = self._namespaces(label_selector(selected) or ())
            if among is None:
                self._stay([row], "has a rule about namespaces whose labels are not known")
            namespaces |= set(self.within) if among is None else among
        elif not namespaces:
            namespaces = {self.namespace[row]}
        selector = label_selector(rule.at("labelSelector"))
        if selector is not None:
            same = of_same_labels(rule.at("matchLabelKeys"), self.labels[row], "In")
            other = of_same_labels(rule.at("mismatchLabelKeys"), self.labels[row], "NotIn")
            selector = tuple(sorted({*selector, *same, *other}))
        return (tuple(sorted(namespaces)), selector), rule.at("topologyKey").name()

    def _namespaces(self, selector: Selector) -> set[str] | None:
        """The namespaces with pods that a selector matches, None if that cannot be known."""
        names = list(self.within)
        if all(one.key == NAMESPACE_NAME for one in selector):
            labels = [{NAMESPACE_NAME: name} for name in names]
        else:
            known = self.objects.named("Namespace")
            if any(name not in known for name in names):
                return None
            labels = [{**known[name].at("metadata", "labels").texts(), NAMESPACE_NAME: name} for name in names]
        return {names[row] for row in np.flatnonzero(Labels(labels).match(selector))}

    def _spread(self) -> list[Term]:
        """Topology spread that schedulers must keep.

        A node counts if it has the labels of all such rules of a pod, and, as each rule says, if the pod's selectors
        and tolerations let it go there.
        """
        carriers: dict[tuple[str, Selector | None, int, Hashable], list[int]] = defaultdict(list)
        domains: dict[Hashable, Int] = {}
        going = np.array([pod.at("metadata", "deletionTimestamp").given for pod in self.pods], np.bool_)
        for row, pod in enumerate(self.pods):
            rules = [
                one
                for one in pod.at("spec", "topologySpreadConstraints")
                if one.at("whenUnsatisfiable").text() != "ScheduleAnyway"
            ]
            keys = tuple(sorted({one.at("topologyKey").name() for one in rules}))
            for one in rules:
                selected = one.at("nodeAffinityPolicy").text() != "Ignore"
                tolerated = one.at("nodeTaintsPolicy").text() == "Honor"
                key = one.at("topologyKey").name()
                of_domain = (
                    key,
                    keys,
                    _affinity_key(pod) if selected else None,
                    _toleration_key(pod) if tolerated else None,
                )
                if of_domain not in domains:
                    counts = np.logical_and.reduce([self._domain(name) >= 0 for name in keys])
                    counts &= self._chosen(pod) if selected else True
                    counts &= self._tolerating(pod) if tolerated else True
                    domains[of_domain] = _numbered(np.where(counts, self._domain(key), -1))
                least = one.at("minDomains").whole(1)
                if domains[of_domain].max(initial=-1) + 1 < least and least > 1:
                    self._stay([row], f"asks for {least} domains of {key} in its topology spread, and fewer are there")
                selector = label_selector(one.at("labelSelector"))
                if selector is not None:
                    same = of_same_labels(one.at("matchLabelKeys"), self.labels[row], "In")
                    selector = tuple(sorted({*selector, *same}))
                skew = one.at("maxSkew").whole()
                if skew < 1:
                    one.at("maxSkew").refuse("a whole number >= 1")
                carriers[self.namespace[row], selector, skew, of_domain].append(row)
        terms = []
        for (namespace, selector, skew, within), rows in carriers.items():
            matched = self._matching([namespace], selector)
            terms.append(Term(SPREAD, np.array(rows), matched[~going[matched]], domains[within], skew))
        return terms


def _waits(pod: Field) -> bool:
    """Whether a pod without a node needs one that it can take from others."""
    held = any(True for _ in pod.at("spec", "schedulingGates")) or pod.at("metadata", "deletionTimestamp").given
    return not held and not belongs_to_node(pod)


def _leaves(node: Field) -> bool:
    """Whether something removes a node anyway."""
    marked = any(taint.at("key").text() in LEAVING for taint in node.at("spec", "taints"))
    return node.at("metadata", "deletionTimestamp").given or marked


def _unsaved(node: Field) -> str:
    """Why a plan saves nothing when it empties a node; "": it saves the node."""
    if _leaves(node):
        return "is being removed anyway"
    if any(node.at("metadata", "labels", name).given for name in CONTROL_PLANE):
        return "is of the control plane"
    if node.at("metadata", "annotations", NOT_REMOVED).text() == "true":
        return f"is marked {NOT_REMOVED}"
    return ""


def _known(objects: Objects, kind: str) -> bool:
    return kind in objects.by_kind and kind not in objects.unreadable


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"


def _strings(texts: Iterable[str]) -> Strings:
    listed = list(texts)
    column = np.empty(len(listed), np.object_)
    column[:] = listed
    return column


def _amount(field: Field) -> float:
    return quantity(field.value, str(field)) if field.given else 0.0


def _with_resizes(pod: Field) -> dict[str, Any]:
    """The specification of a pod, where containers that are being resized request the largest of what is asked for,
    what they have, and what their node keeps for them, as for kube-scheduler: they hold that room meanwhile."""
    spec = pod.at("spec")
    found = dict(spec.value or {})
    for kind, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        held = {one.at("name").text(): one for one in pod.at("status", statuses)}
        found[kind] = [_with_resize(one, held.get(one.at("name").text(), Field({}, ""))) for one in spec.at(kind)]
    return found


def _with_resize(container: Field, status: Field) -> Any:
    asked = container.at("resources", "requests")
    amounts = dict(asked.value or {})
    for held in (status.at("resources", "requests"), status.at("allocatedResources")):
        for name in held.fields():
            if _amount(held.at(name)) > quantity(amounts.get(name, 0), str(asked.at(name))):
                amounts[name] = held.value[name]
    if amounts == (asked.value or {}):
        return container.value
    return {**container.value, "resources": {**(container.at("resources").value or {}), "requests": amounts}}


def _disk(pod: Field) -> float:
    """Bytes of a node's disk that a pod requests, at most."""
    spec = pod.at("spec")
    parts = [*(one.at("resources", "requests", DISK) for one in (spec, *containers(spec))), spec.at("overhead", DISK)]
    return sum(_amount(one) for one in parts)


def _owner(pod: Field, name: str) -> str:
    """Its controller as the reader of metrics spells it, "" for none."""
    leading = controller(pod) or next(iter(pod.at("metadata", "ownerReferences")), None)
    if leading is None:
        return ""
    namespace, _, short = name.partition("/")
    return owner_of(namespace, short, leading.at("kind").text(), leading.at("name").text())


def _affinity_key(pod: Field) -> str:
    spec = pod.at("spec")
    return _key(spec.at("nodeSelector"), spec.at("affinity", "nodeAffinity", REQUIRED))


def _toleration_key(pod: Field) -> str:
    return _key(pod.at("spec", "tolerations"))


def _key(*fields: Field) -> str:
    """Equal for equal values."""
    return json.dumps([field.value for field in fields], sort_keys=True)


def _numbered(domain: Int) -> Int:
    """Domains numbered from 0 without gaps; -1 stays."""
    _, number = np.unique(domain, return_inverse=True)
    return number.reshape(-1).astype(np.int64) - int(domain.min(initial=0) < 0)
