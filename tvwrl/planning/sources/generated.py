"""Instances with a drawn affinity graph, as in Table 5 of the provisioning paper: arbitrary, threshold and normal.

The laws of drawing are those of the paper's Section 5.1 and of the generators published with it; the numbers drawn are
other ones. Density is the number of arcs by that of ordered pairs of different applications.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tvwrl.checks import at_least, one_of, positive, within
from tvwrl.planning.instance import MOST_MACHINES, MOST_REPLICAS, Affinity, Fleet, Instance
from tvwrl.planning.problem import Bundles, PlanningProblem
from tvwrl.types import Float, InputError, Int, Int32

Graph = Callable[[int, float, np.random.Generator], tuple[Int, Int32]]  # (A + 1,) starts of rows, (E,) ends of arcs


def generate_instance(
    base: Instance, graph: str = "arbitrary", density: float = 0.01, applications: int | None = None, seed: int = 0
) -> Instance:
    """An instance like `base` with a drawn affinity graph.

    Limits are drawn from those of `base` between different applications; self limits are left out, as in the published
    instances.

    Args:
        base: gives demand, replicas and limits.
        graph: one of `GRAPHS`: arbitrary, threshold or normal.
        density: expected arcs by ordered pairs of different applications, 0 to 1.
        applications: how many, at least 2, each with the demand of one of `base` and, drawn independently, the replicas
            of one; by default the applications of `base`.
        seed: of all draws.

    Raises InputError for arguments out of range, and if `base` has no limits to draw from.

    >>> generate_instance(base, "threshold", density=0.05, applications=20_000, seed=3)  # doctest: +SKIP
    """
    one_of(GRAPHS, graph=graph)
    within(0, 1, density=density)
    at_least(2, applications=applications)
    limits = base.affinity.limit[base.affinity.to != base.affinity.origin]
    if not len(limits) and density:
        raise InputError(f"instance '{base.name}' has no affinity limits to draw from")
    rng = np.random.default_rng(seed)
    if applications is not None:  # named 1, 2, 3, ...
        sizes, replicas = (rng.integers(len(base), size=applications) for _ in range(2))
        base = replace(
            base,
            application=np.arange(1, applications + 1).astype(str).astype(object),
            replicas=base.replicas[replicas],
            demand=base.demand[sizes],
            affinity=Affinity.of(applications),
        )
    start, to = GRAPHS[graph](len(base), density, rng)
    limit = limits[rng.integers(len(limits), size=len(to), dtype=np.int32)] if len(to) else np.empty(0, np.int32)
    name = f"{graph}_{len(base)}_d{100 * density:g}_s{seed}"
    return replace(base, name=name, affinity=Affinity.of_rows(start, to, limit))


def arbitrary(applications: int, density: float, rng: np.random.Generator) -> tuple[Int, Int32]:
    """Any set of that many ordered pairs, each as likely as the others (Sadykov and Vanderbeck 2013)."""
    others = applications - 1
    possible = applications * others  # pair i * others + n is of i and the nth application other than i
    arcs = int(density * possible)
    pairs = np.sort(rng.permutation(possible)[:arcs]) if 4 * arcs > possible else _distinct(arcs, possible, rng)
    start = np.searchsorted(pairs, np.arange(applications + 1) * others)
    to = np.empty(arcs, np.int32)
    for i in range(applications):  # row by row: no second array of 8 bytes per arc
        row = slice(start[i], start[i + 1])
        end = pairs[row] - i * others
        to[row] = end + (end >= i)
    return start.astype(np.int64), to


def _distinct(count: int, below: int, rng: np.random.Generator) -> Int:
    """(count,) different numbers of 0 .. below - 1, rising: some more are drawn, repeated and surplus ones dropped."""
    if not count:
        return np.empty(0, np.int64)
    draws = int(-below * math.log1p(-count / below) * 1.001) + 100
    while True:
        found = rng.integers(below, size=draws)
        found.sort()
        found = found[np.concatenate([[True], found[1:] != found[:-1]])]
        if len(found) >= count:
            return np.delete(found, rng.choice(len(found), len(found) - count, replace=False))
        draws += draws // 1000 + 100


def normal(applications: int, density: float, rng: np.random.Generator) -> tuple[Int, Int32]:
    """Out-degrees around density * A with half of that as standard deviation, ends drawn at random."""
    others, mean = applications - 1, density * applications
    degree = np.clip(np.rint(rng.normal(mean, mean / 2, applications)), 0, others).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(degree)])
    to = np.empty(start[-1], np.int32)
    for i in range(applications):
        end = rng.choice(others, degree[i], replace=False, shuffle=False)
        to[start[i] : start[i + 1]] = end + (end >= i)
    return start, to


def threshold(applications: int, density: float, rng: np.random.Generator) -> tuple[Int, Int32]:
    """Arcs i -> j where (out_i + in_j) / 2 <= t for uniform random numbers (Gendreau et al. 2004).

    t makes the expected density right (Bacci and Nicoloso 2017).
    """
    pairs = applications * (applications - 1)
    low = (1 + math.sqrt(1 + 8 * pairs * density)) / (4 * applications)
    high = 1 + (1 - math.sqrt(1 + 8 * pairs * (1 - density))) / (4 * applications)
    most = 2 * (low if density <= 0.5 else high)
    inward, outward = rng.random(applications), rng.random(applications)
    order = np.argsort(inward).astype(np.int32)
    reach = np.searchsorted(inward[order], most - outward, side="right")
    itself = inward <= most - outward  # it is among those that it reaches
    start = np.concatenate([[0], np.cumsum(reach - itself)])
    to = np.empty(start[-1], np.int32)
    for i in range(applications):
        end = order[: reach[i]]
        to[start[i] : start[i + 1]] = end[end != i] if itself[i] else end
    return start, to


GRAPHS: dict[str, Graph] = {"arbitrary": arbitrary, "threshold": threshold, "normal": normal}


MIB_PER_GIB = 1024.0

# The production cluster of Section 4.1.
# Table 3: cores, memory (the paper's "MB", 1,024 to the GiB), machines. They add up to 13,764, not to 12,000.
MACHINE_TYPES: tuple[tuple[int, int, int], ...] = (
    *((28, 80392, 1040), (32, 128952, 112), (40, 96517, 344), (32, 128740, 74), (16, 64266, 1152), (32, 129089, 84)),
    *((64, 257665, 212), (32, 96518, 84), (88, 354544, 1956), (40, 96683, 160), (36, 515820, 240), (56, 225531, 2604)),
    *((28, 112646, 868), (64, 258356, 320), (24, 64265, 88), (56, 160038, 3670), (84, 338160, 49), (32, 128739, 121)),
    *((64, 258360, 168), (32, 128713, 122), (64, 193716, 192), (56, 225705, 52), (56, 467436, 52)),
)

# Table 4: cores, memory, tasks. They add up to 116,414; the text speaks of 100,000 and of 120,000.
TASK_TYPES: tuple[tuple[int, int, int], ...] = (
    *((8, 16384, 30048), (4, 10240, 1966), (16, 32768, 2103), (4, 16384, 396), (8, 31744, 858), (32, 216753, 249)),
    *((32, 98304, 915), (1, 1024, 11629), (16, 65536, 1821), (4, 8192, 23345), (28, 110592, 765), (56, 204800, 3120)),
    *((4, 4096, 3012), (32, 128947, 2357), (8, 8192, 96), (28, 80000, 117), (8, 32768, 7827), (2, 976, 51)),
    *((16, 61440, 2868), (28, 79872, 2919), (4, 15360, 36), (16, 49152, 84), (16, 63488, 927), (2, 8192, 12302)),
    *((28, 112646, 3023), (32, 96256, 90), (6, 8192, 240), (8, 1024, 600), (28, 110000, 1512), (8, 128113, 334)),
    *((8, 24576, 804),),
)

MACHINES, REPLICAS = 12_000, 100_000  # in the evaluation (4.1, 4.2)
ANTI_AFFINITY, AFFINITY = 0.5, 0.2  # shares of tasks with such constraints (4.1)
EXCLUDED = 2_000  # tasks with which each of "several" long-running tasks cannot share a machine (4.1)

TAIL, LARGEST = 1.2, 0.005  # application sizes: exponent of the Pareto law, largest share of all replicas
PARTNERS = 2.0  # mean number of applications that one with anti-affinity excludes
EXCLUDERS = 8  # applications that exclude `EXCLUDED` replicas, or a 50th of all if that is less
SPREAD = 4  # an application limits itself to 1 per machine if that many times more machines can hold it
ROOMY = 0.1  # least share of the machines that can hold a copy of an affinity group
DEMAND = 0.75  # default demand of the scarcer resource as a share of its total capacity
GROUP_SIZES = (2, 4)  # fewest and most replicas in one copy of an affinity group


def generate_cluster(
    machines: int = MACHINES,
    replicas: int = REPLICAS,
    seed: int = 0,
    demand: float | None = DEMAND,
) -> PlanningProblem:
    """A problem with consistent constraints and affinity groups that fit machines, drawn by `seed` >= 0.

    Table 3 is scaled to `machines` >= 23. The `replicas` are divided among the types of Table 4 by its shares, and
    those of a type into applications whose sizes follow a Pareto law. As printed, the tasks need 158 % of the cores and
    134 % of the memory. So the shares are tilted by exp(-t size) until `demand` (0 to 1) of the scarcer resource is
    demanded: these are the closest shares in relative entropy. With `demand` None, the shares stay as printed. Raises
    InputError for numbers out of range.
    """
    within(len(MACHINE_TYPES), MOST_MACHINES, machines=machines)
    within(2 * len(TASK_TYPES), MOST_REPLICAS, replicas=replicas)
    at_least(0, seed=seed)
    positive(demand=demand)
    within(0, 1, demand=demand)
    rng = np.random.default_rng(seed)
    capacity = machines_of(machines)
    sizes, printed = types_of(TASK_TYPES)
    shares = printed / printed.sum() if demand is None else tilted(sizes, printed, capacity, replicas, demand)
    kind, count = _applications(largest_remainder(shares, replicas), rng)
    draw = _Constraints(sizes[kind], count, capacity, rng)
    names = np.array([f"app_{i + 1}" for i in range(len(kind))], dtype=object)
    bundles = draw.affinity()
    limits = draw.anti_affinity()
    name = f"generated-{machines}-{replicas}-s{seed}"
    instance = Instance(name, names, count, sizes[kind][:, None], ("cpu", "mem"), limits)
    return PlanningProblem(instance, Fleet(capacity, fixed=True), bundles)


def usual_replicas(machines: int) -> int:
    """As many replicas per machine as in the paper's evaluation: 100,000 for 12,000 machines."""
    return round(machines * REPLICAS / MACHINES)


def types_of(table: tuple[tuple[int, int, int], ...]) -> tuple[Float, Float]:
    """(types, 2) cores and GiB, and (types,) counts of a table of types."""
    rows = np.array(table, dtype=np.float64)
    return rows[:, :2] / (1.0, MIB_PER_GIB), rows[:, 2]


def machines_of(machines: int) -> Float:
    """(machines, 2) cores and GiB: Table 3 scaled, at least one machine of each type, in the table's order."""
    sizes, printed = types_of(MACHINE_TYPES)
    rest = largest_remainder(printed / printed.sum(), machines - len(sizes))
    rows: Float = np.repeat(sizes, rest + 1, axis=0)
    return rows


def largest_remainder(shares: Float, total: int) -> Int:
    """(n,) whole numbers with sum `total` that are closest to `shares` (n,) of it."""
    exact = shares * total
    whole = np.floor(exact).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole


def tilted(sizes: Float, printed: Float, capacity: Float, replicas: int, demand: float) -> Float:
    """Shares of types proportional to printed * exp(-t size) with which `demand` of the scarcer resource is demanded.

    The size of a type is its demand as a share of a mean machine, summed over resources.
    """
    from scipy.optimize import brentq

    share = sizes / capacity.mean(axis=0)  # of a mean machine

    def shares(t: float) -> Float:
        weight: Float = printed * np.exp(-t * (share.sum(axis=1) - share.sum(axis=1).min()))
        weight /= weight.sum()
        return weight

    def excess(t: float) -> float:
        return float((shares(t) @ share).max()) * replicas / len(capacity) - demand

    if excess(200.0) > 0 or excess(-200.0) < 0:
        raise InputError(f"{replicas:,} replicas cannot demand {demand:g} of {len(capacity):,} machines: change either")
    return shares(brentq(excess, -200.0, 200.0))


def _applications(per_type: Int, rng: np.random.Generator) -> tuple[Int, Int]:
    """(A,) types and replicas of the applications, in random order.

    Sizes are Pareto variables of exponent `TAIL` and minimum 1, rounded down and cut at `LARGEST`; the last application
    of a type gets the remaining replicas.
    """
    most = max(4, int(LARGEST * per_type.sum()))
    kinds, counts = [], []
    for kind, total in enumerate(per_type.tolist()):
        left = total
        while left:
            size = min(int(rng.random() ** (-1.0 / TAIL)), most, left)
            kinds.append(kind)
            counts.append(size)
            left -= size
    order = rng.permutation(len(kinds))
    return np.array(kinds, dtype=np.int64)[order], np.array(counts, dtype=np.int64)[order]


@dataclass
class _Constraints:
    """Draws affinity groups first and anti-affinity afterwards, which therefore never contradicts them."""

    size: Float  # (A, 2)
    count: Int  # (A,) replicas
    capacity: Float  # (M, 2)
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.copy = np.ones(len(self.count), dtype=np.int64)  # replicas of each application in a copy of its bundle
        self.bundle = np.full(len(self.count), -1)
        self._kinds, self._machines = np.unique(self.capacity, axis=0, return_counts=True)

    def _room(self, demand: Float) -> int:
        """Number of machines that hold `demand` (2,) when empty."""
        return int(self._machines[np.all(demand <= self._kinds, axis=1)].sum())

    def affinity(self) -> Bundles:
        """Groups of 2 to 4 replicas whose applications have the share `AFFINITY` of all replicas.

        Members have as many replicas as the first, or 2 or 3 times as many, so that copies come out even.
        """
        wanted = AFFINITY * self.count.sum()
        waiting: dict[int, list[int]] = {}  # replicas -> applications in no group
        order = self.rng.permutation(len(self.count)).tolist()
        for i in order:
            waiting.setdefault(int(self.count[i]), []).append(i)
        groups: list[dict[int, int]] = []
        covered = 0
        for i in order:
            if covered >= wanted:
                break
            if self.bundle[i] < 0 and (group := self._group(i, waiting)):
                for j, n in group.items():
                    self.bundle[j], self.copy[j] = len(groups), n
                    covered += int(self.count[j])
                groups.append(group)
        return Bundles.of(groups)

    def _group(self, i: int, waiting: dict[int, list[int]]) -> dict[int, int]:
        """A group of i and others that together fit a machine, of a random size at most; empty if there is none."""
        most = int(self.rng.integers(GROUP_SIZES[0], GROUP_SIZES[1] + 1))
        group, demand, held = {i: 1}, self.size[i].copy(), 1
        for times in (1, 2, 3, 1, 1):
            pool = waiting.get(times * int(self.count[i]), [])
            while pool and self.bundle[pool[-1]] >= 0:
                pool.pop()
            if not pool or pool[-1] in group or held + times > most:
                continue
            more = demand + times * self.size[pool[-1]]
            if self._room(more) >= ROOMY * len(self.capacity):
                j = pool.pop()
                group[j], demand, held = times, more, held + times
        return group if len(group) > 1 else {}

    def anti_affinity(self) -> Affinity:
        """Limits on the share `ANTI_AFFINITY` of all replicas; a few applications exclude very many."""
        order = self.rng.permutation(len(self.count))
        reach = np.searchsorted(np.cumsum(self.count[order]), ANTI_AFFINITY * self.count.sum()) + 1
        limited = np.sort(order[:reach])
        room = np.array([self._room(one) for one in self.size[limited]])
        copies = self.count[limited] // self.copy[limited]
        alone = limited[(copies > 1) & (SPREAD * copies <= room)]
        pairs = {(int(i), int(i)): int(self.copy[i]) for i in alone}
        for i in limited.tolist():
            for j in self.rng.choice(limited, 1 + self.rng.poisson(PARTNERS - 1)).tolist():
                if i != j and not self._together(i, j):
                    pairs[i, j] = 0
        # The smallest, so that few machines are closed to the many replicas that they exclude
        for i in limited[np.argsort(self.count[limited], kind="stable")][:EXCLUDERS].tolist():
            pairs |= {(i, j): 0 for j in self._many(i, limited)}
        ends = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
        return Affinity.of(len(self.count), ends[:, 0], ends[:, 1], np.array(list(pairs.values()), dtype=np.int64))

    def _together(self, i: int, j: int) -> bool:
        return bool(self.bundle[i] >= 0 and self.bundle[i] == self.bundle[j])

    def _many(self, i: int, limited: Int) -> list[int]:
        """Limited applications, without i and those in its bundle, with as many replicas in total as i excludes."""
        wanted = min(EXCLUDED, int(self.count.sum()) // 50)
        found, total = [], 0
        for j in self.rng.permutation(limited).tolist():
            if j != i and not self._together(i, j):
                found.append(j)
                total += int(self.count[j])
            if total >= wanted:
                break
        return found


LEAST = 0.1  # of a machine's sizes: uniform in [0.1, 1]
MOST_TOGETHER = 10  # limits on replicas that share a machine: uniform in 1 .. 10
MORE = 4  # times as many machines are drawn for phase 2, beyond which all have size 1


@dataclass(frozen=True)
class Drawn:
    """What is drawn. Sizes of a replica are uniform in (0, `largest`], replicas of an application in `replicas`.

    The paper prints 0.5 for `largest`, and not how many replicas an application has.
    """

    applications: int = 500  # >= 1
    machines: int = 100  # >= 1
    dimensions: int = 3  # >= 1
    replicas: tuple[int, int] = (1, 1)  # fewest and most, >= 1
    largest: float = 0.5  # > 0, up to 1

    def __post_init__(self) -> None:
        at_least(1, applications=self.applications, machines=self.machines, dimensions=self.dimensions)
        if not 1 <= self.replicas[0] <= self.replicas[1]:
            raise InputError(f"replicas is {self.replicas[0]} {self.replicas[1]}: must be two numbers >= 1, rising")
        positive(largest=self.largest)
        within(0, 1, largest=self.largest)

    def draw(self, seed: int) -> tuple[Instance, Fleet]:
        """The instance, and the fleet: the first `machines` are there, the others may be added without end."""
        rng = np.random.default_rng([seed, self.applications, self.machines, self.dimensions])
        shape = (self.applications, 1, self.dimensions)
        demand = self.largest * (1.0 - rng.random(shape))  # never 0
        replicas = rng.integers(self.replicas[0], self.replicas[1] + 1, self.applications)
        limit, own = rng.integers(1, MOST_TOGETHER + 1, self.applications), np.arange(self.applications)
        names = np.array([f"application-{i}" for i in own], dtype=object)
        resources = tuple(f"size{d + 1}" for d in range(self.dimensions))
        arcs = Affinity.of(self.applications, own, own, limit)
        machines = rng.uniform(LEAST, 1.0, ((1 + MORE) * self.machines, self.dimensions))
        instance = Instance(f"drawn-{seed}", names, replicas, demand, resources, arcs)
        return instance, Fleet(np.concatenate([machines, np.ones((1, self.dimensions))]))
