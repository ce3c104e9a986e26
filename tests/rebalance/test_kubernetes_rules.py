"""Labels, selectors and taints, as kube-scheduler decides them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rebalance.clusters import REQUIRED, budget, goes, merged, node, pod, read
from tvwrl.rebalance.kubernetes_rules import Labels, Requirement
from tvwrl.types import InputError


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def affine(*terms):
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def term(*expressions, fields=()):
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


NODES = [
    node("a", {"zone": "z1", "cores": "8", "gpu": ""}),
    node("b", {"zone": "z2", "cores": "16"}),
    node("c", {"cores": "many"}),
]


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        ({}, "abc"),
        ({"nodeSelector": {"zone": "z1"}}, "a"),
        ({"nodeSelector": {"zone": "z1", "cores": "16"}}, ""),
        ({"nodeSelector": {"gpu": ""}}, "a"),
        (affine(term(expression("zone", "In", "z1", "z2"))), "ab"),
        (affine(term(expression("zone", "In"))), ""),
        (affine(term(expression("zone", "NotIn", "z1"))), "bc"),  # a node without the label as well
        (affine(term(expression("zone", "Exists"))), "ab"),
        (affine(term(expression("zone", "DoesNotExist"))), "c"),
        (affine(term(expression("cores", "Gt", "8"))), "b"),
        (affine(term(expression("cores", "Lt", "16"))), "a"),
        (affine(term(expression("cores", "Gt", "0"))), "ab"),  # what is no number is neither above nor below
        (affine(term(expression("cores", "Gt", "few"))), ""),
        (affine(term(expression("cores", "Gt", "1", "2"))), ""),
        (affine(term(expression("zone", "Exists"), expression("cores", "Gt", "8"))), "b"),  # all of a term
        (affine(term(expression("zone", "In", "z1")), term(expression("cores", "In", "many"))), "ac"),  # one of them
        (affine(term()), ""),  # an empty one allows nothing
        (affine(term(), term(expression("zone", "In", "z1"))), "a"),
        (affine(), ""),
        (affine(term(fields=[expression("metadata.name", "In", "b")])), "b"),
        (affine(term(fields=[expression("metadata.name", "NotIn", "b")])), "ac"),
        (affine(term(fields=[expression("metadata.name", "In", "a", "b")])), ""),  # must be one
        (affine(term(fields=[expression("metadata.uid", "In", "b")])), ""),
        (affine(term(expression("zone", "In", "z1"), fields=[expression("metadata.name", "In", "b")])), ""),
        (affine(term(expression("zone", "Near", "z1"))), ""),  # an operator of a newer Kubernetes
        (affine({"matchExpressions": [expression("zone", "Exists")], "matchMoods": []}), ""),
        (merged(affine(term(expression("zone", "Exists"))), {"nodeSelector": {"cores": "8"}}), "a"),  # both
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}, "abc"),
        ({"affinity": {"nodeAffinity": {REQUIRED: None}}}, "abc"),
    ],
)
def test_node_selector_and_affinity(spec, nodes):
    assert goes(read(*NODES, pod("cart-1", spec=spec)), "cart-1") == set(nodes)


def taint(key, value="", effect="NoSchedule"):
    return {"key": key, "value": value, "effect": effect}


def toleration(key="", operator="", value="", effect=""):
    return {"key": key, "operator": operator, "value": value, "effect": effect}


@pytest.mark.parametrize(
    ("taints", "tolerations", "goes_there"),
    [
        ([], [], True),
        ([taint("gpu")], [], False),
        ([taint("gpu", effect="NoExecute")], [], False),
        ([taint("gpu", effect="PreferNoSchedule")], [], True),
        ([taint("gpu", "x")], [toleration("gpu", value="x")], True),  # no operator is Equal
        ([taint("gpu", "x")], [toleration("gpu", "Equal", "x")], True),
        ([taint("gpu", "x")], [toleration("gpu", "Equal", "y")], False),
        ([taint("gpu", "x")], [toleration("gpu", "Exists")], True),
        ([taint("gpu", "x")], [toleration("cpu", "Exists")], False),
        ([taint("gpu", "x")], [toleration(operator="Exists")], True),  # no key is any key
        ([taint("", "x")], [toleration(operator="Equal", value="x")], True),
        ([taint("gpu", "x")], [toleration(operator="Equal", value="x")], False),
        ([taint("gpu")], [toleration("gpu", "Exists", effect="NoSchedule")], True),
        ([taint("gpu")], [toleration("gpu", "Exists", effect="NoExecute")], False),
        ([taint("gpu", effect="NoExecute")], [toleration("gpu", "Exists")], True),  # no effect is any effect
        ([taint("gpu"), taint("old")], [toleration("gpu", "Exists")], False),  # all must be tolerated
        ([taint("gpu"), taint("old")], [toleration("gpu", "Exists"), toleration("old", "Exists")], True),
        ([taint("gpu"), taint("gpu", effect="NoExecute")], [toleration("gpu", "Exists", effect="NoSchedule")], False),
        ([taint("size", "5")], [toleration("size", "Gt", "1")], False),  # an operator of a newer Kubernetes
    ],
)
def test_taints_and_tolerations(taints, tolerations, goes_there):
    state = read(node("a"), node("b", taints=taints), pod("cart-1", spec={"tolerations": tolerations}))
    assert goes(state, "cart-1") == ({"a", "b"} if goes_there else {"a"})


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        (None, []),
        ({}, [0, 1, 2]),
        ({"matchLabels": {"app": "cart"}}, [0, 1]),
        ({"matchLabels": {"app": "cart", "tier": "x"}}, [1]),
        ({"matchExpressions": [expression("app", "In", "cart", "web")]}, [0, 1, 2]),
        ({"matchExpressions": [expression("tier", "NotIn", "x")]}, [0, 2]),
        ({"matchExpressions": [expression("tier", "Exists")]}, [1]),
        ({"matchExpressions": [expression("tier", "DoesNotExist")]}, [0, 2]),
        ({"matchLabels": {"app": "cart"}, "matchExpressions": [expression("tier", "Exists")]}, [1]),
        ({"matchLabels": {"app": "none"}}, []),
    ],
)
def test_label_selectors(selector, covered):
    elsewhere = pod("cart-9", metadata={"namespace": "test"})
    pods = [pod("cart-1"), pod("cart-2", metadata={"labels": {"tier": "x"}}), pod("web-1", app="web"), elsewhere]
    state = read(*pods, budget("b", selector))
    assert [one.pods.tolist() for one in state.budgets] == ([covered] if covered else [])


@pytest.mark.parametrize("operator", ["Gt", "Lt", "in", "", "Near"])
def test_an_operator_that_label_selectors_lack_is_refused(operator):
    with pytest.raises(InputError, match=r"shop/b: spec.selector.matchExpressions\[0\].operator"):
        read(budget("b", {"matchExpressions": [expression("app", operator, "1")]}))


OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
TEXTS = st.sampled_from(["", "1", "2", "10", "x"])


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), TEXTS), max_size=6),
    st.lists(st.builds(Requirement, st.sampled_from("ab"), OPERATORS, st.lists(TEXTS, max_size=2).map(tuple))),
)
def test_labels_of_many_are_those_of_each(labels, selector):
    def meets(one, key, operator, values):
        number = {text: int(text) for text in ("1", "2", "10")}
        match operator:
            case "In":
                return one.get(key) in values
            case "NotIn":
                return one.get(key) not in values
            case "Exists":
                return key in one
            case "DoesNotExist":
                return key not in one
        if len(values) != 1 or one.get(key) not in number or values[0] not in number:
            return False
        return (number[one[key]] > number[values[0]]) == (operator == "Gt") and one[key] != values[0]

    each = [all(meets(one, *requirement) for requirement in selector) for one in labels]
    np.testing.assert_array_equal(Labels(labels).match(tuple(selector)), np.array(each, np.bool_))
