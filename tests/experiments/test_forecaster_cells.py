"""What forecasters that are compared learn from."""

from dataclasses import replace

import numpy as np

from tvwrl.experiments.fit_forecaster_command import OTHERS, POOLED, Comparison
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_trace, write_trace
from tvwrl.traces.sequences import SequenceSampler


def test_no_series_of_validation_or_test_reaches_a_fit(tmp_path):
    """With all that is held out reversed in time, in the trace and in the other, they learn from the same windows."""
    scenario = Scenario(machines=4, workloads=10)
    for name in ("google", "alibaba"):
        trace = open_trace(name).select(np.arange(30))
        write_trace(trace, tmp_path / "first" / name)
        runs = SequenceSampler(trace, scenario).runs
        usage = trace.usage.copy()
        for run in runs["validation"] + runs["test"]:
            own = slice(run.first, run.first + run.rows)
            usage[own] = usage[own][::-1]
        write_trace(replace(trace, usage=usage), tmp_path / "second" / name)
    both = [
        Comparison(
            str(tmp_path / which / "google"), None, (str(tmp_path / which / "alibaba"),), scenario, (0.5,), 2, 40, 0
        )
        for which in ("first", "second")
    ]
    for sources, traces in ((POOLED, 2), (OTHERS, 1)):
        before, after = (one.training(sources) for one in both)
        assert len(before) == len(after) == traces
        for one, other in zip(before, after, strict=True):
            for part in ("demand", "length", "metadata", "clock", "fold", "series"):
                assert np.array_equal(getattr(one, part), getattr(other, part), equal_nan=True)
    assert not np.array_equal(*(one.sampler.windows("test", 3, np.random.default_rng(0))[0].demand for one in both))
