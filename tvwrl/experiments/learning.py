"""What training brought: the learning curve, and the best policy against the one that training began with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tvwrl.experiments.episode_rows import incomplete_by
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.plotting import DPI, OTHERS, OURS, WIDTH, new_figure, tidy
from tvwrl.schedulers import CURRENT_LOAD, INITIAL, KNOWLEDGE


def what_training_brought(rows: pl.DataFrame, name: str, iteration: int) -> str:
    """A sentence on the rewards of policy `name`, of `iteration`, against the initial policy in `rows`."""
    left = incomplete_by(rows, ["scheduler"])
    if what := left.get((name,)):
        return f"nothing can be said of its reward: the policy of iteration {iteration} left workloads unplaced, {what}"
    if what := left.get((name + INITIAL,)):
        return f"training taught the policy to place every workload; the initial policy left some unplaced, {what}"
    best, initial = (
        rows.filter(pl.col("scheduler") == one).sort("load", "sequence")["reward"].to_numpy() / 1000
        for one in (name, name + INITIAL)
    )
    gain, low, high = paired_bootstrap(best, initial)
    share = 100 * gain / max(abs(float(initial.mean())), 1e-9)
    if len(best) == 1:
        return (
            f"on one unseen sequence, {gain:+.1f} thousand ({share:+.1f} %) from the initial policy to that of "
            f"iteration {iteration}: one is too few to rule out chance; compare on more (--comparison-sequences)"
        )
    if low > 0:
        verdict = "training improved the policy"
    elif high < 0:
        verdict = "training made the policy worse"
    else:
        verdict = "training made no significant difference"
    return (
        f"{verdict}: {gain:+.1f} thousand [{low:+.1f}, {high:+.1f}] per sequence ({share:+.1f} %) from the initial "
        f"policy to that of iteration {iteration}, on {len(best)} unseen sequences (paired, 95 %)"
    )


def rules_ahead(rows: pl.DataFrame, name: str) -> str:
    """A sentence that names the rules in `rows` that look only at the current load, yet have significantly better
    rewards than policy `name`; empty if there are none."""
    left = incomplete_by(rows, ["scheduler"])
    rewards = {
        one: rows.filter(pl.col("scheduler") == one).sort("load", "sequence")["reward"].to_numpy()
        for one in rows["scheduler"].unique(maintain_order=True)
        if (one,) not in left
    }
    simple = [one for one in rewards if one in KNOWLEDGE and KNOWLEDGE[one] == CURRENT_LOAD]
    if name not in rewards:
        return f"it is behind every rule that places all workloads, as {' and '.join(simple)}" if simple else ""
    ahead = [rule for rule in simple if paired_bootstrap(rewards[rule], rewards[name])[1] > 0]
    if not ahead or len(rewards[name]) == 1:  # one sequence is too few to rule out chance
        return ""
    ahead.sort(key=lambda rule: float(rewards[rule].mean()), reverse=True)
    return f"the policy is still behind the simple rule{'s' * (len(ahead) > 1)} {' and '.join(ahead)}"


def plot_learning(progress: Sequence[Mapping[str, Any]], best: int, file: Path) -> None:
    """A PNG of the validation reward by iteration, with the initial policy's as a line and the best one marked."""
    from matplotlib.ticker import MaxNLocator

    validated = [row for row in progress if row.get("eval_reward") not in (None, "")]
    if not validated:
        return
    iteration = [int(row["iteration"]) for row in validated]
    reward = np.array([float(row["eval_reward"]) for row in validated]) / 1000
    figure = new_figure(WIDTH, 4.0)
    axis = figure.subplots()
    axis.plot(iteration, reward, "-o", color=OURS, ms=5, label="policy")
    if iteration[0] == 0:
        axis.axhline(reward[0], color=OTHERS, linestyle="--", lw=1.4, label="policy before training")
    if best in iteration:
        star = {"ls": "", "marker": "*", "ms": 18, "mfc": "white", "mec": OURS, "mew": 1.6}
        axis.plot([best], [reward[iteration.index(best)]], **star, label="best, which is kept")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("iteration", fontsize=9.5)
    axis.set_ylabel("reward of a validation sequence,\nthousands (higher is better)", fontsize=9.5)
    axis.tick_params(labelsize=9)
    tidy(axis, "y")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(file, dpi=DPI, format="png")
