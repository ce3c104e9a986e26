"""Rules of a screen each: Tetris, Forecast-Fit, LRASched online, and those that remember what they did last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from tvwrl.forecasting import Forecast
from tvwrl.packing import fitness, fits, measure, room_now
from tvwrl.schedulers.base import Opinion, Scheduler, register, registered
from tvwrl.schedulers.head_of_queue import FilterAndScore, HeadOfQueue, best
from tvwrl.schedulers.knowledge import CURRENT_LOAD, FORECASTS, PEAKS, PEAKS_AND_LENGTHS, REQUESTS
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, Placement, Workload


@registered("Tetris")
class Tetris(Scheduler):
    """Of all visible (workload, machine) pairs with room for the peak, places the one with the highest alignment minus
    `epsilon` x the workload's remaining work.

    Alignment is the inner product of peak and unreserved capacity, both as shares of the machine's capacity. Remaining
    work is peak x duration, as a share of the most among those visible, so that both terms are of the order of 1.
    """

    name, knowledge = "tetris", PEAKS_AND_LENGTHS

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        waiting = list(pending)
        while waiting:
            scores = self._pair_scores(cluster, waiting)
            chosen, machine = np.unravel_index(scores.argmax(), scores.shape)
            if scores[chosen, machine] == -np.inf:
                return
            yield Placement(waiting.pop(int(chosen)), int(machine))

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion:
        """See `Scheduler.opinion`; the score is that of a workload that waits alone."""
        scores = self._pair_scores(cluster, [workload])[0]
        return Opinion(scores > -np.inf, scores, "score")

    def _pair_scores(self, cluster: Cluster, waiting: list[Workload]) -> Float:
        """(waiting, M), -inf where the peak finds no room."""
        reserved, capacity = cluster.reserved_peaks, cluster.capacity
        free = (capacity - reserved) / cluster.divisor
        share = np.array([w.peak for w in waiting])[:, None, :] / cluster.divisor
        work = np.array([(w.peak / capacity.max(axis=0)).sum() * w.length for w in waiting])
        scores = (share * free).sum(axis=2) - self.epsilon * (work / work.max())[:, None]
        room = np.array([room_now(reserved, w.peak, capacity) for w in waiting])
        return np.where(room, scores, -np.inf)


CAUTION = 1.0  # standard deviations; the best of 0.5 to 3 on validation sequences of all four real traces


@registered("Forecast-Fit")
class ForecastFit(FilterAndScore):
    """The head of the queue goes to the machine with the highest expected load.

    A machine passes if it has room now and, in every segment of the forecast, for the expected largest demand of all
    its workloads plus `caution` standard deviations. An idle machine passes if it has room now.
    """

    name, knowledge, needs_forecasts = "forecast-fit", FORECASTS, True

    def __init__(self, caution: float = CAUTION) -> None:
        self.caution = caution

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        load, spread = _expected(cluster, workload)
        quantile, capacity = load + self.caution * np.sqrt(spread), cluster.capacity[:, None]
        room: Mask = np.all(fits(quantile, capacity, capacity), axis=1)
        return room

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """Expected load of all segments and resources as a share of capacity."""
        fullness: Float = (_expected(cluster, workload)[0] / cluster.divisor[:, None]).mean(axis=(1, 2))
        return fullness


def _expected(cluster: Cluster, workload: Workload) -> tuple[Float, Float]:
    """(M, J, D) largest load in each segment, units, if the workload were placed there, and its variance."""
    resources = cluster.capacity.shape[1]
    together = Forecast(cluster.forecast + cluster.forecast_of(workload), resources)
    peak_units = cluster.simulation.scenario.peak_units
    return together.most * peak_units, together.spread * peak_units**2


class LRASched(Scheduler):
    """Workloads, in decreasing order of their measure (Eq. 20), go to the machine with room that has the highest
    fitness (Eq. 21), by peaks or by requests. A workload without room waits. Each is an application of one replica.
    """

    def __init__(self, by_request: bool = False) -> None:
        self.name, self._by_request = f"lrasched-{'request' if by_request else 'peak'}", by_request
        self.knowledge = REQUESTS if by_request else PEAKS

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        if not pending:
            return
        demand = np.array([cluster.request_of(w) if self._by_request else w.peak for w in pending])
        total, size = measure(demand)
        for i in np.argsort(-size, kind="stable").tolist():
            reserved = cluster.reserved_requests if self._by_request else cluster.reserved_peaks
            room = room_now(reserved, demand[i], cluster.capacity)
            machine = best(room, fitness(demand[i], total, cluster.capacity - reserved))
            if machine is not None:
                yield Placement(pending[i], machine)


register(LRASched, "lrasched-peak", PEAKS, "LRASched, peaks")
register(partial(LRASched, by_request=True), "lrasched-request", REQUESTS, "LRASched, requests")


@registered("Random")
class Random(HeadOfQueue):
    """A random machine among those with room now."""

    name, knowledge = "random", CURRENT_LOAD

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Take the episode's random stream."""
        self._rng = rng

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        machines = np.flatnonzero(cluster.room_now(workload))
        return int(self._rng.choice(machines)) if len(machines) else None


@registered("Round-robin")
class RoundRobin(HeadOfQueue):
    """The next machine in turn among those with room now."""

    name, knowledge = "round-robin", CURRENT_LOAD

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Start with machine 0."""
        self._turn = 0

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        count = len(cluster.machines)
        turns = (self._turn + np.arange(count)) % count
        machines = turns[cluster.room_now(workload)[turns]]
        if not len(machines):
            return None
        self._turn = (int(machines[0]) + 1) % count
        return int(machines[0])
