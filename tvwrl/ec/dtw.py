"""Distances between series by dynamic time warping, their mean over resources, and the nearest medoid."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from tvwrl.checks import one_of
from tvwrl.ec.backends import load_backend
from tvwrl.ec.distance_kernels import BLOCK, nearest_rows, warp_rows
from tvwrl.traces import checked_series
from tvwrl.types import Float, InputError, Int


def dtw_distances(
    series: Sequence[Float],
    others: Sequence[Float] | None = None,
    *,
    radius: int | None = None,
    backend: Literal["tvwrl", "tslearn"] = "tvwrl",
    threads: int | None = None,
) -> Float:
    """Distances of every series to every other one: sqrt of the smallest sum of squared differences along a path.

    `series` are n arrays (length, D), of any lengths > 0 and any unit, `others` m of them (None = the same series).
    `radius` is that of a Sakoe-Chiba band, in slots, >= 0 (None = no band): point i may be paired with j where
    -radius <= i - j <= radius for equal lengths; the longer series is allowed its extra slots on top, as in tslearn.
    Result: (D, n, m), each resource warped by itself. `threads` defaults to the number of cores. Raises InputError for
    series that are empty or not finite.
    """
    _check_radius(radius)
    series = checked_series(series)
    others = None if others is None else checked_series(others, series[0].shape[1], "other workload")
    one_of(("tvwrl", "tslearn"), backend=backend)
    if backend == "tslearn":
        return _tslearn_distances(series, others, radius, threads)
    first, second = _pack(series), _pack(series if others is None else others)
    result = np.zeros((len(first.forwards), len(series), len(second.lengths)))
    fill = [
        partial(
            warp_rows,
            *(first.forwards[r], first.starts, first.lengths),
            *(second.backwards[r], second.starts, second.lengths),
            -1 if radius is None else int(radius),
            rows,
            others is None,
            result[r],
        )
        for r in range(len(result))
        for rows in _blocks(np.arange(len(series)))
    ]
    _run(fill, threads)
    return result


def distance_scale(per_resource: Float, lengths: Sequence[int] | Int) -> Float:
    """(D,) largest distance per resource after division by sqrt(length_i + length_j); 1 where all are 0.

    `per_resource` (D, n, n) are distances among series of `lengths` (n,), slots.
    """
    norm = _norm(lengths, lengths)
    largest = np.array([(one / norm).max() for one in per_resource])
    return np.where(largest > 0, largest, 1.0)


def mean_distance(
    per_resource: Float, lengths: Sequence[int] | Int, other_lengths: Sequence[int] | Int, scale: Float
) -> Float:
    """(n, m) mean over resources of `per_resource` (D, n, m) / sqrt(length_i + length_j) / `scale` (D,).

    A path has up to length_i + length_j pairs: without the division long series would be far from everything.
    """
    norm, total = _norm(lengths, other_lengths), np.zeros(per_resource.shape[1:])
    for one, largest in zip(per_resource, scale, strict=True):
        total += one / norm / largest
    return total / len(per_resource)


def nearest(
    series: Sequence[Float],
    medoids: Sequence[Float],
    scale: Float,
    radius: int | None = None,
    *,
    threads: int | None = None,
) -> tuple[Int, Float]:
    """Which of `medoids` (each (length, D)) is nearest to each of n `series` by `mean_distance`, and how far it is.

    Two arrays (n,): index, the first of equals, and distance, the same as from the full matrix. Medoids that lower
    bounds rule out are not warped, and warping stops where the distance is sure to exceed the best so far.
    `scale` (D,) > 0, `radius` as in `dtw_distances`. Raises InputError for another scale or radius, and for series or
    medoids that are empty, not finite or of other resources.
    """
    _check_radius(radius)
    medoids = checked_series(medoids, what="medoid")
    series = checked_series(series, resources=medoids[0].shape[1])
    scale = np.asarray(scale, np.float64)
    if scale.shape != (medoids[0].shape[1],) or not (np.isfinite(scale) & (scale > 0)).all():
        raise InputError(f"scale is {scale}: must be {medoids[0].shape[1]} finite numbers > 0, one per resource")
    first, second = _pack(series), _pack(medoids)
    index, distance = np.zeros(len(series), np.int64), np.zeros(len(series))
    find = [
        partial(
            nearest_rows,
            *(first.forwards, first.starts, first.lengths),
            *(second.forwards, second.backwards, second.starts, second.lengths),
            *(scale, -1 if radius is None else int(radius), rows, index, distance),
        )
        for rows in _blocks(np.argsort(first.lengths, kind="stable"))
    ]
    _run(find, threads)
    return index, distance


class _Packed(NamedTuple):
    """All series in one array per direction, each followed by BLOCK points of padding."""

    forwards: Float  # (D, points) padded with inf
    backwards: Float  # (D, points) each reversed, padded with -inf
    starts: Int  # (n,) first point
    lengths: Int  # (n,) points without padding


def _pack(series: Sequence[Float]) -> _Packed:
    lengths = np.array([len(one) for one in series], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths + BLOCK)])
    forwards = np.full((series[0].shape[1], starts[-1]), np.inf)
    backwards = np.full_like(forwards, -np.inf)
    for one, start in zip(series, starts[:-1], strict=True):
        forwards[:, start : start + len(one)] = one.T
        backwards[:, start : start + len(one)] = one[::-1].T
    return _Packed(forwards, backwards, starts[:-1], lengths)


def _blocks(rows: Int) -> list[Int]:
    """Rows in up to 64 blocks: few enough to cost nothing, many enough to keep every thread busy."""
    return np.array_split(rows, min(len(rows), 64))


def _run(calls: Sequence[Callable[[], object]], threads: int | None) -> None:
    """Call all, on several threads: the kernels release the GIL.

    Numba's own threads divide the work statically and hang a process that is forked later.
    """
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        for _ in pool.map(lambda call: call(), calls):
            pass


def _norm(lengths: Sequence[int] | Int, other_lengths: Sequence[int] | Int) -> Float:
    """(n, m) sqrt(length_i + length_j)."""
    norm: Float = np.sqrt(np.add.outer(np.asarray(lengths, np.float64), np.asarray(other_lengths, np.float64)))
    return norm


def _check_radius(radius: int | None) -> None:
    if radius is not None and (radius < 0 or radius != int(radius)):
        raise InputError(f"radius of the band is {radius}: must be a whole number >= 0, or None for no band")


def _tslearn_distances(
    series: list[Float], others: list[Float] | None, radius: int | None, threads: int | None
) -> Float:
    """The same from tslearn: slower, for comparison."""
    cdist_dtw = load_backend("tslearn").cdist_dtw

    def of_one(resource: int) -> Any:
        parts = [None if group is None else [one[:, resource] for one in group] for group in (series, others)]
        return cdist_dtw(*parts, sakoe_chiba_radius=radius, n_jobs=threads or os.cpu_count() or 1)

    return np.array([of_one(resource) for resource in range(series[0].shape[1])])
