"""Small problems and hand-made inputs that many tests share; helpers are handed out as fixtures."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tvwrl.ec import DemandForecaster
from tvwrl.envs.problem import Problem
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import SequenceSet, Trace

# Shells start background jobs with SIGINT ignored, and what tests interrupt would inherit that and never end.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_prepared_traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """`google` means the synthetic trace in every test, whatever was prepared on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVWRL_DATA", str(tmp_path_factory.mktemp("no-traces")))
        yield


@pytest.fixture(scope="session")
def google() -> Trace:
    """60 synthetic workloads of 4 days, slots of 300 s."""
    return synthetic_trace("google", workloads=60, seed=0, days=4)


@pytest.fixture(scope="session")
def problem(google: Trace) -> Problem:
    """Four machines of 8 units and 16 workloads per sequence, with forecasts."""
    plain = Problem.build(google, Scenario(machines=4, workloads=16, history=6))
    return replace(plain, forecaster=DemandForecaster(windows=200, epochs=4).fit(plain.sampler, plain.classes))


@pytest.fixture(scope="session")
def train(problem: Problem) -> SequenceSet:
    """Eight training sequences of `problem`."""
    return problem.sequences("train", 8, seed=0)


def _make_sequences(
    *sequences: Sequence[tuple[Any, ...]],
    request: Any = None,
    classes: int = 6,
    resources: tuple[str, ...] = ("cpu", "mem"),
    slots: int = 0,
) -> SequenceSet:
    """Sequences of rows (arrival, demand (length, D)[, label or labels (length + 1)]); ids are a, b, c, ...

    Labels default to 1; `request` (S, N, D) defaults to unknown; `slots` is the least L to pad to.
    """
    count, workloads, kinds = len(sequences), len(sequences[0]), len(resources)
    length = np.array([[len(row[1]) for row in rows] for rows in sequences], dtype=np.int64)
    longest = max(int(length.max()), slots)
    demand = np.zeros((count, workloads, longest, kinds))
    label = np.ones((count, workloads, longest + 1), np.uint8)
    for s, rows in enumerate(sequences):
        for i, row in enumerate(rows):
            demand[s, i, : length[s, i]] = row[1]
            if len(row) > 2:
                label[s, i, : length[s, i] + 1] = row[2]
    names = np.array([[chr(ord("a") + i) for i in range(workloads)]] * count, dtype=object)
    unknown = np.full((count, workloads, kinds), np.nan)
    return SequenceSet(
        resources=resources,
        workload_id=names,
        source_workload=names.copy(),
        source_slot=np.zeros((count, workloads), np.int64),
        arrival=np.array([[row[0] for row in rows] for rows in sequences], dtype=np.int64),
        length=length,
        demand=demand,
        request=unknown if request is None else np.asarray(request, np.float64).reshape(unknown.shape),
        label=label,
        classes=classes,
        load=0.5,
    )


def _make_trace(
    series: Sequence[Any],
    slot_seconds: int = 300,
    slots: Sequence[Any] | None = None,
    request: Any = None,
    name: str = "hand",
) -> Trace:
    """A trace of the given usage arrays (rows, 2); `slots` are the slot numbers of each, by default 0, 1, 2, ..."""
    rows = [len(one) for one in series]
    ids = np.array([f"w{i}" for i in range(len(series))], dtype=object)
    return Trace(
        name=name,
        resources=("cpu", "mem"),
        slot_seconds=slot_seconds,
        workload_id=ids,
        offsets=np.concatenate([[0], np.cumsum(rows)]).astype(np.int64),
        slot=np.concatenate([np.arange(n) for n in rows] if slots is None else list(slots)).astype(np.int64),
        usage=np.concatenate([np.asarray(one, np.float64) for one in series]),
        application=ids.copy(),
        arrival=np.zeros(len(series), np.int64),
        priority=np.full(len(series), np.nan),
        scheduling_class=np.full(len(series), np.nan),
        request=np.full((len(series), 2), np.nan) if request is None else np.asarray(request, np.float64),
    )


@pytest.fixture(scope="session")
def make_sequences() -> Callable[..., SequenceSet]:
    """The function that makes a hand-made SequenceSet; see `_make_sequences`."""
    return _make_sequences


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., Trace]:
    """The function that makes a hand-made Trace; see `_make_trace`."""
    return _make_trace
