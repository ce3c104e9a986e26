"""What becomes of samples: gaps, restarts, pods that belong to their node, and what cannot be replayed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.what_if.conftest import ORIGIN, record
from tvwrl.types import InputError
from tvwrl.what_if.words import trust


def test_shares_and_starts_by_hand():
    found = record(
        [
            {"name": "x/one", "node": "a", "slots": [0, 1, 2], "cpu": [1, 2, 1], "mem": 4, "request": (2, None)},
            {"name": "x/two", "node": "b", "slots": [1, 2], "cpu": 0.5, "mem": 1},
        ],
        [("a", 4, 8), ("b", 2, 16)],
    )
    assert (found.origin, found.slots, found.reference.tolist()) == (ORIGIN * 300, 3, [4.0, 16.0])
    assert found.size.tolist() == [[1.0, 0.5], [0.5, 1.0]]
    assert [used.tolist() for used in found.usage] == [[[0.25, 0.25], [0.5, 0.25], [0.25, 0.25]], [[0.125, 0.0625]] * 2]
    assert (found.start.tolist(), found.node.tolist()) == ([0, 1], [0, 1])
    np.testing.assert_array_equal(found.request, [[0.5, np.nan], [np.nan, np.nan]])
    trust = found.trust
    assert (trust.pods, trust.at_start, trust.at_end) == (2, 1, 2)
    assert (trust.without_cpu_request, trust.without_memory_request) == (1, 2)


def test_a_short_gap_has_the_value_before_and_a_long_one_ends_a_pod():
    slots = [0, 1, 4, 5, 30]
    other = {"name": "x/other", "node": "b", "slots": range(31)}
    found = record([{"name": "x/one", "node": "a", "slots": slots, "cpu": [1, 2, 3, 1, 1]}, other])
    assert found.pod.tolist() == ["x/one", "x/one#2", "x/other"]
    assert (4 * found.usage[0][:, 0]).tolist() == [1, 2, 2, 2, 3, 1]
    assert (found.start.tolist(), found.trust.restarts, found.trust.hole) == ([0, 30, 0], 1, 0)
    assert found.trust.filled == pytest.approx(2 / 38)


def test_a_hole_in_the_record_makes_no_new_pods():
    """Nothing was recorded in slots 5 to 29, of anybody."""
    slots = [*range(5), *range(30, 35)]
    found = record([{"name": f"x/{i}", "node": "ab"[i], "slots": slots} for i in range(2)])
    assert (found.pod.tolist(), found.trust.restarts, found.trust.hole) == (["x/0", "x/1"], 0, 25)
    assert found.length.tolist() == [35, 35]
    assert any("Nothing at all was recorded in 2.1 h" in line for line in trust(found))


def test_on_another_node_a_pod_is_a_new_one_and_a_sample_without_a_node_is_on_the_last():
    found = record([{"name": "x/one", "node": [None, "a", None, "b", "b"], "slots": range(5)}])
    assert (found.node.tolist(), found.start.tolist(), found.length.tolist()) == ([0, 1], [0, 3], [3, 2])
    assert found.trust.restarts == 1


@pytest.mark.parametrize(
    ("name", "owner", "bound"),
    [
        ("x/agent-1", "x/daemonset/agent", True),
        ("x/agent-1", "DaemonSet/agent", True),
        ("x/etcd-a", "x/pod/etcd-a", True),
        ("x/toolbox", "x/pod/toolbox", False),
        ("x/web-a", "x/deployment/web", False),
        ("x/web-a", "", False),
    ],
)
def test_which_pods_belong_to_their_node(name, owner, bound):
    other = {"name": "x/other", "node": "b", "slots": [0]}
    found = record([{"name": name, "node": "a", "slots": [0], "owner": owner}, other])
    assert found.bound[found.pod.tolist().index(name)] == bound
    assert found.background.sum() == pytest.approx(bound * (0.25 + 1 / 16))


def test_pods_that_cannot_be_replayed_are_left_out_and_counted():
    found = record(
        [
            {"name": "x/one", "node": "a", "slots": [0], "cpu": 1},
            {"name": "x/nowhere", "node": None, "slots": [0], "cpu": 2},
            {"name": "x/unsized", "node": "z", "slots": [0], "cpu": 1},
        ]
    )
    assert (found.pod.tolist(), found.node_name.tolist()) == (["x/one"], ["a", "b"])
    trust = found.trust
    assert (trust.unknown_node, trust.unsized_node, trust.unsized_nodes, trust.idle_nodes) == (1, 1, 1, 1)
    assert trust.left_out_share == 0.75


def test_nothing_to_replay():
    with pytest.raises(InputError, match=r"no pod is on a node whose size is known.*of pods: z; with a size: a, b"):
        record([{"name": "x/one", "node": "z", "slots": [0]}])
    with pytest.raises(InputError, match="every pod belongs to its node"):
        record([{"name": "x/one", "node": "a", "slots": [0], "owner": "x/daemonset/one"}])
