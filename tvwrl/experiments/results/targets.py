"""Targets of an agent relative to schedulers that know no more, at one load of one trace: which of them it meets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.experiments.deeprm_baseline import DEEPRM
from tvwrl.experiments.statistics import NO_ESTIMATE, Estimate, with_interval
from tvwrl.experiments.tables import CEILING, FLOOR
from tvwrl.schedulers import FORECASTS, FORECASTS_AND_PEAKS, PEAKS, knowing_no_more
from tvwrl.types import Float

AGENT = "agent"
AGENTS: dict[str, dict[str, Any]] = {  # what they are shown differs so from the preset's scenario
    AGENT: {},
    "agent-history": {"observe_request": False, "observe_forecast": False, "choose_from_queue": False},
    "agent-peak": {"observe_forecast": False, "observe_peak": True},
    "agent-forecast-peak": {"observe_peak": True},
}
LEARNT = (*AGENTS, DEEPRM)
SAVED = 0.08  # of the best rival's cost
CLOSED = 0.4  # at least this share of the gap between FLOOR and CEILING
OVERSHOOT = 0.1  # at most, % of capacity, if peaks are known
OF_BEST_FIT = 0.2  # at most this share of best-fit's overshoot, if load, history and requests are all that is known
PATIENCE = 1.5  # waits at most this many times as long as FLOOR
DENSE = 0.5  # above this load workloads wait whatever a scheduler does

Measures = Mapping[str, Mapping[str, Estimate]]  # scheduler -> column of the rows -> estimate


@dataclass(frozen=True)
class Target:
    """What an agent should reach, and whether it does."""

    title: str
    met: bool | None  # None: no target here, or it cannot be decided
    evidence: str  # the figures behind it

    @property
    def answer(self) -> str:
        """yes, no, or a dash."""
        return {True: "yes", False: "no", None: "-"}[self.met]


def rivals(measures: Measures, knowledge: Mapping[str, str], agent: str) -> list[str]:
    """The other schedulers that know no more than the agent and left no workload unplaced; `knowledge`: the group of
    every scheduler."""
    groups = knowing_no_more(knowledge[agent])
    able = [name for name in measures if name not in AGENTS and knowledge[name] in groups]
    return [name for name in able if not measures[name]["unplaced"].mean]


def best_rival(measures: Measures, knowledge: Mapping[str, str], agent: str) -> str:
    """The one of `rivals` with the highest mean reward; empty if there is none."""
    return max(rivals(measures, knowledge, agent), key=lambda name: measures[name]["reward"].mean, default="")


def cost_saved(measures: Measures, scheduler: str, other: str) -> Estimate:
    """Share of the other's cost, the reward with its sign changed, that a scheduler saves."""
    if not {scheduler, other} <= measures.keys():
        return NO_ESTIMATE
    its = measures[other]["reward"]
    return (its - measures[scheduler]["reward"]) / its


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

    Means decide; only "significantly better" is decided by the paired 95 % interval. An agent that leaves workloads
    unplaced has no means, and meets none.
    """
    found = [
        _above(measures, agent, rivals(measures, knowledge, agent)),
        _saved(measures, agent, best_rival(measures, knowledge, agent)),
        _overshoot(measures, knowledge, agent),
        _wait(measures, agent, load),
        _gap(measures, knowledge, agent),
    ]
    left = measures[agent]["unplaced"].mean
    if not left:
        return found
    note = f"it left {left:.2f} workloads unplaced per episode: "
    return [Target(one.title, None if one.met is None else False, note + one.evidence) for one in found]


def shown(found: Estimate, decimals: int = 2, scale: float = 1.0, sign: str = "") -> str:
    """Mean [interval], or a dash."""
    return with_interval(found.mean, found.interval, decimals, sign, scale)


def slots_gap(load: float) -> str:
    """The column with the distance of machine slots to the bound that holds at a load: above `DENSE` workloads wait."""
    return "slots_gap_waiting_pct" if load > DENSE else "slots_gap_pct"


def _above(measures: Measures, agent: str, others: list[str]) -> Target:
    """Paired difference in reward above zero, interval and all, against each of them."""
    title = "significantly better than every scheduler that knows no more"
    if not others:
        return Target(title, None, "there is no other")
    found = {name: measures[agent]["reward"] - measures[name]["reward"] for name in others}
    failed = {name: one for name, one in found.items() if not one.interval[0] > 0}
    nearest = min(found, key=lambda name: found[name].mean)
    named = failed or {nearest: found[nearest]}
    evidence = ", ".join(f"{shown(one, scale=0.001, sign='+')} thousand against {name}" for name, one in named.items())
    return Target(title, not failed, ("not significantly: " if failed else "smallest lead: ") + evidence)


def _saved(measures: Measures, agent: str, best: str) -> Target:
    saved = cost_saved(measures, agent, best)
    undecided = np.isnan(saved.mean) and _has_reward(measures, agent)
    met = None if undecided or not best else bool(saved.mean >= SAVED)
    title = f"at least {SAVED:.0%} less cost than the best of them"
    return Target(title, met, f"{shown(saved, 1, 100)} % less than {best}" if best else "there is no other")


def _overshoot(measures: Measures, knowledge: Mapping[str, str], agent: str) -> Target:
    mine, group = measures[agent]["overshoot_pct"], knowledge[agent]
    if group in (PEAKS.group, FORECASTS_AND_PEAKS.group):
        return Target(f"overshoot at most {OVERSHOOT:g} %", mine.mean <= OVERSHOOT, f"{shown(mine, 3)} %")
    share, other = (1.0, "expected-cost") if group == FORECASTS.group else (OF_BEST_FIT, "best-fit")
    title = f"overshoot at most {share:g} x {other}'s"
    if other not in measures:
        return Target(title, None, f"{other} is missing")
    its = measures[other]["overshoot_pct"]
    evidence = f"{shown(mine, 3)} % against {shown(its, 3)} %, {shown(mine / its)} x"
    return Target(title, mine.mean <= share * its.mean, evidence)


def _wait(measures: Measures, agent: str, load: float) -> Target:
    title = f"mean wait at most {PATIENCE:g} x {FLOOR}'s"
    if FLOOR not in measures:
        return Target(title, None, f"{FLOOR} is missing")
    mine, its = measures[agent]["wait_mean"], measures[FLOOR]["wait_mean"]
    evidence = f"{shown(mine)} slots against {shown(its)}"
    if load > DENSE:
        return Target(title, None, f"no target at this load; {evidence}")
    return Target(title, mine.mean <= PATIENCE * its.mean, evidence)


def _gap(measures: Measures, knowledge: Mapping[str, str], agent: str) -> Target:
    """A target only for agents that know what `FLOOR` knows."""
    closed = gap_closed(measures, agent)
    undecided = np.isnan(closed.mean) and _has_reward(measures, agent)
    asked = PEAKS.group in knowing_no_more(knowledge[agent]) and not undecided
    title = f"at least {CLOSED:.0%} of the gap from {FLOOR} to {CEILING} closed"
    return Target(title, bool(closed.mean >= CLOSED) if asked else None, f"{shown(closed, 0, 100)} %")


def _has_reward(measures: Measures, agent: str) -> bool:
    return not np.isnan(measures[agent]["reward"].mean)
