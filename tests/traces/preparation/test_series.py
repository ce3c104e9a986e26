"""Records become series of slots: cases worked out by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.traces.conftest import prepared, write_file
from tvwrl.traces.loaders.google2011 import Google2011
from tvwrl.traces.loaders.table import Csv
from tvwrl.traces.preparation.series import SeriesRules, Slots, make_series, record_type
from tvwrl.types import InputError

MINUTE = 60_000_000
SLOT = 5 * MINUTE


def series(*rows: tuple[float, ...], **rules: Any) -> tuple[Slots, int, Counter[str]]:
    """Slots of one workload of records (begin and end in minutes, cpu), the longest stretch and what was dropped."""
    records = np.zeros(len(rows), record_type(["cpu"]))
    for record, (begin, end, cpu) in zip(records, rows, strict=True):
        record["begin"], record["end"], record["cpu"] = begin * MINUTE, end * MINUTE, cpu
    names = pl.DataFrame({"owner": pl.Series([0], dtype=pl.UInt64), "id": ["a"]})
    limits = SeriesRules(300, **{"min_records": 1, **rules})
    _, slots, longest, dropped = make_series(records, names, ["id"], [], limits, 0)
    return slots, longest, dropped


def test_a_record_counts_once_however_many_slots_it_reaches_into() -> None:
    # Minutes 1 to 6, 6 to 11 and 11 to 16 lie in the slots 0, 1, 2 and 3; they begin in 0, 1 and 2.
    slots, longest, _ = series((1, 6, 0.1), (6, 11, 0.2), (11, 16, 0.3))
    assert slots.slot.tolist() == [0, 1, 2, 3]
    assert slots.usage[:, 0] == pytest.approx([0.1, (0.1 + 4 * 0.2) / 5, (0.2 + 4 * 0.3) / 5, 0.3])
    assert slots.records.tolist() == [1, 1, 1, 0]
    assert slots.recorded.all()
    assert longest == 3
    assert series((1, 6, 0.1), (6, 11, 0.2), (11, 16, 0.3), min_records=4)[2] == {
        "workloads without a stretch of --min-records": 1,
        "slots in stretches below --min-records": 4,
    }


def test_a_filled_slot_is_not_recorded() -> None:
    slots, longest, _ = series((0, 5, 0.1), (15, 20, 0.4), gaps="interpolate")
    assert slots.usage[:, 0] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert slots.recorded.tolist() == [True, False, False, True]
    assert longest == 2


def test_half_of_min_records_is_not_enough(tmp_path: Path) -> None:
    lines = ["time,workload_id,cpu,mem", *(f"{60 + 300 * i},a,0.1,0.2" for i in range(150))]
    with pytest.raises(InputError, match="the longest stretch has 150 records"):
        prepared(Csv(), write_file(tmp_path / "x.csv", lines), tmp_path / "out", SeriesRules(300))


def test_which_of_the_rows_of_one_moment_is_kept_does_not_depend_on_their_order() -> None:
    rows = [(0, 5, 0.1), (0, 2, 0.9), (0, 5, 0.3), (0, 5, 0.3), (5, 10, 0.2)]
    for order in itertools.permutations(rows):
        slots, _, dropped = series(*order)
        assert slots.usage[:, 0].tolist() == [0.3, 0.2]  # ends last, and is the largest of these
        assert dropped == {"duplicated rows": 1, "rows of the same time as another": 2}


@pytest.mark.parametrize(
    ("slot", "expected"),
    [
        (300, [(0, 0.1), (1, 0.2), (2, 0.3)]),  # a sample counts in the slot that it lies in
        (600, [(0, 0.15), (1, 0.3)]),
        (150, [(0, 0.1), (1, 0.1), (2, 0.2), (3, 0.2), (4, 0.3), (5, 0.3)]),  # it stands for its interval
    ],
)
def test_samples_in_slots_of_another_length(slot: int, expected: list[tuple[int, float]], tmp_path: Path) -> None:
    lines = ["time,workload_id,cpu,mem", *(f"{150 + 300 * i},a,0.{i + 1},0.2" for i in range(3))]
    source = write_file(tmp_path / "x.csv", lines)
    trace, _ = prepared(Csv(interval=300), source, tmp_path / "out", SeriesRules(slot, min_records=1))
    assert list(zip(trace.slot, trace.usage[:, 0].round(12), strict=True)) == expected


def test_a_record_without_a_sensible_end_is_bad(tmp_path: Path) -> None:
    rest = "1,0,7,0.1,0.2,0,0,0,0,0,0,0,0,0,0,1,0,0.1"
    lines = [f"{SLOT * i},{SLOT * (i + 1)},{rest}" for i in range(400)] + [f"{SLOT * 400},{2**63 - 1},{rest}"]
    source = write_file(tmp_path / "task_usage.csv", lines)
    _, report = prepared(Google2011(), source, tmp_path / "out", SeriesRules(300))
    assert report["rows"]["bad"] == {"task_usage: end is more than 3 days after begin": 1}
    assert report["slots"] == 400
