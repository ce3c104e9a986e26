"""The registered schedulers by name, with what each may know."""

from __future__ import annotations

from collections.abc import Callable

from tvwrl.schedulers import scores
from tvwrl.schedulers.base import Greedy, Scheduler
from tvwrl.schedulers.forecast_fit import ForecastFit
from tvwrl.schedulers.simple import Random, RoundRobin
from tvwrl.schedulers.tetris import Tetris
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import InputError

NOW = "current load, and demand in a workload's first slot"
EXPECTED = "forecasts of demand from classes, requests and what was used so far"
PEAKS, FUTURE = "peaks of running and waiting workloads", "the whole future (a reference)"

_SCHEDULERS: dict[str, tuple[str, Callable[[], Scheduler]]] = {
    "best-fit": (NOW, lambda: Greedy("best-fit", Cluster.room_now, scores.tightest_now)),
    "best-fit-peak": (PEAKS, lambda: Greedy("best-fit-peak", Cluster.room_for_peaks, scores.tightest_peaks)),
    "first-fit-peak": (PEAKS, lambda: Greedy("first-fit-peak", Cluster.room_for_peaks, scores.first)),
    "worst-fit-peak": (PEAKS, lambda: Greedy("worst-fit-peak", Cluster.room_for_peaks, scores.roomiest_peaks)),
    "tetris": (f"{PEAKS}, and how long each will run", Tetris),
    "random": (NOW, Random),
    "round-robin": (NOW, RoundRobin),
    "spread": (NOW, lambda: Greedy("spread", Cluster.room_now, scores.emptiest)),
    "stack": (NOW, lambda: Greedy("stack", Cluster.room_now, scores.fullest)),
    "forecast-fit": (EXPECTED, ForecastFit),
    "clairvoyant": (FUTURE, lambda: Greedy("clairvoyant", Cluster.room_ahead, scores.tightest_ahead)),
}

NAMES: tuple[str, ...] = tuple(_SCHEDULERS)
KNOWLEDGE: dict[str, str] = {name: knows for name, (knows, _) in _SCHEDULERS.items()}


def make_scheduler(name: str) -> Scheduler:
    """A new scheduler of that name. Raises InputError that lists the valid names."""
    if name not in _SCHEDULERS:
        raise InputError(f"unknown scheduler '{name}'; valid: {', '.join(NAMES)}")
    return _SCHEDULERS[name][1]()
