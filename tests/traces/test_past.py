"""What is told of earlier usage: by hand, never of later slots, and never of what is held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.forecasting import SEGMENTS, Beginnings, NetworkForecaster, training_windows
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.past import EarlierUsage, OwnersUsage
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.traces.windows import Window, Windows
from tvwrl.types import Trace

MakeTrace = Callable[..., Trace]
UNIT = np.array([0.1, 0.1])


def window(workload: int, slot: int) -> Window:
    return Window(workload, slot, np.ones((4, 2)), -1)


def trace_of(make_trace: MakeTrace) -> Trace:
    """Two replicas and another workload; slots of 6 h, three days. The first uses 1, 2, ... tenths of a machine."""
    rising = np.repeat(np.arange(1.0, 13.0)[:, None], 2, axis=1) / 10
    steady = np.full((12, 2), 0.5)
    trace = make_trace([rising, steady, steady], slot_seconds=21_600)
    return replace(trace, application=np.array(["web", "web", ""], dtype=object))


def test_by_hand(make_trace: MakeTrace) -> None:
    earlier = EarlierUsage(trace_of(make_trace), 1, UNIT, most=100, sample="max")
    past = earlier.before([window(0, 8), window(2, 1), window(2, 0)])
    assert past.shape == (3, 2, 4, 2)
    assert past[0, 0, :, 0] == pytest.approx([5, 5.5, 6, 6.5])  # the second day: its mean with 5 of its replica
    assert past[0, 1, :, 0] == pytest.approx([3, 3.5, 4, 4.5])  # the first day
    assert past[1, 0, 0] == pytest.approx([5, 5])
    assert np.isnan(past[1, 0, 1:]).all()
    assert np.isnan(past[1, 1]).all()
    assert np.isnan(past[2]).all()


def test_days_before_end_with_the_slot_before(make_trace: MakeTrace) -> None:
    """A window that begins in the second slot of a day: the last 24 hours are its first slot and the day before."""
    alone = replace(trace_of(make_trace), application=np.array(["", "", ""], dtype=object))
    past = EarlierUsage(alone, 1, UNIT, most=100, sample="max").before([window(0, 9)])
    assert past[0, :, :, 0] == pytest.approx(np.array([[9, 6, 7, 8], [5, 2, 3, 4]]))


def test_later_slots_make_no_difference(make_trace: MakeTrace) -> None:
    trace = trace_of(make_trace)
    usage = trace.usage.copy()
    usage[trace.slot >= 7] = 0.01
    told = [
        EarlierUsage(one, 1, UNIT, 100, "max").before([window(0, 7)]) for one in (trace, replace(trace, usage=usage))
    ]
    assert np.array_equal(*told, equal_nan=True)


def test_hidden_rows_make_no_difference(make_trace: MakeTrace) -> None:
    trace = trace_of(make_trace)
    hidden = np.arange(len(trace.slot)) >= trace.offsets[1]  # of all but the first
    alone = EarlierUsage(trace, 1, UNIT, 100, "max", hidden).before([window(0, 8)])
    assert alone[0, :, :, 0] == pytest.approx(np.array([[5, 6, 7, 8], [1, 2, 3, 4]]))


def test_slots_are_joined_as_the_environment_joins_them(make_trace: MakeTrace) -> None:
    trace = trace_of(make_trace)
    largest, mean = (
        EarlierUsage(trace, 2, UNIT, 100, sample).before([window(2, 4), window(0, 4)]) for sample in ("max", "mean")
    )
    assert largest[1, 0, :, 0] == pytest.approx([(2 + 5) / 2, (4 + 5) / 2])
    assert mean[1, 0, :, 0] == pytest.approx([(1.5 + 5) / 2, (3.5 + 5) / 2])


def test_inputs_by_hand() -> None:
    """A day of four slots; the window begins in the third one, and two slots of it were seen."""
    past = np.full((1, 2, 4, 1), np.nan, np.float32)
    past[0, 0, :3, 0], past[0, 1, 1:3, 0] = [4, 5, 6], [1, 2]
    one = np.zeros(1, np.int64)
    windows = Windows(np.ones((1, 3, 1)), one + 3, np.full((1, 3), np.nan), one + 0.5, one - 1, one, one, past)
    found = Beginnings(windows, one, one + 2).before()[0]
    most, mean, latest, known = found[:6], found[6:12], found[12:18], found[18:]
    assert latest.tolist() == [4, 6, 6, 6, 6, 6]  # the next slot is the first of the day
    assert most.tolist() == [4, 4, 4, 4, 4, 4]
    assert mean[:3] == pytest.approx([4, (5.5 + 1.5) / 2, (5 + 1.5) / 2])
    assert known.tolist() == [0.5, 1, 1, 1, 1, 1]
    nothing = replace(windows, past=None)
    assert not Beginnings(nothing, one, one + 2).before().any()
    assert nothing.told.tolist() == [False]
    assert len(known) == len(SEGMENTS)


@pytest.fixture(scope="module")
def sampler() -> SequenceSampler:
    trace = synthetic_trace("google", workloads=40, seed=0, days=4)
    return SequenceSampler(trace, Scenario(machines=4, workloads=12, split="time", own_past=True))


def test_training_is_told_nothing_of_what_is_held_out(sampler: SequenceSampler) -> None:
    trace = sampler.trace
    usage = trace.usage.copy()
    for run in sampler.runs["test"]:
        usage[run.first : run.first + run.rows] *= 0.5
    other = SequenceSampler(replace(trace, usage=usage), sampler.scenario, sampler.unit)
    assert np.array_equal(training_windows(sampler, 60).past, training_windows(other, 60).past, equal_nan=True)


def test_first_placements_are_forecast_as_before(sampler: SequenceSampler) -> None:
    windows = training_windows(sampler, 400)
    assert windows.told.mean() > 0.8
    with_past = NetworkForecaster(epochs=2, hidden=8).fit(windows)
    without = NetworkForecaster(epochs=2, hidden=8).fit(replace(windows, past=None))
    untold = Beginnings.every(replace(windows[np.arange(20)], past=None))
    assert np.array_equal(with_past.predict(untold).most, without.predict(untold).most)
    with_past.informed_ = with_past.informed_ or replace(with_past, past=True).fit(windows)
    told = windows[np.flatnonzero(windows.told)[:10]]
    own, alone = (one.predict(Beginnings.every(told)).most for one in (with_past.informed_, without))
    assert np.array_equal(with_past.predict(Beginnings.every(told)).most, own)
    assert not np.array_equal(own, alone)
    mixed = replace(
        windows[np.arange(20)], past=np.where(np.arange(20)[:, None, None, None] % 2, np.nan, windows.past[:20])
    )
    every = Beginnings.every(mixed)
    both = with_past.predict(every).most
    assert np.array_equal(both[~every.told], without.predict(every[np.flatnonzero(~every.told)]).most)
    again = NetworkForecaster.from_dict(with_past.to_dict())
    assert np.array_equal(again.predict(every).most, both)
    pair = again, NetworkForecaster.from_dict(again.to_dict())  # the file rounds the time of day
    futures = [one.sample(every[:30], 2, np.random.default_rng(0)) for one in pair]
    assert np.array_equal(*futures)


def test_pods_of_an_owner_by_hand() -> None:
    """A day of two slots. Two pods of web began in slots 0 and 2; db has one, and of one pod the owner is unknown."""
    demand = np.array([[1.0, 2, 3, 4], [7, 8, 0, 0], [9, 9, 9, 9], [5, 5, 5, 5]])[..., None]
    used = OwnersUsage(["web", "web", "db", ""], np.array([0, 2, 3, 0]), demand, np.array([4, 2, 4, 4]), 43_200)
    assert used.before("web", 4)[:, :, 0].tolist() == [[(3 + 7) / 2, (4 + 8) / 2], [1, 2]]
    assert used.before("web", 1)[0, 0].tolist() == [1]
    assert np.isnan(used.before("web", 1)[0, 1]).all()
    assert np.isnan(used.before("web", 1)[1]).all()
    for owner, slot in (("web", 0), ("db", 3), ("", 9), ("other", 9)):
        assert np.isnan(used.before(owner, slot)).all()


def test_of_repeated_days_nothing_is_told() -> None:
    """A trace of one day, which windows run through again and again: what came before comes again."""
    trace = synthetic_trace("google", workloads=20, seed=0, days=1)
    short = SequenceSampler(trace, Scenario(machines=4, workloads=12, own_past=True))
    assert short.runs["train"][0].period
    alone = replace(trace, application=np.array([""] * len(trace), dtype=object))
    told = training_windows(SequenceSampler(alone, short.scenario), 60)
    assert not told.told.any()


def test_hours_are_those_of_the_clock_where_slots_do_not_divide_a_day(make_trace: MakeTrace) -> None:
    """Slots of 7 h: three are nearest to a day. Each is told at the time of day at which it began."""
    series = np.repeat(np.arange(1.0, 25.0)[:, None], 2, axis=1) / 100
    trace = make_trace([series], slot_seconds=25_200)
    past = EarlierUsage(trace, 1, UNIT, 100, "max").before([window(0, 20)])[0, 0, :, 0]
    expected = {int((slot * 25_200 % 86_400) * 3 // 86_400): (slot + 1) / 10 for slot in (17, 18, 19)}
    assert past[list(expected)] == pytest.approx(list(expected.values()))


def test_hours_of_pods_are_those_of_the_clock_where_slots_do_not_divide_a_day() -> None:
    """Slots of 3500 s, 25 to a day, counted from a midnight many days ago; pods are busy for an hour from noon on."""
    first = 1_700_000_000 // 3500
    slots = first + np.arange(50)
    busy = slots * 3500 % 86_400 // 3500 == 12
    used = OwnersUsage(["web"], np.array([first]), np.where(busy, 5.0, 1.0)[None, :, None], np.array([50]), 3500)
    told = used.before("web", first + 50)[0, :, 0]
    assert np.flatnonzero(told == 5).tolist() == [int(slots[busy][-1] * 3500 % 86_400 * 25 // 86_400)]
