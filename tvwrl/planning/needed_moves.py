"""Moves that a search is asked to keep few: whether there is anything to move, and how many moves there have to be."""

from __future__ import annotations

from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import broken_rules
from tvwrl.types import InputError

SHOWN = 3  # faults of what runs that a message names


def check_moves(problem: PlanningProblem, start: Plan | None, moves_cost: float, most_moves: int | None) -> None:
    """Raise InputError for limits on moves where nothing runs, or that no plan can keep because of rules that are
    broken by what runs.

    `start`: the plan that moves count from; None: what runs
    """
    start = start or problem.running
    if start is None:
        # Without an error the lower bound would be weaker, and nothing else would be different.
        for option, value in (("moves_cost", moves_cost or None), ("most_moves", most_moves)):
            if value is not None:
                raise InputError(
                    f"{option} is {value:g}, but nothing is known to run: say what runs in running.csv, in the folder "
                    f"of the instance, or with --running FILE; or leave {option} out"
                )
        return
    if most_moves is None:
        return
    least, why = must_move(problem, start)
    if least > most_moves:
        more = f"; and {len(why) - SHOWN:,} more" if len(why) > SHOWN else ""
        raise InputError(
            f"most_moves is {most_moves}, but what runs breaks rules, and only moves mend that: must be at least "
            f"{least}. {'; '.join(why[:SHOWN])}{more}"
        )


def must_move(problem: PlanningProblem, start: Plan) -> tuple[int, list[str]]:
    """How many replicas have to leave their machines at least, and why, by the rules that `start` breaks.

    On each machine: all that its blacklist names, and one if there is too much demand or too many for a limit. Parts of
    groups do not count: they can become whole by what comes.
    """
    faults = broken_rules(problem, start)
    by_machine: dict[int, int] = {}
    for fault in faults["barred"]:
        by_machine[fault.machine] = by_machine.get(fault.machine, 0) + fault.replicas
    for kind in ("over_capacity", "above_limits"):
        for fault in faults[kind]:
            by_machine.setdefault(fault.machine, 1)
    why = [fault.text for kind in ("barred", "above_limits", "over_capacity") for fault in faults[kind]]
    return sum(by_machine.values()), why
