"""What a scheduler sees of a simulated cluster: machines, current load, peaks, and (for references) the future."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tvwrl.packing import residual_ahead, room_ahead, room_now
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import ACTIVE, LENGTH, MACHINE, RUNNING, RUNS, SEQUENCE, SLOT, START, WAITING
from tvwrl.types import Float, Machines, Workload

Mask = npt.NDArray[np.bool_]


class Cluster:
    """A read-only view of environment `b` of a simulation in the current slot; usage is that of slot `measured`."""

    def __init__(self, simulation: Simulation, b: int = 0) -> None:
        self.simulation, self.b = simulation, b

    def without(self, machines: Sequence[int]) -> Cluster:
        """The same cluster in which `machines` look switched off and empty."""
        return _Reduced(self, machines)

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
        count: npt.NDArray[np.int32] = self.simulation.state.machines[self.b, :, ACTIVE]
        return count

    @property
    def reserved_peaks(self) -> Float:
        """(M, D) units: sum of the lifetime peaks of the workloads on each machine, without background load."""
        return self._reserved(self.simulation.peak)

    @property
    def reserved_requests(self) -> Float:
        """(M, D) units: sum of the requests of the workloads on each machine; see `Simulation.request`."""
        return self._reserved(self.simulation.request)

    def _reserved(self, amount: Float) -> Float:
        """(M, D): sum of `amount` (S, N, D) of the workloads on each machine."""
        state = self.simulation.state
        running = state.workloads[self.b, : state.counters[self.b, RUNNING], RUNS]
        machine, own = state.workloads[self.b, running, MACHINE], amount[state.counters[self.b, SEQUENCE], running]
        count = len(self.machines)
        return np.stack([np.bincount(machine, one, count) for one in own.T], axis=1)

    def request_of(self, workload: Workload) -> Float:
        """(D,) units: what a waiting workload declared; see `Simulation.request`."""
        row: Float = self.simulation.request[self.simulation.state.counters[self.b, SEQUENCE], workload.index]
        return row

    def reserved_ahead(self, slots: int) -> Float:
        """(slots, D) units: summed peaks of what now runs in the cluster, in the current slot and those after it."""
        state, simulation = self.simulation.state, self.simulation
        running = state.workloads[self.b, : state.counters[self.b, RUNNING], RUNS]
        sequence = state.counters[self.b, SEQUENCE]
        left = state.workloads[self.b, running, START] + state.timing[sequence, running, LENGTH] - self.slot
        runs = np.arange(slots)[:, None] < left
        reserved: Float = runs @ simulation.peak[sequence, running]
        return reserved

    @property
    def waiting(self) -> int:
        """Workloads that wait, visible or not."""
        return int(self.simulation.state.counters[self.b, WAITING])

    def room_now(self, workload: Workload) -> Mask:
        """(M,) machines whose measured load leaves room for the workload's demand in its first slot."""
        mask: Mask = room_now(self.load, workload.first_demand, self.capacity)
        return mask

    def room_for_peaks(self, workload: Workload) -> Mask:
        """(M,) machines whose reserved peaks leave room for the workload's peak."""
        mask: Mask = room_now(self.reserved_peaks, workload.peak, self.capacity)
        return mask

    def room_ahead(self, workload: Workload) -> Mask:
        """(M,) machines with room in every slot of the workload's life. Reads the future."""
        mask: Mask = room_ahead(self.simulation.state.load[self.b], self.slot, workload.demand, self.capacity)
        return mask

    def residual_ahead(self, workload: Workload) -> Float:
        """(M,) unused share of capacity over the workload's life, before it is placed. Reads the future."""
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
        """(K + D,) forecast of a waiting workload, from its request and its demand in the first slot, and its peaks."""
        table = self.simulation.sequences.forecast
        assert table is not None, "these sequences were drawn without forecasts"
        sequence = int(self.simulation.state.counters[self.b, SEQUENCE])
        own: Float = table.values[sequence, workload.index, 0] * table.steps
        return own

    def observation(self) -> dict[str, npt.NDArray[np.generic]]:
        """What a policy sees, with a batch axis of 1; see `PlacementEnv`. Needs a simulation that draws grids."""
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
