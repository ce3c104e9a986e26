"""What rules may look at: what each running workload has used, slot by slot, since it was placed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tvwrl.compiled import njit
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.state import MACHINE, RUNNING, RUNS, SEQUENCE, START
from tvwrl.types import Float, Int


class Samples(NamedTuple):
    """Usage of R running workloads, one sample a slot, as far as it has been reported."""

    workload: Int  # (R,) index in the arrival sequence
    machine: Int  # (R,) where it runs, 0..M-1
    request: Float  # (R, D) units, see `Simulation.request`
    seen: Int  # (R,) samples of each, at most h; 0: placed so lately that nothing has been reported
    value: Float  # (R, h, D) units, newest first; 0 from `seen` on
    newest: int  # slot of the newest sample; the sample at k is of slot newest - k


def slots_in(hours: float, scenario: Scenario) -> int:
    """The slots in which so many hours pass, at least one."""
    return max(1, math.ceil(hours * 3600 / scenario.step_seconds))


def running(cluster: Cluster) -> tuple[Int, Int]:
    """(R,) index and (R,) machine of the running workloads, in the order in which they were placed."""
    state, b = cluster.simulation.state, cluster.b
    workload = state.workloads[b, : state.counters[b, RUNNING], RUNS].astype(np.int64)
    return workload, state.workloads[b, workload, MACHINE].astype(np.int64)


def usage_samples(cluster: Cluster, most: int | None, rows: Int | None = None) -> Samples:
    """What running workloads have used since they were placed, the current slot included.

    With the scenario's `usage_delay` = d the newest sample is that of d slots ago.

    `most`: samples to keep of each, the newest ones (>= 0); None: all
    `rows`: which of the running workloads, in the order of `running`; default: all
    """
    simulation, state, b = cluster.simulation, cluster.simulation.state, cluster.b
    sequence = int(state.counters[b, SEQUENCE])
    workload, machine = running(cluster)
    if rows is not None:
        workload, machine = workload[rows], machine[rows]
    newest = cluster.slot - int(getattr(simulation.scenario, "usage_delay", 0))
    start = state.workloads[b, workload, START].astype(np.int64)
    count = np.maximum(newest - start + 1, 0)
    if most is not None:
        count = np.minimum(count, most)
    value = np.empty((len(workload), int(count.max(initial=0)), state.demand.shape[3]))
    _gather(state.demand[sequence], workload, newest - start, count, value)
    return Samples(workload, machine, simulation.request[sequence, workload], count, value, newest)


@njit
def _gather(demand, workload, age, count, value):  # type: ignore[no-untyped-def]
    """Fill `value` (R, h, D) with the demand (N, L, D) of each workload, from slot `age` (R,) of its life backwards."""
    rows, most, resources = value.shape
    for r in range(rows):
        for k in range(most):
            for d in range(resources):
                value[r, k, d] = demand[workload[r], age[r] - k, d] if k < count[r] else 0.0


def summed(amount: Float, machine: Int, machines: int) -> Float:
    """(machines, ...) sum of `amount` (R, ...) of the workloads on each machine; `machine`: (R,) where each runs."""
    total = np.zeros((machines, *amount.shape[1:]))
    np.add.at(total, machine, amount)
    return total
