"""Tables of windows: their padding, metadata and times of day."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.splits import UNSEEN
from tvwrl.traces.windows import Window, peak_over_first, stack_windows
from tvwrl.types import SequenceSet


def test_a_table_by_hand(make_trace):
    trace = make_trace([np.ones((4, 2))] * 3, slot_seconds=3600, request=[[0.1, 0.2], [0.3, np.nan], [0.5, 0.6]])
    windows = [Window(1, 30, np.array([[1.0, 2], [3, 4]]), 2), Window(2, 48, np.array([[5.0, 6]]))]
    table = stack_windows(windows, trace, np.array([0.1, 0.2]))
    assert table.demand.tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert table.length.tolist() == [2, 1]
    assert table.metadata[:, :2] == pytest.approx(np.array([[3, np.nan], [5, 3]]), nan_ok=True)
    assert np.isnan(table.metadata[:, 2:]).all()
    assert table.clock.tolist() == [0.25, 0.0]  # slot 30 of an hour is at six on the second day
    assert table.fold.tolist() == [2, UNSEEN]
    assert table.series.tolist() == [1, 2]
    assert len(table) == 2
    assert table[[1, 0]].series.tolist() == [2, 1]
    pair = table.reshape(1, 2)
    assert (pair.demand.shape, pair.metadata.shape, pair.clock.shape) == ((1, 2, 2, 2), (1, 2, 4), (1, 2))
    assert np.array_equal(pair[0].demand, table.demand)


def test_peak_over_first_by_hand():
    """Cpu of 21 windows rises 1, 2, ..., 21 times: 95 % at most 20 times. Memory falls, or begins with none."""
    windows = [Window(0, 0, np.array([[2.0, i % 2], [2.0 * i, 0.5 * (i % 2)]])) for i in range(1, 22)]
    assert peak_over_first(windows).tolist() == [20, 1]
    assert peak_over_first([Window(0, 0, np.array([[1.0, 0.0], [3.0, 5.0]]))]).tolist() == [3, 1]  # none to learn from


def test_what_stands_in_for_requests_is_learnt_from_training_series(problem: Problem, train: SequenceSet) -> None:
    trace, factor = problem.trace, problem.sampler.request_factor
    covers = train.demand.max(axis=2) <= train.demand[:, :, 0] * factor
    assert (covers.mean(axis=(0, 1)) > 0.85).all()  # 95 % of those that it is learnt from
    test = problem.sequences("test", 40, seed=0)
    assert test.request_factor is not None
    assert np.array_equal(test.request_factor, factor)
    usage, other = trace.usage.copy(), np.isin(trace.workload_id, test.source_workload)
    usage[np.repeat(other, np.diff(trace.offsets))] = 1.0
    same = SequenceSampler(replace(trace, usage=usage), problem.scenario, problem.sampler.unit)
    assert np.array_equal(same.request_factor, factor)


def test_only_windows_for_training_have_a_fold(problem: Problem) -> None:
    for split in ("train", "validation", "test"):
        drawn = problem.sampler.windows(split, 60, np.random.default_rng(0))
        table = stack_windows(drawn, problem.trace, problem.sampler.unit)
        own = problem.sampler.fold[table.series] if split == "train" else UNSEEN
        assert (table.fold == own).all()
        assert ((table.clock >= 0) & (table.clock < 1)).all()
    assert set(problem.sampler.fold) == {UNSEEN, 0, 1, 2}
