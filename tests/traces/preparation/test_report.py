"""The report says what it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from matplotlib.figure import Figure

from tvwrl.traces.loaders import LOADERS
from tvwrl.traces.preparation import report as reporting
from tvwrl.traces.preparation.prepare import prepare
from tvwrl.traces.preparation.report import report_text
from tvwrl.traces.preparation.series import SeriesRules


@pytest.fixture
def titles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of the pages of plots."""
    found: list[str] = []
    monkeypatch.setattr(Figure, "suptitle", lambda self, text, **style: found.append(text))
    return found


def prepared(folder: Path, lengths: list[int], plots: bool = True) -> dict[str, Any]:
    """The report on workloads of so many slots, and two tables beside them."""
    rows = [(300 * t, f"w{w}", 0.1 + 0.01 * (t % 7), 0.2) for w, n in enumerate(lengths) for t in range(n)]
    pl.DataFrame(rows, schema=["time", "workload_id", "cpu", "mem"], orient="row").write_parquet(folder / "x.parquet")
    rules = SeriesRules(300, min_records=1)
    return prepare(LOADERS["parquet"](), str(folder / "x.parquet"), folder / "out", rules, plots=plots)


def test_a_sample_is_called_one_by_hand(tmp_path: Path, titles: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "LARGEST", 100)
    report = prepared(tmp_path, [100, 10, 60, 30])  # 200 rows: every second workload, w0 and w2
    assert report["described"] == 2
    assert "Quantiles and plots are of a sample: 2 of the 4 workloads." in report_text(report)
    assert titles == ["parquet: sample of 2 of 4 workloads, slots of 300 s"]


def test_the_whole_is_not_called_a_sample(tmp_path: Path, titles: list[str]) -> None:
    report = prepared(tmp_path, [30, 20])
    assert "sample" not in report_text(report)
    assert titles == ["parquet: 2 workloads, slots of 300 s"]


def test_tables_beside_the_trace_are_listed(tmp_path: Path) -> None:
    report = prepared(tmp_path, [30], plots=False) | {"beside": {"affinity": 12_345, "machines": 7}}
    assert "| affinity.parquet | 12,345 |\n| machines.parquet |      7 |\n\n" in report_text(report)
    assert "written beside" not in report_text(report | {"beside": {}})
