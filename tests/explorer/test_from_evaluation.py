"""From a trace to the page: an evaluation is explored, and Chromium shows what the referee counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.experiments.evaluation import EvaluationSetup, evaluate
from tvwrl.experiments.exploring.explored import Explored, open_explored, write_at_once
from tvwrl.explorer.recording import costliest_decisions
from tvwrl.schedulers import make_scheduler
from tvwrl.traces.synthetic import synthetic_trace

Show = Callable[..., Any]
NAMES = ("spread", "tetris", "expected-cost")
HOSTILE = (
    "</script><script>document.title='taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "m" * 10**6,
)


@pytest.fixture(scope="module")
def explored(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Explored:
    """An evaluation of workloads with hostile names, in a folder with one."""
    trace = synthetic_trace("google", workloads=60, seed=0)
    names = np.array([f"{HOSTILE[i % 3]}{i}" for i in range(len(trace))], object)
    hostile = replace(problem, sampler=replace_trace(problem, replace(trace, workload_id=names)))
    folder = tmp_path_factory.mktemp("real") / "<b>folder"
    schedulers = [make_scheduler(name) for name in NAMES]
    evaluate(EvaluationSetup(hostile, (problem.scenario.load,), 2, bound_seconds=None), schedulers, folder, plots=False)
    return open_explored(folder)


def replace_trace(problem: Problem, trace: Any) -> Any:
    """The sampler of the same problem with workloads of other names."""
    from tvwrl.traces.sequences import SequenceSampler

    return SequenceSampler(trace, problem.scenario, problem.sampler.unit)


def test_the_page_shows_what_the_referee_counts(explored: Explored, show: Show, tmp_path: Path) -> None:
    file = tmp_path / "explorer.html"
    write_at_once(explored, file, {explored.loads[0]: [0, 1]}, report=lambda text: None)
    assert file.stat().st_size < 600_000  # names of a megabyte are shortened
    rows = pl.read_csv(explored.folder / "rows.csv")
    for name in NAMES:
        recording, _ = explored.record(name, explored.loads[0], 1)
        page = show(file, f"#sequence=1&a={name}")
        reward = rows.filter((pl.col("scheduler") == name) & (pl.col("sequence") == 1))["reward"][0]
        assert f"{name} cost {-reward:,.0f} over " in page.inner_text("#verdict")
        (k,) = costliest_decisions(recording, 1)
        page = show(file, f"#sequence=1&a={name}&decision={k}")
        assert f"{recording.regret[k]:,.0f}" in page.inner_text("#decision-words")
        totals = page.locator("#alternatives tbody tr").evaluate_all("all => all.map(row => row.cells[6].innerText)")
        shown = sorted(float(re.sub("[^0-9.]", "", text)) for text in totals)
        assert shown == pytest.approx(sorted(recording.totals[k]), abs=0.51)
        assert page.title() == "<b>folder"
        assert page.locator("img, #page script").count() == 0
