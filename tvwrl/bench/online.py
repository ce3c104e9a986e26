"""Online learning set beside the frozen policy and heuristics on the same stream: rows, tables, a plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.online import ONLINE, OnlineConfig, Phase, play_frozen
from tvwrl.bench.plots import COLOURS, DPI
from tvwrl.bench.runner import Runner
from tvwrl.bench.tables import paired_bootstrap
from tvwrl.markdown import markdown_table
from tvwrl.metrics import score_episode
from tvwrl.runs import whole_file, write_csv
from tvwrl.schedulers import Scheduler
from tvwrl.types import Float

FROZEN = "frozen"  # the policy as it was pretrained, played as evaluation does
FROZEN_DRAWN = "frozen-drawn"  # the same, its actions drawn as the online policy's are
THIRDS = ("first", "middle", "last")
Rewards = list[dict[str, Float]]  # by phase: scheduler -> (episodes,) thousands


def compare_on_stream(
    folder: Path,
    stream: Sequence[Phase],
    start: Checkpoint,
    learnt: Sequence[dict[str, Any]],
    schedulers: Sequence[Scheduler],
    config: OnlineConfig,
) -> str:
    """Play the frozen policy and `schedulers` on the stream; write `rows.csv`, `table.md` and `rewards.png`.

    `learnt`: the rows of the online policy, one per episode, as `OnlineLearner.progress`. Returns the table.
    """
    rows = play_others(stream, start, schedulers, config)
    rows = [{name: row[name] for name in rows[0]} for row in learnt] + rows
    rewards = rewards_by_phase(rows, len(stream))
    names = [phase.name for phase in stream]
    table = online_table(rewards, names)
    write_csv(folder / "rows.csv", rows)
    with whole_file(folder / "table.md") as partial:
        partial.write_text(table)
    with whole_file(folder / "rewards.png") as partial:
        plot_rewards(rewards, names, partial)
    return table


def play_others(
    stream: Sequence[Phase], start: Checkpoint, schedulers: Sequence[Scheduler], config: OnlineConfig
) -> list[dict[str, Any]]:
    """A row per episode and phase of the frozen policy, drawing its actions too if `config.explore`, and of others."""
    rows = [row | {"scheduler": FROZEN} for row in play_frozen(start, stream, config, explore=False)]
    if config.explore:
        rows += [row | {"scheduler": FROZEN_DRAWN} for row in play_frozen(start, stream, config, explore=True)]
    total = len(schedulers) * sum(len(phase.sequences) for phase in stream)
    with tqdm(total=total, desc="comparing", unit="ep", disable=None) as bar:
        for place, phase in enumerate(stream):
            problem = phase.problem
            weights, per = problem.scenario.penalty_weights(), problem.scenario.overshoot_per
            runner = Runner(phase.sequences, problem.machines, problem.scenario, config.seed)
            for scheduler in schedulers:
                bar.set_postfix_str(f"{scheduler.name}, {phase.name}", refresh=False)
                for i in range(len(phase.sequences)):
                    scores = score_episode(runner.play(scheduler, i), problem.machines, weights, per)
                    rows.append({"phase": place, "episode": place * config.episodes + i} | scores)
                    bar.update()
    return rows


def rewards_by_phase(rows: Sequence[dict[str, Any]], phases: int) -> Rewards:
    """Rewards in thousands, in the order of episodes."""
    found: list[dict[str, list[float]]] = [{} for _ in range(phases)]
    for row in rows:
        found[int(row["phase"])].setdefault(str(row["scheduler"]), []).append(float(row["reward"]) / 1000)
    return [{name: np.array(values) for name, values in phase.items()} for phase in found]


def online_table(rewards: Rewards, names: Sequence[str]) -> str:
    """Markdown: for each phase the mean reward of each third, and what the online policy is ahead in the last.

    `names` of the phases; intervals are 95 % paired bootstrap over episodes.
    """
    parts = []
    for place, (phase, name) in enumerate(zip(rewards, names, strict=True)):
        count = len(phase[ONLINE])
        body = []
        for scheduler, values in phase.items():
            means = [f"{part.mean():.1f}" for part in np.array_split(values, min(len(THIRDS), count))]
            body.append([scheduler, *means, *[""] * (len(THIRDS) - len(means)), *_ahead(phase, scheduler)])
        head = ["scheduler", *(f"{third} third" for third in THIRDS), "online ahead in the last", "95 %", "won"]
        parts.append(f"### Phase {place + 1}: {name}, {count} episodes\n\n{markdown_table(head, body)}")
    parts.append("Mean reward per episode, thousands; every scheduler on the same arrivals, each played once.")
    return "\n\n".join(parts) + "\n"


def _ahead(phase: dict[str, Float], other: str) -> list[str]:
    """Cells: mean of online minus `other` in the last third of the phase, its interval, episodes won."""
    if other == ONLINE:
        return ["", "", ""]
    last = slice(len(phase[ONLINE]) - math.ceil(len(phase[ONLINE]) / 3), None)
    a, b = phase[ONLINE][last], phase[other][last]
    mean, low, high = paired_bootstrap(a, b, np.random.default_rng(0))
    interval = "" if np.isnan(low) else f"[{low:+.1f}, {high:+.1f}]"
    return [f"{mean:+.1f}", interval, f"{(a > b).sum()} of {len(a)}"]


def plot_rewards(rewards: Rewards, names: Sequence[str], file: Path) -> None:
    """Moving averages of the reward per episode, by scheduler; a line where the stream changes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = max(1, min(len(phase[ONLINE]) for phase in rewards) // 8)
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    first = 0
    for place, (phase, name) in enumerate(zip(rewards, names, strict=True)):
        count = len(phase[ONLINE])
        for i, (scheduler, values) in enumerate(phase.items()):
            mean = np.convolve(values, np.ones(width) / width, "valid")  # of this phase alone
            style = "-" if scheduler in (ONLINE, FROZEN, FROZEN_DRAWN) else "--"
            place_at = first + np.arange(width - 1, count) + 1
            axis.plot(place_at, mean, style, color=COLOURS[i % len(COLOURS)], label=None if place else scheduler)
        if place:
            axis.axvline(first + 0.5, color="#444444", linewidth=1)
        axis.annotate(name, ((first + 0.5), 1.0), (4, 4), ("data", "axes fraction"), "offset points", fontsize=9)
        first += count
    axis.set_xlabel("episode of the stream")
    axis.set_ylabel(f"reward, thousands (mean of {width} episodes)")
    axis.grid(color="#DDDDDD", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    figure.savefig(file, dpi=DPI, format="png")
