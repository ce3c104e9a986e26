"""The registered schedulers by name, with what each may know."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tvwrl.schedulers import scores
from tvwrl.schedulers.base import Greedy, Scheduler
from tvwrl.schedulers.expected_cost import ExpectedCost
from tvwrl.schedulers.forecast_fit import ForecastFit
from tvwrl.schedulers.lrasched import LRASched
from tvwrl.schedulers.simple import Random, RiskBalancing, RoundRobin
from tvwrl.schedulers.tetris import Tetris
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import InputError

# Knowledge decides what is possible: schedulers compete within their group
GROUPS = ("current load and history", "declared request or lifetime peak", "class forecasts", "the whole future")


class Knowledge(NamedTuple):
    """What a scheduler may know."""

    group: str  # one of GROUPS
    note: str  # exactly


NOW = Knowledge(GROUPS[0], "current load, and demand in a workload's first slot")
PEAKS = Knowledge(GROUPS[1], "peaks of running and waiting workloads")
REQUESTS = PEAKS._replace(note="requests of running and waiting workloads; their peaks where there are none")
PEAKS_AND_LENGTHS = PEAKS._replace(note=f"{PEAKS.note}, and how long each will run")
EXPECTED = Knowledge(GROUPS[2], "forecasts of demand from classes, requests and what was used so far")
FUTURE = Knowledge(GROUPS[3], "the whole future (a reference)")

_SCHEDULERS: dict[str, tuple[Knowledge, Callable[[], Scheduler]]] = {
    "best-fit": (NOW, lambda: Greedy("best-fit", Cluster.room_now, scores.tightest_now)),
    "best-fit-peak": (PEAKS, lambda: Greedy("best-fit-peak", Cluster.room_for_peaks, scores.tightest_peaks)),
    "first-fit-peak": (PEAKS, lambda: Greedy("first-fit-peak", Cluster.room_for_peaks, scores.first)),
    "worst-fit-peak": (PEAKS, lambda: Greedy("worst-fit-peak", Cluster.room_for_peaks, scores.roomiest_peaks)),
    "lrasched-peak": (PEAKS, lambda: LRASched("lrasched-peak")),
    "lrasched-request": (REQUESTS, lambda: LRASched("lrasched-request", by_request=True)),
    "tetris": (PEAKS_AND_LENGTHS, Tetris),
    "random": (NOW, Random),
    "round-robin": (NOW, RoundRobin),
    "spread": (NOW, lambda: Greedy("spread", Cluster.room_now, scores.emptiest)),
    "stack": (NOW, lambda: Greedy("stack", Cluster.room_now, scores.fullest)),
    "stack-80": (NOW, lambda: Greedy("stack-80", Cluster.room_now, scores.fullest_to_a_limit)),
    "load-aware": (NOW, lambda: Greedy("load-aware", Cluster.room_now, scores.load_aware)),
    "target-load-packing": (
        NOW,
        lambda: Greedy("target-load-packing", Cluster.room_now, scores.target_load_packing),
    ),
    "risk-balancing": (NOW, RiskBalancing),
    "forecast-fit": (EXPECTED, ForecastFit),
    "expected-cost": (EXPECTED, ExpectedCost),
    "clairvoyant": (FUTURE, lambda: Greedy("clairvoyant", Cluster.room_ahead, scores.tightest_ahead)),
}

NAMES: tuple[str, ...] = tuple(_SCHEDULERS)
KNOWLEDGE: dict[str, Knowledge] = {name: knows for name, (knows, _) in _SCHEDULERS.items()}


def make_scheduler(name: str) -> Scheduler:
    """A new scheduler of that name. Raises InputError that lists the valid names."""
    if name not in _SCHEDULERS:
        raise InputError(f"unknown scheduler '{name}'; valid: {', '.join(NAMES)}")
    return _SCHEDULERS[name][1]()
