"""Time and memory of the temporal features against tsfresh, on the same workloads in one run, and their differences."""

from __future__ import annotations

import numpy as np
import tyro
from timing import Measured, in_own_process, measure

from tvwrl.ec.features import (
    aggregate_features,
    column_names,
    features_by_tsfresh,
    temporal_features,
    temporal_settings,
)
from tvwrl.markdown import markdown_table

RESOURCES = ("cpu", "mem")
SLOTS_PER_DAY = 288
HEAD = ("", "workloads", "features", "s", "CPU s", "peak of the largest process, GiB")


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
    """The features by aggregate, tvwrl, tvwrl-ragged or tsfresh-PROCESSES, columns in the same order."""
    if job == "aggregate":
        return aggregate_features(series, RESOURCES)[0]
    if job.startswith("tvwrl"):
        return temporal_features(series, RESOURCES, SLOTS_PER_DAY)[0]
    settings = temporal_settings(SLOTS_PER_DAY)
    names = [name for resource in RESOURCES for name in column_names(resource, settings)]
    return features_by_tsfresh(series, RESOURCES, settings, n_jobs=int(job.split("-")[1]))[names].to_numpy()


def run_job(job: str, count: int, slots: int) -> Measured:
    """One job, imports and generated input apart."""
    series = workloads(count, slots, job == "tvwrl-ragged")
    compute(job, [one[:100] for one in series[:2]])
    return measure(compute, job, series)


def main(workloads: int = 10_000, compared: int = 1_000, slots: int = 2_000, rounds: int = 2) -> None:
    """Ours alone on many workloads, then ours and tsfresh with no and with two worker processes on few.

    Args:
        workloads: for ours alone.
        compared: workloads for ours against tsfresh.
        slots: length of each series.
        rounds: how often each is measured; the best counts.
    """
    best: dict[tuple[str, int], Measured] = {}
    for jobs, count in (
        (("tvwrl", "tvwrl-ragged", "aggregate"), workloads),
        (("tvwrl", "tsfresh-0", "tsfresh-2"), compared),
    ):
        for job in jobs * rounds:
            found = in_own_process(run_job, job, count, slots)
            best[job, count] = min(best.get((job, count), found), found, key=lambda one: one.wall)
    rows = [
        [job, f"{count:,}", str(m.result.shape[1]), f"{m.wall:.2f}", f"{m.cpu:.2f}", f"{m.peak:.2f}"]
        for (job, count), m in best.items()
    ]
    print(markdown_table(HEAD, rows))
    ours, name = best["tvwrl", compared], min(("tsfresh-0", "tsfresh-2"), key=lambda job: best[job, compared].wall)
    theirs = best[name, compared]
    assert np.array_equal(np.isnan(ours.result), np.isnan(theirs.result))
    scale = np.where(theirs.result == 0, 1.0, np.abs(theirs.result))
    difference = np.nanmax(np.abs(ours.result - theirs.result) / scale)
    print(f"{theirs.wall / ours.wall:.0f} x faster than {name} (wall), {theirs.cpu / ours.cpu:.0f} x in CPU time")
    print(f"largest relative difference {difference:.1e}")


if __name__ == "__main__":
    tyro.cli(main)
