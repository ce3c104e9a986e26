"""Every forecaster by name, as commands offer them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvwrl.checks import one_of
from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.baselines import (
    Analogues,
    BoostedTrees,
    LastValue,
    MeanAndDeviation,
    Percentiles,
    SameHourYesterday,
)
from tvwrl.forecasting.network import NetworkForecaster

FORECASTERS: dict[str, Callable[..., Forecaster]] = {
    "network": NetworkForecaster,
    "last-value": LastValue,
    "normal-2h": partial(MeanAndDeviation, hours=2.0),
    "normal-day": partial(MeanAndDeviation, hours=24.0),
    "percentiles": Percentiles,
    "yesterday": SameHourYesterday,
    "analogues": Analogues,
    "boosting": BoostedTrees,
}
REFERENCE = "last-value"  # skills are measured against it


def make_forecaster(name: str, peak_units: int, step_seconds: int, random_state: int = 0) -> Forecaster:
    """An unfitted forecaster by `name`, for demand of up to `peak_units` units in slots of `step_seconds`;
    `random_state` is the seed of what it draws. Raises InputError, listing the names, for one that is not
    registered."""
    one_of(FORECASTERS, forecaster=name)
    return FORECASTERS[name](peak_units=peak_units, step_seconds=step_seconds, random_state=random_state)
