"""DeepRM's learning curve: several seeds from the untrained policy on, by its own reward and by the referee."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.agents.config import PRESETS, TrainConfig
from tvwrl.agents.deeprm.scheduler import DeepRM
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import Scheduler, make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.traces import open_trace
from tvwrl.types import SequenceSet

PANELS = {
    "own": "DeepRM's own return per episode (higher is better)",
    "slowdown": "Mean slowdown, on real machines (lower is better)",
    "wait": "Mean wait, slots, on real machines (lower is better)",
}


def main() -> None:
    """Train, print the points, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", default="google2011")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=PRESETS["deeprm"].iterations)
    parser.add_argument("--out", type=Path, default=Path("runs/deeprm-curve"), help="new folder of the runs")
    parser.add_argument("--figure", type=Path, default=Path("docs/training/deeprm.png"))
    arguments = parser.parse_args()
    trace, runs = open_trace(arguments.trace), []
    problem = Problem.build(trace, PRESETS["deeprm"].scenario)
    for seed in range(arguments.seeds):
        config = replace(PRESETS["deeprm"], seed=seed, iterations=arguments.iterations)
        identity = {"argument": arguments.trace, "slot_seconds": None, "name": trace.name, "source": trace.source}
        runs.append(curve(problem, config, arguments.out / f"deeprm-{seed}", identity))
    validation = problem.sequences("validation", PRESETS["deeprm"].eval_sequences, 0)
    lines = {name: referee(problem, validation, make_scheduler(name)) for name in ("best-fit-peak", "tetris")}
    print(lines)
    draw(runs, lines, arguments.figure)


def curve(problem: Problem, config: TrainConfig, folder: Path, identity: dict[str, Any]) -> list[dict[str, float]]:
    """The points of one seed: before the first iteration, and every `eval_every`."""
    from tvwrl.traces import trace_hash

    trainer = Trainer(problem, config, folder, identity | {"hash": trace_hash(problem.trace)}, print)
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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from tvwrl.plotting import COLOURS, DPI

    figure = Figure(figsize=(13, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (name, title) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
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
        axis.grid(color="#DDDDDD", linewidth=0.8)
    axis.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI)


if __name__ == "__main__":
    main()
