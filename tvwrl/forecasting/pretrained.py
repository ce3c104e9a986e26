"""The forecaster that ships with the package: weights alone, fitted on traces that may be passed on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
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
DIGITS = 5  # of a weight
FEW_SERIES = 100  # a trace of so many training series or more learns better from its own alone
ABOUT = (
    "Weights of a network that forecasts demand. It was fitted on the Google cluster-usage traces of 2011 (Reiss, "
    "Wilkes, Hellerstein) and of 2019 (Wilkes and others), which Google publishes under CC-BY 4.0 "
    "(https://github.com/google/cluster-data, https://creativecommons.org/licenses/by/4.0/), and on synthetic "
    "workloads. It holds no part of these data."
)


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
    return start if matches and not _knows(content, trace) else None


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


def describe(forecaster: NetworkForecaster, traces: Sequence[Trace]) -> dict[str, Any]:
    """The file's content: a forecaster that learnt from these traces, without the windows that it learnt from."""
    weights = forecaster.to_dict() | {"learnt": None, "without": {}}
    weights["networks"] = weights["networks"][:1]  # the one that others begin as
    recorded = [trace for trace in traces if trace.source == "real"]
    return {
        "about": ABOUT,
        "resources": list(traces[0].resources),
        "traces": {trace_hash(trace): trace.name for trace in traces},
        "workloads": sorted({_digest(name) for trace in recorded for name in trace.workload_id}),
        "forecaster": weights | {name: _rounded(weights[name]) for name in ("shift", "width", "values", "networks")},
    }


def _knows(content: dict[str, Any], trace: Trace) -> bool:
    """Whether it learnt from the trace, or from the same recorded workloads, however they were prepared."""
    if trace.source == "real" and not {_digest(name) for name in trace.workload_id}.isdisjoint(content["workloads"]):
        return True
    return trace_hash(trace) in content["traces"]


def _digest(workload: str) -> str:
    return hashlib.sha256(workload.encode()).hexdigest()[:12]


def _rounded(value: Any) -> Any:
    """The numbers of nested lists and mappings with `DIGITS` significant digits."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(np.format_float_positional(value, DIGITS, unique=False, fractional=False))


@lru_cache(maxsize=1)
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files("tvwrl.forecasting").joinpath(FILE).read_text("utf-8"))
    return content
