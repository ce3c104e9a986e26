"""Whether the verdict of `tvwrl what-if` hangs on names: a week of 1,000 pods with the usage of real machines, renamed.

OMP_NUM_THREADS=1 python benchmarks/what_if_names.py. The cluster is made of the Bitbrains trace (GWA-T-12, fastStorage):
each application is a virtual machine, and its pods are the weeks of that machine that begin at different moments. Half
of the pods run all week; the others come and go. Requests lie between the 70th percentile and the maximum of usage. A
spread by requests, as that of kube-scheduler, gives each pod its node, so the nodes are generated and the usage is real.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tyro

from tvwrl.markdown import markdown_table
from tvwrl.types import Float, Int
from tvwrl.what_if.command import WhatIfSettings, what_if

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "bitbrains"
MONTH, DAY, INTERVAL = 8640, 288, 300  # slots, slots, seconds
BEGINS = 1767571200  # 2026-01-05T00:00:00Z
KINDS = (("m5.4xlarge", 16.0, 64.0, 0.768), ("c5.4xlarge", 16.0, 32.0, 0.68))  # cores, GiB, USD an hour


def sample(folder: Path, data: Path = DATA, pods: int = 1000, days: int = 7, nodes: int = 120, seed: int = 0) -> None:
    """Write usage.csv and nodes.csv: `pods` of `days` on `nodes` of two kinds, and 3 of the control plane."""
    rng, slots = np.random.default_rng(seed), days * DAY
    meta = pl.read_csv(data / "fastStorage_meta.csv.gz").select("month", "vm", "cores", "memcap")
    usage = pl.read_parquet(data / "fastStorage.parquet").with_columns(pl.col("month").cast(pl.String))
    usage = usage.with_columns(pl.col("vm").cast(pl.Int64)).join(meta, on=["month", "vm"])
    machines = usage.filter(pl.col("cores") <= 8).partition_by("vm", maintain_order=True)
    sizes = [(f"node-{m:03d}", *KINDS[m % len(KINDS)]) for m in range(nodes)]
    room = np.array([size[2:4] for size in sizes])
    reserved, rows = np.zeros((slots, nodes, 2)), []
    chosen = [machines[i] for i in rng.choice(len(machines), max(pods // 7, 1))]
    for i in range(pods):
        app = i % len(chosen)
        whole, used = _month(chosen[app])
        request = np.maximum(np.quantile(used[whole], 0.7 + 0.3 * np.random.default_rng(app).random(), axis=0), 0.01)
        first, length = (0, slots) if i % 2 else (int(rng.integers(0, slots - 12)), int(rng.integers(12, 600)))
        last = min(first + length, slots)
        begin = int(rng.integers(0, MONTH - slots))
        own = used[begin + first : begin + last]
        free = 1 - (reserved[first:last].max(axis=0) + request) / room
        node = int(np.where((free >= 0).all(axis=1), free.mean(axis=1), -np.inf).argmax())
        reserved[first:last, node] += request
        seen = np.flatnonzero(whole[begin + first : begin + last])
        rows.append(_rows(f"prod/app-{app}-{i:04d}", f"prod/deployment/app-{app}", node, first + seen, own[seen], request))
    for m in range(nodes):
        load = np.column_stack([0.1 * rng.gamma(20, 0.05, slots), np.full(slots, 0.25)])
        rows.append(_rows(f"kube-system/agent-{m}", "kube-system/daemonset/agent", m, np.arange(slots), load, (0.1, 0.25)))
    masters = [(f"master-{m}", "m5.large", 2.0, 8.0, 0.11) for m in range(3)]
    for m in range(3):
        load = np.column_stack([0.4 * rng.gamma(20, 0.05, slots), np.full(slots, 2.0)])
        owner = "kube-system/deployment/controllers"
        rows.append(_rows(f"kube-system/controllers-{m}", owner, nodes + m, np.arange(slots), load, (0.5, 2.0)))
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
    count = len(slot)
    return pl.DataFrame(
        {
            "pod": [pod] * count,
            "time": BEGINS + slot * INTERVAL,
            "cpu": np.round(used[:, 0], 5),
            "memory": np.round(used[:, 1], 5),
            "node": np.full(count, node),
            "request_cpu": np.full(count, round(float(request[0]), 3)),
            "request_memory": np.full(count, round(float(request[1]), 3)),
            "owner": [owner] * count,
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
