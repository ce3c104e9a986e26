"""What a scheduler sees of a simulated cluster: machines, current load, peaks, and (for references) the future."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.packing import residual_ahead, room_ahead, room_now
from tvwrl.simulation.move_kernels import look_at_running
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import (
    ACTIVE,
    GOES_TO,
    LENGTH,
    MACHINE,
    MOVED,
    NO_MACHINE,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    START,
    WAITING,
)
from tvwrl.types import Float, InputError, Int, Machines, Workload

Mask = npt.NDArray[np.bool_]


class Running(NamedTuple):
    """What runs in a cluster, in order of start, and what is known of it; n workloads."""

    workload: Int  # (n,) position in the arrival sequence
    machine: Int  # (n,) where it runs, or will run after the move that it is on
    seen: Int  # (n,) slots of its life that were measured
    movable: Mask  # (n,) whether it may be told to move in this slot
    usage: Float  # (n, D) units in the last slot that was measured; 0 if none was
    fresh: Int  # (n,) resources of which it has not seen an overshoot yet; all of them where usage is seen late


class Cluster:
    """A read-only view of a cluster in the current slot; usage is that of slot `measured`.

    Parameters
    ----------
    simulation : Simulation
        What it is a view of.
    b : int, default 0
        Which of the environments.

    Examples
    --------
    >>> cluster = Cluster(simulation)  # doctest: +SKIP
    >>> cluster.room_now(workload) & (cluster.active == 0)  # empty machines with room  # doctest: +SKIP
    """

    def __init__(self, simulation: Simulation, b: int = 0) -> None:
        self.simulation, self.b = simulation, b

    def without(self, machines: Sequence[int]) -> Cluster:
        """The same cluster in which some machines look switched off and empty.

        Parameters
        ----------
        machines : Sequence[int]
            Their numbers.
        """
        return _Reduced(self, machines)

    def as_waiting(self, running: Running, i: int, barred: Sequence[int] = ()) -> tuple[Cluster, Workload]:
        """A workload that runs, as if it waited, and the cluster without it: for rules that place.

        Parameters
        ----------
        running : Running
            Of this slot.
        i : int
            Which of them, 0..n-1; some of its usage must have been measured.
        barred : Sequence[int], optional
            Machines that are switched off too.

        Returns
        -------
        cluster : Cluster
            All moves have taken effect, and the machine that the workload is on is switched off.
        workload : Workload
            What is left of it, from the last slot that was measured on.
        """
        sequences = self.simulation.sequences
        sequence, index = int(self.simulation.state.counters[self.b, SEQUENCE]), int(running.workload[i])
        whole, passed = sequences.workload(sequence, index), int(running.seen[i]) - 1
        rest = Workload(index, whole.workload_id, whole.arrival, whole.demand[passed:], whole.request)
        return _Without(self, [int(running.machine[i]), *barred], int(running.seen[i])), rest

    @property
    def machines(self) -> Machines:
        """The machines and their capacities."""
        return self.simulation.machines

    @property
    def scenario(self) -> Scenario:
        """The parameters: load, penalties, slot length, delay of measurements."""
        return self.simulation.scenario

    @property
    def capacity(self) -> Float:
        """(M, D) units."""
        return self.simulation.machines.capacity

    @property
    def divisor(self) -> Float:
        """(M, D) units: the capacity as a divisor, which is 1 for machines that are switched off."""
        return np.where(self.capacity > 0, self.capacity, 1.0)

    @property
    def slot(self) -> int:
        """The current slot."""
        return int(self.simulation.state.counters[self.b, SLOT])

    @property
    def measured(self) -> int:
        """The latest slot whose usage is known: `usage_delay` slots before the current one (below 0 at the start)."""
        return self.slot - self.simulation.scenario.usage_delay

    @property
    def load(self) -> Float:
        """(M, D) units: load in the slot `measured`, including background load."""
        ring = self.simulation.state.load[self.b]
        seen: Float = ring[:, self.measured % ring.shape[1]]
        return seen

    @property
    def active(self) -> npt.NDArray[np.int32]:
        """(M,) workloads running on each machine."""
        return self.simulation.state.machines[self.b, :, ACTIVE]

    @property
    def reserved_peaks(self) -> Float:
        """(M, D) units: sum of the lifetime peaks of the workloads on each machine or on their way to it, without
        background load."""
        return self._reserved(self.simulation.peak)

    @property
    def reserved_requests(self) -> Float:
        """(M, D) units: sum of the requests of the workloads on each machine or on their way to it; see
        `Simulation.request`."""
        return self._reserved(self.simulation.request)

    def _reserved(self, amount: Float) -> Float:
        """(M, D): sum of `amount` (S, N, D) of the workloads on each machine."""
        state = self.simulation.state
        running = state.workloads[self.b, : state.counters[self.b, RUNNING], RUNS]
        machine, own = self.machine_after(running), amount[state.counters[self.b, SEQUENCE], running]
        count = len(self.machines)
        return np.stack([np.bincount(machine, one, count) for one in own.T], axis=1)

    def machine_after(self, workloads: Int | npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Machines (n,) of workloads that run, once the moves on their way have taken effect.

        Parameters
        ----------
        workloads : array of int
            (n,) their positions in the arrival sequence.
        """
        state = self.simulation.state
        machine: npt.NDArray[np.int32] = state.workloads[self.b, workloads, MACHINE]
        if not state.transit.shape[1]:
            return machine
        goes_to = state.transit[self.b, workloads, GOES_TO]
        return np.where(goes_to == NO_MACHINE, machine, goes_to)

    def request_of(self, workload: Workload) -> Float:
        """(D,) units: what a waiting workload declared; see `Simulation.request`.

        Parameters
        ----------
        workload : Workload
            The workload that waits.
        """
        row: Float = self.simulation.request[self.simulation.state.counters[self.b, SEQUENCE], workload.index]
        return row

    def reserved_ahead(self, slots: int) -> Float:
        """(slots, D) units: summed peaks of what now runs in the cluster, in the current slot and those after it.

        Parameters
        ----------
        slots : int
            How many, the current one included.
        """
        state, simulation = self.simulation.state, self.simulation
        running = state.workloads[self.b, : state.counters[self.b, RUNNING], RUNS]
        sequence = state.counters[self.b, SEQUENCE]
        left = state.workloads[self.b, running, START] + state.timing[sequence, running, LENGTH] - self.slot
        runs = np.arange(slots)[:, None] < left
        reserved: Float = runs @ simulation.peak[sequence, running]
        return reserved

    @property
    def running(self) -> Running:
        """What runs, with its usage in the slot `measured`; machines are those after all moves on their way."""
        simulation, count = self.simulation, int(self.simulation.state.counters[self.b, RUNNING])
        if not simulation.scenario.moves_per_slot:
            raise InputError("nothing may move, as moves_per_slot is 0")
        who, where, seen, fresh = np.empty((4, count), np.int64)
        movable, usage = np.zeros(count, np.bool_), np.empty((count, self.capacity.shape[1]))
        look_at_running(simulation.state, self.b, who, where, seen, movable, usage, fresh)
        return Running(who, where, seen, movable, usage, fresh)

    @property
    def moves_left(self) -> int:
        """How many more workloads may be told to move in this slot."""
        return self.scenario.moves_per_slot - int(self.simulation.state.counters[self.b, MOVED])

    @property
    def load_after_moves(self) -> Float:
        """(M, D) units: `load`, as it were if all moves on their way had taken effect."""
        return self.simulation.load_after_moves(self.b)

    def forecasts_of(self, running: Running) -> Float:
        """(n, K + D) forecasts of what runs, each from what was measured of it, and its peaks; see `forecast`.

        Parameters
        ----------
        running : Running
            Of this slot.
        """
        table = self.simulation.sequences.forecast
        assert table is not None, "these sequences were drawn without forecasts"
        sequence = int(self.simulation.state.counters[self.b, SEQUENCE])
        own: Float = table.values[sequence, running.workload, running.seen] * table.steps
        return own

    def requests_of(self, running: Running) -> Float:
        """(n, D) units: what running workloads declared; see `Simulation.request`.

        Parameters
        ----------
        running : Running
            Of this slot.
        """
        sequence = int(self.simulation.state.counters[self.b, SEQUENCE])
        own: Float = self.simulation.request[sequence, running.workload]
        return own

    @property
    def waiting(self) -> int:
        """Workloads that wait, visible or not."""
        return int(self.simulation.state.counters[self.b, WAITING])

    def room_now(self, workload: Workload) -> Mask:
        """(M,) machines whose measured load leaves room for the workload's demand in its first slot.

        Parameters
        ----------
        workload : Workload
            The workload that waits.
        """
        mask: Mask = room_now(self.load, workload.first_demand, self.capacity)
        return mask

    def room_for_peaks(self, workload: Workload) -> Mask:
        """(M,) machines whose reserved peaks leave room for the workload's peak.

        Parameters
        ----------
        workload : Workload
            The workload that waits.
        """
        mask: Mask = room_now(self.reserved_peaks, workload.peak, self.capacity)
        return mask

    def room_ahead(self, workload: Workload) -> Mask:
        """(M,) machines with room in every slot of the workload's life. Reads the future.

        Parameters
        ----------
        workload : Workload
            The workload that waits.
        """
        mask: Mask = room_ahead(self.simulation.state.load[self.b], self.slot, workload.demand, self.capacity)
        return mask

    def residual_ahead(self, workload: Workload) -> Float:
        """(M,) unused share of capacity over the workload's life, before it is placed. Reads the future.

        Parameters
        ----------
        workload : Workload
            The workload that waits.
        """
        load = self.simulation.state.load[self.b]
        residual: Float = residual_ahead(load, self.slot, workload.length, self.capacity)
        return residual

    @property
    def forecast(self) -> Float:
        """(M, K + D) sums over what runs on each machine: of forecasts (columns: `tvwrl.forecasting.segments.Forecast`)
        and of lifetime peaks, for rules that know them. Needs a simulation with `forecasts`.
        """
        summed: Float = self.simulation.state.seen_forecast[self.b]
        return summed

    def forecast_of(self, workload: Workload) -> Float:
        """(K + D,) forecast of a waiting workload, from its request and its demand in the first slot, and its peaks.

        Parameters
        ----------
        workload : Workload
            The workload that waits.
        """
        table = self.simulation.sequences.forecast
        assert table is not None, "these sequences were drawn without forecasts"
        sequence = int(self.simulation.state.counters[self.b, SEQUENCE])
        own: Float = table.values[sequence, workload.index, 0] * table.steps
        return own

    def observation(self) -> dict[str, npt.NDArray[np.generic]]:
        """A policy's observation, with a batch axis of 1; see `PlacementEnv`. Needs a simulation that draws grids."""
        b = slice(self.b, self.b + 1)
        return {name: seen[b] for name, seen in self.simulation.observation().items()}


class _Reduced(Cluster):
    """A cluster some of whose machines look switched off and empty."""

    def __init__(self, cluster: Cluster, without: Sequence[int]) -> None:
        super().__init__(cluster.simulation, cluster.b)
        self._kept = np.ones((len(cluster.machines), 1))
        self._kept[list(without)] = 0.0

    @property
    def capacity(self) -> Float:
        """(M, D) units, 0 for machines left out."""
        return super().capacity * self._kept

    @property
    def load(self) -> Float:
        """(M, D) units, 0 for machines left out."""
        return super().load * self._kept

    def _reserved(self, amount: Float) -> Float:
        return super()._reserved(amount) * self._kept


class _Without(_Reduced):
    """A cluster without one of its workloads, which waits, and without the machine that it was on."""

    def __init__(self, cluster: Cluster, without: Sequence[int], seen: int) -> None:
        super().__init__(cluster, without)
        self._seen = seen

    @property
    def load(self) -> Float:
        """(M, D) units after all moves, 0 for machines left out."""
        return self.load_after_moves * self._kept

    def forecast_of(self, workload: Workload) -> Float:
        """(K + D,) forecast of the workload, from what was measured of it."""
        table = self.simulation.sequences.forecast
        assert table is not None, "these sequences were drawn without forecasts"
        own: Float = table.values[self.simulation.state.counters[self.b, SEQUENCE], workload.index, self._seen]
        return own * table.steps
