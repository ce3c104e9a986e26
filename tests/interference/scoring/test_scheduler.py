"""Every scheduler of the simulator with PISM keeps what a scheduler promises."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.interference.categories import Thresholds
from tvwrl.interference.scheduler import WithInterference
from tvwrl.interference.score import InterferenceScore
from tvwrl.schedulers import KNOWLEDGE, NAMES, make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError, Machines


@pytest.fixture(scope="module")
def score(slowed):
    """Workloads of one unit of 8 cores are of category 3 (a slot is long), which the rule of `slowed` lets pass; those
    of more are 23 or 43, unknown to it, but for the score to be of use thresholds are moved so that they are 7 and 11.
    """
    return InterferenceScore.fit(
        slowed, thresholds=Thresholds((7.5, 9.0), (15.0, 40.0, 98.0, 99.0), (10.0, 100.0, 1000.0))
    )


@pytest.mark.parametrize("name", NAMES)
def test_places_everything_and_repeats_itself(problem, train, score, name):
    machines = Machines.homogeneous(3, 8, ("cpu", "mem"))
    for limit in (1, None):
        runner = Runner(train, machines, replace(problem.scenario, placements_per_slot=limit), seed=3)
        scheduler = WithInterference(make_scheduler(name), score, cores=8)
        first = runner.play(scheduler, 1)
        runner.play(scheduler, 4)
        again = runner.play(scheduler, 1)
        assert first.scheduler == f"{name}+pism"
        assert (first.start >= first.arrival).all()
        assert ((first.machine >= 0) & (first.machine < 3)).all()
        assert limit is None or np.bincount(first.start).max() <= limit
        assert np.array_equal(first.machine, again.machine)
        assert np.array_equal(first.start, again.start)
    assert scheduler.knowledge.group == KNOWLEDGE[name].group


@pytest.mark.parametrize("name", ["spread", "stack", "random"])
def test_one_candidate_is_the_scheduler_alone(problem, train, score, name):
    runner = Runner(train, problem.machines, problem.scenario, seed=3)
    alone = runner.play(make_scheduler(name), 2)
    together = runner.play(WithInterference(make_scheduler(name), score, count=1), 2)
    assert np.array_equal(alone.machine, together.machine)
    assert np.array_equal(alone.start, together.start)


def test_the_score_decides_among_the_best(score, make_sequences):
    """Memory of 3 units is category 7, which slows services; 1 unit is 3. Stack puts the fourth workload on machine 0,
    the fullest; PISM finds room beside it on machine 1, where none of category 7 runs."""
    row = [[1.0, 3.0]] * 4, [[1.0, 1.0]] * 4
    sequences = make_sequences([(0, row[0]), (0, row[0]), (1, row[0])])
    machines = Machines.homogeneous(2, 8, ("cpu", "mem"))
    from tvwrl.simulation.scenario import Scenario

    scenario = Scenario(machines=2, workloads=3, placements_per_slot=None)
    runner = Runner(sequences, machines, scenario, seed=0)
    assert runner.play(make_scheduler("stack"), 0).machine.tolist() == [0, 0, 1]
    spread_out = runner.play(WithInterference(make_scheduler("stack"), score, cores=8), 0).machine.tolist()
    assert spread_out == [0, 1, 0]


def test_refuses_scores_without_thresholds_and_no_candidates(score):
    with pytest.raises(InputError, match="no thresholds"):
        WithInterference(make_scheduler("spread"), replace(score, thresholds=None))
    with pytest.raises(InputError, match="candidates is 0"):
        WithInterference(make_scheduler("spread"), score, count=0)
