"""What our plans save beside the rules of other projects, at equal evictions, on generated clusters.

OMP_NUM_THREADS=1 python benchmarks/rebalance_rules.py. Eight days are replayed under each
rule at several settings (`tvwrl what-if --moves` does the same with a record of yours). Between the settings of ours,
what is saved at some number of evictions is taken from the straight line between the two settings beside it, and
below the first from the line to no evictions.
"""

from __future__ import annotations

import numpy as np
import tyro

from tvwrl.markdown import markdown_table
from tvwrl.rebalance import generated_cluster
from tvwrl.rebalance.move_rule import Rebalance
from tvwrl.what_if import Replay
from tvwrl.what_if.moves import compare_moves

OURS = tuple(f"most-allocated + {Rebalance.name}(price={price})" for price in (1.0, 1.5, 2.0, 2.4, 2.7, 3.0))
OTHERS = (
    *(f"{profile}karpenter({options})" for profile in ("", "most-allocated + ") for options in
      ("after=0", "after=2", "after=4", "after=8", "budget=0.02,after=4")),
    "karpenter-balanced", *(f"most-allocated + high-node-utilization(low={low})" for low in (0.4, 0.5, 0.6, 0.7)),
    "low-node-utilization", "low-node-load(high=0.45)", "greedy-evacuate",
)  # fmt: skip
HEAD = [
    "cluster",
    "rule",
    "evictions a day",
    "machine-hours saved a day",
    "overload, h",
    "returns",
    "ours at as many",
    "ours more",
]


def main(nodes: int = 60, seeds: tuple[int, ...] = (0, 1, 2)) -> None:
    """Print a table for each cluster.

    Args:
        nodes: of a cluster.
        seeds: that draw the clusters.
    """
    rows = []
    for seed in seeds:
        replay = Replay(generated_cluster(nodes, seed).whole, 1800)
        found = compare_moves(replay, (*OURS, *OTHERS), orders=1)
        points = {
            one.name: (found.evictions(one), found.compared.saved(one, "machine_hours").value)
            for one in found.compared.outcomes
        }
        mine = sorted(points[name] for name in points if Rebalance.name in name)
        at, saved = np.array([(0.0, 0.0), *mine]).T
        for one in found.compared.others:
            evictions, hours = points[one.name]
            if not evictions:
                continue
            over = one.mean("cpu_over").value + one.mean("memory_over").value
            row = [f"{nodes} nodes, seed {seed}", one.name, f"{evictions:.1f}", f"{hours:.0f}", f"{over:.1f}"]
            ours = float(np.interp(evictions, at, saved))
            more = f"{ours / hours - 1:+.0%}" if hours > 0 else ""
            returns = f"{found.count(one, 'returns'):.0f}"
            rows.append([*row, returns, f"{ours:.0f}", "" if Rebalance.name in one.name else more])
            print(rows[-1], flush=True)
    print(markdown_table(HEAD, rows))


if __name__ == "__main__":
    tyro.cli(main)
