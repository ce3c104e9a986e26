"""Targets at their edges: an interval that holds 0 is no lead, and half of the gap is half."""

import numpy as np
import pytest

from tvwrl.experiments.results.targets import AGENT, targets
from tvwrl.experiments.statistics import crossed_estimate
from tvwrl.schedulers import GROUPS

PEAK, FORECASTS, FUTURE = GROUPS[1], GROUPS[2], GROUPS[3]
KNOWLEDGE = {"best-fit-peak": PEAK, "forecast-fit": FORECASTS, "clairvoyant": FUTURE, AGENT: FORECASTS}


def measured(**rewards):
    """Measures of schedulers with these rewards on two sequences; the agent's are `agent`'s."""
    flat = {"overshoot_pct": 0.0, "machines_used": 5.0, "unplaced": 0.0}
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
    assert [one.met for one in found[:2]] == [met, met]
    assert found[0].evidence.startswith("least: " if met else "not significantly: ")


@pytest.mark.parametrize(("ours", "met"), [(-50.0, True), (-49.0, True), (-51.0, False)])
def test_half_of_the_gap(ours, met):
    others = {"best_fit_peak": (-100.0, -100.0), "clairvoyant": (0.0, 0.0)}
    assert targets(measured(**others, agent=(ours, ours)), KNOWLEDGE, 0.5)[4].met is met
