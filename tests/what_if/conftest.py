"""Small recorded clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tvwrl.what_if.recorded import Recorded, record_of

DAY = 288  # slots of 300 s
ORIGIN = 1767571200 // 300  # 2026-01-05T00:00:00Z


def record(
    pods: Sequence[dict[str, Any]], nodes: Sequence[tuple[str, float, float]] = (("a", 4, 16), ("b", 4, 16))
) -> Recorded:
    """Pods with `name, node, slots` and perhaps `cpu, mem` (a number, or one a slot), `owner`, `request` (cpu, mem)."""
    rows, facts = [], []
    for pod in pods:
        slots = np.asarray(pod["slots"], np.int64)
        node = pod["node"] if isinstance(pod["node"], list) else [pod["node"]] * len(slots)
        cpu, mem = (np.broadcast_to(np.asarray(pod.get(key, 1.0), np.float64), len(slots)) for key in ("cpu", "mem"))
        shown = {"pod": [pod["name"]] * len(slots), "slot": slots + ORIGIN, "cpu": cpu, "mem": mem, "node": node}
        rows.append(pl.DataFrame(shown, schema_overrides={"node": pl.String}))
        request = pod.get("request", (None, None))
        facts.append((pod["name"], pod.get("owner", f"x/deployment/{pod['name']}"), *request))
    schema = {"pod": pl.String, "owner": pl.String, "request_cpu": pl.Float64, "request_mem": pl.Float64}
    sizes = pl.DataFrame(nodes, schema={"node": pl.String, "cpu": pl.Float64, "mem": pl.Float64}, orient="row")
    return record_of("test", pl.concat(rows), pl.DataFrame(facts, schema=schema, orient="row"), sizes, 300)


@pytest.fixture
def tables(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Writes usage.csv and nodes.csv."""

    def write(usage: str, nodes: str = "node,cpu,memory\na,4,16\nb,4,16\n") -> tuple[Path, Path]:
        (tmp_path / "usage.csv").write_text(usage)
        (tmp_path / "nodes.csv").write_text(nodes)
        return tmp_path / "usage.csv", tmp_path / "nodes.csv"

    return write


def generated(pods: int = 40, nodes: int = 8, days: int = 3, seed: int = 0) -> Recorded:
    """A cluster of pods with daily patterns, spread over its nodes; some come and go."""
    rng, made = np.random.default_rng(seed), []
    for i in range(pods):
        begin = 0 if i % 2 else int(rng.integers(0, days * DAY - 60))
        slots = np.arange(begin, min(days * DAY, begin + (days * DAY if i % 3 else 60)))
        cpu = 0.4 * (1 + 0.8 * np.sin(2 * np.pi * (slots / DAY + rng.random()))) * rng.gamma(20, 0.05, len(slots))
        made.append(
            {"name": f"x/p{i}", "node": f"n{i % nodes}", "slots": slots, "cpu": cpu, "mem": 1.0, "request": (0.5, 1.5)}
        )
    return record(made, [(f"n{m}", 4.0, 16.0) for m in range(nodes)])


@pytest.fixture
def week(tmp_path):
    """Two days of 12 pods on six nodes as tables."""
    rng, rows = np.random.default_rng(0), []
    for i in range(12):
        slots = np.arange(40 * i, 576)
        cpu = np.round(0.3 + 0.2 * rng.random(len(slots)), 4)
        samples = zip(300 * (ORIGIN + slots), cpu, strict=True)
        rows += [(f"x/p{i}", time, used, 1.0, f"n{i % 6}", 0.5, 1.5) for time, used in samples]
    names = ["pod", "time", "cpu", "memory", "node", "request_cpu", "request_memory"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(tmp_path / "usage.csv")
    sizes = {"node": [f"n{m}" for m in range(6)], "cpu": [4.0] * 6, "memory": [16.0] * 6}
    pl.DataFrame(sizes).write_csv(tmp_path / "nodes.csv")
    return {"usage": tmp_path / "usage.csv", "nodes": tmp_path / "nodes.csv", "out": tmp_path / "out"}
