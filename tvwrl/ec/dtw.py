"""Distances between series by dynamic time warping, their mean over resources, and the nearest medoid."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from tvwrl.checks import one_of
from tvwrl.compiled import inner, njit
from tvwrl.ec.backends import load_backend
from tvwrl.traces import checked_series
from tvwrl.types import Float, InputError, Int

# A diagonal is computed in whole blocks of so many cells, which spares the loop over a rest. Series are padded by as
# many points: +inf where stored forwards, -inf where backwards, so cells beyond the table are infinitely far.
BLOCK = 8
# Rounding may not let a bound exceed the distance that it bounds.
SLACK = 1e-9
_FAST = {"nnan", "nsz", "contract"}
_FAST_SUMS = {*_FAST, "reassoc"}


@inner(nogil=True)
def _band(n: int, m: int, radius: int) -> tuple[int, int]:
    """Lowest and highest allowed i - j; `radius` < 0 = no band.

    As in tslearn the band follows both corners: its edges are `radius` beyond the diagonals that end in them.
    """
    if radius < 0:
        return 1 - m, n - 1
    return max(1 - m, min(n - m, 0) - radius), min(n - 1, max(n - m, 0) + radius)


@inner(nogil=True, fastmath=_FAST_SUMS)
def _smallest(work: Float, row: int, first: int, count: int) -> float:
    """The least of `count` values in a row of `work`."""
    least: float = np.inf
    for value in work[row, first : first + count]:
        least = min(least, value)
    return least


@inner(nogil=True, fastmath=_FAST)
def _warp(
    x: Float, start: int, n: int, y: Float, other_start: int, m: int, radius: int, limit: float, work: Float
) -> float:
    """Smallest sum of squared differences along a warping path, or inf where it is certain to exceed `limit`.

    Args:
        x: (points,) of all series, stored forwards.
        start: first point of the series in `x`, followed by BLOCK points of padding.
        n: points of the series.
        y: (points,) of the other series, stored backwards.
        other_start: first point of the other series in `y`, followed by BLOCK points of padding.
        m: points of the other series.
        radius: of the Sakoe-Chiba band, slots; < 0 = no band.
        limit: squared distance above which the value does not matter; inf = none.
        work: (2, >= (n + m) / 2 + 2 * BLOCK) room for the diagonals.
    """
    low, high = _band(n, m, radius)
    base = low - 2  # k stands in work[(k - base) & 1, (k - base) >> 1]
    work[:, : ((high - base) >> 1) + 2 + BLOCK] = np.inf
    work[-base & 1, -base >> 1] = (x[start] - y[other_start + m - 1]) ** 2
    first, cells = -base >> 1, 1
    for d in range(1, n + m - 1):
        first_before, cells_before = first, cells
        lowest = max(low, -d, d - 2 * (m - 1))
        lowest += (lowest - d) & 1
        highest = min(high, d, 2 * (n - 1) - d)
        cells = ((highest - lowest) >> 1) + 1
        count = (cells + BLOCK - 1) & ~(BLOCK - 1)
        odd, first = (lowest - base) & 1, (lowest - base) >> 1
        own = work[odd, first : first + count]
        others = work[1 - odd, first + odd - 1 : first + odd + count]
        i, back = start + ((d + lowest) >> 1), other_start + m - 1 - ((d - lowest) >> 1)
        x_part, y_part = x[i : i + count], y[back : back + count]
        for h in range(count):
            best = own[h]
            best = others[h] if others[h] < best else best
            best = others[h + 1] if others[h + 1] < best else best
            apart = x_part[h] - y_part[h]
            own[h] = best + apart * apart
        work[odd, first + cells] = np.inf  # computed in the last block, but outside the band
        # Every path crosses diagonal d or d - 1.
        if d & 15 == 15 and limit < np.inf:
            least = _smallest(work, odd, first, cells)
            if min(least, _smallest(work, 1 - odd, first_before, cells_before)) > limit:
                return np.inf
    squared: float = work[(n - m - base) & 1, (n - m - base) >> 1]
    return squared


@njit(nogil=True)
def warp_rows(
    forwards: Float,
    starts: Int,
    lengths: Int,
    backwards: Float,
    other_starts: Int,
    other_lengths: Int,
    radius: int,
    rows: Int,
    symmetric: bool,
    result: Float,
) -> None:
    """Fill some rows of a matrix with distances of series to other series.

    Args:
        forwards: (points,) of all series, each followed by BLOCK points of padding.
        starts: (n,) first point of each series.
        lengths: (n,) points of each series without padding.
        backwards: (points,) of the other series, each reversed, padded alike.
        other_starts: (m,) first point of each other series.
        other_lengths: (m,) points of each other series.
        radius: of the band, slots; < 0 = no band.
        rows: indices of the series to compute.
        symmetric: the others are the series themselves, so half of the matrix is computed and mirrored.
        result: (n, m) to fill.
    """
    work = np.empty((2, (lengths.max() + other_lengths.max()) // 2 + 4 * BLOCK))
    for i in rows:
        for j in range(i + 1 if symmetric else 0, len(other_lengths)):
            start, other_start = starts[i], other_starts[j]
            squared = _warp(forwards, start, lengths[i], backwards, other_start, other_lengths[j], radius, np.inf, work)
            result[i, j] = np.sqrt(squared)
            if symmetric:
                result[j, i] = result[i, j]


@inner(nogil=True)
def _envelope(y: Float, sign: int, low: int, high: int, queue: Int, envelope: Float) -> None:
    """Highest (`sign` 1) or lowest (-1) of the points of y (m,) that point i of another series may be paired with.

    `envelope` (n,) is filled, `queue` (m,) is room for candidates: places of points still in the window, best first.
    """
    head, tail, j = 0, 0, 0
    for i in range(len(envelope)):
        while j < len(y) and j <= i - low:
            while tail > head and sign * y[queue[tail - 1]] <= sign * y[j]:
                tail -= 1
            queue[tail] = j
            tail += 1
            j += 1
        while queue[head] < i - high:
            head += 1
        envelope[i] = y[queue[head]]


@inner(nogil=True, fastmath=_FAST_SUMS)
def _bound(x: Float, first: float, last: float, highest: Float, lowest: Float) -> float:
    """Lower bound of the squared distance: each point of x (n,) against the nearest it may be paired with (LB_Keogh).

    Both ends are paired with each other in every path (LB_Kim): `first` and `last` are those of the other series.
    """
    total: float = 0.0
    for i in range(1, len(x) - 1):
        apart = max(x[i] - highest[i], lowest[i] - x[i], 0.0)
        total += apart * apart
    total += (x[0] - first) ** 2
    if len(x) > 1:
        total += (x[-1] - last) ** 2
    return total


@inner(nogil=True)
def _mean_distance(
    x: Float,
    start: int,
    n: int,
    y: Float,
    other_start: int,
    m: int,
    radius: int,
    scale: Float,
    bounds: Float,
    nearest: float,
    work: Float,
) -> float:
    """Mean over resources of the normalised distance, or inf where it exceeds `nearest`.

    Args:
        x: (D, points) of all series and resources, stored forwards.
        start: first point of the series in each row of `x`.
        n: points of the series.
        y: (D, points) of the other series, stored backwards.
        other_start: first point of the other series in each row of `y`.
        m: points of the other series.
        radius: of the Sakoe-Chiba band, slots; < 0 = no band.
        scale: (D,) divides the distance of each resource, as does sqrt(n + m).
        bounds: (D,) lower bounds of the normalised distances.
        nearest: smallest mean distance found so far.
        work: room for the diagonals, as in `_warp`.
    """
    resources, total, ahead = len(scale), 0.0, bounds.sum()
    norm = np.sqrt(n + m)
    for r in range(resources):
        ahead -= bounds[r]
        limit = np.inf
        if nearest < np.inf:
            left = max(nearest * resources - total - ahead, 0.0) + SLACK * nearest
            limit = (left * scale[r] * norm) ** 2
        squared = _warp(x[r], start, n, y[r], other_start, m, radius, limit, work)
        if squared == np.inf:
            return np.inf
        total += np.sqrt(squared) / norm / scale[r]
    return total / resources


@njit(nogil=True)
def nearest_rows(
    forwards: Float,
    starts: Int,
    lengths: Int,
    medoids: Float,
    backwards: Float,
    medoid_starts: Int,
    medoid_lengths: Int,
    scale: Float,
    radius: int,
    rows: Int,
    index: Int,
    distance: Float,
) -> None:
    """Find the nearest medoid of some series, the first of equals.

    Args:
        forwards, starts, lengths: series, see `warp_rows`, of all resources (D, points).
        medoids: (D, points) of the medoids, stored forwards and padded.
        backwards: (D, points) of the medoids, each reversed and padded.
        medoid_starts: (k,) first point of each medoid.
        medoid_lengths: (k,) points of each medoid.
        scale: (D,) divides the distance of each resource.
        radius: of the band, slots; < 0 = no band.
        rows: indices of the series to look at; in order of length, envelopes are computed once for each length.
        index: (n,) to fill with the nearest medoid.
        distance: (n,) to fill with the distance to it.
    """
    resources, count = len(scale), len(medoid_lengths)
    longest, widest = lengths.max(), medoid_lengths.max()
    work, queue = np.empty((2, (longest + widest) // 2 + 4 * BLOCK)), np.empty(widest, np.int64)
    highest, lowest = np.empty((count, resources, longest)), np.empty((count, resources, longest))
    bounds, length = np.empty((count, resources)), -1
    for row in rows:
        changed, length, start = lengths[row] != length, lengths[row], starts[row]
        for c in range(count):
            size = medoid_lengths[c]
            low, high = _band(length, size, radius)
            for r in range(resources):
                y = medoids[r, medoid_starts[c] : medoid_starts[c] + size]
                above, below = highest[c, r, :length], lowest[c, r, :length]
                if changed:
                    _envelope(y, 1, low, high, queue, above)
                    _envelope(y, -1, low, high, queue, below)
                squared = _bound(forwards[r, start : start + length], y[0], y[-1], above, below)
                bounds[c, r] = np.sqrt(squared) / np.sqrt(length + size) / scale[r] * (1 - SLACK)
        best, nearest = np.inf, 0
        for c in np.argsort(bounds.sum(axis=1)):
            if bounds[c].sum() / resources > best:
                break
            other, size = medoid_starts[c], medoid_lengths[c]
            mean = _mean_distance(forwards, start, length, backwards, other, size, radius, scale, bounds[c], best, work)
            if mean < best or (mean == best and c < nearest):
                best, nearest = mean, c
        index[row], distance[row] = nearest, best


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
        warped = partial(load_backend("tslearn").cdist_dtw, sakoe_chiba_radius=radius, n_jobs=threads or os.cpu_count())
        groups = [series] if others is None else [series, others]
        return np.array(
            [warped(*([one[:, d] for one in group] for group in groups)) for d in range(series[0].shape[1])]
        )
    first, second = _pack(series), _pack(series if others is None else others)
    result = np.zeros((len(first.forwards), len(series), len(second.lengths)))

    def fill(r: int, rows: Int) -> None:
        warp_rows(
            first.forwards[r], first.starts, first.lengths,
            second.backwards[r], second.starts, second.lengths,
            -1 if radius is None else int(radius), rows, others is None, result[r],
        )  # fmt: skip

    _run([partial(fill, r, rows) for r in range(len(result)) for rows in _blocks(np.arange(len(series)))], threads)
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

    def find(rows: Int) -> None:
        nearest_rows(
            first.forwards, first.starts, first.lengths,
            second.forwards, second.backwards, second.starts, second.lengths,
            scale, -1 if radius is None else int(radius), rows, index, distance,
        )  # fmt: skip

    _run([partial(find, rows) for rows in _blocks(np.argsort(first.lengths, kind="stable"))], threads)
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
