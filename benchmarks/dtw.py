"""Time and memory of DTW against tslearn, of K-Medoids against its backends, and of CLARA on many series."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CLASSES = 8
CHECKED = 1_000  # series on which CLARA is held against exact K-Medoids


def make_series(count: int, slots: int) -> list[np.ndarray]:
    """Two resources of twelve daily patterns at three levels, shifted, scaled and noisy."""
    rng, t, series = np.random.default_rng(0), np.arange(slots), []
    for kind in rng.integers(0, 12, count):
        wave = 1 + np.sin(2 * np.pi * (t + rng.integers(0, 40)) / (20 + 10 * kind))
        series.append(wave[:, None] * rng.uniform(0.2, 1, 2) + kind % 3 + rng.normal(0, 0.2, (slots, 2)))
    return series


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Result, wall-clock and CPU seconds."""
    begun, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, time.perf_counter() - begun, time.process_time() - cpu


def memory() -> float:
    """Peak memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def warp(a: argparse.Namespace, radius: int | None) -> dict[str, float]:
    """Ours on all pairs; tslearn on as many of the first series as its time allows, ours on those again beside it."""
    from tvwrl.ec.dtw import dtw_distances

    series = make_series(a.series, a.slots)
    dtw_distances(series[:4], radius=radius, threads=a.threads)  # compiles
    before = memory()
    result, wall, cpu = timed(lambda: dtw_distances(series, radius=radius, threads=a.threads))
    figures = {"series": a.series, "s": wall, "cpu": cpu, "peak_mib": memory(), "of_it_mib": memory() - before}

    def theirs(count: int) -> Any:
        return timed(lambda: dtw_distances(series[:count], radius=radius, threads=a.threads, backend="tslearn"))

    theirs(4)
    per_pair = theirs(40)[1] / (40 * 39 / 2)
    count = min(a.series, int(np.sqrt(2 * a.seconds / per_pair)))
    expected, their_wall, their_cpu = theirs(count)
    (_, our_wall, our_cpu) = timed(lambda: dtw_distances(series[:count], radius=radius, threads=a.threads))
    figures |= {"subset": count, "subset_s": our_wall, "subset_cpu": our_cpu}
    figures |= {"tslearn_subset_s": their_wall, "tslearn_subset_cpu": their_cpu}
    figures |= {"times_faster": their_wall / our_wall, "times_faster_cpu": their_cpu / our_cpu}
    return figures | {"difference": float(np.abs(result[:, :count, :count] - expected).max())}


def cluster(a: argparse.Namespace) -> dict[str, float]:
    """CPU seconds and loss of 50 starts of each backend on distances among points."""
    from scipy.spatial.distance import cdist

    from tvwrl.ec.k_medoids import KMedoids

    points = np.random.default_rng(0).normal(size=(a.series, 4))
    apart, figures = cdist(points, points), {}
    backends = {"tvwrl": "tvwrl", "kmedoids": "kmedoids", "sklearn-extra": "sklearn_extra"}
    for backend, module in backends.items():
        if importlib.util.find_spec(module) is None:
            continue
        KMedoids(CLASSES, metric="precomputed", backend=backend).fit(apart[:50, :50])
        model = KMedoids(CLASSES, metric="precomputed", backend=backend, n_init=50, random_state=0)
        _, _, cpu = timed(lambda model=model: model.fit(apart))
        figures |= {f"{backend}_cpu": cpu, f"{backend}_loss": model.inertia_}
    return figures


def sample(a: argparse.Namespace) -> dict[str, float]:
    """CLARA on all series; and on `CHECKED` of them, beside exact K-Medoids from the full matrix."""
    from tvwrl.ec.clara import clara
    from tvwrl.ec.dtw import dtw_distances, mean_distance
    from tvwrl.ec.k_medoids import KMedoids

    series = make_series(a.many, a.slots)
    clara(series[:20], 2, radius=a.radius, threads=a.threads)
    before = memory()

    def run(members: list[np.ndarray], scale: Any = None) -> Any:
        return timed(lambda: clara(members, CLASSES, radius=a.radius, random_state=0, scale=scale, threads=a.threads))

    found, wall, cpu = run(series)
    figures = {"series": a.many, "s": wall, "cpu": cpu, "peak_mib": memory(), "of_it_mib": memory() - before}
    part, lengths = series[:CHECKED], [a.slots] * min(CHECKED, a.many)
    per_resource = dtw_distances(part, radius=a.radius, threads=a.threads)
    full = mean_distance(per_resource, lengths, lengths, found.scale)
    exact = KMedoids(CLASSES, metric="precomputed", n_init=50, random_state=0).fit(full).inertia_ / len(part)
    alone = run(part, found.scale)[0]
    return figures | {"loss": found.loss, "subset_loss": alone.loss, "exact_subset_loss": exact}


JOBS: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "dtw": lambda a: warp(a, None),
    "banded": lambda a: warp(a, a.radius),
    "k_medoids": cluster,
    "clara": sample,
}


def main() -> None:
    """Each job in a process of its own, for its peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=10_000, help="series for CLARA")
    parser.add_argument("--slots", type=int, default=300)
    parser.add_argument("--radius", type=int, default=30, help="of the band, slots")
    parser.add_argument("--seconds", type=float, default=60, help="for tslearn, per comparison")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--job", choices=list(JOBS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(JOBS[arguments.job](arguments)))
        return
    for job in arguments.jobs:
        run = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--job", job], capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(run.stderr)
        figures = json.loads(run.stdout.splitlines()[-1])
        print(job, *(f"  {name:20s} {value:.6g}" for name, value in figures.items()), sep="\n", flush=True)


if __name__ == "__main__":
    main()
