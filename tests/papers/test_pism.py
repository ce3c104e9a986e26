"""Figures of the PISM paper, small: what is printed is what the rows hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tvwrl.experiments.engine import complete, read_cell_rows
from tvwrl.experiments.reproducing import RunOptions, reproduce
from tvwrl.interference.testbed.laws import ResponseModel
from tvwrl.papers import PISM
from tvwrl.papers.pism.cells import CLASSES, AnchorCell
from tvwrl.papers.pism.clusters import AGAIN, COUNTS, NO_MOVES, ONCE, SHUFFLED, UTILISATION, first_period, learn
from tvwrl.papers.pism.figures import (
    TABLES,
    ClassifierStudy,
    ClusterStudy,
    LawStudy,
    NginxStudy,
    PredictionStudy,
    SchedulerStudy,
    TraceStudy,
)
from tvwrl.papers.pism.measured_tables import CLASSIFIED as COLUMNS
from tvwrl.papers.pism.predictors import CLASSIFIERS
from tvwrl.papers.pism.trials import throughput
from tvwrl.runs import read_csv
from tvwrl.types import InputError

CLUSTER = ClusterStudy(preset="smoke", laws=("control",), machines=4, learns=60, minutes=28)
DAYS = PredictionStudy(seeds=(0, 1), laws=("memory", "control"), machines=3, services=25, hours=1, report_seconds=60)
SCHEDULERS = SchedulerStudy(laws=("memory",), schedulers=("stack",), sequences=2, episodes=16, seeds=(0, 1))


def made(study, figure, out):
    """Text and rows of a figure."""
    reproduce(study, [figure], "pism", RunOptions(out))
    folder = out / figure
    assert (folder / "run.json").is_file()
    return (folder / "table.md").read_text(), read_csv(folder / "rows.csv")


def printed(text):
    """Lines of tables as first cell -> the others."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return {first: rest for first, *rest in lines}


def test_trace_figures(batch_data, tmp_path):
    texts, rows = {}, {}
    for figure in ("table1", "table2", "fig8"):
        texts[figure], rows[figure] = made(TraceStudy(batch_data), figure, tmp_path)
        assert texts[figure].startswith(f"# {PISM.titles[figure]} (real)")
        assert (tmp_path / figure / "plot.png").exists() == figure.startswith("fig")
        assert "0 of 183 (an hour of arrivals (real)), 0 of 183 (tasks with usage (real))" in texts[figure]
    assert [row["jobs"] for row in rows["table1"]] == ["3.0"] * 20  # the minute that the last job starts is not whole
    table = printed(texts["table2"])
    assert [table[line][:2] for line in ("jobs", "graphs", "jobs whose graph is unique")] == [
        ["282,194", "61"],
        ["1,456", "4"],
        ["35", "1"],
    ]
    for dimension, classes in CLASSES.items():
        shares = [float(row["tasks_pct"]) for row in rows["fig8"] if row["dimension"] == dimension]
        assert len(shares) == classes
        assert sum(shares) == pytest.approx(100)


def test_classifier_figure(batch_data, tmp_path):
    text, rows = made(ClassifierStudy(batch_data, (3,)), "fig10", tmp_path)
    # a split by time and one by jobs, without the hourly classifier; tasks, instances; exact, neighbour
    assert len(rows) == (2 * len(CLASSIFIERS) - 1) * 4
    found = {tuple(row[c] for c in ("predictor", "split", "seed", "of", "hit")): row for row in rows}
    for (*about, hit), row in found.items():
        assert 0 <= float(row["overall"]) <= min(float(row[column]) for column in COLUMNS[:3]) + 1e-9
        if hit == "exact":
            assert all(float(row[c]) <= float(found[(*about, "neighbour")][c]) + 1e-9 for c in COLUMNS)
    own = found["same tag and task name", "time", "0", "tasks", "exact"]["cpu"]
    line = next(line for line in text.splitlines() if line.startswith("| same tag and task name, by time"))
    assert float(line.split("|")[2]) == pytest.approx(float(own), abs=0.051)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """A folder with Figure 12 of the smallest cluster."""
    out = tmp_path_factory.mktemp("clusters")
    return out, *made(CLUSTER, "fig12", out)


def test_clusters_are_shared_between_figures(clusters):
    out, text, _ = clusters
    assert text.startswith(f"# {PISM.titles['fig12']} (simulated)")
    assert "5.468" in text
    assert (out / "fig12" / "plot-control.png").is_file()
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").rglob("cell.json")}
    text, _ = made(CLUSTER, "table3", out)
    assert "+76.4" in text
    assert {path: path.stat().st_mtime_ns for path in (out / "cells").rglob("cell.json")} == before
    with pytest.raises(InputError, match=r"another request: cluster\.rounds is 1 there, 0 here"):
        made(replace(CLUSTER, rounds=0), "fig12", out)


def test_rows_of_clusters(clusters):
    """Every way to learn has its trees, and schedulers without PISM are scored by all of them."""
    out, _, _ = clusters
    rows = read_cell_rows(out, CLUSTER.cells("fig12"))
    ways = (ONCE, COUNTS, SHUFFLED, AGAIN)
    found = {(row["scheduler"], row["learnt"], row["trees"]): row for row in rows}
    assert len(found) == len(rows) == 2 * len(ways) + 2 * len(ways)
    one, other = found["default", "", ONCE], found["default", "", AGAIN]
    assert one["slowdown"] == other["slowdown"]
    assert one["predicted"] != other["predicted"]
    assert found[NO_MOVES, ONCE, ONCE]["moves"] == 0.0
    assert (one["heavy"], one["light"]) == (0, 0)
    for row in rows:
        assert sum(row[f"score_{bucket}"] for bucket in range(10)) == pytest.approx(100)
        assert row["checkout_p0"] <= row["checkout_p50"] <= row["checkout_p99"]
        assert row["slowdown"] > 1
    spread = found["spread", "", ONCE]
    assert spread["utilisation_p95"] - spread["utilisation_p5"] < one["utilisation_p95"] - one["utilisation_p5"]


def test_the_same_seed_gives_the_same_rows(clusters):
    out, _, _ = clusters
    cell = next(one for one in CLUSTER.cells("fig12") if one.scheduler == NO_MOVES)
    learn.cache_clear()
    assert cell.measure() == read_cell_rows(out, [cell])


@pytest.mark.parametrize(
    ("figure", "schedulers"),
    [
        ("fig13", {"random", "spread", "stack", "LoadAware", "TargetLoadPacking", "LoadVariationRiskBalancing"}),
        ("fig14", {"random", "spread", "stack"}),
        ("fig15", {"random", "spread", "stack"}),
    ],
)
def test_schedulers_are_shown_alone_with_utilisation_and_with_pism(clusters, figure, schedulers, tmp_path):
    """A line each, of rows as those of Figure 12, and a plot."""
    rows = read_cell_rows(clusters[0], CLUSTER.cells("fig12"))
    ways = {"", UTILISATION, ONCE, COUNTS, SHUFFLED, AGAIN}
    tried = [(cell.scheduler, cell.learnt) for cell in CLUSTER.cells(figure)]
    assert set(tried) - {("default", "")} == {(name, way) for name in schedulers for way in ways}
    alike = [row | {"scheduler": name, "learnt": way} for name, way in tried for row in rows[:4]]
    report = TABLES[figure](PISM.titles[figure], alike, CLUSTER)
    for name, way in tried:
        assert f" {name} | {way or 'none'} " in " ".join(report.text.split())
    report.plots["plot" if figure == "fig13" else "plot-control"](tmp_path / "plot.png")
    assert {cell.cluster.machines for cell in replace(CLUSTER, machines=None).cells("fig15")} == {14}


def test_levels_beside_large_tasks_are_of_records_with_nearly_the_same_cpu(tmp_path):
    text, rows = made(DAYS, "fig11", tmp_path)
    cpu = [float(row["cpu"]) for row in rows]
    for law, seed in {(row["law"], row["seed"]) for row in rows}:
        own = [float(row["cpu"]) for row in rows if (row["law"], row["seed"]) == (law, seed)]
        assert max(own) <= min(own) * 1.06 / 0.94
    assert all(1 <= float(row["level"]) <= 10 for row in rows)
    assert min(cpu) > 0
    assert "nearly" not in text
    assert "| memory: " in text


def test_throughput_by_hand():
    before = np.array([[10.0, 10.0, np.nan], [50.0, 11.0, np.nan]])  # means, P90: the first is tail-heavy
    now = np.array([[5.0, 8.0, np.nan], [9.0, 9.0, np.nan]])
    assert throughput(before, now) == pytest.approx({"heavy": 100.0, "light": 25.0, "heaviest": 5.0})


@pytest.mark.parametrize("alike", [True, False])
def test_services_that_are_alike_are_slowed_alike(alike):
    """Without noise all services of a machine then have the same slowdown; else the insensitive hardly have any."""
    cluster = replace(CLUSTER, alike=alike, rounds=0).cells("fig12")[0].cluster
    deployment, _, seen = first_period(cluster)
    responses: ResponseModel = learn(cluster).responses
    still = replace(responses, noise=np.zeros_like(responses.noise))
    times = still.response_ms(seen, np.random.default_rng(0))
    slowdown = times[:, slice(*deployment.first[:2])] / responses.base[deployment.service[slice(*deployment.first[:2])]]
    spread = np.ptp(slowdown, axis=1).max()
    assert spread < 1e-9 if alike else spread > 0.1


def test_prediction_figures(tmp_path):
    """Every service counts alike, then every seed; in Figure 17 a line is a predictor, a column a law."""
    for figure in ("table4", "fig16", "fig18", "fig17"):
        text, rows = made(DAYS, figure, tmp_path)
        assert text.startswith(f"# {PISM.titles[figure]} (simulated)")
        assert {row["seed"] for row in rows} == {"0", "1"}
        assert {row["law"] for row in rows} == {"memory", "control"}
        assert (tmp_path / figure / "plot.png").exists() == (figure in ("fig17", "fig18"))
    table = printed(text)
    for name in {row["predictor"] for row in rows}:
        for law, cell in zip(DAYS.laws, table[name][1:], strict=True):
            own = [row for row in rows if (row["predictor"], row["law"]) == (name, law)]
            seeds = [np.mean([float(row["within"]) for row in own if row["seed"] == seed]) for seed in "01"]
            assert cell.startswith(f"{np.mean(seeds):.1f} ")


def test_pism_places_elsewhere_and_helps_where_a_scheduler_piles_up(tmp_path):
    """More than a quarter of the workloads move, and the P99 slowdown under the law, which no score sees, falls."""
    text, rows = made(SCHEDULERS, "schedulers", tmp_path)
    assert "| memory: stack " in text
    mean = {
        way: [
            np.mean([float(row[column]) for row in rows if row["way"] == way])
            for column in ("elsewhere", "slowdown_p99")
        ]
        for way in ("alone", "utilisation", "pism")
    }
    assert len(rows) == 3 * 2 * 2
    assert mean["pism"][0] > 25
    assert mean["pism"][1] < 0.9 * mean["alone"][1]
    # a difference is the mean over the seeds, and its interval is over them: with two, it ends at theirs
    by_seed = {
        (row["seed"], row["way"]): np.mean(
            [float(one["slowdown_p99"]) for one in rows if (one["seed"], one["way"]) == (row["seed"], row["way"])]
        )
        for row in rows
    }
    changes = sorted(by_seed[seed, "pism"] - by_seed[seed, "alone"] for seed in ("0", "1"))
    line = next(line for line in text.splitlines() if line.startswith("| memory: stack + pism "))
    assert f"{np.mean(changes):+.2f} [{changes[0]:+.2f}, {changes[1]:+.2f}]" in line


def test_services_meet_their_anchors_in_another_period(tmp_path):
    cell = AnchorCell(0)
    assert complete(tmp_path, [cell]) == {}
    for row in read_cell_rows(tmp_path, [cell]):
        low, high = {"checkout": (146, 318), "coupon": (7, 9)}[row["service"]]
        assert row["p10"] == pytest.approx(low, rel=0.1)
        assert row["p90"] == pytest.approx(high, rel=0.1)
        assert row["service"] != "coupon" or row["cv"] < 0.2


@pytest.mark.parametrize(
    ("study", "figure", "message"),
    [
        (replace(CLUSTER, laws=("other",)), "fig12", "laws is 'other': must be one of memory"),
        (replace(CLUSTER, machines=2), "fig12", "machines is 2: must be at least 3"),
        (replace(CLUSTER, minutes=10), "fig12", "minutes is 10"),
        (replace(CLUSTER, seeds=(1, 1)), "fig12", "seeds is 1, 1"),
        (replace(CLUSTER, silent=1.0), "fig12", "silent is 1.0: must be at least 0 and below 1"),
        (replace(CLUSTER, measured_services=True), "fig12", "measured_services needs erms_inflection.csv.gz"),
        (
            replace(CLUSTER, measured_services=True, alike=True),
            "fig12",
            "alike and measured_services exclude each other",
        ),
        (replace(DAYS, seeds=()), "fig17", "seeds"),
        (replace(DAYS, laws=()), "fig17", "laws is empty"),
        (replace(DAYS, hours=0), "fig17", "hours is 0: must be at least 1"),
        (replace(SCHEDULERS, sequences=0), "schedulers", "sequences is 0"),
        (replace(SCHEDULERS, seeds=()), "schedulers", "seeds is empty"),
        (replace(SCHEDULERS, schedulers=()), "schedulers", "the list of schedulers is empty"),
        (replace(SCHEDULERS, schedulers=("best",)), "schedulers", "scheduler is 'best'"),
        (replace(SCHEDULERS, episodes=3), "schedulers", "episodes is 3: must be at least 16"),
        (NginxStudy(), "nginx", "data is not given"),
        (LawStudy(), "laws", "data is not given"),
        (TraceStudy(), "table1", "data is not given"),
        (ClassifierStudy(), "fig10", "data is not given"),
        (TraceStudy(Path("nowhere")), "table1", "nowhere lacks spar_sample_tasks.csv.gz, ali18_usage_tasks.csv.gz"),
    ],
)
def test_options_out_of_range_are_refused(study, figure, message, tmp_path):
    with pytest.raises(InputError, match=message):
        reproduce(study, [figure], "pism", RunOptions(tmp_path))
    assert not list(tmp_path.iterdir())
