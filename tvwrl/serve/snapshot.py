"""A live cluster as a simulation that stands still, so that every scheduler sees in it what it would see there.

Each pod is a workload that began when its usage was first seen, at most H slots ago; what it uses from now on
is not known and counts as nothing. A pod that asks for a node is one more workload in one of the `SPARE` rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tvwrl.forecasting import Beginnings, Forecaster, empty_table, in_steps, scaled_forecasts, unchanging
from tvwrl.serve.extender_messages import Pod
from tvwrl.serve.watching import RESOURCES, Observed
from tvwrl.simulation import Cluster, Mask, Scenario, Simulation, queue_features
from tvwrl.traces import DAY_SECONDS, UNSEEN, OwnersUsage, Windows, quantise
from tvwrl.types import Float, ForecastTable, Int, Machines, SequenceSet, Workload

if TYPE_CHECKING:
    from tvwrl.ec import Classes

SPARE = 4096  # pods that can be placed between two looks at the metrics
MOST_MACHINES = 4.0  # of the largest kind that a pod is taken to need at most
AT_A_TIME = 512  # pods that are classified and forecast: what that takes for all at once is more than all else
YOUNG = 1  # slots: usage of a pod that was not seen before the current slot is still rising in the metrics


@dataclass(frozen=True, eq=False)
class Sight:
    """What a scheduler has to be shown: the `scenario`, and what labels and forecasts come from."""

    scenario: Scenario
    capacity: Float  # (2,) units that the largest node has of each resource
    grid: bool  # whether it looks at label grids
    forecasts: bool  # whether it needs sums of forecasts
    classes: Classes | None = None
    forecaster: Forecaster | None = None


class Nodes(dict[str, int]):
    """The machine of each of some nodes, by name; remembers the question that is repeated for pod after pod."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__((name, m) for m, name in enumerate(names))
        self._last: tuple[Sequence[str], Int] = ((), np.zeros(0, np.int64))

    def machines(self, names: Sequence[str]) -> Int:
        """(n,) their machines, not to be written to; -1 for unknown ones."""
        asked, found = self._last
        if asked != names:
            found = np.fromiter(map(self.get, names, repeat(-1)), np.int64, len(names))
            self._last = names, found
        return found


@dataclass(frozen=True, eq=False)
class Prepared:
    """What takes long to make of what was observed: made by `prepare` in a process that answers nobody."""

    observed: Observed  # with the usage of the current slot alone
    expected: ExpectedDemand
    sequences: SequenceSet  # the pods as workloads, and `SPARE` rows; what is forecast now in one slot of the table
    machine: Int  # (N + SPARE,) of each workload, -1: none
    start: Int  # (N + SPARE,) its first slot, -1: it does not run
    used: OwnersUsage | None  # what forecasts are told of earlier usage


class Snapshot:
    """The cluster that was `found`, for a scheduler that needs to see it by `sight`.

    Attributes: `cluster`, what the scheduler looks at; `nodes`, name -> machine; `full`, whether no row is left.
    """

    def __init__(self, found: Observed | Prepared, sight: Sight) -> None:
        made = prepare(found, sight) if isinstance(found, Observed) else found
        self.observed = observed = made.observed
        self._sight, self._unit = sight, _unit(observed, sight)
        self.nodes = Nodes(observed.nodes)
        self.expected, self._used = made.expected, made.used
        self._described: dict[tuple[str, bytes], list[npt.NDArray[np.generic]]] = {}  # by owner and request
        self._machine, self._start, sequences = made.machine, made.start, made.sequences
        if sequences.forecast is not None:  # as of now; those of other moments are never asked for
            sequences = replace(sequences, forecast=unchanging(sequences.forecast, sequences.demand.shape[2]))
        machines = Machines(np.round(observed.capacity / self._unit, 9), RESOURCES)
        self.simulation = Simulation(
            sequences, machines, sight.scenario, grid=sight.grid, forecasts=sight.forecasts, max_slots=0
        )
        self.cluster = Cluster(self.simulation)
        first = len(observed.pods)
        self._free = list(range(first + SPARE - 1, first - 1, -1))  # spare rows, the next one last
        self._restore()

    def _restore(self) -> None:
        self.simulation.restore(self.observed.slot, self._machine, self._start, np.empty(0, np.int64))

    @property
    def full(self) -> bool:
        """Whether there is no room for another newcomer until the next look at the metrics."""
        return not self._free

    def show(self, pod: Pod) -> Workload:
        """Let a newcomer wait at the head of the queue, and write the observation."""
        row = self._free[-1]
        self._describe(row, pod)
        self.simulation.show(np.array([row]))
        demand, request = self.simulation.state.demand[0, row, :1], self.simulation.sequences.request[0, row]
        return Workload(row, pod.key, self.observed.slot, np.array(demand, np.float64), request.copy())

    def _describe(self, row: int, pod: Pod) -> None:
        """Write all that schedulers see of a newcomer into a spare row: the same for all that ask alike."""
        state, sequences = self.simulation.state, self.simulation.sequences
        parts = [state.demand[0, row, 0], sequences.request[0, row], self.simulation.request[0, row]]
        parts += [state.label[0, row, :2], state.feature[0, row]]
        if sequences.forecast is not None:
            parts.append(sequences.forecast.values[0, row, 0])
        asked = pod.owner, pod.request.tobytes()
        if (known := self._described.get(asked)) is None:
            self._foretell(row, pod)
            if len(self._described) >= SPARE:  # pods that are held ask again and again
                self._described.clear()
            self._described[asked] = [part.copy() for part in parts]
            return
        for part, content in zip(parts, known, strict=True):
            part[...] = content

    def _foretell(self, row: int, pod: Pod) -> None:
        """Write what a newcomer will probably use at first, what it requests and what is forecast into a spare row."""
        state, sequences = self.simulation.state, self.simulation.sequences
        demand = _rounded(self.expected.of(pod.owner, pod.request) / self._unit, self._sight.scenario)
        request = pod.request / self._unit
        state.demand[0, row, 0] = demand
        sequences.request[0, row] = request
        declared = np.where(np.isnan(request), demand, request)
        self.simulation.request[0, row] = np.minimum(declared, self.simulation.machines.capacity.max(axis=0))
        length, before = np.ones(1, np.int64), np.zeros(1, np.int64)
        windows = _windows(self.observed, self._sight, demand[None, None], length, request[None], before)
        if self._used is not None:
            windows = replace(windows, past=self._used.before(pod.owner, self.observed.slot)[None])
        if self._sight.classes is not None:
            state.label[0, row, :2] = self._sight.classes.label_table(windows)[0]
        one = replace(
            sequences,
            arrival=sequences.arrival[:, row : row + 1],
            request=sequences.request[:, row : row + 1],
            demand=np.asarray(state.demand[:, row : row + 1], np.float64),
        )
        if sequences.forecast is not None and self._sight.forecaster is not None:
            _foresee(self._sight.forecaster, sequences.forecast, windows, length, np.array([row]))
            one = replace(one, forecast=replace(sequences.forecast, values=sequences.forecast.values[:, row : row + 1]))
        state.feature[0, row] = queue_features(one, self._sight.scenario)[0, 0]

    def place(self, machine: int) -> int:
        """The newcomer goes to `machine`: what is shown next sees it there. Returns its row, for `remove`."""
        row = self._free.pop()
        self._machine[row], self._start[row] = machine, self.observed.slot
        self.simulation.place(0, machine)
        return row

    def book(self, pods: Sequence[Pod], nodes: Sequence[str]) -> list[int | None]:
        """Let pods be on nodes; their rows, for `remove`, None where none was left."""
        rows: list[int | None] = []
        for pod, node in zip(pods, nodes, strict=True):
            row = self._free.pop() if self._free else None
            if row is not None:
                self._describe(row, pod)
                self._machine[row], self._start[row] = self.nodes[node], self.observed.slot
            rows.append(row)
        if rows:
            self._restore()
        return rows

    def remove(self, row: int) -> None:
        """Take a newcomer back that was placed."""
        self._machine[row] = self._start[row] = -1
        self._free.append(row)
        self._restore()


def prepare(observed: Observed, sight: Sight) -> Prepared:
    """Classify and forecast all pods of a cluster, for a `Snapshot` that is shown to a scheduler by `sight`.

    Raises InputError where the scheduler cannot work in this cluster.
    """
    began = time.monotonic()
    scenario, unit = sight.scenario, _unit(observed, sight)
    expected = ExpectedDemand(observed)
    usage, first, last = _filled(observed, expected)
    count, slots = usage.shape[:2]
    aligned = np.take_along_axis(usage, np.minimum(first[:, None] + np.arange(slots), slots - 1)[:, :, None], axis=1)
    del usage
    length = last - first + 1
    after = np.arange(slots)[None, :] >= length[:, None]
    aligned[after] = 0.0
    aligned /= unit
    rows = count + SPARE
    demand = np.zeros((1, rows, slots + 1, 2))
    demand[0, :count, :slots] = _rounded(aligned, scenario)
    demand[0, :count, :slots][after] = 0.0
    request = np.full((1, rows, 2), np.nan)
    request[0, :count] = observed.request / unit
    begun = observed.slot - (slots - 1) + first
    used, past = None, None
    if count and sight.forecaster is not None and sight.forecaster.uses_past:
        told = np.minimum(aligned, scenario.peak_units)  # not rounded, as in training
        used = OwnersUsage(observed.owner, begun, told, length, scenario.step_seconds)
        past = np.stack([used.before(owner, slot) for owner, slot in zip(observed.owner, begun.tolist(), strict=True)])
    del aligned
    windows = _windows(observed, sight, demand[0, :count], length, request[0, :count], slots - 1 - first)
    windows = replace(windows, past=past)
    label, classes, forecaster = np.ones((1, rows, slots + 2), np.uint8), sight.classes, sight.forecaster
    table = None
    if forecaster is not None:
        table = empty_table(rows, 0, MOST_MACHINES * sight.capacity, forecaster.peak_units)
    for begin in range(0, count, AT_A_TIME):
        some = np.arange(begin, min(begin + AT_A_TIME, count))
        if classes is not None and sight.grid:
            label[0, some] = classes.label_table(windows[some], scenario.relabel_every)
        if forecaster is not None and table is not None:
            _foresee(forecaster, table, windows[some], length[some], some)
    label[label == 0] = 1  # never used: after the end
    ends = np.full(rows, slots + 1)  # of those that run, and of newcomers, nobody knows the end
    ends[observed.running : count] = length[observed.running :]
    known = np.concatenate([observed.node >= 0, np.zeros(SPARE, np.bool_)])
    start = np.full(rows, -1)
    start[:count] = begun
    machine = np.concatenate([observed.node, np.full(SPARE, -1)])
    names = np.array([*observed.pods, *[""] * SPARE], object)[None]
    blank = np.zeros((1, rows), np.int64)
    sequences = SequenceSet(
        resources=RESOURCES,
        workload_id=names,
        source_workload=names,
        source_slot=blank,
        arrival=blank,
        length=ends[None],
        demand=demand,
        request=request,
        label=label,
        classes=1 if classes is None else classes.k,
        load=0.0,
        forecast=table,
    )
    age = observed.sample_age + time.monotonic() - began
    now = replace(observed, usage=observed.usage[:, -1:].copy(), sample_age=age)
    return Prepared(now, expected, sequences, machine, np.where(known, start, -1), used)


def _unit(observed: Observed, sight: Sight) -> Float:
    """(2,) cores and bytes of a unit."""
    unit: Float = observed.capacity.max(axis=0) / sight.capacity
    return unit


def _rounded(units: Float, scenario: Scenario) -> Float:
    return quantise(units, scenario.peak_units) if scenario.quantise else np.maximum(units, 1e-6)


def _windows(observed: Observed, sight: Sight, demand: Float, length: Int, request: Float, before: Int) -> Windows:
    """Workloads as classifiers and forecasters see them; `before`: (n,) slots from their first one until now."""
    undeclared = np.full((len(length), 2), np.nan)  # priority and scheduling class
    clock = (observed.slot - before) * sight.scenario.step_seconds % DAY_SECONDS / DAY_SECONDS
    every = np.arange(len(length))
    metadata = np.concatenate([request, undeclared], axis=1)
    return Windows(demand, length, metadata, clock, np.full(len(length), UNSEEN), every)


def _filled(seen: Observed, expected: ExpectedDemand) -> tuple[Float, Int, Int]:
    """(N, H, 2) usage without gaps, and first and last slot (N,) of each pod, 0..H - 1.

    A gap has the value before it. A pod that was just placed counts with what is expected of it, as its usage is
    still rising in the metrics.
    """
    known: Mask = np.array(np.isfinite(seen.usage).any(axis=2))
    slots = known.shape[1]
    known[: seen.running, -1] = True
    first, last = known.argmax(axis=1), slots - 1 - known[:, ::-1].argmax(axis=1)
    usage = seen.usage.copy()
    young = np.flatnonzero(first[: seen.running] > slots - 1 - YOUNG)
    for i in young:
        usage[i, -1] = np.fmax(usage[i, -1], expected.of(seen.owner[i], seen.request[i]))
    for d in range(usage.shape[2]):
        filled = np.where(np.isfinite(usage[:, :, d]), np.arange(slots), -1)
        source = np.maximum.accumulate(filled, axis=1)
        value = np.take_along_axis(usage[:, :, d], np.maximum(source, 0), axis=1)
        usage[:, :, d] = np.where(source >= 0, value, 0.0)
    return usage, first, last


def _foresee(forecaster: Forecaster, table: ForecastTable, windows: Windows, seen: Int, rows: Int) -> None:
    """Write into `rows` (n,) of the table, as of now, what is forecast of n windows after `seen` (n,) slots."""
    found = scaled_forecasts(forecaster, Beginnings(windows, np.arange(len(windows)), seen))
    table.values[0, rows, 0, : found.shape[1]] = in_steps(table, found)


ASSUMED = np.array([0.1, 200 * 2**20])  # cores and bytes: what Kubernetes' scores assume where nothing is requested


class ExpectedDemand:
    """Usage to expect of a newcomer, from what runs now.

    1. What its replicas use now, on average.
    2. If none runs: its request, times what pods use of theirs now (the median, at most all of it).
    3. If it requests nothing: the median of all pods; in an empty cluster, what Kubernetes' scores assume.
    """

    def __init__(self, observed: Observed) -> None:
        now, count = observed.usage[:, -1], observed.running
        usage, request = now[:count], observed.request[:count]
        owners, member = np.unique(np.array(observed.owner[:count], object), return_inverse=True)
        begin = np.concatenate([[0], np.bincount(member, minlength=len(owners)).cumsum()]).tolist()
        self._usage = usage[np.argsort(member, kind="stable")]  # pods of an owner follow each other
        self._members = {owner: slice(begin[i], begin[i + 1]) for i, owner in enumerate(owners) if owner}
        share = np.divide(usage, request, out=np.full_like(usage, np.nan), where=request > 0)
        self._share = np.minimum(_median(share, np.ones(2)), 1.0)
        self._usual = _median(usage, ASSUMED)

    def of(self, owner: str, request: Float) -> Float:
        """(2,) cores and bytes, for a pod of that owner with that request (2,), NaN where there is none."""
        usage = self._usage[self._members.get(owner, slice(0))]
        known = np.isfinite(usage)
        total, count = np.where(known, usage, 0.0).sum(axis=0), known.sum(axis=0)
        replicas = np.divide(total, count, out=np.full(2, np.nan), where=count > 0)
        by_request = np.where(np.isnan(request), self._usual, request * self._share)
        found: Float = np.where(np.isnan(replicas), by_request, replicas)
        return found


def _median(values: Float, otherwise: Float) -> Float:
    """(2,) median of the rows that are known; `otherwise` (2,) where none is."""
    found = [np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else np.nan for column in values.T]
    return np.where(np.isnan(found), otherwise, found)
