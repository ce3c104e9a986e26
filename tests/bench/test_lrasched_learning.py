"""Table 2 and Figures 2 and 5 of the LRASched paper, as small as they can be."""

import csv

import numpy as np
import pytest

from tvwrl.bench.lrasched_learning import NAMES, PREDICTORS, LearningSettings
from tvwrl.types import InputError


@pytest.mark.parametrize("name", NAMES)
def test_tables_say_what_is_simulated_and_every_file_is_there(tmp_path, name):
    text, folder = LearningSettings((3, 4), None, 12, 6).reproduce(name, tmp_path), tmp_path / name
    assert "simulated" in text.lower()
    assert {path.name for path in folder.iterdir()} == {"rows.csv", "table.md", "plot.png", "run.json"}
    assert (folder / "table.md").read_text() == text
    rows = list(csv.DictReader((folder / "rows.csv").open()))
    assert {row["seed"] for row in rows} == {"3", "4"}
    if name == "table2":
        check_table2(text, rows)


def check_table2(text, rows):
    """What is printed of each predictor is the mean and the worst of its rows for that data."""
    data = ""
    printed = {}
    for line in text.splitlines():
        if line.startswith("## "):
            data = line[3:]
        elif data and line.startswith("| "):
            name, error, _, worst, *_ = (cell.strip() for cell in line.strip("|").split("|"))
            printed[data, name] = error.split()[0], worst
    cells = {(row["data"], row["predictor"]) for row in rows}
    assert len(cells) == 2 * len(PREDICTORS)
    for cell in cells:
        own = [row for row in rows if (row["data"], row["predictor"]) == cell]
        mean = np.mean([float(row["rmse"]) for row in own])
        worst = max(float(row["worst_rmse"]) for row in own)
        assert [float(value) for value in printed[cell]] == pytest.approx([mean, worst], abs=6e-4)


@pytest.mark.parametrize("wrong", [{"seeds": ()}, {"seeds": (1, 1)}, {"seeds": (-1,)}, {"earlier": 1}])
def test_bad_settings_are_refused(tmp_path, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        LearningSettings(**wrong).reproduce("table2", tmp_path)
