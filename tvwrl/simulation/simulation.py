"""A batch of simulated clusters: owns the arrays that the kernels work on."""

from __future__ import annotations

import copy
import zlib
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least
from tvwrl.compiled import njit
from tvwrl.packing import fits
from tvwrl.simulation import episode_kernels as clock
from tvwrl.simulation.grid_kernels import begin_row, draw, draw_background
from tvwrl.simulation.move_kernels import load_after_moves, write_move_masks
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.state import (
    ACTIVE,
    ARRIVED,
    AT_REST,
    CHANGING,
    COUNTERS,
    GOING,
    LENGTH,
    MACHINE,
    MACHINE_COLUMNS,
    MOVE_AT,
    MOVE_COLUMNS,
    MOVE_FROM,
    MOVE_TO,
    MOVE_WORKLOAD,
    MOVED,
    MOVES,
    NO_MACHINE,
    OF_RUNNING,
    OVER,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    START,
    TERMINATED,
    TOTALS,
    UNFINISHED,
    USAGE_DELAY,
    WAITING,
    WAITS,
    WORKLOAD_COLUMNS,
    Demand,
    State,
)
from tvwrl.types import Episode, Float, InputError, Int, Int32, Machines, Moves, SequenceSet, take

SimulationState = tuple[int, tuple[npt.NDArray[Any], ...]]  # identity of the simulation, and the arrays that change


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

    Parameters
    ----------
    sequences : SequenceSet
        S arrival sequences; see `Problem.sequences`.
    machines : Machines
        The cluster, which is the same in every environment.
    scenario : Scenario
        What happens in an episode and what is seen of it.
    batch : int, default 1
        B, how many clusters.
    grid : bool, default True
        Whether to draw label grids; schedulers that do not look at them do without.
    forecasts : bool, optional
        Whether to sum forecasts by machine; default: the scenario's `observe_forecast`.
    max_slots : int, optional
        Slots after which an episode is truncated, 0: never; default: the scenario's.

    Raises
    ------
    InputError
        For an empty set, `batch` < 1, arrivals that begin after `max_slots`, background load of another cluster, and a
        scenario that shows forecasts which the sequences lack.

    Examples
    --------
    >>> drawn = problem.sequences("train", 3, seed=0)  # doctest: +SKIP
    >>> simulation = Simulation(drawn, problem.machines, problem.scenario, batch=3)  # doctest: +SKIP
    >>> simulation.reset(np.arange(3))  # doctest: +SKIP
    >>> simulation.step(np.zeros(3, np.int64))  # doctest: +SKIP
    """

    state: State
    seen_grid: npt.NDArray[np.uint8]  # (B, M, D, h, C) what is observed of `state.seen_words`

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
        self._share_memory()

    def __deepcopy__(self, memo: dict[int, Any]) -> Simulation:
        """A copy that goes on by itself; it shares what never changes, such as the sequences."""
        twin = copy.copy(self)
        twin.state = self.state._replace(**{name: getattr(self.state, name).copy() for name in CHANGING})
        twin._share_memory()
        return twin

    def _share_memory(self) -> None:
        """Make arrays of `state` that are two views of the same memory so again, after all were copied."""
        self.state = self.state._replace(words=self.state.grid.view(np.uint64))
        self.seen_grid = self.state.seen_words.view(np.uint8)[..., : self.seen_grid.shape[-1]]

    @cached_property
    def identity(self) -> int:
        """A number that differs between simulations of other sequences, clusters, scenarios or batches."""
        sequences, found = self.sequences, zlib.crc32(repr((self.batch, self.scenario)).encode())
        for array in (sequences.arrival, sequences.length, sequences.demand, sequences.label, self.machines.capacity):
            found = zlib.crc32(array.tobytes(), zlib.crc32(repr(array.shape).encode(), found))
        return zlib.crc32("\n".join(map(str, sequences.source_workload.flat)).encode(), found)

    def snapshot(self) -> SimulationState:
        """The complete state of all environments, for `go_back`: a copy of what changes."""
        return self.identity, tuple(getattr(self.state, name).copy() for name in CHANGING)

    def go_back(self, snapshot: SimulationState) -> None:
        """Bring all environments to the state of a snapshot.

        Parameters
        ----------
        snapshot : SimulationState
            What `snapshot` of a simulation of the same sequences, cluster, scenario and batch gave.

        Raises
        ------
        InputError
            For a snapshot of another simulation; nothing is changed then.
        """
        identity, arrays = snapshot
        if identity != self.identity:
            raise InputError("the snapshot is of an environment with other sequences, machines or parameters")
        room = dict(zip(CHANGING, arrays, strict=True))["moves"].shape[1]
        if room > self.state.moves.shape[1]:
            self.make_room_for_moves(room)
        for name, saved in zip(CHANGING, arrays, strict=True):
            own = getattr(self.state, name)
            own = own[:, :room] if name == "moves" else own
            own[...] = saved

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
        rules = [limit, max_slots, per_machine, sequences.classes + 2, scenario.places, late, scenario.moves_per_slot]
        rules += [scenario.move_slots, scenario.move_overlap, scenario.move_rest, scenario.hold_action]
        moving = scenario.move_rules()
        may_move = 0 if moving is None else workloads
        pinned = np.zeros((1, 0), np.bool_) if moving is None else moving.pinned(sequences.source_workload)
        noise = np.zeros((1, 0, count, resources), np.uint8) if noise is None else noise
        ring = (batch, count, horizon + late, resources)
        demand: Demand = np.ascontiguousarray(sequences.demand, np.float64)
        if whole:
            demand = demand.astype(np.uint8)
        return State(
            demand=demand,
            timing=np.stack([sequences.arrival, sequences.length], axis=2).astype(np.int32),
            label=np.ascontiguousarray(sequences.label),
            feature=feature,
            forecast=np.zeros((1, 1, 1, 0), np.uint8) if forecast is None else forecast.values,
            steps=steps,
            background=np.ascontiguousarray(noise),
            capacity=np.ascontiguousarray(self.machines.capacity),
            weights=scenario.penalty_weights().per_resource(resources),
            price=np.array([scenario.K_m], np.float64),
            rules=np.array(rules, np.int64),
            pinned=pinned,
            blank=blank.view(np.uint64),
            counters=np.zeros((batch, COUNTERS), np.int64),
            workloads=np.zeros((batch, workloads, WORKLOAD_COLUMNS), np.int32),
            machines=np.zeros((batch, count, MACHINE_COLUMNS), np.int32),
            load=np.zeros(ring, np.int32) if whole else np.zeros(ring),
            square=np.zeros((batch, dimensions)),
            filled=np.zeros((batch, dimensions), np.int32),
            grid=grid,
            words=grid.view(np.uint64),
            totals=np.zeros((batch, TOTALS)),
            costs=np.zeros((batch, count)),
            transit=np.tile(np.array(AT_REST, np.int32), (batch, may_move, 1)),
            moves=np.zeros((batch, may_move, MOVE_COLUMNS), np.int32),
            seen_words=seen_words,
            seen_queue=np.zeros((batch, scenario.queue, 1 + feature.shape[2]), np.float32),
            seen_backlog=np.zeros((batch, 1), np.float32),
            seen_forecast=np.zeros((batch, count, len(steps)), np.float32),
            seen_running=np.zeros((batch, self.shown_running, OF_RUNNING + resources + len(steps)), np.float32),
            seen_phase=np.zeros((batch, 1), np.float32),
        )

    def reset(self, sequences: int | Int, where: npt.NDArray[np.bool_] | None = None) -> None:
        """Begin an episode.

        Parameters
        ----------
        sequences : int or array of int
            Which one, the same for all or (B,); -1: a random one.
        where : array of bool, optional
            (B,) in which environments; default: in all.
        """
        chosen = np.where(self._everywhere if where is None else where, sequences, clock.SKIP)
        clock.drive(self.state, clock.RESET, chosen.astype(np.int64), 0)

    def step(self, actions: Int, autoreset: bool = False) -> None:
        """Apply one decision in every environment and run the clock; penalties are in `state.totals`.

        Parameters
        ----------
        actions : array of int
            (B,) q * M + m puts the workload at place q of the queue on machine m; `placements` lets the slot pass, and
            so does a place where nothing waits. Only place 0 can be chosen unless the scenario has `choose_from_queue`.
            Where running workloads may be moved, the moves of the slot follow: see `PlacementEnv`.
        autoreset : bool, default False
            Whether an environment whose episode is over begins the next one; otherwise it stands still.
        """
        if self.shown_running and (self.state.counters[:, MOVES] >= self.state.moves.shape[1]).any():
            self.make_room_for_moves(2 * self.state.moves.shape[1])
        clock.drive(self.state, clock.STEP_AUTORESET if autoreset else clock.STEP, actions, 0)

    def copy(self, source: Simulation, rows: Int, to: Int) -> None:
        """Copy environments of another simulation.

        Parameters
        ----------
        source : Simulation
            A simulation of the same sequences.
        rows : array of int
            (n,) its environments.
        to : array of int
            (n,) those of this one that become their copies.
        """
        room = source.state.moves.shape[1]
        if room > self.state.moves.shape[1]:
            self.make_room_for_moves(room)
        for name in CHANGING:
            if name == "moves":
                self.state.moves[to, :room] = source.state.moves[rows]
            else:
                getattr(self.state, name)[to] = getattr(source.state, name)[rows]

    def make_room_for_moves(self, room: int) -> None:
        """Make room for so many moves of an episode, keeping those so far.

        Parameters
        ----------
        room : int
            How many.
        """
        more = np.zeros((self.batch, room, MOVE_COLUMNS), np.int32)
        more[:, : self.state.moves.shape[1]] = self.state.moves
        self.state = self.state._replace(moves=more)

    @property
    def bytes_of_state(self) -> int:
        """Bytes that `copy` copies of each environment."""
        return sum(int(getattr(self.state, name).nbytes) for name in CHANGING) // self.batch

    def place(self, position: int, machine: int) -> None:
        """Start a waiting workload in the current slot (batch of 1).

        Parameters
        ----------
        position : int
            Its place in the queue.
        machine : int
            0..M-1.
        """
        clock.drive(self.state, clock.PLACE, np.array([machine]), position)

    def move(self, workload: int, machine: int) -> None:
        """Tell a running workload to move, which it does `move_slots` after the current slot (batch of 1).

        Parameters
        ----------
        workload : int
            0..N-1.
        machine : int
            0..M-1.

        Raises
        ------
        InputError
            If it must not: see `objection`.
        """
        self.check_move(workload, machine)
        if self.state.counters[0, MOVES] >= self.state.moves.shape[1]:
            self.make_room_for_moves(2 * self.state.moves.shape[1])
        clock.drive(self.state, clock.MOVE, np.array([machine]), workload)

    def check_move(self, workload: int, machine: int) -> None:
        """Raise InputError if a workload may not be told to move to a machine now, as `move` does.

        Parameters
        ----------
        workload : int
            0..N-1.
        machine : int
            0..M-1.
        """
        if reason := self.objection(workload, machine):
            names = self.sequences.workload_id[self.state.counters[0, SEQUENCE]]
            name = f"'{names[workload]}'" if 0 <= workload < len(names) else f"{workload}"
            raise InputError(f"workload {name} cannot move to machine {machine}: {reason}")

    def objection(self, workload: int, machine: int) -> str:
        """Why a workload may not be told to move to a machine now (batch of 1); empty if it may.

        Whether there is room is left to `crowded`, as the moves of a slot may make room for one another.

        Parameters
        ----------
        workload : int
            0..N-1.
        machine : int
            0..M-1.
        """
        state, scenario = self.state, self.scenario
        counters, sequence = state.counters[0], state.counters[0, SEQUENCE]
        if not scenario.moves_per_slot:
            return "nothing may move, as moves_per_slot is 0"
        if counters[MOVED] >= scenario.moves_per_slot:
            return f"there were {counters[MOVED]} moves in this slot already, as many as moves_per_slot allows"
        if not 0 <= machine < len(self.machines):
            return f"machines are 0 to {len(self.machines) - 1}"
        if not self.machines.capacity[machine].any():
            return "it is switched off"
        if not 0 <= workload < len(state.workloads[0]):
            return f"workloads are 0 to {len(state.workloads[0]) - 1}"
        if workload not in state.workloads[0, : counters[RUNNING], RUNS]:
            return "it has not begun" if state.workloads[0, workload, START] < 0 else "it has finished"
        goes_to, goes_at, _ = state.transit[0, workload].tolist()
        if goes_to != NO_MACHINE:
            return f"it is on its way to machine {goes_to}, where it is from slot {goes_at} on"
        if state.workloads[0, workload, MACHINE] == machine:
            return "it is there"
        if state.pinned[sequence, workload]:
            return "it is one of those that never move (immovable)"
        if state.workloads[0, workload, START] > counters[SLOT] - scenario.usage_delay:
            return f"none of its usage has been measured yet (usage_delay is {scenario.usage_delay})"
        rests = goes_at + max(scenario.move_overlap, scenario.move_rest)
        if counters[SLOT] < rests:
            return f"it came in slot {goes_at} and stays until slot {rests} (move_rest, move_overlap)"
        return ""

    def crowded(self) -> str:
        """Why the moves of the current slot cannot be together (batch of 1); empty if they can.

        A machine must have room, by the usage that was measured last, for all that runs there after them.
        """
        counters, moves = self.state.counters[0], self.state.moves[0]
        if not counters[MOVED]:
            return ""
        load = self.load_after_moves()
        for w, _, _, m in moves[counters[MOVES] - counters[MOVED] : counters[MOVES]].tolist():
            if not fits(load[m], self.machines.capacity[m], self.machines.capacity[m]):
                name, have = self.sequences.workload_id[counters[SEQUENCE], w], self.machines.capacity[m].tolist()
                return (
                    f"workload '{name}' cannot move to machine {m}: there is no room for it; with it the machine would "
                    f"have a load of {load[m].tolist()} units of {have}"
                )
        return ""

    def load_after_moves(self, b: int = 0) -> Float:
        """(M, D) units: the load that was measured last, as if all moves on their way had taken effect.

        Parameters
        ----------
        b : int, default 0
            Which of the environments.
        """
        out = np.empty(self.machines.capacity.shape)
        load_after_moves(self.state, b, out)
        return out

    def restore(self, slot: int, machine: Int, start: Int, waiting: Int, sequence: int = 0) -> None:
        """Go on in the middle of an episode (batch of 1): begin in `slot` with what was placed until then.

        Whether machines have overshot before is not known, so the next overshoot of each counts as its first. Nothing
        is on its way to another machine.

        Parameters
        ----------
        slot : int
            The current slot.
        machine : array of int
            (N,) where and since which slot each workload runs or ran; -1: it was not placed yet.
        start : array of int
            (N,) where and since which slot each workload runs or ran; -1: it was not placed yet.
        waiting : array of int
            (n,) workloads that wait, the oldest first.
        sequence : int, default 0
            Which of the sequences is played.
        """
        state, length = self.state, self.sequences.length[sequence]
        order = np.argsort(start, kind="stable")
        placed = order[start[order] >= 0]
        running = placed[start[placed] + length[placed] > slot]
        state.counters[0] = 0
        values = {SEQUENCE: sequence, SLOT: slot, WAITING: len(waiting), RUNNING: len(running)}
        values[ARRIVED], values[UNFINISHED] = len(placed) + len(waiting), len(start) - len(placed) + len(running)
        state.counters[0, list(values)] = list(values.values())
        state.workloads[0], state.transit[0] = 0, AT_REST
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

    def show(self, waiting: Int) -> None:
        """Let other workloads wait, and write the observation anew (batch of 1).

        Parameters
        ----------
        waiting : array of int
            (n,) the oldest first.
        """
        self.state.workloads[0, : len(waiting), WAITS] = waiting
        self.state.counters[0, WAITING] = len(waiting)
        clock.drive(self.state, clock.SHOW, np.zeros(1, np.int64), 0)

    def next_slot(self) -> None:
        """End the slot and run the clock until a workload waits or the episode is over."""
        clock.drive(self.state, clock.ADVANCE, np.zeros(self.batch, np.int64), 0)

    @property
    def placements(self) -> int:
        """Number of actions that place: one for each machine and place of the queue that may be chosen."""
        return self.scenario.places * len(self.machines)

    @property
    def actions(self) -> int:
        """Number of actions: those that place, one to hold with `hold_action`, and where workloads may be moved one for
        each of those that are shown and each machine, and one to stop."""
        moves = self.shown_running * len(self.machines)
        return self.placements + int(self.scenario.hold_action) + (moves + 1 if moves else 0)

    @property
    def shown_running(self) -> int:
        """R, how many running workloads are shown; 0 where nothing may be moved."""
        most = self.sequences.demand.shape[1]
        return min(self.scenario.shown_running, most) if self.scenario.moves_per_slot else 0

    def move_masks(self) -> npt.NDArray[np.bool_]:
        """(B, R, M) which of the shown running workloads may be told to go to which machine; none unless moves are
        due."""
        out = np.zeros((self.batch, self.shown_running, len(self.machines)), np.bool_)
        write_move_masks(self.state, out)
        return out

    @cached_property
    def peak(self) -> Float:
        """(S, N, D) units: largest demand of each workload's life."""
        return np.asarray(self.sequences.demand.max(axis=2))

    @cached_property
    def request(self) -> Float:
        """(S, N, D) units: requests, see `requests_of`."""
        return requests_of(self.sequences, self.machines)

    def waiting(self, b: int = 0) -> Int32:
        """Indices of the waiting workloads, oldest first.

        Parameters
        ----------
        b : int, default 0
            Which of the environments.
        """
        return self.state.workloads[b, : self.state.counters[b, WAITING], WAITS]

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
        """The observations of the agents (B, ...): views of the simulation's memory, valid until the next command."""
        state = self.state
        seen: dict[str, npt.NDArray[Any]] = {
            "grid": self.seen_grid,
            "queue": state.seen_queue,
            "backlog": state.seen_backlog,
        }
        told = self._shown if self.scenario.looks_ahead and state.steps.size else None
        if self.scenario.moves_per_slot:
            known, rest = np.split(state.seen_running, [OF_RUNNING + len(self.machines.resources)], axis=2)
            parts = [known] if told is None else [known, take(rest, told)]
            seen |= {"running": np.concatenate(parts, axis=2), "phase": state.seen_phase}
        if told is None:
            return seen
        return seen | {"forecast": take(state.seen_forecast, told)}

    def known_now(self) -> dict[str, npt.NDArray[np.float32]]:
        """What everybody may know beside the observation, of all environments: `machines` and `progress`.

        Returns
        -------
        dict
            machines: (B, M, D + 1) units of load in the slot that was measured last, with what overshoots, and the
            workloads that run; progress: (B, 2) the slot, and the workloads that have arrived so far.
        """
        state, every = self.state, np.arange(self.batch)
        slot = state.counters[:, SLOT]
        load = state.load[every, :, (slot - self.scenario.usage_delay) % state.load.shape[2]]
        machines = np.concatenate([load, state.machines[:, :, ACTIVE, None]], axis=2)
        progress = np.stack([slot, state.counters[:, ARRIVED]], axis=1)
        return {"machines": machines.astype(np.float32), "progress": progress.astype(np.float32)}

    def is_over(self, b: int = 0) -> bool:
        """Tell whether the episode has ended.

        Parameters
        ----------
        b : int, default 0
            Which of the environments.
        """
        return bool(self.state.counters[b, OVER] != GOING)

    def record(self, b: int = 0) -> Episode:
        """The episode so far: what was placed where and when.

        Parameters
        ----------
        b : int, default 0
            Which of the environments.
        """
        s, sequence = self.sequences, int(self.state.counters[b, SEQUENCE])
        start = self.state.workloads[b, :, START].astype(np.int64)
        machine = self.state.workloads[b, :, MACHINE].astype(np.int64)
        length = s.length[sequence]
        moves, rules = None, self.scenario.move_rules()
        if rules is not None:
            log = self.state.moves[b, : self.state.counters[b, MOVES]].astype(np.int64)
            moves = Moves(log[:, MOVE_WORKLOAD], log[:, MOVE_AT], log[:, MOVE_FROM], log[:, MOVE_TO], rules)
            machine[log[::-1, MOVE_WORKLOAD]] = log[::-1, MOVE_FROM]  # that of the first move is written last
        return Episode(
            workload_id=s.workload_id[sequence],
            source_workload=s.source_workload[sequence],
            source_slot=s.source_slot[sequence],
            arrival=s.arrival[sequence],
            start=start,
            finish=np.where(start >= 0, start + length, -1),
            machine=machine,
            demand=tuple(s.demand[sequence, i, : length[i]] for i in range(len(length))),
            load=s.load,
            sequence=sequence,
            resources=s.resources,
            background=None if s.background is None else s.background[sequence],
            moves=moves,
        )


@njit(_nrt=False)
def restore(s: State, b: int, placed: Int) -> None:
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
                draw(s, b, w, s.workloads[b, w, MACHINE], sequence, t, row)
