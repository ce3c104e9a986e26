"""A batch of simulated clusters: owns the arrays that the kernels work on."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least
from tvwrl.compiled import njit
from tvwrl.packing import fits
from tvwrl.simulation import clock_kernels as clock
from tvwrl.simulation.grid_kernels import begin_row, draw, draw_background
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.state import (
    ACTIVE,
    ARRIVED,
    CHANGING,
    COUNTERS,
    GOING,
    LENGTH,
    MACHINE,
    MACHINE_COLUMNS,
    OVER,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    START,
    TERMINATED,
    UNFINISHED,
    USAGE_DELAY,
    WAITING,
    WAITS,
    WORKLOAD_COLUMNS,
    State,
)
from tvwrl.types import Episode, Float, InputError, Int, Machines, SequenceSet, take


def queue_features(sequences: SequenceSet, scenario: Scenario) -> npt.NDArray[np.float32]:
    """(S, N, F) what the queue shows of a waiting workload beside its label, as the scenario's `observe_*` fields say.

    Request in units (0 where not declared) and mask bits (1 = declared), (2 D,); demand in units in its first slot,
    (D,); forecast, (K,) shares of `peak_units`.
    """
    parts = [np.zeros((*sequences.arrival.shape, 0))]
    if scenario.observe_request:
        known = np.isfinite(sequences.request)
        parts += [np.where(known, sequences.request, 0.0), known]
    if scenario.observe_demand:
        parts.append(sequences.demand[:, :, 0])
    if scenario.looks_ahead and sequences.forecast is not None:
        table = sequences.forecast
        columns = table.told(scenario.observe_forecast, scenario.observe_peak)
        parts.append(take(table.values[:, :, 0] * table.steps, columns))
    return np.concatenate(parts, axis=2).astype(np.float32)


def requests_of(sequences: SequenceSet, machines: Machines) -> Float:
    """(S, N, D) units: what each workload of the sequences declared; at most a whole machine.

    If it declared nothing, its demand in the first slot times the sequences' `request_factor`; never the true peak,
    which lies in the future.
    """
    declared, factor = sequences.request, sequences.request_factor
    stands_in = sequences.demand[:, :, 0] * (1.0 if factor is None else factor)
    wanted: Float = np.where(np.isnan(declared), stands_in, declared)
    most: Float = np.minimum(wanted, machines.capacity.max(axis=0))
    return most


class Simulation:
    """B clusters simulated side by side, on arrival sequences of one set; `state` has all their arrays.

    `grid`: False leaves out the label grids, for schedulers that do not look at them
    `forecasts`: whether to sum forecasts by machine (default: the scenario's `observe_forecast`)
    `max_slots`: slots after which an episode is truncated, 0 = never (default: the scenario's)

    Raises InputError for an empty set, `batch` < 1, arrivals that begin after `max_slots`, background load of another
    cluster, and a scenario that shows forecasts which the sequences lack.
    """

    def __init__(
        self,
        sequences: SequenceSet,
        machines: Machines,
        scenario: Scenario,
        batch: int = 1,
        *,
        grid: bool = True,
        forecasts: bool | None = None,
        max_slots: int | None = None,
    ) -> None:
        if len(sequences) == 0 or sequences.arrival.shape[1] == 0:
            raise InputError("the set of arrival sequences is empty")
        at_least(1, batch=batch)
        limit = scenario.max_slots if max_slots is None else max_slots
        late = sequences.arrival[:, 0].max()
        if limit and late >= limit:
            raise InputError(
                f"max_slots is {limit}, but a sequence's first workload arrives in slot {late}: "
                "raise the load, or max_slots (0 lifts the limit)"
            )
        noise = sequences.background
        if noise is not None and noise.shape[2:] != machines.capacity.shape:
            raise InputError(
                f"background of the sequences is for {noise.shape[2]} machines and {noise.shape[3]} resources, "
                f"the cluster has {machines.capacity.shape[0]} and {machines.capacity.shape[1]}"
            )
        self.sequences, self.machines, self.scenario, self.batch = sequences, machines, scenario, batch
        self._everywhere = np.ones(batch, np.bool_)
        forecasts = scenario.observe_forecast if forecasts is None else forecasts
        self.state = self._allocate(scenario.history if grid else 0, forecasts, limit)
        table = sequences.forecast
        self._shown = None if table is None else table.told(scenario.observe_forecast, scenario.observe_peak)
        self.state.counters[:, OVER] = TERMINATED  # until `reset` begins an episode

    def __setstate__(self, content: dict[str, Any]) -> None:
        """Restore a copy: copying and pickling separate two arrays of `state` from those whose memory they share."""
        self.__dict__.update(content)
        self.state = self.state._replace(words=self.state.grid.view(np.uint64))
        self.seen_grid = self.state.seen_words.view(np.uint8)[..., : content["seen_grid"].shape[-1]]

    def _allocate(self, history: int, forecasts: bool, max_slots: int) -> State:
        sequences, scenario, batch = self.sequences, self.scenario, self.batch
        count, resources = self.machines.capacity.shape
        workloads, horizon = sequences.demand.shape[1:3]
        columns = int(self.machines.capacity.max())
        words = -(-columns // 8)  # rows are copied 8 pixels at a time; those beyond the last column are never seen
        # Whole units as small integers keep a large batch in the processor's cache
        whole = scenario.quantise and sequences.demand.max() <= 255 and not (sequences.demand % 1).any()
        dimensions = count * resources
        absent = np.arange(8 * words) >= np.floor(self.machines.capacity).reshape(dimensions, 1)
        blank = np.where(absent, sequences.classes + 1, 0).astype(np.uint8)
        late = scenario.usage_delay
        grid = np.tile(blank, (batch, history + late if history else 0, 1, 1))
        seen_words = np.zeros((batch, count, resources, history, words), np.uint64)
        self.seen_grid = seen_words.view(np.uint8)[..., :columns]
        feature = queue_features(sequences, scenario)
        looks_ahead = forecasts or scenario.observe_peak
        forecast = sequences.forecast if looks_ahead else None
        if looks_ahead and forecast is None:
            name = "observe_forecast" if forecasts else "observe_peak"
            raise InputError(f"{name} is set, but the sequences were drawn without forecasts")
        steps = np.zeros(0, np.float32) if forecast is None else forecast.steps
        per_machine, noise = scenario.overshoot_per == "machine", sequences.background
        limit = scenario.placements_per_slot or 0
        rules = [limit, max_slots, per_machine, sequences.classes + 2, scenario.places, late]
        noise = np.zeros((1, 0, count, resources), np.uint8) if noise is None else noise
        return State(
            demand=np.ascontiguousarray(sequences.demand, np.uint8 if whole else np.float64),
            timing=np.stack([sequences.arrival, sequences.length], axis=2).astype(np.int32),
            label=np.ascontiguousarray(sequences.label),
            feature=feature,
            forecast=np.zeros((1, 1, 1, 0), np.uint8) if forecast is None else forecast.values,
            steps=steps,
            background=np.ascontiguousarray(noise),
            capacity=np.ascontiguousarray(self.machines.capacity),
            weights=scenario.penalty_weights().per_resource(resources),
            rules=np.array(rules, np.int64),
            blank=blank.view(np.uint64),
            counters=np.zeros((batch, COUNTERS), np.int64),
            workloads=np.zeros((batch, workloads, WORKLOAD_COLUMNS), np.int32),
            machines=np.zeros((batch, count, MACHINE_COLUMNS), np.int32),
            load=np.zeros((batch, count, horizon + late, resources), np.int32 if whole else np.float64),
            square=np.zeros((batch, dimensions)),
            filled=np.zeros((batch, dimensions), np.int32),
            grid=grid,
            words=grid.view(np.uint64),
            totals=np.zeros((batch, 5)),
            costs=np.zeros((batch, count)),
            seen_words=seen_words,
            seen_queue=np.zeros((batch, scenario.queue, 1 + feature.shape[2]), np.float32),
            seen_backlog=np.zeros((batch, 1), np.float32),
            seen_forecast=np.zeros((batch, count, len(steps)), np.float32),
        )

    def reset(self, sequences: int | Int, where: npt.NDArray[np.bool_] | None = None) -> None:
        """Begin an episode on the given sequence or sequences (B,), -1 = a random one, where the mask (B,) is set."""
        chosen = np.where(self._everywhere if where is None else where, sequences, clock.SKIP)
        clock.drive(self.state, clock.RESET, chosen.astype(np.int64), 0)

    def step(self, actions: Int, autoreset: bool = False) -> None:
        """Apply one decision (B,) in every environment and run the clock; penalties are in `state.totals`.

        Action q * M + m puts the workload at place q of the queue on machine m; `placements` lets the slot pass, and so
        does a place where nothing waits. Only place 0 can be chosen unless the scenario has `choose_from_queue`.
        """
        clock.drive(self.state, clock.STEP_AUTORESET if autoreset else clock.STEP, actions, 0)

    def copy(self, source: Simulation, rows: Int, to: Int) -> None:
        """Copy environments `rows` of `source`, a simulation of the same sequences, to environments `to`."""
        for name in CHANGING:
            getattr(self.state, name)[to] = getattr(source.state, name)[rows]

    @property
    def bytes_of_state(self) -> int:
        """Bytes that `copy` copies of each environment."""
        return sum(int(getattr(self.state, name).nbytes) for name in CHANGING) // self.batch

    def place(self, position: int, machine: int) -> None:
        """Start the waiting workload at `position` of the queue on `machine`, in the current slot (batch of 1)."""
        clock.drive(self.state, clock.PLACE, np.array([machine]), position)

    def restore(self, slot: int, machine: Int, start: Int, waiting: Int, sequence: int = 0) -> None:
        """Go on in the middle of an episode (batch of 1): begin in `slot` with what was placed until then.

        Whether machines have overshot before is not known, so the next overshoot of each counts as its first.

        `machine`, `start`: (N,) where and since which slot each workload runs or ran; -1: it was not placed yet
        `waiting`: (n,) workloads that wait, the oldest first
        """
        state, length = self.state, self.sequences.length[sequence]
        order = np.argsort(start, kind="stable")
        placed = order[start[order] >= 0]
        running = placed[start[placed] + length[placed] > slot]
        state.counters[0] = 0
        values = {SEQUENCE: sequence, SLOT: slot, WAITING: len(waiting), RUNNING: len(running)}
        values[ARRIVED], values[UNFINISHED] = len(placed) + len(waiting), len(start) - len(placed) + len(running)
        state.counters[0, list(values)] = list(values.values())
        state.workloads[0] = 0
        state.workloads[0, :, MACHINE], state.workloads[0, :, START] = machine, start
        state.workloads[0, : len(waiting), WAITS] = waiting
        state.workloads[0, : len(running), RUNS] = running
        state.machines[0] = 0
        state.machines[0, :, ACTIVE] = np.bincount(machine[running], minlength=len(self.machines))
        state.totals[0], state.costs[0] = 0.0, 0.0
        restore(state, 0, placed)
        self.look()

    def look(self) -> None:
        """Write the observation anew, after the state was changed from outside."""
        clock.drive(self.state, clock.LOOK, np.zeros(self.batch, np.int64), 0)

    def next_slot(self) -> None:
        """End the slot and run the clock until a workload waits or the episode is over."""
        clock.drive(self.state, clock.ADVANCE, np.zeros(self.batch, np.int64), 0)

    @property
    def placements(self) -> int:
        """Number of actions that place: one for each machine and place of the queue that may be chosen."""
        return self.scenario.places * len(self.machines)

    @property
    def actions(self) -> int:
        """Number of actions: those that place, and one to hold with `hold_action`."""
        return self.placements + int(self.scenario.hold_action)

    @cached_property
    def peak(self) -> Float:
        """(S, N, D) units: largest demand of each workload's life."""
        return np.asarray(self.sequences.demand.max(axis=2))

    @cached_property
    def request(self) -> Float:
        """(S, N, D) units: see `requests_of`."""
        return requests_of(self.sequences, self.machines)

    def waiting(self, b: int = 0) -> Int:
        """Indices of the waiting workloads, oldest first."""
        queue: Int = self.state.workloads[b, : self.state.counters[b, WAITING], WAITS]
        return queue

    def room_now(self) -> npt.NDArray[np.bool_]:
        """(B, places, M) machines whose measured load leaves room for the first demand of the workload at each place of
        the queue that may be chosen from, as `Cluster.room_now`; all False where nothing waits."""
        state, every, places = self.state, np.arange(self.batch), self.scenario.places
        measured = (state.counters[:, SLOT] - self.scenario.usage_delay) % state.load.shape[2]
        residual = self.machines.capacity - state.load[every, :, measured]
        place = np.minimum(np.arange(places), state.workloads.shape[1] - 1)
        queue = state.workloads[:, place, WAITS]
        first = self.sequences.demand[state.counters[:, SEQUENCE, None], queue, 0]
        room = fits(first[:, :, None], residual[:, None], self.machines.capacity)
        room[np.arange(places) >= state.counters[:, WAITING, None]] = False
        return room

    def observation(self) -> dict[str, npt.NDArray[Any]]:
        """What the agents observe (B, ...): views of the simulation's memory, valid until the next command."""
        state = self.state
        seen = {"grid": self.seen_grid, "queue": state.seen_queue, "backlog": state.seen_backlog}
        if self._shown is None or not (self.scenario.looks_ahead and state.steps.size):
            return seen
        return seen | {"forecast": take(state.seen_forecast, self._shown)}

    def is_over(self, b: int = 0) -> bool:
        """Whether the episode has ended."""
        return bool(self.state.counters[b, OVER] != GOING)

    def record(self, b: int = 0) -> Episode:
        """The episode so far: what was placed where and when."""
        s, sequence = self.sequences, int(self.state.counters[b, SEQUENCE])
        start = self.state.workloads[b, :, START].astype(np.int64)
        length = s.length[sequence]
        return Episode(
            workload_id=s.workload_id[sequence],
            source_workload=s.source_workload[sequence],
            source_slot=s.source_slot[sequence],
            arrival=s.arrival[sequence],
            start=start,
            finish=np.where(start >= 0, start + length, -1),
            machine=self.state.workloads[b, :, MACHINE].astype(np.int64),
            demand=tuple(s.demand[sequence, i, : length[i]] for i in range(len(length))),
            load=s.load,
            sequence=sequence,
            resources=s.resources,
            background=None if s.background is None else s.background[sequence],
        )


@njit(_nrt=False)
def restore(s, b, placed):  # type: ignore[no-untyped-def]
    """Draw the last rows of all grids and book the load of environment b, as the clock would have left them.

    `s`: `State`, in which the clock, and machine and start of the workloads `placed`, are set
    `placed`: (n,) all that ever ran, in the order in which it was placed
    """
    sequence, slot, late = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.rules[USAGE_DELAY]
    machines, ring = s.capacity.shape[0], s.load.shape[2]
    s.load[b] = 0
    if s.background.shape[1] > 0:
        for t in range(max(slot - late, 0), slot - late + ring):
            for m in range(machines):
                for d in range(s.capacity.shape[1]):
                    s.load[b, m, t % ring, d] = s.background[sequence, t % s.background.shape[1], m, d]
    for w in placed:
        start = s.workloads[b, w, START]
        for t in range(max(start, slot - late), start + s.timing[sequence, w, LENGTH]):
            for d in range(s.capacity.shape[1]):
                s.load[b, s.workloads[b, w, MACHINE], t % ring, d] += s.demand[sequence, w, t - start, d]
    for t in range(slot + 1 - max(s.grid.shape[1], 1), slot + 1):
        row = begin_row(s, b, t)
        if t < 0:
            continue
        if s.background.shape[1] > 0:
            draw_background(s, b, t, row)
        for w in placed:
            start = s.workloads[b, w, START]
            if start <= t < start + s.timing[sequence, w, LENGTH]:
                draw(s, b, w, sequence, t, row)
