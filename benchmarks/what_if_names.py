"""Whether the verdict of `tvwrl what-if` hangs on names: a week of 1,000 pods with the usage of real machines, renamed.

OMP_NUM_THREADS=1 python benchmarks/what_if_names.py. The cluster is made of the Bitbrains trace (GWA-T-12,
fastStorage): each application is a virtual machine, and its pods are weeks of that machine that begin at different
moments. Half of the pods run all week; the others come and go. An application requests 1 to 3 times the 90th percentile
of its usage. A pod goes to the node with the most room for requests, as kube-scheduler spreads them, where its usage
fits too. So usage is real; requests and nodes are generated. As placed, nothing overshoots then, and all nodes are in
use; with --beyond and --idle, some does and some are not, which the count without `tvwrl` has to find as well.
"""

from __future__ import annotations

import json
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tyro

from tvwrl.markdown import markdown_table
from tvwrl.types import Float, Int
from tvwrl.what_if.command import WhatIfSettings, what_if

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "bitbrains"
PARTS = ("recommended", "open", "risky", "dearer")  # of a verdict
DAEMON = np.array([0.1, 0.25])  # cores and GiB that a pod of a DaemonSet requests on each node
DIGITS = 9  # after which figures differ by the order of what is summed
SELDOM = 20  # one in so many pods may go to nodes that are seldom in use
EXCESS = 0.05  # of a node, by which a pod that is to exceed it does at least
MONTH, DAY, INTERVAL = 8640, 288, 300  # slots, slots, seconds
BEGINS = 1767571200  # 2026-01-05T00:00:00Z
KINDS = (("m5.4xlarge", 16.0, 64.0, 0.768), ("c5.4xlarge", 16.0, 32.0, 0.68))  # cores, GiB, USD an hour


def sample(
    folder: Path,
    data: Path = DATA,
    pods: int = 1000,
    days: int = 7,
    nodes: int = 120,
    seed: int = 0,
    beyond: float = 0.0,
    idle: float = 0.0,
) -> None:
    """Write usage.csv and nodes.csv: `pods` of `days` on `nodes` of two kinds, and 3 of the control plane.

    `beyond`: share of pods that go where they exceed a node, by turns its CPU and its memory
    `idle`: share of nodes of which half get no pods, and the others only one in `SELDOM` pods, which comes and goes
    """
    rng, slots = np.random.default_rng(seed), days * DAY
    meta = pl.read_csv(data / "fastStorage_meta.csv.gz").select("month", "vm", "cores", "memcap")
    usage = pl.read_parquet(data / "fastStorage.parquet").with_columns(pl.col("month").cast(pl.String))
    usage = usage.with_columns(pl.col("vm").cast(pl.Int64)).join(meta, on=["month", "vm"])
    machines = usage.filter(pl.col("cores") <= 8).partition_by("vm", maintain_order=True)
    sizes = [(f"node-{m:03d}", *KINDS[m % len(KINDS)]) for m in range(nodes)]
    room = np.array([size[2:4] for size in sizes])
    daemons = np.full((slots, nodes, 2), DAEMON)
    reserved, load = daemons.copy(), 2 * daemons
    rows: list[pl.DataFrame] = []
    chosen = [machines[i] for i in rng.choice(len(machines), max(pods // 7, 1))]
    busy, seldom = nodes - round(idle * nodes), nodes - round(idle * nodes / 2)
    for i in count():
        if len(rows) == pods:
            break
        allowed = np.zeros(nodes, np.bool_)
        allowed[slice(busy, seldom) if i % SELDOM == 0 and seldom > busy else slice(busy)] = True
        app = i % len(chosen)
        whole, used = _month(chosen[app])
        request = np.quantile(used[whole], 0.9, axis=0) * np.random.default_rng(app).uniform(1, 3, 2)
        request = np.clip(request, 0.01, (8.0, 24.0))
        first, length = (0, slots) if i % 2 else (int(rng.integers(0, slots - 12)), int(rng.integers(12, 600)))
        last = min(first + length, slots)
        begin = int(rng.integers(0, MONTH - slots))
        own = used[begin + first : begin + last]
        free = 1 - (reserved[first:last].max(axis=0) + request) / room
        excess = (load[first:last] + own[:, None]).max(axis=0) / room - 1
        fits = ((free >= 0) & (excess <= 0)).all(axis=1) & allowed
        over = np.where((excess[:, i // 2 % 2] > EXCESS) & allowed, excess[:, i // 2 % 2], np.inf)
        if np.random.default_rng([seed, i]).random() < beyond and np.isfinite(over).any():
            node = int(over.argmin())
        elif fits.any():
            node = int(np.where(fits, free.mean(axis=1), -np.inf).argmax())
        else:
            continue
        reserved[first:last, node] += request
        load[first:last, node] += own
        seen = np.flatnonzero(whole[begin + first : begin + last])
        rows.append(
            _rows(f"prod/app-{app}-{i:04d}", f"prod/deployment/app-{app}", node, first + seen, own[seen], request)
        )
    for m in range(nodes):
        daemon = DAEMON * rng.gamma(20, 0.05, (slots, 1))
        rows.append(_rows(f"kube-system/agent-{m}", "kube-system/daemonset/agent", m, np.arange(slots), daemon, DAEMON))
    masters = [(f"master-{m}", "m5.large", 2.0, 8.0, 0.11) for m in range(3)]
    for m in range(3):
        own = np.column_stack([0.4 * rng.gamma(20, 0.05, slots), np.full(slots, 2.0)])
        owner = "kube-system/deployment/controllers"
        rows.append(_rows(f"kube-system/controllers-{m}", owner, nodes + m, np.arange(slots), own, (0.5, 2.0)))
    table = pl.concat(rows)
    names = np.array([size[0] for size in (*sizes, *masters)])
    table.with_columns(pl.Series("node", names[table["node"].to_numpy()])).write_csv(folder / "usage.csv")
    facts = pl.DataFrame([*sizes, *masters], ["node", "kind", "cpu", "memory", "price"], orient="row")
    role = pl.Series("role", ["worker"] * nodes + ["control-plane"] * 3)
    facts.with_columns(role).write_csv(folder / "nodes.csv")


def _month(machine: pl.DataFrame) -> tuple[Any, Float]:
    """Which slots were recorded, and usage (slots, 2): cores, GiB."""
    used, whole = np.zeros((MONTH, 2)), np.zeros(MONTH, np.bool_)
    slot = machine["slot"].to_numpy()
    whole[slot] = True
    used[slot, 0] = machine["cpu"].to_numpy() / 1e4 * machine["cores"].to_numpy()
    used[slot, 1] = machine["mem"].to_numpy() / 1e4 * machine["memcap"].to_numpy() / 2**20
    return whole, used


def _rows(pod: str, owner: str, node: int, slot: Int, used: Float, request: Any) -> pl.DataFrame:
    samples = len(slot)
    return pl.DataFrame(
        {
            "pod": [pod] * samples,
            "time": BEGINS + slot * INTERVAL,
            "cpu": np.round(used[:, 0], 5),
            "memory": np.round(used[:, 1], 5),
            "node": np.full(samples, node),
            "request_cpu": np.full(samples, round(float(request[0]), 3)),
            "request_memory": np.full(samples, round(float(request[1]), 3)),
            "owner": [owner] * samples,
        }
    )


def renamed(source: Path, folder: Path, seed: int) -> None:
    """Write the same cluster with other names of pods, nodes and owners, and its rows in another order."""
    rng = np.random.default_rng(seed)
    usage, nodes = pl.read_csv(source / "usage.csv"), pl.read_csv(source / "nodes.csv")
    for column, prefix in (("pod", "x/p"), ("node", "n"), ("owner", "")):
        old = sorted({*usage[column], *(nodes[column] if column in nodes.columns else ())})
        new = [f"{prefix}{number:06d}" for number in rng.permutation(len(old)).tolist()]
        if column == "owner":
            new = [f"x/{name.split('/')[1]}/{number}" for name, number in zip(old, new, strict=True)]
        usage = usage.with_columns(pl.col(column).replace_strict(old, new))
        if column in nodes.columns:
            nodes = nodes.with_columns(pl.col(column).replace_strict(old, new))
    usage.sample(fraction=1.0, shuffle=True, seed=seed).write_csv(folder / "usage.csv")
    nodes.sample(fraction=1.0, shuffle=True, seed=seed).write_csv(folder / "nodes.csv")


def counted(folder: Path) -> dict[str, Float]:
    """By quantity, (days,) of how the pods were placed, counted from the two tables without a line of `tvwrl`.

    Nodes of the control plane are left out. Up to an hour without a sample has the one before, as in the replay.
    """
    nodes = pl.read_csv(folder / "nodes.csv").filter(pl.col("role") == "worker")
    usage = pl.read_csv(folder / "usage.csv").join(nodes.select("node", size=pl.col("cpu")), on="node")
    usage = usage.with_columns(slot=pl.col("time") // INTERVAL, moves=~pl.col("owner").str.contains("daemonset"))
    begin = usage["slot"].min()
    gap = pl.col("slot").shift(-1).over("pod") - pl.col("slot")
    until = pl.col("slot") + pl.when(gap <= 13).then(gap).otherwise(1).fill_null(1)
    usage = usage.sort("pod", "slot").with_columns(slot=pl.int_ranges("slot", until)).explode("slot")
    usage = usage.with_columns(day=(pl.col("slot") - begin) // DAY)
    size = nodes.select("node", cores="cpu", gib="memory")
    load = usage.group_by("day", "slot", "node").agg(pl.col("cpu", "memory").sum(), pl.col("moves").any().alias("busy"))
    load = load.join(size, on="node").with_columns(
        cpu_over=pl.col("cpu") > pl.col("cores") * (1 + 1e-9), memory_over=pl.col("memory") > pl.col("gib") * (1 + 1e-9)
    )
    at_a_time = load.group_by("day", "slot").agg(pl.col("busy", "cpu_over", "memory_over").sum()).sort("slot")
    days = at_a_time.group_by("day").agg(
        needed=pl.col("busy").max(),
        in_use=pl.col("busy").mean(),
        machine_hours=pl.col("busy").sum() / 12,
        cpu_over=pl.col("cpu_over").sum() / 12,
        memory_over=pl.col("memory_over").sum() / 12,
    )
    return {name: days.sort("day")[name].to_numpy().astype(np.float64) for name in days.columns if name != "day"}


def found_in(folder: Path, out: Path, seed: int = 0) -> tuple[dict[str, Any], float]:
    """What `tvwrl what-if` says of a cluster, and how many seconds it took."""
    began = time.perf_counter()
    what_if(WhatIfSettings(usage=folder / "usage.csv", nodes=folder / "nodes.csv", out=out, seed=seed))
    text = (out / "what-if.json").read_text()
    found: dict[str, Any] = json.loads(text, parse_float=lambda number: round(float(number), DIGITS))
    return found, time.perf_counter() - began


def intervals(found: dict[str, Any]) -> dict[tuple[str, str], tuple[float, float]]:
    """Low and high end by scheduler and quantity, of what has an interval."""
    points = {
        (name, quantity): (point["low"], point["high"])
        for name, outcome in found["outcomes"].items()
        for quantity, point in outcome.items()
        if isinstance(point, dict) and point.get("low") is not None
    }
    return points


def same(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Whether the rules of each part of the verdict are the same, and which of those with fewest machines comes first;
    how many intervals overlap; and whether all figures are equal."""
    mine, others = intervals(one), intervals(other)
    overlap = [max(a, c) <= min(b, d) for (a, b), (c, d) in ((mine[key], others[key]) for key in mine)]
    equal = one["outcomes"] == other["outcomes"]
    parts = [{name: set(rules) for name, rules in found["verdict"].items()} for found in (one, other)]
    verdict = ["same" if parts[0][part] == parts[1][part] else "other" for part in PARTS]
    verdict.append(" or ".join(other["verdict"]["fewest"]))
    return [*verdict, f"{sum(overlap)} of {len(overlap)}", "yes" if equal else "no"]


def main(
    pods: int = 1000,
    days: int = 7,
    nodes: int = 120,
    renamings: int = 10,
    seeds: int = 5,
    kept: Path | None = None,
    beyond: float = 0.0,
    idle: float = 0.0,
) -> None:
    """Print the tables.

    Args:
        kept: folder to leave the cluster's two tables and its report in.
        pods: of the cluster.
        days: that are replayed.
        nodes: of the cluster, besides the control plane.
        renamings: other names of the same cluster.
        seeds: other draws of the orders of what ties, under the same names.
        beyond: share of pods that go where they exceed a node.
        idle: share of nodes that are never or seldom in use.
    """
    with tempfile.TemporaryDirectory() as work:
        base, other, out = kept or Path(work) / "base", Path(work) / "other", Path(work) / "out"
        for folder in (base, other):
            folder.mkdir(parents=True, exist_ok=True)
        sample(base, pods=pods, days=days, nodes=nodes, beyond=beyond, idle=idle)
        first, seconds = found_in(base, base / "report")
        took, rows = [seconds], []
        for seed in range(1, renamings + 1):
            renamed(base, other, seed)
            again, seconds = found_in(other, out / f"renamed-{seed}")
            took.append(seconds)
            rows.append([f"renamed, {seed}", *same(first, again)])
        for seed in range(1, seeds + 1):
            again, seconds = found_in(base, out / f"seed-{seed}", seed)
            took.append(seconds)
            rows.append([f"other orders, {seed}", *same(first, again)])
        if rows:
            print(markdown_table(["", *PARTS, "fewest", "intervals overlap", "all figures equal"], rows))
        print(f"verdict: {first['verdict']}; {max(one['orders'] for one in first['outcomes'].values())} orders")
        print(f"seconds: {min(took):.0f} to {max(took):.0f}")
        mine = first["outcomes"]["as-placed"]
        independent = [
            [name, f"{mine[name]['mean']:.3f}", f"{found.mean():.3f}"] for name, found in counted(base).items()
        ]
        print(markdown_table(["as-placed", "tvwrl what-if", "counted independently"], independent))


if __name__ == "__main__":
    tyro.cli(main)
