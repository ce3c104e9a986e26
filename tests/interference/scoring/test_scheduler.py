"""Every scheduler of the simulator with PISM keeps what a scheduler promises."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.benchmark.study import BenchmarkStudy
from tvwrl.experiments import read_cell_rows
from tvwrl.experiments.engine import complete
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.scheduler import WithInterference
from tvwrl.interference.score import InterferenceScore
from tvwrl.schedulers import KNOWLEDGE, SCHEDULERS, make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Machines


@pytest.fixture(scope="module")
def score(slowed):
    """Thresholds such that, of machines of 8 units, 1 unit of memory is category 3 and 2 or 3 units are 7, of which the
    rule of `slowed` says that the first disturbs nobody and the other does."""
    return InterferenceScore.fit(
        slowed, thresholds=Thresholds((97.5, 117.0), (15.0, 40.0, 98.0, 99.0), (10.0, 100.0, 1000.0))
    )


@pytest.mark.parametrize("name", SCHEDULERS)
def test_places_everything_and_repeats_itself(problem, train, score, name):
    machines = Machines.homogeneous(3, 8, ("cpu", "mem"))
    for limit in (1, None):
        runner = Runner(train, machines, replace(problem.scenario, placements_per_slot=limit), seed=3)
        scheduler = WithInterference(make_scheduler(name), score)
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
    rows = [[1.0, 3.0]] * 4
    sequences = make_sequences([(0, rows), (0, rows), (1, rows)])
    machines = Machines.homogeneous(2, 8, ("cpu", "mem"))
    scenario = Scenario(machines=2, workloads=3, placements_per_slot=None)
    runner = Runner(sequences, machines, scenario, seed=0)
    assert runner.play(make_scheduler("stack"), 0).machine.tolist() == [0, 0, 1]
    spread_out = runner.play(WithInterference(make_scheduler("stack"), score), 0).machine.tolist()
    assert spread_out == [0, 1, 0]


def test_refuses_scores_without_thresholds_and_no_candidates(score):
    with pytest.raises(InputError, match="no category thresholds"):
        WithInterference(make_scheduler("spread"), replace(score, thresholds=None))
    with pytest.raises(InputError, match="candidates is 0"):
        WithInterference(make_scheduler("spread"), score, count=0)


@pytest.mark.parametrize("name", ["spread", "stack", "stack-80", "random", "risk-balancing"])
def test_of_the_candidates_the_one_with_the_lowest_score_is_taken(problem, train, trace_score, name, monkeypatch):
    """Over whole episodes the machines chosen score lower, after the workload has come, than the scheduler's own."""
    own, chosen, choose = [], [], trace_score.choose

    def watched(machines, now, category, candidates):
        machine = choose(machines, now, category, candidates)
        levels = trace_score.mean_level(machines, category, candidates)
        own.append(levels[0])
        chosen.append(levels[candidates == machine][0])
        assert chosen[-1] <= levels.min() + 1e-6
        return machine

    monkeypatch.setattr(trace_score, "choose", watched)
    runner = Runner(train, problem.machines, replace(problem.scenario, placements_per_slot=None), seed=3)
    for sequence in range(4):
        runner.play(WithInterference(make_scheduler(name), trace_score), sequence)
    assert np.mean(chosen) < np.mean(own) - 0.1


def test_it_knows_no_future(problem, train, trace_score):
    """All that lies after a slot is changed; decisions up to then are the same."""
    runner = Runner(train, problem.machines, problem.scenario, seed=3)
    episode = runner.play(WithInterference(make_scheduler("spread"), trace_score), 0)
    now = int(np.median(episode.start))
    demand = train.demand.copy()
    for i, start in enumerate(episode.start):
        unseen = max(now - start + 1, 1)
        demand[0, i, unseen : train.length[0, i]] = 6.0
    other = Runner(replace(train, demand=demand), problem.machines, problem.scenario, seed=3)
    again = other.play(WithInterference(make_scheduler("spread"), trace_score), 0)
    early = episode.start <= now
    assert np.array_equal(again.machine[early], episode.machine[early])
    assert not np.array_equal(again.machine, episode.machine)


def test_thresholds_of_another_trace_cause_a_warning(problem, train, score):
    other = replace(score, thresholds=Thresholds((1e4, 2e4), (1e4, 2e4, 3e4, 4e4), (1e6, 2e6, 3e6)))
    with pytest.warns(UserWarning, match="all workloads start in one category"):
        Runner(train, problem.machines, problem.scenario).play(WithInterference(make_scheduler("spread"), other), 0)


def test_candidates_are_half_of_the_machines_at_most(problem, train, trace_score):
    """Of four machines two: stack's third and fourth choice are never taken, whatever they score."""
    runner = Runner(train, problem.machines, problem.scenario, seed=3)
    default, two, four = (
        runner.play(WithInterference(make_scheduler("stack"), trace_score, count), 1).machine for count in (None, 2, 4)
    )
    assert np.array_equal(default, two)
    assert not np.array_equal(default, four)


def test_a_benchmark_task_takes_the_score_of_its_trace(score, tmp_path):
    """{trace} in a file stands for the task's trace, and tasks without that file are skipped."""
    task, named = "google-0.5-v1", f"spread+pism={tmp_path}/{{trace}}.npz"
    study = BenchmarkStudy((task,), ("spread", named), sequences=1)
    with pytest.raises(InputError, match=r"google\.npz: no such file"):
        study.cells("benchmark")
    score.save(tmp_path / "google.npz")
    plain, with_score = study.cells("benchmark")
    assert complete(tmp_path / "out", [plain, with_score]) == {}
    alone, with_pism = (read_cell_rows(tmp_path / "out", [cell])[0] for cell in (plain, with_score))
    assert (alone["scheduler"], with_pism["scheduler"]) == ("spread", "spread+pism")
    assert alone["reward"] != with_pism["reward"]
    score.save(tmp_path / "other-google.npz")
    other = f"spread+pism={tmp_path}/other-{{trace}}.npz"
    with pytest.raises(InputError, match=r"schedulers is .*spread.pism"):
        replace(study, schedulers=(named, other)).cells("benchmark")
