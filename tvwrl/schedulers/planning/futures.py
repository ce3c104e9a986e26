"""Sampled futures: what runs and waits goes on as similar training workloads did; what arrives is as in training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import njit
from tvwrl.forecasting import Forecast
from tvwrl.packing import fits
from tvwrl.simulation import (
    ARRIVAL,
    ARRIVED,
    LENGTH,
    MACHINE,
    MACHINE_OVERSHOT,
    OVERSHOT,
    PLACED,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    START,
    WAITING,
    WAITS,
    Cluster,
    Demand,
    Simulation,
    Steps,
)
from tvwrl.types import Float, ForecastTable, Int, SequenceSet


@njit(_nrt=False)
def fill(
    demand: Float,
    forecast: Steps,
    which: Int,
    seen: Int,
    present: int,
    slot: Int,
    horizon: int,
    out_demand: Demand,
    out_forecast: Steps,
) -> None:
    """Write what training workloads needed, and their forecasts, from the last slot seen to the horizon.

    `demand`: (W, L, D) of all training workloads, `forecast`: (W, L + 1, K), or K = 0
    `which`: (F, n) training workloads and `seen`: (F, n) slots of them from which on they are needed
    `present`: how many of these are there; the others arrive in `slot` (F, n - present)
    `out_demand`: (F, N, L, D), `out_forecast`: (F, N, L + 1, K)
    """
    longest, columns = demand.shape[1], forecast.shape[2]
    for f in range(which.shape[0]):
        for i in range(which.shape[1]):
            if i >= present and slot[f, i - present] > 1 << 30:  # it does not arrive
                break
            w, first = which[f, i], seen[f, i]
            for k in range(first - 1, min(longest, first + horizon)):
                for d in range(demand.shape[2]):
                    out_demand[f, i, k, d] = demand[w, k, d]
            for k in range(first, min(longest, first + horizon) + 1 if columns else 0):
                for c in range(columns):
                    out_forecast[f, i, k, c] = forecast[w, k, c]


# Slots seen of training workloads that others are compared with. They are the same for all, so that among those that
# reach an age, lives of every length are as frequent as they should be.
AGES = np.unique(np.concatenate([np.arange(1, 13), np.geomspace(12, 10_000, 40).round()])).astype(np.int64)
SPARE = 8  # more candidates than are asked for, because those of the same series are left out
DIMENSIONS = 10  # principal components in which workloads are compared
SPREAD_WEIGHT, LAST_WEIGHT, PEAK_WEIGHT = 0.5, 2.0, 4.0  # of deviations, of the last demand seen, of known peaks


class Likeness:
    """Beginnings of training workloads, to find those most like the beginning of another workload.

    They are compared by their forecasts (`by_forecasts`), or by the demand seen so far; with `peaks` by lifetime peaks
    too.
    """

    def __init__(self, training: SequenceSet, units: float, by_forecasts: bool, peaks: bool) -> None:
        from scipy.spatial import KDTree

        self.peaks, self.by_forecasts, self._units = peaks, by_forecasts, units
        length = training.length
        self.workload, age = np.nonzero(length.ravel()[:, None] >= AGES)  # (m,) n-th of all workloads
        self.seen: Int = AGES[age]  # (m,) slots seen of it
        self._source = training.source_workload.ravel()[self.workload]
        row, workload = np.divmod(self.workload, length.shape[1])
        views = self._view(training, row, workload, self.seen)
        self._middle = views.mean(axis=0)
        self._axes: Float = np.linalg.svd(views - self._middle, full_matrices=False)[2][:DIMENSIONS].T
        places = (views - self._middle) @ self._axes
        # What has just begun goes on as others did from their first slot
        fresh, later = (np.flatnonzero(where) for where in (self.seen == 1, self.seen > 1))
        self._groups = [(rows, KDTree(places[rows])) for rows in (fresh, later if len(later) else fresh)]

    def nearest(self, sequences: SequenceSet, sequence: int, workloads: Int, seen: Int, count: int) -> Int:
        """(n, k <= count) numbers of beginnings, the most similar first, for workloads (n,) of which `seen` slots are.

        Never looks at their later demand. Beginnings of the same series come last.
        """
        row = np.full(len(workloads), sequence)
        places = (self._view(sequences, row, workloads, seen) - self._middle) @ self._axes
        more = min(count + SPARE, *(len(rows) for rows, _ in self._groups))
        found = np.zeros((len(workloads), more), np.int64)
        for some, (rows, tree) in zip((seen == 1, seen > 1), self._groups, strict=True):
            if some.any():
                found[some] = rows[tree.query(places[some], more)[1].reshape(-1, more)]
        own = self._source[found] == sequences.source_workload[sequence, workloads][:, None]
        order = np.argsort(own, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(found, order, axis=1)

    def _view(self, sequences: SequenceSet, row: Int, workload: Int, seen: Int) -> Float:
        """(m, F) what makes beginnings alike."""
        demand = sequences.demand[row, workload] / self._units
        known = np.where(np.arange(demand.shape[1])[:, None] < seen[:, None, None], demand, 0.0)
        last, most = LAST_WEIGHT * demand[np.arange(len(seen)), seen - 1], known.max(axis=1)
        if self.by_forecasts and sequences.forecast is not None:
            table = sequences.forecast
            forecast = Forecast(table.values[row, workload, seen].astype(np.float64) * table.steps, demand.shape[2])
            parts = [forecast.mean, forecast.most, forecast.peak, forecast.alive, last]
            parts += [SPREAD_WEIGHT * np.sqrt(part) for part in (forecast.spread, forecast.peak_spread)]
        else:
            parts = [last, known.sum(axis=1) / seen[:, None], most, np.log2(seen)[:, None] / 4]
        if self.peaks:
            peak = demand.max(axis=1)
            parts += [PEAK_WEIGHT * peak, PEAK_WEIGHT * (peak > most)]
        return np.concatenate([part.reshape(len(seen), -1) for part in parts], axis=1)


NEIGHBOURS = 32  # training workloads that a workload may go on like
NEVER = np.iinfo(np.int32).max  # arrival of what does not arrive


class Futures:
    """Futures of a cluster, as environments of a simulation from which `Replay` can roll out.

    In each of them, a workload that runs or waits is a training workload at a similar point of its life: what it needs
    now is true, what follows is the training workload's, and so are its forecasts. Arrivals are those of a training
    sequence from a random one on, without end. With known peaks, demand is cut at them.

    With a usage delay, usage is true up to the last measured slot, and the training workload's after that. The usage of
    workloads that left since is unknown, and is not guessed.

    `simulation`: the environments, `count` of them, for `horizon` slots; a scenario with `choose_from_queue` or without
    """

    def __init__(
        self,
        real: Simulation,
        training: SequenceSet,
        likeness: Likeness,
        count: int,
        horizon: int,
        choose_from_queue: bool = False,
    ) -> None:
        self._real, self._training, self._likeness, self._horizon = real, training, likeness, horizon
        self._late = real.scenario.usage_delay
        self._gaps = np.diff(training.arrival, axis=1, prepend=0)  # (S, N) slots since the arrival before
        _, self._each, longest, resources = training.demand.shape
        self._demand = np.ascontiguousarray(training.demand.reshape(-1, longest, resources))  # (W, L, D)
        self._length, self._peak = training.length.ravel(), self._demand.max(axis=1)
        table = training.forecast if likeness.by_forecasts else None
        self._forecast: Steps = np.zeros((1, 1, 0), np.uint8)
        if table is not None:
            self._forecast = table.values.reshape(-1, *table.values.shape[2:])
        scenario = replace(
            real.scenario, observe_forecast=False, observe_peak=False, choose_from_queue=choose_from_queue
        )
        blank = _blank(real.sequences, training, table, count, horizon)
        self.simulation = Simulation(
            blank, real.machines, scenario, count, grid=False, forecasts=table is not None, max_slots=0
        )
        self.simulation.state.counters[:, SEQUENCE] = np.arange(count)
        self.forget()

    def forget(self) -> None:
        """Begin an episode."""
        self._near: dict[int, tuple[int, Int]] = {}  # workload -> slots seen of it, beginnings like that

    def sample(self, cluster: Cluster, rng: np.random.Generator, count: int) -> None:
        """Make the first `count` environments futures of the cluster."""
        real, state, now = self._real.state, self.simulation.state, cluster.slot
        counters = real.counters[cluster.b]
        running = real.workloads[cluster.b, : counters[RUNNING], RUNS].astype(np.int64)
        present = np.concatenate([running, real.workloads[cluster.b, : counters[WAITING], WAITS]])
        age = np.ones(len(present), np.int64)  # slots seen, with what a waiting workload needs in its first
        age[: len(running)] += now - real.workloads[cluster.b, running, START]
        measured = np.maximum(age - self._late, 1)
        which, seen = self._go_on(int(counters[SEQUENCE]), present, measured, count, rng)
        # One that would be gone by now is in its last slot
        seen = np.minimum(seen + age - measured, self._length[which])
        coming, slot = self._arrivals(now, state.timing.shape[1] - len(present), count, rng)
        self._set_state(cluster, len(running), len(present), seen, count)

        every = np.concatenate([which, coming], axis=1)
        since = np.concatenate([np.maximum(seen - self._late, 1), np.ones_like(coming)], axis=1)
        state.timing[:count, :, ARRIVAL] = NEVER
        state.timing[:count, : len(present), ARRIVAL] = 0
        state.timing[:count, len(present) : every.shape[1], ARRIVAL] = slot
        state.timing[:count, : every.shape[1], LENGTH] = self._length[every]
        ahead = self._horizon + self._late
        fill(self._demand, self._forecast, every, since, len(present), slot, ahead, state.demand, state.forecast)
        self._set_present(int(counters[SEQUENCE]), present, age, seen, count)
        self.simulation.peak[:count, len(present) : every.shape[1]] = self._peak[coming]
        if state.background.shape[1]:
            self._set_background(cluster, present[: len(running)], age[: len(running)], count, rng)
        if self._late:
            self._set_past(cluster, running, age[: len(running)], seen[:, : len(running)], count)

    def _go_on(self, sequence: int, present: Int, age: Int, count: int, rng: np.random.Generator) -> tuple[Int, Int]:
        """(count, n) training workloads that the n present ones go on like, and slots seen of them."""
        new = [i for i, w in enumerate(present.tolist()) if self._near.get(w, (0,))[0] != age[i]]
        if new:
            found = self._likeness.nearest(self._real.sequences, sequence, present[new], age[new], NEIGHBOURS)
            self._near |= {int(present[i]): (int(age[i]), rows) for i, rows in zip(new, found, strict=True)}
        near = np.array([self._near[w][1] for w in present.tolist()])  # (n, k)
        # Each neighbour as often as any other: the mean over futures then scatters less
        turns = np.tile(np.arange(near.shape[1]), (len(near), -(-count // near.shape[1])))
        rows = np.take_along_axis(near, rng.permuted(turns, axis=1)[:, :count], axis=1).T
        return self._likeness.workload[rows], self._likeness.seen[rows]

    def _arrivals(self, now: int, most: int, count: int, rng: np.random.Generator) -> tuple[Int, Int]:
        """(count, n) training workloads that arrive, and in which slots; `NEVER` after the horizon."""
        sequences = rng.integers(len(self._gaps), size=(count, 1))
        begin = rng.integers(self._each, size=(count, 1))
        following = (begin + np.arange(min(self._each, most))) % self._each
        slot = np.maximum(now + np.cumsum(self._gaps[sequences, following], axis=1), now + 1)
        return sequences * self._each + following, np.where(slot < now + self._horizon, slot, NEVER)

    def _set_state(self, cluster: Cluster, running: int, present: int, seen: Int, count: int) -> None:
        """Let workloads run and wait where and since when they do; those that run are numbered first."""
        state, waiting = self.simulation.state, present - running
        now, ran = cluster.slot, self._real.state.workloads[cluster.b]
        counters, workloads = state.counters[:count], state.workloads[:count]
        counters[:, SLOT], counters[:, ARRIVED], counters[:, WAITING], counters[:, RUNNING] = (
            now, present, waiting, running,
        )  # fmt: skip
        counters[:, PLACED] = self._real.state.counters[cluster.b, PLACED]
        order = ran[:running, RUNS]
        workloads[:, :running, RUNS] = np.arange(running)
        workloads[:, :running, MACHINE] = cluster.machine_after(order)
        workloads[:, :running, OVERSHOT] = ran[order, OVERSHOT]
        workloads[:, :running, START] = now - seen[:, :running] + 1
        workloads[:, :waiting, WAITS] = np.arange(running, present)
        state.machines[:count] = self._real.state.machines[cluster.b]

    def _set_past(self, cluster: Cluster, running: Int, age: Int, seen: Int, count: int) -> None:
        """Write the load of slots that are still to be seen, from the last measured one on, and known overshoots."""
        state, now = self.simulation.state, cluster.slot
        ring, machine = state.load[:count], self._real.state.workloads[cluster.b, running, MACHINE]
        ring[:, :, cluster.measured % ring.shape[2]] = cluster.load
        future, place = np.arange(count)[:, None], np.arange(len(running))
        for slot in range(cluster.measured + 1, now):
            back = now - slot
            row = np.zeros((count, ring.shape[1], ring.shape[3]))
            if state.background.shape[1]:
                row += state.background[:count, slot % state.background.shape[1]]
            ran = (age > back) & (seen > back)
            used = state.demand[future, place, np.maximum(seen - 1 - back, 0)] * ran[:, :, None]
            np.add.at(row, (future, machine), used)
            ring[:, :, slot % ring.shape[2]] = row
        by_workload, by_machine = known_overshoots(cluster, running)
        state.workloads[:count, : len(running), OVERSHOT] = by_workload
        state.machines[:count, :, MACHINE_OVERSHOT] = by_machine

    def _set_present(self, sequence: int, present: Int, age: Int, seen: Int, count: int) -> None:
        """Write what is known of the workloads that are there: what they needed last, their forecasts, their peaks."""
        state, real = self.simulation.state, self._real
        future, place = np.arange(count)[:, None], np.arange(len(present))
        if self._likeness.peaks:
            peaks = real.peak[sequence, present]
            self.simulation.peak[:count, : len(present)] = peaks
            own = state.demand[:count, : len(present)]
            np.minimum(own, peaks[:, None].astype(own.dtype), out=own)
        measured = np.maximum(age - self._late, 1)
        state.demand[future, place, np.maximum(seen - 1 - age + measured, 0)] = real.state.demand[
            sequence, present, measured - 1
        ]
        if state.forecast.shape[3]:
            table = real.sequences.forecast
            assert table is not None
            known = table.values[sequence, present, measured]
            lifetime = slice(-table.peaks.shape[1], None)
            state.forecast[:count, : len(present), :, lifetime] = known[:, None, lifetime]
            state.forecast[future, place, np.maximum(seen - self._late, 1)] = known
            state.forecast[:count, :, 0] = state.forecast[:count, :, 1]

    def _set_background(self, cluster: Cluster, running: Int, age: Int, count: int, rng: np.random.Generator) -> None:
        """Write the load of unknown origin: now what is measured, later that of training sequences."""
        background, training, now = self.simulation.state.background, self._training.background, cluster.slot
        background[:count] = 0
        if training is not None and training.shape[2:] == background.shape[2:]:
            later = (
                rng.integers(training.shape[1], size=(count, 1)) + np.arange(background.shape[1])
            ) % training.shape[1]
            background[:count] = training[rng.integers(len(training), size=(count, 1)), later]
        if self._late:
            return
        sequence = self._real.state.counters[cluster.b, SEQUENCE]
        rest = cluster.load.astype(np.float64)
        machine = self._real.state.workloads[cluster.b, running, MACHINE]
        np.subtract.at(rest, machine, self._real.state.demand[sequence, running, age - 1])
        background[:count, now % background.shape[1]] = np.round(rest).clip(0, 255)


def known_overshoots(cluster: Cluster, running: Int) -> tuple[Int, Int]:
    """Bits of the resources whose load has exceeded a machine's capacity by slot `cluster.measured`: for workloads
    `running` (n,) since they started, and for machines (M,)."""
    episode, end = cluster.simulation.record(cluster.b), max(cluster.measured + 1, 0)
    load = np.zeros((len(cluster.machines), end, cluster.capacity.shape[1]))
    if episode.background is not None:
        load += episode.background[np.arange(end) % len(episode.background)].swapaxes(0, 1)
    stays = [stay for stay in zip(*(part.tolist() for part in episode.stays()), strict=True) if stay[2] < end]
    for w, m, begin, until in stays:
        own = episode.demand[w][begin - episode.start[w] : min(until, end) - episode.start[w]]
        load[m, begin : begin + len(own)] += own
    capacity = cluster.capacity[:, None, :, None]
    bits = ~fits(load[..., None], capacity, capacity) @ (1 << np.arange(load.shape[2]))
    by_workload = np.zeros(len(episode.start), np.int64)
    for w, m, begin, until in stays:
        by_workload[w] |= np.bitwise_or.reduce(bits[m, begin:until])
    return by_workload[running], np.bitwise_or.reduce(bits, axis=1)


def _blank(
    real: SequenceSet, training: SequenceSet, table: ForecastTable | None, count: int, horizon: int
) -> SequenceSet:
    """Sequences with room for what is present and what arrives, to be overwritten."""
    places, longest, resources = real.arrival.shape[1] + training.arrival.shape[1], *training.demand.shape[2:]
    demand = np.zeros((count, places, longest, resources))
    if any((part.demand % 1).any() or part.demand.max() > 255 for part in (real, training)):
        demand[:] = 0.5  # whole units would be kept as small integers
    names: npt.NDArray[np.object_] = np.full((count, places), "", dtype=object)
    whole = np.ones((count, places), np.int64)
    background = None
    if real.background is not None:
        background = np.zeros((count, horizon, *real.background.shape[2:]), np.uint8)
    if table is not None:
        table = replace(table, values=np.zeros((count, places, longest + 1, len(table.steps)), np.uint8))
    return SequenceSet(
        resources=training.resources,
        workload_id=names,
        source_workload=names,
        source_slot=whole,
        arrival=whole,
        length=whole,
        demand=demand,
        request=np.full((count, places, resources), np.nan),
        label=np.ones((count, places, longest + 1), np.uint8),
        classes=1,
        load=training.load,
        forecast=table,
        background=background,
    )
