"""How long a plan of moves takes, and how many nodes it empties: on generated clusters and the Tianchi contest's set B.

OMP_NUM_THREADS=1 python benchmarks/rebalance.py. Generated clusters, and with --tianchi the published zip of the
preliminary round. For each share of the pods that may move: the nodes that are emptied, the
most that any choice of so many moves could empty if every pod had room everywhere, the nodes that placing all pods
anew would save, and on generated clusters how many hours nodes are overloaded on the next day, of which the plan has
seen nothing, at five minutes, with the moves and without.

Of the contest's set, 61,254 instances are on 4,040 of 6,000 machines; those that have no machine yet are left out. Disk
and the numbers of instances of kinds P, M and PM are limits like CPU and memory at each of the 98 times.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import tyro

from tvwrl.markdown import markdown_table
from tvwrl.planning.sources.tianchi import read_tianchi
from tvwrl.rebalance import (
    Beside,
    ClusterState,
    Forecast,
    Generated,
    Goal,
    find_moves,
    foresee,
    generated_cluster,
    make_plan,
    most_emptied,
)
from tvwrl.schedulers import CURRENT_LOAD, MoveRule, Moving, make_scheduler
from tvwrl.traces import Tianchi
from tvwrl.types import Float, Move
from tvwrl.what_if import Replay, compare

TIMES = 98
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
HEAD = ["nodes in use", "pods", "moved at most", "moves", "emptied", "bound", "of anew", "seconds", "overload, h"]
WEEK, SLOT = 7 * 48, 1800  # slots, seconds


def read(file: str) -> tuple[ClusterState, Beside, Float]:
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


def placed_anew(state: ClusterState, load: Float, limit: float) -> int:
    """Nodes in use if all pods that may move were placed anew: the largest first, each on the fullest node with room.

    Rules about neighbours are left out, so that fewer may do than Kubernetes would allow.
    """
    demand = np.concatenate([load.reshape(len(state), -1), state.request, np.ones((len(state), 1))], axis=1)
    times = load.shape[1]
    capacity = np.concatenate(
        [np.tile(state.size[:, :2] * limit, times), state.size, state.most_pods[:, None]], axis=1
    ).astype(float)
    size = (demand / capacity.max(axis=0).clip(1e-9)).mean(axis=1)
    stays = (state.stays != "") | state.bound
    left, used = capacity.copy(), np.zeros(len(state.node), bool)
    np.subtract.at(left, state.at[stays], demand[stays])
    used[state.at[stays & ~state.bound]] = True
    for i in np.flatnonzero(~stays)[np.argsort(-size[~stays], kind="stable")]:
        room = (left + 1e-9 * capacity >= demand[i]).all(axis=1)
        among = np.flatnonzero(room & used) if (room & used).any() else np.flatnonzero(room)
        m = among[left[among].mean(axis=1).argmin()] if len(among) else state.at[i]
        left[m] -= demand[i]
        used[m] = True
    return int(used.sum())


class OnePlan(MoveRule):
    """Carries one plan out after a week."""

    name, knowledge = "one-plan", CURRENT_LOAD

    def __init__(self, targets: dict[str, int]) -> None:
        self.targets = targets

    def watch(self, recorded, rows, nodes, ratio):
        """See `MoveRule.watch`."""
        self.pods, self.machine = recorded.pod[rows], np.argsort(nodes)

    def moves(self, cluster):
        """See `MoveRule.moves`."""
        if cluster.slot == WEEK:
            for i in cluster.running.workload.tolist():
                if self.pods[i] in self.targets:
                    yield Move(i, int(self.machine[self.targets[self.pods[i]]]))


def overload_next_day(cluster: Generated, moves) -> tuple[float, float, int]:
    """Hours times nodes and resources with load above the size on the eighth day, without and with moves; and how many
    were made: a pod that came meanwhile may have taken the room."""
    node = {name: m for m, name in enumerate(cluster.state.node)}
    rule = OnePlan({move.pod: node[move.target] for move in moves})
    replay = Replay(cluster.whole, SLOT)
    placed = replay.play_moves(Moving(make_scheduler("kube-default"), rule), len(cluster.state))
    assert placed.segments is not None
    made = len(placed.segments.pod) - len(np.unique(placed.segments.pod))
    found = [one.days[0][7] for one in compare(replay, [placed]).outcomes]
    before, after = (day.cpu_over + day.memory_over for day in found)
    return before, after, made


def rows_of(name: str, state: ClusterState, load: Float, limit: float, forecast: Forecast | None = None, **more):
    """A row for each share of the pods."""
    cluster, beside = more.get("cluster"), more.get("beside")
    used = int(state.in_use.sum())
    anew = more.get("anew") or placed_anew(state, load, limit)
    for share in SHARES:
        most = int(share * int((~state.bound).sum()))
        begin = time.perf_counter()
        if forecast is None:
            found = find_moves(state, load, Goal(most_moves=most, limit=limit), beside)
            moves, emptied, over = len(found.pod), len(found.emptied), ""
            seconds = time.perf_counter() - begin
        else:
            plan = make_plan(state, forecast, Goal(most_moves=most, limit=limit), cluster.past)
            seconds = time.perf_counter() - begin
            moves, emptied = len(plan.moves), len(plan.drained)
            before, after, made = overload_next_day(cluster, plan.moves)
            over = f"{before:.1f} to {after:.1f}" + (f", {made:,} moves made" if made < moves else "")
        bound, of = most_emptied(state, most), emptied / max(used - anew, 1)
        row = [f"{used:,}", f"{int((~state.bound).sum()):,}", f"{share:.0%}", f"{moves:,}", f"{emptied:,}"]
        yield [name, *row, f"{bound:,}", f"{of:.0%} of {used - anew:,}", f"{seconds:.1f}", over]


def main(nodes: tuple[int, ...] = (60, 300, 1000), seed: int = 0, tianchi: Path | None = None, anew: int = 0) -> None:
    """Print the table.

    Args:
        nodes: of the generated clusters.
        seed: draws them.
        tianchi: the published zip.
        anew: machines of the best plan that places its instances anew, which takes minutes (`provision`).
    """
    rows = []
    warm = generated_cluster(12)
    make_plan(warm.state, foresee(warm.past, warm.state), Goal(most_moves=5))  # compiles
    for count, asked in [(count, (1.0, 4.0)) for count in nodes] + [(nodes[0], (0.8, 2.0))]:
        cluster = generated_cluster(count, seed, asked)
        called = f"generated, {count} nodes" + ("" if asked[0] >= 1 else ", small requests")
        begin = time.perf_counter()
        forecast = foresee(cluster.past, cluster.state)
        print(f"{count} nodes: forecast in {time.perf_counter() - begin:.1f} s", flush=True)
        load = forecast.in_steps(1800).reshape(len(cluster.state), -1, 2).astype(float)
        for row in rows_of(called, cluster.state, load, 0.8, forecast, cluster=cluster):
            rows.append(row)
            print(row, flush=True)
    if tianchi is not None:
        state, beside, load = read(str(tianchi))
        for row in rows_of("Tianchi, preliminary B", state, load, 1.0, beside=beside, anew=anew):
            rows.append(row)
            print(row, flush=True)
    print(markdown_table(["cluster", *HEAD], rows))


if __name__ == "__main__":
    tyro.cli(main)
