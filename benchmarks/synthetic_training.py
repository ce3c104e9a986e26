"""Train on synthetic workloads, test on recorded ones: what policies and forecasters of a fitted population are worth.

Per seed a trace is split into series for training and testing at random. A population is fitted to those that are not
for testing, and a policy with its classes and forecaster is trained on workloads of it, another on the recorded ones.
All play the same test sequences of the trace.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import tyro

from tvwrl.agents import PRESETS, PolicyScheduler, Trainer
from tvwrl.envs import Problem
from tvwrl.experiments.population_command import renamed
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.forecasting import NetworkForecaster, training_windows
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.traces import SequenceSampler, fit_population, generate, open_trace
from tvwrl.types import Trace

RULES = ("expected-cost", "forecast-fit")  # that decide by the forecaster


def main(
    trace: str = "google2011",
    seeds: int = 3,
    iterations: int = 10,
    load: float = 0.5,
    workloads: int = 400,
    sequences: int = 40,
    groups: int | None = None,
    peaks: bool = False,
) -> None:
    """Print a table, a row for the policy and for each rule that decides by forecasts.

    Args:
        trace: name of a prepared trace.
        seeds: splits, and trainings of each of the two policies.
        iterations: of each training; 0 leaves the policies out.
        load: offered load.
        workloads: of the population.
        sequences: test sequences of each seed.
        groups: of the population, as of tvwrl population.
        peaks: of the population, as of tvwrl population.
    """
    preset = PRESETS["counterfactual"]
    scenario = replace(preset.scenario, load=load)
    config = replace(
        preset, scenario=scenario, iterations=iterations, train_sequences=30 * max(iterations, 1), eval_sequences=40,
        comparison_sequences=40,
    )  # fmt: skip
    found: dict[str, list[np.ndarray]] = defaultdict(list)
    for seed in range(seeds):
        real = renamed(open_trace(trace), seed)
        recorded = problem_of(real, load)
        known = sorted({run.workload for split in ("train", "validation") for run in recorded.sampler.runs[split]})
        figures = fit_population(real.select(np.array(known)), "population", groups, peaks)
        for what, own in ("trace", recorded), ("population", problem_of(generate(figures, workloads, seed), load)):
            judged = Problem.build(real, scenario, own.classes, recorded.sampler.unit, own.forecaster)
            runner = Runner(judged.sequences("test", sequences, 1), judged.machines, judged.scenario)
            schedulers = [make_scheduler(name) for name in RULES]
            if iterations:
                with tempfile.TemporaryDirectory() as folder:
                    trainer = Trainer(own, replace(config, seed=seed), Path(folder), {"name": what}, lambda _: None)
                    trainer.run()
                    schedulers.append(PolicyScheduler("policy", trainer.checkpoint()))
            for scheduler in schedulers:
                rewards = judged.rewards(runner, scheduler) / 1000
                found[f"{scheduler.name} {what}"].append(rewards)
                print(seed, what, scheduler.name, f"{rewards.mean():.1f}", flush=True)
    lines = []
    for name in (*RULES, "policy") if iterations else RULES:
        rows, truth = found[f"{name} population"], found[f"{name} trace"]
        per_cent = 100 / np.concatenate(truth).mean()  # rewards are negative: + is worse
        gap, low, high = (per_cent * v for v in paired_bootstrap(np.concatenate(rows), np.concatenate(truth)))
        each = ", ".join(f"{100 * (a.mean() / b.mean() - 1):+.1f}" for a, b in zip(rows, truth, strict=True))
        means = [f"{np.concatenate(x).mean():.1f}" for x in (truth, rows)]
        lines.append([name, *means, f"{gap:+.1f} %", f"[{min(low, high):+.1f}, {max(low, high):+.1f}]", each])
    print(markdown_table(["scheduler", "trace", "population", "difference", "95 % interval", "by split"], lines))


def problem_of(trace: Trace, load: float) -> Problem:
    """The trace as training sees it; its forecaster starts from nothing, as a shipped one may know the trace."""
    scenario = replace(PRESETS["counterfactual"].scenario, load=load)
    made = NetworkForecaster(scenario.peak_units, scenario.step_seconds)
    forecaster = made.fit(training_windows(SequenceSampler(trace, scenario)))
    return Problem.build(trace, scenario, forecaster=forecaster)


if __name__ == "__main__":
    tyro.cli(main)
