"""Records become series of slots: cases worked out by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tvwrl.traces.loaders.google2011 import Google2011
from tvwrl.traces.loaders.table import Csv
from tvwrl.traces.preparation.prepare import prepare
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
    (tmp_path / "x.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match="the longest stretch has 150 records"):
        prepare(Csv(), str(tmp_path / "x.csv"), tmp_path / "out", SeriesRules(300), plots=False)


def test_which_of_the_rows_of_one_moment_is_kept_does_not_depend_on_their_order() -> None:
    rows = [(0, 5, 0.1), (0, 2, 0.9), (0, 5, 0.3), (0, 5, 0.3), (5, 10, 0.2)]
    for order in itertools.permutations(rows):
        slots, _, dropped = series(*order)
        assert slots.usage[:, 0].tolist() == [0.3, 0.2]  # ends last, and is the largest of these
        assert dropped == {"duplicated rows": 1, "rows of the same time as another": 2}


def own(tmp_path: Path, slot: int, interval: int = 300) -> list[tuple[int, float]]:
    """Slots and cpu of samples at seconds 150, 450 and 750."""
    lines = ["time,workload_id,cpu,mem", *(f"{150 + 300 * i},a,0.{i + 1},0.2" for i in range(3))]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    rules = SeriesRules(slot, min_records=1)
    prepare(Csv(interval=interval), str(tmp_path / "x.csv"), tmp_path / "out", rules, plots=False)
    return pl.read_parquet(tmp_path / "out" / "usage.parquet").select("slot", "cpu").rows()


def test_a_sample_counts_in_the_slot_that_it_lies_in(tmp_path: Path) -> None:
    assert own(tmp_path, 300) == [(0, 0.1), (1, 0.2), (2, 0.3)]


def test_a_sample_of_slots_longer_than_its_interval(tmp_path: Path) -> None:
    assert own(tmp_path, 600) == [(0, pytest.approx(0.15)), (1, 0.3)]


def test_a_sample_stands_for_its_interval_in_shorter_slots(tmp_path: Path) -> None:
    assert own(tmp_path, 150) == [(0, 0.1), (1, 0.1), (2, 0.2), (3, 0.2), (4, 0.3), (5, 0.3)]


def test_a_record_without_a_sensible_end_is_bad(tmp_path: Path) -> None:
    rest = "1,0,7,0.1,0.2,0,0,0,0,0,0,0,0,0,0,1,0,0.1"
    lines = [f"{SLOT * i},{SLOT * (i + 1)},{rest}" for i in range(400)] + [f"{SLOT * 400},{2**63 - 1},{rest}"]
    (tmp_path / "task_usage.csv").write_text("\n".join(lines))
    report = prepare(Google2011(), str(tmp_path), tmp_path / "out", SeriesRules(300), plots=False)
    assert report["rows"]["bad"] == {"task_usage: end is more than 3 days after begin": 1}
    assert report["slots"] == 400
