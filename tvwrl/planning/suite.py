"""Runs planners on a problem, one after the other, with a progress bar, and measures what they take."""

from __future__ import annotations

import contextlib
import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.checks import at_least, different, positive, within
from tvwrl.planning.admission import Weights, admit
from tvwrl.planning.base import IMPROVED, MILP, SEARCH
from tvwrl.planning.best import PORTFOLIO, search
from tvwrl.planning.bounds_on_machines import bound_or_reason
from tvwrl.planning.instance import LARGEST, Affinity, Fleet, Instance, counted
from tvwrl.planning.merged import Merged
from tvwrl.planning.milp import MOST_APPLICATIONS, solve
from tvwrl.planning.plan import Plan
from tvwrl.planning.plan_file import stopping_in
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import broken_rules
from tvwrl.planning.registry import abilities, check_planner, make_plan
from tvwrl.planning.results import Results, plot_trade_off
from tvwrl.runs import check_new_folder, is_disk_full, provenance, write_json
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
    # On each machine all that its blacklist names must go, and one if there is too much demand or too many for a limit.
    # Parts of groups do not count: they can become whole by what comes.
    faults = broken_rules(problem, start)
    by_machine: dict[int, int] = {}
    for fault in faults["barred"]:
        by_machine[fault.machine] = by_machine.get(fault.machine, 0) + fault.replicas
    for kind in ("over_capacity", "above_limits"):
        for fault in faults[kind]:
            by_machine.setdefault(fault.machine, 1)
    least = sum(by_machine.values())
    why = [fault.text for kind in ("barred", "above_limits", "over_capacity") for fault in faults[kind]]
    if least > most_moves:
        more = f"; and {len(why) - SHOWN:,} more" if len(why) > SHOWN else ""
        raise InputError(
            f"most_moves is {most_moves}, but what runs breaks rules, and only moves mend that: must be at least "
            f"{least}. {'; '.join(why[:SHOWN])}{more}"
        )


BOUND_SHARE, BOUND_SECONDS = 0.2, 1.0  # of the time of a search, for the bound before it, and the least
WHOLE = "the integer programme places all replicas of an application or none, and chose others"
MOST_SEARCHES = 256  # side by side


@dataclass(frozen=True)
class Budget:
    """What planners may take. Raises InputError for values out of range."""

    seconds: float = 30.0  # >= 0, of each search; 0: first fit
    milp_seconds: float | None = None  # > 0: solve the integer programme too
    bound_seconds: float | None = 0.0  # >= 0, of the linear programme that raises the bound; None: no bound at all
    moves_cost: float = 0.0  # 0 to `LARGEST`, of a running replica that moves, in machines or in the unit of costs
    most_moves: int | None = None  # >= 0
    searches: int = 1  # 1 to `MOST_SEARCHES`, side by side, each in a process
    fragment_weight: float = 0.0  # >= 0, of the integer programme on a fixed fleet

    def __post_init__(self) -> None:
        at_least(0, seconds=self.seconds, bound_seconds=self.bound_seconds, most_moves=self.most_moves)
        within(0, LARGEST, moves_cost=self.moves_cost)
        within(1, MOST_SEARCHES, searches=self.searches)
        positive(milp_seconds=self.milp_seconds)
        Weights(1.0, self.fragment_weight)


def run_planners(
    problem: PlanningProblem,
    names: Sequence[str],
    out: Path,
    budget: Budget | None = None,
    seed: int = 0,
    start: Plan | None = None,
    facts: dict[str, Any] | None = None,
) -> Results:
    """Plan by every one of `names`, then by the integer programme if there is time for it.

    Writes `run.json` (with `facts`), `rows.csv`, `plan.csv`, `plan.parquet`, `trade-off.png` and, of a fixed fleet,
    `unplaced.csv` to the folder `out`, new or empty. Plans found before an interruption are kept there, with every
    improvement of the search. `start`: a plan for the search to go on from. Raises InputError for unknown or repeated
    names, planners that cannot plan for this problem, and an application that no machine holds, before anything is
    written.
    """
    budget = budget or Budget()
    _check(problem, names, budget, seed, start)
    check_new_folder(out)
    bound, about = None, ""
    if budget.bound_seconds is not None:
        until = time.monotonic() + max(BOUND_SHARE * budget.seconds, BOUND_SECONDS)
        bound, about = bound_or_reason(problem, budget.bound_seconds, until)
    results = Results(problem, bound, about, out, renumber=start is None)
    results.moves_cost = budget.moves_cost
    asked = {"planners": list(names), "seed": seed, "budget": vars(budget), "bounds": bound.each if bound else {}}
    asked |= {"about_bound": about}
    write_json(out / "run.json", provenance() | describe(problem) | asked | (facts or {}))
    try:
        _run(results, [*names, *[MILP] * (budget.milp_seconds is not None)], budget, seed, start)
        results.write()
    except BaseException as error:
        if not (isinstance(error, Exception) and is_disk_full(error)):
            results.write()
        elif not (out / "rows.csv").exists():  # not even the first plan could be written whole
            shutil.rmtree(out, ignore_errors=True)
        raise
    if results.admitted is not None:
        proved = {"status": results.milp, "value": results.admitted.value, "bound": results.admitted.bound}
        weight = budget.fragment_weight
        write_json(out / "admission.json", proved | {"gap": results.admitted.gap, "fragment_weight": weight})
    plot_trade_off(results.rows(), out / "trade-off.png")
    return results


def _run(results: Results, names: Sequence[str], budget: Budget, seed: int, start: Plan | None) -> None:
    bar_format = "{desc}: {percentage:3.0f}% |{bar}| {elapsed}{postfix}"
    problem = results.problem
    with tqdm(total=float(len(names)), bar_format=bar_format, disable=None, leave=False) as bar:
        for done, name in enumerate(names):
            if name != MILP:
                bar.set_description(f"{name}, compiling or loading")
                warm_up(problem, name)
            bar.set_description(name)

            def show(share: float, machines: int | None = None, done: int = done) -> None:
                """Progress of the planner on the bar: the share done, and machines so far if known."""
                if machines is not None:
                    bar.set_postfix_str(f"{machines} machines", refresh=False)
                bar.update(done + share - bar.n)

            if name == SEARCH:
                _add_searched(results, budget, seed, start, show)
            elif name == MILP:
                _add_milp(results, budget)
            else:
                results.add(*measured(problem, name, budget, seed, show))


def describe(problem: PlanningProblem) -> dict[str, Any]:
    """What run.json records about a problem."""
    instance, fleet = problem.instance, problem.fleet
    kinds, first, count = np.unique(fleet.capacity, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return {
        "instance": instance.name,
        "applications": len(instance),
        "replicas": int(instance.replicas.sum()),
        "times": instance.demand.shape[1],
        "resources": list(instance.resources),
        "limits": len(instance.affinity),
        "density": instance.density,
        "groups": len(problem.bundles),
        "machines": [{"capacity": kinds[i].tolist(), "count": int(count[i])} for i in order],
        "fixed": fleet.fixed,
    }


def title_of_problem(problem: PlanningProblem) -> str:
    """One line with the sizes of a problem."""
    instance, fleet = problem.instance, problem.fleet
    times = instance.demand.shape[1]
    parts = [counted(len(instance), "application"), counted(int(instance.replicas.sum()), "replica")]
    parts += [f"{times} times"] if times > 1 else []
    parts += [counted(len(fleet.capacity), "machine")] if fleet.fixed else []
    parts += [counted(len(instance.affinity), "limit")]
    for count, what in ((len(problem.bundles), "affinity group"), (len(problem.barred), "blacklisted pair")):
        parts += [counted(count, what)] if count else []
    if problem.running is not None:
        stop = sum(stopping_in(problem.running).values())
        parts.append(f"{counted(int(problem.running.replicas.sum()) + stop, 'replica')} running")
        parts += [f"of which {stop:,} stop{'s' * (stop == 1)}"] if stop else []
    return f"{instance.name}: {', '.join(parts)}"


def _check(
    problem: PlanningProblem, names: Sequence[str], budget: Budget, seed: int, start: Plan | None = None
) -> None:
    if names:
        different(planners=names)
    check_moves(problem, start, budget.moves_cost, budget.most_moves)
    for name in names:
        check_planner(name, problem)
    if budget.milp_seconds is not None and len(problem.instance) > MOST_APPLICATIONS:
        raise InputError(
            f"milp: the instance has {len(problem.instance)} applications: must be {MOST_APPLICATIONS} at most"
        )
    if budget.most_moves is not None:
        for name in [*names, *[MILP] * (budget.milp_seconds is not None)]:
            if name == MILP or not abilities(name).unlimited:
                raise InputError(
                    f"most_moves is {budget.most_moves}, but {name} places all replicas anew: use {SEARCH}"
                )
    if budget.milp_seconds is not None and budget.moves_cost:
        raise InputError(
            f"moves_cost is {budget.moves_cost:g}, but MILP places all replicas anew: leave one of them out"
        )
    if budget.milp_seconds is not None and problem.pinned is not None and problem.pinned.any():
        raise InputError(f"milp: it places all replicas anew, but some must not move: use {SEARCH}")
    at_least(0, seed=seed)
    if not names and budget.milp_seconds is None:
        raise InputError("the list of planners is empty")
    if not problem.fleet.fixed:
        problem.merged.check_all_fit()


def measured(
    problem: PlanningProblem,
    name: str,
    budget: Budget | None = None,
    seed: int = 0,
    show: Callable[..., None] | None = None,
    medea_seconds: float = 2.0,
) -> tuple[Plan, float]:
    """The plan of a planner, compiled before it is timed, and the most memory the process held meanwhile, MiB."""
    budget = budget or Budget()
    warm_up(problem, name)
    forget_peak()
    options: dict[str, Any] = {"seconds": budget.seconds}
    options |= {"moves_cost": budget.moves_cost, "most_moves": budget.most_moves, "searches": budget.searches}
    return make_plan(problem, name, seed=seed, medea_seconds=medea_seconds, progress=show, **options), peak_mb()


def _add_searched(results: Results, budget: Budget, seed: int, start: Plan | None, show: Callable[..., None]) -> None:
    forget_peak()
    begun = time.process_time()

    def save(better: Callable[[], Plan]) -> None:
        seconds = time.process_time() - begun
        results.add_made(SEARCH, lambda: replace(better(), seconds=seconds), peak_mb())

    found = search(
        results.problem,
        budget.seconds,
        seed=seed,
        progress=show,
        save=save,
        bound=results.bound.cost if results.bound else 0.0,
        start=start,
        moves_cost=budget.moves_cost,
        most_moves=budget.most_moves,
        searches=budget.searches,
    )
    if not budget.moves_cost and budget.most_moves is None:  # else it counts moves, or leaves plans out
        results.raise_bound(found.bound)  # before the rows are written, which have the bound
    results.add(found.plan, peak_mb())


def _add_milp(results: Results, budget: Budget) -> None:
    """Solve the integer programme from the best plan so far, or a rule's; its bound then holds for all rows.

    On a fixed fleet that does not hold all replicas, or where fragments count, it places as many whole applications as
    it can. Where all are placed, it makes them as cheap as it can.
    """
    results.write()
    forget_peak()
    problem, merged = results.problem, results.problem.merged
    assert budget.milp_seconds is not None
    deadline = time.monotonic() + budget.milp_seconds
    given = (
        results.best().plan if results.made else make_plan(problem, "LRASched-Search" if problem.fleet.fixed else "FF")
    )
    start = merged.plan_of(given)
    if budget.fragment_weight or (problem.fleet.fixed and not _places_all(merged, start)):
        whole = max(results.made.values(), key=lambda one: one.verdict.whole).plan if results.made else given
        weights = Weights(1.0, budget.fragment_weight)
        found = admit(merged.instance, merged.fleet, merged.plan_of(whole), budget.milp_seconds, weights)
        results.admitted, results.milp, start = found, found.status, found.plan
    seconds = deadline - time.monotonic()
    if not budget.fragment_weight and _places_all(merged, start) and (results.admitted is None or seconds > 0):
        least = results.bound.cost if results.bound else 0.0
        solved = solve(merged.instance, merged.fleet, start, max(seconds, 0.01), least)
        results.milp, start = solved.status, solved.plan
        results.add(merged.expanded(start), peak_mb())
        results.raise_bound(solved.bound)
    else:
        left = merged.instance.replicas - np.bincount(start.application, start.replicas, len(merged.instance))
        reasons = merged.reasons(left.astype(np.int64), WHOLE if problem.fleet.fixed else "")
        results.add(replace(merged.expanded(start), reasons=reasons), peak_mb())
    results.write()
    results.write_rows()


def _places_all(merged: Merged, plan: Plan) -> bool:
    """Whether a plan of the vertices has all their copies."""
    return int(plan.replicas.sum()) == int(merged.instance.replicas.sum())


def warm_up(problem: PlanningProblem, name: str) -> None:
    """Compile (or load) what a planner needs, so that its seconds are those of planning.

    First fit needs four machines for these five applications, the optimum is three, and Eq. 4 gives two: the search
    finds three and then looks in vain for two, so that all of its code runs.
    """
    times, resources = problem.merged.instance.demand.shape[1:]
    i = np.repeat(4, 4), np.arange(4)
    affinity = Affinity.of(5, *i, np.zeros(4, np.int64))
    demand = np.tile(np.array([0.3, 0.3, 0.6, 0.6, 0.05])[:, None, None], (1, times, resources))
    names = np.array(list("abcde"), dtype=object)
    tiny = Instance("tiny", names, np.ones(5, np.int64), demand, problem.merged.instance.resources, affinity)
    one = [1.0] * resources
    fleet = Fleet.of_kinds([one], [5], fixed=True) if problem.fleet.fixed else Fleet.of(one)
    small = PlanningProblem(tiny, fleet)
    if (rule := name.removesuffix(IMPROVED)) != SEARCH:
        make_plan(small, rule)
    if rule == name != SEARCH:
        return
    for one_of_them in PORTFOLIO:
        make_plan(small, one_of_them)
    running = replace(small, running=make_plan(small, "FF"))
    for _ in range(3):  # compiling alone can use up the time
        if search(running, 0.05, moves_cost=0.01).steps and search(small, 0.05).steps:
            return


def forget_peak() -> None:
    """Reset the peak of memory where the system allows it (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """MiB of memory that this process held at most since `forget_peak`, or since it began if that is not known."""
    with contextlib.suppress(OSError, StopIteration):
        status = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
