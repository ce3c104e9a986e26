"""The targets of an agent relative to the heuristics, at one load of one trace, and whether it meets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.experiments.statistics import NO_ESTIMATE, Estimate, with_interval
from tvwrl.experiments.tables import CEILING, FLOOR
from tvwrl.experiments.training_cells import DEEPRM
from tvwrl.schedulers import GROUPS
from tvwrl.types import Float

AGENT = "agent"
AGENTS: dict[str, dict[str, Any]] = {  # what they are shown differs so from the preset's scenario
    AGENT: {},
    "agent-history": {"observe_request": False, "observe_forecast": False, "choose_from_queue": False},
    "agent-peak": {"observe_forecast": False, "observe_peak": True},
    "agent-forecast-peak": {"observe_peak": True},
}
LEARNT = (*AGENTS, DEEPRM)
MACHINES = 0.75  # at most this share of the machines that tetris uses
OVERSHOOT = 0.3  # at most, % of capacity
OF_BEST_FIT = 0.2  # at most this share of best-fit's overshoot
CLOSED = 0.5  # at least this share of the gap between FLOOR and CEILING
DENSE = 0.5  # above this load the offered load alone needs most of the machines

Measures = Mapping[str, Mapping[str, Estimate]]  # scheduler -> column of the rows -> estimate


@dataclass(frozen=True)
class Target:
    """What an agent should reach, and whether it does."""

    title: str
    met: bool | None  # None: not asked here, or it cannot be decided
    evidence: str  # the figures behind it

    @property
    def answer(self) -> str:
        """yes, no, or a dash."""
        return {True: "yes", False: "no", None: "-"}[self.met]


def gap_closed(measures: Measures, scheduler: str) -> Estimate:
    """How far the mean reward is on the way from `FLOOR` (0) to `CEILING` (1); NaN where that is not the higher one."""
    if not {FLOOR, CEILING, scheduler} <= measures.keys():
        return NO_ESTIMATE
    floor = measures[FLOOR]["reward"]
    way, whole = (measures[name]["reward"] - floor for name in (scheduler, CEILING))
    draws: Float = np.where(whole.draws > 0, whole.draws, np.nan)
    return way / Estimate(whole.mean if whole.mean > 0 else float("nan"), draws)


def of_another(measures: Measures, scheduler: str, other: str, column: str) -> Estimate:
    """Its mean as a share of another scheduler's; NaN if one of them is not there."""
    if not {scheduler, other} <= measures.keys():
        return NO_ESTIMATE
    return measures[scheduler][column] / measures[other][column]


def targets(measures: Measures, knowledge: Mapping[str, str], load: float, agent: str = AGENT) -> list[Target]:
    """All of them, for one of the `AGENTS`; `knowledge`: the group of every scheduler.

    Means decide, for rewards the paired 95 % interval. To be above all is only asked of those that see forecasts;
    where one of these knows more than forecasts (`beyond_forecasts`), that is stated.
    """
    own = [n for n in measures if n not in AGENTS and knowledge[n] == knowledge[agent]]
    blind = [n for n in measures if n not in AGENTS and n != CEILING]
    closed = gap_closed(measures, agent)
    aim = Target(f"at least half of the gap from {FLOOR} to {CEILING} closed", _at_least(closed.mean), shown(closed))
    found = [
        _above(f"above every scheduler of its own group ({knowledge[agent]})", measures, agent, own),
        _above("above every scheduler that does not know the future", measures, agent, blind),
        _machines(measures, agent, load),
        _overshoot(measures, agent),
        aim,
    ]
    if knowledge[agent] != GROUPS[2]:
        found[1] = Target(found[1].title, None, f"not asked of it; {found[1].evidence}")
    elif beyond := beyond_forecasts(agent):
        found[:2] = [Target(one.title, one.met, f"{beyond}: {one.evidence}") for one in found[:2]]
    left = measures[agent]["unplaced"].mean
    if not left:
        return found
    note = f"it left {left:.2f} workloads unplaced per episode: "
    return [Target(one.title, None if one.met is None else False, note + one.evidence) for one in found]


def beyond_forecasts(agent: str) -> str:
    """What an agent of the group of demand forecasts also knows, in words; "" if nothing."""
    seen = AGENTS[agent]
    peaks = seen.get("observe_peak", False) and seen.get("observe_forecast", True)
    return "it also knows lifetime peaks, beyond forecasts" if peaks else ""


def shown(found: Estimate, decimals: int = 2, scale: float = 1.0, sign: str = "") -> str:
    """Mean [interval], or a dash."""
    return with_interval(found.mean, found.interval, decimals, sign, scale)


def _at_least(share: float) -> bool | None:
    return None if np.isnan(share) else share >= CLOSED


def _above(title: str, measures: Measures, agent: str, others: list[str]) -> Target:
    """Paired difference in reward above zero, interval and all, against each of them."""
    if not others:
        return Target(title, None, "there is no other")
    found = {name: measures[agent]["reward"] - measures[name]["reward"] for name in others}
    failed = {name: one for name, one in found.items() if not one.interval[0] > 0}
    nearest = min(found, key=lambda name: found[name].mean)
    named = failed or {nearest: found[nearest]}
    evidence = ", ".join(f"{shown(one, scale=0.001, sign='+')} thousand against {name}" for name, one in named.items())
    return Target(title, not failed, ("not significantly: " if failed else "least: ") + evidence)


def _machines(measures: Measures, agent: str, load: float) -> Target:
    """Few machines without overshoot; where the load is high, how far from the bound it is."""
    title = f"at most {MACHINES:g} x tetris' machines with overshoot of at most {OVERSHOOT:g} %"
    used, over = of_another(measures, agent, "tetris", "machines_used"), measures[agent]["overshoot_pct"]
    met = None if np.isnan(used.mean) else used.mean <= MACHINES and over.mean <= OVERSHOOT
    evidence = f"{shown(used)} x, overshoot {shown(over, 3)} %"
    if load <= DENSE:
        return Target(title, met, evidence)
    bound = f"{shown(measures[agent][slots_gap(load)], 1)} % above the lower bound for schedules that wait"
    return Target(title, None, f"not asked at this load; {evidence}; machine slots {bound}")


def slots_gap(load: float) -> str:
    """The column with the distance of machine slots to the bound that holds at a load: above `DENSE` workloads wait."""
    return "slots_gap_waiting_pct" if load > DENSE else "slots_gap_pct"


def _overshoot(measures: Measures, agent: str) -> Target:
    title = f"overshoot at most {OF_BEST_FIT:g} x best-fit's"
    if "best-fit" not in measures:
        return Target(title, None, "best-fit is missing")
    mine, its = measures[agent]["overshoot_pct"], measures["best-fit"]["overshoot_pct"]
    evidence = f"{shown(mine, 3)} % against {shown(its, 3)} %, {shown(mine / its)} x"
    return Target(title, mine.mean <= OF_BEST_FIT * its.mean, evidence)
