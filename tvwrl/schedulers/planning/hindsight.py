"""Hindsight: the best schedule that a search finds with the whole future, as a reference for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tvwrl.checks import at_least
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.knowledge import FUTURE
from tvwrl.schedulers.planning.hindsight_kernels import anneal
from tvwrl.schedulers.planning.plan_kernels import BEST, Plan, begin
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation import SEQUENCE, Cluster, Scenario
from tvwrl.types import Episode, Machines, Placement, Workload

# Chosen on validation sequences of google2011 at load 0.5 (docs/explanation/bounds.md)
PROPOSALS = 100_000  # changes tried per workload
HOT, COLD = 2000.0, 200.0  # first and last heat: about what a change may add to the costs


class Hindsight(Scheduler):
    """Plans the whole episode when it begins, then plays the plan.

    The search starts from the episode of the scheduler that `start` makes and keeps the best plan seen, so it is never
    worse if that scheduler places every workload. Its plans keep to what binds all: they have at most
    `placements_per_slot` starts in a slot, of workloads that the queue shows. `proposals` >= 0: changes tried per
    workload (None: `PROPOSALS`), more than a second of work for every million.

    Attribute: `cost` of the plan, minus its reward.
    """

    name, knowledge = "hindsight", FUTURE

    def __init__(self, start: Callable[[], Scheduler], proposals: int | None = None) -> None:
        at_least(0, proposals=proposals)
        self._start, self._proposals = start, proposals

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Find the plan for the sequence that `cluster` begins."""
        simulation = cluster.simulation
        sequence = int(simulation.state.counters[cluster.b, SEQUENCE])
        runner = Runner(simulation.sequences, simulation.machines, simulation.scenario)
        plan = plan_of(runner.play(self._start(), sequence), simulation.scenario, simulation.machines)
        begin(plan)
        tries = PROPOSALS if self._proposals is None else self._proposals
        anneal(plan, int(rng.integers(2**62)), tries * len(plan.start), HOT, COLD)
        plan.machine[:], plan.start[:] = plan.best_machine, plan.best_start
        begin(plan)  # from scratch, so that no rounding adds up
        self.cost = float(plan.costs[BEST])
        self._machine, self._begins = plan.best_machine.tolist(), plan.best_start.tolist()

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        slot = cluster.slot
        for workload in pending:
            if self._begins[workload.index] <= slot:
                yield Placement(workload, self._machine[workload.index])


def plan_of(episode: Episode, scenario: Scenario, machines: Machines) -> Plan:
    """The plan that an episode played, to `begin`. What it did not place starts afterwards, one after another."""
    capacity = machines.capacity
    count, resources = len(capacity), len(machines.resources)
    length = np.array([len(demand) for demand in episode.demand], np.int64)
    demand = np.zeros((len(length), int(length.max()), resources))
    for i, units in enumerate(episode.demand):
        demand[i, : length[i]] = units
    machine, start = episode.machine.astype(np.int64), episode.start.astype(np.int64)
    end = int(max(episode.finish.max(), episode.arrival.max() + 1))
    for unplaced in np.flatnonzero(start < 0):
        machine[unplaced], start[unplaced] = capacity.sum(axis=1).argmax(), end
        end += int(length[unplaced])
    slots = end + int(length.max())
    unknown = np.zeros((1, count, resources)) if episode.background is None else episode.background
    on = np.flatnonzero((capacity > 0).any(axis=1))
    return Plan(
        demand=demand,
        arrival=episode.arrival.astype(np.int64),
        length=length,
        background=unknown.astype(np.float64),
        capacity=capacity,
        weights=scenario.penalty_weights().per_resource(resources),
        usable=on if len(on) else np.arange(count),
        limit=scenario.placements_per_slot or 0,
        queue=scenario.queue,
        per_machine=scenario.overshoot_per == "machine",
        machine=machine,
        start=start,
        starts=np.zeros(slots, np.int64),
        load=np.zeros((count, slots, resources)),
        running=np.zeros((count, slots), np.int64),
        unused=np.zeros((count, slots)),
        beyond=np.zeros(count, np.int64),
        exceeded=np.zeros(count),
        saving=np.zeros(len(length)),
        known=np.zeros(len(length), np.int64),
        version=np.zeros(count, np.int64),
        costs=np.zeros(2),
        best_machine=np.zeros(len(length), np.int64),
        best_start=np.zeros(len(length), np.int64),
    )
