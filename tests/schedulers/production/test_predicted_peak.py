"""What all rules that predict peaks have in common."""

import numpy as np
import pytest

from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.production.predicted_peak import PredictedPeak
from tvwrl.schedulers.registry import PRODUCTION, tunable
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import Machines

PREDICTING = [name for name in PRODUCTION if isinstance(make_scheduler(name), PredictedPeak)]


def test_the_tightest_takes_it_and_idle_machines_count(chosen):
    three = Machines.homogeneous(3, 8, ("cpu",))
    running = [(4, [1] * 4, None, 0), (5, [2] * 4, None, 1)]  # predicted: 1 and 2
    assert chosen("rc-like", running, 5, three) == 1
    assert chosen("rc-like", running, 7, three) == 0
    assert chosen("rc-like", running, 8, three) == 2


def test_who_runs_for_less_than_usage_takes_to_arrive_counts_with_the_request(chosen):
    assert chosen("rc-like", [(4, [1, 1, 1, 1])], 7) == 0
    assert chosen("rc-like", [(4, [1, 1, 1, 1])], 4.1, usage_delay=1) is None
    assert chosen("rc-like", [(4, [1, 1, 1, 1, 4])], 7, usage_delay=1) == 0


def test_room_now_is_needed(chosen):
    assert chosen("borg-default(phi=0.1)", [(1, [7.95])], 6) is None  # it uses .06 at once


@pytest.mark.parametrize("name", [name for name in PREDICTING if name != "katalyst"])
def test_the_border_belongs_to_the_machine(chosen, name):
    option = {"resource-central-like": "(max_oversub=1)", "borg-default": "(phi=1)"}.get(name, "")
    assert chosen(name + option, [((3, 4), [(3, 4)])], (5, 4)) == 0
    assert chosen(name + option, [((3, 4), [(3, 4)])], (5.001, 4)) is None


@pytest.mark.parametrize("name", PREDICTING)
def test_predictions_that_are_kept_are_those_made_anew(problem, train, name):
    simulation = Simulation(train, problem.machines, problem.scenario, max_slots=0)
    simulation.reset(0)
    cluster, rng = Cluster(simulation), np.random.default_rng(0)
    kept = make_scheduler(name)
    kept.reset(cluster, rng)
    for _ in range(60):
        if simulation.is_over():
            break
        kept.peaks(cluster)
        if cluster.waiting:
            simulation.place(0, int(rng.integers(len(cluster.machines))))
        fresh = kept.fork()  # it shares what was learnt from training, and nothing else
        fresh.reset(cluster, rng)
        assert np.array_equal(kept.peaks(cluster), fresh.peaks(cluster))
        if rng.random() < 0.6:
            simulation.next_slot()


@pytest.mark.parametrize("name", PREDICTING)
def test_every_value_to_tune_over_is_allowed(name):
    for option, values in tunable(name).items():
        for value in values:
            assert make_scheduler(f"{name}({option}={value:g})").name == f"{name}({option}={value:g})"
