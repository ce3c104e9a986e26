"""The figures of prediction on a tiny simulated cluster, and those of nginx on the real runs."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from tvwrl.bench.pism_nginx import FILE, NginxSettings, judge
from tvwrl.bench.pism_prediction import NAMES, PREDICTORS, PredictionSettings
from tvwrl.interference.measured import pods_of, read_nginx
from tvwrl.types import InputError

BATCH = Path(os.environ.get("TVWRL_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "batch"
TINY = PredictionSettings(seeds=(0, 1), laws=("memory", "control"), machines=3, services=25, hours=2)


@pytest.mark.parametrize("name", NAMES)
def test_figures_say_what_is_simulated_and_write_their_files(tmp_path, name):
    text = TINY.reproduce(name, tmp_path)
    assert "(simulated)" in text.splitlines()[0]
    assert (tmp_path / name / "table.md").read_text() == text
    with (tmp_path / name / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["seed"] for row in rows} == {"0", "1"}
    assert {row["law"] for row in rows} == {"memory", "control"}
    assert (tmp_path / name / "run.json").exists()
    assert (tmp_path / name / "plot.png").exists() == (name in ("fig17", "fig18"))


def test_the_table_of_figure_17_is_the_mean_of_its_rows(tmp_path):
    """Every service counts alike, then every seed; a row of the table is a predictor, a column a law."""
    lines = [[cell.strip() for cell in line.split("|")] for line in TINY.reproduce("fig17", tmp_path).splitlines()]
    with (tmp_path / "fig17" / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name in PREDICTORS:
        (shown,) = [line for line in lines if line[1:2] == [name]]
        for law, cell in zip(TINY.laws, shown[3:], strict=False):
            own = [row for row in rows if (row["predictor"], row["law"]) == (name, law)]
            seeds = [np.mean([float(row["within"]) for row in own if row["seed"] == seed]) for seed in "01"]
            assert cell.startswith(f"{np.mean(seeds):.1f} ")


def test_bad_settings_are_refused(tmp_path):
    for bad, message in (
        (PredictionSettings(seeds=()), "seeds"),
        (PredictionSettings(laws=("gravity",)), "unknown law 'gravity'; valid: "),
        (PredictionSettings(hours=0), "at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            bad.reproduce("fig17", tmp_path)
    with pytest.raises(InputError, match="needs --data"):
        NginxSettings().reproduce("nginx", tmp_path)


def test_pods_by_hand():
    """As many of each kind as the scenario's name says, whichever way it is written."""
    for name, expected in (
        ("Baseline2", (0, 0, 0)),
        ("3_iBench_CPU_pods", (3, 0, 0)),
        ("1_stress-ng_l3_pod", (0, 1, 0)),
        ("2_CPU_2_L3_2_MemBW", (2, 2, 2)),
        ("1_L3_3_MemBW", (0, 1, 3)),
    ):
        assert pods_of(name)[:3].tolist() == list(expected)
    with pytest.raises(InputError, match="scenario 'calm'"):
        pods_of("calm")


@pytest.mark.real_data
@pytest.mark.skipif(not (BATCH / FILE).exists(), reason="real data are absent")
def test_kinds_of_pods_tell_more_of_nginx_than_their_number():
    observations, campaign = read_nginx(BATCH / FILE)
    assert (observations.real, len(campaign), len(set(campaign))) == (True, 2644, 23)
    rows = judge(BATCH / FILE, 10)
    within = {
        name: np.mean([r["within"] for r in rows if r["predictor"] == name]) for name in {r["predictor"] for r in rows}
    }
    assert within["pods by kind (tree)"] > 85
    assert within["pods by kind (tree)"] > within["number of pods (tree)"] + 5
    assert within["number of pods (linear)"] > within["always the middle level"] + 20
