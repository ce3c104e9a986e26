"""The results folder of provisioning: plans that the referee passed, as `rows.csv` and `plan.parquet`."""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.markdown import markdown_table
from tvwrl.planning.admission import Admission
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.plan_file import write_plans
from tvwrl.planning.referee import Verdict, fragments, validate
from tvwrl.runs import whole_file

COLUMNS = ("instance", "algorithm", "machines", "lower_bound", "deviation_pct", "seconds", "peak_mb")
# More columns for fixed fleets: replicas on no machine, applications all of whose replicas are on machines, and
# machines left with less of some resource than the least that any application needs of it.
FIXED_COLUMNS = ("left_over", "placed_whole", "fragments")
PAUSE = 5.0  # least seconds between two writings
PAUSE_RATIO = 10.0  # least time between two writings, in multiples of what the last one took

MILP_ENDS = {
    "optimal": "MILP: solved; no plan is better",
    "time limit": "MILP: out of time; its row is the best plan so far, the bound is what it proved",
    "too large": "MILP: too large for memory; its row is the best plan so far",
}


@dataclass(frozen=True)
class Result:
    """A plan that the referee passed, its verdict, and the memory that planning took."""

    plan: Plan
    verdict: Verdict
    peak_mb: float  # largest memory of the process while it was made, MiB


class Results:
    """Plans of one instance and fleet: the latest of each algorithm, in the order in which algorithms first came."""

    def __init__(self, instance: Instance, fleet: Fleet, lower_bound: int, folder: Path) -> None:
        self.instance, self.fleet, self.lower_bound, self.folder = instance, fleet, lower_bound, folder
        self.made: dict[str, Result] = {}
        self.milp = ""  # how the integer programme ended, if it was asked for
        self.admitted: Admission | None = None  # what it found and proved for a fixed fleet
        self._waiting: dict[str, tuple[Plan, float]] = {}
        self._next = 0.0

    def add(self, plan: Plan, peak_mb: float) -> None:
        """Keep a plan, and write all plans if the last writing was long enough ago; else they wait for the next one.

        Args:
            plan: of this instance and fleet; it replaces an earlier one of the same algorithm.
            peak_mb: largest memory of the process while the plan was made, MiB.

        Raises RuntimeError if the referee finds that a plan to be written breaks a rule, which is a fault of its
        planner: that plan is not written.
        """
        self._waiting[plan.algorithm] = plan, peak_mb
        if time.monotonic() >= self._next:
            self.write()

    def write(self) -> None:
        """Write `rows.csv` and `plan.parquet`, each whole or not at all, if there is anything new.

        Raises RuntimeError as `add` does.
        """
        if not self._waiting:
            return
        begun = time.monotonic()
        for name in list(self._waiting):
            self.made[name] = validated(self.instance, self.fleet, *self._waiting[name])
            del self._waiting[name]
        write_plans([result.plan for result in self.made.values()], self.instance, self.folder / "plan.parquet")
        self.write_rows()
        now = time.monotonic()
        self._next = now + max(PAUSE, PAUSE_RATIO * (now - begun))

    def write_rows(self) -> None:
        """Write `rows.csv` alone, as when the lower bound has risen."""
        rows = self.rows()
        with whole_file(self.folder / "rows.csv") as partial, partial.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*COLUMNS, *(FIXED_COLUMNS if self.fleet.fixed else ())], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def rows(self) -> list[dict[str, Any]]:
        """One per plan, by column; see `row_of`."""
        return [self._row(result) for result in self.made.values()]

    def summary(self) -> str:
        """The rows as a Markdown table, how the integer programme ended, and the applications that lack a replica."""
        rows = self.rows()
        lines = [markdown_table(list(rows[0])[1:], [[str(value) for value in list(row.values())[1:]] for row in rows])]
        if (found := self.admitted) is not None:
            gap = f"gap {100 * found.gap:.1f} %"
            lines.append(f"MILP: worth {found.value:g}, at most {found.bound:g} is possible ({gap})")
        if self.milp:
            lines.append(MILP_ENDS[self.milp])
        for result in self.made.values():
            placed = np.bincount(result.plan.application, weights=result.plan.replicas, minlength=len(self.instance))
            names = [str(name) for name in self.instance.application[placed < self.instance.replicas]]
            if names:
                named = ", ".join(names[:10]) + ", ..." * (len(names) > 10)
                lines.append(f"{result.plan.algorithm}: not placed completely: {named}")
        return "\n".join(lines)

    def best(self) -> Result:
        """The one that leaves the fewest replicas over, on the fewest machines."""
        return min(self.made.values(), key=lambda result: (result.verdict.missing, result.plan.machines))

    def _row(self, result: Result) -> dict[str, Any]:
        row = row_of(self.instance, self.lower_bound, result)
        if not self.fleet.fixed:
            return row
        broken = fragments(self.instance, self.fleet, result.plan)
        return row | dict(zip(FIXED_COLUMNS, (result.verdict.missing, result.verdict.whole, broken), strict=True))


def validated(instance: Instance, fleet: Fleet, plan: Plan, peak_mb: float) -> Result:
    """The plan, renumbered by `without_gaps`, with the referee's verdict.

    `peak_mb`: as in `Result`. Raises RuntimeError, with the first fault, if the plan breaks a rule.
    """
    plan = without_gaps(plan, fleet)
    verdict = validate(instance, fleet, plan)
    if not verdict.feasible:
        raise RuntimeError(f"a plan of {plan.algorithm} breaks a rule: {verdict.examples[0]}")
    return Result(plan, verdict, peak_mb)


def row_of(instance: Instance, lower_bound: int, result: Result) -> dict[str, Any]:
    """`COLUMNS` of a result; `deviation_pct` is empty where replicas are on no machine."""
    machines = result.plan.machines
    return {
        "instance": instance.name,
        "algorithm": result.plan.algorithm,
        "machines": machines,
        "lower_bound": lower_bound,
        "deviation_pct": "" if result.verdict.missing else round(100.0 * (machines - lower_bound) / lower_bound, 4),
        "seconds": round(result.plan.seconds, 4),
        "peak_mb": round(result.peak_mb, 1),
    }


def without_gaps(plan: Plan, fleet: Fleet) -> Plan:
    """The same plan on machines numbered without gaps, where the fleet's are alike; else unchanged.

    Where machines differ, one that stays empty is still counted if a later one is used: they are opened in order.
    """
    if not (fleet.capacity == fleet.capacity[0]).all():
        return plan
    used, machine = np.unique(plan.machine, return_inverse=True)
    return replace(plan, machine=machine.astype(np.int64), machines=len(used))
