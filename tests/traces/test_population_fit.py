"""Populations fitted to a trace: groups by hand, figures without series, files that open as traces."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvwrl.experiments.population_command import PopulationOptions, fit_and_judge
from tvwrl.simulation import Scenario
from tvwrl.traces import (
    SequenceSampler,
    fit_population,
    open_trace,
    synthetic_trace,
    trace_hash,
    trace_identity,
    write_trace,
)
from tvwrl.traces.catalogue import how_to_open
from tvwrl.traces.held_series import with_peaks
from tvwrl.traces.population_fit import group_workloads
from tvwrl.traces.statistics import compare_populations
from tvwrl.traces.synthetic import draw_parameters, generate
from tvwrl.types import InputError, Trace


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


@pytest.fixture(scope="module")
def virtual_machines() -> Trace:
    """Workloads that never use more than they request, and request 1/16, 1/8, ... of the reference machine."""
    trace = synthetic_trace("google-v2", workloads=60, seed=5, days=2)
    most = np.maximum.reduceat(trace.usage, trace.offsets[:-1])
    return replace(trace, request=2.0 ** np.ceil(np.log2(np.maximum(most, 1 / 16))))


def test_machines_of_common_sizes_are_never_exceeded(virtual_machines: Trace) -> None:
    content = fit_population(virtual_machines, "machines")
    assert content["within_request"] == [True, True]
    made = generate(content, 100, 1)
    for d, sizes in enumerate(content["sizes"]):
        assert set(made.request[:, d]) <= set(sizes) <= {2.0**-k for k in range(-3, 5)}
    most = np.maximum.reduceat(made.usage, made.offsets[:-1])
    assert (most <= made.request + 1e-7).all()


def test_requests_that_are_exceeded_or_have_no_steps_limit_nothing(virtual_machines: Trace) -> None:
    request = virtual_machines.request * np.linspace(1.0, 1.5, 60)[:, None]
    request[0] = virtual_machines.series(0).max(0) / 2
    content = fit_population(replace(virtual_machines, request=request), "machines")
    assert content["within_request"] == [False, False]
    assert content["sizes"] == [[], []]
    unknown = fit_population(replace(virtual_machines, request=np.full((60, 2), np.nan)), "machines")
    assert unknown["within_request"] == [False, False]
    assert np.isnan(generate(unknown, 5, 0).request).all()


def test_peaks_are_short_and_scattered_over_the_upper_half() -> None:
    rng = np.random.default_rng(0)
    x = np.sin(np.arange(20_000) * 2 * np.pi / 2000)  # ten days, say
    made = with_peaks(x, 3.0, rng)
    moved = made != x
    assert moved.mean() == pytest.approx(0.05, abs=0.01)
    assert made[moved].min() >= x.max()
    assert (x[moved] >= np.median(x)).all()
    runs = np.count_nonzero(np.diff(moved.astype(int)) == 1)
    assert moved.sum() / runs == pytest.approx(3.0, rel=0.2)
    assert (with_peaks(x, np.nan, rng) == x).all()


def test_scattered_peaks_reach_more_half_days() -> None:
    """Of series with few changes, fitted both ways: half days with a value of the top twentieth."""
    real = synthetic_trace("google-v2", workloads=60, seed=5, days=6)

    def half_days(peaks: bool) -> float:
        made = generate(fit_population(real, "mine", peaks=peaks), 60, 1)
        return float(np.mean([_half_days_with_a_peak(made.series(i)[:, 0]) for i in range(60)]))

    assert half_days(True) > half_days(False) + 0.1


def _half_days_with_a_peak(x: np.ndarray) -> float:
    high = x > np.quantile(x, 0.95)
    return float(high[: len(x) // 144 * 144].reshape(-1, 144).any(1).mean())


def test_a_file_opens_as_a_trace_again(content: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    trace = open_trace("synthetic:mine.json(workloads=5,seed=2)")
    assert (len(trace), trace.name, trace.source) == (5, "mine", "synthetic")
    assert trace_hash(trace) == trace_hash(synthetic_trace(tmp_path / "mine.json", 5, seed=2))
    identity = trace_identity(trace, "synthetic:mine.json(workloads=5,seed=2)")
    monkeypatch.chdir("/")
    assert trace_hash(open_trace(*how_to_open(identity))) == identity["hash"]


@pytest.mark.parametrize("machine", [None, "4 cores", {"cpu": 46.0, "mem": None}])
def test_a_population_has_the_machine_of_its_trace(tmp_path: Path, machine: Any) -> None:
    """Also of a CSV, which does not say what 1.0 is, from the command to the environment."""
    rng = np.random.default_rng(0)
    rows = [f"w{w},{s},{u:.3f},{u / 2:.3f}" for w in range(24) for s, u in enumerate(rng.random(300))]
    (tmp_path / "my.csv").write_text("\n".join(["workload_id,slot,cpu,mem", *rows]))
    real = open_trace(str(tmp_path / "my.csv"), 300)
    assert real.reference_machine is None
    source, file = tmp_path / "my.csv", tmp_path / "pop.json"
    if machine is not None:
        source = tmp_path / "folder"
        write_trace(replace(real, reference_machine=machine), source)
    fit_and_judge(PopulationOptions(str(source), file, slot_seconds=300, workloads=20), lambda line: None)
    assert json.loads(file.read_text())["reference_machine"] == machine
    for how, count in (("", 1), ("(workloads=200,seed=2)", 200), ("(workloads=40,replicas=4)", 40)):
        trace = open_trace(f"synthetic:{file}{how}")
        assert len(trace) >= count
        assert trace.reference_machine == machine
        assert len(trace_hash(trace)) > 0
        write_trace(trace, tmp_path / f"again{count}")
        assert open_trace(str(tmp_path / f"again{count}")).reference_machine == machine
    SequenceSampler(trace, Scenario(load=0.3, machines=4))


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


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("resources",), ["cpu", "cpu"], r"resources is \['cpu', 'cpu'\]: must be different names"),
        (("resources",), "cpu", "resources is 'cpu': must be a list of 1 to 2 entries"),
        (("reference_machine",), " ", "reference_machine is ' ': must be a text that is not empty"),
        (("reference_machine",), 4, "reference_machine is 4: must be a text that is not empty"),
        (("slot_seconds",), 300.0, "slot_seconds is 300.0: must be a whole number from 1 to 86400"),
        (("slot_seconds",), 0, "slot_seconds is 0: must be a whole number from 1 to 86400"),
        (("days",), float("nan"), "days is nan: must be a number from 0 to"),
        (("days",), 1e9, "days is 1000000000.0: must be a number from 0 to"),
        (("floor", 1), -0.1, r"floor\[1\] is -0.1: must be a number from 0 to 1e\+06"),
        (("floor",), [0.1], "floor has 1 entries: must have 2"),
        (("kinds",), [], "kinds has 0 entries: must have 1 to"),
        (("kinds", 0, 3), 0.0, r"kinds is .*: as the sum of all shares"),
        (("profiles", 0, 0), [0.0] * 23, r"profiles\[0\]\[0\] has 23 entries: must have 24"),
        (("parameters", 0), "x_level", r"parameters\[0\] is 'x_level': must be the name of a parameter, once"),
        (("tables", "cpu_level", 0), -1.0, r"tables.cpu_level\[0\] is -1.0: must be a number from 0 to 1e\+06"),
        (("tables", "cpu_level", 40), 0.0001, r"tables.cpu_level\[40\] is 0.0001: must be at least the entry before"),
        (("tables", "cpu_level"), 3, "tables.cpu_level is 3: must be a list"),
        (("tables", "cpu_daily", 0), "0", r"tables.cpu_daily\[0\] is '0': must be a number from 0 to 1"),
        (
            ("tables", "duration", 40),
            10**400,
            r"tables.duration\[40\] is 1000+\.\.\.: must be a number from 1 to 500000",
        ),
        (("tables", "kind"), [0.0, 1.0], "tables.kind is .*: must be a table of a parameter"),
        (("tables",), {}, "tables is without duration: must have it"),
        (("copula", 0), 2, r"copula\[0\] is 2: must be a number from -1 to 1"),
        (("copula",), [0.0], "copula has 1 entries: must have"),
        (("groups", "share"), [0], r"groups.share is 0: as the sum of all must be above 0"),
        (("groups", "centre"), [], "groups.centre has 0 entries: must have"),
        (("groups", "spread", 0), None, r"groups.spread\[0\] is None: must be a number"),
        (("within_request",), [1, 1], r"within_request\[0\] is 1: must be true or false"),
        (("sizes", 0), [-1.0], r"sizes\[0\]\[0\] is -1.0: must be a number from 0"),
    ],
)
def test_odd_figures_are_refused_with_field_value_and_limit(
    content: dict, tmp_path: Path, place: tuple[Any, ...], value: Any, said: str
) -> None:
    bad = copy.deepcopy(content)
    _put(bad, place, value)
    if place == ("kinds", 0, 3):
        for row in bad["kinds"]:
            row[3] = 0.0
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    with pytest.raises(InputError, match=rf"bad\.json: {said}"):
        open_trace(f"synthetic:{tmp_path}/bad.json")


def test_any_odd_value_is_refused_or_gives_a_trace(content: dict, tmp_path: Path) -> None:
    rng, file = np.random.default_rng(0), tmp_path / "odd.json"
    odd = [None, True, "", "x", -1, 0, 0.5, 3, 30, 1e9, 1e300, 10**400, float("nan"), float("inf"), [], [1], {}, [[]]]
    refused = 0
    for _ in range(150):
        bad = copy.deepcopy(content) | {"days": 1}
        place, at = [], bad
        while isinstance(at, dict | list) and len(at) and (not place or rng.random() < 0.8):
            place.append(list(at)[rng.integers(len(at))] if isinstance(at, dict) else int(rng.integers(len(at))))
            at = at[place[-1]]
        _put(bad, place, odd[rng.integers(len(odd))])
        file.write_text(json.dumps(bad))
        try:
            assert len(open_trace(f"synthetic:{file}(workloads=2)")) == 2
        except InputError:
            refused += 1
    assert refused > 100


def _put(content: Any, place: Any, value: Any) -> None:
    for key in place[:-1]:
        content = content[key]
    content[place[-1]] = value


@pytest.mark.parametrize("requests", [0.0, 0.5])
def test_requests_and_usage_of_nothing_are_fitted_and_read(requests: float, tmp_path: Path) -> None:
    """Half of the requests are 0, and some workloads never use memory."""
    real = synthetic_trace("google-v2", workloads=40, seed=5, days=2)
    usage, request = real.usage.copy(), np.full_like(real.request, requests)
    usage[: real.offsets[10], 1], request[:20] = 0.0, 0.0
    made = opened(fit_population(replace(real, usage=usage, request=request), "nothing"), tmp_path)
    idle = np.maximum.reduceat(made.usage[:, 1], made.offsets[:-1]) == 0
    assert 0.05 < idle.mean() < 0.5
    assert 0.2 < (made.request == 0).mean() <= 1.0
    assert np.isin(made.request[np.isfinite(made.request)], [0.0, requests]).all()


def test_requests_of_one_resource_alone_are_kept(tmp_path: Path) -> None:
    real = synthetic_trace("google-v2", workloads=40, seed=5, days=2)
    request = np.stack([np.full(40, 0.5), np.full(40, np.nan)], 1)
    made = opened(fit_population(replace(real, request=request), "cores"), tmp_path)
    assert (made.request[:, 0] == 0.5).all()
    assert np.isnan(made.request[:, 1]).all()


def test_figures_that_no_file_can_hold_are_refused_where_they_are_fitted() -> None:
    real = synthetic_trace("google-v2", workloads=40, seed=5, days=2)
    usage = real.usage.copy()
    usage[: real.offsets[10], 1] = 1e-9
    with pytest.raises(InputError, match=r"trace 'google-v2': tables\.mem_request_ratio"):
        fit_population(replace(real, usage=usage, request=np.full_like(real.request, 0.5)), "tiny")


def opened(content: dict, folder: Path) -> Trace:
    """Workloads generated from figures that were written and read again."""
    file = folder / "figures.json"
    file.write_text(json.dumps(content))
    return open_trace(f"synthetic:{file}(workloads=100)")
