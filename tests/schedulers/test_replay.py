"""Branch and replay: every action costs what it costs if it is really taken and the rule goes on."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.replay import Replay
from tvwrl.schedulers.replay_kernels import BASES
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import OVER, PLACED, WAITING
from tvwrl.types import InputError

LONG = 3000  # slots, more than any of these episodes has


def simulation_of(problem, count=3, seed=0, background=False, **changes):
    """A simulation of training sequences, without grids, and with forecasts."""
    scenario = replace(problem.scenario, **changes)
    sequences = problem.sequences("train", count, seed)
    if background:
        rng = np.random.default_rng(5)
        load = rng.integers(0, 3, (count, 7, *problem.machines.capacity.shape)).astype(np.uint8)
        sequences = replace(sequences, background=load)
    simulation = Simulation(sequences, problem.machines, scenario, count, grid=False, forecasts=True, max_slots=0)
    simulation.reset(np.arange(count))
    return simulation


def wander(simulation, steps, seed=0):
    """Take random actions, sometimes none, so that machines differ and some overshoot."""
    rng = np.random.default_rng(seed)
    machines = len(simulation.machines)
    for _ in range(steps):
        simulation.step(rng.integers(0, machines + 1, simulation.batch))


def single(simulation, b):
    """Environment b alone."""
    alone = Simulation(
        simulation.sequences, simulation.machines, simulation.scenario, 1, grid=False, forecasts=True, max_slots=0
    )
    alone.copy(simulation, np.array([b]), np.array([0]))
    return alone


def cost_of(simulation, action, base):
    """(4,) penalties if the action is taken and the scheduler goes on to the end."""
    simulation.step(np.array([action]))
    state = simulation.state
    total = state.totals[0, :4].copy()
    cluster, scheduler = Cluster(simulation), make_scheduler(base)
    scheduler.reset(cluster, np.random.default_rng(0))
    limit, sequence = simulation.scenario.placements_per_slot, int(state.counters[0, 0])
    while not simulation.is_over():
        before = state.counters[0, PLACED]
        waiting = simulation.waiting()[: simulation.scenario.queue].tolist()
        pending = [simulation.sequences.workload(sequence, i) for i in waiting]
        for placement in scheduler.schedule(cluster, pending):
            position = int(np.flatnonzero(simulation.waiting() == placement.workload.index)[0])
            simulation.place(position, placement.machine)
            if limit is not None and state.counters[0, PLACED] >= limit:
                break
        more = limit is None or state.counters[0, PLACED] < limit
        if state.counters[0, PLACED] == before or not more or not state.counters[0, WAITING]:
            simulation.next_slot()
            total += state.totals[0, :4]
    return total


KINDS = {
    "plain": {},
    "unknown load": {"background": True},
    "one overshoot per machine": {"overshoot_per": "machine"},
    "any number of placements": {"placements_per_slot": None},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", BASES)
def test_an_action_costs_what_it_costs_when_taken(problem, base, kind):
    simulation = simulation_of(problem, **KINDS[kind])
    wander(simulation, 5)
    due = np.flatnonzero(simulation.state.counters[:, OVER] == 0)
    machines = len(simulation.machines)
    costs = Replay(simulation, base, LONG).costs(due, np.ones((len(due), machines + 1), np.bool_))[0]
    for row, b in zip(costs, due, strict=True):
        for action in (0, machines - 1, machines):
            assert np.allclose(row[action], cost_of(single(simulation, b), action, base), rtol=1e-9)


def test_what_may_not_be_done_has_no_cost(problem):
    simulation = simulation_of(problem)
    machines = len(simulation.machines)
    allowed = np.zeros((3, machines), np.bool_)
    allowed[:, 1] = True
    costs = Replay(simulation, "best-fit", 20).costs(np.arange(3), allowed)[0]
    assert costs.shape == (3, machines + 1, 4)
    assert np.isfinite(costs[:, 1]).all()
    assert np.isnan(np.delete(costs, 1, axis=1)).all()


def test_branches_do_not_depend_on_what_else_is_played(problem):
    simulation = simulation_of(problem)
    wander(simulation, 4)
    every = np.ones((3, len(simulation.machines) + 1), np.bool_)
    replay = Replay(simulation, "best-fit-peak", 60)
    together = replay.costs(np.arange(3), every)[0]
    for action in range(every.shape[1]):
        alone = replay.costs(np.array([2]), np.arange(every.shape[1])[None] == action)[0]
        assert np.array_equal(alone[0, action], together[2, action])
    assert np.array_equal(together, replay.costs(np.arange(3), every)[0])


def test_the_simulation_stays_as_it_is(problem):
    simulation = simulation_of(problem)
    wander(simulation, 4)
    before = deepcopy(simulation.state.workloads), deepcopy(simulation.state.load)
    Replay(simulation, "spread").costs(np.arange(3), np.ones((3, len(simulation.machines) + 1), np.bool_))
    assert np.array_equal(simulation.state.workloads, before[0])
    assert np.array_equal(simulation.state.load, before[1])


def test_bad_bases_and_horizons_are_named(problem):
    simulation = simulation_of(problem)
    with pytest.raises(InputError, match="base is 'random': must be one of expected-cost, best-fit-peak"):
        Replay(simulation, "random")
    with pytest.raises(InputError, match="horizon is 0: must be at least 1"):
        Replay(simulation, "best-fit", 0)
    blind = Simulation(
        replace(simulation.sequences, forecast=None), problem.machines, problem.scenario, grid=False, forecasts=False
    )
    with pytest.raises(InputError, match="expected-cost: it needs sequences that were drawn with forecasts"):
        Replay(blind, "expected-cost")
