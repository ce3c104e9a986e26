"""The critic of PPO: what each machine, and waiting, will cost.

It values each machine by itself. All penalties but the wait belong to one machine, so it learns from M numbers per
decision rather than from their sum, and can tell which machine a placement endangers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tvwrl.agents.features import GREAT, SMALL
from tvwrl.agents.networks import Encoded, SharedPolicy, SharedTrunk
from tvwrl.compiled import inner, njit
from tvwrl.packing import exceeds
from tvwrl.penalties import contention, overshoot, under_utilisation
from tvwrl.simulation import (
    ARRIVAL,
    ARRIVED,
    LENGTH,
    MACHINE,
    MACHINE_OVERSHOT,
    OVERSHOOT_PER_MACHINE,
    OVERSHOT,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    START,
    WAITING,
    WAITS,
    Simulation,
)
from tvwrl.types import Float, Int

ENDS = (4, 16, 64, 1 << 30)  # slots from now at which a horizon ends
MANY, FEW, LONG = 50.0, 10.0, 100.0  # workloads in all, workloads that arrive in a horizon, and slots that count as 1


def ahead_count(resources: int) -> int:
    """F of `ahead`: see `Foresight.of`."""
    return 2 + (1 + len(ENDS)) * (1 + resources)


class Foresight:
    """The future in the environments of a simulation; costs t slots away are discounted by `gamma` ** t."""

    def __init__(self, simulation: Simulation, gamma: float) -> None:
        self._simulation, self._gamma = simulation, gamma
        self._work: Float = simulation.sequences.demand.sum(axis=2)

    def of(self, rows: Int) -> Encoded:
        """What the critic sees in addition to the policy's encoding, in environments `rows` (n,).

        `committed` (n, M): discounted cost of each machine if nothing more is placed on it
        `ahead` (n, F): number of workloads still to arrive, and slots until the last does; then for the waiting
            workloads, and for those that arrive in each horizon: their number and, per resource, their work (demand
            summed over slots)
        """
        machines, resources = self._simulation.machines.capacity.shape
        committed = np.zeros((len(rows), machines), np.float32)
        ahead = np.zeros((len(rows), ahead_count(resources)), np.float32)
        foresee(self._simulation.state, self._work, rows, self._gamma, committed, ahead)
        return {"committed": torch.from_numpy(committed), "ahead": torch.from_numpy(ahead)}


@njit
def foresee(s, work, rows, gamma, committed, ahead):  # type: ignore[no-untyped-def]
    """Write the arrays of `Foresight.of`, which are 0 at first. `s`: `State`; `work`: (S, N, D) units x slots."""
    machines, resources = s.capacity.shape
    square, ends = np.empty((machines, s.load.shape[2], resources)), np.empty(machines, np.int64)
    whole = np.zeros(resources)
    for m in range(machines):
        for d in range(resources):
            whole[d] += s.capacity[m, d]
    for d in range(resources):
        whole[d] *= LONG
    for i in range(len(rows)):
        _look_ahead(s, work, whole, rows[i], ahead[i])
        _sum_squares(s, rows[i], square, ends)
        for m in range(machines):
            committed[i, m] = _committed(s, rows[i], m, ends[m], square[m], gamma)


@inner
def _look_ahead(s, work, whole, b, out):  # type: ignore[no-untyped-def]
    resources, count = s.capacity.shape[1], s.timing.shape[1]
    sequence, slot, waiting = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.counters[b, WAITING]
    arrived, horizon = s.counters[b, ARRIVED], 0
    out[0] = (count - arrived) / MANY
    out[1] = max(s.timing[sequence, count - 1, ARRIVAL] - slot, 0) / LONG
    for i in range(waiting + count - arrived):
        w, at = s.workloads[b, i, WAITS], 2
        if i >= waiting:
            w = arrived + i - waiting
            while s.timing[sequence, w, ARRIVAL] - slot >= ENDS[horizon]:
                horizon += 1
            at += (1 + horizon) * (1 + resources)
        out[at] += 1 / FEW
        for d in range(resources):
            if whole[d] > 0:
                out[at + 1 + d] += work[sequence, w, d] / whole[d]


@inner
def _sum_squares(s, b, square, ends):  # type: ignore[no-untyped-def]
    """Write the sum of squared demand (M, H, D) of the slots from now, and slots until each machine is empty (M,)."""
    ends[:], square[:] = 0, 0.0
    sequence, slot = s.counters[b, SEQUENCE], s.counters[b, SLOT]
    period = s.background.shape[1]
    if period > 0:
        for k in range(square.shape[1]):
            for m in range(square.shape[0]):
                for d in range(square.shape[2]):
                    square[m, k, d] = float(s.background[sequence, (slot + k) % period, m, d]) ** 2
    for i in range(s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        m, age = s.workloads[b, w, MACHINE], slot - s.workloads[b, w, START]
        left = s.timing[sequence, w, LENGTH] - age
        ends[m] = max(ends[m], left)
        for k in range(left):
            for d in range(square.shape[2]):
                demand = float(s.demand[sequence, w, age + k, d])
                square[m, k, d] += demand * demand


@inner
def _committed(s, b, m, end, square, gamma):  # type: ignore[no-untyped-def]
    """What machine m costs, discounted, until it is empty `end` slots from now. `square`: (H, D), see above."""
    ring, resources = s.load.shape[2:]
    costs = 0.0
    for d in range(resources):
        row, discount, charged, capacity = s.counters[b, SLOT] % ring, 1.0, False, s.capacity[m, d]
        for k in range(end):
            load = float(s.load[b, m, row, d])
            contended = s.weights[0, d] * contention(load, square[k, d])
            costs += discount * (contended + under_utilisation(max(capacity - load, 0.0), s.weights[1, d]))
            if not charged and exceeds(load, capacity):
                charged = True
                costs += discount * overshoot(_charged(s, b, m, d, k), s.weights[2, d])
            discount *= gamma
            row = row + 1 if row + 1 < ring else 0
    return costs


@inner
def _charged(s, b, m, d, k):  # type: ignore[no-untyped-def]
    """How many first overshoots machine m, which is not empty by then, causes if its next overshoot is k slots away."""
    if s.rules[OVERSHOOT_PER_MACHINE]:
        return 0 if s.machines[b, m, MACHINE_OVERSHOT] & (1 << d) else 1
    count, last = 0, s.counters[b, SLOT] + k
    for i in range(s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        if s.workloads[b, w, MACHINE] == m and not s.workloads[b, w, OVERSHOT] & (1 << d):
            count += s.workloads[b, w, START] + s.timing[s.counters[b, SEQUENCE], w, LENGTH] > last
    return count


class Critic(nn.Module):
    """Expected discounted future cost of every machine, and of waiting; built like the `shared` policy.

    `foresees`: whether it also sees the future (`Foresight`). It is then given the costs that machines incur in any
    case, and learns the rest.
    """

    def __init__(self, policy: SharedPolicy, hidden: int, foresees: bool = False) -> None:
        super().__init__()
        self.foresees = foresees
        machine, queue = policy.trunk.machine.in_features, policy.trunk.queue.in_features
        if foresees:
            machine, queue = machine + 1, queue + ahead_count(policy.resources)
        self.trunk = SharedTrunk(machine, queue, hidden)
        self.machine = nn.Linear(hidden, 1)
        self.wait = nn.Linear(hidden, 1)
        for head in (self.machine, self.wait):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, encoded: Encoded, scale: float = 1.0) -> Tensor:
        """(B, M + 1) values in units of `scale`: each machine's, then that of waiting."""
        anyway: Tensor | float = 0.0
        if self.foresees:
            committed = encoded["committed"]
            known = torch.asinh(committed[..., None] / SMALL) / GREAT
            anyway = committed / scale
            encoded = {
                "machines": torch.cat([encoded["machines"], known], dim=2),
                "queue": torch.cat([encoded["queue"], encoded["ahead"]], dim=1),
            }
        machines, cluster = self.trunk(encoded)
        return torch.cat([self.machine(machines)[..., 0] - anyway, self.wait(cluster)], dim=1)
