"""The forecaster that ships with the package: weights alone, fitted on traces that may be passed on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from tvwrl.forecasting.beginnings import Outcomes
from tvwrl.forecasting.network import NetworkForecaster
from tvwrl.forecasting.scores import ranked_probability
from tvwrl.progress import Report, nothing
from tvwrl.traces import UNSEEN, Windows, trace_hash
from tvwrl.types import Trace

FILE = "pretrained.json"  # benchmarks/pretrain_forecaster.py writes it
FEW_SERIES = 100  # a trace of so many training series or more learns better from its own alone


def shipped_forecaster() -> NetworkForecaster:
    """The one that ships with the package, with weights alone: it predicts, and cannot sample."""
    return NetworkForecaster.from_dict(_content()["forecaster"])


def start_for(trace: Trace, forecaster: NetworkForecaster) -> NetworkForecaster | None:
    """What `forecaster` may start from on a trace; None if the shipped one does not match it or knows the trace.

    It knows a trace if it learnt from a recorded workload with the name of one of its workloads, or from the whole
    trace. It has weights alone, and cannot sample.
    """
    content = _content()
    start = shipped_forecaster()
    matches = list(trace.resources) == content["resources"] and not forecaster.differences(start, len(trace.resources))
    recorded = {digest(name) for name in trace.workload_id} if trace.source == "real" else set()
    knows = trace_hash(trace) in content["traces"] or not recorded.isdisjoint(content["workloads"])
    return start if matches and not knows else None


def fit_or_adapt(
    forecaster: NetworkForecaster, windows: Windows, trace: Trace, report: Report = nothing
) -> NetworkForecaster:
    """`forecaster` fitted on windows (n,) of a trace, from nothing or, if its series are few, from the shipped one.

    The one with the lower error on held-out folds is kept. Without folds they cannot be compared, and the forecaster
    starts from the shipped one where it may. `report` gets a line as each step begins.
    """
    fitted = forecaster.fit(windows, report=report)
    start = start_for(trace, forecaster) if len(np.unique(windows.series)) < FEW_SERIES else None
    if start is None:
        return fitted
    report("adapting the shipped forecaster, as this trace has few series")
    adapted = replace(forecaster).fit(windows, report=report, start=start)
    if (windows.fold == UNSEEN).all():
        return adapted
    return min(fitted, adapted, key=unseen_error)


def unseen_error(fitted: NetworkForecaster) -> float:
    """Mean CRPS, as a share of the peak, on the beginnings that it learnt from, each forecast without its fold."""
    beginnings = fitted.learnt
    level, _ = Outcomes.of(beginnings).levels(fitted.levels, fitted.peak_units)
    return float(ranked_probability(fitted.predict(beginnings).most.astype(np.float64), level).mean())


def digest(workload: str) -> str:
    """What the file keeps of the name of a workload that the forecaster learnt from."""
    return hashlib.sha256(workload.encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files("tvwrl.forecasting").joinpath(FILE).read_text("utf-8"))
    return content
