"""Options of the search that `tvwrl provision` and `tvwrl place` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvwrl.planning import Plan, PlanningProblem, about_stopping, read_running
from tvwrl.progress import say


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What the search starts from, and what moves cost."""

    running: Path | None = None
    """Where replicas run now: a CSV with application, machine and replicas, or an earlier plan.csv or plan.parquet; it
    overrides the folder's running.csv. Where more run than an application has, those stop that are on machines with the
    fewest running replicas."""
    moves_cost: float = 0.0
    """With --running, running.csv or --improve: what moving a replica costs, in machines (or in the unit of their
    costs); the search then starts from there."""
    most_moves: int | None = None
    """With --running, running.csv or --improve: replicas that the search may move at most."""
    improve: Path | None = None
    """A plan.csv or plan.parquet of an earlier run for the search to improve."""
    searches: int = 1
    """Searches side by side, each in a process with a seed of its own; the best plan of any counts."""

    def plan_to_improve(self, problem: PlanningProblem) -> Plan | None:
        """The plan in `improve`."""
        if self.improve is None:
            return None
        plan, _ = read_running(self.improve, problem)
        for line in about_stopping(problem, plan):
            say(f"{self.improve}: {line}")
        return plan
