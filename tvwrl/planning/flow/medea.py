"""Medea's integer programme (Garefalakis et al. 2018), batch by batch, with HiGHS."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvwrl.checks import within
from tvwrl.names import shares
from tvwrl.packing import fits, replicas_that_fit
from tvwrl.planning.base import BASELINE, MEDEA, PROGRAMMES, Options, register
from tvwrl.planning.merged import Merged
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.solver import run_milp
from tvwrl.types import Float, InputError, Int

DEFAULT = Options()
UNLIMITED = 10**9
REFUSED = "not placed by the programme: no room on the machines it was shown, or worth less than what it breaks"


@dataclass(frozen=True)
class Medea:
    """Places batches of applications: many replicas, few violations, few fragmented machines.

    max a placed/asked - b violations/asked + c whole/candidates, where a machine is whole if the smallest demand of
    every resource is still free, and a violation is a replica above a limit. Copies of affinity groups stay whole.
    Paper: all machines are candidates. Here: `candidates` of them plus 1.5 for each replica of the batch's largest
    application, drawn from machines with room for any of the batch, half of them in use if possible. A programme ends
    within `gap` of the optimum or after `Options.medea_seconds`, so that large problems end.
    """

    a: float = 1.0
    b: float = 1.0
    c: float = 1.0
    batch: int = 60  # replicas, unless one application has more
    applications: int = 12  # at most in a batch
    candidates: int = 40
    gap: float = 0.01

    def __post_init__(self) -> None:
        within(0, 1, a=self.a, b=self.b, c=self.c)
        if not (self.a or self.b or self.c):
            raise InputError("weights are 0, 0, 0: at least one must be above 0")

    def __call__(self, problem: PlanningProblem, options: Options = DEFAULT) -> Plan:
        """Solve a programme for each batch."""
        begun = time.process_time()
        vertices = Merged.of(problem)
        state = _State(problem, vertices)
        rng, solved = np.random.default_rng(options.seed), 0
        for batch in self._batches(vertices):
            machines = self._candidates(state, batch, rng)
            if len(machines):
                state.put(batch, machines, _Programme(self, state, batch, machines).solve(options.medea_seconds))
                solved += 1
        copies = np.repeat(np.arange(len(state.left)), vertices.instance.replicas)
        made = vertices.expanded(Plan.of_replicas("Medea", copies, state.machine))
        left = np.flatnonzero(state.left[vertices.vertex] > 0).tolist()
        reasons = {i: vertices.refused.get(int(vertices.vertex[i]), REFUSED) for i in left}
        seconds = time.process_time() - begun
        return replace(made, seconds=seconds, reasons=reasons, details={"programmes": solved})

    def _batches(self, vertices: Merged) -> Iterator[Int]:
        """Merged in their order, without those that no machine can hold."""
        batch: list[int] = []
        copies = 0
        for v in range(len(vertices.instance)):
            if v in vertices.refused:
                continue
            more = int(vertices.instance.replicas[v])
            if batch and (copies + more > self.batch or len(batch) == self.applications):
                yield np.array(batch)
                batch, copies = [], 0
            batch.append(v)
            copies += more
        if batch:
            yield np.array(batch)

    def _candidates(self, state: _State, batch: Int, rng: np.random.Generator) -> Int:
        """Machines with room for any vertex of the batch, half of them in use if possible."""
        wanted = self.candidates + int(1.5 * state.replicas[batch].max())
        room = np.zeros(len(state.residual), dtype=bool)
        for demand in np.unique(state.demand[batch], axis=0):
            room |= fits(demand, state.residual, state.capacity)
        used = np.array([bool(held) for held in state.held])
        some, others = rng.permutation(np.flatnonzero(room & used)), rng.permutation(np.flatnonzero(room & ~used))
        half = max(wanted // 2, wanted - len(others))
        chosen = np.concatenate([some[:half], others[: wanted - min(half, len(some))]])
        return np.sort(chosen)


register(
    "Medea({weights})",
    "Medea, weights {weights}",
    PROGRAMMES,
    BASELINE,
    MEDEA,
    lambda weights: Medea(*weights),
    weights=shares(3, "1,1,1", "1,0.5,0.5", "0.5,0.5,0.5"),
)


class _State:
    """Copies of vertices on machines."""

    def __init__(self, problem: PlanningProblem, vertices: Merged) -> None:
        instance, times = vertices.instance, vertices.instance.demand.shape[1]
        self.demand: Float = instance.demand.reshape(len(instance), -1)
        self.capacity: Float = np.tile(problem.fleet.capacity, times)  # (M, K)
        self.residual = self.capacity.copy()
        self.replicas: Int = instance.replicas
        self.affinity = instance.affinity
        self.left = self.replicas.copy()
        self.held: list[dict[int, int]] = [{} for _ in self.residual]  # vertex -> copies, by machine
        self.first: Int = np.concatenate([[0], np.cumsum(self.replicas)])
        self.machine = np.full(self.first[-1], -1)
        with np.errstate(invalid="ignore"):
            self.least = np.where(self.demand > 0, self.demand, np.inf).min(axis=0)  # smallest demand, by dimension
        self.least[~np.isfinite(self.least)] = 0.0

    def put(self, batch: Int, machines: Int, count: Int) -> None:
        """Place `count` (batch, machines) copies."""
        for row, column in np.argwhere(count > 0).tolist():
            v, m, n = int(batch[row]), int(machines[column]), int(count[row, column])
            at = self.first[v + 1] - self.left[v]
            self.machine[at : at + n] = m
            self.left[v] -= n
            self.held[m][v] = self.held[m].get(v, 0) + n
            self.residual[m] -= n * self.demand[v]


class _Programme:
    """Variables: x (V, C) copies, z (V, C) copies above a limit, whole (C,), here (limited pairs' V, C)."""

    def __init__(self, medea: Medea, state: _State, batch: Int, machines: Int) -> None:
        self._medea, self._batch, self._machines = medea, batch, machines
        self._v, self._c = len(batch), len(machines)
        self._demand, self._residual = state.demand[batch], state.residual[machines]
        self._capacity = state.capacity[machines]
        self._asked, self._least = state.replicas[batch], state.least
        self._cap, self._within = self._limits(state)

    def _limits(self, state: _State) -> tuple[Int, list[tuple[int, int, int]]]:
        """(V, C) copies allowed by self limits and by placed vertices; limits (i, j, a_ij) within the batch."""
        cap = np.full((self._v, self._c), UNLIMITED)
        row_of = {int(v): row for row, v in enumerate(self._batch)}
        within = []
        for v, row in row_of.items():
            a = state.affinity
            into, out = slice(a.into_start[v], a.into_start[v + 1]), slice(a.start[v], a.start[v + 1])
            beside = dict(zip(a.into[into].tolist(), a.into_limit[into].tolist(), strict=True))  # of v, beside others
            allows = dict(zip(a.to[out].tolist(), a.limit[out].tolist(), strict=True))  # of others, beside v
            cap[row] = beside.get(v, UNLIMITED)
            for column, m in enumerate(self._machines.tolist()):
                for other, held in state.held[m].items():
                    limit = 0 if held > allows.get(other, UNLIMITED) else beside.get(other, UNLIMITED)
                    cap[row, column] = min(cap[row, column], limit)
            within += [(row, row_of[j], limit) for j, limit in allows.items() if j in row_of and j != v]
        return cap, within

    def solve(self, seconds: float) -> Int:
        """(V, C) copies that are found within `seconds`."""
        from scipy.optimize import Bounds

        v, c, m = self._v, self._c, self._medea
        pairs = sorted({i for i, _, _ in self._within})
        room = replicas_that_fit(self._demand[:, None], self._residual, self._capacity)
        most = np.minimum(room, self._asked[:, None])
        asked = self._asked.sum()
        whole, here = np.full(c, -m.c / c), np.zeros(len(pairs) * c)
        cost = np.concatenate([np.full(v * c, -m.a / asked), np.full(v * c, m.b / asked), whole, here])
        high = np.concatenate([most.ravel(), most.ravel(), np.ones(c + len(here))])
        integral = np.concatenate([np.ones(v * c), np.zeros(v * c), np.ones(c + len(here))])
        found = run_milp(
            cost,
            integrality=integral,
            bounds=Bounds(0, high),
            constraints=self._constraints(most, pairs),
            options={"time_limit": seconds, "mip_rel_gap": m.gap},
        )
        if found.x is None:
            return np.zeros((v, c), dtype=np.int64)
        copies: Int = np.rint(found.x[: v * c]).astype(np.int64).reshape(v, c)
        return copies

    def _constraints(self, most: Float, pairs: list[int]) -> Any:
        """Replicas at most once, capacities with fragments, limits of placed vertices and within the batch.

        Columns are those of `solve`: x, z, whole, here. Within the batch: x_i <= most here_i, and
        x_j - z_j <= a_ij + most (1 - here_i).
        """
        from scipy.optimize import LinearConstraint
        from scipy.sparse import coo_array

        v, c = self._v, self._c
        x = np.arange(v * c).reshape(v, c)
        z, whole = x + v * c, 2 * v * c + np.arange(c)
        here = dict(zip(pairs, whole[-1] + 1 + np.arange(len(pairs) * c).reshape(-1, c), strict=True))
        one = np.ones(c)
        tight = self._cap < most
        rows: list[tuple[Any, Any, Any]] = [  # (rows, n) columns and values, (rows,) upper bounds
            (x, np.ones((v, c)), self._asked),
            *(self._loads(k, np.vstack([x, whole]).T) for k in range(self._demand.shape[1])),
            (np.stack([x[tight], z[tight]], axis=1), np.tile([1.0, -1.0], (tight.sum(), 1)), self._cap[tight]),
            *((np.stack([x[i], here[i]], axis=1), np.stack([one, -most[i]], axis=1), np.zeros(c)) for i in pairs),
            *(
                (np.stack([x[j], z[j], here[i]], axis=1), np.stack([one, -one, most[j]], axis=1), limit + most[j])
                for i, j, limit in self._within
            ),
        ]
        columns, values = (np.concatenate([part[n].ravel() for part in rows]) for n in (0, 1))
        sizes = np.concatenate([np.full(len(part[0]), part[0].shape[1]) for part in rows])
        upper = np.concatenate([part[2] for part in rows])
        shape = len(sizes), 2 * v * c + c + len(pairs) * c
        matrix = coo_array((values, (np.repeat(np.arange(len(sizes)), sizes), columns)), shape=shape).tocsr()
        return LinearConstraint(matrix, -np.inf, upper)

    def _loads(self, k: int, columns: Int) -> tuple[Int, Float, Float]:
        """In dimension k of each machine: demand of copies, and of the smallest fragment if it is whole."""
        free = self._residual[:, k]
        values = np.append(self._demand[:, k], min(self._least[k], float(free.max())))
        return columns, np.tile(values, (self._c, 1)), free
