"""How long `tvwrl what-if --moves` takes for a week of a generated cluster, and what it prints.

OMP_NUM_THREADS=1 python benchmarks/what_if_moves.py. Replicas of a deployment have the same daily course and noise of
their own, request 0.5 to 1.8 times what they use on average, and are restarted every few days; batch pods run for
hours, and more of them come by day. A pod goes to the node with most room for requests, as kube-scheduler spreads them.
Nodes have 32 cores and 128 GiB, and a pod of a DaemonSet each.
"""

from __future__ import annotations

import tempfile
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import tyro
from timing import measure, peak

from tvwrl.rebalance.move_rule import what_if
from tvwrl.types import Float, Int
from tvwrl.what_if import WhatIfSettings

T0, DAY, INTERVAL = 1767571200, 86400, 300  # 2026-01-05T00:00:00Z
SIZE = np.array([32.0, 128.0])  # cores, GiB of a node
AGENT = np.array([0.5, 1.0])  # what a pod of the DaemonSet requests
BATCH = 0.05  # of the pods that run at a time
RUNS, HOURS = 3 * DAY // INTERVAL, 6 * 3600 // INTERVAL  # slots that a replica and a batch pod run on average


class Kind(NamedTuple):
    """What pods of one owner have in common."""

    owner: str
    level: Float  # cores, GiB used on average
    request: Float  # cores, GiB
    phase: float  # of the daily course, days
    swing: float  # of the daily course, a share of the level


def kind(rng: Any, owner: str) -> Kind:
    """Draw one."""
    level = rng.lognormal([-0.6, 0.9], 0.8).clip([0.05, 0.2], [4.0, 16.0])
    swing = rng.uniform(0.2, 0.8) if "deployment" in owner else 0.0
    return Kind(owner, level, level * rng.uniform(0.5, 1.8, 2), rng.normal(0.6, 0.1), swing)


def arrivals(rng: Any, pods: int, slots: int) -> list[tuple[int, int, Kind, int]]:
    """(slot, number, kind, slots that are left) of what is to run; replicas until the end."""
    found: list[tuple[int, int, Kind, int]] = []
    while len(found) < pods * (1 - BATCH):
        one = kind(rng, f"prod/deployment/app-{len(found)}")
        found += [(0, len(found) + i, one, slots) for i in range(min(rng.geometric(0.12), pods // 20 + 1))]
    rate = pods * BATCH / HOURS * (1 - 0.6 * np.cos(2 * np.pi * np.arange(slots) * INTERVAL / DAY))
    for slot in np.repeat(np.arange(slots), rng.poisson(rate)).tolist():
        one = kind(rng, f"prod/job/batch-{len(found)}")
        found.append((slot, len(found), one, 1 + int(rng.exponential(HOURS))))
    return found


def rows(pod: str, one: Kind, node: str, at: Int, usage: Float) -> pl.DataFrame:
    """The samples of a pod."""
    columns = {"pod": pod, "time": T0 + INTERVAL * at, "cpu": usage[:, 0].round(4), "memory": usage[:, 1].round(4)}
    columns |= {"node": node, "request_cpu": one.request[0], "request_memory": one.request[1], "owner": one.owner}
    return pl.DataFrame(columns)


def generate(folder: Path, pods: int, nodes: int, days: int, seed: int) -> dict[str, Path]:
    """Write the tables of usage and of nodes; about `pods` run at a time."""
    rng, slots = np.random.default_rng(seed), days * DAY // INTERVAL
    waiting, room = arrivals(rng, pods, slots), np.tile(SIZE - AGENT, (nodes, 1))
    heapify(waiting)
    number, parts, ends = len(waiting), list[pl.DataFrame](), list[tuple[int, int, int, Kind]]()
    while waiting:
        begin, i, one, left = heappop(waiting)
        while ends and ends[0][0] <= begin:
            _, _, node, gone = heappop(ends)
            room[node] += gone.request
        fits = (room >= one.request).all(axis=1)
        if not fits.any():
            continue
        node = int(np.where(fits, (room / SIZE).mean(axis=1), -1.0).argmax())
        life = min(left, slots - begin, 12 + int(rng.exponential(RUNS)))
        if left > life and begin + life < slots:
            heappush(waiting, (begin + life, number, one, left - life))
            number += 1
        room[node] -= one.request
        heappush(ends, (begin + life, i, node, one))
        at = np.arange(begin, begin + life)
        course = 1 + one.swing * np.array([[1.0, 0.2]]) * np.sin(2 * np.pi * (at[:, None] * INTERVAL / DAY - one.phase))
        usage = one.level * course * rng.gamma([20.0, 400.0], [0.05, 0.0025], (life, 2))
        parts.append(rows(f"{one.owner.replace('/', '-')}-{i:05d}", one, f"n{node:03d}", at, usage))
    agent = Kind("kube/daemonset/agent", AGENT, AGENT, 0.0, 0.0)
    everywhere = np.tile(0.7 * AGENT, (slots, 1))
    parts += [rows(f"agent-{node}", agent, f"n{node:03d}", np.arange(slots), everywhere) for node in range(nodes)]
    usage_file, nodes_file = folder / "usage.parquet", folder / "nodes.csv"
    pl.concat(parts).write_parquet(usage_file)
    names = [f"n{node:03d}" for node in range(nodes)]
    pl.DataFrame({"node": names, "cpu": SIZE[0], "memory": SIZE[1]}).write_csv(nodes_file)
    return {"usage": usage_file, "nodes": nodes_file}


def main(pods: int = 1000, nodes: int = 60, days: int = 7, seed: int = 0, moves: str = "", kept: str = "") -> None:
    """Print the page and the time that it took.

    Args:
        pods: that run at a time.
        nodes: of the cluster.
        days: that are replayed.
        seed: draws the cluster.
        moves: rules between semicolons; default: those of the command.
        kept: folder to leave the tables and the report in.
    """
    with tempfile.TemporaryDirectory() as work:
        folder = Path(kept or work)
        folder.mkdir(parents=True, exist_ok=True)
        tables = generate(folder, pods, nodes, days, seed)
        names = tuple(name for name in moves.split(";") if name)
        took = measure(what_if, WhatIfSettings(**tables, moves=names, out=folder / "report"))
    print(f"{took.wall:.1f} s, {took.cpu:.1f} s of processor time, {peak():.2f} GiB")


if __name__ == "__main__":
    tyro.cli(main)
