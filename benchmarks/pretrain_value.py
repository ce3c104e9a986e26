"""Learns the value of machines that ships with the package, on traces that may be passed on, and writes its weights."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tyro

from tvwrl import Scenario, open_trace
from tvwrl.agents import ValueSettings, learn_value
from tvwrl.envs import Problem
from tvwrl.schedulers.moving.machine_value import FILE

RECORDED = ("google2011", "google2019")  # CC-BY 4.0
LOADS, PRICES = (0.3, 0.5, 0.8), (300.0, 1000.0, 3000.0)
SETTINGS = ValueSettings(
    sequences=720, validation=180, generations=1, gammas=(0.9,), risks=(1.0, 1.6), thresholds=(0.7, 1.0, 1.5)
)
ABOUT = (
    "What a machine is expected to cost, learnt by playing on the Google cluster-usage traces of 2011 (Reiss, Wilkes, "
    "Hellerstein) and of 2019 (Wilkes and others), which Google publishes under CC-BY 4.0 "
    "(https://github.com/google/cluster-data, https://creativecommons.org/licenses/by/4.0/). It holds no part of these "
    "data."
)


def main(out: Path = Path("tvwrl/schedulers/moving") / FILE, traces: Sequence[str] = RECORDED, seed: int = 0) -> None:
    """Write the file.

    Args:
        out: where.
        traces: to learn from.
        seed: of all that is drawn.
    """
    started, problems = time.perf_counter(), []
    for name in traces:
        problem = Problem.build(open_trace(name), Scenario(moves_per_slot=2)).with_forecasts()
        problems += [problem.at_load(load).at_price(price) for load in LOADS for price in PRICES]
    value = learn_value(problems, replace(SETTINGS, seed=seed), print)
    replace(value, facts=dict(value.facts) | {"about": ABOUT}).save(out)
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB, learnt in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    tyro.cli(main)
