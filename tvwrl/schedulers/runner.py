"""Plays one scheduler on one arrival sequence to the end and returns the episode's record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tvwrl.penalties import TERMS
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.moving.machine_costs import (
    feature_count,
)
from tvwrl.schedulers.whole_episodes import Notes, play_whole, whole
from tvwrl.simulation import ARRIVED, IDLE, PLACED, SLOT, WAITING, Cluster, Scenario, Simulation, State
from tvwrl.types import Episode, Float, Float32, InputError, Int, Machines, Placement, SequenceSet, Workload

NOTED_AT_FIRST = 1024  # slots for which there is room
MAX_IDLE_SLOTS = 1000  # slots without a placement while workloads wait; then the episode is stopped
Watch = Callable[[Cluster, Sequence[Workload], Placement | None], None]


class Runner:
    """Plays schedulers on the sequences of one set, to the end of every episode.

    Parameters
    ----------
    sequences : SequenceSet
        The arrival sequences; see `Problem.sequences`.
    machines : Machines
        The cluster.
    scenario : Scenario
        What happens in an episode; episodes are never truncated.
    seed : int, default 0
        Of what schedulers draw at random.

    Examples
    --------
    >>> runner = Runner(problem.sequences("test", 10, seed=0), problem.machines, problem.scenario)  # doctest: +SKIP
    >>> problem.score(runner.play(make_scheduler("spread"), 0))["reward"]  # doctest: +SKIP
    """

    def __init__(self, sequences: SequenceSet, machines: Machines, scenario: Scenario, seed: int = 0) -> None:
        self.sequences, self.machines, self.scenario, self.seed = sequences, machines, scenario, seed
        self._workloads: dict[int, list[Workload]] = {}
        self._simulations: dict[tuple[bool, bool], Simulation] = {}

    def play(
        self, scheduler: Scheduler, sequence: int, watch: Watch | None = None, most_slots: int | None = None
    ) -> Episode:
        """The episode of a scheduler on one sequence; what waits after `MAX_IDLE_SLOTS` stays unplaced.

        Parameters
        ----------
        scheduler : Scheduler
            Who decides.
        sequence : int
            Which of the sequences, 0..S-1.
        watch : Watch, optional
            Called before each decision is carried out with the cluster, the workloads shown, and the placement, or None
            where nothing is placed and the slot passes.
        most_slots : int, optional
            Slots after which nothing more is placed, >= 1; default: any number. Workloads that run then go on.

        Returns
        -------
        Episode
            Its `decision_ms` has the simulation of the slots in it where the whole episode is compiled (`whole`).

        Raises
        ------
        InputError
            For a placement of a workload that is not waiting or on a machine that does not exist.
        """
        simulation = self._beginning(scheduler, sequence)
        if watch is None and (how := whole(scheduler, self.scenario)):
            started = time.perf_counter()
            decisions, _ = play_whole(simulation, *how, MAX_IDLE_SLOTS)
            seconds = time.perf_counter() - started
        else:
            workloads = self.workloads(sequence)
            _, decisions, seconds = play_on(simulation, scheduler, workloads, watch, most_slots=most_slots)
        mean_ms = 1000.0 * seconds / max(decisions, 1)
        return replace(simulation.record(), scheduler=scheduler.name, decision_ms=mean_ms)

    def unplayed(self, scheduler: Scheduler, sequence: int) -> Episode:
        """The record of a sequence that a scheduler is not asked about: no workload is placed, no decision is timed.

        Parameters
        ----------
        scheduler : Scheduler
            Who would have decided.
        sequence : int
            Which of the sequences, 0..S-1.
        """
        simulation = self._simulation_of(scheduler)
        simulation.reset(sequence)
        return replace(simulation.record(), scheduler=scheduler.name, decision_ms=float("nan"))

    def doing(self, scheduler: Scheduler) -> str:
        """How far the current episode of a scheduler is, in words; may be asked from another thread.

        Parameters
        ----------
        scheduler : Scheduler
            Who plays.
        """
        if (simulation := self._simulations.get(_looks_at(scheduler))) is None:
            return "preparing"
        slot, arrived, waiting = simulation.state.counters[0, [SLOT, ARRIVED, WAITING]].tolist()
        return f"slot {max(slot, 0)}, {arrived - waiting} of {simulation.sequences.arrival.shape[1]} workloads placed"

    def noted(self, scheduler: Scheduler, sequence: int, explore: float) -> tuple[Episode, Int, Float32]:
        """Play an episode of a scheduler that is compiled whole, with random moves, and note the machines.

        Parameters
        ----------
        scheduler : Scheduler
            For which `whole` has an answer.
        sequence : int
            Which of the sequences, 0..S-1.
        explore : float
            Share of the slots in which a random move is made in place of the scheduler's, 0..1.

        Returns
        -------
        episode : Episode
            What happened.
        slots : array of int
            (t,) in which moves were decided.
        features : array of float
            (t, M, F) of the machines after those moves; see `write_features`.
        """
        simulation = self._beginning(scheduler, sequence)
        how = whole(scheduler, self.scenario)
        assert how is not None, f"{scheduler.name} is asked slot by slot"
        stream = int(np.random.SeedSequence([self.seed, sequence]).generate_state(1)[0])
        most, resources = NOTED_AT_FIRST, len(self.machines.resources)
        while True:
            notes = Notes(
                explore,
                np.zeros(most, np.int64),
                np.zeros((most, len(self.machines), feature_count(resources)), np.float32),
            )
            _, noted = play_whole(simulation, *how, MAX_IDLE_SLOTS, notes, stream)
            if noted < most:
                return simulation.record(), notes.slots[:noted], notes.features[:noted]
            most *= 2
            simulation.reset(sequence)

    def _beginning(self, scheduler: Scheduler, sequence: int) -> Simulation:
        """A simulation at the beginning of a sequence, for which the scheduler is prepared."""
        simulation = self._simulation_of(scheduler)
        simulation.reset(sequence)
        scheduler.reset(Cluster(simulation), np.random.default_rng([self.seed, sequence]))
        return simulation

    def _simulation_of(self, scheduler: Scheduler) -> Simulation:
        looks_at = _looks_at(scheduler)
        if looks_at not in self._simulations:
            self._simulations[looks_at] = self.simulation(scheduler)
        return self._simulations[looks_at]

    def simulation(self, scheduler: Scheduler) -> Simulation:
        """A new simulation of one cluster that shows what a scheduler looks at.

        Parameters
        ----------
        scheduler : Scheduler
            Who will look at it.
        """
        grid, forecasts = scheduler.looks_at_grid, scheduler.needs_forecasts
        return Simulation(self.sequences, self.machines, self.scenario, grid=grid, forecasts=forecasts, max_slots=0)

    def workloads(self, sequence: int) -> list[Workload]:
        """The workloads of a sequence, in order of arrival.

        Parameters
        ----------
        sequence : int
            Which of the sequences, 0..S-1.
        """
        if sequence not in self._workloads:
            count = self.sequences.arrival.shape[1]
            self._workloads[sequence] = [self.sequences.workload(sequence, i) for i in range(count)]
        return self._workloads[sequence]


def _looks_at(scheduler: Scheduler) -> tuple[bool, bool]:
    return scheduler.looks_at_grid, scheduler.needs_forecasts


class Played(NamedTuple):
    """What playing on has cost."""

    penalties: Float  # (5,) in the order of `penalties.TERMS`
    decisions: int
    seconds: float  # in the scheduler


def play_on(
    simulation: Simulation,
    scheduler: Scheduler,
    workloads: Sequence[Workload],
    watch: Watch | None = None,
    shown: Sequence[Workload] = (),
    placed: bool = False,
    most_slots: int | None = None,
) -> Played:
    """Let the scheduler take all decisions from the current state of a batch of 1 to the end of the episode.

    `workloads`: of the sequence, in order of arrival
    `shown`: what else waits of the workloads that it was shown when it made the last placement, in the same slot; it
        decides on these before it is shown others
    `watch`: called before each decision is carried out with the cluster, the workloads shown, and the placement, or
        None where nothing is placed and the slot passes
    `placed`: whether the placements of the current slot were decided, so that only moves are left in it
    `most_slots`: after which it is asked no more if workloads are unplaced, as training episodes are truncated
    """
    cluster, state, scenario = Cluster(simulation), simulation.state, simulation.scenario
    limit, queue = scenario.placements_per_slot, scenario.queue
    decisions, seconds, penalties = 0, 0.0, np.zeros(len(TERMS))
    while not simulation.is_over() and state.counters[0, IDLE] < MAX_IDLE_SLOTS:
        if most_slots is not None and state.counters[0, SLOT] >= most_slots and _are_unplaced(state):
            break
        before = state.counters[0, PLACED] - bool(shown)
        visible, shown = shown or [workloads[i] for i in simulation.waiting()[:queue].tolist()], ()
        visible = [] if placed else visible
        started = time.perf_counter()
        for placement in scheduler.schedule(cluster, visible) if visible else ():
            seconds += time.perf_counter() - started
            position = position_in_queue(simulation, placement.workload, placement.machine, scheduler.name)
            if watch is not None:
                watch(cluster, visible, placement)
            simulation.place(position, placement.machine)
            decisions += 1
            if limit is not None and state.counters[0, PLACED] >= limit:
                break
            started = time.perf_counter()
        else:
            seconds += time.perf_counter() - started
        nothing = state.counters[0, PLACED] == before
        if nothing and visible:  # to place nothing is a decision
            decisions += 1
            if watch is not None:
                watch(cluster, visible, None)
        more = limit is None or state.counters[0, PLACED] < limit
        if placed or nothing or not more or not state.counters[0, WAITING]:  # otherwise the scheduler is asked again
            if scenario.moves_per_slot:
                seconds += _move(simulation, cluster, scheduler)
                decisions += 1
            simulation.next_slot()
            placed = False
            penalties += state.totals[0, : len(TERMS)]
    return Played(penalties, decisions, seconds)


def _are_unplaced(state: State) -> bool:
    """Whether workloads wait or are to come: once all are placed, an episode ends by itself."""
    return bool(state.counters[0, WAITING] or state.counters[0, ARRIVED] < state.workloads.shape[1])


def _move(simulation: Simulation, cluster: Cluster, scheduler: Scheduler) -> float:
    """Let the scheduler move what runs, in the current slot. Returns the seconds that it took to decide."""
    seconds, started = 0.0, time.perf_counter()
    for workload, machine in scheduler.moves(cluster):
        seconds += time.perf_counter() - started
        try:
            simulation.move(workload, machine)
        except InputError as error:
            raise InputError(f"scheduler '{scheduler.name}': {error}") from None
        started = time.perf_counter()
    seconds += time.perf_counter() - started
    if reason := simulation.crowded():
        raise InputError(f"scheduler '{scheduler.name}': {reason}")
    return seconds


def position_in_queue(simulation: Simulation, workload: Workload, machine: int, name: str) -> int:
    """Where a workload waits that a scheduler puts on `machine`. Raises InputError for an impossible choice."""
    found = np.flatnonzero(simulation.waiting() == workload.index)
    if not len(found):
        raise InputError(f"scheduler '{name}' placed workload '{workload.workload_id}', which is not waiting")
    if not 0 <= machine < len(simulation.machines):
        raise InputError(f"scheduler '{name}' chose machine {machine}: must be 0 to {len(simulation.machines) - 1}")
    return int(found[0])
