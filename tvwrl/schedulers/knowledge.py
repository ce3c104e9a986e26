"""What a scheduler may know when it decides. Schedulers compete within their group."""

from __future__ import annotations

from typing import NamedTuple

GROUPS = (
    "current load and history",
    "declared request or lifetime peak",
    "demand forecasts",
    "demand forecasts and lifetime peaks",
    "the whole future",
)


class Knowledge(NamedTuple):
    """What a scheduler may know."""

    group: str  # one of GROUPS
    note: str  # the details, for tables


CURRENT_LOAD = Knowledge(GROUPS[0], "current load, and demand in a workload's first slot")
PEAKS = Knowledge(GROUPS[1], "peaks of running and waiting workloads")
REQUESTS = Knowledge(GROUPS[1], "requests of running and waiting workloads; their peaks where there are none")
PEAKS_AND_LENGTHS = Knowledge(GROUPS[1], f"{PEAKS.note}, and how long each will run")
FORECASTS = Knowledge(GROUPS[2], "forecasts of demand from requests, what was used so far and the time of day")
FORECASTS_AND_PEAKS = Knowledge(GROUPS[3], f"{FORECASTS.note}; {PEAKS.note}")
FUTURE = Knowledge(GROUPS[4], "the whole future (a reference)")


def knowing_no_more(group: str) -> tuple[str, ...]:
    """The groups whose schedulers know no more than those of `group`. Peaks do not include forecasts, nor forecasts
    peaks.

    >>> knowing_no_more("demand forecasts")
    ('current load and history', 'demand forecasts')
    """
    alone = group in GROUPS[1:3]
    return (GROUPS[0], group) if alone else GROUPS[: GROUPS.index(group) + 1]
