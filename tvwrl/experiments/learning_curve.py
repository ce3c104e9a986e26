"""The picture of learning: reward on validation sequences by environment steps, of one training or of several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvwrl.experiments.statistics import interval_name, interval_or_range
from tvwrl.experiments.training_runs import DEEPRM
from tvwrl.plotting import DPI, OTHERS, OURS, WIDTH, new_figure, tidy
from tvwrl.runs import whole_file
from tvwrl.schedulers import make_scheduler
from tvwrl.types import Float

if TYPE_CHECKING:
    from tvwrl.agents import Trainer

DRAWN = ("spread", "expected-cost", "best-fit-peak", "clairvoyant")
RULES = "rules.csv"  # of a run: their rewards on its validation sequences
NEAR = 0.3  # share of the mean reward within which a rule is drawn
Progress = Sequence[Mapping[str, Any]]  # rows of progress.csv


class Curve(NamedTuple):
    """Validations of trainings that differ in their seeds."""

    iteration: list[int]  # (V,) of those that every seed has
    steps: Float  # (V,) environment steps by then, mean over seeds
    reward: Float  # (seeds, V) thousands; NaN where workloads were left unplaced

    @property
    def mean(self) -> Float:
        """(V,) over seeds; NaN where one has no reward."""
        return np.asarray(self.reward.mean(axis=0))

    @property
    def band(self) -> Float:
        """(V, 2) what `interval_or_range` gives; NaN as in `mean`."""
        ends = [interval_or_range(values) for values in self.reward.T]
        return np.where(np.isfinite(self.mean)[:, None], np.array(ends, np.float64).reshape(-1, 2), np.nan)


def curve_of(progress: Sequence[Progress]) -> Curve:
    """The validations that all trainings have; `progress`: the rows of each."""
    every = [{int(row["iteration"]): row for row in rows if "eval_reward" in row} for rows in progress]
    validated = [{at: row for at, row in rows.items() if row.get("eval_unplaced") not in (None, "")} for rows in every]
    shared = sorted(set.intersection(*(set(rows) for rows in validated)))
    steps = [_steps_by(rows, shared) for rows in progress]
    reward = [[_number(rows[at]["eval_reward"]) / 1000 for at in shared] for rows in validated]
    return Curve(shared, np.mean(steps, axis=0), np.array(reward, np.float64))


def _steps_by(rows: Progress, iterations: Sequence[int]) -> list[float]:
    """Environment steps by the end of each of these iterations; earlier versions kept no sum."""
    done, total = {0: 0.0}, 0.0
    for row in rows:
        total += float(row.get("decisions") or 0)
        done[int(row["iteration"])] = total
    return [done[iteration] for iteration in iterations]


def _number(field: Any) -> float:
    """A field of a row, from memory or from its file, where NaN is empty."""
    return float("nan") if field == "" else float(field)


def rules_to_draw(trainer: Trainer) -> dict[str, float]:
    """Mean rewards of a few rules on the training's validation sequences; none for DeepRM, whose reward is its own."""
    return {} if trainer.config.policy == DEEPRM else trainer.rewards_of(list(map(make_scheduler, DRAWN)))


def plot_learning(
    progress: Sequence[Progress], best: int | None, file: Path, rules: Mapping[str, float] | None = None
) -> None:
    """A PNG of the validation reward by environment steps: of several seeds their mean, what
    `interval_or_range` gives and each of them; of one the best policy is marked. No file where no validation has a
    reward in all seeds.

    `progress`: of each training, its rows
    `best`: iteration of the best policy; None: not marked
    `rules`: mean rewards of schedulers on the same sequences, drawn as lines unless they are so far off that the curve
        would look flat
    """
    curve = curve_of(progress)
    known = np.isfinite(curve.mean)
    if not known.any():
        return
    reward, seeds = curve.mean, len(curve.reward)
    per = 1e6 if curve.steps.max() >= 2e6 else 1e3 if curve.steps.max() >= 2e3 else 1.0
    steps = curve.steps / per
    figure = new_figure(WIDTH, 4.0)
    axis = figure.subplots()
    if seeds > 1:
        low, high = curve.band.T
        axis.fill_between(steps, low, high, color=OURS, alpha=0.18, lw=0, label=interval_name(seeds))
        for one in curve.reward:
            axis.plot(steps, one, color=OURS, lw=0.8, alpha=0.6)
    name = f"policy, mean of {seeds} seeds" if seeds > 1 else "policy"
    axis.plot(steps, reward, "-o", color=OURS, ms=5, label=name)
    if curve.iteration[0] == 0 and known[0]:
        axis.axhline(reward[0], color=OTHERS, linestyle="--", lw=1.4, label="policy before training")
    shown = curve.reward[:, known]
    reach = max(float(np.ptp(shown)), NEAR * abs(float(shown.mean())))
    for rule, found in (rules or {}).items():
        if shown.min() - reach < found / 1000 < shown.max() + reach:
            axis.axhline(found / 1000, color=OTHERS, linestyle=":", lw=1.2)
            axis.annotate(
                rule, (1, found / 1000), xycoords=("axes fraction", "data"), fontsize=8, ha="right", va="bottom"
            )
    if best in curve.iteration:
        star = {"ls": "", "marker": "*", "ms": 18, "mfc": "white", "mec": OURS, "mew": 1.6}
        at = curve.iteration.index(best)
        axis.plot([steps[at]], [reward[at]], **star, label="best, which is kept")
    unit = {1e6: ", millions", 1e3: ", thousands", 1.0: ""}[per]
    axis.set_xlabel(f"environment steps{unit}", fontsize=9.5)
    axis.set_ylabel("reward of a validation sequence,\nthousands (higher is better)", fontsize=9.5)
    axis.tick_params(labelsize=9)
    tidy(axis, "y")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    with whole_file(file) as partial:
        figure.savefig(partial, dpi=DPI, format="png")
