"""What a scheduler may know when it decides. Schedulers compete within their group."""

from __future__ import annotations

from typing import NamedTuple

GROUPS = ("current load and history", "declared request or lifetime peak", "demand forecasts", "the whole future")


class Knowledge(NamedTuple):
    """What a scheduler may know."""

    group: str  # one of GROUPS, which are in order of rising knowledge
    note: str  # the details, for tables


CURRENT_LOAD = Knowledge(GROUPS[0], "current load, and demand in a workload's first slot")
PEAKS = Knowledge(GROUPS[1], "peaks of running and waiting workloads")
REQUESTS = Knowledge(GROUPS[1], "requests of running and waiting workloads; their peaks where there are none")
PEAKS_AND_LENGTHS = Knowledge(GROUPS[1], f"{PEAKS.note}, and how long each will run")
FORECASTS = Knowledge(GROUPS[2], "forecasts of demand from requests, what was used so far and the time of day")
FORECASTS_AND_PEAKS = Knowledge(GROUPS[2], f"{FORECASTS.note}; beyond its group {PEAKS.note}")
FUTURE = Knowledge(GROUPS[3], "the whole future (a reference)")
