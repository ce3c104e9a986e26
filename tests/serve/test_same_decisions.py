"""What a server remembers between decisions changes none: each is what it would be in a snapshot made anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serve.clusters import GIB, observed, pod
from tvwrl.serve.deciding import Decider, points_of
from tvwrl.serve.extender_messages import BEST
from tvwrl.serve.policies import open_policy
from tvwrl.serve.snapshot import Snapshot

OPENED = {
    name: open_policy(name, None)
    for name in ("best-fit", "n-sigma", "forecast-fit", "expected-cost", "kube-default", "shipped:google")
}
RULES = [name for name in OPENED if ":" not in name]


def random_cluster(rng):
    count = int(rng.integers(2, 9))
    nodes = {f"node-{m}": (int(rng.integers(2, 9)), int(rng.integers(8, 33))) for m in range(count)}
    rows = []
    for i in range(int(rng.integers(0, 5 * count))):
        slots = int(rng.integers(1, 49))
        cpu, mem = rng.random(slots), rng.random(slots)
        rows.append((f"p{i}", f"node-{rng.integers(count)}", f"default/o{rng.integers(4)}", list(cpu), list(mem)))
    return observed(nodes, rows, slots=49, slot=20_000)


def newcomers(rng, nodes, count=6):
    """Pods, several of which ask alike, and the nodes that each may go to."""
    sizes = [(np.nan, np.nan), (0.5, GIB), (1.5, 3 * GIB)]
    for i in range(count):
        owner = ("", f"default/o{rng.integers(4)}")[rng.integers(2)]
        names = list(nodes) if rng.random() < 0.5 else [name for name in nodes if rng.random() < 0.7]
        yield pod(f"new{i}", owner, sizes[rng.integers(len(sizes))]), names or list(nodes)


def plain_points(value, possible, chosen):
    points = [0] * len(possible)
    levels = sorted({value[m] for m in np.flatnonzero(possible) if m != chosen})
    for m in np.flatnonzero(possible):
        points[m] = BEST if m == chosen else round((BEST - 1) * (levels.index(value[m]) + 1) / len(levels))
    return points


def decided_plainly(name, seen, before, new, names):
    """Node and points by name of a rule in a snapshot made anew, in which the pods of `before` were placed."""
    scheduler, sight = OPENED[name]
    snapshot = Snapshot(seen, sight)
    for one, node in before:
        snapshot.show(one)
        snapshot.place(snapshot.nodes[node])
    snapshot._described.clear()
    scheduler.reset(snapshot.cluster, np.random.default_rng(0))
    workload = snapshot.show(new)
    snapshot.simulation.look()
    others = [m for node, m in snapshot.nodes.items() if node not in names]
    cluster = snapshot.cluster.without(others)
    opinion = scheduler.opinion(cluster, workload)
    placement = next(iter(scheduler.schedule(cluster, [workload])), None)
    if placement is None:
        return None, None
    possible = opinion.possible & cluster.capacity.any(axis=1)
    value = np.where(np.isfinite(opinion.scores), opinion.scores, -np.inf)
    points = plain_points(-value if opinion.meaning == "expected cost" else value, possible, placement.machine)
    return seen.nodes[placement.machine], [points[snapshot.nodes[node]] for node in names]


@settings(max_examples=12)
@pytest.mark.parametrize("name", RULES)
@given(seed=st.integers(0, 10**6))
def test_rules_decide_as_in_a_snapshot_made_anew(name, seed):
    rng = np.random.default_rng(seed)
    seen, before = random_cluster(rng), []
    asked = Decider(*open_policy(name, None), stale=60.0, assume=60.0, longest_hold=900.0)
    asked.renew(seen)
    for new, names in newcomers(rng, seen.nodes):
        decision = asked.decide(new, names)
        node, points = decided_plainly(name, seen, before, new, names)
        assert decision.node == node
        if node is not None:
            assert decision.scores.of(names) == points
            before.append((new, node))


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_a_policy_is_shown_what_it_would_see_in_a_snapshot_made_anew(seed):
    """And thinks the same of it whether it remembers machines or not."""
    rng = np.random.default_rng(seed)
    policy, sight = OPENED["shipped:google"]
    seen, before = random_cluster(rng), []
    kept = Snapshot(seen, sight)
    policy.reset(kept.cluster, rng)
    for new, _ in newcomers(rng, seen.nodes):
        workload = kept.show(new)
        found = policy.opinion(kept.cluster, workload)
        made = Snapshot(seen, sight)
        made.book([one for one, _ in before], [node for _, node in before])
        made.show(new)
        made.simulation.look()
        shown, anew = kept.cluster.observation(), made.cluster.observation()
        for part, content in anew.items():
            np.testing.assert_array_equal(shown[part], content, err_msg=part)
        whole, policy._graph._split = policy._graph._split, None
        wanted = policy.opinion(made.cluster, workload)
        policy._graph._split = whole
        assert whole is not None
        np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-5, atol=1e-7)
        machine = int(rng.integers(len(seen.nodes)))
        kept.place(machine)
        before.append((new, seen.nodes[machine]))


@given(
    st.lists(st.sampled_from([-np.inf, np.nan, -1.5, 0.0, 0.25, 3.0]), min_size=1, max_size=12),
    st.integers(0, 2**12 - 1),
    st.integers(0, 11),
)
def test_points_are_in_the_order_of_values(values, bits, chosen):
    value = np.array(values)
    chosen %= len(value)
    possible = np.array([bits >> m & 1 for m in range(len(value))], bool)
    possible[chosen] = True
    wanted = plain_points(np.where(np.isfinite(value), value, -np.inf), possible, chosen)
    assert points_of(value, possible, chosen).tolist() == wanted
