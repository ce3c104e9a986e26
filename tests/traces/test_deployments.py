"""Pods of generated applications: replicas that restart one after the other, and are alike."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import fit_population, open_trace, synthetic_trace, trace_hash
from tvwrl.traces.deployments import _lives, _weekly, deployments_trace
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.types import InputError, Trace

DAY = 288  # slots


@pytest.fixture(scope="module")
def trace() -> Trace:
    return deployments_trace(workloads=120, replicas=4, seed=1)


def test_the_name_says_how_many(trace: Trace) -> None:
    again = open_trace("synthetic:google-v2(workloads=120,seed=1,replicas=4)")
    assert trace_hash(again) == trace_hash(trace)
    assert (len(trace), trace.source, trace.slot_seconds) == (120, "synthetic", 300)
    assert trace_hash(deployments_trace(workloads=120, replicas=4, seed=2)) != trace_hash(trace)


def test_pods_of_an_application_return_and_are_alike(trace: Trace) -> None:
    names, place, count = np.unique(trace.application.astype(str), return_inverse=True, return_counts=True)
    assert 3 <= len(names) <= 30
    assert count.max() >= 8
    first = trace.slot[trace.offsets[:-1]]
    assert (first == trace.arrival).all()
    assert (first > 0).mean() > 0.5
    level = np.log([trace.series(i).mean(axis=0) for i in range(len(trace))])
    within = np.concatenate([level[place == i] - level[place == i].mean(axis=0) for i in range(len(names))])
    assert (within.std(axis=0) < 0.5 * level.std(axis=0)).all()
    assert (trace.usage >= 0).all()
    assert (trace.slot < 14 * DAY).all()


@pytest.mark.parametrize("seed", range(20))
def test_lives_of_a_replica_follow_one_another(seed: int) -> None:
    lives = _lives(14 * DAY, 300, np.random.default_rng(seed))
    assert all(end - begin >= min(72, 14 * DAY - begin) for begin, end in lives)
    assert all(before[1] <= after[0] for before, after in pairwise(lives))
    assert all(0 <= begin < end <= 14 * DAY for begin, end in lives)


def test_some_use_less_on_two_days_of_seven() -> None:
    weeks = [_weekly(14 * DAY, DAY, np.random.default_rng(seed)).reshape(2, 7, DAY) for seed in range(40)]
    assert all((week[:, :5] == 1).all() and (week[0] == week[1]).all() for week in weeks)
    quiet = [week[0, 6, 0] for week in weeks]
    assert min(quiet) >= 0.3
    assert 0.2 < np.mean(np.array(quiet) < 1) < 0.8


@pytest.mark.parametrize("by", ["placements", "time", "applications", "workloads"])
def test_it_can_be_split(trace: Trace, by: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        sampler = SequenceSampler(trace, Scenario(machines=4, workloads=12, split=by, own_past=True))
    told = sampler.stacked(sampler.windows("test", 60, np.random.default_rng(0)), "test").told
    assert told.mean() > 0.5


def test_limits() -> None:
    with pytest.raises(InputError, match="replicas is 0"):
        open_trace("synthetic:google-v2(replicas=0)")
    with pytest.raises(InputError, match=r"days is 0\.5"):
        deployments_trace(days=0.5)
    with pytest.raises(InputError, match="population"):
        deployments_trace("nowhere")


def test_what_gives_no_pods_is_refused(tmp_path: Path) -> None:
    """More replicas than pods, and a day that is one slot, in which no pod can live."""
    with pytest.raises(InputError, match="replicas is 20: must be at most workloads, 10"):
        deployments_trace(workloads=10, replicas=20)
    file = tmp_path / "daily.json"
    file.write_text(
        json.dumps(fit_population(synthetic_trace("google-v2", 30, days=2), "x") | {"slot_seconds": 86_400})
    )
    with pytest.raises(InputError, match="two slots of 86400 s"):
        deployments_trace(file, workloads=4, replicas=2, days=1)
