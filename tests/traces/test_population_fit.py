"""Populations fitted to a trace: groups by hand, figures without series, files that open as traces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tvwrl.traces import fit_population, open_trace, synthetic_trace, trace_hash, trace_identity
from tvwrl.traces.catalogue import how_to_open
from tvwrl.traces.population_fit import group_workloads
from tvwrl.traces.statistics import compare_populations
from tvwrl.traces.synthetic import draw_parameters, generate
from tvwrl.types import InputError


@pytest.fixture(scope="module")
def content() -> dict:
    return fit_population(synthetic_trace("google-v2", workloads=60, seed=5, days=2), "mine")


def test_groups_of_two_clouds_by_hand() -> None:
    rows = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    group = group_workloads(rows, 2)
    assert len(set(group[:3])) == len(set(group[3:])) == 1
    assert group[0] != group[4]
    assert (group_workloads(rows, 1) == 0).all()


def test_a_workload_alone_joins_the_nearest_group() -> None:
    group = group_workloads(np.array([[0.0], [0.1], [5.0], [5.1], [9.0]]), 3)
    assert np.bincount(group).min() >= 2
    assert group[4] == group[3]


def test_parameters_scatter_around_the_centres_of_groups() -> None:
    content = {
        "parameters": ["a", "kind"],
        "copula": [0.0],
        "tables": {"a": np.linspace(0.0, 1.0, 41).tolist()},
        "kinds": [[None, None, 0.0, 1.0]],
        "groups": {"share": [3, 1], "centre": [[-2.0, 0.0], [2.0, 0.0]], "spread": [0.01, 1.0]},
    }
    drawn = draw_parameters(content, 4000, np.random.default_rng(0))["a"]
    low = drawn < 0.5
    assert low.mean() == pytest.approx(0.75, abs=0.03)
    np.testing.assert_allclose([drawn[low].mean(), drawn[~low].mean()], [0.0228, 0.9772], atol=1e-3)  # of N(0, 1)


def test_fitting_gives_back_the_population(content: dict) -> None:
    real = synthetic_trace("google-v2", workloads=60, seed=5, days=2)
    distances = compare_populations(generate(content, 300, 1), real)
    for name in ("cpu_level", "mem_level", "cpu_variation", "mem_variation", "duration"):
        assert distances[name] <= 0.2


def test_figures_are_those_of_groups(content: dict) -> None:
    groups = content["groups"]
    assert sum(groups["share"]) == 60
    assert min(groups["share"]) >= 2
    assert len(groups["centre"]) <= 60 // 8
    assert len(fit_population(synthetic_trace(workloads=20, days=1), "one", groups=1)["groups"]["share"]) == 1


def test_a_file_opens_as_a_trace_again(content: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    trace = open_trace("synthetic:mine.json(workloads=5,seed=2)")
    assert (len(trace), trace.name, trace.source) == (5, "mine", "synthetic")
    assert trace_hash(trace) == trace_hash(synthetic_trace(tmp_path / "mine.json", 5, seed=2))
    identity = trace_identity(trace, "synthetic:mine.json(workloads=5,seed=2)")
    monkeypatch.chdir("/")
    assert trace_hash(open_trace(*how_to_open(identity))) == identity["hash"]


def test_bad_input_is_refused(content: dict, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 19 workloads: a population needs 20"):
        fit_population(synthetic_trace(workloads=19, days=1), "few")
    with pytest.raises(InputError, match="groups is 0"):
        fit_population(synthetic_trace(workloads=20, days=1), "none", groups=0)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match=r"bad\.json: cannot be read as JSON"):
        open_trace(f"synthetic:{tmp_path}/bad.json")
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(InputError, match="is no object"):
        open_trace(f"synthetic:{tmp_path}/bad.json")
    (tmp_path / "bad.json").write_text(json.dumps({k: v for k, v in content.items() if k != "tables"}))
    with pytest.raises(InputError, match="lacks tables"):
        open_trace(f"synthetic:{tmp_path}/bad.json")
    with pytest.raises(InputError, match="must be one of google, google-v2, alibaba"):
        open_trace(f"synthetic:{tmp_path}/none.json")
    for options, said in (
        ("workloads=x", "must be a whole number"),
        ("jobs=3", "no option 'jobs'"),
        ("seed=-1", "seed is -1"),
    ):
        with pytest.raises(InputError, match=said):
            open_trace(f"synthetic:google-v2({options})")
