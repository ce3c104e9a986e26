"""The explorer's page of plans: one HTML file that shows what is on every machine, and what limits a plan.

Everything that judges a plan (faults, reasons, limits that are reached, moves) is worked out here, by the code that
writes the tables; the page only adds up loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.explorer import shortened, write_explorer
from tvwrl.planning.instance import NO_LIMIT, Instance
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import NOWHERE, PlanningProblem
from tvwrl.planning.referee import judged, load_of, overloads
from tvwrl.planning.registry import title_of_planner
from tvwrl.planning.results import Result, Results, row_of
from tvwrl.planning.sources.open_problem import windowed
from tvwrl.types import Float, InputError, Int


@dataclass(frozen=True, eq=False)
class Moves:
    """N rows: so many replicas of an application leave one machine for another."""

    application: Int  # (N,)
    start: Int  # (N,) machine; NOWHERE: they did not run before
    end: Int  # (N,) machine; NOWHERE: the plan leaves them without one
    replicas: Int  # (N,) >= 1


def moves_between(running: Plan, plan: Plan) -> Moves:
    """From what runs to a plan, with as few moves as possible.

    Replicas of an application are alike: those that leave machines go in turn, by rising numbers, to where the plan has
    more of them. Moves are as many as the referee counts.
    """
    kinds = np.concatenate([running.application, plan.application])
    places = np.concatenate([running.machine, plan.machine])
    signed = np.concatenate([-running.replicas, plan.replicas])
    pairs, of = np.unique(np.column_stack([kinds, places]), axis=0, return_inverse=True)
    more = np.bincount(of.ravel(), weights=signed, minlength=len(pairs)).astype(np.int64)
    rows: list[tuple[int, int, int, int]] = []
    pairs, more = pairs[more != 0], more[more != 0]
    start = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))  # pairs are sorted by application
    for own in np.split(np.arange(len(pairs)), start[1:]) if len(pairs) else ():
        i, changes = int(pairs[own[0], 0]), [[int(pairs[k, 1]), int(more[k])] for k in own]
        gone, come = [[m, -n] for m, n in changes if n < 0], [[m, n] for m, n in changes if n > 0]
        while gone and come:
            count = min(gone[0][1], come[0][1])
            rows.append((i, gone[0][0], come[0][0], count))
            for side in (gone, come):
                side[0][1] -= count
                if not side[0][1]:
                    side.pop(0)
        rows += [(i, m, NOWHERE, n) for m, n in gone] + [(i, NOWHERE, m, n) for m, n in come]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Moves(table[:, 0], table[:, 1], table[:, 2], table[:, 3])


BLOCK = 2**21  # pairs looked at together


@dataclass(frozen=True, eq=False)
class ReachedLimits:
    """Affinity limits that are reached somewhere: L of the instance's arcs."""

    arc: Int  # (L,) index into the arcs of `Instance.affinity`
    machines: Int  # (L,) >= 1 machines with a replica of i that have as many of j as beside i there may be
    room: Int  # (L,) those of them with the capacity for one more replica of j, which is elsewhere or nowhere


def pairs_of(problem: PlanningProblem, plan: Plan) -> int:
    """How many combinations of a row of the plan and a limit of its application there are: the work to be done."""
    return int(np.diff(problem.instance.affinity.start)[plan.application].sum())


def reached_limits(problem: PlanningProblem, plan: Plan) -> ReachedLimits:
    """The limits that a plan reaches, by their index. Limits that it breaks are for the referee to tell.

    Room is what the machine's capacity leaves at all times; other limits, groups and blacklists may still be in the
    way.
    """
    instance, arcs = problem.instance, problem.instance.affinity
    used, at = np.unique(plan.machine, return_inverse=True)
    key = at.astype(np.int64) * len(instance) + plan.application
    order = np.argsort(key)
    key, count = key[order], plan.replicas[order]
    load = load_of(instance, plan, used)
    machines, room = np.zeros(len(arcs), np.int64), np.zeros(len(arcs), np.int64)
    for row, arc in _pairs(np.diff(arcs.start)[plan.application], arcs.start[plan.application]):
        j, m = arcs.to[arc].astype(np.int64), at[row]
        sought = m * len(instance) + j
        place = np.minimum(np.searchsorted(key, sought), len(key) - 1)
        there = np.where(key[place] == sought, count[place], 0)
        reached = there == arcs.limit[arc]
        machines += np.bincount(arc[reached], minlength=len(arcs))
        more = reached & (there < instance.replicas[j])
        open_to = _with_room(problem, used, load, m[more], j[more])
        room += np.bincount(arc[more][open_to], minlength=len(arcs))
    found = np.flatnonzero(machines)
    return ReachedLimits(found, machines[found], room[found])


def _pairs(size: Int, first: Int) -> Iterator[tuple[Int, Int]]:
    """Rows of the plan and the arcs of their applications, in blocks."""
    end = np.cumsum(size)
    begin = 0
    while begin < len(size):
        done = end[begin - 1] if begin else 0
        until = max(begin + 1, int(np.searchsorted(end, done + BLOCK, side="right")))
        row = np.repeat(np.arange(begin, until), size[begin:until])
        turn = np.arange(len(row)) - np.repeat(end[begin:until] - size[begin:until] - done, size[begin:until])
        yield row, first[row] + turn
        begin = until


def _with_room(problem: PlanningProblem, used: Int, load: Float, machine: Int, application: Int) -> Int:
    """Which of these pairs, machines by their place in `used`, have room beside `load` for one more replica."""
    from tvwrl.packing import fits

    instance, fleet = problem.instance, problem.fleet
    pair, of = np.unique(machine * len(instance) + application, return_inverse=True)
    m, i = np.divmod(pair, len(instance))
    capacity = fleet.capacity[np.minimum(used, len(fleet.capacity) - 1)]
    good = np.ones(len(pair), dtype=bool)
    steady = (instance.demand == instance.demand[:, :1]).all(axis=(0, 1))
    for h in range(instance.demand.shape[1]):
        some = np.flatnonzero(~steady if h else np.ones(len(steady), bool))  # what never changes is looked at once
        need, there = instance.demand[:, h, some], capacity[:, some]
        free = there - load[:, h, some]
        left = np.flatnonzero(good)
        good[left] = fits(need[i[left]], free[m[left]], there[m[left]])
    found: Int = np.flatnonzero(good[of.ravel()])
    return found


FILE = "explorer.html"
REASON = 300  # letters of a reason that are kept
STEPS = 2**16 - 1  # of demand, up to the largest of a resource
MOST_DEMANDS = 8_000_000  # numbers
MOST_TIMES = 400
MOST_ROWS = 1_000_000  # of all plans together, and of what runs
MOST_LIMITS = 500_000
MOST_LISTED = 3_000  # limits that are reached, and faults, of a plan
MOST_BARRED = 100_000
MOST_PAIRS = 25_000_000  # combinations of a row and a limit, for all plans together


@dataclass(frozen=True)
class Wording:
    """What the page of plans calls what it shows, where that is not planners, applications and machines.

    Parameters
    ----------
    words : tuple of (str, str)
        Patterns as of JavaScript, and what stands for what they match; one after the other.
    about : tuple of str
        Paragraphs on how to read the page.
    first : str
        The plan that is shown first.

    Examples
    --------
    >>> Wording((("machine", "node"),), ("Every column is a node.",), "afterwards").first
    'afterwards'
    """

    words: tuple[tuple[str, str], ...]
    about: tuple[str, ...]
    first: str


def explore(results: Results, file: Path, wording: Wording | None = None) -> None:
    """Write the page of all plans in `results` to `file`, whole or not at all.

    What would make it too large is left out, and the page says so. Raises InputError if not even the best plan can be
    shown.

    `wording`: what the page calls what it shows, and which plan is shown first; None: planners, and the best
    """
    if not results.made:
        raise InputError("there is no plan to show")
    best = results.best() if wording is None else results.made[wording.first]
    shown, left_out = _plans(results, best)
    problem = results.problem
    drawn, about_demand = _drawn(problem.instance)
    reached, about_limits = _reached(problem, shown)
    arcs, about_arcs = _arcs(problem.instance, reached)
    barred = problem.barred if len(problem.barred) <= MOST_BARRED else problem.barred[:0]
    if len(barred) < len(problem.barred):
        left_out.append(f"Blacklists: they have {len(problem.barred):,} pairs of an application and a machine.")
    index = {
        "version": 1,
        "kind": "plans",
        "title": shortened(problem.instance.name),
        "resources": list(problem.instance.resources),
        "times": drawn.demand.shape[1],
        "machines": _machines(problem, shown),
        "applications": _applications(problem, drawn),
        "limits": arcs,
        "groups": {name: getattr(problem.bundles, name) for name in ("start", "member", "count")},
        "blacklist": {"application": barred[:, 0], "machine": barred[:, 1]},
        "running": _rows(problem.running) if problem.running is not None else None,
        "bound": {
            "machines": None if results.bound is None else results.bound.machines,
            "cost": None if results.bound is None else results.bound.cost,
            "words": results.about_bound[:REASON],
        },
        "best": shown.index(best),
        "planners": [_planner(results, one) for one in shown],
        "words": [] if wording is None else wording.words,
        "about": [] if wording is None else wording.about,
        "single": wording is not None and bool((problem.instance.replicas == 1).all()),
        "left_out": [*left_out, *about_demand, *about_limits, *about_arcs],
    }
    write_explorer(file, index, _sequences(results, shown, reached, drawn))


def _plans(results: Results, best: Result) -> tuple[list[Result], list[str]]:
    """The best plan and as many others as there is room for, in their order; and the names of those without room."""
    running = results.problem.running
    rows = len(best.plan.application) + (0 if running is None else len(running.application))
    if rows > MOST_ROWS:
        raise InputError(
            f"the explorer shows {MOST_ROWS:,} pairs of an application and a machine at most: "
            f"the plan of {best.plan.algorithm} has {rows:,}"
        )
    shown, without = [], []
    for one in results.made.values():
        more = 0 if one is best else len(one.plan.application)
        if rows + more <= MOST_ROWS:
            rows += more
            shown.append(one)
        else:
            without.append(one.plan.algorithm)
    return shown, [f"The plans of {', '.join(without)}: all plans together would be too large."] if without else []


def _drawn(instance: Instance) -> tuple[Instance, list[str]]:
    """The instance with as many times as can be shown."""
    had = instance.demand.shape[1]
    times = max(2, min(MOST_TIMES, MOST_DEMANDS // (len(instance) * len(instance.resources))))
    if times >= had:
        return instance, []
    words = f"Times: {had:,} are shown as {times} windows, each with the largest demand of every application in it."
    return windowed(instance, times), [f"{words} Loads that are added up from these can be higher than they ever are."]


def _reached(problem: PlanningProblem, shown: list[Result]) -> tuple[list[ReachedLimits | None], list[str]]:
    """For each plan the limits that it reaches, or None where that would take too long."""
    found: list[ReachedLimits | None] = []
    left = MOST_PAIRS
    for one in shown:
        left -= (pairs := pairs_of(problem, one.plan))
        found.append(reached_limits(problem, one.plan) if left >= 0 else None)
        left += 0 if left >= 0 else pairs
    without = [one.plan.algorithm for one, limits in zip(shown, found, strict=True) if limits is None]
    words = f"Which affinity limits bind in the plans of {', '.join(without)}: there are too many limits to check."
    return found, [words] if without else []


def _arcs(instance: Instance, reached: list[ReachedLimits | None]) -> tuple[dict[str, Any], list[str]]:
    """The affinity limits: all, or those that bind most."""
    arcs, left_out = instance.affinity, []
    arc = np.arange(len(arcs))
    if len(arcs) > MOST_LIMITS:
        often = np.zeros(len(arcs), np.int64)
        for one in reached:
            if one is not None:
                often[one.arc] += one.room * len(instance) + one.machines
        arc = np.sort(np.argsort(-often, kind="stable")[:MOST_LIMITS])
        left_out = [f"{len(arcs) - MOST_LIMITS:,} of {len(arcs):,} affinity limits: those that bind the least."]
    return {"i": arcs.origin[arc], "j": arcs.to[arc], "limit": arcs.limit[arc]}, left_out


def _machines(problem: PlanningProblem, shown: list[Result]) -> dict[str, Any]:
    fleet, kinds = problem.fleet, Kinds.among(problem.fleet)
    plans = [one.plan for one in shown] + ([] if problem.running is None else [problem.running])
    count = max(len(fleet.capacity), *(int(plan.machine.max(initial=-1)) + 1 for plan in plans))
    names = [] if fleet.name is None else fleet.names_of(np.arange(count))
    few = [shortened(name) for name in names]
    return {
        "name": (few if len(set(few)) == len(names) else names) or None,  # None: numbers from 1
        "capacity": kinds.capacity,
        "cost": kinds.cost if fleet.cost is not None else None,
        "count": [int(most) if np.isfinite(most) else -1 for most in kinds.most],  # -1: as many as it takes
        "kind": kinds.of,
        "fixed": fleet.fixed,
    }


def _applications(problem: PlanningProblem, drawn: Instance) -> dict[str, Any]:
    """Names, replicas and demand; `demand` of a resource has a row of `code` for each different course over time."""
    instance = problem.instance
    own = instance.affinity.own.astype(np.int64)
    return {
        "name": [shortened(name) for name in instance.application],
        "replicas": instance.replicas,
        "own_limit": np.where(own == NO_LIMIT, -1, own),
        "pinned": np.flatnonzero(problem.pinned) if problem.pinned is not None else np.empty(0, np.int64),
        "demand": [_coded(drawn.demand[:, :, d]) for d in range(drawn.demand.shape[2])],
    }


def _coded(demand: Float) -> dict[str, Any]:
    """Demand (A, H) of a resource as whole numbers of `step`; a single column if it never changes.

    Numbers that are few are kept as they are: then `code` says which of `value`.
    """
    if (demand == demand[:, :1]).all():
        demand = demand[:, :1]
    course, of = np.unique(demand, axis=0, return_inverse=True)
    value, code = np.unique(course, return_inverse=True)
    if len(value) > STEPS:
        step = value[-1] / STEPS
        code, value = np.rint(course / step), np.arange(STEPS + 1) * step
    return {"of": of.ravel(), "code": code.reshape(course.shape).astype(np.int64), "value": value}


def _planner(results: Results, one: Result) -> dict[str, Any]:
    """What the table of planners says of one."""
    row, verdict = row_of(results.problem, results.bound, one), one.verdict
    return {
        "name": shortened(one.plan.algorithm),
        "title": shortened(title_of_planner(one.plan.algorithm)),
        "machines": verdict.machines,
        "cost": verdict.cost,
        "above_bound": None if row["above_bound_pct"] == "" else row["above_bound_pct"] / 100.0,
        "unplaced": verdict.missing,
        "moved": verdict.moved,
        "violations": verdict.violations,
        "seconds": row["seconds"],
    }


def _sequences(
    results: Results, shown: list[Result], reached: list[ReachedLimits | None], drawn: Instance
) -> Iterator[dict[str, Any]]:
    """For each planner what the page loads when it is chosen."""
    problem = results.problem
    listed = len(problem.fleet.capacity) if problem.fleet.fixed else 0
    left: dict[str, list[tuple[int, int, str]]] = {}
    number = {name: i for i, name in enumerate(problem.instance.application.tolist())}
    for row in results.unplaced():
        left.setdefault(row["planner"], []).append((number[row["application"]], row["replicas"], row["reason"]))
    for one, limits in zip(shown, reached, strict=True):
        tree = _rows(one.plan) | {"machines": max(listed, int(one.plan.machine.max(initial=-1)) + 1)}
        rows = left.get(one.plan.algorithm, [])
        reasons = list(dict.fromkeys(reason for _, _, reason in rows))
        tree["unplaced"] = {
            "application": np.array([i for i, _, _ in rows], dtype=np.int64),
            "replicas": np.array([n for _, n, _ in rows], dtype=np.int64),
            "reason": np.array([reasons.index(reason) for _, _, reason in rows], dtype=np.int64),
            "reasons": [reason[:REASON] for reason in reasons],
        }
        tree |= {"binding": _binding(problem.instance, limits)}
        moves = None if problem.running is None else vars(moves_between(problem.running, one.plan))
        tree |= {"moves": moves, "faults": _faults(problem, one), "over": _over(problem, one, drawn)}
        yield tree


def _rows(plan: Any) -> dict[str, Any]:
    """Rows by application and machine."""
    order = np.lexsort((plan.machine, plan.application))
    return {name: getattr(plan, name)[order] for name in ("application", "machine", "replicas")}


def _binding(instance: Instance, limits: ReachedLimits | None) -> dict[str, Any] | None:
    """The limits that are reached on most machines where there would be room."""
    if limits is None:
        return None
    order = np.lexsort((limits.arc, -limits.machines, -limits.room))[:MOST_LISTED]
    arc = limits.arc[order]
    return {
        "i": instance.affinity.origin[arc],
        "j": instance.affinity.to[arc],
        "limit": instance.affinity.limit[arc],
        "machines": limits.machines[order],
        "room": limits.room[order],
        "all": len(limits.arc),
        "with_room": int((limits.room > 0).sum()),
    }


def _faults(problem: PlanningProblem, one: Result) -> dict[str, Any]:
    """Rules that the plan breaks, in the referee's words; there are none of most planners."""
    found = [] if one.verdict.feasible else [f for kind in judged(problem, one.plan)[1].values() for f in kind]
    kept = found[:MOST_LISTED]
    return {
        "machine": np.array([fault.machine for fault in kept], dtype=np.int64),
        "text": [fault.text[:REASON] for fault in kept],
        "all": len(found),
    }


def _over(problem: PlanningProblem, one: Result, drawn: Instance) -> Int:
    """(n, 3) machine, time that is shown and resource, where the load is above the capacity."""
    if not one.verdict.over_capacity:
        return np.zeros((0, 3), np.int64)
    used = np.unique(one.plan.machine)
    found = overloads(problem.fleet, used, load_of(problem.instance, one.plan, used))
    had, times = problem.instance.demand.shape[1], drawn.demand.shape[1]
    return np.unique(np.column_stack([used[found[:, 0]], found[:, 1] * times // had, found[:, 2]]), axis=0)
