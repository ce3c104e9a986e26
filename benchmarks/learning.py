"""Learning curves of training runs: validation reward against minutes, and when 90 % of the best is reached."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

Curve = list[tuple[float, int, float]]  # minutes, iteration, validation reward


def curve(run: Path) -> Curve:
    """The periodic evaluations of a run, from its TensorBoard log, which knows the time."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(run / "tensorboard"))
    log.Reload()
    begun = log.Scalars("train/learning_rate")[0].wall_time
    return [((e.wall_time - begun) / 60, e.step, e.value) for e in log.Scalars("eval/reward")]


def main() -> None:
    """Print a table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of scripts/train.py")
    parser.add_argument("--share", type=float, default=0.9, help="of the way from the first evaluation to the best")
    parser.add_argument("--figure", type=Path, default=Path("docs/training/curves.png"))
    arguments = parser.parse_args()
    curves = {run.name: curve(run) for run in arguments.runs}
    for name, points in curves.items():
        minutes, _, reward = (np.array(part) for part in zip(*points, strict=True))
        reached = reward[0] + arguments.share * (reward.max() - reward[0])
        when = minutes[np.argmax(reward >= reached)]
        best = (
            f"best {reward.max() / 1000:.0f} (thousands) after {minutes[reward.argmax()]:.1f} of {minutes[-1]:.1f} min"
        )
        print(f"{name}: first {reward[0] / 1000:.0f}, {best}; {arguments.share:.0%} of the way after {when:.1f} min")
    draw(curves, arguments.figure)


def draw(curves: dict[str, Curve], figure: Path) -> None:
    """One line per run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    page = Figure(figsize=(7.5, 4.2), layout="constrained")
    FigureCanvasAgg(page)
    axis = page.subplots()
    for name, points in curves.items():
        minutes, _, reward = zip(*points, strict=True)
        axis.plot(minutes, np.array(reward) / 1000, marker="o", markersize=3, label=name)
    axis.set_xlabel("minutes of training")
    axis.set_ylabel("validation reward (thousands)")
    axis.grid(color="#DDDDDD", linewidth=0.8)
    axis.legend(frameon=False)
    figure.parent.mkdir(parents=True, exist_ok=True)
    page.savefig(figure, dpi=130)


if __name__ == "__main__":
    main()
