"""Rules that look at when machines will be empty, by hand. Slots are of 30 minutes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.schedulers.production.lifetime import (
    EMPTY,
    RECYCLING,
    LavaLike,
    Lifetimes,
    NilasLike,
    class_of,
    expected_left,
    put_off,
)
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Machines

TWO, THREE = (Machines.homogeneous(count, 8, ("cpu", "mem")) for count in (2, 3))


def requesting(make_sequences, rows):
    """Sequences of rows of (arrival, length, request); the request is of both resources."""
    sequences = make_sequences([(arrival, [[0.1, 0.1]] * length) for arrival, length, _ in rows])
    return replace(sequences, request=np.array([[[units, units] for _, _, units in rows]], float))


class Cell:
    """A cluster on which workloads are placed by hand, to see where a rule would put the next one.

    `rows`: (arrival, length, request) of each workload; `training`: (length, request) of training workloads
    """

    def __init__(self, make_sequences, rule, rows, machines=TWO, training=None):
        self.sequences, self.rule = requesting(make_sequences, rows), rule
        if training is not None:
            learnt_from = requesting(make_sequences, [(0, length, units) for length, units in training])
            self.sequences = replace(self.sequences, training=lambda: learnt_from)
        scenario = Scenario(placements_per_slot=None, queue=9)
        self.simulation = Simulation(self.sequences, machines, scenario, max_slots=0)
        self.simulation.reset(0)
        self.cluster = Cluster(self.simulation)
        rule.reset(self.cluster, np.random.default_rng(0))

    def place(self, *machines):
        """Place those that wait on these machines, then let time pass until the next one waits."""
        for machine in machines:
            self.simulation.place(0, machine)
        self.simulation.next_slot()
        return self

    def chosen(self):
        return self.rule.choose(self.cluster, self.sequences.workload(0, int(self.simulation.waiting()[0])))


# ---- lifetimes


def test_what_is_left_is_the_mean_of_those_that_ran_longer():
    # Lengths 2, 4 and 6: all go on at first; after 2 slots 4 and 6 do, by 2 and 4; after 6 none did.
    assert expected_left([2, 4, 6]).tolist() == [4, 3, 3, 2, 2, 1, 0.5]
    with pytest.raises(InputError, match="lengths is 0: must be at least 1"):
        expected_left([3, 0])


@given(st.lists(st.integers(1, 50), min_size=1))
def test_who_has_run_for_longer_is_expected_to_end_later(lengths):
    ends = np.arange(max(lengths) + 1) + expected_left(lengths)
    assert (np.diff(ends) >= -1e-9).all()
    assert (ends[:-1] <= max(lengths) + 1e-9).all()


def test_lifetimes_by_requests():
    # Who requests 1 runs for 10 or 30 slots, who requests 6 for 2 or 4.
    request, length = np.repeat([[1.0, 1.0], [6.0, 6.0]], 20, axis=0), [10, 30] * 10 + [2, 4] * 10
    found = Lifetimes(length, request)
    small, large = found.leaf(np.array([[1.2, 1.0], [5.0, 6.0]]))
    assert found.left[small, [0, 10, 29, 30]].tolist() == [20, 20, 1, 0.5]
    assert found.left[large, [0, 2, 3]].tolist() == [3, 2, 1]
    assert found.left[large, 4] == 16  # none of its own: 6 and 26 in equal parts, as of all who ran for more than 4
    # Requests that tell nothing are not looked at.
    assert len(set(Lifetimes([2, 4] * 20, request).leaf(request))) == 1


def test_put_off_by_hand():
    assert put_off(5.0, np.array([10.0, 3.0])).tolist() == [0, 3]  # by 0 and 2 hours, the fourth value
    assert put_off(12.0, np.array([10.0, 3.0])).tolist() == [3, 6]  # by 2 and 9, so 12
    assert put_off(10.0, np.array([10.0, 9.8])).tolist() == [0, 1]  # by 0.2, so half an hour
    assert put_off(10.0, np.array([11.0, 30.0])).tolist() == [0, 0]
    assert put_off(500.0, np.array([0.0])).tolist() == [12]  # beyond the last value


def test_classes_of_lifetimes():
    assert class_of(np.array([0.9, 1.0, 10.0, 99.0, 100.0, 9999.0])).tolist() == [0, 1, 2, 2, 3, 3]


# ---- NILAS


def test_nilas_takes_the_machine_that_runs_on_anyway(make_sequences):
    # Half of training ran 4 slots, half 20: a newcomer is expected to run 12 (6 hours); after 4 slots 16 are left
    # (8 hours), and after 16 slots 4 (2 hours).
    lengths = [4, 20]
    rows = [(0, 30, 1), (12, 30, 1), (16, 30, 1)]
    cell = Cell(make_sequences, NilasLike(lengths=lengths), rows).place(0).place(1)
    assert cell.cluster.slot == 16
    assert cell.chosen() == 1
    # The other way round, too; and what is requested only decides between equals.
    cell = Cell(make_sequences, NilasLike(lengths=lengths), [(0, 30, 7), rows[1], rows[2]]).place(1).place(0)
    assert cell.chosen() == 0


def test_nilas_takes_the_tightest_of_equals(make_sequences):
    # Both machines began at the same time. An idle machine would be put off by all of the newcomer's life.
    rows = [(0, 30, 2), (0, 30, 3), (1, 30, 5.5)]
    assert (
        Cell(make_sequences, NilasLike(lengths=[8]), rows, THREE).place(1, 0).chosen() == 1
    )  # 3 and 5.5 of 8 do not fit
    assert Cell(make_sequences, NilasLike(2.0, [8]), rows, THREE).place(1, 0).chosen() == 0


# Who requests 1 ran for 40 slots (20 hours, class 2), who requests 6 for 4 (2 hours, class 1); the border is 3.5.
BY_REQUEST = [(40, 1)] * 20 + [(4, 6)] * 20


def test_nilas_expects_lifetimes_by_requests(make_sequences):
    # The newcomer is expected to run for 20 hours. In slot 1 the first machine is for 19.5, the second for 1.5.
    rows = [(0, 99, 1), (0, 99, 6), (1, 99, 1)]
    assert Cell(make_sequences, NilasLike(), rows, training=BY_REQUEST).place(0, 1).chosen() == 0
    # If lifetimes were those of all, neither would be put off by more than the other: the tightest.
    assert Cell(make_sequences, NilasLike(lengths=[4, 40]), rows).place(0, 1).chosen() == 1


def test_lifetimes_come_from_training(make_sequences):
    training = make_sequences([(0, [[1, 1]] * 2), (0, [[1, 1]] * 4), (0, [[1, 1]] * 6)])
    sequences = make_sequences([(0, [[1, 1]] * 9)])
    for rule in (NilasLike(), LavaLike()):
        with pytest.raises(InputError, match=f"{rule.name} learns lifetimes from training sequences"):
            rule.reset(Cluster(Simulation(sequences, TWO, Scenario())), np.random.default_rng(0))
        told = replace(sequences, training=lambda: training)
        rule.reset(Cluster(Simulation(told, TWO, Scenario())), np.random.default_rng(0))
        assert rule._left.tolist() == [[2, 1.5, 1.5, 1, 1, 0.5, 0.25]]  # hours


# ---- LAVA

# 10 slots (5 hours) are expected of a newcomer, class 1: until 10 hours.
LENGTHS = [2] * 8 + [40, 44]


def test_lava_tops_up_recycling_machines_of_longer_lives(make_sequences):
    # In slot 21 the deadline of all machines has passed: they are of class 2, and the second one recycles.
    rows = [(0, 99, 4), (0, 99, 7.3), (0, 99, 1), (21, 99, 0.5)]
    assert Cell(make_sequences, LavaLike(lengths=LENGTHS), rows, THREE).place(0, 1, 2).chosen() == 1
    # Before, they are of class 1, so the second one takes nobody of class 1: the tightest of the others.
    rows[3] = (20, 99, 0.5)
    assert Cell(make_sequences, LavaLike(lengths=LENGTHS), rows, THREE).place(0, 1, 2).chosen() == 0


def test_lava_prefers_open_machines_of_the_same_class(make_sequences):
    rows = [(0, 99, 4), (0, 99, 5), (20, 99, 1), (21, 99, 1)]
    assert Cell(make_sequences, LavaLike(lengths=LENGTHS), rows, THREE).place(0, 1).place(2).chosen() == 2
    # NILAS prefers those that run on for as long as the newcomer does, and of them the tightest.
    assert Cell(make_sequences, NilasLike(lengths=LENGTHS), rows, THREE).place(0, 1).place(2).chosen() == 1


def test_lava_takes_only_lower_classes_where_nearly_all_is_requested(make_sequences):
    rows = [(0, 99, 7.3), (1, 99, 0.5)]
    cell = Cell(make_sequences, LavaLike(lengths=LENGTHS), rows).place(0)
    assert cell.chosen() == 1
    assert cell.rule.candidates(cell.cluster, cell.sequences.workload(0, 1)).tolist() == [False, True]
    assert Cell(make_sequences, NilasLike(lengths=LENGTHS), rows).place(0).chosen() == 0
    rows[0] = (0, 99, 7.1)  # less than 0.9 of 8
    assert Cell(make_sequences, LavaLike(lengths=LENGTHS), rows).place(0).chosen() == 0


@pytest.mark.parametrize(("leaves", "machine"), [(10, 1), (99, 0)])
def test_lava_lowers_the_class_when_residual_workloads_have_left(make_sequences, leaves, machine):
    # Who requests much runs long here. The first workload fills the machine, which is of class 2, and is residual. The
    # second, of class 1, tops it up. Once the first has left, the class is 1: nobody of class 1 may come.
    training, rows = [(4, 0.3)] * 20 + [(40, 7.3)] * 20, [(0, leaves, 7.3), (2, 60, 0.3), (12, 9, 0.3)]
    cell = Cell(make_sequences, LavaLike(), rows, training=training).place(0)
    assert cell.chosen() == 0
    assert cell.place(0).chosen() == machine


def test_lava_raises_the_class_at_every_deadline(make_sequences):
    # Half an hour is expected: class 0, until 1 hour. After 10 hours class 2, after 100 hours class 3.
    for slot, expected in ((2, 0), (3, 1), (20, 1), (21, 2), (200, 2), (201, 3)):
        cell = Cell(make_sequences, LavaLike(lengths=[1]), [(0, 300, 1), (slot, 300, 1)]).place(0)
        cell.chosen()
        assert cell.rule._class[0] == expected


def test_lava_never_lengthens_what_recycles(problem, train):
    """Whatever comes: recycling machines take workloads of lower classes only, and recycle until they are empty."""
    rule, seen = LavaLike(1.25), []
    choose = rule.choose

    def watched(cluster, workload):
        before = rule._state.copy()
        machine = choose(cluster, workload)
        assert np.isin(rule._state[before == RECYCLING], (RECYCLING, EMPTY)).all()
        assert ((rule._state == EMPTY) == (cluster.active == 0)).all()
        assert ((rule._class >= 0) & (rule._class <= 3)).all()
        if machine is not None and rule._state[machine] == RECYCLING:
            assert class_of(rule._life(workload)) < rule._class[machine]
        seen.extend(rule._state)
        return machine

    rule.choose = watched
    for sequence in range(2):
        Runner(train, Machines.homogeneous(3, 8, ("cpu", "mem")), problem.scenario).play(rule, sequence)
    assert set(seen) == {0, 1, 2}
