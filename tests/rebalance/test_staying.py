"""Why a pod must not be moved, each reason by hand."""

from __future__ import annotations

import pytest

from tests.rebalance.clusters import (
    READY,
    REQUIRED,
    budget,
    claim,
    claiming,
    container,
    merged,
    node,
    objects,
    pod,
    read,
    reason,
    volume,
)
from tvwrl.rebalance import state_of
from tvwrl.types import InputError

SAFE = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}


def owned(kind, controller=True, name="x"):
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": controller}]}


def annotated(name, value):
    return {"annotations": {name: value}}


def local(kind="emptyDir", name="v", **about):
    return {"volumes": [{"name": name, kind: about}]}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"metadata": owned("StatefulSet")}, ""),
        ({"metadata": owned("Widget")}, ""),  # of an operator of one's own
        ({"metadata": {"ownerReferences": None}}, "has no controller"),
        ({"metadata": owned("ReplicaSet", controller=None)}, "has no controller"),
        ({"metadata": owned("DaemonSet")}, "belongs to its node"),
        ({"metadata": owned("Node")}, "belongs to its node"),
        ({"metadata": annotated("kubernetes.io/config.mirror", "x")}, "belongs to its node"),
        ({"metadata": annotated("kubernetes.io/config.source", "file")}, "belongs to its node"),
        ({"metadata": annotated("kubernetes.io/config.source", "api")}, ""),
        ({"metadata": owned("Job")}, "runs to its end"),
        ({"metadata": owned("Workflow"), "spec": {"restartPolicy": "Never"}}, "runs to its end"),
        ({"spec": {"restartPolicy": "Always"}}, ""),
        ({"metadata": {"deletionTimestamp": "2026-01-05T00:00:00Z"}}, "is being deleted"),
        ({"status": {"phase": "Pending"}}, "is not running"),
        ({"status": {"conditions": None}}, "is not ready"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "is not ready"),
        ({"status": {"conditions": [*READY, {"type": "PodResizePending", "status": "True"}]}}, "is being resized"),
        ({"status": {"resize": "InProgress"}}, "is being resized"),  # of Kubernetes before 1.33
        ({"metadata": annotated("karpenter.sh/do-not-evict", "true")}, "do-not-evict"),
        ({"metadata": annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")}, "safe-to-evict: false"),
        ({"metadata": annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "on-completion")}, "safe-to-evict"),
        ({"metadata": SAFE}, ""),
        ({"metadata": annotated("descheduler.alpha.kubernetes.io/prefer-no-eviction", "")}, "prefer-no-eviction"),
        ({"metadata": annotated("karpenter.sh/do-not-disrupt", "true")}, "do-not-disrupt"),
        ({"metadata": annotated("karpenter.sh/do-not-disrupt", "false")}, ""),
        ({"metadata": annotated("karpenter.sh/do-not-disrupt", "soon")}, "do-not-disrupt"),  # meant something
        ({"metadata": annotated("karpenter.sh/do-not-disrupt", "24h1s")}, "do-not-disrupt"),  # the pod runs for 24 h
        ({"metadata": annotated("karpenter.sh/do-not-disrupt", "23h59m59s500ms")}, ""),
        (
            {"metadata": annotated("karpenter.sh/do-not-disrupt", "1h"), "status": {"startTime": None}},
            "do-not-disrupt",
        ),
        ({"spec": {"priority": 2_000_000_000}}, "what the system needs"),
        ({"spec": {"priority": 1_999_999_999}}, ""),
        ({"spec": {"priorityClassName": "system-node-critical"}}, "what the system needs"),
        ({"spec": {"priorityClassName": "high"}}, "its priority is not known"),
        ({"spec": {"priorityClassName": "high", "priority": 5}}, ""),
        ({"spec": local()}, r"local storage \(emptyDir\)"),
        ({"spec": local(medium="Memory")}, ""),
        ({"spec": local("hostPath", path="/x")}, r"local storage \(hostPath\)"),
        ({"spec": local(), "metadata": SAFE}, ""),
        ({"spec": local("hostPath", path="/x"), "metadata": SAFE}, ""),
        (
            {
                "spec": local(),
                "metadata": annotated("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "u, v"),
            },
            "",
        ),
        ({"spec": local("configMap")}, ""),
        ({"spec": local("csi", driver="x")}, ""),
        ({"spec": local("ephemeral")}, "a volume of the kind ephemeral"),
        ({"spec": local("floppy")}, "a volume of the kind floppy"),
        ({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}}, "requests nvidia.com/gpu"),
        ({"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "0"}}}]}}, ""),
        ({"spec": {"initContainers": [{"resources": {"requests": {"hugepages-2Mi": "2Mi"}}}]}}, "hugepages-2Mi"),
        ({"spec": {"resourceClaims": [{"name": "gpu"}]}}, "has resource claims"),
        ({"spec": {"containers": [{"resources": {"claims": [{"name": "gpu"}]}}]}}, "has resource claims"),
        ({"spec": {"schedulerName": "volcano"}}, "is placed by the scheduler volcano"),
        ({"spec": {"schedulerName": "tvwrl"}}, ""),
        ({"spec": {"workloadRef": {"name": "gang"}}}, "not known here: spec.workloadRef"),
        ({"spec": {"affinity": {"jobAffinity": {}}}}, "not known here: spec.affinity.jobAffinity"),
        (
            {"spec": {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "within": "5m"}]}}}},
            "not known here: spec.affinity.podAffinity.within",
        ),
        (
            {"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "evenly": True}]}},
            "not known here: spec.topologySpreadConstraints.evenly",
        ),
        (
            {"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "nodeTaintsPolicy": "Guess"}]}},
            "not known here: spec.topologySpreadConstraints.nodeTaintsPolicy",
        ),
    ],
)
def test_each_reason(more, said):
    found = reason(read(pod("cart-1", **more)), "cart-1")
    assert said.replace("\\", "") in found if said else found == ""


def test_emptydir_data_may_be_lost_if_somebody_says_so():
    nodes = (node("a"), node("b"))

    def why(spec):
        state = state_of(objects(*nodes, pod("cart-1", spec=spec)), delete_emptydir_data=True)
        return reason(state, "cart-1")

    assert why(local()) == ""
    assert why(local("hostPath", path="/x")) == "has local storage (hostPath)"  # that is the node's, not the pod's
    two = {"volumes": [*local()["volumes"], *local("hostPath", "w", path="/x")["volumes"]]}
    assert why(two) == "has local storage (hostPath)"


def test_a_pod_whose_replica_set_will_not_replace_it():
    def with_replicas(**more):
        one = {"kind": "ReplicaSet", "metadata": {"name": "cart-5d9c7b6f4", "namespace": "shop"}}
        return reason(read(pod("cart-1"), merged(one, more)), "cart-1")

    assert with_replicas(spec={"replicas": 2}, status={"replicas": 2}) == ""
    assert with_replicas(spec={"replicas": 1}, status={"replicas": 2}) == "its ReplicaSet is being scaled down"
    tied = {"template": {"spec": {"nodeName": "a"}}}  # what replaces it comes back to this node
    assert with_replicas(spec=tied) == "its ReplicaSet names its node"
    assert with_replicas(metadata={"deletionTimestamp": "x"}) == "its ReplicaSet is being deleted"
    assert with_replicas(metadata={"name": "other"}) == "its ReplicaSet is not there"
    assert reason(read(pod("cart-1"), empty=("ReplicaSet",)), "cart-1") == "its ReplicaSet is not there"


def test_priorities_by_their_classes():
    def of(name, value):
        one = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        state = read(pod("cart-1", spec={"priorityClassName": "high"}), one)
        return state.priority.tolist(), state.stays[0]

    assert of("high", 7) == ([7], "")
    assert of("high", 2_000_000_001)[1] == "has a priority of what the system needs"
    assert of("low", 7) == ([0], "its priority is not known")


def test_a_node_that_karpenter_must_not_disrupt():
    marked_node = node("a", metadata=annotated("karpenter.sh/do-not-disrupt", "true"))
    state = read(marked_node, node("b"), pod("cart-1"), pod("cart-2", "b"))
    assert state.stays.tolist() == ["its node is marked karpenter.sh/do-not-disrupt", ""]


def test_pods_of_the_system_need_a_budget():
    def of(*more, **about):
        one = pod("dns", metadata={"namespace": "kube-system", **about})
        return read(one, *more).stays[0]

    covering = budget("dns", {}, metadata={"namespace": "kube-system"})
    assert of() == "is in kube-system without a disruption budget"
    assert of(covering) == ""
    assert of(**SAFE) == ""


VOLUME, CLAIM = volume("pv"), claim("data", "pv")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([VOLUME, CLAIM], ""),
        ([CLAIM], "has a volume of which nothing is known"),
        ([VOLUME], "has a volume of which nothing is known"),
        ([VOLUME, claim("data", "")], "has a volume of which nothing is known"),
        ([VOLUME, claim("data", "pv", metadata={"namespace": "other"})], "has a volume of which nothing is known"),
        ([VOLUME, claim("data", "pv", "ReadWriteOncePod")], "only one pod may use"),
        ([VOLUME, claim("data", "pv", "ReadWriteMany")], ""),
        ([VOLUME, CLAIM, pod("other", spec=claiming("data"))], "shares a volume"),
        ([VOLUME, claim("data", "pv", "ReadWriteMany"), pod("other", spec=claiming("data"))], ""),
        ([VOLUME, claim("data", "pv", metadata={"deletionTimestamp": "x"})], "that is being deleted"),
        ([volume("pv", spec={"local": {"path": "/x"}}), CLAIM], "has a local volume"),
        ([volume("pv", spec={"hostPath": {"path": "/x"}}), CLAIM], "has a local volume"),
    ],
)
def test_claims(given, said):
    found = reason(read(pod("cart-1", spec=claiming("data")), *given), "cart-1")
    assert said in found if said else found == ""


def test_no_budget_may_be_known_or_none_may_be_there():
    denied = read(pod("cart-1"), unreadable={"PodDisruptionBudget": "HTTP 403 Forbidden"})
    assert denied.stays.tolist() == ["disruption budgets cannot be read"]
    assert denied.unknown[0] == (
        "PodDisruptionBudget: cannot be read: HTTP 403 Forbidden; assumed is that no pod may be moved."
    )
    absent = read(pod("cart-1"), empty=("ReplicaSet",))
    assert any("PodDisruptionBudget: there are none, or they were not read" in one for one in absent.unknown)
    assert not any("PodDisruptionBudget" in one for one in read(pod("cart-1"), empty=("PodDisruptionBudget",)).unknown)


def test_pods_that_several_budgets_cover_cannot_be_evicted():
    state = read(
        pod("cart-1"), pod("web-1", app="web"), budget("one", {}), budget("two", {"matchLabels": {"app": "web"}})
    )
    assert state.stays.tolist() == ["", "is covered by several disruption budgets, so no eviction is possible"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"spec": {"priority": "high"}}, "spec.priority is 'high': must be a whole number"),
        ({"spec": {"priority": 5.5}}, "must be a whole number"),
        ({"spec": {"containers": [container("NaN")]}}, "cpu is not a Kubernetes quantity"),
        ({"spec": {"containers": [container("-1")]}}, "cpu is not a Kubernetes quantity"),
        ({"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "NaN"}}}]}}, "nvidia.com/gpu is not a"),
        ({"spec": {"containers": [{}] * 100_000}}, "must be a list of at most 10000"),
        ({"spec": {"containers": "x"}}, "spec.containers is 'x': must be a list"),
        ({"spec": {"volumes": [7]}}, r"spec.volumes\[0\] is 7: must be an object"),
        ({"metadata": {"labels": {"app": 5}}}, "metadata.labels.app is 5: must be a printable text"),
        ({"metadata": {"labels": ["app"]}}, "metadata.labels: must be an object"),
        ({"metadata": {"ownerReferences": "x"}}, "metadata.ownerReferences"),
        ({"status": {"startTime": "noon"}, "metadata": annotated("karpenter.sh/do-not-disrupt", "1h")}, "startTime"),
        ({"spec": {"nodeName": 5}}, "spec.nodeName is 5"),
    ],
)
def test_what_is_refused_names_pod_and_field(more, message):
    with pytest.raises(InputError, match=f"here: Pod shop/cart-1.*{message}"):
        read(pod("cart-1", **more))
