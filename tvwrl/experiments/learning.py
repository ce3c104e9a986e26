"""What training brought: the learning curve, and the best policy against the one that training began with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.plotting import COLOURS, DPI, new_figure, tidy
from tvwrl.schedulers.titles import INITIAL


def what_training_brought(rows: pl.DataFrame, name: str, iteration: int) -> str:
    """A sentence on the rewards of policy `name`, of `iteration`, against the initial policy in `rows`."""
    best, initial = (
        rows.filter(pl.col("scheduler") == one).sort("load", "sequence")["reward"].to_numpy() / 1000
        for one in (name, name + INITIAL)
    )
    gain, low, high = paired_bootstrap(best, initial)
    share = 100 * gain / max(abs(float(initial.mean())), 1e-9)
    if len(best) == 1:
        return (
            f"on one unseen sequence, {gain:+.1f} thousand ({share:+.1f} %) from the initial policy to that of "
            f"iteration {iteration}: one cannot tell a difference from chance; compare on more (--comparison-sequences)"
        )
    if low > 0:
        verdict = "training improved the policy"
    elif high < 0:
        verdict = "training made the policy worse"
    else:
        verdict = "training made no difference that these sequences can tell from chance"
    return (
        f"{verdict}: {gain:+.1f} thousand [{low:+.1f}, {high:+.1f}] per sequence ({share:+.1f} %) from the initial "
        f"policy to that of iteration {iteration}, on {len(best)} unseen sequences (paired, 95 %)"
    )


def plot_learning(progress: Sequence[Mapping[str, Any]], best: int, file: Path) -> None:
    """A PNG of the validation reward by iteration, with the initial policy's as a line and the best one marked."""
    validated = [row for row in progress if row.get("eval_reward") not in (None, "")]
    if not validated:
        return
    iteration = [int(row["iteration"]) for row in validated]
    reward = np.array([float(row["eval_reward"]) for row in validated]) / 1000
    figure = new_figure(8, 4.4)
    axis = figure.subplots()
    axis.plot(iteration, reward, "-o", color=COLOURS[0], ms=4, label="policy")
    if iteration[0] == 0:
        axis.axhline(reward[0], color=COLOURS[1], linestyle="--", label="initial policy")
    if best in iteration:
        axis.plot([best], [reward[iteration.index(best)]], "*", color=COLOURS[0], ms=14, label="best, which is kept")
    axis.set_xlabel("iteration")
    axis.set_ylabel("mean reward on validation sequences, thousands")
    tidy(axis, "y")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(file, dpi=DPI, format="png")
