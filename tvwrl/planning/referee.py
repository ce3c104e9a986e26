"""The independent referee of plans: every replica, capacity, limit, group, blacklist and pin, from scratch.

It shares no code with planners or kernels and reads of a problem only what was given: replicas, demand, capacities,
the arcs i -> j (rows `start`, `to`, `limit`; the same arcs by j are the planners' own index), groups and blacklists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tvwrl.planning.instance import Fleet, Instance, counted
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import Float, Int

TOLERANCE = 2e-9  # share of the capacity: twice what planners allow, as sums in another order differ
EXAMPLES = 5  # faults of each kind that are described


class Fault(NamedTuple):
    """A rule that a plan breaks."""

    replicas: int  # that are wrong, or 1
    text: str  # what is wrong, in words
    machine: int = -1  # where; -1: on no machine in particular


Faults = list[Fault]


@dataclass(frozen=True, eq=False)
class Verdict:
    """Counts of a plan and of its faults, and the first faults of each kind in words."""

    algorithm: str
    replicas: int
    placed: int
    whole: int  # applications all of whose replicas are on machines
    machines: int  # machines with at least one replica
    cost: float  # of these machines
    moved: int  # running replicas that are elsewhere now
    misplaced: int  # applications with too many or too few replicas, and rows that name no application or machine
    over_capacity: int  # combinations of machine, time and resource with demand above capacity
    broken_limits: int  # combinations of a machine and two applications with more replicas than their limit allows
    above_limits: int  # replicas of j beyond a_ij beside i, each counted once
    apart: int  # placed replicas that make up no whole copy of their group on their machine
    barred: int  # replicas on machines that their application's blacklist names
    unpinned: int  # running replicas of pinned applications that are elsewhere now
    efficiency: Float  # (machines, D) demand as a share of capacity, a mean over times, by rising number of machine
    examples: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Replicas that are on no machine: faults (`misplaced`) unless the fleet is fixed."""
        return self.replicas - self.placed

    @property
    def violations(self) -> int:
        """Replicas that break a constraint other than a capacity."""
        return self.above_limits + self.apart + self.barred + self.unpinned

    @property
    def feasible(self) -> bool:
        """Whether no capacity is exceeded and no rule broken."""
        return self.misplaced == self.over_capacity == self.violations == 0


def validate(problem: PlanningProblem, plan: Plan) -> Verdict:
    """Check a plan against its problem; faults are counted and described in the verdict, never raised.

    On a fixed fleet replicas may be left over. Loads may exceed capacities by the share `TOLERANCE`.

    Parameters
    ----------
    problem : PlanningProblem
        What the plan is for.
    plan : Plan
        Any numbers in its arrays are allowed, and checked.

    Returns
    -------
    Verdict
        Counts of the plan and of its faults, and the first faults in words.

    Raises
    ------
    ValueError
        The plan's arrays differ in length.

    Examples
    --------
    >>> from tvwrl.planning import generate_cluster, make_plan
    >>> problem = generate_cluster(machines=23, replicas=62)
    >>> validate(problem, make_plan(problem, "FF")).feasible
    True
    """
    return judged(problem, plan)[0]


def judged(problem: PlanningProblem, plan: Plan) -> tuple[Verdict, dict[str, Faults]]:
    """The verdict of `validate`, and all faults by the name of the field that counts them."""
    instance, fleet = problem.instance, problem.fleet
    misplaced, placed, whole = _misplaced(instance, fleet, plan)
    faults: dict[str, Faults] = {kind: [] for kind in ("over_capacity", "above_limits", "apart", "barred", "unpinned")}
    used, efficiency, moved, broken = np.unique(plan.machine), np.zeros((0, fleet.capacity.shape[1])), 0, 0
    if not misplaced:
        load = load_of(instance, plan, used)
        efficiency = load.mean(axis=1) / _capacity(fleet, used)
        faults["over_capacity"] = _over_capacity(instance, fleet, used, load)
        faults["above_limits"], broken = _above_limits(instance, fleet, plan)
        faults["apart"] = _apart(problem, plan)
        faults["barred"] = _barred(problem, plan)
        moved, faults["unpinned"] = _moved(problem, plan)
    counts = {kind: sum(fault.replicas for fault in found) for kind, found in faults.items()}
    examples = tuple(fault.text for found in (misplaced, *faults.values()) for fault in found[:EXAMPLES])
    known = used[(used >= 0) & (used < _numbered(instance, fleet))]
    verdict = Verdict(
        algorithm=plan.algorithm,
        replicas=int(instance.replicas.sum()),
        placed=placed,
        whole=whole,
        machines=len(used),
        cost=float(_costs(fleet, known).sum()),
        moved=moved,
        misplaced=len(misplaced),
        broken_limits=broken,
        efficiency=efficiency,
        examples=examples,
        **counts,
    )
    return verdict, {"misplaced": misplaced, **faults}


def broken_rules(problem: PlanningProblem, plan: Plan) -> dict[str, Faults]:
    """Faults of a plan that may leave replicas out, as what runs may: by capacity, limit, group and blacklist."""
    used = np.unique(plan.machine)
    load = load_of(problem.instance, plan, used)
    return {
        "over_capacity": _over_capacity(problem.instance, problem.fleet, used, load),
        "above_limits": _above_limits(problem.instance, problem.fleet, plan)[0],
        "apart": _apart(problem, plan),
        "barred": _barred(problem, plan),
    }


def _misplaced(instance: Instance, fleet: Fleet, plan: Plan) -> tuple[Faults, int, int]:
    """Faults of rows and numbers of replicas; how many replicas, and how many whole applications, are placed."""
    rows = zip(plan.application.tolist(), plan.machine.tolist(), plan.replicas.tolist(), strict=True)
    faults: Faults = []
    counts, seen = [0] * len(instance), set()
    numbered = _numbered(instance, fleet)
    last = len(fleet.capacity) if fleet.fixed else min(plan.machines, numbered)
    for row, (i, machine, replicas) in enumerate(rows):
        if not 0 <= i < len(instance):
            faults.append(Fault(1, f"row {row}: there is no application {i}"))
            continue
        if not 0 <= machine < last:
            faults.append(Fault(1, f"row {row}: machine {_name(fleet, machine)} is not open: there are {last}"))
        if replicas < 1:
            faults.append(Fault(1, f"row {row}: {replicas} replicas"))
        if (i, machine) in seen:
            name = instance.application[i]
            faults.append(Fault(1, f"row {row}: application '{name}' on machine {_name(fleet, machine)} again"))
        seen.add((i, machine))
        counts[i] += replicas
    placed = whole = 0
    for i, (has, found) in enumerate(zip(instance.replicas.tolist(), counts, strict=True)):
        placed += min(has, found)
        whole += found == has
        if found > has or (found < has and not fleet.fixed):
            faults.append(
                Fault(1, f"application '{instance.application[i]}': {counted(found, 'replica')} placed, it has {has}")
            )
    return faults, placed, whole


def _name(fleet: Fleet, machine: int) -> str:
    """What messages call a machine: by its name in files, or its index if it is below 0."""
    return fleet.names_of(np.array([machine]))[0] if machine >= 0 else f"with index {machine}"


def _numbered(instance: Instance, fleet: Fleet) -> int:
    """Machines that a plan can name: no plan needs more."""
    return len(fleet.capacity) + (0 if fleet.fixed else int(instance.replicas.sum()))


def _capacity(fleet: Fleet, machines: Int) -> Float:
    """(n, D) of machines, those beyond the last listed like it."""
    capacity: Float = fleet.capacity[np.minimum(machines, len(fleet.capacity) - 1)]
    return capacity


def _costs(fleet: Fleet, machines: Int) -> Float:
    """(n,) of machines: 1 each unless the fleet says otherwise."""
    if fleet.cost is None:
        return np.ones(len(machines))
    cost: Float = fleet.cost[np.minimum(machines, len(fleet.capacity) - 1)]
    return cost


def load_of(instance: Instance, plan: Plan, used: Int) -> Float:
    """(n, H, D) demand on the machines `used`."""
    load = np.zeros((len(used), *instance.demand.shape[1:]))
    at = np.searchsorted(used, plan.machine)
    for h, d in np.ndindex(load.shape[1:]):
        demand = plan.replicas * instance.demand[plan.application, h, d]
        load[:, h, d] = np.bincount(at, weights=demand, minlength=len(used))
    return load


def overloads(fleet: Fleet, used: Int, load: Float) -> Int:
    """(n, 3) places in `load` (machines, H, D), of the machines `used`, above the capacity."""
    found: Int = np.argwhere(load > _capacity(fleet, used)[:, None] * (1 + TOLERANCE))
    return found


def _over_capacity(instance: Instance, fleet: Fleet, used: Int, load: Float) -> Faults:
    """Combinations of machine, time and resource with demand above capacity."""
    capacity = _capacity(fleet, used)
    return [
        Fault(
            1,
            f"machine {_name(fleet, used[m])}, time {h}: "
            f"{instance.resources[d]} {load[m, h, d]:g} of {capacity[m, d]:g}",
            int(used[m]),
        )
        for m, h, d in overloads(fleet, used, load).tolist()
    ]


def _above_limits(instance: Instance, fleet: Fleet, plan: Plan) -> tuple[Faults, int]:
    """Replicas of j beyond a_ij on machines that hold i, each counted once; and how many triples (machine, i, j)."""
    import polars as pl

    arcs, names = instance.affinity, instance.application
    held = pl.DataFrame({"i": plan.application, "machine": plan.machine, "count": plan.replicas})
    origin = np.repeat(np.arange(len(names)), np.diff(arcs.start))
    limits = pl.DataFrame({"i": origin, "j": arcs.to.astype(np.int64), "limit": arcs.limit}).filter(
        pl.col("limit") < int(plan.replicas.max(initial=0))
    )
    every = (
        held.drop("count")
        .join(limits, on="i")
        .join(held, left_on=["j", "machine"], right_on=["i", "machine"])
        .filter(pl.col("count") > pl.col("limit"))
        .sort("limit", "i")
    )
    tightest = every.unique(["j", "machine"], keep="first", maintain_order=True).sort("machine", "j")
    faults = []
    for i, m, j, limit, n in tightest.iter_rows():
        text = f"{counted(n, 'replica')} of '{names[j]}' beside '{names[i]}', which allows {limit}"
        faults.append(Fault(n - limit, f"machine {_name(fleet, m)}: {text}", m))
    return faults, len(every)


def _apart(problem: PlanningProblem, plan: Plan) -> Faults:
    """Replicas of a group on a machine that has fewer of another member than their copies need."""
    bundles, names, faults = problem.bundles, problem.instance.application, []
    rows: dict[int, list[int]] = {}
    member = set(bundles.member.tolist())
    for row, i in enumerate(plan.application.tolist()):
        if i in member:
            rows.setdefault(i, []).append(row)
    for b in range(len(bundles)):
        members = range(int(bundles.start[b]), int(bundles.start[b + 1]))
        held: dict[int, dict[int, int]] = {}  # machine -> application -> replicas
        for e in members:
            i = int(bundles.member[e])
            for row in rows.get(i, ()):
                held.setdefault(int(plan.machine[row]), {})[i] = int(plan.replicas[row])
        for machine, found in sorted(held.items()):
            counts = {int(bundles.member[e]): int(bundles.count[e]) for e in members}
            copies = min(found.get(i, 0) // n for i, n in counts.items())
            if over := sum(found.values()) - copies * sum(counts.values()):
                group = " + ".join(str(names[i]) for i in counts)
                has = ", ".join(f"{found.get(i, 0)} of '{names[i]}'" for i in counts)
                text = f"machine {_name(problem.fleet, machine)}: the affinity group {group} is not whole there: {has}"
                faults.append(Fault(over, text, machine))
    return faults


def _barred(problem: PlanningProblem, plan: Plan) -> Faults:
    """Replicas on machines of their blacklist."""
    pairs = set(map(tuple, problem.barred.tolist()))
    last = len(problem.fleet.capacity) - 1
    faults = []
    for i, m, n in zip(plan.application.tolist(), plan.machine.tolist(), plan.replicas.tolist(), strict=True):
        if pairs and (i, min(m, last)) in pairs:
            text = f"{counted(n, 'replica')} of '{problem.instance.application[i]}', whose blacklist names it"
            faults.append(Fault(n, f"machine {_name(problem.fleet, m)}: {text}", m))
    return faults


def _moved(problem: PlanningProblem, plan: Plan) -> tuple[int, Faults]:
    """Running replicas that are elsewhere now, and faults of those that are pinned."""
    if problem.running is None:
        return 0, []
    now = _counts(plan)
    moved = 0
    faults: Faults = []
    for (i, machine), n in _counts(problem.running).items():
        gone = max(0, n - now.get((i, machine), 0))
        moved += gone
        if gone and problem.pinned is not None and problem.pinned[i]:
            name = problem.instance.application[i]
            where = _name(problem.fleet, machine)
            text = f"machine {where}: {counted(gone, 'replica')} of '{name}' left, which must not move"
            faults.append(Fault(gone, text, machine))
    return moved, faults


def _counts(plan: Plan) -> dict[tuple[int, int], int]:
    rows = zip(plan.application.tolist(), plan.machine.tolist(), plan.replicas.tolist(), strict=True)
    return {(i, machine): n for i, machine, n in rows}


def fragments(instance: Instance, fleet: Fleet, plan: Plan) -> int:
    """Machines of a fixed fleet that are left less of something than the least any application needs (Eq. 16, 17 of
    the LRASched paper: Q_n = 0)."""
    whole = np.ones(len(fleet.capacity), dtype=bool)
    for h, d in np.ndindex(instance.demand.shape[1:]):
        load = np.zeros(len(whole))
        np.add.at(load, plan.machine, plan.replicas * instance.demand[plan.application, h, d])
        whole &= load + instance.demand[:, h, d].min() <= fleet.capacity[:, d] * (1 + TOLERANCE)
    return int(len(whole) - whole.sum())


def utilisation(instance: Instance, fleet: Fleet, plan: Plan) -> float:
    """Share of a fixed fleet that is reserved: the mean over times of 1 - R_free / R_total (LRASched, 4.2.1).

    Capacities of different resources are added up as they are: they should be shares of one machine.
    """
    reserved = plan.replicas @ instance.demand[plan.application].sum(axis=2)  # (H,)
    return float(reserved.mean() / fleet.capacity.sum())
