"""Targets at their edges: an interval that holds 0 is no lead, and a share that is reached is reached."""

import numpy as np
import pytest

from tvwrl.experiments.results.targets import AGENT, targets
from tvwrl.experiments.statistics import crossed_estimate
from tvwrl.schedulers.knowledge import FORECASTS, FORECASTS_AND_PEAKS, FUTURE, PEAKS

KNOWLEDGE = {"best-fit-peak": PEAKS.group, "forecast-fit": FORECASTS.group, "clairvoyant": FUTURE.group}
KNOWLEDGE |= {AGENT: FORECASTS_AND_PEAKS.group}


def measured(**rewards):
    """Measures of schedulers with these rewards on two sequences; the agent's are `agent`'s."""
    flat = {"overshoot_pct": 0.0, "wait_mean": 1.0, "unplaced": 0.0}
    return {
        name.replace("_", "-"): {"reward": crossed_estimate(np.array([values], float))}
        | {column: crossed_estimate(np.full((1, 2), value)) for column, value in flat.items()}
        for name, values in rewards.items()
    }


@pytest.mark.parametrize(("ours", "met"), [((-90.0, -99.0), True), ((-60.0, -101.0), False), ((-100.0, -100.0), False)])
def test_above_is_significantly_above(ours, met):
    """Against -100 on both: ahead of it on both, ahead of it in the mean alone, and equal."""
    others = {"forecast_fit": (-100.0, -100.0), "best_fit_peak": (-100.0, -100.0), "clairvoyant": (0.0, 0.0)}
    found = targets(measured(**others, agent=ours), KNOWLEDGE, 0.5)
    assert found[0].met is met
    assert found[0].evidence.startswith("smallest lead: " if met else "not significantly: ")


@pytest.mark.parametrize(("ours", "met"), [(-60.0, True), (-59.0, True), (-61.0, False)])
def test_two_fifths_of_the_gap(ours, met):
    others = {"best_fit_peak": (-100.0, -100.0), "clairvoyant": (0.0, 0.0)}
    assert targets(measured(**others, agent=(ours, ours)), KNOWLEDGE, 0.5)[4].met is met
