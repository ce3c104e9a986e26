"""Fits what ships with the package, on traces that may be passed on: a forecaster's weights, and how demand drifts."""

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
from tvwrl.forecasting.drift import Drift
from tvwrl.forecasting.pretrained import DRIFT_FILE, FILE, digest
from tvwrl.runs import whole_file
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import Windows, open_trace, trace_hash
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


DRIFT_TRACES = ("google2011", "alibaba")  # not google2019, which unseen applications are judged on
DRIFT_ABOUT = (
    "How demand changes after so many slots, counted on the Google cluster-usage trace of 2011 (Reiss, Wilkes, "
    "Hellerstein), which Google publishes under CC-BY 4.0 (https://github.com/google/cluster-data, "
    "https://creativecommons.org/licenses/by/4.0/), and on synthetic workloads. It holds no part of these data."
)


def main(folder: Path = Path("tvwrl/forecasting"), drift_alone: bool = False) -> None:
    """Write the files.

    Args:
        folder: where.
        drift_alone: leave the forecaster as it is.
    """
    write_drift(folder / DRIFT_FILE)
    if not drift_alone:
        write_forecaster(folder / FILE)


def write_drift(out: Path) -> None:
    """Write how demand drifts."""
    traces = [
        synthetic_trace(name, WORKLOADS, SEED) if name in POPULATIONS else open_trace(name) for name in DRIFT_TRACES
    ]
    drawn = [training_windows(SequenceSampler(trace, Scenario())) for trace in traces]
    drift = Drift().fit(*_first_and_others(drawn))
    content = {
        "about": DRIFT_ABOUT,
        "levels": drift.levels,
        "step_seconds": drift.step_seconds,
        "traces": {trace_hash(trace): trace.name for trace in traces},
        "workloads": sorted(digest(name) for trace in traces if trace.source == "real" for name in trace.workload_id),
        "shares": _rounded(drift.shares()),
    }
    with whole_file(out) as partial:
        partial.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


def write_forecaster(out: Path) -> None:
    """Write the forecaster's weights."""
    traces = [open_trace(name) for name in RECORDED]
    traces += [synthetic_trace(name, WORKLOADS, SEED) for name in POPULATIONS]
    drawn = [training_windows(SequenceSampler(trace, Scenario())) for trace in traces]
    started = time.perf_counter()
    forecaster = NetworkForecaster().fit(*_first_and_others(drawn))
    content = describe(forecaster, traces)
    with whole_file(out) as partial:
        partial.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB, fitted in {time.perf_counter() - started:.0f} s")


def describe(forecaster: NetworkForecaster, traces: Sequence[Trace]) -> dict[str, Any]:
    """The file's content: a forecaster that learnt from these traces, without the windows that it learnt from."""
    weights = forecaster.to_dict() | {"learnt": None, "without": {}, "trust": None}
    weights["networks"] = weights["networks"][:1]  # the one that others begin as
    recorded = [trace for trace in traces if trace.source == "real"]
    return {
        "about": ABOUT,
        "resources": list(traces[0].resources),
        "traces": {trace_hash(trace): trace.name for trace in traces},
        "workloads": sorted({digest(name) for trace in recorded for name in trace.workload_id}),
        "forecaster": weights | {name: _rounded(weights[name]) for name in ("shift", "width", "values", "networks")},
    }


def _first_and_others(windows: Sequence[Windows]) -> tuple[Windows, Sequence[Windows]]:
    without = [part.without_folds() for part in windows]  # one fit of all series
    return without[0], without[1:]


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
