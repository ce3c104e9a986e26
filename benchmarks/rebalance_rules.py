"""What our plans save beside the rules of other projects, at equal evictions, and what any rule could save.

OMP_NUM_THREADS=1 python benchmarks/rebalance_rules.py, and with --bitbrains FOLDER on a week of 1,000 pods with that
trace's usage. Eight days are replayed under each rule at several settings (`tvwrl what-if --moves` does the same with a
record of yours). Between the settings of ours, what is saved at some number of evictions is taken from the straight
line between the two settings beside it, and below the first from the line to no evictions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import tyro
from what_if_names import sample

from tvwrl.markdown import markdown_table
from tvwrl.rebalance import generated_cluster
from tvwrl.rebalance.move_rule import Rebalance
from tvwrl.types import Float
from tvwrl.what_if import Recorded, Replay
from tvwrl.what_if.from_csv import USUAL, read_csv_record, without_pools
from tvwrl.what_if.moves import compare_moves, usual_moves_per_hour

SECONDS = 1800  # of a slot in which moves are decided
PRICES = (1.5, 2.0, 2.4, 2.7, 3.0)
OTHERS = (
    *(f"{profile}karpenter(after={hours})" for profile in ("", "most-allocated + ") for hours in (0, 2, 4, 8)),
    *(f"most-allocated + high-node-utilization(low={low})" for low in (0.5, 0.6, 0.7)),
    "low-node-utilization(low=0.5)", "low-node-load(high=0.45)",
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
    "any at most",
]


def most_saved(recorded: Recorded, moves_per_hour: int) -> float:
    """A bound on the machine-hours a day that any rule can save with so many moves an hour, which knows the future.

    Requests have to fit in total: pods can be cut in pieces. A node can be empty from some moment on only if the pods
    that were recorded there and run at that moment, or fewer earlier, were moved; pods that came elsewhere, as others
    had filled their node, are taken to have been moved too.
    """
    slots, nodes, free = recorded.slots, len(recorded.size), np.flatnonzero(~recorded.bound)
    end = recorded.start + recorded.length
    request = np.nan_to_num(recorded.request)

    def at_a_time(amount: Float, node: np.ndarray, width: int) -> Float:
        change = np.zeros((slots + 1, width, amount.shape[1]))
        np.add.at(change, (recorded.start[free], node), amount[free])
        np.add.at(change, (end[free], node), -amount[free])
        return change[:-1].cumsum(axis=0)

    room = recorded.size.copy()
    for i in np.flatnonzero(recorded.bound & (recorded.length == slots)):
        room[recorded.node[i]] -= request[i]
    asked = at_a_time(request, np.zeros(len(free), np.int64), 1)[:, 0]
    largest = np.sort(room, axis=0)[::-1].cumsum(axis=0)
    needed = (asked[:, None, :] > largest * (1 + 1e-9)).sum(axis=1).max(axis=1) + 1
    pods = at_a_time(np.ones((len(request), 1)), recorded.node[free], nodes)[:, :, 0].round()
    fewest = np.sort(np.minimum.accumulate(pods, axis=0), axis=1).cumsum(axis=1)
    ratio = SECONDS // recorded.interval
    moves = np.arange(slots) // ratio * max(moves_per_hour * SECONDS // 3600, 1)
    left = nodes - (fewest <= moves[:, None]).sum(axis=1)
    used = (pods > 0).sum(axis=1)
    return float((used - np.minimum(used, np.maximum(needed, left))).mean() * 24)


def week_of(bitbrains: Path) -> Recorded:
    """A week of 1,000 pods on 120 nodes of two kinds, with the usage of that trace's machines."""
    with tempfile.TemporaryDirectory() as folder:
        sample(Path(folder), bitbrains)
        return without_pools(read_csv_record(Path(folder, "usage.csv"), Path(folder, "nodes.csv"), 300), USUAL)


def rows_of(name: str, recorded: Recorded, rules: tuple[str, ...]):
    """A row for each rule that moved something."""
    found = compare_moves(Replay(recorded, SECONDS), rules, orders=1)
    most = most_saved(recorded, usual_moves_per_hour(recorded))
    points = {
        one.name: (found.evictions(one), found.compared.saved(one, "machine_hours").value)
        for one in found.compared.outcomes
    }
    at, saved = np.array([(0.0, 0.0), *sorted(points[rule] for rule in points if Rebalance.name in rule)]).T
    for one in found.compared.others:
        evictions, hours = points[one.name]
        if not evictions:
            continue
        over = one.mean("cpu_over").value + one.mean("memory_over").value
        ours, mine = float(np.interp(evictions, at, saved)), Rebalance.name in one.name
        more = ["" if mine or hours <= 0 else f"{value / hours - 1:+.0%}" for value in (ours, most)]
        figures = [f"{evictions:.1f}", f"{hours:.0f}", f"{over:.1f}", f"{found.count(one, 'returns'):.0f}"]
        yield [name, one.name, *figures, f"{ours:.0f}", *more]


def main(
    nodes: int = 60,
    seeds: tuple[int, ...] = (0, 1, 2),
    asked: tuple[float, float] = (1.0, 4.0),
    prices: tuple[float, ...] = PRICES,
    rules: tuple[str, ...] = OTHERS,
    bitbrains: Path | None = None,
) -> None:
    """Print a table for all clusters.

    Args:
        nodes: of a cluster.
        seeds: that draw the clusters.
        asked: requests, in mean uses.
        prices: of a move, at which ours is played.
        rules: beside ours.
        bitbrains: a folder with that trace: its week instead of the generated clusters.
    """
    if bitbrains is None:
        clusters = ((f"{nodes} nodes, seed {seed}", generated_cluster(nodes, seed, asked).whole) for seed in seeds)
    else:
        clusters = iter([("Bitbrains", week_of(bitbrains))])
    ours = tuple(f"most-allocated + {Rebalance.name}(price={price:g})" for price in prices)
    rows = []
    for name, recorded in clusters:
        for row in rows_of(name, recorded, (*ours, *rules)):
            rows.append(row)
            print(row, flush=True)
    print(markdown_table(HEAD, rows))


if __name__ == "__main__":
    tyro.cli(main)
