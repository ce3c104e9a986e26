"""Which training workloads were like one that runs or waits, at the same point of their lives."""

from __future__ import annotations

import numpy as np

from tvwrl.forecasting import Forecast
from tvwrl.types import Float, Int, SequenceSet

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
        nearest: Int = np.take_along_axis(found, order, axis=1)
        return nearest

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
