"""What kubectl writes is read whole; anything else is refused with file, item, field and limit."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rebalance.clusters import node, pod
from tvwrl.rebalance import read_objects, read_state, state_of
from tvwrl.types import InputError

TWO = [node("a"), pod("cart-1")]


def written(path, *documents):
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one, indent=4) for one in documents))
    return path


def listed(*items, kind="List"):
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def names(objects):
    return {kind: [one["metadata"]["name"] for one in found] for kind, found in objects.by_kind.items()}


@pytest.mark.parametrize(
    "documents",
    [
        [listed(*TWO)],
        [listed(TWO[0]), listed(TWO[1])],
        TWO,
        [listed(listed(*TWO))],
        [  # of the API itself, whose items do not say what they are
            listed({**TWO[0], "kind": None}, kind="NodeList"),
            listed({**TWO[1], "kind": None}, kind="PodList"),
        ],
        [listed(*TWO, {"kind": "Secret", "data": {"password": "x"}}, {"kind": "Sock", "metadata": 5})],
    ],
)
def test_lists_and_objects_in_any_order(tmp_path, documents):
    found = read_objects(written(tmp_path / "objects.json", *documents))
    assert names(found) == {"Node": ["a"], "Pod": ["cart-1"]}
    assert found.source == str(tmp_path / "objects.json")


def test_a_folder_of_files(tmp_path):
    written(tmp_path / "nodes.json", listed(TWO[0]))
    written(tmp_path / "pods.json", listed(TWO[1]))
    written(tmp_path / "notes.txt", "not read")
    assert names(read_objects(tmp_path)) == {"Node": ["a"], "Pod": ["cart-1"]}
    assert len(read_state(tmp_path)) == 1


def test_the_time_is_when_a_node_was_last_heard_of_if_the_file_is_not_older(tmp_path):
    def at(*heard):
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": one} for one in heard]
        return read_objects(written(path, node("a", status={"conditions": conditions}), TWO[1])).time

    path = tmp_path / "objects.json"
    assert at("2026-01-05T00:00:00Z", "2026-01-04T00:00:00Z", None) == 1767571200
    assert at() == path.stat().st_mtime
    written(path, *TWO)
    os.utime(path, (1000, 1000))
    assert read_objects(path).time == 1000
    conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-05T00:00:00+01:00"}]
    written(path, node("a", status={"conditions": conditions}), TWO[1])
    os.utime(path, (1000, 1000))
    assert read_objects(path).time == 1000


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (["{"], "line 1: is not JSON"),
        ([json.dumps(TWO[0]), "nonsense"], "line 2: is not JSON"),
        (['{"kind": "List", "items": NaN}'], "NaN is no value of JSON"),
        (["[" * 100_000], "nested too deeply"),
        (["1" * 10_000], "nested too deeply, or has too many digits"),
        ([""], "there are no nodes"),
        ([listed()], "there are no nodes in it; write it with: kubectl get nodes,pods"),
        ([listed(TWO[0])], "there are no pods"),
        ([listed(*[{}] * 1_000)], r"items\[0\].kind is missing: must be the kind of an object"),
        ([listed(*[None] * 1_000_001)], "items: must be a list of at most 1000000"),
        ([[]], "must be an object"),
        ([{"kind": 5}], "kind is 5: must be a printable text"),
        ([{"kind": "List", "items": {}}], "items: must be a list"),
        ([listed({"kind": "Pod"})], r"items\[0\].metadata.name is missing: must be a name"),
        ([listed({"kind": "Node", "metadata": []})], r"items\[0\].metadata: must be an object"),
        ([listed({"kind": "Node", "metadata": {"name": "x" * 300}})], "must be a name of 1 to 253 characters"),
        ([listed({"kind": "Node", "metadata": {"name": ["a"]}})], r"items\[0\].metadata.name: must be a printable"),
        ([listed(*TWO, TWO[1])], "Pod shop/cart-1 is there twice"),
        ([listed(*TWO), listed(TWO[0])], "Node a is there twice"),
    ],
)
def test_what_is_refused(tmp_path, documents, message):
    path = written(tmp_path / "objects.json", *documents)
    with pytest.raises(InputError, match=message) as error:
        read_objects(path)
    assert str(error.value).startswith(str(path))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_objects(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"no file in this folder ends in \.json"):
        read_objects(tmp_path)
    (tmp_path / "wide.json").write_bytes("{}".encode("utf-16"))
    with pytest.raises(InputError, match="is not UTF-8"):
        read_objects(tmp_path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)


def paths(value, prefix=()):
    yield prefix
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*prefix, key))


RICH = {  # a pod with every rule that is looked at
    "nodeName": "a",
    "containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}],
    "nodeSelector": {"pool": "x"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}, {"name": "w", "emptyDir": {}}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "cart"}}, "minDomains": 1}
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
            ]
        },
    },
}
WHOLE = listed(
    node("a", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
    pod("cart-1", spec=RICH),
    {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "cart"}}},
        "status": {"disruptionsAllowed": 1},
    },
    {"kind": "PersistentVolumeClaim", "metadata": {"name": "v", "namespace": "shop"}, "spec": {"volumeName": "v"}},
    {"kind": "PersistentVolume", "metadata": {"name": "v", "labels": {}}, "spec": {"nodeAffinity": {}}},
    {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5},
    {"kind": "ReplicaSet", "metadata": {"name": "cart", "namespace": "shop"}, "spec": {"replicas": 1}},
)
PATHS = list(paths(WHOLE))[1:]


@given(st.lists(st.tuples(st.sampled_from(PATHS), ANYTHING), min_size=1, max_size=3))
def test_whatever_stands_anywhere_is_read_or_refused(tmp_path_factory, changes):
    changed = json.loads(json.dumps(WHOLE))
    for path, value in changes:
        try:
            within = changed
            for key in path[:-1]:
                within = within[key]
            within[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            pass  # another change has removed the place
    file = written(tmp_path_factory.mktemp("fuzz") / "objects.json", changed)
    try:
        state = state_of(read_objects(file))
    except InputError as error:
        if not str(error).startswith(str(file)):
            raise
    else:
        assert (state.size >= 0).all()
        assert (state.request >= 0).all()
        assert state.allowed.shape == (state.group.max(initial=-1) + 1, len(state.node))
        assert all(term.domain.shape == state.node.shape for term in state.terms)
