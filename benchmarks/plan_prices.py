"""How near to the least price `best` comes on drawn problems with machines of several kinds, against an exact model.

Each problem has 12 applications of 2 to 7 replicas, some with a limit of 1 to 3 on a machine, three pairs that exclude
each other, and 8 machines of 16 x 64 at 0.40 and 6 of 32 x 128 at 0.75. With `--kinds 3` there are 4 of 64 x 256 at
1.45 too; with `--running`, replicas run already, somewhere, and three applications have a blacklist. The least price
comes from an integer programme of its own, which shares no code with the planners and is solved to the end by HiGHS; a
question mark says that it was not within `--exact-seconds`. With `--times 40` there are 40 times as many replicas and
machines; 40 copies of the least plan are then a plan, which `best` should not exceed.

    python benchmarks/plan_prices.py --problems 100
    python benchmarks/plan_prices.py --problems 20 --kinds 3
    python benchmarks/plan_prices.py --problems 20 --running
    python benchmarks/plan_prices.py --problems 20 --times 40
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import tyro
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from tvwrl.planning import Affinity, Fleet, Instance, PlanningProblem, make_plan, validate

KINDS = ((16.0, 64.0, 8, 0.40), (32.0, 128.0, 6, 0.75), (64.0, 256.0, 4, 1.45))  # cores, GiB, machines, price
APPLICATIONS, EXCLUSIONS, BARRED = 12, 3, 3


def drawn(
    seed: int, kinds: int = 2, running: bool = False, order: Sequence[int] = (0, 1, 2), times: int = 1
) -> PlanningProblem:
    """Problem number `seed`, with `times` as many replicas and machines; `order`: in which kinds are listed."""
    rng = np.random.default_rng(seed)
    replicas = rng.integers(2, 8, APPLICATIONS)
    demand = np.stack([rng.choice([0.5, 1, 2, 3, 4, 6, 8], APPLICATIONS), rng.integers(1, 25, APPLICATIONS)], axis=1)
    own = [(i, i, int(rng.integers(1, 4))) for i in range(APPLICATIONS) if rng.random() < 0.75]
    pairs = [tuple(rng.choice(APPLICATIONS, 2, replace=False).tolist()) for _ in range(EXCLUSIONS)]
    arcs = np.array([*own, *((i, j, 0) for i, j in dict.fromkeys(pairs))])
    names = np.array([f"a{i}" for i in range(APPLICATIONS)], object)
    instance = Instance(
        f"prices-{seed}",
        names,
        replicas * times,
        demand[:, None].astype(float),
        ("cpu", "mem"),
        Affinity.of(APPLICATIONS, *arcs.T),
    )
    listed = [KINDS[t] for t in order if t < kinds]
    capacity, numbers = [one[:2] for one in listed], [times * one[2] for one in listed]
    fleet = Fleet.of_kinds(capacity, numbers, fixed=True, cost=[one[3] for one in listed])
    if not running:
        return PlanningProblem(instance, fleet)
    barred = [(i, m) for i in rng.choice(APPLICATIONS, BARRED, replace=False).tolist()
              for m in np.flatnonzero(rng.random(len(fleet.capacity)) < 0.4).tolist()]  # fmt: skip
    problem = PlanningProblem(instance, fleet, barred=np.array(barred, np.int64).reshape(-1, 2))
    return PlanningProblem(
        instance, fleet, barred=problem.barred, running=make_plan(problem, "SpreadWFD-Avg-BinSearch")
    )


class Model:
    """An integer programme for HiGHS, row by row."""

    def __init__(self) -> None:
        self.cost, self.high, self.whole = list[float](), list[float](), list[int]()
        self._entries, self._low, self._high = list[tuple[int, int, float]](), list[float](), list[float]()

    def variable(self, high: float, cost: float = 0.0, whole: bool = True) -> int:
        """A new variable from 0 to `high`."""
        self.cost.append(cost)
        self.high.append(high)
        self.whole.append(int(whole))
        return len(self.cost) - 1

    def row(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        """A constraint: low <= sum of coefficient times variable <= high."""
        self._entries += [(len(self._low), variable, value) for variable, value in terms]
        self._low.append(low)
        self._high.append(high)

    def least(self, seconds: float) -> tuple[float, bool]:
        """The least cost, and whether it is proved; infinite if there is no solution."""
        rows, columns, values = zip(*self._entries, strict=True)
        matrix = csr_array((values, (rows, columns)), shape=(len(self._low), len(self.cost)))
        found = milp(
            self.cost,
            integrality=self.whole,
            bounds=Bounds(0, self.high),
            constraints=LinearConstraint(matrix, self._low, self._high),
            options={"time_limit": seconds, "mip_rel_gap": 1e-6},
        )
        return (np.inf if found.x is None else float(found.fun)), found.status in (0, 2)


def least_price(problem: PlanningProblem, moves_cost: float = 0.0, seconds: float = 600.0) -> tuple[float, bool]:
    """The least price of a plan of all replicas, and whether that is proved; infinite if there is none."""
    instance, fleet, model = problem.instance, problem.fleet, Model()
    count, machines = instance.replicas.tolist(), range(len(fleet.capacity))
    barred = set(map(tuple, problem.barred.tolist()))
    y = [model.variable(1, price) for price in fleet.costs.tolist()]
    x = [[model.variable(0 if (i, m) in barred else n) for m in machines] for i, n in enumerate(count)]
    for i, n in enumerate(count):
        model.row([(x[i][m], 1) for m in machines], n, n)
    for m in machines:
        for d, size in enumerate(fleet.capacity[m].tolist()):
            load = [(x[i][m], float(instance.demand[i, 0, d]) / size) for i in range(len(count))]
            model.row([*load, (y[m], -1)], -np.inf, 0)
    arcs = instance.affinity
    for i, j, k in zip(arcs.origin.tolist(), arcs.to.tolist(), arcs.limit.tolist(), strict=True):
        for m in machines:
            if i == j:
                model.row([(x[i][m], 1), (y[m], -k)], -np.inf, 0)
            else:
                there = model.variable(1)
                model.row([(x[i][m], 1), (there, -count[i])], -np.inf, 0)
                model.row([(x[j][m], 1), (there, count[j] - k)], -np.inf, count[j])
    if moves_cost and problem.running is not None:
        rows = (problem.running.application, problem.running.machine, problem.running.replicas)
        for i, m, n in zip(*(column.tolist() for column in rows), strict=True):
            model.row([(model.variable(n, moves_cost, whole=False), 1), (x[i][m], 1)], n, np.inf)
    alike: dict[object, int] = {}
    for m in machines:
        key = (*fleet.capacity[m], fleet.costs[m], *sorted(i for i, at in barred if at == m))
        if key in alike and not moves_cost:
            model.row([(y[alike[key]], 1), (y[m], -1)], 0, 1)  # machines of a kind are opened in order
        alike[key] = m
    return model.least(seconds)


def main(
    problems: int = 100,
    first: int = 0,
    kinds: int = 2,
    running: bool = False,
    seconds: float = 8.0,
    planner: str = "best",
    orders: bool = True,
    moves_cost: float = 0.0,
    times: int = 1,
    exact_seconds: float = 120.0,
) -> None:
    """Print a row for each problem, and how many are within 1 %.

    Args:
        problems: how many.
        first: number of the first.
        kinds: of machines, 2 or 3.
        running: whether replicas run already, and applications have blacklists.
        seconds: of each search.
        planner: which plans.
        orders: plan once for each order of the kinds (not with --running, whose machines have numbers).
        moves_cost: of each replica that is not where it runs.
        times: multiplies replicas and machines.
        exact_seconds: most that the integer programme takes.
    """
    within, differ, unproved, wrong, above, seconds_each = 0, 0, 0, 0, [], []
    for seed in range(first, first + problems):
        began = time.monotonic()
        price, proved = least_price(drawn(seed, kinds, running), moves_cost, exact_seconds)
        exact, price = time.monotonic() - began, price * times
        found = []
        for order in permutations(range(kinds)) if orders and not running else [range(kinds)]:
            one = drawn(seed, kinds, running, order, times)
            began = time.monotonic()
            plan = make_plan(one, planner, seconds=seconds, seed=1, moves_cost=moves_cost)
            seconds_each.append(time.monotonic() - began)
            verdict = validate(one, plan)
            cost = np.inf if verdict.missing else verdict.cost + moves_cost * (verdict.moved if moves_cost else 0)
            wrong += not verdict.feasible or (proved and times == 1 and cost < price - 1e-6)
            found.append(cost)
        cost = max(found)
        share = 100 * (cost / price - 1) if np.isfinite(price) else (0.0 if np.isinf(cost) else np.inf)
        within += share <= 1
        differ += len({round(one, 9) for one in found}) > 1
        unproved += not proved
        above.append(share)
        costs, sure = " ".join(f"{one:.2f}" for one in found), "" if proved else "?"
        took = f"({seconds_each[-1]:.1f} s)"
        print(
            f"{seed:4d}  least {price:.2f}{sure} ({exact:.1f} s)  {planner} {costs} {took}  {share:+.1f} %", flush=True
        )
    print(
        f"{within} of {problems} within 1 %; {differ} differ by the order of kinds; worst {max(above):+.1f} %; "
        f"{unproved} least prices not proved; seconds: median {np.median(seconds_each):.1f}, "
        f"largest {max(seconds_each):.1f}"
    )
    if wrong:
        raise SystemExit(f"{wrong} plans break a rule, or cost less than the least price: one of the two is wrong")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
