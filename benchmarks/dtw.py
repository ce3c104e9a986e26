"""Time and memory of DTW against tslearn, and of K-Medoids against its backends."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tyro
from timing import in_own_process, measure, peak

from tvwrl.ec.clustering import k_medoids
from tvwrl.ec.dtw import dtw_distances
from tvwrl.markdown import markdown_table

CLASSES = 8


@dataclass(frozen=True)
class Options:
    """Time and memory of DTW and K-Medoids."""

    series: int = 1_000
    slots: int = 300
    radius: int = 30
    """Of the band, slots."""
    seconds: float = 60
    """For tslearn, per comparison."""
    threads: int | None = os.cpu_count()
    jobs: tuple[str, ...] = ("dtw", "banded", "k_medoids")


def make_series(count: int, slots: int) -> list[np.ndarray]:
    """Two resources of twelve daily patterns at three levels, shifted, scaled and noisy."""
    rng, t, series = np.random.default_rng(0), np.arange(slots), []
    for kind in rng.integers(0, 12, count):
        wave = 1 + np.sin(2 * np.pi * (t + rng.integers(0, 40)) / (20 + 10 * kind))
        series.append(wave[:, None] * rng.uniform(0.2, 1, 2) + kind % 3 + rng.normal(0, 0.2, (slots, 2)))
    return series


def warp(a: Options, radius: int | None) -> dict[str, float]:
    """Ours on all pairs; tslearn on as many of the first series as its time allows, ours on those again beside it."""
    series = make_series(a.series, a.slots)
    ours = partial(dtw_distances, radius=radius, threads=a.threads)
    theirs = partial(ours, backend="tslearn")
    ours(series[:4])  # compiles
    before = peak()
    result, wall, cpu, most = measure(ours, series)
    figures = {"series": a.series, "s": wall, "cpu": cpu, "peak_mib": 1024 * most, "of_it_mib": 1024 * (most - before)}
    theirs(series[:4])
    per_pair = measure(theirs, series[:40]).wall / (40 * 39 / 2)
    count = min(a.series, int(np.sqrt(2 * a.seconds / per_pair)))
    peer, own = measure(theirs, series[:count]), measure(ours, series[:count])
    figures |= {"subset": count, "subset_s": own.wall, "subset_cpu": own.cpu}
    figures |= {"tslearn_subset_s": peer.wall, "tslearn_subset_cpu": peer.cpu}
    figures |= {"times_faster": peer.wall / own.wall, "times_faster_cpu": peer.cpu / own.cpu}
    return figures | {"difference": float(np.abs(result[:, :count, :count] - peer.result).max())}


def cluster(a: Options) -> dict[str, float]:
    """CPU seconds and loss of 50 starts of each backend on distances among points."""
    from scipy.spatial.distance import cdist

    points = np.random.default_rng(0).normal(size=(a.series, 4))
    apart, figures = cdist(points, points), {}
    for backend in ("tvwrl", "kmedoids", "sklearn-extra"):
        if importlib.util.find_spec(backend.replace("-", "_")) is None:
            continue
        k_medoids(apart[:50, :50], CLASSES, 0, backend)
        found = measure(lambda name: [k_medoids(apart, CLASSES, seed, name) for seed in range(50)], backend)
        loss = min(apart[:, medoids].min(axis=1).sum() for medoids in found.result)
        figures |= {f"{backend}_cpu": found.cpu, f"{backend}_loss": loss}
    return figures


def job(name: str, a: Options) -> Any:
    """The figures of a job, by name."""
    return cluster(a) if name == "k_medoids" else warp(a, a.radius if name == "banded" else None)


def main(asked: Options) -> None:
    """Each job in a process of its own, for its peak memory."""
    for name in asked.jobs:
        rows = [[what, f"{v:.6g}"] for what, v in in_own_process(job, name, asked).items()]
        print(markdown_table((name, ""), rows) + "\n", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options))
