"""Moves: by hand, the simulation against the referee on random moves, and what must not move."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.metrics import MOVE_MEASURES, penalties, score_episode
from tvwrl.penalties import TERMS, PenaltyWeights
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner, play_on
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Machines, Move, MoveRules

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))
# Two workloads that arrive in slot 0. Both start on machine 0; b is told to go to machine 1 in slot 0.
#   slot       0       1       2       3
#   a, m0    (3,2)   (5,2)   (2,1)   (2,1)
#   b        (2,4)   (4,2)   (1,1)
PAIR = [(0, [[3, 2], [5, 2], [2, 1], [2, 1]]), (0, [[2, 4], [4, 2], [1, 1]])]


def begin(sequences, machines=TWO, **changes):
    """A simulation in slot 0 in which both workloads were placed on machine 0."""
    scenario = Scenario(**{"moves_per_slot": 1, "placements_per_slot": None, "history": 4, **changes})
    simulation = Simulation(sequences, machines, scenario)
    simulation.reset(0)
    simulation.place(0, 0)
    simulation.place(0, 0)
    return simulation


def played_to_the_end(simulation):
    """(5,) penalties of all slots."""
    total = np.zeros(len(TERMS))
    while not simulation.is_over():
        simulation.next_slot()
        total += simulation.state.totals[0, : len(TERMS)]
    return total


def loads(simulation, slots):
    """(slots, M, D) load of each slot from now on, seen as the slots pass."""
    seen = []
    for _ in range(slots):
        seen.append(Cluster(simulation).load.tolist())
        simulation.next_slot()
    return seen


def test_a_move_takes_effect_in_the_next_slot(make_sequences):
    simulation = begin(make_sequences(PAIR))
    simulation.move(1, 1)
    assert Cluster(simulation).load_after_moves.tolist() == [[3, 2], [2, 4]]
    assert loads(simulation, 4) == [
        [[5, 6], [0, 0]],
        [[5, 2], [4, 2]],
        [[2, 1], [1, 1]],
        [[2, 1], [0, 0]],
    ]


def test_both_machines_are_booked_in_the_overlap(make_sequences):
    simulation = begin(make_sequences(PAIR), move_overlap=1)
    simulation.move(1, 1)
    assert loads(simulation, 4) == [
        [[5, 6], [0, 0]],
        [[9, 4], [4, 2]],  # on both, and an overshoot that the move made
        [[2, 1], [1, 1]],
        [[2, 1], [0, 0]],
    ]


def test_penalties_by_hand(make_sequences):
    """K_u = 1. Slot 0: machine 0 has (5, 6), 3 + 2 unused, 3*2 + 2*4 of contention, one move. Slot 1: (5, 2) and (4, 2)
    leave 9 + 10; slot 2: 13 + 14; slot 3: 13. Nothing waits but in no slot, as both were placed at once."""
    simulation = begin(make_sequences(PAIR), K_u=1.0, K_c=1.0, K_m=300.0)
    simulation.move(1, 1)
    expected = [3 * 2 + 2 * 4, 5 + 19 + 27 + 13, 0, 0, 300]
    assert played_to_the_end(simulation).tolist() == expected
    weights = PenaltyWeights(1.0, 1.0, K_m=300.0)
    assert list(penalties(simulation.record(), TWO, weights).values()) == expected


def test_a_workload_that_ends_before_it_moves_is_paid_for(make_sequences):
    simulation = begin(make_sequences([PAIR[0], (0, [[2, 4]])]), K_m=70.0)
    simulation.move(1, 1)
    total = played_to_the_end(simulation)
    record = simulation.record()
    assert total[TERMS.index("moves")] == penalties(record, TWO, PenaltyWeights(K_m=70.0))["moves"] == 70
    assert record.stays().machine.tolist() == [0, 0]
    assert record.moves.slot.tolist() == [1]


def test_stays_of_a_workload_that_moves_twice(make_sequences):
    simulation = begin(make_sequences(PAIR))
    for machine in (1, 0):
        simulation.move(0, machine)
        simulation.next_slot()
    stays = simulation.record().stays()
    whole = zip(*(part.tolist() for part in stays), strict=True)
    assert list(whole) == [(0, 0, 0, 1), (0, 1, 1, 2), (0, 0, 2, 4), (1, 0, 0, 3)]
    row = score_episode(simulation.record(), TWO, PenaltyWeights(), slot_seconds=21600)  # 4 slots make a day
    assert {name: row[name] for name in MOVE_MEASURES} == {
        "moves": 2, "moves_per_day": 2.0, "moves_per_workload": 1.0, "moves_back": 1, "moved_often": 0.0,
        "move_price": 2000.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "move", "reason"),
    [
        ({"moves_per_slot": 0}, (1, 1), "moves_per_slot is 0"),
        ({}, (1, 2), "machines are 0 to 1"),
        ({}, (1, -1), "machines are 0 to 1"),
        ({}, (5, 1), "workloads are 0 to 1"),
        ({}, (-1, 1), "workloads are 0 to 1"),
        ({}, (1, 0), "it is there"),
        ({"immovable": 1.0}, (1, 1), "never move"),
        ({"usage_delay": 1}, (1, 1), "none of its usage has been measured"),
    ],
)
def test_what_is_refused(make_sequences, changes, move, reason):
    simulation = begin(make_sequences(PAIR), **changes)
    with pytest.raises(InputError, match=reason):
        simulation.move(*move)


def test_machines_that_are_off_and_workloads_that_wait_or_ended_are_refused(make_sequences):
    off = Machines(np.array([[8.0, 8.0], [0.0, 0.0]]), ("cpu", "mem"))
    with pytest.raises(InputError, match="switched off"):
        begin(make_sequences(PAIR), off).move(1, 1)
    simulation = Simulation(make_sequences(PAIR), TWO, Scenario(moves_per_slot=1))
    simulation.reset(0)
    with pytest.raises(InputError, match="has not begun"):
        simulation.move(1, 1)
    simulation = begin(make_sequences([PAIR[0], (0, [[2, 4]])]))
    simulation.next_slot()
    with pytest.raises(InputError, match="has finished"):
        simulation.move(1, 1)


def test_a_workload_moves_once_at_a_time_and_rests(make_sequences):
    simulation = begin(make_sequences(PAIR), moves_per_slot=5, move_slots=2, move_rest=1)
    simulation.move(0, 1)
    with pytest.raises(InputError, match="on its way to machine 1"):
        simulation.move(0, 0)
    simulation.next_slot()
    with pytest.raises(InputError, match="on its way to machine 1"):
        simulation.move(0, 0)
    simulation.next_slot()
    with pytest.raises(InputError, match="it came in slot 2 and stays until slot 3"):
        simulation.move(0, 0)
    simulation.next_slot()
    simulation.move(0, 0)


def test_no_more_than_the_limit_of_a_slot(make_sequences):
    simulation = begin(make_sequences(PAIR), moves_per_slot=1)
    simulation.move(0, 1)
    with pytest.raises(InputError, match="as many as moves_per_slot allows"):
        simulation.move(1, 1)


class Wanderer:
    """Places as another scheduler does, and moves at random to machines with room."""

    name = "wanderer"

    def __init__(self, placing, rate, seed):
        self.placing, self.rate, self.rng = placing, rate, np.random.default_rng(seed)

    def schedule(self, cluster, pending):
        return self.placing.schedule(cluster, pending)

    def moves(self, cluster):
        while cluster.moves_left and self.rng.random() < self.rate:
            running = cluster.running
            movable = np.flatnonzero(running.movable)
            if not len(movable):
                return
            i = self.rng.choice(movable)
            after = cluster.load_after_moves + running.usage[i]
            room = (after <= cluster.capacity).all(axis=1) & cluster.capacity.any(axis=1)
            room[running.machine[i]] = False
            if not room.any():
                return
            yield Move(int(running.workload[i]), int(self.rng.choice(np.flatnonzero(room))))


@pytest.fixture(scope="module")
def wandered(google):
    """(scenario, problem, simulation at the end, summed penalties) of random moves under a scenario's changes."""
    problems = {}

    def play(seed=0, **changes):
        scenario = Scenario(**{"moves_per_slot": 3, "load": 0.8, "machines": 5, "workloads": 30, **changes})
        problem = problems.setdefault(scenario, Problem.build(google, scenario))
        runner = Runner(problem.sequences("test", 2, 0), problem.machines, problem.scenario)
        spread = make_scheduler("spread")
        simulation = runner.simulation(spread)
        simulation.reset(seed % 2)
        wanderer = Wanderer(spread, 0.7, seed)
        return problem, simulation, play_on(simulation, wanderer, runner.workloads(seed % 2)).penalties

    return play


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"move_slots": 3},
        {"move_overlap": 2},
        {"move_slots": 2, "move_overlap": 3, "move_rest": 4, "usage_delay": 2},
        {"background": 2, "usage_delay": 1, "immovable": 0.3},
        {"overshoot_per": "machine", "move_overlap": 1, "machine_types": ("3x8,8", "2x6,6", "1x0,0")},
        {"quantise": False},
    ],
)
def test_simulation_and_referee_agree_on_random_moves(wandered, changes):
    for seed in range(2):
        problem, simulation, totals = wandered(seed, **changes)
        episode, weights = simulation.record(), problem.scenario.penalty_weights()
        assert len(episode.moves) > 20
        found = penalties(episode, problem.machines, weights, problem.scenario.overshoot_per)
        assert list(found.values()) == pytest.approx(totals.tolist(), rel=1e-12)
        row = problem.score(episode)
        assert row["move_price"] == 1000.0 * row["moves"] == found["moves"]
        assert row["reward"] == pytest.approx(-totals.sum())


def test_the_state_can_be_copied_in_the_middle(wandered):
    problem, _, _ = wandered()
    drawn = problem.sequences("test", 2, 0)
    runner = Runner(drawn, problem.machines, problem.scenario)
    first, second = (runner.simulation(make_scheduler("spread")) for _ in range(2))
    first.reset(0)
    while not first.record().start.any() or len(first.record().moves) < 40:
        wanderer = Wanderer(make_scheduler("spread"), 1.0, int(first.state.counters[0, 1]))
        for placement in wanderer.schedule(Cluster(first), [drawn.workload(0, int(w)) for w in first.waiting()[:1]]):
            first.place(0, placement.machine)
        for workload, machine in wanderer.moves(Cluster(first)):
            first.move(workload, machine)
        first.next_slot()
    here = np.zeros(1, np.int64)
    second.copy(first, here, here)
    ends = []
    for simulation in (first, second):
        wanderer = Wanderer(make_scheduler("spread"), 0.5, 7)
        ends.append(play_on(simulation, wanderer, runner.workloads(0)).penalties.tolist())
    assert ends[0] == ends[1]
    assert np.array_equal(first.record().moves.target, second.record().moves.target)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("workload", 99, "workload is 99"),
        ("target", 99, "to is 99"),
        ("target", "source", "from and to are"),
        ("source", 99, "from is 99: but it is on machine"),
        ("slot", 100_000, "must be while it runs"),
        ("slot", 0, "must be while it runs|must not be before"),
    ],
)
def test_records_that_contradict_themselves_are_refused(wandered, field, value, problem):
    played, simulation, _ = wandered()
    episode = simulation.record()
    moves = episode.moves
    wrong = getattr(moves, field).copy()
    wrong[5] = moves.source[5] if value == "source" else value
    with pytest.raises(InputError, match=problem):
        played.score(replace(episode, moves=replace(moves, **{field: wrong})))


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (MoveRules(1), "must be at most 1"),
        (MoveRules(3, rest=30), "lets it go from slot"),
        (MoveRules(3, overlap=30), "lets it go from slot"),
        (MoveRules(3, immovable=1.0), "never move"),
        (MoveRules(3, slots=50), "must be while it runs"),
    ],
)
def test_moves_against_the_rules_are_refused(wandered, rules, problem):
    played, simulation, _ = wandered()
    episode = simulation.record()
    with pytest.raises(InputError, match=problem):
        played.score(replace(episode, moves=replace(episode.moves, rules=rules)))


def test_without_moves_nothing_changes(google):
    scenario = Scenario(machines=5, workloads=30)
    problem = Problem.build(google, scenario)
    still, may_move = ({}, {"moves_per_slot": 2})
    rows = []
    for changes in (still, may_move):
        other = replace(problem, scenario=replace(scenario, **changes))
        runner = Runner(problem.sequences("test", 1, 0), problem.machines, other.scenario)
        rows.append(other.score(runner.play(make_scheduler("best-fit"), 0)))
    assert all(rows[1][name] == value for name, value in rows[0].items() if name != "decision_ms")
    assert rows[1]["moves"] == 0
    assert "moves" not in rows[0]


def test_a_state_that_is_set_from_outside_moves_nothing(make_sequences):
    simulation = Simulation(make_sequences(PAIR), TWO, Scenario(moves_per_slot=1))
    simulation.restore(1, np.array([0, 1]), np.array([0, 0]), np.empty(0, np.int64))
    running = Cluster(simulation).running
    assert running.machine.tolist() == [0, 1]
    assert running.movable.all()
    simulation.next_slot()
    assert Cluster(simulation).active.tolist() == [1, 1]
    simulation.move(0, 1)
    simulation.next_slot()
    assert Cluster(simulation).active.tolist() == [0, 1]
