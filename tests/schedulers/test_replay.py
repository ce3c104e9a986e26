"""Branch and replay: every action costs what it costs if it is really taken and the rule goes on."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.penalties import TERMS
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.head_of_queue import Backfill
from tvwrl.schedulers.planning.replay import BASES, CompiledRule, Replay, check_memory
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import GOING, OVER, PLACED, WAITING
from tvwrl.types import InputError, Machines

LONG = 3000  # slots, more than any of these episodes has


def simulation_of(problem, count=3, seed=0, background=False, loads=(), **changes):
    """A simulation of training sequences, without grids, and with forecasts."""
    scenario = replace(problem.scenario, **changes)
    sequences = problem.sequences("train", count, seed, loads)
    if background:
        rng = np.random.default_rng(5)
        load = rng.integers(0, 3, (count, 7, *problem.machines.capacity.shape)).astype(np.uint8)
        sequences = replace(sequences, background=load)
    simulation = Simulation(sequences, problem.machines, scenario, count, grid=False, forecasts=True, max_slots=0)
    simulation.reset(np.arange(count))
    return simulation


def wander(simulation, steps, seed=0):
    """Take random actions, more often none if there is a choice, so that machines differ, some overshoot and several
    workloads wait."""
    rng = np.random.default_rng(seed)
    machines, holds = len(simulation.machines), simulation.placements
    share = 0.6 if simulation.scenario.choose_from_queue else 0.0
    for _ in range(steps):
        random = rng.integers(0, machines + 1, simulation.batch)
        random = np.where(random == machines, holds, random)
        simulation.step(np.where(rng.random(simulation.batch) < share, holds, random))


def single(simulation, b):
    """Environment b alone."""
    alone = Simulation(
        simulation.sequences, simulation.machines, simulation.scenario, 1, grid=False, forecasts=True, max_slots=0
    )
    alone.copy(simulation, np.array([b]), np.array([0]))
    return alone


def cost_of(simulation, action, base):
    """(5,) penalties if the action is taken and the scheduler goes on to the end."""
    simulation.step(np.array([action]))
    state = simulation.state
    total = state.totals[0, : len(TERMS)].copy()
    cluster, scheduler = Cluster(simulation), make_scheduler(base)
    if simulation.scenario.choose_from_queue:
        scheduler = Backfill(scheduler)
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
            total += state.totals[0, : len(TERMS)]
    return total


CHOICE = {"choose_from_queue": True, "queue": 3, "loads": (1.5,)}
KINDS = {
    "plain": {},
    "unknown load": {"background": True},
    "one overshoot per machine": {"overshoot_per": "machine"},
    "any number of placements": {"placements_per_slot": None},
    "a choice from the queue": CHOICE,
    "a choice of any number": CHOICE | {"placements_per_slot": None},
    "usage seen late": {"usage_delay": 2, "placements_per_slot": 2, "background": True},
    "a choice, usage seen late": CHOICE | {"usage_delay": 3},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", BASES)
def test_an_action_costs_what_it_costs_when_taken(problem, base, kind):
    simulation = simulation_of(problem, **KINDS[kind])
    wander(simulation, 12 if simulation.scenario.choose_from_queue else 5)
    due = np.flatnonzero(simulation.state.counters[:, OVER] == 0)
    machines, holds = len(simulation.machines), simulation.placements
    costs, choices = Replay(simulation, base, LONG).costs(due, np.ones((len(due), holds + 1), np.bool_))
    waiting = simulation.state.counters[due, WAITING]
    assert not simulation.scenario.choose_from_queue or waiting.max() > 1
    for row, b, choice, there in zip(costs, due, choices, waiting, strict=True):
        for action in {0, machines - 1, holds - machines, holds - 1, holds, choice}:
            if action < holds and action // machines >= there:
                assert np.isnan(row[action]).all()
            else:
                assert np.allclose(row[action], cost_of(single(simulation, b), action, base), rtol=1e-9)


def test_the_base_overtakes_a_head_that_does_not_fit_by_hand(make_sequences):
    # 5 of 8 units are in use until slot 3; b needs 8, c needs 2 for two slots. Per slot, 1 unit of memory is unused.
    rows = [(0, [[5, 7]] * 3), (1, [[8, 8]]), (1, [[2, 1]] * 2)]
    one = Machines.homogeneous(1, 8, ("cpu", "mem"))
    scenario = Scenario(choose_from_queue=True, queue=2, hold_action=True, K_c=0.0, K_u=1.0)
    simulation = Simulation(make_sequences(rows), one, scenario, grid=False)
    simulation.reset(0)
    simulation.step(np.array([0]))
    costs, choice = Replay(simulation, "best-fit-peak").costs(np.array([0]), np.ones((1, 3), np.bool_))
    assert choice.tolist() == [1]
    # Slot by slot from 1 on. c first: 1 of 8 unused in slots 1, 2 (with b waiting), then b at last.
    assert costs[0, 1].tolist() == [0, 1 + 1, 0, 100, 0]
    # Held: both wait in slot 1; then c, which leaves 1 in slot 2 and (6, 7) in slot 3; b waits until 4.
    assert costs[0, 2].tolist() == [0, (3 + 1) + 1 + 13, 0, 100 + 50 + 50, 0]
    # b first: two overshoots (a and b) of each resource; c overtakes nobody, and runs beside a in slot 2.
    assert costs[0, 0, 2] == 4 * 30000


def test_what_may_not_be_done_has_no_cost(problem):
    simulation = simulation_of(problem)
    machines = len(simulation.machines)
    allowed = np.zeros((3, machines), np.bool_)
    allowed[:, 1] = True
    costs = Replay(simulation, "best-fit", 20).costs(np.arange(3), allowed)[0]
    assert costs.shape == (3, machines + 1, 5)
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
    with pytest.raises(InputError, match="base is 'random': must be one of"):
        Replay(simulation, "random")
    with pytest.raises(InputError, match="horizon is 0: must be at least 1"):
        Replay(simulation, "best-fit", 0)
    blind = Simulation(
        replace(simulation.sequences, forecast=None), problem.machines, problem.scenario, grid=False, forecasts=False
    )
    with pytest.raises(InputError, match="expected-cost: it needs sequences that were drawn with forecasts"):
        Replay(blind, "expected-cost")


def test_a_cost_that_is_no_number_is_refused(problem):
    simulation = simulation_of(problem)
    replay = Replay(simulation, "best-fit-peak", 8)
    every = np.ones((3, simulation.placements), np.bool_)
    assert np.isfinite(replay.costs(np.arange(3), every)[0][:, : len(problem.machines.capacity)]).all()
    simulation.state.weights[1] = np.nan
    with pytest.raises(InputError, match="an action costs nan or inf: demand and the sum"):
        replay.costs(np.arange(3), every)


def test_more_machines_than_memory_allows_are_refused_with_the_most_that_it_does(problem):
    scenario = Scenario(choose_from_queue=True, machines=1000)
    with pytest.raises(
        InputError, match=r"machines is 1000: .* would take 1\d GiB .* use at most \d+ machines"
    ) as refusal:
        check_memory(scenario, scenario.cluster(("cpu", "mem")), 200, 24)
    most = int(str(refusal.value).split("at most ")[1].split()[0])
    assert most >= 300
    check_memory(scenario, Machines.homogeneous(most, 8, ("cpu", "mem")), 200, 24)
    with pytest.raises(InputError, match=f"use at most {most} machines: a shared policy"):
        check_memory(scenario, Machines.homogeneous(most + 1, 8, ("cpu", "mem")), 200, 24)
    many = Machines.homogeneous(3000, 8, problem.machines.resources)
    simulation = Simulation(problem.sequences("train", 1, 0), many, problem.scenario, grid=False)
    with pytest.raises(InputError, match="machines is 3000"):
        Replay(simulation, "best-fit-peak")
    simulation.reset(0)
    assert CompiledRule(simulation, "best-fit-peak").choices(np.array([0])) < 3000  # its own choice takes no more


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("from_queue", [False, True])
def test_a_rule_chooses_alone_as_in_rollouts(problem, base, from_queue):
    simulation = simulation_of(problem, choose_from_queue=from_queue)
    for _ in range(6):
        wander(simulation, 3)
        due = np.flatnonzero(simulation.state.counters[:, OVER] == GOING)
        alone, nothing = CompiledRule(simulation, base).choices(due), np.zeros((len(due), 0), np.bool_)
        assert (alone == Replay(simulation, base).costs(due, nothing)[1]).all()
