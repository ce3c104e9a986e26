"""Rollout of moves: what a set of moves costs, by hand and against the referee, and which sets are compared."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.metrics import penalties_by_slot
from tvwrl.schedulers import Moving, Runner, make_scheduler
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.schedulers.moving.base import MoveRule, make_move_rule
from tvwrl.schedulers.moving.machine_costs import (
    costs_of,
    present,
)
from tvwrl.schedulers.planning.move_replay import MoveReplay
from tvwrl.schedulers.planning.rollout_moves import candidates
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Machines, Move


@pytest.fixture(scope="module")
def moving(google):
    scenario = Scenario(moves_per_slot=2, machines=6, workloads=40, load=0.6, K_m=100)
    return Problem.build(google, scenario).with_forecasts()


def busy(problem, slot, placing="spread", seed=3):
    """A simulation in which a rule has placed all that it can in the slots up to `slot`, and its runner."""
    runner = Runner(problem.sequences("test", 1, seed), problem.machines, problem.scenario)
    simulation, rule = runner.simulation(make_scheduler("expected-cost")), make_scheduler(placing)
    simulation.reset(0)
    workloads, cluster = runner.workloads(0), Cluster(simulation)
    while True:
        for placement in rule.schedule(cluster, [workloads[int(w)] for w in simulation.waiting()[:1]]):
            simulation.place(0, placement.machine)
        if cluster.slot >= slot:
            return runner, simulation
        simulation.next_slot()


class Once(MoveRule):
    """Makes given moves, two in a slot, from some slot on."""

    name, knowledge = "once", CURRENT_LOAD

    def __init__(self, slot, moves):
        self.slot, self.planned = slot, moves

    def moves(self, cluster):
        if self.slot <= cluster.slot:
            now = [move for i, move in enumerate(self.planned) if i // 2 == cluster.slot - self.slot]
            running = set(cluster.running.workload.tolist())
            yield from (Move(*move) for move in now if move[0] in running)


@pytest.mark.parametrize(
    "options", [{}, {"move_slots": 2}, {"overshoot_per": "machine"}, {"placements_per_slot": None}]
)
def test_sets_cost_what_the_referee_says(moving, options):
    """Played on in the recorded future with best-fit, each set costs what the record of the same moves does."""
    scenario, horizon, now = replace(moving.scenario, **options), 30, 12
    problem = replace(moving, scenario=scenario)
    runner, simulation = busy(problem, now, "best-fit")
    now = Cluster(simulation).slot
    running = Cluster(simulation).running
    machines, load = problem.machines, Cluster(simulation).load
    rng = np.random.default_rng(0)
    sets = [[]]
    for size in (1, 2, 3):
        who = rng.permutation(len(running.workload))[:size]
        emptiest = np.argsort(load.sum(axis=1))
        sets.append([(int(w), int(next(m for m in emptiest if m != running.machine[w]))) for w in who])
    plans = np.full((len(sets), 3, 2), -1)
    for row, moves in zip(plans, sets, strict=True):
        row[: len(moves)] = np.array([(running.workload[i], m) for i, m in moves]).reshape(-1, 2)
    replay = MoveReplay(simulation, "best-fit", horizon, len(sets))
    costs = replay.move_costs(1, plans, 2, np.ones(len(sets), np.bool_))[0]
    for moves, plan, cost in zip(sets, plans, costs, strict=True):
        once = Once(now, [tuple(map(int, move)) for move in plan[: len(moves)]])
        record = runner.play(Moving(make_scheduler("best-fit"), once), 0)
        until = penalties_by_slot(record, machines, scenario.penalty_weights(), scenario.overshoot_per)
        assert cost == pytest.approx(until[now : now + horizon, :4].sum(), rel=1e-9)
    assert len(set(np.round(costs, 6))) > 1


def test_a_machine_that_two_share_is_cheaper_by_hand(make_sequences):
    """4 and 4 units of 8, one machine each: 64 unused a slot each; together 1.6 of contention from the next slot on."""
    sequences = make_sequences([(0, [[4]] * 6), (0, [[4]] * 6)], resources=("cpu",))
    machines = Machines.homogeneous(2, 8, ("cpu",))
    for overlap, of_both in ((0, 0), (2, 2)):
        scenario = Scenario(machines=2, placements_per_slot=None, moves_per_slot=1, move_overlap=overlap)
        simulation = Runner(sequences, machines, scenario).simulation(make_scheduler("spread"))
        simulation.reset(0)
        for machine in (0, 1):
            simulation.place(0, machine)
        plans = np.array([[[-1, -1]], [[1, 0]], [[0, 1]]])
        costs = MoveReplay(simulation, "spread", 5, 3).move_costs(1, plans, 1, np.ones(3, np.bool_))[0]
        alone, together, booked = 2 * 64.0, 1.6, 64.0
        moved = alone + 4 * together + of_both * booked
        assert costs.tolist() == pytest.approx([5 * alone, moved, moved])


def test_what_is_compared(moving):
    simulation = busy(moving, 14)[1]
    cluster = Cluster(simulation)
    running = cluster.running
    plans = candidates(present(cluster, running), costs_of(cluster), 100.0, 2, 4)
    assert len(plans) > 4
    assert (plans[0] == -1).all()
    assert len({plan.tobytes() for plan in plans}) == len(plans)
    for plan in plans[1:]:
        who = plan[plan[:, 0] >= 0]
        assert len(who)
        assert len(set(who[:, 0].tolist())) == len(who)
        assert (running.machine[who[:, 0]] != who[:, 1]).all()
        assert running.movable[who[:, 0]].all()
    assert len(candidates(present(cluster, running), costs_of(cluster), 1e12, 2, 4)) == 1


def test_it_saves_where_moves_are_cheap(moving):
    runner = Runner(moving.sequences("test", 3, 3), moving.machines, moving.scenario)

    def reward(name):
        return np.mean([moving.score(runner.play(make_scheduler(name), i))["reward"] for i in range(3)])

    name = "expected-cost + rollout-moves(rollouts=60,horizon=12)"
    assert reward(name) > reward("expected-cost")


def test_a_price_that_nothing_gains_moves_nothing(moving):
    dear = replace(moving, scenario=replace(moving.scenario, K_m=1e9))
    runner = Runner(dear.sequences("test", 1, 3), dear.machines, dear.scenario)
    assert not len(runner.play(make_scheduler("expected-cost + rollout-moves"), 0).moves.workload)


def test_bad_input(moving):
    with pytest.raises(InputError, match=r"horizon is 1\.0: must be at least 2"):
        make_move_rule("rollout-moves(horizon=1)")
    with pytest.raises(InputError, match="whole number"):
        make_move_rule("rollout-moves(rollouts=10.5)")
    runner = Runner(moving.sequences("test", 1, 3), moving.machines, moving.scenario)
    with pytest.raises(InputError, match="which is tetris: must be one of expected-cost"):
        runner.play(make_scheduler("tetris + rollout-moves"), 0)
