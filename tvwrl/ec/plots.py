"""Pictures of how classes were chosen and what they are like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tvwrl.ec.classifier_report import ClassifierReport
from tvwrl.ec.k_search import KSearch
from tvwrl.ec.population import Population
from tvwrl.plotting import new_figure
from tvwrl.types import Float, Int

SHOWN = 4  # number of members drawn beside the medoid
MOST_CLASSES = 20  # largest number of classes drawn
DAYS = 7  # longest part of a series drawn


def plot_silhouettes(searches: dict[str, KSearch], path: Path) -> None:
    """Silhouette against k for each representation: mean, and range over the initialisations."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(8, 4.5)
    axes = figure.add_subplot()
    for name, search in searches.items():
        line = axes.plot(search.ks, search.mean, ".-", label=f"{name}: k = {search.k}")[0]
        spread = (search.silhouettes.min(axis=1), search.silhouettes.max(axis=1))
        axes.fill_between(search.ks, *spread, alpha=0.2, color=line.get_color())
        axes.plot(search.k, search.mean[search.ks.index(search.k)], "o", color=line.get_color())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="classes k", ylabel="silhouette, mean and range over initialisations")
    axes.legend()
    figure.savefig(path)


def plot_members(population: Population, labels: Int, medoids: Int, path: Path) -> None:
    """One row per class: its medoid and a few members, of each the first days."""
    count = min(len(medoids), MOST_CLASSES)
    figure = new_figure(2.6 * (SHOWN + 1), 1.5 * count + 0.4)
    most = DAYS * population.slots_per_day
    grid = figure.subplots(count, SHOWN + 1, squeeze=False, sharey=True)
    for label, row in enumerate(grid, 1):
        members = np.flatnonzero((labels == label) & (np.arange(len(labels)) != medoids[label - 1]))
        drawn = [medoids[label - 1], *members[np.linspace(0, len(members) - 1, min(SHOWN, len(members))).astype(int)]]
        for axes, i in zip(row, drawn, strict=False):
            series = population.series[i][:most]
            hours = np.arange(len(series)) * population.step_seconds / 3600
            for d, name in enumerate(population.resources):
                axes.plot(hours, series[:, d], lw=0.7, label=name)
            axes.set_title(str(population.workload_id[i])[:22], fontsize=6)
        for axes in row:
            axes.tick_params(labelsize=6)
        for axes in row[len(drawn) :]:
            axes.axis("off")
        row[0].set_ylabel(f"class {label}: medoid\nunits, hours", fontsize=7)
    grid[0, 0].legend(fontsize=6)
    figure.savefig(path)


def plot_features(names: Sequence[str], means: Float, path: Path) -> None:
    """Mean of every scaled feature (0..1) by class, `means` (k, F)."""
    figure = new_figure(0.5 * len(means) + 4, 0.16 * len(names) + 1.2)
    axes = figure.add_subplot()
    image = axes.imshow(means.T, aspect="auto", vmin=0, vmax=1, cmap="viridis")
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_xticks(range(len(means)), [str(label) for label in range(1, len(means) + 1)])
    axes.set(xlabel="class")
    figure.colorbar(image, label="mean of the feature, scaled to the population's range")
    figure.savefig(path)


def plot_classifier(report: ClassifierReport, path: Path) -> None:
    """Accuracy against slots seen, confusion, calibration."""
    figure = new_figure(11, 3.6)
    accuracy, confusion, calibration = figure.subplots(1, 3)
    accuracy.plot(range(len(report.seen)), report.accuracy, ".-", label="classifier")
    accuracy.axhline(report.commonest, color="grey", ls="--", label="always the commonest class")
    accuracy.set_xticks(range(len(report.seen)), [str(s) for s in report.seen])
    accuracy.set(xlabel="slots seen", ylabel="accuracy, workloads held out", ylim=(0, 1))
    accuracy.legend(fontsize=7)
    rows = report.confusion / np.maximum(report.confusion.sum(axis=1, keepdims=True), 1)
    confusion.imshow(rows, vmin=0, vmax=1, cmap="Blues")
    labels = [str(label) for label in range(1, len(rows) + 1)]
    confusion.set_xticks(range(len(rows)), labels)
    confusion.set_yticks(range(len(rows)), labels)
    for i, row in enumerate(rows):
        for j, share in enumerate(row):
            confusion.text(j, i, f"{share:.0%}", ha="center", va="center", fontsize=6)
    confusion.set(xlabel="predicted", ylabel="true", title="confusion, all lengths seen")
    calibration.plot([0, 1], [0, 1], color="grey", ls="--")
    calibration.plot(report.claimed, report.reached, "o-")
    title = f"calibration error {report.calibration_error:.3f}"
    calibration.set(xlabel="probability claimed", ylabel="share right", xlim=(0, 1), ylim=(0, 1), title=title)
    figure.savefig(path)
