"""The trace figures and the classifier's of paper 003 on small files: what is printed is what the rows hold."""

import csv
from pathlib import Path

import numpy as np
import pytest

from tvwrl.bench.pism_classifier import COLUMNS, PREDICTORS, ClassifierSettings
from tvwrl.bench.pism_laws import LawSettings, anchors
from tvwrl.bench.pism_traces import NAMES, TraceSettings
from tvwrl.experiments.statistics import FEW_SEEDS, interval_or_range
from tvwrl.interference.testbed.arrivals import synthetic_hour
from tvwrl.types import InputError

SHAPES = (("M1", "R2_1"), ("M1", "M2", "J3_1_2"), ("M1", "R2_1", "R3_2", "J4_2"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both files: 60 jobs of three shapes, every minute three; the 61st job alone has its graph."""
    folder, rng = tmp_path_factory.mktemp("batch"), np.random.default_rng(0)
    usage, arrivals = [], []
    for j in range(61):
        names = SHAPES[j % 3] if j < 60 else ("M1", "M2", "M3")
        for k, name in enumerate(names):
            cpu, memory, seconds = np.round(
                np.array([0.2 * 4**k, 0.05 * 3**k, 20.0 * (k + 1)]) * rng.uniform(0.9, 1.1, 3), 4
            )
            usage.append(f"j{j},{name},{k + 1},{20 * j},{20 * j + 9},{seconds},100,0.3,1,1,{cpu},{memory}")
            arrivals.append(f"{20 * j},j{j},{name},{int(seconds)},100,0.3,{k + 1}")
    head = "job,task,instances,start_time,end_time,mean_inst_duration,plan_cpu,plan_mem,cpu_sum_pct,mem_sum,"
    (folder / "ali18_usage_tasks.csv.gz").write_text(
        "\n".join([head + "cpu_per_inst_cores,mem_per_inst", *usage]) + "\n"
    )
    head = "arrive_s,job,task,duration_s,plan_cpu,plan_mem,instances"
    (folder / "spar_sample_tasks.csv.gz").write_text("\n".join([head, *arrivals]) + "\n")
    return folder


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "rows.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", NAMES)
def test_trace_figures(data, tmp_path, name):
    text, folder = TraceSettings(data).reproduce(name, tmp_path), tmp_path / name
    assert "(real)" in text
    assert (folder / "table.md").read_text() == text
    pictures = {"plot.png"} if name.startswith("fig") else set()
    assert {path.name for path in folder.iterdir()} == {"rows.csv", "table.md", "run.json"} | pictures
    if name == "table1":
        assert [row["jobs"] for row in rows_of(folder)] == ["3.0"] * 20  # the last job begins a minute that is cut off
    assert "0 of 183 (an hour of arrivals (real)), 0 of 183 (tasks with usage (real))" in text
    if name == "table2":
        printed = {line.split("|")[1].strip(): line.split("|")[2:4] for line in text.splitlines() if line[:1] == "|"}
        assert [cell.strip() for cell in printed["jobs"]] == ["282,194", "61"]
        assert [cell.strip() for cell in printed["graphs"]] == ["1,456", "4"]
        assert [cell.strip() for cell in printed["jobs whose graph is unique"]] == ["35", "1"]
    if name == "fig8":
        rows = rows_of(folder)
        for dimension, classes in (("cpu", 3), ("memory", 5), ("makespan", 4)):
            own = [float(row["tasks_pct"]) for row in rows if row["dimension"] == dimension]
            assert len(own) == classes
            assert sum(own) == pytest.approx(100)


def test_classifier_figure(data, tmp_path):
    text = ClassifierSettings(data, (3, 4)).reproduce("fig10", tmp_path)
    rows = rows_of(tmp_path / "fig10")
    assert (
        len(rows) == (3 * len(PREDICTORS) - 2) * 4
    )  # a split by time and two by jobs; tasks, instances; exact, neighbour
    told = {tuple(row[c] for c in ("predictor", "split", "seed", "of", "hit")): row for row in rows}
    for (*about, hit), row in told.items():
        assert 0 <= float(row["overall"]) <= min(float(row[column]) for column in COLUMNS[:3]) + 1e-9
        if hit == "exact":
            assert all(float(row[c]) <= float(told[(*about, "neighbour")][c]) + 1e-9 for c in COLUMNS)
    own = told["same tag and task name", "time", "0", "tasks", "exact"]["cpu"]
    line = next(line for line in text.splitlines() if line.startswith("| same tag and task name, by time"))
    assert float(line.split("|")[2]) == pytest.approx(float(own), abs=0.051)


def test_few_seeds_have_a_range_and_more_an_interval():
    few, many = np.array([1.0, 2.0, 9.0]), np.arange(2.0 * FEW_SEEDS)
    assert interval_or_range(few) == (1.0, 9.0)
    low, high = interval_or_range(many)
    assert many.min() < low < many.mean() < high < many.max()
    assert np.isnan(interval_or_range(few[:1])).all()


def test_services_come_out_near_their_anchors_in_another_period():
    hour = synthetic_hour(np.random.default_rng(0))
    for row in anchors(hour, 0):
        low, high = {"checkout": (146, 318), "coupon": (7, 9)}[row["service"]]
        assert row["p10"] == pytest.approx(low, rel=0.1)
        assert row["p90"] == pytest.approx(high, rel=0.1)
        assert row["service"] != "coupon" or row["cv"] < 0.2
    with pytest.raises(InputError, match="data is not given"):
        LawSettings().reproduce("laws", Path("nowhere"))


def test_bad_settings_are_refused(data, tmp_path):
    with pytest.raises(InputError, match="data is not given"):
        TraceSettings().reproduce("table1", tmp_path)
    with pytest.raises(InputError, match="spar_sample_tasks"):
        TraceSettings(tmp_path).reproduce("table1", tmp_path / "out")
    with pytest.raises(InputError, match="seeds is 1, 1"):
        ClassifierSettings(data, (1, 1)).reproduce("fig10", tmp_path)
    assert not (tmp_path / "fig10").exists()
