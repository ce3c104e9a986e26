"""PISM beside the schedulers of the time-varying simulator: other placements, lower scores, whole files."""

import csv

import numpy as np
import pytest

from tvwrl.bench.pism_schedulers import SchedulerSettings, compare
from tvwrl.interference.training import train_on_trace
from tvwrl.schedulers import make_scheduler
from tvwrl.types import InputError

NAMES = ("spread", "stack", "random")
SMALL = SchedulerSettings(laws=("memory",), schedulers=NAMES, sequences=4, episodes=16)


@pytest.fixture(scope="module")
def rows(problem):
    return compare(problem, [make_scheduler(name) for name in NAMES], SMALL)


@pytest.mark.parametrize("name", NAMES)
def test_placements_differ(rows, name):
    """More than a quarter of the workloads go to another machine."""
    elsewhere = [row["elsewhere"] for row in rows if row["scheduler"] == name and row["way"] == "pism"]
    assert len(elsewhere) == 4
    assert np.mean(elsewhere) > 25


def test_the_worst_is_less_bad_where_a_scheduler_piles_up(rows):
    """The 99th percentile of slowdown under the law, which no score sees, falls by a tenth for stack."""
    tail = {
        way: np.mean([row["slowdown_p99"] for row in rows if row["scheduler"] == "stack" and row["way"] == way])
        for way in ("alone", "pism")
    }
    assert tail["pism"] < 0.9 * tail["alone"]


def test_bad_settings_are_refused(problem, tmp_path):
    with pytest.raises(InputError, match="unknown law 'gravity'; valid: memory"):
        train_on_trace(problem, "gravity", "corr", 16, 0)
    with pytest.raises(InputError, match="episodes is 3: must be at least 16"):
        train_on_trace(problem, "memory", "corr", 3, 0)
    with pytest.raises(InputError, match="sequences is 1"):
        SchedulerSettings(sequences=1).reproduce("schedulers", tmp_path)
    with pytest.raises(InputError, match="the list of laws or of schedulers is empty"):
        SchedulerSettings(schedulers=()).reproduce("schedulers", tmp_path)
    with pytest.raises(InputError, match="unknown weighting 'foo'; valid: fair"):
        SchedulerSettings(trace="nowhere", weighting="foo").reproduce("schedulers", tmp_path)


def test_the_table_is_written_whole(rows, problem, tmp_path, monkeypatch):
    monkeypatch.setattr("tvwrl.bench.pism_schedulers.compare", lambda *_: rows)
    monkeypatch.setattr(SchedulerSettings, "_problem", lambda _: (problem, [make_scheduler(name) for name in NAMES]))
    text = SMALL.reproduce("schedulers", tmp_path)
    assert "(simulated)" in text.splitlines()[0]
    assert all(f"| memory: {name} " in text for name in NAMES)
    with (tmp_path / "schedulers" / "rows.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows) == 3 * 3 * 4
