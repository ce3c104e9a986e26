"""A policy that learns online beside its frozen self and schedulers, on one stream: the table and the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.agents import ONLINE, Checkpoint, OnlineConfig, Phase, play_frozen
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, OTHERS, OURS, WIDTH, new_figure, tidy
from tvwrl.runs import whole_file, write_csv
from tvwrl.schedulers import Runner, Scheduler, title_of
from tvwrl.types import Float

FROZEN = "frozen"  # the policy as it was pretrained, played as evaluation does
FROZEN_DRAWN = "frozen-drawn"  # the same, its actions drawn as the online policy's are
BLOCKS = 20  # points of a curve
NARROWEST = 0.25  # part of the page that a phase gets at least
TITLES = {ONLINE: "learns online", FROZEN: "frozen", FROZEN_DRAWN: "frozen, actions drawn"}  # in pictures
STYLES: dict[str, dict[str, Any]] = {
    ONLINE: {"color": OURS, "marker": "o", "ls": "-", "zorder": 4},
    FROZEN: {"color": OTHERS, "marker": "s", "ls": "--"},
    FROZEN_DRAWN: {"color": COLOURS[0], "marker": "D", "ls": "-."},
}
NOTE = (
    "Mean reward per episode, thousands; every scheduler plays the same arrivals once. Intervals: paired bootstrap "
    "over episodes, treated as independent. Episodes of one seed are not, as they share a policy that keeps "
    "learning, so the intervals are too narrow to predict another seed. An episode that left workloads unplaced is "
    "incomplete and has no reward, and a third with one has no mean."
)
Rewards = list[dict[str, Float]]  # by phase: scheduler -> (episodes, seeds) thousands


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
    rewards = rewards_by_phase([rows])
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
            problem, first = phase.problem, sum(len(earlier.sequences) for earlier in stream[:place])
            runner = Runner(phase.sequences, problem.machines, problem.scenario, config.seed)
            for scheduler in schedulers:
                bar.set_postfix_str(f"{scheduler.name}, {phase.name}", refresh=False)
                for i in range(len(phase.sequences)):
                    rows.append({"phase": place, "episode": first + i} | problem.score(runner.play(scheduler, i)))
                    bar.update()
    return rows


def rewards_by_phase(streams: Sequence[Sequence[Mapping[str, Any]]]) -> Rewards:
    """Rewards in thousands, in the order of episodes, from the rows of one stream per seed."""
    found: list[dict[str, list[list[float]]]] = [{} for _ in {int(row["phase"]) for row in streams[0]}]
    for seed, rows in enumerate(streams):
        for row in rows:
            by_seed = found[int(row["phase"])].setdefault(str(row["scheduler"]), [[] for _ in streams])
            # An incomplete episode has an empty field; an older version gave it a number
            incomplete = float(row.get("unplaced") or 0) > 0
            by_seed[seed].append(float("nan") if incomplete else float(row["reward"]) / 1000)
    return [{name: np.array(values).T for name, values in phase.items()} for phase in found]


def online_table(rewards: Rewards, names: Sequence[str]) -> str:
    """Markdown: for each phase the mean reward of each third, and what the online policy is ahead in the last.

    `names` of the phases; intervals are 95 % paired bootstrap over the episodes of all seeds, taken as independent.
    """
    parts = []
    for played, name in zip(rewards, names, strict=True):
        count, seeds = played[ONLINE].shape
        body = []
        for scheduler, values in played.items():
            thirds = np.array_split(values, min(3, count))
            means = [_mean(part) for part in thirds] + [""] * (3 - len(thirds))
            ahead = ["", "", ""]
            if scheduler != ONLINE:
                last = np.array_split(played[ONLINE], len(thirds))[-1].ravel(), thirds[-1].ravel()
                mean, low, high = paired_bootstrap(*last)
                interval = "" if np.isnan(low) else f"[{low:+.1f}, {high:+.1f}]"
                ahead = ["-", "", "-"]
                if not np.isnan(mean):
                    ahead = [f"{mean:+.1f}", interval, f"{(last[0] > last[1]).sum()} of {len(last[0])}"]
            body.append([scheduler, *means, *ahead])
        head = ["scheduler", "first third", "middle third", "last third", "online ahead in the last", "95 %", "won"]
        several = f" of each of {seeds} seeds" if seeds > 1 else ""
        parts.append(f"### {name}, {count} episodes{several}\n\n{markdown_table(head, body)}")
    parts.append(NOTE)
    return "\n\n".join(parts) + "\n"


def _mean(rewards: Float) -> str:
    """The mean reward; how many episodes are incomplete, if any is: these have none, and the others are a selection."""
    left = int(np.isnan(rewards).sum())
    return f"- ({left} of {rewards.size} incomplete)" if left else f"{rewards.mean():.1f}"


def plot_rewards(rewards: Rewards, names: Sequence[str], file: Path) -> None:
    """Rewards in blocks of episodes, a column for each phase, and what the online policy is ahead of itself, frozen,
    with its 95 % interval."""
    counts = [len(phase[ONLINE]) for phase in rewards]
    figure = new_figure(WIDTH, 5.6)
    shares = [max(count / sum(counts), NARROWEST) for count in counts]
    axes = figure.subplots(2, len(rewards), squeeze=False, sharex="col", width_ratios=shares)
    block = max(1, sum(counts) // BLOCKS)
    handles: dict[str, Any] = {}
    for place, (played, name) in enumerate(zip(rewards, names, strict=True)):
        level, ahead = axes[:, place]
        parts = np.array_split(np.arange(counts[place]), max(1, counts[place] // block))
        middle = sum(counts[:place]) + np.array([part.mean() for part in parts]) + 1
        others = iter([colour for colour in COLOURS if colour not in (OURS, COLOURS[-1])] * len(played))
        for scheduler, values in played.items():
            style: dict[str, Any] = STYLES.get(scheduler) or {"color": next(others), "ls": ":"}
            title = TITLES.get(scheduler) or title_of(scheduler)
            (handles[title],) = level.plot(middle, [values[part].mean() for part in parts], ms=4, lw=1.6, **style)
            if scheduler in (FROZEN, FROZEN_DRAWN):
                found = [paired_bootstrap(played[ONLINE][part].ravel(), values[part].ravel()) for part in parts]
                mean, low, high = np.array(found).T
                ahead.errorbar(middle, mean, (mean - low, high - mean), ms=4, lw=1.4, **style)
        level.set_title(name, fontsize=10)
        ahead.axhline(0, color=OTHERS, linewidth=1)
        ahead.set_xlabel("episode of the stream", fontsize=9.5)
        for axis in (level, ahead):
            axis.locator_params(axis="x", nbins=max(2, round(8 * shares[place])))
            axis.tick_params(labelsize=9)
            tidy(axis)
    axes[0, 0].set_ylabel("reward of an episode,\nthousands", fontsize=9.5)
    axes[1, 0].set_ylabel("lead of the online policy,\nthousands", fontsize=9.5)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
        title=f"Means of {block} episodes; bars: 95 % intervals",
        title_fontsize=9,
    )
    figure.savefig(file, dpi=DPI, format="png")
