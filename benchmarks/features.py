"""Time and memory of the temporal features against tsfresh, on the same workloads in one run, and their differences."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RESOURCES = ("cpu", "mem")
SLOTS_PER_DAY = 288


def workloads(count: int, slots: int, ragged: bool) -> list[np.ndarray]:
    """Seeded daily usage with noise, fraction of a machine; `ragged`: every length from `slots` / 2 on, in turn."""
    rng = np.random.default_rng(0)
    series = []
    for i in range(count):
        length = slots // 2 + i % slots if ragged else slots
        day = np.sin(2 * np.pi * (np.arange(length)[:, None] / SLOTS_PER_DAY + rng.random(len(RESOURCES))))
        series.append(0.3 + 0.1 * day + 0.2 * rng.random((length, len(RESOURCES))))
    return series


def compute(job: str, series: list[np.ndarray]) -> np.ndarray:
    """The features by one of `JOBS`, columns in the same order."""
    from tvwrl.ec.features import aggregate_features, features_by_tsfresh, temporal_features
    from tvwrl.ec.temporal_statistics import column_names, temporal_settings

    if job == "aggregate":
        return aggregate_features(series, RESOURCES)[0]
    if job.startswith("tvwrl"):
        return temporal_features(series, RESOURCES, SLOTS_PER_DAY)[0]
    settings = temporal_settings(SLOTS_PER_DAY)
    names = [name for resource in RESOURCES for name in column_names(resource, settings)]
    return features_by_tsfresh(series, RESOURCES, settings, n_jobs=int(job.split("-")[1]))[names].to_numpy()


def run_job(job: str, count: int, slots: int, out: Path) -> None:
    """Measure one job in this process, imports and generated input apart; print figures, write features to `out`."""
    series = workloads(count, slots, job == "tvwrl-ragged")
    compute(job, [one[:100] for one in series[:2]])
    begun, before = time.perf_counter(), os.times()
    features = compute(job, series)
    wall, after = time.perf_counter() - begun, os.times()
    np.save(out, features)
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    figures = {
        "wall": wall,
        "cpu": sum(after[:4]) - sum(before[:4]),
        "memory": max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 2**20,
        "input": sum(one.nbytes for one in series) / 2**30,
        "features": features.shape[1],
    }
    print(json.dumps(figures))


def measure(job: str, count: int, slots: int, out: Path) -> dict[str, float]:
    """Wall-clock and CPU seconds, peak memory of the largest process (GiB) of a job in a process of its own."""
    command = [sys.executable, __file__, "--job", job, "--workloads", str(count), "--slots", str(slots)]
    run = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout.splitlines()[-1])


def show(job: str, count: int, figures: dict[str, float]) -> None:
    """One line per job."""
    print(
        f"{job:12s} {count:6d} workloads, {figures['features']} features: {figures['wall']:7.2f} s, "
        f"CPU {figures['cpu']:7.2f} s, peak {figures['memory']:.2f} GiB (input {figures['input']:.2f})",
        flush=True,
    )


def compare(count: int, slots: int, rounds: int, folder: Path) -> None:
    """Ours and tsfresh in turn, with no and with two worker processes; ratio of the best times, largest difference."""
    best: dict[str, dict[str, float]] = {}
    jobs = ("tvwrl", "tsfresh-0", "tsfresh-2")
    for _ in range(rounds):
        for job in jobs:
            figures = measure(job, count, slots, folder / f"{job}.npy")
            best[job] = min(best.get(job, figures), figures, key=lambda f: f["wall"])
    for job in jobs:
        show(job, count, best[job])
    fastest = min(jobs[1:], key=lambda job: best[job]["wall"])
    ours, theirs = (np.load(folder / f"{job}.npy") for job in ("tvwrl", fastest))
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    scale = np.where(theirs == 0, 1.0, np.abs(theirs))
    print(
        f"{best[fastest]['wall'] / best['tvwrl']['wall']:.0f} x faster than {fastest} (wall), "
        f"{best[fastest]['cpu'] / best['tvwrl']['cpu']:.0f} x in CPU time; "
        f"largest relative difference {np.nanmax(np.abs(ours - theirs) / scale):.1e}"
    )


def main() -> None:
    """Ours alone on many workloads, then ours and tsfresh on few."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=10_000, help="for ours alone")
    parser.add_argument("--compared", type=int, default=1_000, help="workloads for ours against tsfresh")
    parser.add_argument("--slots", type=int, default=2_000, help="length of each series")
    parser.add_argument("--rounds", type=int, default=2, help="how often each is measured; the best counts")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run_job(arguments.job, arguments.workloads, arguments.slots, arguments.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        for job in ("tvwrl", "tvwrl-ragged", "aggregate"):
            runs = [
                measure(job, arguments.workloads, arguments.slots, Path(folder) / "alone.npy")
                for _ in range(arguments.rounds)
            ]
            show(job, arguments.workloads, min(runs, key=lambda figures: figures["wall"]))
        compare(arguments.compared, arguments.slots, arguments.rounds, Path(folder))


if __name__ == "__main__":
    main()
