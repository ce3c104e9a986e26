"""What kube-scheduler sends is read as Go would read it; what it gets back is what Go expects."""

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.serve.extender_messages import filtered, prioritized, read_arguments, read_binding
from tvwrl.traces import quantity
from tvwrl.types import InputError

MIB = 2.0**20


def body(pod=None, **fields):
    pod = {"metadata": {"name": "cart-1", "namespace": "shop", "uid": "u"}} | (pod or {})
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": ["a", "b"]} | fields).encode()


def containers(*requests):
    return [{"resources": {"requests": one}} if one is not None else {} for one in requests]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("2", 2), ("100m", 0.1), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000), ("1E3", 1000), ("2E", 2e18),
        ("128Mi", 128 * MIB), ("1Gi", 1024 * MIB), ("1G", 1e9), ("64k", 64e3), ("5n", 5e-9), (4, 4), (0.25, 0.25),
    ],
)  # fmt: skip
def test_quantities_by_hand(text, number):
    assert quantity(text, "cpu") == pytest.approx(number, rel=1e-12)


@pytest.mark.parametrize("text", ["", "-1", "1.2.3", "1 Gi", "1gi", "1Zi", "nan", "inf", None, [], "9" * 400, "1e999"])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(InputError, match="cpu is not a Kubernetes quantity"):
        quantity(text, "cpu")


def test_requests_are_summed_as_kubernetes_does():
    """Containers 100m + 200m and 64Mi + nothing; one before them needs 250m and 128Mi; overhead 10m."""
    spec = {
        "containers": containers({"cpu": "100m", "memory": "64Mi"}, {"cpu": "200m"}, None),
        "initContainers": containers({"cpu": "250m", "memory": "128Mi"}),
        "overhead": {"cpu": "10m"},
    }
    np.testing.assert_allclose(read_arguments(body({"spec": spec})).pod.request, [0.31, 128 * MIB])
    sidecar = {"restartPolicy": "Always", **containers({"cpu": "50m"})[0]}  # beside 250m, and beside 300m
    spec["initContainers"] = [sidecar, *spec["initContainers"]]
    np.testing.assert_allclose(read_arguments(body({"spec": spec})).pod.request, [0.36, 128 * MIB])
    nothing = read_arguments(body({"spec": {"containers": containers(None, {})}})).pod.request
    assert np.isnan(nothing).all()


def test_replicas_have_one_owner():
    def owner(*references):
        metadata = {"name": "cart-1", "namespace": "shop", "ownerReferences": list(references)}
        return read_arguments(body({"metadata": metadata})).pod.owner

    replica_set = {"kind": "ReplicaSet", "name": "cart-5d9c7b6f4", "controller": True}
    assert owner({"kind": "Other", "name": "x"}, replica_set) == "shop/deployment/cart"
    assert owner({"kind": "StatefulSet", "name": "db", "controller": True}) == "shop/statefulset/db"
    assert owner() == "shop/pod/cart-1"


def test_fields_in_any_casing_and_unknown_ones():
    upper = json.loads(body())
    lower = {name.lower(): value for name, value in upper.items()} | {"surprise": 1}
    assert read_arguments(json.dumps(lower).encode()).names == ["a", "b"]


def test_whole_nodes_come_back_whole():
    nodes = [{"metadata": {"name": name, "labels": {"zone": "1"}}, "status": {"x": [1]}} for name in "abc"]
    arguments = read_arguments(body(Nodes={"metadata": {}, "items": nodes}, NodeNames=None))
    assert arguments.names == ["a", "b", "c"]
    answer = json.loads(filtered(arguments, [True, False, True], "no room", final=False))
    assert answer == {
        "Nodes": {"items": [nodes[0], nodes[2]]},
        "NodeNames": None,
        "FailedNodes": {"b": "no room"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_a_hold_is_an_empty_list_with_reasons_and_evicts_nobody():
    answer = json.loads(filtered(read_arguments(body()), [False, False], "held", final=True))
    assert answer["NodeNames"] == []
    assert answer["FailedNodes"] == answer["FailedAndUnresolvableNodes"] == {"a": "held", "b": "held"}
    assert answer["Nodes"] is None


def test_scores():
    assert json.loads(prioritized(["a", "b"], [10, 3])) == [{"Host": "a", "Score": 10}, {"Host": "b", "Score": 3}]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"Pod": None}, "Pod"),
        ({"Pod": {"metadata": {"name": "Cart", "namespace": "shop"}}}, "Pod.metadata.name"),
        ({"Pod": {"metadata": {"name": "a/../b", "namespace": "shop"}}}, "Pod.metadata.name"),
        ({"Pod": {"metadata": {"name": "a", "namespace": "shop", "uid": "\u0000"}}}, "Pod.metadata.uid"),
        ({"NodeNames": None}, "neither Nodes nor NodeNames"),
        ({"NodeNames": ["a", "b\nc"]}, "NodeNames"),
        ({"NodeNames": ["a", "\ud800"]}, "not JSON"),
        ({"NodeNames": ["a", 3]}, "NodeNames"),
        ({"NodeNames": ["a" * 254]}, "NodeNames"),
        ({"NodeNames": {"a": 1}}, "NodeNames"),
        ({"Nodes": {"items": [{}]}}, "Nodes.items.metadata"),
        ({"Nodes": [1]}, "Nodes"),
    ],
)
def test_the_field_that_is_wrong_is_named(changes, field):
    with pytest.raises(InputError, match=field):
        read_arguments(body(**changes))


def test_bindings():
    sent = {"PodName": "cart-1", "PodNamespace": "shop", "PodUID": "u", "Node": "a"}
    binding = read_binding(json.dumps(sent).encode())
    assert (binding.pod, binding.namespace, binding.uid, binding.node) == ("cart-1", "shop", "u", "a")
    with pytest.raises(InputError, match="Node"):
        read_binding(json.dumps(sent | {"Node": "../x"}).encode())


ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["Pod", "pod", "Nodes", "NodeNames", "nodenames", "x"]), ANY))
def test_any_json_is_read_or_refused(fields):
    for read in (read_arguments, read_binding):
        with suppress(InputError):
            read(json.dumps(fields).encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(content):
    with pytest.raises(InputError):
        read_arguments(content)
