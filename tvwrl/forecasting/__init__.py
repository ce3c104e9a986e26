"""Forecasts of demand: what running and waiting workloads will probably need, learnt from others."""

from tvwrl.forecasting.base import Forecaster, training_windows
from tvwrl.forecasting.beginnings import Beginnings, Outcomes
from tvwrl.forecasting.network import NetworkForecaster
from tvwrl.forecasting.segments import SEGMENTS, Distribution, Forecast

__all__ = [
    "SEGMENTS",
    "Beginnings",
    "Distribution",
    "Forecast",
    "Forecaster",
    "NetworkForecaster",
    "Outcomes",
    "training_windows",
]
