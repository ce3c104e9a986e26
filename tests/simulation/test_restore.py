"""An environment that goes on in the middle of an episode is what the clock had made of it."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import play_on
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import MACHINE, SLOT, START
from tvwrl.types import Machines

SAME = (
    "machines", "load", "square", "filled", "seen_words", "seen_queue", "seen_backlog", "seen_forecast",
)  # fmt: skip


def twin_of(simulation, scenario):
    """The same cluster in the same slot, made from what was placed alone."""
    other = Simulation(simulation.sequences, simulation.machines, scenario, max_slots=0)
    facts = simulation.state.workloads[0]
    slot, sequence = int(simulation.state.counters[0, SLOT]), simulation.record().sequence
    other.restore(slot, facts[:, MACHINE], facts[:, START], simulation.waiting(), sequence)
    return other


@pytest.mark.parametrize("changes", [{}, {"usage_delay": 2}, {"background": 2}, {"quantise": False}])
def test_restored_in_the_middle_of_episodes(changes, problem):
    scenario = Scenario(**{"workloads": 30, "history": 5, **changes})
    fitting = type(problem).build(problem.trace, scenario, problem.classes)
    sequences = fitting.sequences("train", 2, seed=0)
    simulation = Simulation(sequences, fitting.machines, scenario, max_slots=0)
    compared = 0

    def compare(cluster, shown, placement):
        nonlocal compared
        twin = twin_of(simulation, scenario)
        for name in SAME:
            np.testing.assert_array_equal(getattr(twin.state, name), getattr(simulation.state, name), err_msg=name)
        assert twin.waiting().tolist() == simulation.waiting().tolist()
        compared += 1

    for sequence in range(2):
        simulation.reset(sequence)
        workloads = [sequences.workload(sequence, i) for i in range(30)]
        play_on(simulation, make_scheduler("spread"), workloads, compare)
    assert compared >= 60


def test_goes_on_as_the_other_by_hand(make_sequences):
    """a (3, 5) and b (2) run on machine 0 since slots 0 and 1, c waits in slot 1: beside them, 5 + 2 + 1."""
    sequences = make_sequences([(0, [[3, 3], [5, 5]]), (0, [[2, 2]]), (1, [[1, 1]])])
    scenario = Scenario(history=2, placements_per_slot=None)
    simulation = Simulation(sequences, Machines.homogeneous(2, 8, ("cpu", "mem")), scenario, max_slots=0)
    simulation.restore(1, np.array([0, 0, -1]), np.array([0, 1, -1]), np.array([2]))
    assert simulation.state.load[0, :, 1].tolist() == [[7, 7], [0, 0]]
    assert simulation.observation()["queue"][0, :, 0].tolist() == [1, 0, 0, 0, 0]
    simulation.place(0, 0)
    assert simulation.state.load[0, :, 1].tolist() == [[8, 8], [0, 0]]
    simulation.next_slot()
    assert simulation.is_over()


def test_demand_that_happens_to_be_whole_stays_a_fraction(make_sequences):
    """Without rounding, arrays hold fractions even where no number needs it: a live cluster writes into them."""
    sequences = make_sequences([(0, [[2, 2]])])
    for quantise, kind in ((False, np.float64), (True, np.uint8)):
        scenario = replace(Scenario(), quantise=quantise)
        simulation = Simulation(sequences, Machines.homogeneous(1, 8, ("cpu", "mem")), scenario)
        assert simulation.state.demand.dtype == kind
