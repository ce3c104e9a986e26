"""DeepRM's learning curve: several seeds from the untrained policy on, by its own reward and by the referee."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from tvwrl.agents.config import PRESETS, TrainConfig
from tvwrl.agents.deeprm.scheduler import DeepRM
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.plotting import COLOURS, DPI, new_figure, tidy
from tvwrl.schedulers import Scheduler, make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.traces import open_trace
from tvwrl.traces.catalogue import trace_identity
from tvwrl.types import SequenceSet

PANELS = {
    "own": "DeepRM's own return per episode (higher is better)",
    "slowdown": "Mean slowdown, on real machines (lower is better)",
    "wait": "Mean wait, slots, on real machines (lower is better)",
}


def main(
    trace: str = "google2011",
    seeds: int = 3,
    iterations: int = PRESETS["deeprm"].iterations,
    out: Path = Path("runs/deeprm-curve"),
    figure: Path = Path("docs/training/deeprm.png"),
) -> None:
    """Train, print the points, draw the figure; `out` is a new folder for the runs."""
    opened, runs = open_trace(trace), []
    problem = Problem.build(opened, PRESETS["deeprm"].scenario)
    for seed in range(seeds):
        config = replace(PRESETS["deeprm"], seed=seed, iterations=iterations)
        runs.append(curve(problem, config, out / f"deeprm-{seed}", trace_identity(opened, trace)))
    validation = problem.sequences("validation", PRESETS["deeprm"].eval_sequences, 0)
    lines = {name: referee(problem, validation, make_scheduler(name)) for name in ("best-fit-peak", "tetris")}
    print(lines)
    draw(runs, lines, figure)


def curve(problem: Problem, config: TrainConfig, folder: Path, identity: dict[str, Any]) -> list[dict[str, float]]:
    """The points of one seed: before the first iteration, and every `eval_every`."""
    trainer = Trainer(problem, config, folder, identity, print)
    validation = problem.sequences("validation", config.eval_sequences, config.seed)
    points = []
    while True:
        own = trainer.evaluate()[0]
        scheduler = DeepRM("deeprm", trainer.checkpoint())
        points.append({"iteration": trainer.iteration, "own": own["reward"]} | referee(problem, validation, scheduler))
        print(config.seed, {name: round(value, 3) for name, value in points[-1].items()}, flush=True)
        if trainer.iteration == config.iterations:
            return points
        trainer.run(config.eval_every)


def referee(problem: Problem, sequences: SequenceSet, scheduler: Scheduler) -> dict[str, float]:
    """Mean slowdown, (finish - arrival) / duration, and mean wait in slots, of episodes on the cluster's machines."""
    runner = Runner(sequences, problem.machines, problem.scenario)
    episodes = [runner.play(scheduler, sequence) for sequence in range(len(sequences))]
    slowdown = [((e.finish - e.arrival) / (e.finish - e.start)).mean() for e in episodes]
    return {"slowdown": float(np.mean(slowdown)), "wait": float(np.mean([e.start - e.arrival for e in episodes]))}


def draw(runs: list[list[dict[str, float]]], lines: dict[str, dict[str, float]], path: Path) -> None:
    """One panel per measure, one line per seed, heuristics as dashes."""
    page = new_figure(13, 3.6)
    for axis, (name, title) in zip(page.subplots(1, 3), PANELS.items(), strict=True):
        for seed, points in enumerate(runs):
            colour = COLOURS[seed % len(COLOURS)]
            axis.plot([p["iteration"] for p in points], [p[name] for p in points], "o-", ms=3, color=colour)
            axis.lines[-1].set_label(f"seed {seed}")
        untrained = float(np.mean([points[0][name] for points in runs]))
        axis.axhline(untrained, color="#555555", linestyle=":", label="untrained")
        for style, (scheduler, values) in zip(("--", "-."), lines.items(), strict=True):
            if name in values:
                axis.axhline(values[name], color="#222222", linestyle=style, lw=1, label=scheduler)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("iteration")
        tidy(axis)
    axis.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.savefig(path, dpi=DPI)


if __name__ == "__main__":
    tyro.cli(main)
