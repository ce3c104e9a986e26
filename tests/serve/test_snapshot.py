"""A scheduler sees in a live cluster what it would see in a simulation, and counts what metrics do not show yet."""

from dataclasses import replace

import numpy as np
import pytest

from tests.agents.exporting import checkpoint_of
from tests.serve.clusters import GIB, decider, observed, pod
from tvwrl.agents.exported import Facts
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.forecasting.beginnings import Beginnings
from tvwrl.forecasting.scaled import empty_table, in_steps, scaled_forecasts, scaled_table
from tvwrl.schedulers import list_schedulers, make_scheduler
from tvwrl.schedulers.runner import Runner, play_on
from tvwrl.serve.policies import open_policy, sight_of, slots_to_remember
from tvwrl.serve.snapshot import ExpectedDemand, Snapshot
from tvwrl.serve.watching import Observed
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import MACHINE, START
from tvwrl.traces.splits import UNSEEN
from tvwrl.traces.windows import Windows
from tvwrl.types import InputError

WITH_MEMORY = ("random", "round-robin")
SERVED = [name for name in list_schedulers() if not name.startswith(("rollout", "nilas-like", "lava-like"))]


def test_load_by_hand():
    """Two nodes of 8 and 4 cores: 8 units are 8 cores, so a unit is a core, and 4 GiB. On a: 1 + 2 cores, 4 + 8 GiB."""
    seen = observed(
        {"a": (8, 32), "b": (4, 16)},
        [("p", "a", "", [1, 1, 1, 1], [4, 4, 4, 4]), ("q", "a", "", [3, 2], [8, 8]), ("r", "", "", [9, 9], [9, 9])],
    )
    _, sight = open_policy("best-fit", None)
    cluster = Snapshot(seen, sight).cluster
    assert cluster.capacity.tolist() == [[8, 8], [4, 4]]
    assert cluster.load.tolist() == [[3, 3], [0, 0]]  # r is on no known node
    assert cluster.active.tolist() == [2, 0]
    assert cluster.slot == 1000


def test_gaps_hold_the_value_before_and_late_samples_too():
    seen = observed({"a": (8, 32)}, [("p", "a", "", [1, np.nan, 2, np.nan], [4, 4, np.nan, np.nan])])
    _, sight = open_policy("best-fit", None)
    assert Snapshot(seen, sight).cluster.load.tolist() == [[2, 1]]


def test_a_pod_without_samples_counts_with_what_its_replicas_use():
    rows = [("p", "a", "shop", [1, 3], [4, 4]), ("q", "a", "shop", [np.nan], [np.nan]), ("r", "a", "shop", [0.1], [4])]
    _, sight = open_policy("best-fit", None)
    one = Snapshot(observed({"a": (8, 32)}, rows[:2]), sight)
    assert one.cluster.load.tolist() == [[6, 2]]
    young = Snapshot(observed({"a": (8, 32)}, [rows[0], rows[2]]), sight)  # r was not seen in the slot before
    assert young.cluster.load[0, 0] == pytest.approx(3 + (3 + 0.1) / 2)


def test_fifty_pods_at_once_do_not_all_go_to_the_emptiest_node():
    """Each takes a core of ten nodes of 8: the metrics say all the while that all nodes are empty."""
    nodes = {f"n{i}": (8, 32) for i in range(10)}
    asked = decider("spread")
    asked.renew(observed(nodes, []))
    found = [asked.decide(pod(f"p{i}", request=(1, GIB)), list(nodes)).node for i in range(50)]
    assert {name: found.count(name) for name in nodes} == dict.fromkeys(nodes, 5)


def test_what_was_placed_goes_on_counting_until_metrics_show_it():
    nodes, now = {"a": (8, 32), "b": (8, 32)}, [0.0]
    asked = decider("spread", clock=lambda: now[0])
    asked.renew(observed(nodes, []))
    assert asked.decide(pod("p", request=(2, GIB)), list(nodes)).node == "a"
    asked.renew(observed(nodes, []))  # not seen yet
    assert asked.decide(pod("q", request=(1, GIB)), list(nodes)).node == "b"
    shown = [("p", "a", "", [0.5, 0.5], [1, 1])]  # p shows up and uses less than was thought
    asked.renew(observed(nodes, shown))
    assert asked.decide(pod("r", request=(1, GIB)), list(nodes)).node == "a"
    now[0] = 61.0  # q and r never showed up: they are no longer believed to be there
    asked.renew(observed(nodes, shown))
    assert asked.decide(pod("s", request=(1, GIB)), list(nodes)).node == "b"


def test_a_namesake_that_still_runs_is_another_pod():
    """Kubernetes makes db-0 anew while metrics still show the old one."""
    nodes, old = {"a": (8, 32), "b": (8, 32)}, [("db-0", "b", "", [1, 1], [1, 1])]
    asked = decider("spread")
    asked.renew(observed(nodes, old))
    assert asked.decide(pod("db-0", request=(4, GIB)), list(nodes)).node == "a"
    asked.renew(replace(observed(nodes, old), uid=("uid-of-the-old",)))
    assert asked.decide(pod("q", request=(1, GIB)), list(nodes)).node == "b"  # a has the new db-0
    asked.renew(replace(observed(nodes, old), uid=("uid-db-0",)))
    assert asked.decide(pod("r", request=(1, GIB)), list(nodes)).node == "a"


def test_a_pod_that_asks_again_is_not_counted_twice():
    nodes = {"a": (8, 32), "b": (8, 32)}
    asked = decider("spread")
    asked.renew(observed(nodes, []))
    for _ in range(20):
        decision = asked.decide(pod("p", request=(4, GIB)), list(nodes))
        assert decision.node == "a"
    assert asked.decide(pod("q", request=(1, GIB)), list(nodes)).node == "b"
    asked.withdraw(decision)
    assert asked.decide(pod("r", request=(1, GIB)), list(nodes)).node == "a"


@pytest.mark.parametrize("name", SERVED)
def test_decides_as_in_the_simulation(name, problem, monkeypatch):
    """At every third slot of an episode: the same machine in the live cluster that shows the same past."""
    if any(word in list_schedulers()[name].group for word in ("peaks", "future")):
        with pytest.raises(InputError, match="no real cluster"):
            decider(name)
        return
    asked = decider(name)
    if name in WITH_MEMORY:
        pytest.skip("it decides by its own past choices as well, or by chance")
    foresees = asked.sight.forecasts
    scenario = replace(asked.sight.scenario, workloads=30, machines=4, load=0.2 if foresees else 0.8)
    fitting = type(problem).build(problem.trace, scenario, "none", forecaster=asked.sight.forecaster)
    drawn = fitting.sequences("train", 1, seed=0)
    declared = Runner(drawn, fitting.machines, scenario).simulation(make_scheduler(name)).request
    sequences = replace(drawn, request=declared, training=None)  # a live cluster has no training workloads either
    slots = int(drawn.length.max()) + 2 if foresees else slots_to_remember(asked.sight)  # forecasts see whole lives
    if foresees:
        clock = drawn.arrival * scenario.step_seconds % 86400 / 86400
        metadata = np.concatenate([declared, np.full_like(declared, np.nan)], axis=2)
        unseen = np.full(drawn.arrival.shape, UNSEEN)
        windows = Windows(drawn.demand, drawn.length, metadata, clock, unseen, unseen)
        sequences = replace(sequences, forecast=scaled_table(asked.sight.forecaster, windows[0]))
    runner, compared = Runner(sequences, fitting.machines, scenario), 0
    expected = {"now": np.zeros(2)}
    monkeypatch.setattr(ExpectedDemand, "of", lambda self, owner, request: expected["now"])

    def compare(cluster, shown, placement):
        nonlocal compared
        facts = cluster.simulation.state.workloads[0]
        started = facts[:, START] >= 0
        late = (facts[started, START] > sequences.arrival[0, started]).any()
        if cluster.slot % 3 or (foresees and late):  # the table's time of day is that of the arrival
            return
        expected["now"] = np.zeros(2)
        live = decider(name)
        live.renew(as_observed(cluster, sequences, slots))
        wanted = placement.workload if placement is not None else shown[0]
        expected["now"] = wanted.first_demand
        chosen = live.decide(pod(wanted.workload_id, request=declared[0, wanted.index]), list("abcd")).node
        assert chosen == (None if placement is None else "abcd"[placement.machine])
        compared += 1

    runner.play(make_scheduler(name), 0, compare)
    assert compared > 3


@pytest.mark.parametrize("kind", ["shared that sees labels", "shared with expected-cost", "pairs with expected-cost"])
def test_a_policy_sees_what_it_sees_in_the_simulation(kind, problem, monkeypatch):
    """The same probabilities of all machines, and of holding, where one workload waits in a cluster with a past."""
    checkpoint, _ = checkpoint_of(problem, kind)
    policy = PolicyScheduler("policy", checkpoint)
    sight = sight_of(policy, Facts.of(checkpoint, "policy"))
    scenario = replace(sight.scenario, machine_types=("3x12", "1x8"), machines=4, workloads=30, load=0.15)
    fitting = type(problem).build(problem.trace, scenario, checkpoint.classes, forecaster=sight.forecaster)
    drawn = fitting.sequences("train", 1, seed=0)
    clock = drawn.arrival * scenario.step_seconds % 86400 / 86400
    metadata = np.concatenate([drawn.request, np.full_like(drawn.request, np.nan)], axis=2)
    unseen = np.full(drawn.arrival.shape, UNSEEN)
    windows = Windows(drawn.demand, drawn.length, metadata, clock, unseen, unseen)
    sequences = replace(drawn, label=checkpoint.classes.label_table(windows))
    if sight.forecaster is not None:
        table = empty_table(30, drawn.demand.shape[2], 4.0 * sight.capacity, sight.forecaster.peak_units)
        every = Beginnings.every(windows[0])
        found = scaled_forecasts(sight.forecaster, every)
        table.values[0, every.row, every.seen, : found.shape[1]] = in_steps(table, found)
        table.values[:, :, 0] = table.values[:, :, 1]
        sequences = replace(sequences, forecast=table)
    expected = {"now": np.zeros(2)}
    monkeypatch.setattr(ExpectedDemand, "of", lambda self, owner, request: expected["now"])
    simulation, compared = Simulation(sequences, fitting.machines, scenario, max_slots=0), 0

    def compare(cluster, shown, placement):
        nonlocal compared
        facts = cluster.simulation.state.workloads[0]
        started = facts[:, START] >= 0
        late = (facts[started, START] > sequences.arrival[0, started]).any()
        if len(shown) != 1 or late:
            return
        expected["now"] = np.zeros(2)
        live = Snapshot(as_observed(cluster, sequences, int(drawn.length.max()) + 2), sight)
        expected["now"] = shown[0].first_demand
        newcomer = live.show(pod(shown[0].workload_id, request=sequences.request[0, shown[0].index]))
        simulation.look()
        want, got = policy.opinion(cluster, shown[0]), policy.opinion(live.cluster, newcomer)
        np.testing.assert_array_equal(got.possible, want.possible)
        np.testing.assert_allclose(got.scores, want.scores, atol=1e-5)
        compared += 1

    simulation.reset(0)
    play_on(simulation, make_scheduler("spread"), [sequences.workload(0, i) for i in range(30)], compare)
    assert compared > 5


def as_observed(cluster, sequences, slots):
    """What a watcher would have seen of a simulated cluster of machines a to d; a unit is a core, and a byte."""
    facts, slot = cluster.simulation.state.workloads[0], cluster.slot
    order = np.argsort(facts[:, START], kind="stable")
    order = order[facts[order, START] >= 0]
    ends = facts[order, START] + sequences.length[0, order]
    ended = (ends <= slot) & (ends > slot - slots + 1)
    order, running = np.concatenate([order[ends > slot], order[ended]]), int((ends > slot).sum())
    usage = np.full((len(order), slots, 2), np.nan)
    for i, w in enumerate(order):
        column = slots - 1 - slot + facts[w, START] + np.arange(sequences.length[0, w])
        shown = (column >= 0) & (column < slots)
        usage[i, column[shown]] = sequences.demand[0, w, : sequences.length[0, w]][shown]
    return Observed(
        time=0.0,
        sample_age=0.0,
        slot=slot,
        nodes=tuple("abcd"),
        capacity=cluster.capacity,
        pods=tuple(f"default/w{w}" for w in order),
        uid=("",) * len(order),
        running=running,
        node=facts[order, MACHINE].astype(np.int64),
        owner=("",) * len(order),
        request=sequences.request[0, order],
        usage=usage,
    )


class Asking:
    """A forecaster that asks for earlier usage, and keeps the windows that it is shown."""

    uses_past = True

    def __init__(self, inner):
        self.inner, self.peak_units, self.shown = inner, inner.peak_units, []

    def predict(self, beginnings):
        self.shown.append(beginnings.windows)
        return self.inner.predict(beginnings)


def test_forecasts_are_told_what_replicas_used_before():
    rows = [
        ("p", "a", "shop", [1, 3, 3, 3], [4, 4, 4, 4]),
        ("q", "a", "shop", [2, 2], [4, 4]),
        ("r", "a", "", [1, 1, 1, 1], [4, 4, 4, 4]),
    ]
    _, sight = open_policy("expected-cost", None)
    asking = Asking(sight.forecaster)
    seen = observed({"a": (8, 32)}, rows)
    snapshot = Snapshot(seen, replace(sight, forecaster=asking))
    cpu = np.concatenate([windows.past[:, 0, :, 0] for windows in asking.shown])
    day, now = cpu.shape[1], seen.slot
    assert sorted(np.isfinite(cpu).sum(axis=1).tolist()) == [0, 0, 2]  # of p and r nothing before; of q what p used
    (told,) = cpu[np.isfinite(cpu).any(axis=1)]
    assert told[(now - 2) % day] / told[(now - 3) % day] == pytest.approx(3)
    asking.shown.clear()
    snapshot.show(pod("new", owner="shop"))
    told = asking.shown[-1].past[0, 0, :, 0]
    assert np.isfinite(told).sum() == 3  # all slots before the current one
    assert told[(now - 1) % day] / told[(now - 3) % day] == pytest.approx((3 + 2) / 2)


@pytest.mark.parametrize("quantise", [False, True])
def test_earlier_usage_is_told_as_in_training(quantise):
    """Whatever the environment shows: not rounded to units, and at most the peak."""
    _, sight = open_policy("expected-cost", None)
    asking = Asking(sight.forecaster)
    scenario = replace(sight.scenario, quantise=quantise)
    seen = observed({"a": (8, 32)}, [("p", "a", "shop", [0.5, 0.7, 1, 1], [4, 4, 4, 4])])
    Snapshot(seen, replace(sight, forecaster=asking, scenario=scenario)).show(pod("new", owner="shop"))
    told, now = asking.shown[-1].past[0, 0, :, 0], seen.slot
    assert told[(now - 2) % len(told)] / told[(now - 3) % len(told)] == pytest.approx(1.4)
    assert np.nanmax(told) <= scenario.peak_units


def test_forecasters_that_do_not_ask_are_told_nothing():
    _, sight = open_policy("expected-cost", None)
    asking = Asking(sight.forecaster)
    asking.uses_past = False
    Snapshot(observed({"a": (8, 32)}, [("p", "a", "shop", [1, 3], [4, 4])]), replace(sight, forecaster=asking))
    assert all(windows.past is None for windows in asking.shown)
