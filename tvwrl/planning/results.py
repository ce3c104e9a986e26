"""The results folder of planning: plans that the referee passed, as `rows.csv`, `plan.csv` and `unplaced.csv`, and the
picture of what planners needed."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.markdown import markdown_table
from tvwrl.planning.admission import Admission
from tvwrl.planning.base import MILP, SEARCH
from tvwrl.planning.bounds_on_machines import PlanBound, about, exceeds_fleet
from tvwrl.planning.instance import Fleet, counted
from tvwrl.planning.kinds import rounding, slack
from tvwrl.planning.plan import Plan
from tvwrl.planning.plan_file import FILES, about_stopping, write_plans
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import Verdict, fragments, validate
from tvwrl.planning.registry import abilities, family_of, title_of_planner
from tvwrl.plotting import Panel, Point, Row, draw_estimates, ranked
from tvwrl.runs import whole_file

PAUSE = 5.0  # least seconds between two writings
PAUSE_RATIO = 10.0  # least time between two writings, in multiples of what the last one took
REASONS, NAMED = 20, 3  # reasons that are shown, and applications named with each
ABOVE, SECONDS = "Machines above bound, %", "Processor time, s"
BETTER = "lower is better"
SHORTEST = 1e-4  # seconds, to which times are rounded: what took none is drawn there
UNPLACED = ("planner", "application", "replicas", "reason")

HEADINGS = {
    "planner": "planner",
    "left_over": "left over",
    "placed_whole": "placed whole",
    "violations": "violations",
    "machines": "machines",
    "above_bound_pct": "above bound, %",
    "cost": "cost",
    "moved": "moved",
    "seconds": "s",
    "peak_mb": "MiB",
}

MILP_ENDS = {
    "time limit": "MILP: out of time; its row is the best plan so far, the bound is what it proved",
    "too large": "MILP: too large for memory; its row is the best plan so far",
}
TOO_FEW = (
    "not all replicas can be placed: no plan on the machines that there are places all of them without a violation, as "
    "was proved meanwhile"
)


@dataclass(frozen=True)
class Result:
    """A plan that the referee passed, its verdict, and the memory that planning took."""

    plan: Plan
    verdict: Verdict
    peak_mb: float  # largest memory of the process while it was made, MiB


class Results:
    """Plans of one problem: the latest of each planner, in the order in which planners first came.

    With `renumber`, machines that are alike are renumbered by `without_gaps`; where plans go on from another, the same
    number has to stay the same machine.
    """

    def __init__(
        self, problem: PlanningProblem, bound: PlanBound | None, about_bound: str, folder: Path, renumber: bool = True
    ) -> None:
        self.problem, self.bound, self.about_bound, self.folder = problem, bound, about_bound, folder
        self._renumber = renumber
        self.moves_cost = 0.0  # of each running replica that moves, which neither costs nor bounds include
        self.made: dict[str, Result] = {}
        self.milp = ""  # how the integer programme ended, if it was asked for
        self.admitted: Admission | None = None  # what it found and proved for a fixed fleet
        self._waiting: dict[str, tuple[Callable[[], Plan], float]] = {}
        self._next = 0.0

    @property
    def least_machines(self) -> int:
        """The lower bound, or 0 where no plan places all replicas."""
        return 0 if self.bound is None else self.bound.machines

    @property
    def _slack(self) -> float:
        """Difference between costs that is rounding."""
        return rounding(self.problem.fleet.costs, 0.0 if self.bound is None else self.bound.cost)

    def raise_bound(self, cost: float) -> None:
        """No plan of all replicas costs less (1 for each machine where there are no costs), as was proved meanwhile.

        More than a fixed fleet costs: then there is no such plan, and no bound any more.
        """
        if self.bound is None or cost <= self.bound.cost + self._slack:
            return
        if exceeds_fleet(self.problem, cost - self._slack):
            self.bound, self.about_bound = None, TOO_FEW if self.about_bound else ""
            return
        if self.problem.fleet.cost is None:
            machines = int(np.ceil(cost - self._slack))
            self.bound = replace(self.bound, machines=machines, cost=machines)
        else:
            self.bound = replace(self.bound, cost=cost)
        self.about_bound = about(self.problem, self.bound) if self.about_bound else ""

    def add(self, plan: Plan, peak_mb: float) -> None:
        """Keep a plan, and write all plans if the last writing was long enough ago; else they wait for the next one.

        Args:
            plan: of this problem; it replaces an earlier one of the same planner.
            peak_mb: largest memory of the process while the plan was made, MiB.

        Raises RuntimeError if the referee finds that a plan to be written breaks a rule, which is a fault of its
        planner: that plan is not written.
        """
        self.add_made(plan.algorithm, lambda: plan, peak_mb)

    def add_made(self, planner: str, made: Callable[[], Plan], peak_mb: float) -> None:
        """As `add`, for a plan that `made` makes once it is written."""
        self._waiting[planner] = made, peak_mb
        if time.monotonic() >= self._next:
            self.write()

    def write(self) -> None:
        """Write `rows.csv`, `plan.csv`, `plan.parquet` and `unplaced.csv`, each whole or not at all, if there is news.

        Raises RuntimeError as `add` does.
        """
        if not self._waiting:
            return
        begun = time.monotonic()
        for name in list(self._waiting):
            made, peak_mb = self._waiting[name]
            self.made[name] = validated(self.problem, made(), peak_mb, self._renumber)
            del self._waiting[name]
        plans = [result.plan for result in self.made.values()]
        for name in FILES:
            write_plans(plans, self.problem, self.folder / name)
        if self.problem.fleet.fixed:
            _write_csv(self.folder / "unplaced.csv", UNPLACED, list(self.unplaced()))
        self.write_rows()
        now = time.monotonic()
        self._next = now + max(PAUSE, PAUSE_RATIO * (now - begun))

    def write_rows(self) -> None:
        """Write `rows.csv` alone, as when the lower bound has risen."""
        rows = self.rows()
        _write_csv(self.folder / "rows.csv", tuple(rows[0]), rows)

    def rows(self) -> list[dict[str, Any]]:
        """One per plan, by column; see `row_of`."""
        return [row_of(self.problem, self.bound, result) for result in self.made.values()]

    def unplaced(self) -> Iterator[dict[str, Any]]:
        """A row for each planner and application with replicas on no machine: how many, and why."""
        instance = self.problem.instance
        for name, result in self.made.items():
            plan = result.plan
            left = instance.replicas - np.bincount(plan.application, plan.replicas, len(instance)).astype(np.int64)
            for i in np.flatnonzero(left > 0).tolist():
                row = name, str(instance.application[i]), int(left[i]), plan.reasons.get(i, "")
                yield dict(zip(UNPLACED, row, strict=True))

    def summary(self) -> str:
        """The rows as a Markdown table, how the integer programme ended, and why replicas have no machine."""
        rows = self.rows()
        shown = {name: title for name, title in HEADINGS.items() if name in rows[0]}
        if not any(row.get("violations") for row in rows):
            shown.pop("violations", None)
        digits = dict.fromkeys(shown, 4) | {"cost": 6}  # as many as in the sentences below
        lines = [markdown_table(list(shown.values()), [[_text(row[n], digits[n]) for n in shown] for row in rows])]
        if (found := self.admitted) is not None:
            gap = f"gap {100 * found.gap:.1f} %"
            lines.append(f"MILP: worth {found.value:g}, at most {found.bound:g} is possible ({gap}){self._as_one}")
        lines += [self._milp_ended()] if self.milp else []
        if self.moves_cost:
            line = f"a move costs {self.moves_cost:g}, which the table and the bound leave out"
            if self.problem.running is not None and self._renumber:  # else they count from a plan to improve
                of_each = (f"{self.moves_cost * one.verdict.moved:,.6g} for {name}" for name, one in self.made.items())
                line += f": {', '.join(of_each)}"
            lines.append(line)
        lines += about_stopping(self.problem, self.problem.running)
        listed = len(self.problem.fleet.capacity)
        if not self.problem.fleet.fixed and listed > 1:
            for name, one in self.made.items():
                if more := len(np.unique(one.plan.machine[one.plan.machine >= listed])):
                    what = f"{counted(more, 'machine')} beyond the {listed:,} listed, like the last of them"
                    lines.append(f"{name}: {what}")
        lines += [*self._reasons(), *([self.about_bound] if self.about_bound else [])]
        return "\n".join(lines)

    def _milp_ended(self) -> str:
        """How the integer programme ended, checked against all rows of the table."""
        if self.milp != "optimal":
            return MILP_ENDS[self.milp]
        mine = self.made[MILP].verdict
        good = {name: one.verdict for name, one in self.made.items() if not one.verdict.violations}
        if self.admitted is not None and self.admitted.plan.algorithm == MILP and mine.missing:
            whole = self._whole(self.made[MILP].plan)
            better = [name for name in good if self._whole(self.made[name].plan) > whole]
            claim = f"no plan places more than {counted(whole, 'application')} completely{self._as_one}"
            if self.admitted.fragment_weight:
                better, claim = [], f"no plan is worth more than {self.admitted.value:g}"
        else:
            cost = mine.cost - slack(self.problem.fleet.costs, mine.cost)
            better = [name for name, other in good.items() if not other.missing and other.cost < cost]
            what = f"costs less than {mine.cost:,.6g}"
            if self.problem.fleet.cost is None:
                what = f"uses fewer than {counted(mine.machines, 'machine')}"
            claim = f"no plan that places all replicas {what}"
        if better:  # it would be a fault in a planner, the referee or the solver
            return f"MILP: it ended as if its plan were the best, but {better[0]} is better: please report this"
        return f"MILP: solved; {claim}"

    @property
    def _as_one(self) -> str:
        """What the integer programme counts in another way than the column of applications that are placed whole."""
        return ", an affinity group counted as one application" if len(self.problem.bundles) else ""

    def _whole(self, plan: Plan) -> int:
        """Applications and groups that a plan places completely, each group counted as one."""
        replicas, merged = self.problem.instance.replicas, self.problem.merged
        placed = np.bincount(plan.application, plan.replicas, len(replicas)).astype(np.int64)
        whole = np.ones(len(merged.instance), dtype=bool)
        np.logical_and.at(whole, merged.vertex, placed == replicas)
        return int(whole.sum())

    def _reasons(self) -> list[str]:
        """Lines on unplaced replicas by planner and reason, the most frequent first."""
        left: dict[tuple[str, str], dict[str, int]] = {}
        for row in self.unplaced():
            left.setdefault((row["planner"], row["reason"]), {})[row["application"]] = row["replicas"]
        lines = []
        for (name, reason), applications in sorted(left.items(), key=lambda item: -sum(item[1].values()))[:REASONS]:
            first = ", ".join(f"'{application}'" for application in list(applications)[:NAMED])
            more = len(applications) - NAMED
            others = f" and {counted(more, 'other application')}" if more > 0 else ""
            because = f": {reason}" if reason else ""
            lines.append(f"{name}: without a machine: {sum(applications.values()):,} of {first}{others}{because}")
        more = len(left) - REASONS
        return lines + ([f"unplaced.csv has {counted(more, 'other reason')}"] if more > 0 else [])

    def best(self) -> Result:
        """The one that breaks the fewest rules, leaves the fewest replicas over, and costs the least."""
        return min(self.made.values(), key=lambda one: (one.verdict.violations, one.verdict.missing, one.verdict.cost))


def validated(problem: PlanningProblem, plan: Plan, peak_mb: float, renumber: bool = True) -> Result:
    """The plan, renumbered by `without_gaps` unless it is told not to, with the referee's verdict.

    `peak_mb`: as in `Result`. Raises RuntimeError, with the first fault, if the plan breaks a rule; limits and groups
    may be broken by planners that ignore them.
    """
    plan = without_gaps(plan, problem) if renumber else plan
    verdict = validate(problem, plan)
    ignores = plan.algorithm != MILP and not abilities(plan.algorithm).keeps_constraints
    if verdict.over_capacity or verdict.misplaced or (verdict.violations and not ignores):
        raise RuntimeError(f"a plan of {plan.algorithm} breaks a rule: {verdict.examples[0]}")
    return Result(plan, verdict, peak_mb)


def row_of(problem: PlanningProblem, bound: PlanBound | None, result: Result) -> dict[str, Any]:
    """What a table and `rows.csv` say of a result; `above_bound_pct` is empty where replicas are on no machine."""
    plan, verdict, fleet = result.plan, result.verdict, problem.fleet
    row: dict[str, Any] = {"instance": problem.instance.name, "planner": plan.algorithm, "machines": verdict.machines}
    least = float("nan") if bound is None else bound.cost
    row |= {"bound": "" if bound is None else bound.machines}
    known = bound is not None and not verdict.missing
    # Rounding may leave -0.0, which + 0.0 makes 0.0.
    row |= {"above_bound_pct": round(100.0 * (verdict.cost - least) / least, 4) + 0.0 if known else ""}
    if fleet.cost is not None:
        row |= {"cost": verdict.cost, "cost_bound": least}
    if fleet.fixed:
        broken = fragments(problem.instance, fleet, plan)
        row |= {"left_over": verdict.missing, "placed_whole": verdict.whole, "fragments": broken}
        row |= {"violations": verdict.violations, "above_limits": verdict.above_limits, "apart": verdict.apart}
    if problem.running is not None:
        row |= {"moved": verdict.moved}
    for d, resource in enumerate(problem.instance.resources[:2]):
        share = 100.0 * verdict.efficiency[:, d] if verdict.machines else np.zeros(1)
        low, high = np.percentile(share, (5, 95))
        row |= {f"{resource}_pct": round(float(share.mean()), 2), f"{resource}_low": round(float(low), 2)}
        row |= {f"{resource}_high": round(float(high), 2)}
    row |= {"migrations": plan.migrations, "seconds": round(plan.seconds, 4), "peak_mb": round(result.peak_mb, 1)}
    return row | {"details": json.dumps(plan.details, default=float)}


def without_gaps(plan: Plan, problem: PlanningProblem) -> Plan:
    """The same plan on machines numbered without gaps, where all machines are alike and none is told from another."""
    fleet: Fleet = problem.fleet
    if fleet.name is not None:
        return plan
    alike = bool((fleet.capacity == fleet.capacity[0]).all() and (fleet.costs == fleet.costs[0]).all())
    if not alike or problem.running is not None or len(problem.barred):
        return plan
    used, machine = np.unique(plan.machine, return_inverse=True)
    return replace(plan, machine=machine.astype(np.int64), machines=len(used))


def _write_csv(path: Path, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _text(value: object, digits: int) -> str:
    """Whole numbers with thousands separators, others with so many digits, a dash for nothing."""
    if value == "":
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if digits < 6 and abs(value) >= 1000 else f"{value:,.{digits}g}"


def rows_of(cost: Mapping[str, float], ours: Iterable[str]) -> list[Row]:
    """A row for each algorithm, by rising `cost` within its family, the family of the cheapest first.

    `ours`: names of those in the strong colour.
    """
    own = set(ours)
    rows = [Row(title_of_planner(name), family_of(name), name in own) for name in cost]
    families = [family_of(name) for name in sorted(cost, key=lambda name: cost[name])]
    return ranked(rows, {title_of_planner(name): value for name, value in cost.items()}, list(dict.fromkeys(families)))


def plot_trade_off(rows: list[dict[str, Any]], path: Path) -> None:
    """Deviation from the lower bound, and seconds, of every algorithm that placed all replicas of one instance."""
    rows = [row for row in rows if row["above_bound_pct"] != ""]
    if not rows:
        return
    names = {row["planner"]: title_of_planner(row["planner"]) for row in rows}
    above = {names[row["planner"]]: [Point(row["above_bound_pct"])] for row in rows}
    seconds = {names[row["planner"]]: [Point(max(row["seconds"], SHORTEST))] for row in rows}
    shown = rows_of({row["planner"]: row["above_bound_pct"] for row in rows}, [SEARCH])
    caption = f"{rows[0]['instance']}: lower bound {rows[0]['bound']:,} machines; {BETTER}"
    with whole_file(path) as partial:
        draw_estimates(
            partial, shown, [Panel(ABOVE, above), Panel(SECONDS, seconds, logarithmic=True)], caption=caption
        )
