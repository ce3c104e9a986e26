"""A population of four plain kinds of workloads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tvwrl.ec import Population

KINDS = ("low", "high", "daily", "restless")  # in this order eight each; by mean demand: low, daily, restless, high


def _population(series: list[np.ndarray], metadata: np.ndarray | None = None) -> Population:
    ids = np.array([f"w{i}" for i in range(len(series))], dtype=object)
    unknown = np.full((len(series), 4), np.nan)
    known = unknown if metadata is None else metadata, np.arange(len(series)) % 3
    return Population(("cpu", "mem"), ids, series, *known, 1800, 6)


def _four_kinds(members: int = 8, slots: int = 144, seed: int = 0) -> Population:
    rng = np.random.default_rng(seed)
    series = []
    for kind in KINDS:
        for i in range(members):
            t = np.arange(slots + 3 * i)
            level = {"low": 1.0, "high": 5.5, "daily": 2.5, "restless": 3.5}[kind] + 0.02 * i
            one = np.full((len(t), 2), level)
            if kind == "daily":
                one += 1.5 * np.sin(2 * np.pi * (t + 2 * i) / 48)[:, None]
            if kind == "restless":
                one += 2.0 * (-1.0) ** t[:, None]
            series.append(np.maximum(one + 0.05 * rng.standard_normal(one.shape), 0.0))
    request = np.array([one.mean(axis=0) + 1 for one in series])
    priority = np.repeat([9.0, 1.0, 4.0, np.nan], members)[:, None]
    return _population(series, np.hstack([request, priority, np.full_like(priority, np.nan)]))


@pytest.fixture(scope="session")
def make_population() -> Callable[..., Population]:
    """From a list of series and, if given, metadata."""
    return _population


@pytest.fixture(scope="session")
def four_kinds() -> Population:
    """32 workloads of about three days, kind after kind."""
    return _four_kinds()


def opposite_families(count: int, slots: int = 120, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Workloads whose usage stays (1) or swings back (2): x(t) = +-0.8 x(t - 1) + noise, two resources.

    One rule for both sees at best x(t - 2), which counts for 0.64 in either; a rule for one has 0.8.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2 + 1
    series = []
    for label in labels:
        usage = rng.normal(size=(slots, 2))
        for t in range(1, slots):
            usage[t] += (0.8 if label == 1 else -0.8) * usage[t - 1]
        series.append(usage + 10)
    return series, labels
