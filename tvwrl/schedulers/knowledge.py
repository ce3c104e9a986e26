"""What a scheduler may know when it decides. Schedulers compete within their group.

Real clusters know declared requests; no cluster knows true lifetime peaks, which lie in the future.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from tvwrl.simulation import Scenario
from tvwrl.types import InputError


class Foresight(Protocol):
    """What a forecaster says of what it looks at."""

    @property
    def uses_past(self) -> bool:
        """Whether it looks at what applications used before."""


class Knowledge(NamedTuple):
    """The knowledge that a scheduler decides by.

    Parameters
    ----------
    group : str
        One of `GROUPS`; schedulers compete within their group.
    note : str
        The details, for tables.

    Examples
    --------
    >>> Knowledge("current load and history", "current load").and_also("how long machines have been idle").note
    'current load; how long machines have been idle'
    """

    group: str
    note: str

    def and_also(self, more: str) -> Knowledge:
        """The same group, with one more detail in the note.

        Parameters
        ----------
        more : str
            What else it knows.
        """
        return Knowledge(self.group, f"{self.note}; {more}")


CURRENT_LOAD = Knowledge("current load and history", "current load, and demand in a workload's first slot")
REQUESTS = Knowledge(
    "declared requests",
    "requests of running and waiting workloads, and where they declare none, demand in their first slot times a factor "
    "from training workloads",
)
HISTORY_AND_REQUESTS = REQUESTS.and_also("what running ones have used since placement")
PEAKS = Knowledge("true lifetime peaks (a privilege)", "peaks of running and waiting workloads")
PEAKS_AND_LENGTHS = Knowledge(PEAKS.group, f"{PEAKS.note}, and how long each will run")
LEARNT_PEAKS_AND_LENGTHS = Knowledge(PEAKS.group, f"{PEAKS_AND_LENGTHS.note} (learnt)")  # DeepRM's
FORECASTS = Knowledge("demand forecasts", "forecasts of demand from requests, what was used so far and the time of day")
EARLIER = "what an application used before"
FORECASTS_AND_PAST = Knowledge("demand forecasts from earlier usage", f"{FORECASTS.note}, and {EARLIER} (`own_past`)")
FORECASTS_AND_PEAKS = Knowledge("demand forecasts and true lifetime peaks", f"{FORECASTS.note}; {PEAKS.note}")
FUTURE = Knowledge("the whole future", "the whole future (a reference)")

# Each knows more than those before it, but for these: neither peaks nor forecasts include the other
GROUPS = tuple(
    knowledge.group
    for knowledge in (CURRENT_LOAD, REQUESTS, PEAKS, FORECASTS, FORECASTS_AND_PAST, FORECASTS_AND_PEAKS, FUTURE)
)
NOT_INCLUDED = {
    (PEAKS.group, FORECASTS.group),
    (PEAKS.group, FORECASTS_AND_PAST.group),
    (FORECASTS_AND_PAST.group, FORECASTS_AND_PEAKS.group),
}


def knowing_no_more(group: str) -> tuple[str, ...]:
    """The groups that know no more than `group`, ending with itself.

    >>> knowing_no_more("demand forecasts")
    ('current load and history', 'declared requests', 'demand forecasts')
    """
    before = GROUPS[: GROUPS.index(group)]
    return (*(other for other in before if (other, group) not in NOT_INCLUDED), group)


def known_by(forecaster: Foresight | None, knowledge: Knowledge) -> Knowledge:
    """What a scheduler knows with a forecaster: forecasts rest on earlier usage if that looks at it.

    >>> known_by(None, FORECASTS).group
    'demand forecasts'
    """
    looks = forecaster is not None and forecaster.uses_past and EARLIER not in knowledge.note
    if not looks or knowledge.group not in (FORECASTS.group, FORECASTS_AND_PEAKS.group):
        return knowledge
    told = knowledge.and_also(EARLIER)
    return Knowledge(FORECASTS_AND_PAST.group, told.note) if knowledge.group == FORECASTS.group else told


def together(one: Knowledge, other: Knowledge) -> Knowledge:
    """What is known by a rule that places and a rule that moves, of which each knows one of the two.

    >>> together(PEAKS, FORECASTS).group
    'demand forecasts and true lifetime peaks'
    """
    more, less = sorted((one, other), key=lambda known: GROUPS.index(known.group), reverse=True)
    forecast = {more.group, less.group} & {FORECASTS.group, FORECASTS_AND_PAST.group}
    group = FORECASTS_AND_PEAKS.group if forecast and less.group == PEAKS.group else more.group
    return Knowledge(group, "; ".join(dict.fromkeys([*one.note.split("; "), *other.note.split("; ")])))


def knowledge_of(scenario: Scenario, forecaster: Foresight | None = None) -> Knowledge:
    """The knowledge of a policy that observes what the scenario shows, with the forecasts of a forecaster."""
    seen = [f"the last {scenario.history} slots of load"]
    shown = {
        "forecasts of demand": scenario.observe_forecast,
        "demand in a workload's first slot": scenario.observe_demand,
        "requests": scenario.observe_request,
        "true lifetime peaks": scenario.observe_peak,
    }
    seen += [what for what, is_shown in shown.items() if is_shown]
    if scenario.observe_forecast:
        like = FORECASTS_AND_PEAKS if scenario.observe_peak else FORECASTS
    else:
        like = PEAKS if scenario.observe_peak else REQUESTS if scenario.observe_request else CURRENT_LOAD
    return known_by(forecaster, Knowledge(like.group, f"classes, {', '.join(seen)} (learnt)"))


def stated_knowledge(scheduler: Any) -> Knowledge:
    """What a scheduler says that it knows. Raises InputError if it does not say, or names no group of `GROUPS`."""
    knowledge = getattr(scheduler, "knowledge", None)
    if isinstance(knowledge, Knowledge) and knowledge.group in GROUPS:
        return knowledge
    said = "does not say what it knows" if knowledge is None else f"has the knowledge {knowledge!r}"
    raise InputError(f"it {said}: set knowledge = CURRENT_LOAD (tvwrl.schedulers.knowledge)")
