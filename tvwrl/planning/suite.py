"""Runs planners on an instance, one after the other, with a progress bar, and measures what they take."""

from __future__ import annotations

import contextlib
import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.checks import at_least, different, positive
from tvwrl.planning.admission import Weights, admit, check_limits
from tvwrl.planning.best import NAME as BEST
from tvwrl.planning.best import PORTFOLIO, plan_best
from tvwrl.planning.bounds.lower_bound import lower_bound
from tvwrl.planning.instance import Affinity, Fleet, Instance, check_fits
from tvwrl.planning.milp import MOST_APPLICATIONS, solve
from tvwrl.planning.pictures import plot_trade_off
from tvwrl.planning.plan import Plan
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import plan, planner
from tvwrl.planning.results import Results
from tvwrl.runs import check_new_folder, is_disk_full, provenance, write_json
from tvwrl.types import InputError


def provision(
    instance: Instance,
    fleet: Fleet,
    out: Path,
    algorithms: Sequence[str] = (),
    best_seconds: float | None = None,
    milp_seconds: float | None = None,
    bound_seconds: float = 0.0,
    seed: int = 0,
    facts: dict[str, Any] | None = None,
    fragment_weight: float = 0.0,
) -> Results:
    """Plan by every one of `algorithms`, then by `best`, then by the integer programme, where seconds (> 0) are given.

    Writes `run.json` (with `facts`), `rows.csv`, `plan.parquet` and `trade-off.png` to the folder `out`, new or empty.
    Plans found before an interruption are kept there, with every improvement of `best`. Raises InputError for unknown
    or repeated names, bad seconds, and an application that no machine holds, before anything is written.
    """
    _check(instance, fleet, algorithms, best_seconds, milp_seconds, seed)
    weights = Weights(1.0, fragment_weight)
    check_new_folder(out)
    bound = lower_bound(instance, fleet, bound_seconds)
    results = Results(instance, fleet, bound.machines, out)
    asked = {"algorithms": list(algorithms), "best_seconds": best_seconds, "milp_seconds": milp_seconds, "seed": seed}
    write_json(
        out / "run.json", provenance() | describe(instance, fleet) | asked | {"bounds": bound.each} | (facts or {})
    )
    names = [*algorithms, *[BEST] * (best_seconds is not None), *["MILP"] * (milp_seconds is not None)]
    bar_format = "{desc}: {percentage:3.0f}% |{bar}| {elapsed}{postfix}"
    try:
        with tqdm(total=float(len(names)), bar_format=bar_format, disable=None, leave=False) as bar:
            for done, name in enumerate(names):
                if name != "MILP":
                    bar.set_description(f"{name}, compiling or loading")
                    warm_up(instance, name)
                bar.set_description(name)
                show = _shown(bar, done)
                if name == BEST and best_seconds is not None:
                    _add_best(results, best_seconds, seed, show)
                elif milp_seconds is not None and name == "MILP":
                    _add_milp(results, milp_seconds, weights)
                else:
                    results.add(*measured(instance, fleet, name, show))
        results.write()
    except BaseException as error:
        _keep_whole(results, error)
        raise
    if results.admitted is not None:
        proved = {"status": results.milp, "value": results.admitted.value, "bound": results.admitted.bound}
        write_json(out / "admission.json", proved | {"gap": results.admitted.gap, "fragment_weight": fragment_weight})
    plot_trade_off(results.rows(), out / "trade-off.png")
    return results


def _keep_whole(results: Results, error: BaseException) -> None:
    """Write the plans so far; leave nothing where a full disk kept even the first from being written whole."""
    if isinstance(error, Exception) and is_disk_full(error):
        if not (results.folder / "rows.csv").exists():
            shutil.rmtree(results.folder, ignore_errors=True)
    else:
        results.write()


def describe(instance: Instance, fleet: Fleet) -> dict[str, Any]:
    """What run.json records about the instance and the fleet."""
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
        "machines": [{"capacity": kinds[i].tolist(), "count": int(count[i])} for i in order],
        "fixed": fleet.fixed,
    }


def _check(
    instance: Instance,
    fleet: Fleet,
    algorithms: Sequence[str],
    best_seconds: float | None,
    milp_seconds: float | None,
    seed: int,
) -> None:
    if algorithms:
        different(planners=algorithms)
    for name in algorithms:
        planner(name)
    positive(seconds=best_seconds, milp_seconds=milp_seconds)
    if milp_seconds is not None and len(instance) > MOST_APPLICATIONS:
        raise InputError(f"milp: the instance has {len(instance)} applications: must be {MOST_APPLICATIONS} at most")
    if milp_seconds is not None and fleet.fixed:
        check_limits(instance)
    at_least(0, seed=seed)
    if not algorithms and best_seconds is None and milp_seconds is None:
        raise InputError("the list of algorithms is empty")
    check_fits(instance, fleet)


def _shown(bar: Any, done: int) -> Callable[..., None]:
    """A callback that shows a planner's progress on the bar: the share done, and machines so far if known."""

    def show(share: float, machines: int | None = None) -> None:
        if machines is not None:
            bar.set_postfix_str(f"{machines} machines", refresh=False)
        bar.update(done + share - bar.n)

    return show


def measured(
    instance: Instance, fleet: Fleet, name: str, show: Callable[..., None] | None = None
) -> tuple[Plan, float]:
    """The plan of one algorithm, compiled before it is timed, and the most memory the process held meanwhile, MiB."""
    warm_up(instance, name)
    forget_peak()
    return plan(instance, fleet, name, show), peak_mb()


def _add_best(results: Results, seconds: float, seed: int, show: Callable[..., None]) -> None:
    forget_peak()
    begun = time.process_time()

    def save(better: Plan) -> None:
        results.add(replace(better, seconds=time.process_time() - begun), peak_mb())

    found = plan_best(results.instance, results.fleet, seconds, seed, show, save, results.lower_bound)
    results.add(found.plan, peak_mb())


def _add_milp(results: Results, seconds: float, weights: Weights) -> None:
    """Solve the integer programme from the best plan so far, or first fit's; its bound then holds for all rows."""
    results.write()
    forget_peak()
    if results.fleet.fixed:
        made = [result.plan for result in results.made.values()]
        start = max(made, key=lambda one: validate(results.instance, results.fleet, one).whole) if made else None
        start = start or plan(results.instance, results.fleet, "LRASched-Search")
        results.admitted = admit(results.instance, results.fleet, start, seconds, weights)
        results.milp = results.admitted.status
        results.add(results.admitted.plan, peak_mb())
        return
    start = results.best().plan if results.made else plan(results.instance, results.fleet, "FF")
    solved = solve(results.instance, results.fleet, start, seconds)
    results.lower_bound = max(results.lower_bound, solved.bound)
    results.milp = solved.status
    results.add(solved.plan, peak_mb())
    if results.made:
        results.write_rows()


def warm_up(instance: Instance, name: str) -> None:
    """Compile (or load) what an algorithm needs, so that its seconds are those of planning.

    First fit needs four machines for these five applications, the optimum is three, and Eq. 4 gives two: `best` finds
    three and then searches in vain for two, so that all of its code runs.
    """
    times, resources = instance.demand.shape[1:]
    i = np.repeat(4, 4), np.arange(4)
    affinity = Affinity.of(5, *i, np.zeros(4, np.int64))
    demand = np.tile(np.array([0.3, 0.3, 0.6, 0.6, 0.05])[:, None, None], (1, times, resources))
    names = np.array(list("abcde"), dtype=object)
    tiny = Instance("tiny", names, np.ones(5, np.int64), demand, instance.resources, affinity)
    fleet = Fleet.of([1.0] * resources)
    if name != BEST:
        plan(tiny, fleet, name)
        return
    for rule in PORTFOLIO:
        plan(tiny, fleet, rule)
    for _ in range(3):  # compiling alone can use up the time
        if plan_best(tiny, fleet, 0.05).steps:
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
