"""The explorer's page of plans: one HTML file that shows what is on every machine, and what limits a plan.

Everything that judges a plan (faults, reasons, limits that are reached, moves) is worked out here, by the code that
writes the tables; the page only adds up loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.explorer import shortened, write_explorer
from tvwrl.planning.instance import NO_LIMIT, Instance
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.moves import moves_between
from tvwrl.planning.pictures import title_of_planner
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.reached_limits import ReachedLimits, pairs_of, reached_limits
from tvwrl.planning.referee import judged, load_of, overloads
from tvwrl.planning.results import Result, Results, row_of
from tvwrl.planning.sources.open_instance import windowed
from tvwrl.types import Float, InputError, Int

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


def explore(results: Results, file: Path) -> None:
    """Write the page of all plans in `results` to `file`, whole or not at all.

    What would make it too large is left out, and the page says so. Raises InputError if not even the best plan can be
    shown.
    """
    if not results.made:
        raise InputError("there is no plan to show")
    best = results.best()
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
        "bound": _bound(results),
        "best": shown.index(best),
        "planners": [_planner(results, one) for one in shown],
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
    count = max(len(fleet.capacity), *map(_open, plans))
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


def _open(plan: Plan) -> int:
    return int(plan.machine.max(initial=-1)) + 1


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


def _bound(results: Results) -> dict[str, Any]:
    bound = results.bound
    numbers = {"machines": None, "cost": None} if bound is None else {"machines": bound.machines, "cost": bound.cost}
    return numbers | {"words": results.about_bound[:REASON]}


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
    fleet_machines = len(problem.fleet.capacity) if problem.fleet.fixed else 0
    left: dict[str, list[tuple[int, int, str]]] = {}
    number = {name: i for i, name in enumerate(problem.instance.application.tolist())}
    for row in results.unplaced():
        left.setdefault(row["planner"], []).append((number[row["application"]], row["replicas"], row["reason"]))
    for one, limits in zip(shown, reached, strict=True):
        tree = _rows(one.plan) | {"machines": max(fleet_machines, _open(one.plan))}
        tree |= {"unplaced": _unplaced(left.get(one.plan.algorithm, []))}
        tree |= {"binding": _binding(problem.instance, limits)}
        tree |= {"moves": _moves(problem, one), "faults": _faults(problem, one), "over": _over(problem, one, drawn)}
        yield tree


def _rows(plan: Any) -> dict[str, Any]:
    """Rows by application and machine."""
    order = np.lexsort((plan.machine, plan.application))
    return {name: getattr(plan, name)[order] for name in ("application", "machine", "replicas")}


def _unplaced(rows: list[tuple[int, int, str]]) -> dict[str, Any]:
    reasons = {reason: k for k, reason in enumerate(dict.fromkeys(reason for _, _, reason in rows))}
    return {
        "application": np.array([i for i, _, _ in rows], dtype=np.int64),
        "replicas": np.array([n for _, n, _ in rows], dtype=np.int64),
        "reason": np.array([reasons[reason] for _, _, reason in rows], dtype=np.int64),
        "reasons": [reason[:REASON] for reason in reasons],
    }


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


def _moves(problem: PlanningProblem, one: Result) -> dict[str, Any] | None:
    if problem.running is None:
        return None
    moves = moves_between(problem.running, one.plan)
    names = "application", "start", "end", "replicas"
    return {name: getattr(moves, name) for name in names}


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
