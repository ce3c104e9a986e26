"""Means over seeds and sequences with intervals: by hand, and against plain resampling."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import trim_mean

from tvwrl.experiments.statistics import (
    bootstrap_interval,
    estimate_of_one,
    estimates_by_column,
    interquartile_mean,
    paired_difference,
    stratified_bootstrap,
)
from tvwrl.experiments.statistics import crossed_estimate as crossed
from tvwrl.types import InputError


def test_one_value_has_no_interval() -> None:
    one = crossed(np.array([[3.0]]))
    assert one.mean == 3.0
    assert np.isnan(one.interval).all()


def test_what_does_not_vary_has_a_narrow_interval() -> None:
    flat = crossed(np.full((3, 4), 2.0))
    assert flat.interval == pytest.approx((2.0, 2.0))
    # Only the sequences differ: the seeds add nothing.
    rows = crossed(np.tile([1.0, 2.0, 3.0, 4.0], (3, 1)))
    assert rows.mean == 2.5
    assert rows.interval == pytest.approx(crossed(np.array([[1.0, 2.0, 3.0, 4.0]])).interval)


def test_seeds_and_sequences_are_drawn_independently() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 1)) + rng.normal(size=(1, 12)) + rng.normal(size=(4, 12))
    rows, columns = rng.integers(4, size=(4000, 4)), rng.integers(12, size=(4000, 12))
    plain = values[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))
    assert crossed(values).interval == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.08)


def test_what_is_unknown_is_left_out() -> None:
    assert crossed(np.array([[1.0, np.nan, 3.0]])).mean == 2.0
    assert np.isnan(crossed(np.full((2, 2), np.nan)).mean)


def test_pairs_on_the_same_sequences() -> None:
    hard = np.random.default_rng(0).normal(size=(1, 30)) * 100
    a, b = (
        crossed(hard),
        crossed(np.repeat(hard, 3, axis=0) + 1.0),
    )  # seeds differ in number, sequences do not
    ours = a - b
    assert ours.mean == pytest.approx(-1.0)
    assert ours.excludes_zero
    assert not (a - a).excludes_zero
    assert (crossed(2 * hard + 600) / crossed(hard + 300)).interval == pytest.approx((2.0, 2.0))
    assert (a / crossed(0 * hard)).interval != (a / b).interval


def test_rows_by_group_and_column() -> None:
    rows = pl.DataFrame(
        {
            "group": ["g"] * 5,
            "column": ["x"] * 4 + ["y"],
            "seed": [1, 0, 0, 1, 0],
            "sequence": [0, 1, 0, 1, 0],
            "reward": [1.0, 2.0, 3.0, None, 9.0],
        }
    )
    found = estimates_by_column(rows, "reward")
    assert list(found["g"]) == ["x", "y"]
    assert found["g"]["x"].mean == 2.0
    assert found["g"]["y"].mean == 9.0
    with pytest.raises(InputError, match="2 seeds and 2 sequences, 3 rows"):
        estimates_by_column(rows.head(3), "reward")


def test_interquartile_mean_over_seeds_and_sequences() -> None:
    assert crossed(np.array([[0.0, 1.0], [3.0, 100.0]]), interquartile_mean).mean == 2.0
    assert np.isnan(crossed(np.array([[3.0]]), interquartile_mean).interval).all()
    assert crossed(np.full((2, 3), 4.0), interquartile_mean).interval == pytest.approx((4.0, 4.0))


def test_estimate_of_one_holds_what_a_single_run_may_give():
    """Two runs that are alike on all days: an interval from one to the other, however often each was played."""
    values = np.array([[1.0] * 7, [3.0] * 7])
    for repeats in (1, 10):
        found = estimate_of_one(np.repeat(values, repeats, axis=0))
        assert (found.mean, found.interval) == (2.0, (1.0, 3.0))
    many = np.random.default_rng(0).normal(0, 1, (1, 30))
    one = estimate_of_one(many)
    assert one.interval == pytest.approx(bootstrap_interval(many[0]), abs=0.05)
    assert np.isnan(estimate_of_one(np.array([[1.0]])).interval[0])
    gap = estimate_of_one(np.array([[1.0, np.nan], [2.0, 4.0]]))
    assert gap.mean == pytest.approx(7 / 3)
    assert np.isnan(estimate_of_one(np.full((2, 2), np.nan)).mean)


def test_one_pair_has_a_difference_and_a_reason_for_no_interval() -> None:
    assert paired_difference(np.array([3.0]), np.array([1.0])) == "+2.0 (one pair: no interval)"
    assert paired_difference(np.array([3.0, 4.0]), np.array([1.0, 2.0]), 0, 10) == "+20 [+20, +20]"


def test_the_middle_of_several_tasks_is_the_trimmed_mean_and_tasks_are_never_exchanged() -> None:
    """rliable takes scipy's trimmed mean of all scores, and resamples the runs of each task by themselves."""
    rng = np.random.default_rng(3)
    tasks = [rng.normal(10 * task, 1, 30 + task) for task in range(5)]
    middle, low, high = stratified_bootstrap(tasks)
    assert middle == pytest.approx(trim_mean(np.concatenate(tasks), 0.25))
    assert low < middle < high
    assert (
        stratified_bootstrap([np.full(9, 1.0), np.full(7, 5.0), np.full(3, 20.0)])[1:]
        == (pytest.approx(stratified_bootstrap([np.full(9, 1.0), np.full(7, 5.0), np.full(3, 20.0)])[0]),) * 2
    )  # nothing varies within a task
    plain = bootstrap_interval(np.concatenate(tasks), statistic=interquartile_mean, resamples=2000)
    assert high - low < plain[1] - plain[0]
    assert np.isnan(stratified_bootstrap([np.array([1.0, np.nan])])).all()
    assert np.isnan(stratified_bootstrap([np.empty(0)])).all()
