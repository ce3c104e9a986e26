"""Who has seen what: splits and folds by hand, and that nothing is in two of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.traces.splits import FOLDS, UNSEEN, Splits, gapless_runs, split_trace
from tvwrl.types import InputError, Trace

MakeTrace = Callable[..., Trace]


def workloads(splits: Splits, split: str) -> set[int]:
    """Workloads with a run in the split."""
    return {run.workload for run in splits.runs[split]}  # type: ignore[index]


def rows(splits: Splits, split: str) -> set[int]:
    """Rows of the trace in the split."""
    return {row for run in splits.runs[split] for row in range(run.first, run.first + run.rows)}  # type: ignore[index]


def of_lengths(make_trace: MakeTrace, lengths: list[int]) -> Trace:
    return make_trace([np.ones((length, 2)) for length in lengths])


def test_workloads_by_hand(make_trace: MakeTrace) -> None:
    # Of ten workloads three are for testing. By length the others are dealt to training and validation as 4 to 1: the
    # second longest and the second shortest are held out. Folds take turns from the longest to the shortest.
    lengths = [10 * i for i in range(1, 11)]
    splits = split_trace(of_lengths(make_trace, lengths), "workloads")
    test = workloads(splits, "test")
    assert len(test) == 3
    left = sorted(set(range(10)) - test, key=lambda i: -lengths[i])
    assert {run.workload for run in splits.not_test} == set(left)
    assert workloads(splits, "validation") == {left[1], left[6]}
    assert splits.fold[[left[i] for i in (0, 2, 3, 4, 5)]].tolist() == [0, 1, 2, 0, 1]
    assert splits.holds_out
    assert (splits.fold >= 0).sum() == 5


def test_time_by_hand(make_trace: MakeTrace) -> None:
    splits = split_trace(of_lengths(make_trace, [100, 50]), "time")
    own = {split: [(r.workload, r.first, r.rows) for r in runs] for split, runs in splits.runs.items()}
    assert own["train"] == [(0, 0, 56), (1, 100, 28)]
    assert own["validation"] == [(0, 56, 14), (1, 128, 7)]
    assert own["test"] == [(0, 70, 30), (1, 135, 15)]
    assert [(r.first, r.rows) for r in splits.not_test] == [(0, 70), (100, 35)]
    assert splits.fold.tolist() == [0, 1]


def test_applications_by_hand(make_trace: MakeTrace) -> None:
    # 20 workloads: the largest application goes to training, the next to testing, the third to validation; then
    # whichever has least of its share: of 10, 6 and 4 places 8, 5 and 3 are taken, so d goes to validation, and e,
    # whose application is unknown, to training, which has less than testing.
    names = ["a"] * 8 + ["b"] * 5 + ["c"] * 3 + ["d"] * 3 + [""]
    trace = replace(of_lengths(make_trace, [10] * 20), application=np.array(names, dtype=object))
    splits = split_trace(trace, "applications")
    assert workloads(splits, "train") == {*range(8), 19}
    assert workloads(splits, "test") == set(range(8, 13))
    assert workloads(splits, "validation") == set(range(13, 19))
    assert len(set(splits.fold[:8])) == 1  # one application, one fold
    assert splits.fold[19] != splits.fold[0]
    assert (splits.fold[8:19] == UNSEEN).all()


def test_unknown_applications_are_one_each(make_trace: MakeTrace) -> None:
    trace = of_lengths(make_trace, [10] * 20)
    splits = split_trace(replace(trace, application=np.array([""] * 20, dtype=object)), "applications")
    counts = {split: len(workloads(splits, split)) for split in splits.runs}
    assert counts == {"train": 10, "validation": 4, "test": 6}


def test_too_few_applications_are_refused(make_trace: MakeTrace) -> None:
    trace = replace(of_lengths(make_trace, [10] * 9), application=np.array(["a"] * 5 + ["b"] * 4, dtype=object))
    message = "split is applications, but trace 'hand' has 2 of them: at least 3 .* use split workloads"
    with pytest.raises(InputError, match=message):
        split_trace(trace, "applications")


def test_where_nothing_can_be_held_out_validation_uses_training(make_trace: MakeTrace) -> None:
    two = split_trace(of_lengths(make_trace, [30, 30]), "workloads")
    assert not two.holds_out
    assert workloads(two, "validation") == workloads(two, "train")
    assert two.fold.tolist() == [UNSEEN] * 2
    three = split_trace(of_lengths(make_trace, [30] * 3), "workloads")
    assert three.holds_out
    assert three.fold.tolist() == [UNSEEN] * 3  # one training series, which is in no fold
    short = split_trace(of_lengths(make_trace, [100] * 4), "time", least_rows=20)  # a fifth of 70 rows is less
    assert not short.holds_out
    assert [run.rows for run in short.runs["train"]] == [70] * 4


def test_long_series_are_in_every_part(make_trace: MakeTrace) -> None:
    lengths = np.random.default_rng(0).integers(10, 1000, 200).tolist()
    splits = split_trace(of_lengths(make_trace, lengths), "workloads")
    parts = [sorted(workloads(splits, "train")), sorted(workloads(splits, "validation"))]
    parts += [np.flatnonzero(splits.fold == fold).tolist() for fold in range(FOLDS)]
    overall = np.mean([lengths[run.workload] for run in splits.not_test])
    assert all(np.mean([lengths[i] for i in part]) == pytest.approx(overall, rel=0.1) for part in parts)
    assert len(parts[1]) == 28  # a fifth of 140
    assert [len(part) for part in parts[2:]] == [38, 37, 37]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), by=st.sampled_from(["workloads", "applications", "time", "placements"]))
def test_no_row_is_in_two_splits(make_trace: MakeTrace, data: st.DataObject, by: str) -> None:
    lengths = data.draw(st.lists(st.integers(2, 60), min_size=2, max_size=14))
    applications = data.draw(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=14, max_size=14))
    gaps = [np.cumsum(data.draw(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=n, max_size=n))) for n in lengths]
    least = data.draw(st.integers(1, 3))
    trace = make_trace([np.ones((n, 2)) for n in lengths], slots=gaps)
    trace = replace(trace, application=np.array(applications[: len(lengths)], dtype=object))
    try:
        splits = split_trace(trace, by, least)
    except InputError:
        return
    train, validation, test = (rows(splits, split) for split in ("train", "validation", "test"))
    assert not test & (train | validation)
    assert not splits.holds_out or not train & validation
    assert train | validation <= {r for run in splits.not_test for r in range(run.first, run.first + run.rows)}
    assert set(np.flatnonzero(splits.fold >= 0)) in (set(), workloads(splits, "train"))
    if by in ("workloads", "applications"):
        others = workloads(splits, "test") | (workloads(splits, "validation") if splits.holds_out else set())
        assert not others & workloads(splits, "train")
        assert (splits.fold[sorted(others)] == UNSEEN).all()
    if by == "applications":
        of = [{trace.application[i] for i in workloads(splits, split)} - {""} for split in splits.runs]
        assert not of[0] & of[1]
        assert not (of[0] | of[1]) & of[2]
        for name in {*applications} - {""}:
            assert len(set(splits.fold[trace.application == name]) - {UNSEEN}) <= 1
    # The order of the workloads in a file makes no difference.
    order = data.draw(st.permutations(range(len(trace))))
    again = split_trace(trace.select(order), by, least)
    assert splits.fold[list(order)].tolist() == again.fold.tolist()
    for split in splits.runs:
        assert {order[i] for i in workloads(again, split)} == workloads(splits, split)


def test_every_row_is_in_a_split(make_trace: MakeTrace) -> None:
    for by in ("workloads", "applications", "time", "placements"):
        trace = of_lengths(make_trace, [20, 31, 40, 9, 77])
        splits = split_trace(trace, by)
        assert set.union(*(rows(splits, split) for split in splits.runs)) == set(range(177))
        assert {r.workload for r in gapless_runs(trace, [0, 3])} == {0, 3}


def test_placements_by_hand(make_trace: MakeTrace) -> None:
    """Of ten replicas three are for testing and one or two for validation; a single workload is cut in time."""
    trace = of_lengths(make_trace, [20] * 11)
    splits = split_trace(replace(trace, application=np.array(["web"] * 10 + [""], dtype=object)), "placements")
    assert [len(workloads(splits, name) - {10}) for name in ("train", "validation", "test")] == [6, 1, 3]
    alone = {name: [run for run in splits.runs[name] if run.workload == 10] for name in splits.runs}
    ends = [
        (run.first - int(trace.offsets[10]), run.rows)
        for name in ("train", "validation", "test")
        for run in alone[name]
    ]
    assert ends == [(0, 11), (11, 3), (14, 6)]
    again = split_trace(replace(trace, application=np.array(["web"] * 10 + ["db"], dtype=object)), "placements")
    assert again.runs == splits.runs  # an application of one workload is a workload alone
