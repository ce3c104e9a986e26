"""Feature vectors: by hand, tsfresh's names and values, what they may depend on, scaling and bad input."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tvwrl.ec.features import FeatureScaler, aggregate_features, autocorrelation_lags, temporal_features
from tvwrl.types import InputError

CPU_MEM = ("cpu", "mem")
DAY = 16  # slots: lags 1, 2, 4, 8, 16


def row_of(features: tuple[np.ndarray, list[str]], i: int = 0) -> dict[str, float]:
    """Name to value of workload `i`."""
    table, names = features
    assert table.shape[1] == len(names) == len(set(names))
    return dict(zip(names, table[i].tolist(), strict=True))


def hard_cases() -> list[np.ndarray]:
    """Series (length, 2) round every limit of the definitions: lengths about lags and chunks, degenerate courses."""
    rng = np.random.default_rng(0)
    series = [rng.random((length, 2)) for length in (1, 2, 3, 5, 6, 9, 10, 11, 16, 17, 50, 51, 52, 99, 333)]
    for length in (1, 7, 50, 123):
        series += [np.zeros((length, 2)), np.full((length, 2), 0.1), np.full((length, 2), [1.0, 1 / 3])]
    slot = np.arange(120.0)[:, None]
    series += [slot / [7, 300], np.where(slot < 118, 0.3, rng.random((120, 2)))]  # a line; constant but for its end
    series += [0.3 + 1e-5 * rng.random((120, 2)), np.round(3 * rng.random((120, 2))) / 7]  # variance < 1e-8; steps
    series += [1e6 * np.cumsum(rng.random((120, 2)) - 0.5, axis=0), 1e-6 * rng.random((120, 2))]  # other units
    return series


def assert_as_by_tsfresh(series: list[np.ndarray], resources: tuple[str, ...], near_zero: float) -> None:
    """The same names and, but for rounding, the same values."""
    ours, names = temporal_features(series, resources, DAY)
    theirs, their_names = temporal_features(series, resources, DAY, backend="tsfresh")
    assert names == their_names
    assert np.allclose(ours, theirs, rtol=1e-9, atol=near_zero, equal_nan=True)


def test_aggregate_features_by_hand() -> None:
    # cpu 1, 2, 3 and mem 2, 2, 3: ratios 2, 1, 1, of mean 4/3 and variance 2/9. Idle in slot 1: one ratio, 0.5, left.
    busy, idle = np.array([[1.0, 2], [2, 2], [3, 3]]), np.array([[2.0, 1.0], [0.0, 1.0]])
    table, names = aggregate_features([busy, idle, np.zeros((4, 2))], CPU_MEM)
    assert names == [
        *("cpu__total", "cpu__mean", "mem__total", "mem__mean", "duration"),
        *("mem_per_cpu__mean", "mem_per_cpu__std", "mem_per_cpu__normalised_std"),
    ]
    assert table[0] == pytest.approx([6, 2, 7, 7 / 3, 3, 4 / 3, np.sqrt(2) / 3, np.sqrt(2) / 4])
    assert table[1] == pytest.approx([2, 1, 2, 1, 2, 0.5, 0, 0])
    assert table[2].tolist() == [0, 0, 0, 0, 4, 0, 0, 0]


def test_aggregate_features_of_one_and_of_three_resources() -> None:
    assert row_of(aggregate_features([[[1.0], [3.0]]], ["cpu"])) == {"cpu__total": 4, "cpu__mean": 2, "duration": 2}
    row = row_of(aggregate_features([[[1.0, 2.0, 4.0]]], ["cpu", "mem", "disk"]))
    assert (len(row), row["mem_per_cpu__mean"], row["disk_per_cpu__mean"]) == (13, 2, 4)


def test_temporal_features_by_hand() -> None:
    # 1, 2, 0, 3, 4, 5: mean 2.5, squares about it 17.5, changes 1 + 2 + 3 + 1 + 1 = 8 in 5 steps.
    row = row_of(temporal_features([np.array([[1.0, 2, 0, 3, 4, 5]]).T], ["cpu"], 4))
    assert row["cpu__mean"] == 2.5
    assert row["cpu__mean_abs_change"] == pytest.approx(1.6)
    assert row["cpu__standard_deviation"] == pytest.approx(np.sqrt(17.5 / 6))
    # Apart from the mean -1.5, -0.5, -2.5, 0.5, 1.5, 2.5; products of neighbours 0.75 + 1.25 - 1.25 + 0.75 + 3.75.
    assert row["cpu__autocorrelation__lag_1"] == pytest.approx(5.25 / 5 / (17.5 / 6))
    # Products with slots apart from 2.5: 3.75 + 0.75 + 1.25 + 0.25 + 2.25 + 6.25 = 14.5; the slots' squares 17.5.
    assert row['cpu__linear_trend__attr_"slope"'] == pytest.approx(14.5 / 17.5)
    assert row['cpu__linear_trend__attr_"rvalue"'] == pytest.approx(14.5 / 17.5)
    assert row['cpu__linear_trend__attr_"intercept"'] == pytest.approx(2.5 - 2.5 * 14.5 / 17.5)
    # There is but one chunk of 10. Of 0, 1, ..., 14 there are two, with maxima 9 and 14 and means 4.5 and 12.
    assert np.isnan(row['cpu__agg_linear_trend__attr_"slope"__chunk_len_10__f_agg_"max"'])
    row = row_of(temporal_features([np.arange(15.0)[:, None]], ["cpu"], 4))
    assert row['cpu__agg_linear_trend__attr_"slope"__chunk_len_10__f_agg_"max"'] == 5.0
    assert row['cpu__agg_linear_trend__attr_"slope"__chunk_len_10__f_agg_"mean"'] == 7.5


@pytest.mark.parametrize(
    ("day", "lags"), [(288, [1, 2, 4, 36, 72, 144, 288]), (DAY, [1, 2, 4, 8, 16]), (3, [1, 2, 3]), (1, [1])]
)
def test_lags_go_from_a_slot_to_a_day(day, lags) -> None:
    assert autocorrelation_lags(day) == lags


def test_tsfresh_gives_the_same_names_and_values() -> None:
    assert_as_by_tsfresh(hard_cases(), CPU_MEM, 1e-15)


@settings(max_examples=10)
@given(st.data())
def test_any_series_has_the_features_of_tsfresh(data: st.DataObject) -> None:
    # Multiples of 1/64 within [0, 16): where values are exact, relative differences are not those of a near-zero.
    value = st.integers(0, 1023).map(lambda x: x / 64)
    shapes = st.integers(1, 60).map(lambda length: (length, 1))
    series = data.draw(
        st.lists(shapes.flatmap(lambda shape: arrays(float, shape, elements=value)), min_size=1, max_size=3)
    )
    assert_as_by_tsfresh(series, ("cpu",), 1e-12)


@pytest.mark.parametrize("features", [aggregate_features, lambda s, r: temporal_features(s, r, DAY)])
def test_a_workload_has_its_features_whatever_stands_beside_it(features, monkeypatch) -> None:
    series = hard_cases() * 2
    table, _ = features(series, CPU_MEM)
    alone = np.concatenate([features([one], CPU_MEM)[0] for one in series])
    assert np.array_equal(table, alone, equal_nan=True)
    order = np.random.default_rng(1).permutation(len(series))
    assert np.array_equal(features([series[i] for i in order], CPU_MEM)[0], table[order], equal_nan=True)
    monkeypatch.setattr("tvwrl.ec.features.BLOCK_VALUES", 150)
    assert np.array_equal(features(series, CPU_MEM)[0], table, equal_nan=True)
    fortran = [np.asfortranarray(one) for one in series]
    assert np.array_equal(features(fortran, CPU_MEM)[0], table, equal_nan=True)


def test_a_resource_has_the_same_features_in_any_column() -> None:
    series = hard_cases()
    table, _ = temporal_features(series, CPU_MEM, DAY)
    swapped, names = temporal_features([one[:, ::-1] for one in series], ("mem", "cpu"), DAY)
    half = len(names) // 2
    assert np.array_equal(swapped, np.roll(table, half, axis=1), equal_nan=True)
    assert [name.split("__")[0] for name in names] == ["mem"] * half + ["cpu"] * half


def test_short_constant_and_idle_workloads_have_no_nan_once_scaled() -> None:
    assert np.isfinite(aggregate_features(hard_cases(), CPU_MEM)[0]).all()
    table, _ = temporal_features(hard_cases(), CPU_MEM, 288)
    assert np.isnan(table).any()
    scaled = FeatureScaler().fit_transform(table)
    assert ((scaled >= 0) & (scaled <= 1)).all()


def test_scaler_by_hand() -> None:
    nan, inf = np.nan, np.inf
    train = np.array([[1.0, 5, nan, 10], [3, 5, nan, nan], [2, 5, inf, 20], [nan, 5, -inf, 40]])
    scaler = FeatureScaler().fit(train)
    assert scaler.low_.tolist() == [1, 5, 0, 10]
    assert scaler.width_.tolist() == [2, 0, 0, 30]
    assert scaler.fill_.tolist() == [2, 5, 0, 20]
    third = 1 / 3
    assert scaler.transform(train) == pytest.approx(
        np.array([[0, 0, 0, 0], [1, 0, 0, third], [0.5, 0, 0, third], [0.5, 0, 0, 1]])
    )
    # Outside the range: clipped; a feature constant in training says nothing later either; infinite is undefined.
    assert scaler.transform(np.array([[9.0, 7, 3, -1], [inf, nan, nan, 1e301]])) == pytest.approx(
        np.array([[1, 0, 0, 0], [0.5, 0, 0, third]])
    )


def test_rounding_is_no_range() -> None:
    # Means of 0.1 over different numbers of slots differ in the last digit.
    table, names = temporal_features([np.full((length, 1), 0.1) for length in (6, 7, 10)], ["cpu"], DAY)
    mean = names.index("cpu__mean")
    assert np.ptp(table[:, mean]) > 0
    assert not FeatureScaler().fit_transform(table)[:, mean].any()


TABLES = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(lambda shape: arrays(np.float64, shape))


@given(TABLES, st.data())
def test_scaled_features_lie_in_0_1_and_survive_json(train: np.ndarray, data: st.DataObject) -> None:
    scaler = FeatureScaler()
    scaled = scaler.fit_transform(train)
    again = FeatureScaler.from_dict(json.loads(json.dumps(scaler.to_dict(), allow_nan=False)))
    other = data.draw(arrays(np.float64, (3, train.shape[1])))
    assert np.array_equal(again.transform(other), scaler.transform(other))
    for table in (scaled, scaler.transform(other)):
        assert ((table >= 0) & (table <= 1)).all()
    varies = scaler.width_ > 0
    assert (scaled[:, varies].min(axis=0) == 0).all()
    assert (scaled[:, varies].max(axis=0) == 1).all()


@pytest.mark.parametrize(
    ("series", "resources", "message"),
    [
        ([], CPU_MEM, "no series"),
        ([np.ones((3, 2)), np.ones((3, 3))], CPU_MEM, r"workload 1: .* shape \(3, 3\), must be \(length, 2\)"),
        ([np.ones(3)], CPU_MEM, r"shape \(3,\)"),
        ([[["a", "b"]]], CPU_MEM, "workload 0: its series is not an array of numbers"),
        ([[[1, 1], [1, np.nan]]], CPU_MEM, "workload 0, slot 1, resource 1: usage is nan.*gaps first"),
        ([np.ones((3, 0))], (), "at least one"),
        ([np.ones((3, 2))], ("cpu", "cpu"), "must be different"),
        ([np.ones((3, 1))], ("cpu__a",), "'cpu__a': its name must not contain '__'"),
        ([np.ones((3, 1))], ("cpu_",), "end in '_'"),
    ],
)
def test_series_that_have_no_features_are_refused(series, resources, message) -> None:
    with pytest.raises(InputError, match=message):
        aggregate_features(series, resources)
    with pytest.raises(InputError, match=message):
        temporal_features(series, resources, DAY)


def test_other_arguments_are_checked(monkeypatch) -> None:
    series = [np.ones((3, 2))]
    with pytest.raises(InputError, match="slots_per_day is 0: must be at least 1"):
        temporal_features(series, CPU_MEM, 0)
    with pytest.raises(InputError, match="backend is 'numpy': must be one of tvwrl, tsfresh"):
        temporal_features(series, CPU_MEM, DAY, backend="numpy")
    monkeypatch.setitem(sys.modules, "tsfresh", None)
    with pytest.raises(InputError, match=r"backend 'tsfresh' cannot be used .*pip install 'tvwrl\[tsfresh\]'"):
        temporal_features(series, CPU_MEM, DAY, backend="tsfresh")


@pytest.mark.parametrize("damage", [{"low": [1.0]}, {"width": [-1.0, 1.0]}, {"fill": [np.nan, 1]}, {"low": "x"}])
def test_a_damaged_scaler_is_refused(damage) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 its reader says which file is damaged
        FeatureScaler.from_dict(FeatureScaler().fit(np.ones((1, 2))).to_dict() | damage)
