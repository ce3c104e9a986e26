"""What the runner lets schedulers do, asked by scripted ones."""

import pytest

from tvwrl.metrics import penalties_by_slot, score_episode
from tvwrl.schedulers import Scheduler
from tvwrl.schedulers.runner import MAX_IDLE_SLOTS, Runner, play_on
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Machines, Placement


class Scripted(Scheduler):
    """Places the given (position in what it is shown, machine) pairs, one list per call."""

    name = "scripted"

    def __init__(self, *script):
        self._script = script

    def reset(self, cluster, rng):
        self.calls = []
        self.loads = []

    def schedule(self, cluster, pending):
        script = self._script[len(self.calls)] if len(self.calls) < len(self._script) else []
        self.calls.append([workload.index for workload in pending])
        for position, machine in script:
            yield Placement(pending[position], machine)
            self.loads.append(cluster.load.tolist())


TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))


def test_one_that_places_nothing_is_stopped(make_sequences):
    scheduler = Scripted()
    episode = Runner(make_sequences([(3, [[1, 1]]), (9, [[1, 1]])]), TWO, Scenario()).play(scheduler, 0)
    assert len(scheduler.calls) == MAX_IDLE_SLOTS == 1000
    assert episode.start.tolist() == episode.machine.tolist() == episode.finish.tolist() == [-1, -1]
    row = score_episode(episode, TWO, Scenario().penalty_weights())
    assert row["unplaced"] == 2


def test_every_placement_restarts_the_count_of_idle_slots(make_sequences):
    scheduler = Scripted(*[[]] * 700, [(0, 1)], *[[]] * 700, [(0, 0)])
    episode = Runner(make_sequences([(0, [[1, 1]])] * 3), TWO, Scenario()).play(scheduler, 0)
    assert episode.start.tolist() == [700, 1401, -1]
    assert len(scheduler.calls) == 1402 + 1000


def test_an_episode_is_cut_where_it_is_told_and_the_referee_agrees_on_what_it_cost(make_sequences):
    sequences = make_sequences([(0, [[3, 1]] * 9), (1, [[6, 1]] * 2), (2, [[2, 2]] * 2)])
    scheduler = Scripted([(0, 1)], [], [], [(0, 1)])
    runner = Runner(sequences, TWO, Scenario())
    episode = runner.play(scheduler, 0, most_slots=5)
    assert scheduler.calls == [[0], [1], [1, 2], [1, 2], [2]]
    assert episode.start.tolist() == [0, 3, -1]
    assert score_episode(episode, TWO, Scenario().penalty_weights())["unplaced"] == 1
    simulation = runner.simulation(scheduler)
    simulation.reset(0)
    scheduler.reset(None, None)
    played = play_on(simulation, scheduler, runner.workloads(0), most_slots=5)
    said = penalties_by_slot(episode, TWO, Scenario().penalty_weights())  # the first workload runs until slot 9
    assert len(said) == 9
    assert played.penalties == pytest.approx(said[:5].sum(axis=0))
    assert played.penalties[2] == 2 * 30_000  # both overshoot from slot 3 on
    assert runner.unplayed(scheduler, 0).start.tolist() == [-1, -1, -1]


def test_what_is_placed_is_never_cut(make_sequences):
    scheduler = Scripted([(0, 0)], [], [(0, 0)])
    runner = Runner(make_sequences([(0, [[1, 1]] * 9), (1, [[1, 1]] * 9)]), TWO, Scenario())
    episode = runner.play(scheduler, 0, most_slots=3)
    assert episode.finish.tolist() == [9, 11]
    assert runner.doing(scheduler) == "slot 11, 2 of 2 workloads placed"


def test_placements_count_at_once_and_out_of_order(make_sequences):
    rows = [(0, [[1, 2]] * 2), (0, [[3, 1]] * 2), (0, [[2, 2]] * 2)]
    scheduler = Scripted([(2, 1), (0, 1)], [], [], [(0, 0)])  # asked again in slot 0, as two were placed
    episode = Runner(make_sequences(rows), TWO, Scenario(placements_per_slot=None)).play(scheduler, 0)
    assert scheduler.calls == [[0, 1, 2], [1], [1], [1]]
    assert scheduler.loads == [[[0, 0], [2, 2]], [[0, 0], [3, 4]], [[3, 1], [0, 0]]]
    assert (episode.start.tolist(), episode.machine.tolist()) == ([0, 2, 0], [1, 0, 1])


def test_no_more_is_placed_in_a_slot_than_allowed(make_sequences):
    scheduler = Scripted([(0, 0), (1, 0), (2, 0)], [(0, 1)])
    episode = Runner(make_sequences([(0, [[1, 1]])] * 3), TWO, Scenario(placements_per_slot=2)).play(scheduler, 0)
    assert (episode.start.tolist(), episode.machine.tolist()) == ([0, 0, 1], [0, 0, 1])


def test_only_the_first_of_the_queue_are_shown(make_sequences):
    scheduler = Scripted([], [(1, 0)], [])
    runner = Runner(make_sequences([(0, [[1, 1]])] * 4), TWO, Scenario(queue=2))
    runner.play(scheduler, 0)
    assert scheduler.calls[:3] == [[0, 1], [0, 1], [0, 2]]


def test_refuses_placements_that_cannot_be(make_sequences):
    sequences = make_sequences([(0, [[1, 1]] * 3), (2, [[1, 1]])])
    runner = Runner(sequences, TWO, Scenario(placements_per_slot=None))
    with pytest.raises(InputError, match="scheduler 'scripted' placed workload 'a', which is not waiting"):
        runner.play(Scripted([(0, 0), (0, 1)]), 0)
    for machine in (2, -1):
        with pytest.raises(InputError, match=f"scheduler 'scripted' chose machine {machine}: must be 0 to 1"):
            runner.play(Scripted([(0, machine)]), 0)

    class Early(Scripted):
        def schedule(self, cluster, pending):
            return [Placement(sequences.workload(0, 1), 0)]

    with pytest.raises(InputError, match="scheduler 'scripted' placed workload 'b', which is not waiting"):
        runner.play(Early(), 0)
