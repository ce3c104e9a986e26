"""Observations by hand and by a rule, and machines, for tests of what learns from them; handed out as fixtures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tvwrl.interference.observations import CATEGORIES, MonitoredMachines, Observations, idle_machines
from tvwrl.interference.training import train_on_trace


def _observations(service: Any, ms: Any, cpu: Any = None) -> Observations:
    """Records of services a, b, ... a second apart, on machine 0, without batch work."""
    count, names = len(ms), tuple("abcdefgh"[: int(np.max(service, initial=0)) + 1])
    return Observations(
        seconds=np.arange(count, dtype=np.float64),
        machine=np.zeros(count, np.int64),
        service=np.asarray(service, np.int64),
        response_ms=np.asarray(ms, np.float64),
        composition=np.zeros((count, CATEGORIES), np.int64),
        batch_cpu=np.zeros(count) if cpu is None else np.asarray(cpu, np.float64),
        services=names,
        quota=np.ones(len(names)),
    )


def _slowed(moments: int = 400, seed: int = 0) -> Observations:
    """Services a and b together at each moment: category 7 slows a, 11 slows b half as much, 3 is only CPU."""
    rng = np.random.default_rng(seed)
    pair, service = np.repeat(np.arange(moments), 2), np.tile([0, 1], moments)
    composition = np.zeros((moments, CATEGORIES), np.int64)
    composition[:, [3, 7, 11]] = rng.integers(0, 6, (moments, 3))
    composition = composition[pair]
    load = np.where(service == 0, composition[:, 7], 0.5 * composition[:, 11])
    ms = 10.0 * (1.0 + load) * np.exp(0.02 * rng.normal(size=2 * moments))
    made = _observations(service, ms, composition.sum(axis=1))
    return replace(made, composition=composition, seconds=pair.astype(np.float64), machine=pair % 3)


def _machines(count: int, services: Any = (0, 1)) -> MonitoredMachines:
    """Empty machines of 10 cores and 100 of memory, each with the same services, reported at second 0."""
    return idle_machines(10.0, 100.0, np.arange(count + 1) * len(services), np.tile(services, count))


@pytest.fixture(scope="session")
def make_observations() -> Any:
    """See `_observations`."""
    return _observations


@pytest.fixture(scope="session")
def slowed() -> Observations:
    """See `_slowed`."""
    return _slowed()


@pytest.fixture(scope="session")
def slowed_later() -> Observations:
    """The same rule, other draws."""
    return _slowed(seed=1)


@pytest.fixture(scope="session")
def make_machines() -> Any:
    """See `_machines`."""
    return _machines


@pytest.fixture(scope="session")
def trace_score(problem) -> Any:
    """A score that was learnt of the training sequences of `problem`."""
    return train_on_trace(problem, "memory", "corr", 16, 0).score
