"""Populations judged by outcomes: what is compared by hand, and rewards on the shipped one near those on the trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tvwrl.envs import Problem
from tvwrl.experiments.population_command import (
    JUDGES,
    PopulationOptions,
    fit_and_judge,
    halves_of,
    judged_lines,
    renamed,
    resampled,
)
from tvwrl.experiments.statistics import ratio_bootstrap
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import open_trace, synthetic_trace
from tvwrl.types import InputError, Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return synthetic_trace("google-v2", workloads=24, seed=1, days=3)


def test_ratio_of_means_by_hand() -> None:
    assert ratio_bootstrap(np.array([2.0, 4.0]), np.array([1.0, 3.0]))[0] == 1.5
    assert ratio_bootstrap(np.full(3, 3.0), np.full(5, 2.0)) == (1.5, 1.5, 1.5)
    ratio, low, high = ratio_bootstrap(np.array([1.0]), np.array([2.0, 2.0]))
    assert ratio == 0.5
    assert np.isnan([low, high]).all()


def test_names_are_exchanged_and_series_stay(trace: Trace) -> None:
    other = renamed(trace, 0)
    np.testing.assert_array_equal(other.usage, trace.usage)
    assert sorted(other.workload_id) == sorted(trace.workload_id)
    assert (other.workload_id != trace.workload_id).any()


def test_halves_and_resamples(trace: Trace) -> None:
    one, other = halves_of(trace, 0)
    assert len(one) == len(other) == 12
    assert one.usage.sum() + other.usage.sum() == pytest.approx(trace.usage.sum())
    again = resampled(trace, 0)
    assert len(set(again.workload_id)) == len(again) == 24
    recorded = {tuple(trace.series(i)[:, 0]) for i in range(24)}
    assert {tuple(again.series(i)[:, 0]) for i in range(24)} < recorded  # some are drawn twice


def test_the_table_by_hand() -> None:
    truth = {(0.5, "spread"): np.array([-100.0, -100.0]), (0.5, "best-fit"): np.array([-200.0, -200.0])}
    made = {(0.5, "spread"): np.array([-104.0, -108.0]), (0.5, "best-fit"): np.array([-210.0, -250.0])}
    lines = judged_lines({"population": (made, truth), "one split of the trace": (truth, truth)})
    assert "+6.0 %" in lines[1]
    assert "[+4, +8]" in lines[1]
    assert "+15.0 %" in lines[2]
    assert "within 10% in 1.5 of 2 cells one by one (1 to 2); by their means in 1, mean distance 10.5%" in lines[-2]
    assert lines[-1] == "one split of the trace: within 10% in 2.0 of 2 cells one by one (2 to 2)"


def test_the_command_fits_and_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, lines = tmp_path / "mine.json", list[str]()
    options = PopulationOptions("synthetic:google-v2(workloads=40)", file, loads=(0.5,), judge=1)
    fit_and_judge(PopulationOptions(**vars(options) | {"workloads": 40, "sequences": 1}), lines.append)
    assert json.loads(file.read_text())["name"] == "mine"
    assert sum(any(f" {name} " in line for name in JUDGES) for line in lines) == len(JUDGES)
    assert "1 of 1" in capsys.readouterr().err


def test_bad_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give --file to fit"):
        fit_and_judge(PopulationOptions("synthetic:google"))
    with pytest.raises(InputError, match=r"file is m\.txt: must end with \.json"):
        fit_and_judge(PopulationOptions("synthetic:google", Path("m.txt")))
    with pytest.raises(InputError, match="judge is -1"):
        fit_and_judge(PopulationOptions("synthetic:google", tmp_path / "m.json", judge=-1))
    with pytest.raises(InputError, match="unknown trace 'gogle'"):
        fit_and_judge(PopulationOptions("synthetic:google", population="gogle"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_schedulers_fare_on_the_population_as_on_the_recorded_trace() -> None:
    """Mean rewards at load 0.5 on google2011, in thousands, over 8 random splits (docs/results/traces.md)."""
    recorded = {"spread": -811.0, "best-fit": -1627.0, "best-fit-peak": -368.0, "clairvoyant": -241.0}
    found = dict.fromkeys(recorded, 0.0)
    for seed in (1, 2, 3):
        problem = Problem.build(open_trace("synthetic:google-v2", seed=seed), Scenario(load=0.5), "none")
        runner = Runner(problem.sequences("test", 20, seed=0), problem.machines, problem.scenario)
        for name in recorded:
            found[name] += problem.rewards(runner, make_scheduler(name)).mean() / 3000
    for name, reward in recorded.items():
        assert found[name] == pytest.approx(reward, rel=0.15), name
