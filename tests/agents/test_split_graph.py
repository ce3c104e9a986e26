"""A graph computed in two parts gives what it gives as a whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.exporting import export_of
from tvwrl.agents.exported import _session, load_exported, random_states
from tvwrl.agents.split_graph import SplitGraph

onnx = pytest.importorskip("onnx")


def opened(content):
    return _session(content, "it")


def model(nodes, outputs=("logits",)):
    """A model of a grid (1, M, 2) and a queue (1, Q)."""
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, s, *more]) for n, s, more in
              (("grid", "m", [2]), ("queue", "q", []))]  # fmt: skip
    out = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([helper.make_node(*node, **more) for node, more in nodes], "g", inputs, out)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def trial(machines):
    rng = np.random.default_rng(machines)
    return {"grid": rng.random((1, machines, 2), np.float32), "queue": rng.random((1, 3), np.float32)}


BY_HAND = [
    (("Exp", ["grid"], ["each"]), {}),
    (("ReduceMean", ["each"], ["all"]), {"axes": [1], "keepdims": 1}),
    (("Sub", ["each", "all"], ["apart"]), {}),
    (("ReduceSum", ["queue"], ["waits"]), {"keepdims": 1}),
    (("ReduceMax", ["apart"], ["most"]), {"axes": [2], "keepdims": 0}),
    (("Add", ["most", "waits"], ["logits"]), {}),
]


def test_only_what_is_of_one_machine_is_remembered():
    """The exponential is; its mean is of all machines, and the sum is of what waits."""
    split = SplitGraph(model(BY_HAND), trial, opened)
    assert split._axes == {"each": 1}
    given = trial(4)
    for change in range(3):
        given["grid"][0, change] += 1
        each = np.exp(given["grid"])
        wanted = (each - each.mean(axis=1, keepdims=True)).max(axis=2) + given["queue"].sum()
        np.testing.assert_allclose(split.run(given), wanted, rtol=1e-5)


def test_a_graph_without_a_part_of_machines_alone_is_left_whole():
    with pytest.raises(ValueError, match="machines alone"):
        SplitGraph(model(BY_HAND[3:4], ["waits"]), trial, opened)


@pytest.fixture(scope="module", params=["shared that never holds", "pairs with expected-cost", "shipped:google"])
def policy(request, problem, tmp_path_factory):
    """One that remembers machines, and a twin that does not."""
    if ":" in request.param:
        pair = load_exported(request.param), load_exported(request.param)
    else:
        file = tmp_path_factory.mktemp("exported") / "policy.onnx"
        file.write_bytes(export_of(problem, request.param))
        pair = load_exported(file), load_exported(file)
    pair[0].remember_machines()
    assert pair[0]._graph._split is not None
    return pair


@settings(max_examples=15)
@given(data=st.data())
def test_logits_are_those_of_the_whole_graph(policy, data):
    """In clusters that change little, much, and in size."""
    remembering, plain = policy
    machines = data.draw(st.sampled_from([1, 3, 40]))
    states = random_states(plain.facts, machines, 6, data.draw(st.integers(0, 1000)))
    rng, seen = np.random.default_rng(machines), {name: part[:1].copy() for name, part in states.items()}
    for state in range(6):
        changed = rng.random(machines) < data.draw(st.sampled_from([0.0, 0.05, 0.2, 1.0]))
        for name, part in states.items():
            if name in ("grid", "forecast"):
                seen[name][0, changed] = part[state, changed]
            else:
                seen[name] = part[state : state + 1]
        given = {name: part for name, part in seen.items() if name != "mask"}
        np.testing.assert_allclose(
            remembering.logits(given, seen["mask"]), plain.logits(given, seen["mask"]), rtol=1e-5, atol=1e-5
        )


def test_a_network_of_a_fixed_number_of_machines_remembers_nothing(problem, tmp_path):
    file = tmp_path / "policy.onnx"
    file.write_bytes(export_of(problem, "flat that sees all"))
    policy = load_exported(file)
    policy.remember_machines()
    assert policy._graph._split is None
