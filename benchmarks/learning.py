"""Learning curves of training runs: reward of the training episodes against minutes, and when 90 % of the way is done.

Runs whose folders differ in `-seedN` alone are one colour. Actions of training episodes are drawn, so curves lie below
what a policy is evaluated at. Minutes count from the end of the first iteration's episodes on.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import tyro

from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, new_figure, tidy
from tvwrl.types import Float, InputError

LAST = 5  # iterations whose mean is what a run came to
HEAD = ("", "seed", "first", f"mean of the last {LAST}", "minutes", "minutes to {share:.0%} of the way")


def curve(run: Path) -> Float:
    """(iterations, 2): minutes and mean reward of an iteration's episodes, from the TensorBoard log."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(run / "tensorboard"), {"scalars": 0})
    log.Reload()
    if "train/reward" not in log.Tags()["scalars"]:
        raise InputError(f"{run}: holds no training (tensorboard/ without train/reward)")
    events = log.Scalars("train/reward")
    return np.array([((event.wall_time - events[0].wall_time) / 60, event.value) for event in events])


def main(
    runs: tyro.conf.Positional[tuple[Path, ...]], share: float = 0.9, figure: Path = Path("docs/training/curves.png")
) -> None:
    """Print a table and draw the figure.

    Args:
        runs: folders of scripts/train.py, or cells of scripts/reproduce.py.
        share: of the way from the first iteration to the last ones.
        figure: where it is drawn.
    """
    curves: dict[str, dict[str, Float]] = {}
    for run in runs:
        name, seed = re.fullmatch(r"(.*?)(?:-seed(\d+))?", run.name).groups()  # type: ignore[union-attr]
        curves.setdefault(name, {})[seed or "0"] = curve(run)
    rows = []
    for name, seeds in curves.items():
        for seed, points in seeds.items():
            minutes, reward = points.T
            final = reward[-LAST:].mean()
            reached = minutes[np.argmax(reward >= reward[0] + share * (final - reward[0]))]
            values = (f"{reward[0] / 1000:.0f}", f"{final / 1000:.0f}", f"{minutes[-1]:.1f}", f"{reached:.1f}")
            rows.append([name, seed, *values])
    print(markdown_table([title.format(share=share) for title in HEAD], rows))
    draw(curves, figure)


def draw(curves: dict[str, dict[str, Float]], figure: Path) -> None:
    """One line per run, one colour per name."""
    page = new_figure(9, 4.5)
    axis = page.subplots()
    for colour, (name, seeds) in zip(COLOURS, curves.items(), strict=False):
        for points in seeds.values():
            axis.plot(points[:, 0], points[:, 1] / 1000, color=colour, lw=1.2)
        axis.lines[-1].set_label(f"{name} ({len(seeds)} seeds)")
    axis.set_xlabel("minutes of training")
    axis.set_ylabel("reward of training episodes (thousands)")
    tidy(axis)
    axis.legend(frameon=False, fontsize=8)
    figure.parent.mkdir(parents=True, exist_ok=True)
    page.savefig(figure, dpi=DPI)


if __name__ == "__main__":
    tyro.cli(main)
