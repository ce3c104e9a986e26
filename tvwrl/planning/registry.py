"""Planners by name, and `plan`, which runs one."""

from __future__ import annotations

import re
import time
from typing import Any

from tvwrl.checks import hint
from tvwrl.planning.instance import Fleet, Instance, check_fits
from tvwrl.planning.lrasched import TwoPhase
from tvwrl.planning.measures import SCORES, SIZES, ByInput, BySize
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.plan import Plan
from tvwrl.planning.planners import (
    BestFit,
    BinSearch,
    Decrements,
    FewestCandidates,
    Filling,
    FirstFit,
    Matching,
    Planner,
    Progress,
    Search,
    Spreading,
    Strategy,
    Watch,
)
from tvwrl.types import InputError

SEARCHES = ("BinSearch", "Decr2", "Decr3", "Decr5")

ALGORITHMS = (
    *("FF", "BF", "WF"),
    *(f"{rule}-{size}" for rule in ("FFD", "BFD", "WFD") for size in SIZES),
    *("Medea-TP", "Medea-NC"),
    *("LRASched-Fitness" if score == "Fitness" else f"NCD-{score}" for score in SCORES),
    *(f"{rule}-{size}-{search}" for rule in ("SpreadWF", "SpreadWFD") for size in SIZES for search in SEARCHES),
    *(f"Matching-{score}-{search}" for score in SCORES for search in SEARCHES),
    *("LRASched", "LRASched-Search", "FFD-AntiAffinity"),
)

_SIZE = "|".join(SIZES)
_SCORE = "|".join(SCORES)
_SEARCH = r"(?P<search>BinSearch|Decr(?P<percent>[1-9]\d?))"
_HYBRID = r"(-Hybrid(?P<alpha>0(\.\d+)?|1(\.0+)?))?"
_FAMILIES = (
    r"(?P<rule>FF)",
    rf"(?P<rule>BF|WF)(-(?P<size>{_SIZE}))?",
    rf"(?P<rule>FFD|BFD|WFD)-(?P<size>{_SIZE}){_HYBRID}",
    r"(?P<rule>Medea-TP|Medea-NC)",
    rf"(?P<rule>NCD)-(?P<score>{_SCORE})",
    r"(?P<rule>LRASched)-(?P<score>Fitness)",
    rf"(?P<rule>SpreadWF)-(?P<size>{_SIZE})-{_SEARCH}",
    rf"(?P<rule>SpreadWFD)-(?P<size>{_SIZE}){_HYBRID}-{_SEARCH}",
    rf"(?P<rule>Matching)-(?P<score>{_SCORE})-{_SEARCH}",
    r"(?P<rule>LRASched)(-Fragment(?P<fragment>0(\.\d+)?|1(\.0+)?))?(-Batch(?P<batch>[1-9]\d*))?(-(?P<searched>Search))?",
    r"(?P<rule>FFD-AntiAffinity)(-Batch(?P<batch>[1-9]\d*))?",
)
_WORDS = ("size", "score", "search", "percent", "alpha", "fragment", "batch", "searched")


def planner(name: str) -> Planner:
    """The planner of a name: one of `ALGORITHMS`, or with another percentage (`SpreadWFD-Avg-Decr4`) or part of the
    order by affinity (Eq. 3 with alpha 0.5: `FFD-Avg-Hybrid0.5`). BF and WF measure machines by Avg unless they say
    otherwise (`WF-Max`). `LRASched-Fragment0.5-Batch50-Search`: machines that would be left a fragment lose half of
    their fitness, 50 applications are placed at a time, then a local search follows. Raises InputError for others.
    """
    found = next((match for family in _FAMILIES if (match := re.fullmatch(family, name))), None)
    if found is None:
        raise InputError(f"there is no algorithm '{name}': {hint(name, ALGORITHMS, list_all=True)}")
    words: dict[str, Any] = dict.fromkeys(_WORDS) | found.groupdict()
    rule, size = words["rule"], SIZES[words["size"] or "Avg"]
    by_largest = rule == "SpreadWFD" and size.power != 0.0  # as the published code does
    order = BySize(SIZES["Max"] if by_largest else size, float(words["alpha"] or 1)) if rule[-1] == "D" else ByInput()
    strategy: Strategy = Decrements(int(words["percent"])) if words["percent"] else BinSearch()
    if rule in ("FF", "FFD"):
        return FirstFit(order)
    if rule in ("BF", "BFD", "WF", "WFD"):
        return BestFit(order, size, emptiest_first=rule.startswith("W"))
    if rule == "Medea-TP":
        return FirstFit(BySize(size, alpha=0.0))
    if rule == "Medea-NC":
        return FewestCandidates()
    if words["score"] is None and rule in ("LRASched", "FFD-AntiAffinity"):
        batch, fragment = words["batch"] and int(words["batch"]), float(words["fragment"] or 0)
        return TwoPhase(batch, None, fragment, rule == "FFD-AntiAffinity", words["searched"] is not None)
    if rule in ("NCD", "LRASched"):
        return Filling(SCORES[words["score"]])
    if rule == "Matching":
        return Search(Matching(SCORES[words["score"]]), strategy)
    return Search(Spreading(order, size), strategy)


def plan(
    instance: Instance,
    fleet: Fleet,
    name: str,
    progress: Progress | None = None,
    deadline: float | None = None,
) -> Plan:
    """Place all replicas of an instance by the algorithm `name`, on as few machines as it can.

    On a fixed fleet that does not hold all replicas, it places as many as it can.

    Args:
        instance: what is to be placed; demand in the units of the fleet's capacity.
        fleet: machines, of as many resources as the instance has.
        name: one of `ALGORITHMS`, or a variant that `planner` describes.
        progress: called now and then with the share of the work that is done, 0 to 1.
        deadline: reading of time.monotonic() at which to stop: searches then return their best plan so far.

    Raises InputError if there is no such algorithm, if an application is larger than every machine, or if replicas are
    left over although the fleet is not fixed, since the machines without end are too small for them. Raises
    TimeoutError if the deadline passes before there is any plan.

    >>> instance = open_instance("small_500_threshold_d10_s103.csv.gz")  # doctest: +SKIP
    >>> plan(instance, Fleet.of([64, 128]), "FFD-Avg").machines  # of 64 cores and 128 GiB  # doctest: +SKIP
    """
    made, began = planner(name), time.process_time()
    check_fits(instance, fleet)
    problem = PackingProblem(instance, fleet)
    watch = Watch(progress, deadline)
    packing = made.pack(problem, watch)
    watch.report(1.0)
    problem.check_all_placed(packing)
    return problem.plan(name, packing, time.process_time() - began)
