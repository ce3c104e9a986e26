"""Forecasts of demand: what running and waiting workloads will probably need, learnt from others."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "SEGMENTS",
    "Beginnings",
    "Distribution",
    "Forecast",
    "Forecaster",
    "NetworkForecaster",
    "Outcomes",
    "Scores",
    "judged_beginnings",
    "make_forecaster",
    "read_forecaster",
    "score",
    "training_windows",
    "write_forecaster",
]
