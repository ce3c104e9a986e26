"""What ships with the package: a forecaster, weights alone, and how demand drifts; of traces that may be passed on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from tvwrl.forecasting.network import NetworkForecaster
from tvwrl.progress import Report, nothing
from tvwrl.traces import UNSEEN, Windows, trace_hash
from tvwrl.types import Trace

FILE, DRIFT_FILE = "pretrained.json", "drift.json"  # benchmarks/pretrain_forecaster.py writes them
FEW_SERIES = 100  # a trace of so many training series or more learns better from its own alone


def shipped_forecaster() -> NetworkForecaster:
    """The one that ships with the package, with weights alone: it predicts, and cannot sample."""
    return NetworkForecaster.from_dict(_content(FILE)["forecaster"])


def start_for(trace: Trace, forecaster: NetworkForecaster) -> NetworkForecaster | None:
    """What `forecaster` may start from on a trace; None if the shipped one does not match it or knows the trace.

    It knows a trace if it learnt from a recorded workload with the name of one of its workloads, or from the whole
    trace. It has weights alone, and cannot sample.
    """
    content = _content(FILE)
    start = shipped_forecaster()
    matches = list(trace.resources) == content["resources"] and not forecaster.differences(start, len(trace.resources))
    return start if matches and not _knows(content, trace) else None


def prior_for(trace: Trace, forecaster: NetworkForecaster) -> dict[str, Any] | None:
    """How demand drifts elsewhere, as of `Drift.shares`; None where that does not match, or knows the trace."""
    content = _content(DRIFT_FILE)
    matches = all(getattr(forecaster, name) == content[name] for name in ("levels", "step_seconds"))
    return content["shares"] if matches and not _knows(content, trace) else None


def _knows(content: dict[str, Any], trace: Trace) -> bool:
    """Whether what ships learnt from a trace, or from a recorded workload with the name of one of its workloads."""
    recorded = {digest(name) for name in trace.workload_id} if trace.source == "real" else set()
    return trace_hash(trace) in content["traces"] or not recorded.isdisjoint(content["workloads"])


def fit_or_adapt(
    forecaster: NetworkForecaster, windows: Windows, trace: Trace, report: Report = nothing
) -> NetworkForecaster:
    """`forecaster` fitted on windows (n,) of a trace, from nothing or, if its series are few, from the shipped one.

    The one with the lower error on held-out folds is kept. Without folds they cannot be compared, and the forecaster
    starts from the shipped one where it may. `report` gets a line as each step begins.
    """
    prior = prior_for(trace, forecaster)
    fitted = forecaster.fit(windows, report=report, prior=prior)
    start = start_for(trace, forecaster) if len(np.unique(windows.series)) < FEW_SERIES else None
    if start is None:
        return fitted
    report("adapting the shipped forecaster, as this trace has few series")
    adapted = replace(forecaster).fit(windows, report=report, start=start, prior=prior)
    if (windows.fold == UNSEEN).all():
        return adapted
    return min(fitted, adapted, key=NetworkForecaster.unseen_error)


def digest(workload: str) -> str:
    """What the file keeps of the name of a workload that the forecaster learnt from."""
    return hashlib.sha256(workload.encode()).hexdigest()[:12]


@lru_cache(maxsize=2)
def _content(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files("tvwrl.forecasting").joinpath(name).read_text("utf-8"))
    return content
