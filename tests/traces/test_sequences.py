"""Arrival sequences: what they are cut from, their units, lengths, kinds and rate, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.sequences import SequenceSampler, quantise
from tvwrl.traces.splits import UNSEEN, gapless_runs
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.traces.windows import Windows
from tvwrl.types import InputError, SequenceSet, Trace

MakeTrace = Callable[..., Trace]
SMALL = Scenario(machines=4, workloads=16)
HOUR = Scenario(machines=4, workloads=16, step_seconds=3600)  # with slots of an hour series need fewer rows


class OneClass:
    """Stands in for equivalence classes: everything is of class 1."""

    k = 1

    def label_table(self, windows: Windows, every: int) -> np.ndarray:
        return np.ones((*windows.length.shape, windows.demand.shape[-2] + 1), np.uint8)


def mixed_series(count: int, rows: int, seed: int = 0) -> list[np.ndarray]:
    """Random series, by turns with more cpu and with more memory."""
    rng = np.random.default_rng(seed)
    level = np.array([[0.4, 0.1], [0.1, 0.4]])
    return [level[i % 2] * rng.uniform(0.5, 1.0, (rows, 2)) for i in range(count)]


@pytest.fixture(scope="module")
def sampler(google: Trace) -> SequenceSampler:
    sampler = SequenceSampler(google, SMALL)
    assert sampler.notes == []  # series are long enough, and mixed
    return sampler


@pytest.fixture(scope="module")
def drawn(sampler: SequenceSampler) -> SequenceSet:
    return sampler.sequences("train", 12, 0, OneClass())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rough rate, where the rate does not matter."""
    monkeypatch.setattr("tvwrl.traces.sequences.CALIBRATION_WINDOWS", 40)


def series_of(trace: Trace) -> dict[str, int]:
    """Index of each workload by its name."""
    return {name: i for i, name in enumerate(trace.workload_id)}


# ---- where windows come from


def test_splits_draw_from_disjoint_series(google: Trace, sampler: SequenceSampler) -> None:
    splits = ("train", "test", "validation")
    sources = {split: set(sampler.sequences(split, 40, 0, OneClass()).source_workload.ravel()) for split in splits}
    assert not sources["train"] & (sources["test"] | sources["validation"])
    assert not sources["validation"] & sources["test"]
    assert len(sources["train"]) > 20
    assert 12 < len(sources["test"]) <= 18  # 30 % of 60
    assert 5 < len(sources["validation"]) <= 9  # a fifth of the other 42


def test_chronological_split_cuts_every_series(google: Trace, quick: None) -> None:
    sampler = SequenceSampler(google, replace(SMALL, split="time"))
    # 4 days of 288 slots: testing begins at row 806, after 70 % of all; validation at row 645, after 80 % of these.
    names = ("train", "validation", "test")
    train, validation, test = (sampler.sequences(split, 20, 0, OneClass()) for split in names)
    assert (train.source_slot + 6 * train.length).max() <= 645
    assert validation.source_slot.min() >= 645
    assert (validation.source_slot + 6 * validation.length).max() <= 806
    assert test.source_slot.min() >= 806
    assert len(set(train.source_workload.ravel()) & set(test.source_workload.ravel())) > 40
    # 161 rows are 26 whole slots. Windows for testing are as long as wanted, because whole days of theirs are repeated.
    assert "the longest validation window is 26 slots, not 120: no validation series is longer" in sampler.notes
    assert validation.length.max() == 26
    assert test.length.max() > 115


def test_only_series_that_are_held_out_are_in_no_fold(google: Trace, quick: None) -> None:
    held_out = SequenceSampler(google, Scenario(machines=4))
    short = synthetic_trace("google", workloads=12, seed=1, days=3)  # too short to hold out a part of each
    few = SequenceSampler(
        short, Scenario(machines=4, split="time", step_seconds=43_200, placements_per_slot=None, load=0.1)
    )
    for sampler, held in ((held_out, ("validation", "test")), (few, ("test",))):
        for split in sampler.runs:
            folds = {window.fold for window in sampler.windows(split, 20, np.random.default_rng(0))}
            assert folds == {UNSEEN} if split in held else UNSEEN not in folds


@pytest.mark.parametrize(("sample", "whole"), [("mean", True), ("max", False)])
def test_source_slot_reproduces_demand(google: Trace, sample: Any, whole: bool) -> None:
    scenario = replace(SMALL, sample=sample, quantise=whole, capacity=(64.0,), machines=1)
    sampler = SequenceSampler(google, scenario)
    drawn = sampler.sequences("test", 3, 5, OneClass())
    names = series_of(google)
    for s, n in np.ndindex(*drawn.arrival.shape):
        length, first = drawn.length[s, n], drawn.source_slot[s, n]
        rows = google.series(names[drawn.source_workload[s, n]])[first : first + 6 * length].reshape(length, 6, 2)
        units = (rows.mean(axis=1) if sample == "mean" else rows.max(axis=1)) / sampler.unit
        expected = np.minimum(np.maximum(np.floor(units + 0.5), 1) if whole else units, 6)
        assert np.array_equal(drawn.demand[s, n, :length], expected)
        assert not drawn.demand[s, n, length:].any()


def test_requests_are_in_units_and_unknown_where_unknown(google: Trace, sampler: SequenceSampler) -> None:
    drawn, names = sampler.sequences("train", 2, 0, OneClass()), series_of(google)
    for s, n in np.ndindex(*drawn.arrival.shape):
        declared = google.request[names[drawn.source_workload[s, n]]] / sampler.unit
        assert np.array_equal(drawn.request[s, n], declared, equal_nan=True)
    assert np.isnan(drawn.request).any()


def test_workload_ids_are_unique_and_number_the_windows_of_a_series(drawn: SequenceSet) -> None:
    for ids, sources in zip(drawn.workload_id, drawn.source_workload, strict=True):
        assert len(set(ids)) == len(ids)
        seen: dict[str, int] = {}
        for name, source in zip(ids, sources, strict=True):
            seen[source] = seen.get(source, 0) + 1
            assert name == f"{source}#{seen[source]}"
    assert any(name.endswith("#2") for name in drawn.workload_id.ravel())


def test_gaps_are_never_crossed(make_trace: MakeTrace, quick: None) -> None:
    # Rows 0..79 are slots 0..79, rows 80..199 are slots 100..219 and so on: three runs of each series.
    slots = np.concatenate([np.arange(80), np.arange(100, 220), np.arange(300, 345)])
    trace = make_trace(mixed_series(8, len(slots)), slot_seconds=3600, slots=[slots] * 8)
    runs = gapless_runs(trace, [1])
    assert [(r.workload, r.first, r.rows) for r in runs] == [(1, 245, 80), (1, 325, 120), (1, 445, 45)]
    drawn = SequenceSampler(trace, HOUR).sequences("train", 40, 0, OneClass())
    first, last = drawn.source_slot.ravel(), (drawn.source_slot + drawn.length - 1).ravel()
    inside = [(first >= a) & (last <= b) for a, b in ((0, 79), (100, 219), (300, 344))]
    assert np.sum(inside, axis=0).tolist() == [1] * first.size
    assert all(one.any() for one in inside)
    # Values too are those of the run: row number and slot differ after a gap.
    names = series_of(trace)
    row = np.searchsorted(slots, drawn.source_slot[0, 0])
    expected = trace.series(names[drawn.source_workload[0, 0]])[row] / SequenceSampler(trace, HOUR).unit
    assert np.array_equal(drawn.demand[0, 0, 0], np.clip(np.floor(expected + 0.5), 1, 6))


def test_one_recorded_day_is_repeated_with_a_note(quick: None) -> None:
    trace = synthetic_trace("google", workloads=40, seed=1, days=1)
    sampler = SequenceSampler(trace, SMALL)
    assert "train series are too short for long-running workloads: their days are repeated" in sampler.notes
    assert "test series are too short for long-running workloads: their days are repeated" in sampler.notes
    drawn, names = sampler.sequences("train", 4, 0, OneClass()), series_of(trace)
    assert drawn.length.max() > 48  # slots of a day
    assert (drawn.source_slot < 288).all()
    for s, n in np.ndindex(*drawn.arrival.shape):
        length, first = drawn.length[s, n], drawn.source_slot[s, n]
        day = np.tile(trace.series(names[drawn.source_workload[s, n]]), (5, 1))
        units = day[first : first + 6 * length].reshape(length, 6, 2).mean(axis=1) / sampler.unit
        assert np.array_equal(drawn.demand[s, n, :length], np.clip(np.floor(units + 0.5), 1, 6))


def test_series_of_less_than_a_day_give_short_workloads_with_a_note(make_trace: MakeTrace, quick: None) -> None:
    sampler = SequenceSampler(make_trace(mixed_series(8, 20), slot_seconds=3600), HOUR)
    assert "the longest window is 20 slots, not 60: no series is longer" in sampler.notes
    assert "no series lasts more than 30 h: all workloads are short" in sampler.notes
    length = sampler.sequences("train", 10, 0, OneClass()).length
    assert (length.min(), length.max()) == (3, 20)


# ---- units


def test_quantisation_by_hand() -> None:
    units = np.array([0.0, 0.2, 0.99, 1.49, 1.5, 2.5, 3.5, 5.49, 5.5, 6.0, 6.4, 9.9])
    assert quantise(units, 6).tolist() == [1, 1, 1, 1, 2, 3, 4, 5, 6, 6, 6, 6]
    assert quantise(units, 3).tolist() == [1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3]


def test_demand_by_hand(make_trace: MakeTrace, quick: None) -> None:
    # Three samples a slot. All series are alike, so the training part is too: of 201 slots with cpu 0.00, 0.01, ...,
    # 2.00 the 99.5th percentile is the 200th, 1.99; memory is constant. A unit is a sixth of that.
    cpu = np.arange(201) / 100
    rows = np.stack([np.stack([cpu - 0.5, cpu, cpu + 0.5], axis=1).ravel() + 0.5, np.full(603, 0.9)], axis=1)
    trace = make_trace([rows] * 4, slot_seconds=600)
    sampler = SequenceSampler(trace, SMALL)
    assert sampler.unit == pytest.approx([2.49 / 6, 0.15])
    drawn = sampler.sequences("train", 1, 0, OneClass())
    window, first = drawn.demand[0, 0, : drawn.length[0, 0]], drawn.source_slot[0, 0]
    assert (window[:, 1] == 6).all()
    mean = np.arange(first, first + 3 * len(window)).reshape(-1, 3)
    expected = [min(max(math.floor(rows[row, 0].mean() * 6 / 2.49 + 0.5), 1), 6) for row in mean]
    assert window[:, 0].tolist() == expected


def test_the_99_5th_percentile_of_demand_that_is_not_for_testing_is_the_peak(google: Trace, quick: None) -> None:
    sampler = SequenceSampler(google, replace(SMALL, peak_units=10, capacity=(12.0,), machines=1, load=0.1))
    unit, test = sampler.unit, {run.workload for run in sampler.runs["test"]}
    for workloads, is_peak in ((set(range(60)) - test, True), (range(60), False)):
        slots = np.concatenate([google.series(i).reshape(-1, 6, 2).mean(axis=1) for i in workloads])
        assert (np.percentile(slots, 99.5, axis=0) / unit == pytest.approx([10, 10])) == is_peak


# ---- lengths, kinds and arrivals


def test_half_are_long_and_each_resource_dominates_equally_often(drawn: SequenceSet) -> None:
    long = drawn.length > 60  # 30 h of 1800 s
    assert long.sum(axis=1).tolist() == [8] * 12
    assert drawn.length.min() >= 6
    assert drawn.length.max() <= 120
    assert drawn.length[long].mean() == pytest.approx(90.5, rel=0.1)
    assert drawn.length[~long].mean() == pytest.approx(33, rel=0.15)
    mean = drawn.demand.sum(axis=2) / drawn.length[..., None]
    assert (mean[..., 0] > mean[..., 1]).sum(axis=1).tolist() == [8] * 12
    assert (mean[..., 0] < mean[..., 1]).sum(axis=1).tolist() == [8] * 12
    # Independently of the length: a quarter is long and needs more cpu.
    assert (long & (mean[..., 0] > mean[..., 1])).sum(axis=1).tolist() == [4] * 12


def test_a_kind_that_is_missing_is_noted(make_trace: MakeTrace, quick: None) -> None:
    hungry = [np.tile([0.4, 0.1], (200, 1)), np.tile([0.3, 0.1], (200, 1)), np.tile([0.2, 0.1], (200, 1))]
    # Memory is 6 units throughout and cpu at most that: it never dominates.
    sampler = SequenceSampler(make_trace(hungry * 2, slot_seconds=3600), HOUR)
    assert [note.partition(": ")[0] for note in sampler.notes if "mix" in note] == [
        "the mix of train windows is uneven",
        "the mix of validation windows is uneven",
        "the mix of test windows is uneven",
    ]
    assert all(": 0% most cpu, " in note for note in sampler.notes if "mix" in note)
    assert "test windows come from 2 workloads only: results may not generalise to others" in sampler.notes


def test_the_order_of_workloads_makes_no_difference(google: Trace, quick: None) -> None:
    mixed = google.select(np.random.default_rng(3).permutation(len(google)))
    left, right = (SequenceSampler(t, SMALL).sequences("test", 3, 0, OneClass()) for t in (google, mixed))
    assert np.array_equal(left.demand, right.demand)
    assert np.array_equal(left.workload_id, right.workload_id)


def test_a_sample_worth_many_machines_is_named(make_trace: MakeTrace, quick: None) -> None:
    series = mixed_series(6, 400)
    series[2][100, 0] *= 1000
    with pytest.warns(
        UserWarning, match=r"workload 'w2', slot 100, column cpu is .* units .*; the largest machine has 8"
    ):
        SequenceSampler(make_trace(series, slot_seconds=3600), HOUR)


@pytest.mark.parametrize(
    ("types", "split", "capacity"),
    [((), "test", [32, 32]), (("2x8,8", "1x16,8"), "train", [32, 24])],
)
def test_rate_offers_the_load(google: Trace, types: tuple[str, ...], split: Any, capacity: list[int]) -> None:
    sampler = SequenceSampler(google, replace(SMALL, machine_types=types, load=0.4))
    drawn = sampler.sequences(split, 150, 1, OneClass())
    work = drawn.demand.sum(axis=(0, 1, 2))
    slots = (drawn.arrival[:, -1] + 1).sum()
    assert (work / (slots * np.array(capacity))).max() == pytest.approx(0.4, rel=0.05)


def test_rate_by_hand(make_trace: MakeTrace) -> None:
    # Constant series: cpu 6 and mem 2 units, or cpu 2 and mem 6; half of each, so 4 of each on average. Half of the
    # workloads take 3 to 30 slots of an hour, half 31 to 60: 31 on average.
    rows = [np.tile(level, (200, 1)) for level in ([0.6, 0.2], [0.2, 0.6])]
    sampler = SequenceSampler(make_trace(rows * 10, slot_seconds=3600), HOUR)
    for split in ("train", "validation", "test"):
        assert sampler.rate[split] == pytest.approx(0.5 * 4 * 8 / (4 * 31), rel=0.06)
    busier = SequenceSampler(sampler.trace, replace(HOUR, load=0.8))
    assert busier.rate["test"] == pytest.approx(1.6 * sampler.rate["test"])


def test_number_of_arrivals(google: Trace, make_trace: MakeTrace, sampler: SequenceSampler) -> None:
    assert sampler.arrivals == {"train": 16, "test": 16, "validation": 16}
    few = SequenceSampler(google, replace(SMALL, workloads=None, load=0.1))
    assert few.arrivals == {"train": 40, "test": 40, "validation": 40}
    # Three times those that run at a time: rate * mean length, which is load * capacity / units as above, so
    # 0.5 * 40 * 8 / 4 = 40 run at a time. Long and short ones differ in nothing but length.
    rows = [np.tile(level, (200, 1)) for level in ([0.6, 0.2], [0.2, 0.6])]
    trace = make_trace(rows * 10, slot_seconds=3600)
    some = replace(HOUR, workloads=None, machines=40, placements_per_slot=None)
    assert SequenceSampler(trace, some).arrivals["train"] == pytest.approx(120, abs=4)
    many = SequenceSampler(trace, replace(some, machines=100))
    assert many.arrivals["train"] == 200
    drawn = many.sequences("test", 1, 0, OneClass())
    assert drawn.arrival.shape == (1, 200)


def test_arrivals_rise_and_follow_the_rate(sampler: SequenceSampler) -> None:
    arrival = sampler.sequences("train", 120, 2, OneClass()).arrival
    assert (np.diff(arrival, axis=1) >= 0).all()
    assert arrival.min() >= 0
    gaps = np.diff(arrival, axis=1, prepend=0)
    assert gaps.mean() == pytest.approx(1 / sampler.rate["train"], rel=0.05)
    assert gaps.std() == pytest.approx(1 / sampler.rate["train"], rel=0.1)  # exponential


# ---- what a sequence depends on


def test_loads_take_turns(sampler: SequenceSampler, problem: Problem) -> None:
    mixed = sampler.sequences("train", 60, 0, problem.classes, loads=(0.25, 0.75))
    plain = sampler.sequences("train", 60, 0, problem.classes)
    assert mixed.arrival.shape == plain.arrival.shape
    assert np.array_equal(mixed.length, plain.length)  # the workloads are the same, they come at other times
    pace = mixed.arrival[:, -1].astype(float)
    assert pace[::2].mean() / pace[1::2].mean() == pytest.approx(3.0, rel=0.15)
    with pytest.raises(InputError, match="sequences is 0: must be at least 1"):
        sampler.sequences("train", 0, 0, problem.classes)
    with pytest.raises(InputError, match="load 9 needs"):
        sampler.sequences("train", 2, 0, problem.classes, loads=(0.5, 9.0))


def test_a_sequence_does_not_depend_on_the_others(problem: Problem) -> None:
    few, many = problem.sequences("train", 2, 7), problem.sequences("train", 5, 7)
    for i in range(2):
        for name in ("arrival", "workload_id", "source_slot"):
            assert np.array_equal(getattr(few, name)[i], getattr(many, name)[i])
        for n, length in enumerate(few.length[i]):
            assert np.array_equal(few.demand[i, n, :length], many.demand[i, n, :length])
            assert np.array_equal(few.label[i, n, : length + 1], many.label[i, n, : length + 1])


def test_seed_split_and_number_make_sequences_different(problem: Problem) -> None:
    sets = [problem.sequences("train", 3, 0), problem.sequences("train", 3, 1), problem.sequences("validation", 3, 0)]
    arrivals = {tuple(row) for own in sets for row in own.arrival}
    assert len(arrivals) == 9
    again = Problem.build(problem.trace, problem.scenario, problem.classes).sequences("train", 3, 0)
    for name in ("demand", "arrival", "label"):
        assert np.array_equal(getattr(again, name), getattr(sets[0], name))


def test_at_another_load_units_and_classes_stay(problem: Problem) -> None:
    other = problem.at_load(0.25)
    assert np.array_equal(other.sampler.unit, problem.sampler.unit)
    assert other.classes is problem.classes
    assert other.sampler.rate["test"] == pytest.approx(problem.sampler.rate["test"] / 2)
    assert other.sequences("test", 1, 0).load == 0.25


# ---- what is refused


def test_a_rate_that_cannot_be_served_names_the_way_out(google: Trace) -> None:
    scenario = replace(SMALL, machines=55, workloads=None)
    with pytest.raises(
        InputError,
        match=r"load 0\.5 needs \d\.\d\d arrivals per slot, above 0\.8 with placements_per_slot = 1: lower.*"
        r"--loads.*--placements-per-slot",
    ):
        SequenceSampler(google, scenario)
    rate = SequenceSampler(google, replace(scenario, placements_per_slot=None)).rate
    assert 0.8 < rate["train"] < 2.4
    assert SequenceSampler(google, replace(scenario, placements_per_slot=3)).rate == rate


@pytest.mark.parametrize(
    ("series", "slot_seconds", "message"),
    [
        (mixed_series(6, 100), 1000, "step_seconds is 3600: must be a multiple of the trace's slot_seconds, 1000"),
        ([rows * [1, 0] for rows in mixed_series(6, 100)], 3600, "demand of mem is zero nearly everywhere: nothing to"),
        (mixed_series(1, 100), 3600, "trace 'hand' has only 1 workload: at least 2 are needed"),
        (mixed_series(6, 11), 300, r"no train series of trace 'hand' is as long as one slot \(3600 s\)"),
    ],
)
def test_a_trace_that_gives_no_sequences(
    make_trace: MakeTrace, series: list[np.ndarray], slot_seconds: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        SequenceSampler(make_trace(series, slot_seconds), HOUR)


def test_demand_above_every_machine(google: Trace, make_trace: MakeTrace) -> None:
    with pytest.raises(InputError, match=r"demand of up to 6 units \(peak_units\) is above every machine's capacity"):
        SequenceSampler(google, replace(SMALL, capacity=(8.0, 5.0)))
    with pytest.raises(InputError, match=r"raise capacity or lower peak_units"):
        SequenceSampler(google, replace(SMALL, machine_types=("2x5,8", "2x8,5")))  # none has 6 of both
    SequenceSampler(google, replace(SMALL, machine_types=("9x5,8", "1x6,6")))


def test_fractional_demand_is_cut_at_peak_units_as_well(make_trace: MakeTrace) -> None:
    series = mixed_series(6, 400)
    series[2][100] *= 20
    sampler = SequenceSampler(make_trace(series, slot_seconds=3600), replace(HOUR, quantise=False))
    demand = sampler.sequences("train", 20, 0, OneClass()).demand
    assert demand.max() == 6
    assert (demand != np.round(demand)).any()
