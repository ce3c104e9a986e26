"""Plays one scheduler on one arrival sequence to the end and returns the episode's record."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from tvwrl.schedulers.base import Scheduler
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import IDLE, PLACED, WAITING
from tvwrl.types import Episode, InputError, Machines, SequenceSet, Workload

MAX_IDLE_SLOTS = 1000  # slots without a placement while workloads wait; then the episode is stopped


class Runner:
    """Plays schedulers on the sequences of one set, to the end of every episode."""

    def __init__(self, sequences: SequenceSet, machines: Machines, scenario: Scenario, seed: int = 0) -> None:
        self.sequences, self.seed = sequences, seed
        self._scenario, self._machines = scenario, machines
        self._workloads: dict[int, list[Workload]] = {}
        self._simulations: dict[tuple[bool, bool], Simulation] = {}

    def play(self, scheduler: Scheduler, sequence: int) -> Episode:
        """The episode of `scheduler` on one sequence; what waits after `MAX_IDLE_SLOTS` stays unplaced.

        Raises InputError for a placement of a workload that is not waiting or on a machine that does not exist.
        """
        simulation = self._simulation(scheduler.looks_at_grid, scheduler.needs_forecasts)
        workloads = self._workloads_of(sequence)
        simulation.reset(sequence)
        cluster = Cluster(simulation)
        scheduler.reset(cluster, np.random.default_rng([self.seed, sequence]))
        state, limit = simulation.state, self._scenario.placements_per_slot
        decisions, seconds = 0, 0.0
        while not simulation.is_over() and state.counters[0, IDLE] < MAX_IDLE_SLOTS:
            visible = simulation.waiting()[: self._scenario.queue].tolist()
            before = state.counters[0, PLACED]
            started = time.perf_counter()
            for placement in scheduler.schedule(cluster, [workloads[i] for i in visible]):
                seconds += time.perf_counter() - started
                position = position_in_queue(simulation, placement.workload, placement.machine, scheduler.name)
                simulation.place(position, placement.machine)
                decisions += 1
                if limit is not None and state.counters[0, PLACED] >= limit:
                    break
                started = time.perf_counter()
            else:
                seconds += time.perf_counter() - started
            placed = state.counters[0, PLACED]
            decisions += int(placed == before)  # to place nothing
            more = limit is None or placed < limit
            if placed == before or not more or not state.counters[0, WAITING]:  # otherwise the scheduler is asked again
                simulation.next_slot()
        mean_ms = 1000.0 * seconds / max(decisions, 1)
        return replace(simulation.record(), scheduler=scheduler.name, decision_ms=mean_ms)

    def _simulation(self, grid: bool, forecasts: bool) -> Simulation:
        if (grid, forecasts) not in self._simulations:
            self._simulations[grid, forecasts] = Simulation(
                self.sequences, self._machines, self._scenario, grid=grid, forecasts=forecasts, max_slots=0
            )
        return self._simulations[grid, forecasts]

    def _workloads_of(self, sequence: int) -> list[Workload]:
        if sequence not in self._workloads:
            count = self.sequences.arrival.shape[1]
            self._workloads[sequence] = [self.sequences.workload(sequence, i) for i in range(count)]
        return self._workloads[sequence]


def position_in_queue(simulation: Simulation, workload: Workload, machine: int, name: str) -> int:
    """Where a workload waits that a scheduler puts on `machine`. Raises InputError for an impossible choice."""
    found = np.flatnonzero(simulation.waiting() == workload.index)
    if not len(found):
        raise InputError(f"scheduler '{name}' placed workload '{workload.workload_id}', which is not waiting")
    if not 0 <= machine < len(simulation.machines):
        raise InputError(f"scheduler '{name}' chose machine {machine}: must be 0 to {len(simulation.machines) - 1}")
    return int(found[0])
