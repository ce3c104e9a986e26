"""How full a plan of moves may fill nodes, and what a wrong forecast does: on generated clusters of 60 nodes.

OMP_NUM_THREADS=1 python benchmarks/rebalance_limits.py. For each limit on forecast load, and each factor by which all
usage that the plan sees is wrong: how many nodes a plan with 10 % of the pods empties, and how many hours nodes are
overloaded on the next day, of which it has seen nothing, at five minutes, without and with the moves.
"""

from __future__ import annotations

from dataclasses import replace

import tyro
from rebalance import overload_next_day

from tvwrl.markdown import markdown_table
from tvwrl.rebalance import Goal, foresee, generated_cluster, make_plan

SHARE = 0.1  # of the pods that may move


def main(
    nodes: int = 60,
    seeds: tuple[int, ...] = (0, 1, 2),
    asked: tuple[float, float] = (0.8, 2.0),
    limits: tuple[float, ...] = (0.9, 0.8, 0.75),
    wrong: tuple[float, ...] = (1.0,),
) -> None:
    """Print a row for each limit and factor, with a figure for each cluster.

    Args:
        nodes: of a cluster.
        seeds: that draw the clusters.
        asked: requests, in mean uses.
        limits: shares of a node that forecast load may take.
        wrong: factors on the usage that the plan sees.
    """
    settings = [(limit, factor) for limit in limits for factor in wrong]
    found: dict[tuple[float, float], list[tuple[str, str, str]]] = {one: [] for one in settings}
    for seed in seeds:
        cluster = generated_cluster(nodes, seed, asked)
        forecast = foresee(cluster.past, cluster.state)
        most = int(SHARE * (~cluster.state.bound).sum())
        for limit, factor in settings:
            seen = replace(forecast, use=forecast.use * factor)
            plan = make_plan(cluster.state, seen, Goal(most_moves=most, limit=limit), cluster.past)
            before, after, _ = overload_next_day(cluster, plan.moves)
            found[limit, factor].append((f"{len(plan.drained)}", f"{before:.1f}", f"{after:.1f}"))
            print(seed, limit, factor, found[limit, factor][-1], flush=True)
    head = ["limit", "usage times", "nodes emptied", "overload without moves, h", "with moves, h"]
    rows = [
        [f"{limit:g}", f"{factor:g}", *(", ".join(one) for one in zip(*found[limit, factor], strict=True))]
        for limit, factor in settings
    ]
    print(markdown_table(head, rows))


if __name__ == "__main__":
    tyro.cli(main)
