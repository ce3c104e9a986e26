"""What is watched in somebody's scheduler: its time, by a clock that the tests turn, exits, and errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.benchmark import entries as guard
from tvwrl.benchmark import study
from tvwrl.benchmark.entries import TERMINATED, Guarded, Setting, entry_of
from tvwrl.benchmark.tasks import problem_of
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.head_of_queue import HeadOfQueue
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Placement


class Clock:
    """Seconds that pass only when somebody works."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def work(self, milliseconds):
        self.now += milliseconds / 1000


@pytest.fixture
def clock(monkeypatch):
    """The guard's."""
    made = Clock()
    monkeypatch.setattr(guard, "time", made)
    return made


def here(given, task):
    """Play an entry on one sequence in this process."""
    entry = entry_of("mine", given, replace(Setting.of_task(task), apart=False))
    return study.played(entry, task, "test", 1)


class Timed(Scheduler):
    """Takes `milliseconds` of the clock before each placement of a call, the last of them after these."""

    name, knowledge = "timed", CURRENT_LOAD

    def __init__(self, clock):
        self.clock, self.milliseconds = clock, ()

    def schedule(self, cluster, pending):
        *before, after = self.milliseconds
        for each in before:
            self.clock.work(each)
            yield Placement(pending[0], 0)
        self.clock.work(after)


def decided(clock, task, limit, *calls):
    """Call a guarded scheduler with `milliseconds` as of `Timed`, while one workload waits."""
    problem = problem_of(task)
    drawn = problem.sequences("test", 1, 0)
    simulation = Simulation(drawn, problem.machines, problem.scenario)
    simulation.reset(0)
    while not len(simulation.waiting()):
        simulation.next_slot()
    workload = drawn.workload(0, int(simulation.waiting()[0]))
    timed = Timed(clock)
    guarded = Guarded("mine", timed, limit)
    for timed.milliseconds in calls:
        list(guarded.schedule(Cluster(simulation), [workload]))


FREE = [(0.0,)] * guard.FIRST


def test_that_nothing_follows_a_placement_is_no_decision(clock, small):
    """By hand: 10 ms a placement, and nothing more in the call, is 10 ms a decision and not 5."""
    calls = [(10.0, 0.0)] * 30
    decided(clock, small, 10.5, *FREE, *calls)
    with pytest.raises(InputError, match=r"slot \d+: a decision took 10 ms on average of 17, the task allows 8\.1 ms"):
        decided(clock, small, 8.1, *FREE, *calls)  # the 20 decisions that share 162 ms, which are over in the 17th


def test_waiting_is_a_decision_and_work_after_the_last_placement_counts(clock, small):
    with pytest.raises(InputError, match="a decision took 10 ms on average of 17"):
        decided(clock, small, 8.1, *FREE, *[(10.0,)] * 30)
    with pytest.raises(InputError, match="a decision took 5 ms on average of 20"):
        decided(clock, small, 4.9, *FREE, *[(0.0, 10.0)] * 30)


def test_a_few_decisions_may_not_take_all_day(clock, small):
    """The time of twenty, 20 s, is over in the first that is judged."""
    with pytest.raises(InputError, match=r"a decision took 59,000 ms on average of 1, the task allows 1,000 ms"):
        decided(clock, small, 1000.0, *FREE, (59_000.0,))
    decided(clock, small, 1000.0, *FREE, (19_000.0,), *[(0.0,)] * 30)


def test_who_takes_too_long_is_stopped(small, clock):
    class Slow(HeadOfQueue):
        name, knowledge = "slow", CURRENT_LOAD

        def choose(self, cluster, workload):
            clock.work(10.0)
            return 0

    here(Slow(), replace(small, milliseconds=12.0))
    with pytest.raises(InputError, match=r"10 ms on average of 17, the task allows 8\.1 ms"):
        here(Slow(), replace(small, milliseconds=8.1))


def test_a_scheduler_may_not_end_the_program_but_a_signal_may(small):
    def leaves(observation, mask):
        raise SystemExit(3)

    def is_told_to(observation, mask):
        raise SystemExit(TERMINATED)

    with pytest.raises(InputError, match=r"'mine', sequence 0, slot \d+: SystemExit: 3"):
        here(leaves, small)
    with pytest.raises(SystemExit):
        here(is_told_to, small)


def test_an_error_names_sequence_and_slot_and_is_the_cause(small):
    def fails(observation, mask):
        raise KeyError("no such thing")

    with pytest.raises(InputError, match=r"'mine', sequence 0, slot \d+: KeyError: 'no such thing'") as caught:
        here(fails, small)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_machine_that_does_not_exist(small):
    class Far(HeadOfQueue):
        name, knowledge = "far", CURRENT_LOAD

        def choose(self, cluster, workload):
            return np.int64(99)

    with pytest.raises(InputError, match=r"sequence 0, slot \d+: scheduler 'mine' chose machine 99: must be 0 to 3"):
        here(Far(), small)


@pytest.mark.parametrize(("choice", "shown"), [(1.5, r"1\.5"), ("x", "'x'"), (True, "True")])
def test_a_machine_that_is_no_number(small, choice, shown):
    class Odd(HeadOfQueue):
        name, knowledge = "odd", CURRENT_LOAD

        def choose(self, cluster, workload):
            return choice

    message = (
        rf"'mine', sequence 0, slot \d+: chose machine {shown}: must be a whole number from 0 to 3, or None to wait"
    )
    with pytest.raises(InputError, match=message):
        here(Odd(), small)
