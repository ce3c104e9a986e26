"""What a cluster looks like, by hand: sizes, requests, owners, places, neighbours and budgets."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rebalance.clusters import (
    HASH,
    READY,
    REQUIRED,
    budget,
    claim,
    claiming,
    container,
    goes,
    marked,
    merged,
    node,
    objects,
    pod,
    read,
    reason,
    volume,
)
from tvwrl.rebalance import Objects, state_of
from tvwrl.rebalance.cluster_state import AFFINITY, ANTI_AFFINITY, SPREAD
from tvwrl.traces import owner_of
from tvwrl.types import InputError

ZONES = [node("a", {"zone": "z1"}), node("b", {"zone": "z1"}), node("c", {"zone": "z2"}), node("d")]
CART = {"matchLabels": {"app": "cart"}}


def test_nodes_by_hand():
    state = read(
        node("a", {"node.kubernetes.io/instance-type": "m5.xlarge"}),
        node("b", {"beta.kubernetes.io/instance-type": "old"}, spec={"unschedulable": True}),
        node("c", status={"conditions": [{"type": "Ready", "status": "Unknown"}]}),
        node("d", status={"allocatable": {"cpu": "3920m", "memory": "1000Ki", "pods": "8"}}),
        node("e", metadata={"deletionTimestamp": "2026-01-05T00:00:00Z"}),
        {"kind": "Node", "metadata": {"name": "f"}, "status": {"conditions": READY}},
    )
    assert state.node.tolist() == list("abcdef")
    assert state.open.tolist() == [True, False, False, True, False, False]
    assert state.kind.tolist() == ["m5.xlarge", "old", "", "", "", ""]
    np.testing.assert_allclose(state.size[[0, 3, 5]], [[4, 16], [3.92, 1000 / 2**20], [0, 0]])
    assert state.most_pods.tolist() == [110, 110, 110, 8, 110, 0]
    assert read(node("a", status={"allocatable": {"pods": "10Ei"}})).most_pods[0] > 1e9
    assert np.isnan(state.price).all()
    assert any(one.startswith("1 node without allocatable resources") for one in state.unknown)


def test_pods_that_hold_room():
    state = read(
        pod("runs"),
        pod("starts", status={"phase": "Pending"}),
        pod("done", status={"phase": "Succeeded"}),
        pod("broken", status={"phase": "Failed"}),
        pod("lost", "nowhere"),
        pod("waits", None),
        pod("chosen", None, status={"phase": "Pending", "nominatedNodeName": "b"}),
        pod("gated", None, spec={"schedulingGates": [{"name": "quota"}]}),
        pod("ending", None, metadata={"deletionTimestamp": "2026-01-05T00:00:00Z"}),
    )
    assert state.pod.tolist() == ["shop/chosen", "shop/runs", "shop/starts"]
    assert state.at.tolist() == [1, 0, 0]
    assert state.uid.tolist() == ["uid-chosen", "uid-runs", "uid-starts"]
    assert [one.pod for one in state.waiting] == ["shop/waits"]
    assert state.waiting[0].owner == "shop/deployment/cart"
    assert state.waiting[0].request.tolist() == [0.25, 0.5]
    assert reason(state, "chosen") == "waits for this node"
    assert "1 pod on nodes that are not there; assumed is that they do not count." in state.unknown
    assert any(one.startswith("1 pod waits for a node, such as shop/waits") for one in state.unknown)
    assert any(one.startswith("2 pods without a node are held back") for one in state.unknown)


def test_a_pod_that_shrinks_holds_its_room_until_it_has():
    """As KEP 1287 has it: the larger of what is asked for and what it has."""
    spec = {"containers": [container("1", "1Gi"), {"name": "log"}]}
    has = [{"name": "main", "resources": {"requests": {"cpu": "2", "memory": "512Mi"}}}, {"name": "log"}]
    assert read(pod("cart-1", spec=spec, status={"containerStatuses": has})).request.tolist() == [[2, 1]]
    kept = [{"name": "main", "allocatedResources": {"cpu": "3"}}]
    assert read(pod("cart-1", spec=spec, status={"containerStatuses": kept})).request.tolist() == [[3, 1]]
    spec |= {"initContainers": [container("1", name="mesh", restartPolicy="Always")]}
    beside = [{"name": "mesh", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}]
    assert read(pod("cart-1", spec=spec, status={"initContainerStatuses": beside})).request.tolist() == [[5, 2]]


def test_where_what_waits_may_go():
    state = read(
        node("a", {"disk": "ssd"}),
        node("b", {"disk": "ssd"}, taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}]),
        node("c", status={"allocatable": {"nvidia.com/gpu": "2"}}),
        pod(
            "any", None, status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
        ),
        pod("ssd", None, spec={"nodeSelector": {"disk": "ssd"}}),
        pod("gpu", None, spec={"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}),
    )
    assert {one.pod: one.allowed.tolist() for one in state.waiting} == {
        "shop/any": [True, False, True],
        "shop/gpu": [False, False, True],
        "shop/ssd": [True, False, False],
    }
    assert [one.pod for one in state.waiting if one.tried] == ["shop/any"]


def test_nodes_that_no_plan_saves():
    state = read(
        node("a", spec={"unschedulable": True}),
        node("b", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]),
        node("c", {"node-role.kubernetes.io/control-plane": ""}),
        node("d", metadata=marked(cluster_autoscaler_kubernetes_io__x="")),
        node("e", metadata={"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}),
        node("f", metadata={"deletionTimestamp": "2026-01-05T00:00:00Z"}),
        node("g", taints=[{"key": "aws-node-termination-handler/spot-itn", "effect": "NoExecute"}]),
    )
    assert dict(state.unsaved) == {
        "b": "is being removed anyway",
        "c": "is of the control plane",
        "e": "is marked cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "f": "is being removed anyway",
        "g": "is being removed anyway",
    }
    assert state.savable.tolist() == [True, False, False, True, False, False, False]
    assert state.open.tolist() == [False, False, True, True, True, False, False]


@pytest.mark.parametrize("pressure", ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"])
def test_nothing_goes_to_a_node_that_is_not_well(pressure):
    ill = [*READY, {"type": pressure, "status": "True"}]
    assert read(node("a", status={"conditions": ill}), node("b")).open.tolist() == [False, True]


def test_pods_go_to_nodes_of_their_system_alone():
    nodes = [
        node(name, {"kubernetes.io/arch": arch}) for name, arch in (("a", "amd64"), ("b", "arm64"), ("c", "amd64"))
    ]
    state = read(*nodes, pod("one", "a"), pod("two", "b"))
    assert goes(state, "one") == {"a", "c"}
    assert goes(state, "two") == {"b"}


def test_a_taint_that_is_tolerated_for_a_while_keeps_pods_away():
    taints = [{"key": "spot", "effect": "NoExecute"}]
    state = read(
        node("a"),
        node("b", taints=taints),
        pod("brief", spec={"tolerations": [{"key": "spot", "operator": "Exists", "tolerationSeconds": 60}]}),
        pod("long", spec={"tolerations": [{"key": "spot", "operator": "Exists"}]}),
    )
    assert goes(state, "brief") == {"a"}
    assert goes(state, "long") == {"a", "b"}


def test_the_order_of_a_list_changes_nothing():
    given = [node("b"), node("a"), pod("y", "a"), pod("x", "b"), budget("q", CART), budget("p", CART)]
    one, other = read(*given), read(*reversed(given))
    assert one.pod.tolist() == other.pod.tolist() == ["shop/x", "shop/y"]
    assert one.node.tolist() == other.node.tolist() == ["a", "b"]
    assert one.at.tolist() == other.at.tolist() == [1, 0]
    assert [budget.name for budget in one.budgets] == [budget.name for budget in other.budgets]


def test_requests_are_those_of_kubernetes():
    spec = {
        "containers": [container("100m", "64Mi"), container("200m")],
        "initContainers": [
            container("50m", restartPolicy="Always"),
            container("300m", "1Gi"),
        ],
        "overhead": {"cpu": "10m"},
    }
    whole = {"containers": [container("1")], "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    state = read(pod("cart-1", spec=spec), pod("cart-2", spec={"containers": [{}]}), pod("cart-3", spec=whole))
    np.testing.assert_allclose(state.request, [[0.36, 1], [0, 0], [2, 1]])


def test_owners_are_spelled_as_the_reader_of_metrics_does():
    def owned(name, *owners):
        return pod(name, metadata={"ownerReferences": [{"kind": kind, "name": of} for kind, of in owners]})

    state = read(
        pod("cart-1"),
        owned("db-0", ("StatefulSet", "db")),
        owned("night-1", ("Job", "night-29")),
        owned("only"),
        owned("static", ("Node", "a")),
        owned("two", ("Widget", "w"), ("Gadget", "g")),
    )
    assert state.owner.tolist() == [
        "shop/deployment/cart", "shop/statefulset/db", "shop/job/night-29", "", "shop/pod/static", "shop/widget/w",
    ]  # fmt: skip
    assert state.owner[0] == owner_of("shop", "cart-1", "ReplicaSet", f"cart-{HASH}")
    assert state.bound.tolist() == [False] * 4 + [True, False]
    assert state.in_use.tolist() == [True, False]


def test_pods_with_the_same_rules_share_a_group():
    chosen = {"nodeSelector": {"zone": "z1"}}
    state = read(*ZONES, pod("cart-1"), pod("cart-2", "c", spec=chosen), pod("cart-3"), pod("web-1", spec=chosen))
    assert state.group.tolist() == [0, 1, 0, 1]
    assert state.allowed.tolist() == [[True] * 4, [True, True, False, False]]


def test_volumes_bind_to_nodes():
    def of(**more):
        return goes(
            read(*ZONES, pod("cart-1", spec=claiming("data")), claim("data", "pv"), volume("pv", **more)), "cart-1"
        )

    zone = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z2"]}]}]}
    }
    assert of() == set("abcd")
    assert of(spec={"nodeAffinity": zone}) == {"c"}
    assert of(spec={"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}) == set()


def test_older_volumes_are_bound_by_labels():
    newer, older = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
    nodes = [node("a", {newer: "z1"}), node("b", {older: "z1"}), node("c", {newer: "z2"}), node("d", {newer: "z3"})]

    def of(labels):
        given = claim("data", "pv"), volume("pv", metadata={"labels": labels})
        return goes(read(*nodes, pod("cart-1", spec=claiming("data")), *given), "cart-1")

    assert of({newer: "z1"}) == {"a"}
    assert of({older: "z1"}) == {"a", "b"}
    assert of({newer: "z1__z3"}) == {"a", "d"}


def test_disks_have_room_for_all_that_could_come():
    def asking(name, at, amount, **more):
        asked = {"containers": [{"resources": {"requests": {"ephemeral-storage": amount}}}]}
        return pod(name, at, spec=asked, **more)

    pods = [asking("cart-1", "a", "30Gi"), asking("cart-2", "a", "30Gi"), pod("cart-3")]
    state = read(*pods)
    assert goes(state, "cart-1") == goes(state, "cart-3") == {"a", "b"}
    filled = asking("web-1", "b", "50Gi", metadata={"ownerReferences": None})
    state = read(*pods, filled)  # 50 GiB are free on b, and 60 could come
    assert (goes(state, "cart-1"), goes(state, "cart-3")) == ({"a"}, {"a", "b"})


def neighbour(kind="podAntiAffinity", selector=CART, key="zone", **more):
    return {"affinity": {kind: {REQUIRED: [{"topologyKey": key, "labelSelector": selector, **more}]}}}


def shown(state):
    return [(one.kind, one.carriers.tolist(), one.matched.tolist(), one.domain.tolist()) for one in state.terms]


def test_affinity_and_anti_affinity():
    near, far = neighbour("podAffinity", {"matchLabels": {"app": "web"}}), neighbour()
    state = read(*ZONES, pod("cart-1", spec=far), pod("cart-2", "c", spec=far), pod("web-1", app="web", spec=near))
    assert shown(state) == [(ANTI_AFFINITY, [0, 1], [0, 1], [0, 0, 1, -1]), (AFFINITY, [2], [2], [0, 0, 1, -1])]
    assert read(*ZONES, pod("cart-1", spec={"affinity": {"podAffinity": {"preferredX": [1]}}})).terms == ()


@pytest.mark.parametrize(
    ("more", "matched"),
    [
        ({}, [0, 1]),
        ({"selector": None}, []),
        ({"selector": {}}, [0, 1, 2]),
        ({"namespaces": ["shop"]}, [0, 1]),
        ({"namespaces": ["test"]}, [3]),
        ({"namespaces": ["test", "shop"]}, [0, 1, 3]),
        ({"namespaceSelector": {}}, [0, 1, 3]),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "test"}}}, [3]),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "none"}}}, []),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, [3]),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}, "namespaces": ["shop"]}, [0, 1, 3]),
        ({"matchLabelKeys": ["version"]}, [0]),
        ({"matchLabelKeys": ["missing"]}, [0, 1]),
        ({"mismatchLabelKeys": ["version"]}, [1]),
        ({"matchLabelKeys": ["version"], "mismatchLabelKeys": ["app"]}, []),
    ],
)
def test_whom_a_rule_about_neighbours_matches(more, matched):
    namespaces = [
        {"kind": "Namespace", "metadata": {"name": "shop"}},
        {"kind": "Namespace", "metadata": {"name": "test", "labels": {"team": "x"}}},
    ]
    state = read(
        *ZONES,
        pod("cart-1", spec=neighbour(**more), metadata={"labels": {"version": "1"}}),
        pod("cart-2", metadata={"labels": {"version": "2"}}),
        pod("web-1", app="web"),
        pod("cart-9", metadata={"namespace": "test", "labels": {"version": "3"}}),
        *namespaces,
    )
    if more == {"selector": {}}:
        assert shown(state)[0][2] == [0, 1, 2]
    else:
        assert [one[1:3] for one in shown(state)] == [([0], matched)]
    assert reason(state, "cart-1") == ""


def test_a_rule_about_namespaces_of_which_nothing_is_known_keeps_a_pod_and_holds_for_all():
    rule = neighbour(namespaceSelector={"matchLabels": {"team": "x"}})
    state = read(*ZONES, pod("cart-1", spec=rule), pod("cart-9", metadata={"namespace": "test"}))
    assert reason(state, "cart-1") == "has a rule about namespaces whose labels are not known"
    assert shown(state)[0][1:3] == ([0], [0, 1])


def test_of_several_affinities_a_neighbour_meets_all():
    rules = [
        {"topologyKey": "zone", "labelSelector": CART},
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tier": "x"}}},
    ]
    spec = {"affinity": {"podAffinity": {REQUIRED: rules}}}
    others = [pod("cart-1"), pod("cart-2", metadata={"labels": {"tier": "x"}}), pod("db-1", app="db")]
    state = read(*ZONES, pod("web-1", app="web", spec=spec), *others)
    assert shown(state) == [(AFFINITY, [3], [1], [0, 0, 1, -1]), (AFFINITY, [3], [1], [0, 1, 2, 3])]


def test_ports_of_the_host_keep_pods_apart():
    def serving(name, port, **more):
        return pod(name, spec={"containers": [container("1", ports=[{"hostPort": port, **more}])]})

    pods = [serving("a1", 80), serving("a2", 80, protocol="TCP", hostIP="10.0.0.1"), serving("a3", 80, protocol="UDP")]
    state = read(*pods, serving("a4", 443), serving("a5", None))
    assert shown(state) == [(ANTI_AFFINITY, [0, 1], [0, 1], [0, 1])]


def spread(selector=CART, key="zone", skew=1, **more):
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "labelSelector": selector,
        "whenUnsatisfiable": "DoNotSchedule",
        **more,
    }


def spreading(*rules, **spec):
    return {"topologySpreadConstraints": list(rules), **spec}


@pytest.mark.parametrize(
    ("spec", "domains"),
    [
        (spreading(spread()), [[0, 0, 1, -1]]),
        (spreading(spread(whenUnsatisfiable="ScheduleAnyway")), []),
        (spreading(spread(key="kubernetes.io/hostname")), [[0, 1, 2, 3]]),
        # A node counts only if it has the labels of all rules.
        (spreading(spread(), spread(key="kubernetes.io/hostname")), [[0, 0, 1, -1], [0, 1, 2, -1]]),
        (
            spreading(spread(key="kubernetes.io/hostname"), spread(whenUnsatisfiable="ScheduleAnyway")),
            [[0, 1, 2, 3]],
        ),
        # Nodes that the pod does not choose do not count, unless the rule says so.
        (spreading(spread(), nodeSelector={"zone": "z2"}), [[-1, -1, 0, -1]]),
        (spreading(spread(nodeAffinityPolicy="Honor"), nodeSelector={"zone": "z2"}), [[-1, -1, 0, -1]]),
        (spreading(spread(nodeAffinityPolicy="Ignore"), nodeSelector={"zone": "z2"}), [[0, 0, 1, -1]]),
        # Tainted ones count, unless the rule says otherwise.
        (spreading(spread(key="kubernetes.io/hostname", nodeTaintsPolicy="Ignore")), [[0, 1, 2, 3]]),
        (spreading(spread(key="kubernetes.io/hostname", nodeTaintsPolicy="Honor")), [[0, 1, 2, -1]]),
        (
            spreading(
                spread(key="kubernetes.io/hostname", nodeTaintsPolicy="Honor"), tolerations=[{"operator": "Exists"}]
            ),
            [[0, 1, 2, 3]],
        ),
    ],
)
def test_which_nodes_count_for_a_spread(spec, domains):
    nodes = [*ZONES[:3], node("d", taints=[{"key": "old", "effect": "NoSchedule"}])]
    state = read(*nodes, pod("cart-1", spec=spec), pod("web-1", app="web"))
    assert [one.domain.tolist() for one in state.terms] == domains
    assert all((one.kind, one.skew, one.matched.tolist()) == (SPREAD, 1, [0]) for one in state.terms)


def test_which_pods_count_for_a_spread():
    rule = spreading(spread(skew=2, matchLabelKeys=["pod-template-hash"]))
    state = read(
        *ZONES,
        pod("cart-1", spec=rule, metadata={"labels": {"pod-template-hash": "new"}}),
        pod("cart-2", spec=rule, metadata={"labels": {"pod-template-hash": "new"}}),
        pod("cart-3", spec=rule, metadata={"labels": {"pod-template-hash": "old"}}),
        pod("cart-4", metadata={"labels": {"pod-template-hash": "new"}, "deletionTimestamp": "x"}),
        pod("cart-5", metadata={"labels": {"pod-template-hash": "new"}, "namespace": "test"}),
    )
    assert [(one.carriers.tolist(), one.matched.tolist(), one.skew) for one in state.terms] == [
        ([0, 1], [0, 1], 2),
        ([2], [2], 2),
    ]


@pytest.mark.parametrize(("least", "stays"), [(None, False), (1, False), (2, False), (3, True)])
def test_more_domains_are_asked_for_than_there_are(least, stays):
    state = read(*ZONES, pod("cart-1", spec=spreading(spread(minDomains=least))))
    assert ("asks for 3 domains of zone" in reason(state, "cart-1")) == stays


def test_a_skew_below_one_is_refused():
    with pytest.raises(InputError, match=r"topologySpreadConstraints\[0\].maxSkew is 0: must be a whole number >= 1"):
        read(*ZONES, pod("cart-1", spec=spreading(spread(skew=0))))


@pytest.mark.parametrize(
    ("one", "allowed"),
    [
        (budget("b", CART, 2), 2),
        (budget("b", CART, 0), 0),
        (budget("b", CART, -3), 0),
        (budget("b", CART, None), 0),
        (budget("b", CART, 2, status={"observedGeneration": 1}), 0),  # it has changed since it was counted
        (budget("b", CART, 2, status={"observedGeneration": None}), 0),
        (budget("b", CART, 2, metadata={"generation": None}), 2),
    ],
)
def test_budgets_as_they_stand(one, allowed):
    state = read(pod("cart-1"), pod("web-1", app="web"), one)
    assert [(one.name, one.pods.tolist(), one.allowed) for one in state.budgets] == [("shop/b", [0], allowed)]


def test_an_empty_selector_covers_all_but_in_the_first_version():
    assert [one.pods.tolist() for one in read(pod("cart-1"), budget("b", {})).budgets] == [[0]]
    assert read(pod("cart-1"), budget("b", {}, apiVersion="policy/v1beta1")).budgets == ()
    assert read(pod("cart-1"), budget("b", CART, apiVersion="policy/v1beta1")).budgets != ()
    assert read(pod("cart-1"), budget("b", None)).budgets == ()


def test_only_what_the_pods_need_is_missed():
    said = read(pod("cart-1", metadata={"ownerReferences": [{"kind": "StatefulSet", "name": "x", "controller": True}]}))
    assert [one.split(":")[0] for one in said.unknown] == ["PodDisruptionBudget"]
    said = read(pod("cart-1", spec=merged(claiming("x"), {"priorityClassName": "high"})))
    assert [one.split(":")[0] for one in said.unknown] == [
        "PodDisruptionBudget", "ReplicaSet", "PriorityClass", "PersistentVolumeClaim", "PersistentVolume",
    ]  # fmt: skip


def test_without_nodes_or_pods():
    with pytest.raises(InputError, match="here: there is no node"):
        state_of(objects(pod("cart-1")))
    with pytest.raises(InputError, match="here: Pod: cannot be read: HTTP 403"):
        state_of(Objects({"Node": [node("a")]}, "here", 0.0, {"Pod": "HTTP 403"}))
    state = read(empty=("PodDisruptionBudget",))
    assert (len(state), state.allowed.shape, state.unknown) == (0, (0, 2), ())
    with pytest.raises(InputError, match="Pod shop/cart-1 is there twice"):
        read(pod("cart-1"), pod("cart-1"))
