"""Do classes help: labels of every kind by hand, what a forecaster sees of them, differences, and a run of all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tvwrl.ec import EquivalenceClasses, GivenLabels, OwnLabels
from tvwrl.experiments.training_cells import fitted, opened
from tvwrl.forecasting import Beginnings, NetworkForecaster, training_windows
from tvwrl.papers.tvw_rl.classes_study import ARMS, NONE, ClassAwareForecaster, ClassesStudy, change, table, verdict
from tvwrl.simulation import Scenario
from tvwrl.traces.windows import Windows
from tvwrl.types import InputError

TRACE = "synthetic:google"


def test_true_labels_are_of_whole_series_and_random_ones_of_the_same_sizes() -> None:
    scenario = Scenario()
    classes, one = fitted(TRACE, "aggregate", scenario), fitted(TRACE, "one label", scenario)
    assert isinstance(classes, EquivalenceClasses)
    assert isinstance(one, OwnLabels)
    assert one.k == 1
    true, random, other = (fitted(TRACE, f"{arm} aggregate", scenario) for arm in ("true", "random0", "random1"))
    assert isinstance(true, GivenLabels)
    assert isinstance(random, GivenLabels)
    assert isinstance(other, GivenLabels)
    trace = opened(TRACE)[0]
    assert len(true.labels) == len(trace)
    assert np.array_equal(np.bincount(true.labels), np.bincount(random.labels))
    assert not np.array_equal(random.labels, true.labels)
    assert not np.array_equal(random.labels, other.labels)


def test_a_forecaster_sees_the_label_of_that_time() -> None:
    class Changing:
        """Label 1 before, and 2 from the second slot on."""

        k = 2

        def label_table(self, windows: Windows, every: int = 1) -> np.ndarray:
            table = np.full((*windows.length.shape, windows.demand.shape[-2] + 1), 2, np.uint8)
            table[..., :2] = 1
            return table

    none = np.zeros(3, int)
    windows = Windows(np.ones((3, 4, 2)), np.full(3, 4), np.zeros((3, 4)), np.zeros(3), none, none)
    beginnings = Beginnings(windows, np.array([2, 0]), np.array([1, 3]))
    plain = NetworkForecaster().inputs(beginnings)
    assert np.array_equal(ClassAwareForecaster().inputs(beginnings), plain)
    seen = ClassAwareForecaster(classes=Changing()).inputs(beginnings)  # type: ignore[arg-type]
    assert seen[:, :2].tolist() == [[1, 0], [0, 1]]
    assert np.array_equal(seen[:, 2:], plain)


def rows_of(name: str, seeds: Sequence[int], rewards: np.ndarray) -> list[dict[str, object]]:
    """Rewards (seeds, sequences) of one column as rows."""
    rows = zip(seeds, rewards, strict=True)
    return [
        {"group": "t", "column": name, "seed": seed, "sequence": i, "reward": float(r)}
        for seed, own in rows
        for i, r in enumerate(own)
    ]


def test_the_verdict_counts_what_chance_does_not_explain() -> None:
    rewards, noise = np.random.default_rng(0).normal(size=(2, 3, 20))
    rows = rows_of(f"ppo, {NONE}", (0, 1, 2), rewards)
    rows += rows_of("ppo, random", (0, 1, 2), rewards - 5)
    rows += rows_of("ppo, predicted", (0, 1, 2), rewards + noise - noise.mean())
    rows += rows_of("ppo, true", (2,), rewards[2:] + 5)  # a single seed, compared with the same one
    frame = pl.DataFrame(rows)
    assert change(frame, "ppo, true").mean == pytest.approx(5)
    assert change(frame, "ppo, true").interval == pytest.approx((5, 5))
    assert np.isnan(change(frame.filter(pl.col("column") != f"ppo, {NONE}"), "ppo, true").mean)
    assert verdict([frame]).splitlines()[2:5] == [
        "- random: of 1 comparisons, 0 significantly better, 1 significantly worse",
        "- predicted: of 1 comparisons, 0 significantly better, 0 significantly worse",
        "- true: of 1 comparisons, 1 significantly better, 0 significantly worse",
    ]
    body = table(frame).splitlines()[2:]
    assert [line.split("|")[3].strip() for line in body] == ["3", "3", "3", "1"]


def test_cells_and_what_is_refused() -> None:
    cells = ClassesStudy(traces=(TRACE,), seeds=(0, 1)).cells("classes")
    assert len({cell.name for cell in cells}) == len(cells) == 2 * len(ARMS) * (1 + 2 * 2)
    assert len(ClassesStudy(traces=(TRACE,), seeds=(0,), learners=()).cells("classes")) == len(ARMS)
    for bad in ({"learners": ("dqn",)}, {"seeds": (-1,)}, {"iterations": 0}, {"learners": (), "forecasts": False}):
        with pytest.raises(InputError):
            ClassesStudy(**bad).cells("classes")  # type: ignore[arg-type]


@pytest.mark.slow
def test_from_end_to_end(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    few = partial(training_windows, count=200)
    monkeypatch.setattr("tvwrl.papers.tvw_rl.classes_study.training_windows", few)
    options = ["--traces", TRACE, "--learners", "ppo", "--seeds", 0, "--iterations", 1, "--sequences", 2]
    done = call("reproduce", "classes", *options, "--out", tmp_path / "c")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "c" / "classes" / "table.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert [tuple(row[:2]) for row in rows[2:]] == [(who, arm) for who in ("ppo", "expected-cost") for arm in ARMS]
    assert json.loads((tmp_path / "c" / "classes" / "run.json").read_text())["options"]["load"] == 0.5
