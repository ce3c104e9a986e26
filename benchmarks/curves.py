"""Figures of docs/results/training.md: how policies learn in training and online, and how DeepRM does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import tyro

from tvwrl.agents.config import PRESETS, TrainConfig
from tvwrl.agents.deeprm import DeepRM
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.experiments.online_report import online_table, plot_rewards, rewards_by_phase
from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, OTHERS, OURS, WIDTH, new_figure, tidy
from tvwrl.runs import read_csv
from tvwrl.schedulers import Scheduler, make_scheduler
from tvwrl.schedulers.knowledge import knowledge_of
from tvwrl.schedulers.runner import Runner
from tvwrl.schedulers.titles import title_of
from tvwrl.traces import open_trace
from tvwrl.traces.catalogue import trace_identity
from tvwrl.types import Float, InputError, SequenceSet

LINES = ("-", "--", "-.", ":")  # of seeds
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 9}
LAST = 5  # iterations whose mean is what a run came to
HEAD = ("", "seed", "first", f"mean of the last {LAST}", "minutes", "minutes to {share:.0%} of the way")
PANELS = {
    "own": "DeepRM's own return\nof an episode\n(higher is better)",
    "slowdown": "Mean slowdown\non the cluster's machines\n(lower is better)",
    "wait": "Mean wait, slots,\non the cluster's machines\n(lower is better)",
}


def learning(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    share: float = 0.9,
    figure: Path = Path("curves.png"),
) -> None:
    """Reward of the training episodes against minutes, and when most of the way is done.

    A panel for each trace and what its agents know, a line for each of its runs. Actions of training episodes are
    drawn, so curves lie below what a policy is evaluated at. Minutes count from the end of the first iteration's
    episodes on.

    Args:
        runs: folders of tvwrl train, or the training/ of cells of tvwrl reproduce.
        share: of the way from the first iteration to the last ones.
        figure: where it is drawn.
    """
    curves: dict[str, dict[str, Float]] = {}
    for run in runs:
        facts = json.loads((run / "run.json").read_text())
        config = TrainConfig.from_dict(facts["config"])
        name = f"{facts['trace']['name']}\n({knowledge_of(config.scenario).group})"
        curves.setdefault(name, {})[str(config.seed)] = logged_rewards(run)
    rows = []
    for name, seeds in curves.items():
        for seed, points in seeds.items():
            minutes, reward = points.T
            final = reward[-LAST:].mean()
            reached = minutes[np.argmax(reward >= reward[0] + share * (final - reward[0]))]
            values = (f"{reward[0] / 1000:.0f}", f"{final / 1000:.0f}", f"{minutes[-1]:.1f}", f"{reached:.1f}")
            rows.append([name.replace("\n", " "), seed, *values])
    print(markdown_table([title.format(share=share) for title in HEAD], rows))
    draw_learning(curves, figure)


def draw_learning(curves: Mapping[str, Mapping[str, Float]], figure: Path) -> None:
    """A panel for each name, at most three side by side, with a line for each seed."""
    across = min(3, len(curves))
    down = -(-len(curves) // across)
    page = new_figure(WIDTH, 2.8 * down + 0.4)
    axes = page.subplots(down, across, squeeze=False)
    for axis, (name, seeds) in zip(axes.ravel(), curves.items(), strict=False):
        for number, points in enumerate(seeds.values()):
            axis.plot(points[:, 0], points[:, 1] / 1000, LINES[number % len(LINES)], color=OURS, lw=1.5)
        axis.set_title("\n".join(fill(part, 28) for part in name.split("\n")), fontsize=9.5)
        finish(axis, "minutes of training")
    for axis in axes[:, 0]:
        axis.set_ylabel("reward of a training episode,\nthousands (higher is better)", fontsize=9.5)
    for axis in axes.ravel()[len(curves) :]:
        axis.set_visible(False)
    seeds = list(dict.fromkeys(seed for one in curves.values() for seed in one))
    page.legend(axes[0, 0].lines, [f"seed {seed}" for seed in seeds], loc="outside lower center", ncols=5, **LEGEND)
    save(page, figure)


def logged_rewards(run: Path) -> Float:
    """(iterations, 2): minutes and mean reward of an iteration's episodes, from the TensorBoard log."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(run / "tensorboard"), {"scalars": 0})
    log.Reload()
    if "train/reward" not in log.Tags()["scalars"]:
        raise InputError(f"{run}: holds no training (tensorboard/ without train/reward)")
    events = log.Scalars("train/reward")
    return np.array([((event.wall_time - events[0].wall_time) / 60, event.value) for event in events])


def online(
    runs: tyro.conf.Positional[tuple[Path, ...]], figure: Path = Path("docs/results/training/online.png")
) -> None:
    """A table and a figure of runs that differ in their seed alone.

    Args:
        runs: folders of tvwrl learn-online.
        figure: where it is drawn.
    """
    rewards = rewards_by_phase([read_csv(run / "rows.csv") for run in runs])
    phases = json.loads((runs[0] / "run.json").read_text())["phases"]
    names = [f"{phase['trace']['name']}, load {phase['load']:g}" for phase in phases]
    print(online_table(rewards, names))
    plot_rewards(rewards, names, figure)


def deeprm(
    trace: str = "google2011",
    seeds: int = 3,
    iterations: int = PRESETS["deeprm"].iterations,
    out: Path = Path("runs/deeprm-curve"),
    figure: Path = Path("docs/results/training/deeprm.png"),
) -> None:
    """Train DeepRM with several seeds; measure it before the first iteration and now and then, also by the referee.

    Args:
        trace: name or path.
        seeds: how many.
        iterations: of each training.
        out: new folder for the runs.
        figure: where it is drawn.
    """
    opened, runs = open_trace(trace), []
    problem = Problem.build(opened, PRESETS["deeprm"].scenario)
    for seed in range(seeds):
        config = replace(PRESETS["deeprm"], seed=seed, iterations=iterations)
        runs.append(deeprm_points(problem, config, out / f"deeprm-{seed}", trace_identity(opened, trace)))
    validation = problem.sequences("validation", PRESETS["deeprm"].eval_sequences, 0)
    lines = {name: referee(problem, validation, make_scheduler(name)) for name in ("best-fit-peak", "tetris")}
    print(lines)
    draw_deeprm(runs, lines, figure)


def deeprm_points(
    problem: Problem, config: TrainConfig, folder: Path, identity: dict[str, Any]
) -> list[dict[str, float]]:
    """The points of one seed: before the first iteration, and every `eval_every`."""
    trainer = Trainer(problem, config, folder, identity, print)
    validation = problem.sequences("validation", config.eval_sequences, config.seed)
    points = []
    while True:
        own = trainer.evaluate()
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


def draw_deeprm(runs: list[list[dict[str, float]]], lines: dict[str, dict[str, float]], figure: Path) -> None:
    """One panel per measure, one line per seed, heuristics as horizontal lines."""
    page = new_figure(WIDTH, 3.5)
    for axis, (name, title) in zip(page.subplots(1, 3), PANELS.items(), strict=True):
        for seed, points in enumerate(runs):
            line, shown = LINES[seed % len(LINES)], [p[name] for p in points]
            axis.plot([p["iteration"] for p in points], shown, line, color=OURS, lw=1.5, label=f"DeepRM, seed {seed}")
        for colour, (scheduler, values) in zip((OTHERS, COLOURS[0]), lines.items(), strict=True):
            if name in values:
                axis.axhline(values[name], color=colour, lw=1.5, ls=(0, (1, 1)), label=title_of(scheduler))
        axis.set_title(title, fontsize=10)
        finish(axis, "iteration")
    page.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, **LEGEND)
    save(page, figure)


def finish(axis: Any, across: str) -> None:
    """Labels that can be read, few ticks, a faint grid."""
    axis.set_xlabel(across, fontsize=9.5)
    axis.locator_params(nbins=5)
    axis.tick_params(labelsize=9)
    tidy(axis)


def save(page: Any, figure: Path) -> None:
    """Write the picture."""
    figure.parent.mkdir(parents=True, exist_ok=True)
    page.savefig(figure, dpi=DPI)


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"learning": learning, "online": online, "deeprm": deeprm})
