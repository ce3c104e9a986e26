"""Rules that look at measured load, by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.schedulers.production.load import (
    Crane,
    KatalystLoad,
    LowRiskOverCommitment,
    crane_score,
    katalyst_score,
    low_risk,
)
from tvwrl.schedulers.production.past_load import PastLoad, load_in
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Machines

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))


def begun(sequences, scenario=None):
    """A simulation of two machines and the cluster that schedulers see."""
    simulation = Simulation(sequences, TWO, scenario or Scenario(placements_per_slot=None, queue=9), max_slots=0)
    simulation.reset(0)
    return simulation, Cluster(simulation)


def choice(rule, rows, make_sequences, requests=None, slots=0):
    """The machine of the last workload, or None; the first two were put on a machine each, `slots` slots before."""
    sequences = make_sequences(rows)
    if requests is not None:
        sequences = replace(sequences, request=np.array([requests], float))
    simulation, cluster = begun(sequences)
    rule.reset(cluster, np.random.default_rng(0))
    simulation.place(0, 0)
    simulation.place(0, 1)
    while cluster.slot < slots:
        simulation.next_slot()
    return rule.choose(cluster, sequences.workload(0, len(rows) - 1))


# ---- past load


def test_past_load_knows_slots_in_which_nothing_was_decided(make_sequences):
    # One workload uses 1, 5, 2 on m0, then leaves; another arrives in slot 4 and runs on m1.
    rows = [(0, [[1, 1], [5, 1], [2, 1]]), (4, [[3, 1]] * 3)]
    simulation, cluster = begun(make_sequences(rows))
    past = PastLoad(cluster, 4)
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[0, 0]]
    simulation.place(0, 0)
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[1, 0]]  # what is placed in a slot counts in it
    simulation.next_slot()  # the next decision is due in slot 4
    simulation.place(0, 1)
    assert cluster.slot == 4
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[5, 0], [2, 0], [0, 0], [0, 3]]
    assert past.newest(cluster, 2)[:, :, 0].tolist() == [[0, 0], [0, 3]]


def test_past_load_comes_as_late_as_usage_does(make_sequences):
    rows = [(0, [[1, 1], [5, 1], [2, 1]]), (1, [[3, 1]] * 3), (2, [[1, 1]])]
    late = Scenario(placements_per_slot=None, queue=9, usage_delay=1)
    simulation, cluster = begun(make_sequences(rows), late)
    past = PastLoad(cluster, 4)
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[0, 0]]
    simulation.place(0, 0)
    simulation.next_slot()
    simulation.place(0, 1)
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[1, 0]]  # of slot 0
    simulation.next_slot()
    assert past.newest(cluster, 4)[:, :, 0].tolist() == [[1, 0], [5, 3]]


def test_katalyst_adds_the_requests_of_what_no_report_has_seen(make_sequences):
    # m0 uses 3; m1 2.5, and 0.3 since slot 1. Seen in slot 2, that is less. Two slots late the 0.3 are not seen: what
    # uses them counts with 0.85 of its 8 units, beside which nothing is free. 0.7 x 68 % is below what is free of m0.
    rows = [(0, [[3, 3]] * 5), (0, [[2.5, 2.5]] * 5), (1, [[0.3, 0.3]] * 5), (2, [[1, 1]])]
    found = []
    for delay in (0, 2):
        scenario = Scenario(placements_per_slot=None, queue=9, usage_delay=delay)
        sequences = replace(make_sequences(rows), request=np.array([[[3, 3], [1, 1], [8, 8], [1, 1]]], float))
        simulation, cluster = begun(sequences, scenario)
        rule = KatalystLoad()
        rule.reset(cluster, np.random.default_rng(0))
        simulation.place(0, 0)
        simulation.place(0, 1)
        simulation.next_slot()
        simulation.place(0, 1)
        simulation.next_slot()
        found.append(rule.choose(cluster, sequences.workload(0, 3)))
    assert found == [1, 0]


def test_past_load_is_what_the_cluster_measured(make_sequences):
    rng = np.random.default_rng(0)
    rows = [(2 * i, rng.integers(1, 4, (rng.integers(1, 9), 2)).tolist()) for i in range(20)]
    noise = rng.integers(0, 3, (1, 5, 2, 2)).astype(np.uint8)
    simulation, cluster = begun(replace(make_sequences(rows), background=noise))
    seen = {}
    while not simulation.is_over():
        simulation.place(0, int(rng.integers(2)))
        seen[cluster.slot] = cluster.load.copy()
        simulation.next_slot()
    assert len(seen) == 20
    for slot, load in seen.items():
        assert (load_in(cluster, slot) == load).all()


# ---- Crane


def test_crane_scores_by_hand():
    now, hour, day = (np.array([[cpu, 0.5]]) for cpu in (0.4, 0.6, 0.7))
    # Free shares (0.12 + 0.12 + 0.15 + 0.10 + 0.15 + 0.25) / 2 = 0.445; three placements make a hot value of 0 + 1.
    assert crane_score(now, hour, day, np.array([0])) == 44
    assert crane_score(now, hour, day, np.array([3])) == 34
    assert crane_score(now, hour, day, np.array([10])) == 0  # 2 + 5 points: not below 0


@pytest.mark.parametrize(("busiest", "machine"), [(6.0, 0), (6.1, 1)])
def test_crane_leaves_out_what_was_busy_within_the_hour(make_sequences, busiest, machine):
    # In slots of 30 minutes an hour is two. 6 of 8 are 0.75: not above. m1 uses more than m0, so it is the second best.
    rows = [(0, [[0.5, 1], [busiest, 1], [0.8, 1]]), (0, [[5, 5]] * 3), (2, [[1, 1]])]
    assert Scenario().step_seconds == 1800
    assert choice(Crane(), rows, make_sequences, slots=2) == machine


def test_crane_threshold(make_sequences):
    # 5.2 of 8 are 0.65 now; 5.3 are above it.
    assert choice(Crane(), [(0, [[5.2, 1]]), (0, [[5.3, 1]]), (0, [[1, 1]])], make_sequences) == 0
    assert choice(Crane(), [(0, [[5.3, 1]]), (0, [[5.3, 1]]), (0, [[1, 1]])], make_sequences) is None
    assert choice(Crane(0.75), [(0, [[5.3, 1]]), (0, [[5.3, 1]]), (0, [[1, 1]])], make_sequences) == 0
    with pytest.raises(InputError, match="threshold is 0: must be a number > 0"):
        Crane(0)


# ---- Katalyst


def test_katalyst_scores_by_hand():
    # CPU 3.7, 5, 6 of 8 leave 53, 37, 25 per cent: (1590 + 1110 + 1000) // 100 = 37; memory leaves 50. (37 + 50) // 2.
    levels = (np.array([[cpu, 4.0]]) for cpu in (3.7, 5.0, 6.0))
    assert katalyst_score(*levels, np.array([[8.0, 8.0]])) == 43
    assert katalyst_score(*[np.array([[9.0, 9.0]])] * 3, np.array([[8.0, 8.0]])) == 0


def test_katalyst_rounds_the_share_before_it_compares(make_sequences):
    # 5.63 of 8 are 70.4 per cent, so 70; 5.65 are 70.6, so 71, and m1, which is fuller by its memory, remains.
    for used, machine in ((5.63, 0), (5.65, 1)):
        rows = [(0, [[used, 1]]), (0, [[4, 7]]), (0, [[1, 1]])]
        assert choice(KatalystLoad(), rows, make_sequences, [[1, 1]] * 3) == machine
    assert choice(KatalystLoad(80), rows, make_sequences, [[1, 1]] * 3) == 0


# ---- LowRiskOverCommitment


def test_upstreams_own_cases():
    # 4000 milli-cores and 4096 bytes, used by 0.8 and 0.25 without any deviation.
    for amounts, size, mean, risk in (
        ((2000, 3000, 1000, 2000), 4000, 0.8, 0.5),
        ((2048, 6144, 0, 0), 4096, 0.25, 0.25),
        ((4000, 5000, 3000, 4000), 4000, 0.8, 1.0),
        ((1024, 7168, 512, 6144), 4096, 0.25, 0.75),
    ):
        shares = (np.array([amount / size]) for amount in amounts)
        assert low_risk(*shares, np.array([mean]), np.array([0.0])) == pytest.approx(risk)


def test_low_risk_with_a_beta_distribution():
    # A mean of 0.5 and a deviation of 0.1, times the root of 5, make Beta(2, 2): F(x) = 3 x^2 - 2 x^3.
    of = [np.array([x]) for x in (0.6, 0.9, 0.5, 0.8, 0.5, 0.1)]
    assert low_risk(*of) == pytest.approx(0.5 * (1 - 0.5 / 0.896), abs=1e-6)
    of[1] = np.array([1.4])  # limits of 1.4 with requests of 0.6: half of what lies between is above the capacity
    assert low_risk(*of) == pytest.approx(0.5 * 0.5 + 0.5 * (1 - 0.5 / 0.896), abs=1e-6)


def test_requests_that_are_the_limits_rank_nothing():
    rng = np.random.default_rng(0)
    before = rng.uniform(0.1, 1.4, 200)
    after = before + 0.2
    risk = low_risk(after, after, before, before, rng.uniform(0.2, 0.8, 200), rng.uniform(0.01, 0.1, 200))
    assert np.allclose(risk, 0.5 * (after > 1))


@given(*[st.floats(0, 3)] * 2, st.floats(0.1, 1), st.floats(0, 1), st.floats(0, 0.5))
def test_risk_is_between_0_and_1(limit, added, share, mean, sd):
    parts = (share * (limit + added), limit + added, share * limit, limit)
    risk = low_risk(*(np.array([x]) for x in (*parts, mean, sd)))
    assert 0 <= risk[0] <= 1


def test_low_risk_over_commitment_prefers_fewer_limits_above_the_capacity(make_sequences):
    # Limits of 11 and 9 with the newcomer's 4, requests of half of them: an excess of 3 / 5.5 and 1 / 4.5. What is used
    # is below the requests before.
    rows = [(0, [[1, 1]] * 3)] * 3
    assert choice(LowRiskOverCommitment(), rows, make_sequences, [[7, 4], [5, 4], [4, 1]]) == 1
    assert choice(LowRiskOverCommitment(), rows, make_sequences, [[5, 4], [5, 4], [4, 1]]) == 0
    # On m0 1 unit of memory is used, above the 0.5 that are requested: a risk of 0.5, above the 3 / 11 on m1.
    assert choice(LowRiskOverCommitment(), rows, make_sequences, [[5, 1], [7, 4], [4, 1]]) == 1
    # With requests of 0.8 of the limits 8.8 and 9.6 of 8 are requested: neither has room.
    assert choice(LowRiskOverCommitment(0.8), rows, make_sequences, [[7, 1], [8, 1], [4, 1]]) is None
    with pytest.raises(InputError, match=r"request is 1.5: must be above 0 and at most 1"):
        LowRiskOverCommitment(1.5)
