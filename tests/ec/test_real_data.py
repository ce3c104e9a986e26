"""Classes of a recorded trace: what the forecaster is worth there, and that classes are neither trivial nor leaky."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tvwrl.ec import EquivalenceClasses, Population, population_of
from tvwrl.ec.classifier import report_classifier
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import read_trace
from tvwrl.traces.loaders import LOADERS
from tvwrl.traces.preparation.prepare import prepare
from tvwrl.traces.preparation.series import SeriesRules
from tvwrl.traces.sequences import SequenceSampler

REAL_DATA = Path(os.environ.get("TVWRL_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.slow,
    pytest.mark.skipif(not REAL_DATA.is_dir(), reason=f"no folder of real traces at {REAL_DATA}"),
]


@pytest.fixture(scope="module")
def google2011(tmp_path_factory: pytest.TempPathFactory) -> Population:
    folder = tmp_path_factory.mktemp("real") / "google2011"
    loader = LOADERS["google2011"]()
    prepare(loader, str(REAL_DATA / "google2011"), folder, SeriesRules(loader.slot_seconds), plots=False)
    trace = read_trace(folder)
    sampler = SequenceSampler(trace, Scenario())
    population = population_of(sampler)
    others = [run.workload for split in ("validation", "test") for run in sampler.runs[split]]
    assert not set(population.workload_id) & set(trace.workload_id[others])
    return population


def test_the_forecaster_beats_plain_rules(google2011: Population) -> None:
    from tvwrl.ec.prediction_gain import agnostic_forecast
    from tvwrl.forecasting.lstnet import ForecastSettings

    judged = agnostic_forecast(google2011.series, google2011.slots_per_day, ForecastSettings(steps=100, folds=2))
    mean = np.nanmean(judged.correlation)
    assert mean > np.nanmean(judged.last_value) + 0.01
    assert mean > np.nanmean(judged.seasonal) + 0.1


def test_classes_can_be_told_at_run_time(google2011: Population) -> None:
    classes = EquivalenceClasses("dtw", n_init=5)
    classes.cluster(google2011)
    assert 3 <= classes.k <= 15
    assert np.bincount(classes.labels_)[1:].min() >= 2
    report = report_classifier(google2011, classes.labels_)
    assert report is not None
    assert report.accuracy[-2].mean > report.accuracy[0].mean  # two days of usage tell more than metadata alone
    assert report.advantage.low > 0.1
