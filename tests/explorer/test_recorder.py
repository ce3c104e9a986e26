"""Recordings: which alternatives are compared, what schedulers think of them, and what is left out of long episodes."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.explorer.recorder import ALL, MOST, SECONDS, record
from tvwrl.explorer.recording import NONE, WAIT, machine_loads, read_recording, write_recording
from tvwrl.penalties import TERMS
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError, Machines, Placement


@pytest.fixture(scope="module")
def runner(problem, train):
    return Runner(train, problem.machines, problem.scenario, seed=3)


def test_on_few_machines_every_one_is_an_alternative_and_so_is_waiting(runner):
    recording = record(runner, make_scheduler("spread"), 0)
    assert (recording.machines == [0, 1, 2, 3, WAIT]).all()
    assert recording.simulated.all()
    assert (recording.regret >= 0).all()
    assert (recording.slot[1:] >= recording.slot[:-1]).all()
    placed = recording.chosen >= 0
    assert (recording.episode.machine[recording.workload[placed]] == recording.chosen[placed]).all()
    assert (recording.episode.start[recording.workload[placed]] == recording.slot[placed]).all()


def test_of_many_machines_the_best_by_score_are_alternatives(problem, train):
    many = Machines.homogeneous(ALL + 30, 8, problem.machines.resources)
    runner = Runner(train, many, replace(problem.scenario, machines=len(many)))
    for name in ("best-fit-peak", "expected-cost", "random"):
        recording = record(runner, make_scheduler(name), 0)
        assert recording.machines.shape[1] == MOST + 2
        rows = np.arange(len(recording))
        assert (recording.machines[rows, recording.own] == recording.chosen).all()
        assert (recording.machines[:, -1] == WAIT).all()
        assert (np.diff(recording.machines[:, :-1], axis=1) > 0).all()
        thought = recording.scores[rows, recording.own]
        if name == "best-fit-peak":  # what it chose is what it thought best of all that are possible
            best = np.where(recording.possible, recording.scores, -np.inf)[:, :-1].max(axis=1)
            assert (thought == best).all()
        if name == "expected-cost":
            assert (thought == np.where(recording.possible, recording.scores, np.inf)[:, :-1].min(axis=1)).all()


def test_machines_that_are_switched_off_are_no_alternatives(problem, train):
    some = Machines(np.array([[8.0, 8.0], [0.0, 0.0], [8.0, 8.0]]), problem.machines.resources)
    recording = record(Runner(train, some, problem.scenario), make_scheduler("best-fit"), 0)
    assert (recording.machines == [0, 2, WAIT, NONE]).all()
    assert np.isnan(recording.costs[:, 3]).all()
    assert not recording.possible[:, 3].any()


@pytest.mark.parametrize(
    ("name", "meaning"),
    [("tetris", "score"), ("expected-cost", "expected cost"), ("random", ""), ("kube-default", "score")],
)
def test_a_scheduler_says_what_its_numbers_mean(runner, name, meaning):
    recording = record(runner, make_scheduler(name), 0, what_if=False)
    assert recording.meaning == meaning
    assert np.isfinite(recording.scores).any() == bool(meaning)
    assert recording.possible[:, -1].all()  # waiting always is


def test_without_what_if_no_cost_is_known(runner):
    recording = record(runner, make_scheduler("spread"), 0, what_if=False)
    assert np.isnan(recording.costs).all()
    assert not recording.simulated.any()
    assert recording.best.tolist() == recording.own.tolist()


def test_long_episodes_leave_out_waiting_once_more_before_they_leave_out_placements(runner):
    whole = record(runner, make_scheduler("least-allocated"), 0)
    waits = whole.chosen == WAIT
    again = waits & np.r_[False, waits[:-1]] & (whole.workload == np.r_[-1, whole.workload[:-1]])
    assert again.any()
    rule, decisions = make_scheduler("least-allocated"), len(whole) * len(whole) / 2 * 5
    second = rule.continuation(runner, 5).decisions / SECONDS
    some = record(runner, rule, 0, seconds=decisions * 3 / 4 / second)
    assert (some.simulated == ~again).all()
    assert some.totals[~again] == pytest.approx(whole.totals[~again])
    fewer = record(runner, rule, 0, seconds=200 / second)
    assert 0 < fewer.simulated.sum() < (~again).sum()


@pytest.mark.parametrize("late", [{}, {"move_slots": 2, "move_overlap": 1}])
def test_moves_go_on_after_alternatives_and_count_as_time(problem, train, late):
    runner = Runner(train, problem.machines, replace(problem.scenario, moves_per_slot=2, **late), seed=3)
    rule = make_scheduler("spread + karpenter")
    whole = record(runner, rule, 0)
    assert whole.repeats  # moves on their way are copied with the cluster
    price = TERMS.index("moves")
    assert len(whole.episode.moves.workload) > 0
    assert len(np.unique(whole.costs[..., price][np.isfinite(whole.costs[..., price])])) > 1
    second = rule.continuation(runner, 5).decisions / SECONDS
    slots = int(whole.episode.finish.max())
    some = record(runner, rule, 0, seconds=5 * 4 * (len(whole) + 2 * slots) / 2 / second)
    assert 0 < some.simulated.sum() <= 4


class Moody(Scheduler):
    """Never decides the same way twice, although it says nothing of it."""

    name, knowledge = "moody", CURRENT_LOAD
    draws = np.random.default_rng(1)

    def schedule(self, cluster, pending):
        yield Placement(pending[0], int(Moody.draws.integers(len(cluster.machines))))


def test_a_scheduler_that_does_not_repeat_itself_is_found_out(runner):
    recording = record(runner, Moody(), 0)
    assert not recording.repeats
    assert recording.totals[0, recording.own[0]] == pytest.approx(recording.penalties.sum())


def test_a_recording_comes_back_from_its_file(runner, train, tmp_path):
    recording = record(runner, make_scheduler("tetris"), 1)
    write_recording(tmp_path / "one.npz", recording, "for no reason")
    placed = recording.episode.machine, recording.episode.start
    again, why = read_recording(tmp_path / "one.npz", train, 1, "tetris", *placed)
    assert why == "for no reason"
    assert (again.meaning, again.continued_by, again.repeats) == ("score", "tetris", True)
    for name in ("slot", "machines", "costs", "scores", "possible", "penalties"):
        assert np.array_equal(getattr(again, name), getattr(recording, name), equal_nan=True)
    assert (again.episode.finish == recording.episode.finish).all()
    assert again.regret.tolist() == recording.regret.tolist()


def test_any_time_is_enough_for_one_decision_but_none_is_refused(runner):
    recording = record(runner, make_scheduler("tetris"), 0, seconds=1e-9)
    assert recording.simulated.sum() == 1
    with pytest.raises(InputError, match="seconds is 0: must be"):
        record(runner, make_scheduler("tetris"), 0, seconds=0)


def test_decisions_whose_machine_overshoots_are_simulated_first(problem, train):
    runner = Runner(train, problem.machines, replace(problem.scenario, load=2.0), seed=3)
    whole = record(runner, make_scheduler("spread"), 0)
    second = make_scheduler("spread").continuation(runner, 5).decisions / SECONDS
    some = record(runner, make_scheduler("spread"), 0, seconds=3 * 5 * len(whole) / 2 / second)
    assert 0 < some.simulated.sum() <= 3
    loads = machine_loads(whole.episode, problem.machines, int(whole.episode.finish.max()))
    over = (loads > problem.machines.capacity).any(axis=2)
    lives = zip(whole.episode.machine, whole.episode.start, whole.episode.finish, strict=True)
    hit = np.array([over[start:end, machine].any() for machine, start, end in lives])
    assert hit.sum() >= some.simulated.sum()
    assert hit[some.workload[some.simulated]].all()
