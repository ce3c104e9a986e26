"""What goes on after an action: compiled rules and schedulers themselves find the same costs."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.explorer.recorder import record
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.head_of_queue import HeadOfQueue
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.schedulers.planning.continuation import ByRule, ByScheduler
from tvwrl.schedulers.planning.replay import BASES
from tvwrl.schedulers.runner import Runner
from tvwrl.types import Machines

CHOICE = {"choose_from_queue": True, "queue": 3}
KINDS = {
    "plain": {},
    "one overshoot per machine": {"overshoot_per": "machine"},
    "any number of placements": {"placements_per_slot": None},
    "usage seen late": {"usage_delay": 2, "placements_per_slot": 2},
    "a choice from the queue": CHOICE,
}
SMALL = Machines(np.array([[8.0, 6.0], [6.0, 12.0], [16.0, 16.0]]), ("cpu", "mem"))


@pytest.fixture(scope="module")
def short(problem):
    """Sequences of 8 workloads."""
    few = replace(problem.scenario, workloads=8)
    return Problem.build(problem.trace, few, problem.classes, forecaster=problem.forecaster).sequences("train", 3, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", BASES)
def test_a_compiled_rule_finds_what_the_scheduler_itself_finds(problem, short, base, kind):
    runner = Runner(short, SMALL, replace(problem.scenario, **KINDS[kind]), seed=3)
    scheduler = make_scheduler(f"{base}-backfill" if kind == "a choice from the queue" else base)
    compiled = scheduler.continuation(runner, 4)
    assert isinstance(compiled, ByRule)
    ways = compiled, ByScheduler(runner, scheduler)
    recordings = []
    for way in ways:
        scheduler.continuation = lambda runner, actions, way=way: way
        recordings.append(record(runner, scheduler, 2, seconds=1e9))  # all decisions, on every computer
    one, other = recordings
    assert one.repeats
    assert other.repeats
    assert (one.machines == other.machines).all()
    assert one.simulated.all()
    assert one.costs == pytest.approx(other.costs, rel=1e-9, nan_ok=True)


def test_a_rule_that_backfills_is_compiled_only_where_a_policy_could_choose(problem, train):
    plain, choosing = (Runner(train, SMALL, replace(problem.scenario, **more)) for more in ({}, CHOICE))
    for runner, name, compiled in (
        (plain, "spread", True),
        (plain, "spread-backfill", False),
        (choosing, "spread", False),
        (choosing, "spread-backfill", True),
        (plain, "tetris", False),
    ):
        assert isinstance(make_scheduler(name).continuation(runner, 4), ByRule) == compiled, name


class OnlyTheFirst(HeadOfQueue):
    """Places workload 0 on machine 0, and nothing else ever."""

    name, knowledge = "only-the-first", CURRENT_LOAD

    def choose(self, cluster, workload):
        return 0 if workload.index == 0 else None


def test_an_episode_that_is_stopped_costs_what_the_referee_counts(problem, make_sequences):
    two = make_sequences([(0, np.full((3, 2), 2.0)), (1, np.full((3, 2), 4.0))])
    scenario = replace(problem.scenario, machines=2, K_c=0.0)
    recording = record(Runner(two, Machines.homogeneous(2, 8, ("cpu", "mem")), scenario), OnlyTheFirst(), 0)
    # Workload 0 runs in slots 0 to 2, and workload 1 waits from slot 1 on; what comes after slot 2 does not count
    assert recording.slot.tolist() == [0, 1, 2]
    assert recording.chosen.tolist() == [0, -1, -1]
    assert recording.penalties.tolist() == [[0, 2 * 6**3, 0, wait] for wait in (0.0, 50.0, 50.0)]
    assert recording.repeats
    # On the same machine in slot 1: 2 units free in slots 1 and 2, then 4; on the other machine 4 in three slots more
    by_machine = recording.costs[1]
    assert by_machine[0].tolist() == [0, 2 * (2 * 2**3 + 4**3), 0, 0]
    assert by_machine[1].tolist() == [0, 2 * (2 * 6**3 + 3 * 4**3), 0, 0]
    assert by_machine[2].tolist() == [0, 2 * 2 * 6**3, 0, 100]


def test_a_rule_that_was_changed_is_not_replaced_by_the_compiled_one(problem, train):
    runner, usual, bolder = Runner(train, SMALL, problem.scenario), *map(make_scheduler, ["expected-cost"] * 2)
    runner.play(usual, 0)
    assert isinstance(usual.continuation(runner, 4), ByRule)
    bolder.accepted_overshoot = 1e9  # it never waits
    assert not isinstance(bolder.continuation(runner, 4), ByRule)


def test_a_scheduler_goes_on_with_the_workloads_that_it_was_shown(problem, make_sequences):
    rng = np.random.default_rng(3)
    burst = make_sequences([(0, rng.integers(1, 4, (int(rng.integers(3, 9)), 2)).astype(float)) for _ in range(14)])
    scenario = replace(problem.scenario, queue=3, placements_per_slot=None)  # more wait than tetris chooses from
    recording = record(Runner(burst, Machines.homogeneous(3, 8, ("cpu", "mem")), scenario), make_scheduler("tetris"), 0)
    assert (recording.waiting > 3).any()
    assert recording.repeats  # at every decision
