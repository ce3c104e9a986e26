"""What each insight of docs/tutorials/bring-an-agent.md brings: examples/ppo.py with more and more of them switched on.

Prints a table and draws a figure. Results of trainings are kept in a folder; an interrupted run goes on where it was.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from tvwrl.benchmark.tasks import find_task, problem_of
from tvwrl.envs import PlacementVectorEnv, VectorObserved
from tvwrl.experiments import Estimate
from tvwrl.experiments.statistics import crossed_estimate, with_interval
from tvwrl.markdown import markdown_table
from tvwrl.plotting import DPI, OURS, new_figure, scale_logarithmically, tidy
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.schedulers.titles import title_of
from tvwrl.types import Float

EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "ppo.py"))
RULES = ("random", "spread", "expected-cost", "best-fit-peak")
FIRST = "as one would first write it"
INSIGHTS = {  # each and how it is switched off, in the order in which they are added
    "may not wait": {"hold": "discounted"},
    "looks 20 placements ahead, not 100": {"gamma": 0.99},
    "machines without room are forbidden": {"room_mask": False},
    "weights shared by machines": {"shared": False},
    "forecasts and expected costs": {"forecasts": False},
    "starts from a rule": {"rule": False},
    "may wait, and waiting is not discounted": {"hold": "none"},
}
FROM_NOTHING = {"learning_rate": 1e-3, "vf_coef": 0.01}  # the defaults improve on a rule; from nothing they learn less


def main(
    task: str = "google-0.5-v1",
    minutes: float = 0.5,
    seeds: int = 3,
    sequences: int | None = None,
    kept: Path = Path("runs/insights"),
    figure: Path = Path("docs/tutorials/bring-an-agent/insights.png"),
) -> None:
    """Train every row of the table with every seed, and play the task's test sequences.

    Args:
        task: its name.
        minutes: time of one core for each training.
        seeds: trainings of each row.
        sequences: test sequences; default: all of the task's.
        kept: folder of results.
        figure: where it is drawn.
    """
    count = sequences or find_task(task).sequences
    switches = list(INSIGHTS.values())
    names = [FIRST, *(f"+ {name}" for name in INSIGHTS)]
    found: dict[str, list[Float]] = {name: [] for name in names}
    for seed in range(seeds):
        for added, name in enumerate(names):
            off: dict[str, Any] = {}
            for part in reversed(switches[added:]):
                off |= part
            off |= FROM_NOTHING if "rule" in off else {}
            args = EXAMPLE["Args"](task=task, seed=seed, minutes=minutes, **off)
            file = kept / f"{task}-{minutes:g}-{count}-{added}-{seed}.npy"
            if not file.exists():
                rewards = play(task, count, *EXAMPLE["train"](args))
                file.parent.mkdir(parents=True, exist_ok=True)
                np.save(file, rewards)
            found[name].append(np.load(file))
            print(seed, name, f"{found[name][-1].mean():.0f}", flush=True)
    rules = {name: crossed_estimate(rule(task, count, name)[None]) for name in RULES}
    rows = {name: crossed_estimate(np.stack(rewards)) for name, rewards in found.items()}
    print(table(rows, rules, found))
    trainings = f"{seeds} trainings" if seeds > 1 else "one training"
    draw(rows, rules, f"{trainings} of {minutes:g} minutes of one core, {count} test sequences of {task}", figure)


def play(task: str, count: int, agent: Any, observed: Any, options: dict[str, Any]) -> Float:
    """(count,) rewards of the agent's likeliest actions on the task's test sequences, thousands."""
    named = find_task(task)
    problem = problem_of(named, {**options, **observed.needs})
    drawn = problem.sequences(named.split, count, named.seed)
    bare = PlacementVectorEnv(count, drawn, scenario=problem.scenario, max_slots=0, autoreset_mode="Disabled")
    envs = VectorObserved(bare, [observed], named.penalty_unit)
    seen, _ = envs.reset(options={"sequence": np.arange(count)})
    total, over = np.zeros(count), np.zeros(count, np.bool_)
    while not over.all():
        with torch.no_grad():
            policy, _ = agent(torch.from_numpy(seen[observed.name]), torch.from_numpy(envs.action_masks()))
        seen, reward, terminated, truncated, _ = envs.step(policy.probs.argmax(1).numpy())
        total += reward
        over |= terminated | truncated
    return total / 1000


def rule(task: str, count: int, name: str) -> Float:
    """(count,) rewards of one of our schedulers on the same sequences, thousands."""
    scheduler, named = make_scheduler(name), find_task(task)
    problem = problem_of(named, {"observe_forecast": scheduler.needs_forecasts})
    sequences = problem.sequences(named.split, count, named.seed)
    return problem.rewards(Runner(sequences, problem.machines, problem.scenario), scheduler) / 1000


def table(rows: dict[str, Estimate], rules: dict[str, Estimate], found: dict[str, list[Float]]) -> str:
    """Mean reward of each row, its interval, those of its trainings, and what the row before was short of."""
    lines, before = [], None
    for name, one in rows.items():
        gain = None if before is None else one - before
        brings = "" if gain is None else with_interval(gain.mean, gain.interval, 0, "+")
        each = ", ".join(f"{rewards.mean():.0f}" for rewards in found[name])
        lines.append([name, with_interval(one.mean, one.interval, 0), brings, each])
        before = one
    lines += [[f"`{name}`", with_interval(one.mean, one.interval, 0), "", ""] for name, one in rules.items()]
    return markdown_table(["agent", "reward, thousands", "more than the row above", "each training"], lines)


def draw(rows: dict[str, Estimate], rules: dict[str, Estimate], title: str, file: Path) -> None:
    """A point with its interval for each row, schedulers as dashed lines."""
    figure = new_figure(8.0, 4.4)
    axis = figure.subplots()
    for place, one in enumerate(rows.values()):
        low, high = one.interval
        axis.plot([-low, -high], [place, place], color=OURS, linewidth=2)
        axis.plot([-one.mean], [place], "o", color=OURS)
        axis.annotate(f"{one.mean:,.0f}", (-low, place), (7, 0), textcoords="offset points", va="center", fontsize=9)
    for name, one in rules.items():
        axis.axvline(-one.mean, color="#555555", linewidth=1, linestyle="--")
        axis.annotate(title_of(name), (-one.mean, -0.6), rotation=50, fontsize=9, color="#333333", va="bottom")
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set_ylim(len(rows) - 0.4, -0.6)
    scale_logarithmically(axis.xaxis)
    every = [-one.mean for one in (*rows.values(), *rules.values())]
    axis.set_xlim(0.8 * min(every), 1.4 * max(every))
    axis.set_xlabel("what an episode costs (minus its reward), thousands; lower is better")
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    tidy(axis, "x")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=DPI)


if __name__ == "__main__":
    tyro.cli(main)
