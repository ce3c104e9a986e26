"""Fits the forecaster that ships with the package, on traces that may be passed on, and writes its weights."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from tvwrl.forecasting import NetworkForecaster, training_windows
from tvwrl.forecasting.pretrained import FILE, digest
from tvwrl.runs import whole_file
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_trace, trace_hash
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.synthetic import POPULATIONS, synthetic_trace
from tvwrl.types import Trace

RECORDED = ("google2011", "google2019")  # CC-BY 4.0
SEED = 1000  # of the synthetic populations: other workloads than `open_trace` draws
WORKLOADS = 400
DIGITS = 5  # of a weight
ABOUT = (
    "Weights of a network that forecasts demand. It was fitted on the Google cluster-usage traces of 2011 (Reiss, "
    "Wilkes, Hellerstein) and of 2019 (Wilkes and others), which Google publishes under CC-BY 4.0 "
    "(https://github.com/google/cluster-data, https://creativecommons.org/licenses/by/4.0/), and on synthetic "
    "workloads. It holds no part of these data."
)


def main(out: Path = Path("tvwrl/forecasting") / FILE) -> None:
    """Write the file.

    Args:
        out: where.
    """
    traces = [open_trace(name) for name in RECORDED]
    traces += [synthetic_trace(name, WORKLOADS, SEED) for name in POPULATIONS]
    drawn = [training_windows(SequenceSampler(trace, Scenario())) for trace in traces]
    windows = [part.without_folds() for part in drawn]  # one network of all series
    started = time.perf_counter()
    forecaster = NetworkForecaster().fit(windows[0], windows[1:])
    content = describe(forecaster, traces)
    with whole_file(out) as partial:
        partial.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB, fitted in {time.perf_counter() - started:.0f} s")


def describe(forecaster: NetworkForecaster, traces: Sequence[Trace]) -> dict[str, Any]:
    """The file's content: a forecaster that learnt from these traces, without the windows that it learnt from."""
    weights = forecaster.to_dict() | {"learnt": None, "without": {}}
    weights["networks"] = weights["networks"][:1]  # the one that others begin as
    recorded = [trace for trace in traces if trace.source == "real"]
    return {
        "about": ABOUT,
        "resources": list(traces[0].resources),
        "traces": {trace_hash(trace): trace.name for trace in traces},
        "workloads": sorted({digest(name) for trace in recorded for name in trace.workload_id}),
        "forecaster": weights | {name: _rounded(weights[name]) for name in ("shift", "width", "values", "networks")},
    }


def _rounded(value: Any) -> Any:
    """The numbers of nested lists and mappings with `DIGITS` significant digits."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(np.format_float_positional(value, DIGITS, unique=False, fractional=False))


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    tyro.cli(main)
