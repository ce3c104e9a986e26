"""Fits the forecaster that ships with the package, on traces that may be passed on, and writes its weights."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import tyro

from tvwrl.forecasting import NetworkForecaster, training_windows
from tvwrl.forecasting.pretrained import FILE, describe
from tvwrl.runs import whole_file
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_trace
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.synthetic import POPULATIONS, synthetic_trace

RECORDED = ("google2011", "google2019")  # CC-BY 4.0
SEED = 1000  # of the synthetic populations: other workloads than `open_trace` draws
WORKLOADS = 400


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


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    tyro.cli(main)
