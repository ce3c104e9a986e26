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
