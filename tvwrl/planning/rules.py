"""The rules of the provisioning and LRASched papers by name."""

from __future__ import annotations

import re
from typing import Any

from tvwrl.checks import hint
from tvwrl.planning.lrasched import TwoPhase
from tvwrl.planning.measures import SCORES, SIZES, ByInput, BySize
from tvwrl.planning.planners import (
    BestFit,
    BinSearch,
    Decrements,
    FewestCandidates,
    Filling,
    FirstFit,
    Matching,
    Planner,
    Search,
    Spreading,
    Strategy,
)
from tvwrl.types import InputError

SEARCHES = ("BinSearch", "Decr2", "Decr3", "Decr5")

RULES = (
    *("FF", "BF", "WF"),
    *(f"{one}-{size}" for one in ("FFD", "BFD", "WFD") for size in SIZES),
    *("Medea-TP", "Medea-NC"),
    *("LRASched-Fitness" if score == "Fitness" else f"NCD-{score}" for score in SCORES),
    *(f"{one}-{size}-{search}" for one in ("SpreadWF", "SpreadWFD") for size in SIZES for search in SEARCHES),
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


def rule(name: str) -> Planner:
    """The rule of a name: one of `RULES`, or with another percentage (`SpreadWFD-Avg-Decr4`) or part of the
    order by affinity (Eq. 3 with alpha 0.5: `FFD-Avg-Hybrid0.5`). BF and WF measure machines by Avg unless they say
    otherwise (`WF-Max`). `LRASched-Fragment0.5-Batch50-Search`: machines that would be left a fragment lose half of
    their fitness, 50 applications are placed at a time, then a local search follows. Raises InputError for others.
    """
    found = next((match for family in _FAMILIES if (match := re.fullmatch(family, name))), None)
    if found is None:
        raise InputError(
            f"there is no planner '{name}': {hint(name, RULES, listed_by='tvwrl place --list-planners lists all')}"
        )
    words: dict[str, Any] = dict.fromkeys(_WORDS) | found.groupdict()
    kind, size = words["rule"], SIZES[words["size"] or "Avg"]
    by_largest = kind == "SpreadWFD" and size.power != 0.0  # as the published code does
    order = BySize(SIZES["Max"] if by_largest else size, float(words["alpha"] or 1)) if kind[-1] == "D" else ByInput()
    strategy: Strategy = Decrements(int(words["percent"])) if words["percent"] else BinSearch()
    if kind in ("FF", "FFD"):
        return FirstFit(order)
    if kind in ("BF", "BFD", "WF", "WFD"):
        return BestFit(order, size, emptiest_first=kind.startswith("W"))
    if kind == "Medea-TP":
        return FirstFit(BySize(size, alpha=0.0))
    if kind == "Medea-NC":
        return FewestCandidates()
    if words["score"] is None and kind in ("LRASched", "FFD-AntiAffinity"):
        batch, fragment = words["batch"] and int(words["batch"]), float(words["fragment"] or 0)
        return TwoPhase(batch, None, fragment, kind == "FFD-AntiAffinity", words["searched"] is not None)
    if kind in ("NCD", "LRASched"):
        return Filling(SCORES[words["score"]])
    if kind == "Matching":
        return Search(Matching(SCORES[words["score"]]), strategy)
    return Search(Spreading(order, size), strategy)
