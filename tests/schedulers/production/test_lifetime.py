"""Rules that look at when machines will be empty, by hand. Slots are of 30 minutes."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.schedulers.production.lifetime import LavaLike, NilasLike, class_of, expected_left, put_off
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Machines

TWO, THREE = (Machines.homogeneous(count, 8, ("cpu", "mem")) for count in (2, 3))


class Cell:
    """A cluster on which workloads are placed by hand, to see where a rule would put the next one.

    `rows`: (arrival, length, request) of each workload; the request is of both resources
    """

    def __init__(self, make_sequences, rule, rows, machines=TWO):
        sequences = make_sequences([(arrival, [[0.1, 0.1]] * length) for arrival, length, _ in rows])
        request = np.array([[[units, units] for _, _, units in rows]], float)
        self.sequences, self.rule = replace(sequences, request=request), rule
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
    assert Cell(make_sequences, NilasLike(lengths=[8]), rows, THREE).place(1, 0).chosen() == 1  # 3 and 5.5 of 8 do not fit
    assert Cell(make_sequences, NilasLike(2.0, [8]), rows, THREE).place(1, 0).chosen() == 0


def test_lifetimes_come_from_training(make_sequences):
    training = make_sequences([(0, [[1, 1]] * 2), (0, [[1, 1]] * 4), (0, [[1, 1]] * 6)])
    sequences = make_sequences([(0, [[1, 1]] * 9)])
    for rule in (NilasLike(), LavaLike()):
        with pytest.raises(InputError, match=f"{rule.name} learns lifetimes from training sequences"):
            rule.reset(Cluster(Simulation(sequences, TWO, Scenario())), np.random.default_rng(0))
        told = replace(sequences, training=lambda: training)
        rule.reset(Cluster(Simulation(told, TWO, Scenario())), np.random.default_rng(0))
        assert rule._left.tolist() == [2, 1.5, 1.5, 1, 1, 0.5, 0.25]  # hours


# ---- LAVA


# 10 slots (5 hours) are expected of a newcomer, class 1; of who has run for 20 slots 42 in all (21 hours), class 2.
LENGTHS = [2] * 8 + [40, 44]


def test_lava_fills_up_nearly_full_machines_of_longer_lives(make_sequences):
    # All machines are in class 1, until 10 hours; their exits, expected after 21, put them into class 2.
    rows = [(0, 99, 4), (0, 99, 7.3), (0, 99, 1), (20, 99, 0.5)]
    assert expected_left(LENGTHS)[[0, 20]].tolist() == [10, 22]
    assert Cell(make_sequences, LavaLike(lengths=LENGTHS), rows, THREE).place(0, 1, 2).chosen() == 1
    # Where nobody has requested so much, the tightest of class 2.
    rows[1] = (0, 99, 6)
    assert Cell(make_sequences, LavaLike(lengths=LENGTHS), rows, THREE).place(2, 1, 0).chosen() == 1


def test_lava_prefers_machines_of_the_same_class(make_sequences):
    rows = [(0, 99, 4), (0, 99, 5), (18, 99, 1), (19, 99, 1)]
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


@pytest.mark.parametrize(("leaves", "machine"), [(22, 0), (99, 1)])
def test_a_machines_class_falls_when_a_long_life_leaves(make_sequences, leaves, machine):
    # 15 slots (7.5 hours) are expected until an age of 10, and 60 after it: in slot 20 both machines are of class 2.
    # The third workload goes to m0. Once the first has left, m0 is of its class, 1, as the newcomer is.
    rows = [(0, leaves, 1), (0, 99, 6), (20, 99, 1), (24, 99, 1)]
    cell = Cell(make_sequences, LavaLike(lengths=[10] * 9 + [60]), rows).place(0, 1)
    assert cell.cluster.slot == 20
    assert cell.chosen() == 1  # both are of another class: the tighter one
    assert cell.place(0).chosen() == machine
