"""Moves in the Tianchi contest's preliminary set B as it stands: 61,254 placed instances on 4,040 of 6,000 machines.

OMP_NUM_THREADS=1 python benchmarks/rebalance_tianchi.py FILE, where FILE is the published zip. Instances that have no
machine yet are left out. A machine is in use if it runs an instance; disk and the numbers of instances of kinds P, M
and PM are limits like CPU and memory at each of the 98 times.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from tvwrl.markdown import markdown_table
from tvwrl.planning.sources.tianchi import read_tianchi
from tvwrl.rebalance import Beside, ClusterState, Goal, find_moves
from tvwrl.traces import Tianchi

TIMES = 98


def read(file: str) -> tuple[ClusterState, Beside, np.ndarray]:
    """The machines and instances, limits between applications, and the load of each instance (N, 98, 2)."""
    problem = read_tianchi(file, TIMES)
    instance, fleet = problem.instance, problem.fleet
    rows = Tianchi().extras(file).tables["deployment"].drop_nulls("machine")
    number = {name: i for i, name in enumerate(instance.application)}
    machines = {name: m for m, name in enumerate(fleet.name)}
    application = np.array([number[name] for name in rows["application"]], np.int64)
    at = np.array([machines[name] for name in rows["machine"]], np.int64)
    count, demand = len(at), instance.demand[application]
    state = ClusterState(
        "Tianchi, preliminary B",
        0.0,
        fleet.name,
        fleet.capacity,
        np.full(len(fleet.capacity), 1000),
        np.ones(len(fleet.capacity), np.bool_),
        np.full(len(fleet.capacity), "", object),
        np.full(len(fleet.capacity), np.nan),
        rows["instance"].to_numpy().astype(object),
        np.full(count, "", object),
        rows["application"].to_numpy().astype(object),
        at,
        np.concatenate([np.zeros((count, 2)), demand[:, 0, 2:]], axis=1),
        np.zeros(count, np.int64),
        np.zeros(count, np.bool_),
        np.full(count, "", object),
        np.zeros(count, np.int64),
        np.ones((1, len(fleet.capacity)), np.bool_),
    )
    return state, Beside(application, instance.affinity), demand[:, :, :2]


def main() -> None:
    """Print how many machines are emptied with 1 to 20 % of the instances moved."""
    state, beside, load = read(sys.argv[1])
    used = np.bincount(state.at, minlength=len(state.node))
    find_moves(state, load, Goal(most_moves=5, limit=1.0, rounds=1), beside)  # compiles
    rows = []
    for share in (0.01, 0.02, 0.05, 0.1, 0.2):
        most = int(share * len(state))
        begin = time.perf_counter()
        found = find_moves(state, load, Goal(most_moves=most, limit=1.0), beside)
        seconds = time.perf_counter() - begin
        bound = int((np.cumsum(np.sort(used[used > 0])) <= most).sum())
        rows.append([f"{share:.0%}", f"{len(found.pod):,}", str(len(found.emptied)), str(bound), f"{seconds:.1f}"])
        print(rows[-1], flush=True)
    print(f"{len(state):,} instances on {(used > 0).sum():,} machines")
    print(markdown_table(["moved at most", "moves", "machines emptied", "bound", "seconds"], rows))


if __name__ == "__main__":
    main()
