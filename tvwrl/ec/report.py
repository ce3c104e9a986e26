"""The report of a choice of classes: report.md, report.json and plots, in one folder with the classes file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.ec.classes import CLASSES_FILE
from tvwrl.ec.classifier import ClassifierReport
from tvwrl.ec.clustering import KSearch
from tvwrl.ec.comparison import Candidate, Comparison
from tvwrl.ec.representations import TITLES, FeatureRepresentation, Population
from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, OURS, WIDTH, new_figure, people_call, tidy
from tvwrl.runs import provenance, write_json
from tvwrl.types import Float, Int


@dataclass
class ClassesReport:
    """Everything the report of a choice of classes holds."""

    trace: str  # a sentence
    population: Population
    comparison: Comparison
    classifier: ClassifierReport | None
    seconds: dict[str, float]  # by step
    facts: dict[str, Any]

    def write(self, folder: Path) -> None:
        """Write everything into `folder`, which exists."""
        self._plot(folder / "plots")
        self.comparison.chosen.classes.save(folder / CLASSES_FILE)
        (folder / "report.md").write_text(self.text(), encoding="utf-8")
        candidates = [candidate.to_dict() for candidate in self.comparison.candidates]
        chosen: dict[str, Any] = {"chosen": self.comparison.chosen.name, "why": self.comparison.why}
        members = dict(zip(self.population.workload_id, self._labels.tolist(), strict=True))
        classifier = self.classifier.to_dict() if self.classifier else None
        if self.comparison.chance is not None:
            chosen |= {"chance": self.comparison.chance.to_dict()}
        content = self.facts | chosen | {"candidates": candidates, "classifier": classifier, "seconds": self.seconds}
        write_json(folder / "report.json", content | {"labels": members} | provenance())

    def _searched(self) -> bool:
        """Whether there was more than one k to choose from."""
        found = (candidate.classes.search_ for candidate in self.comparison.candidates)
        return any(len(search.ks) > 1 for search in found if search is not None)

    @property
    def _labels(self) -> Any:
        return self.comparison.chosen.classes.labels_

    def _plot(self, folder: Path) -> None:
        folder.mkdir()
        searches = {c.name: c.classes.search_ for c in self.comparison.candidates if c.classes.search_ is not None}
        if self._searched():
            plot_silhouettes(searches, folder / "silhouettes.png")
        for candidate in self.comparison.candidates:
            classes = candidate.classes
            plot_members(self.population, classes.labels_, classes.medoids_, folder / f"members-{candidate.name}.png")
            found = classes.representation_
            if isinstance(found, FeatureRepresentation):
                labels = range(1, classes.k + 1)
                means = np.array([found.scaled_[classes.labels_ == label].mean(axis=0) for label in labels])
                plot_features(found.names_, means, folder / f"features-{candidate.name}.png")
        if self.classifier is not None:
            plot_classifier(self.classifier, folder / "classifier.png")

    def text(self) -> str:
        """report.md, which also reads well in a terminal."""
        chosen, count = self.comparison.chosen, len(self.population)
        slots = sorted(len(one) for one in self.population.series)
        lines = [
            "# Equivalence classes",
            "",
            self.trace,
            "",
            f"{count} workloads of {slots[0]} to {slots[-1]} slots of {self.population.step_seconds} s. Chosen: "
            f"**{chosen.name}** with {chosen.classes.k} classes; {self.comparison.why}.",
            "",
            comparison_table(self.comparison.candidates),
            "",
            "k: number of classes; f: share of workloads in classes that a forecaster of their own forecasts better; "
            "EG: effective prediction gain, %; r: mean correlation of forecast and usage over held-out workloads.",
            "",
            *self._plain_rules(),
            *_picture("silhouette against k", "silhouettes", self._searched()),
            f"## Classes of {chosen.name}",
            "",
            self._class_table(),
            "",
            *_picture("members of the classes", f"members-{chosen.name}"),
            *_picture("features of the classes", f"features-{chosen.name}", chosen.name != "dtw"),
            *self._classifier_lines(),
            "## Time",
            "",
            markdown_table(["step", "seconds"], [[name, f"{spent:.1f}"] for name, spent in self.seconds.items()]),
            "",
        ]
        return "\n".join(lines)

    def _plain_rules(self) -> list[str]:
        gain = self.comparison.chosen.gain
        if gain is None:
            return []
        verdict = "Mind: the forecaster does not beat them, so f and EG mean nothing."
        if gain.beats_plain_rules:
            verdict = "The forecaster beats them."
        lines = [
            f"Forecasts {gain.horizon} slots ahead from {gain.window} slots. Out of sample, the last value reaches r = "
            f"{gain.last_value:.3f}, the value a day before {gain.seasonal:.3f}. {verdict}",
            "",
        ]
        if (chance := self.comparison.chance) is not None:
            more = gain.effective_gain > chance.effective_gain
            meaning = "differences of that size mean nothing" if more else "the classes found gain no more than chance"
            dealt = f"The labels of {self.comparison.chosen.name} dealt out at random reach EG ="
            lines += [f"{dealt} {chance.effective_gain:.2f}: {meaning}.", ""]
        return lines

    def _class_table(self) -> str:
        chosen, labels = self.comparison.chosen, self._labels
        gains = {row.label: row for row in chosen.gain.classes} if chosen.gain else {}
        rows = []
        for label in range(1, chosen.classes.k + 1):
            members = [self.population.series[i] for i in np.flatnonzero(labels == label)]
            level = np.mean([one.mean(axis=0) for one in members], axis=0)
            medoid = str(self.population.workload_id[chosen.classes.medoids_[label - 1]])
            row = [str(label), str(len(members)), *(f"{v:.2f}" for v in level), medoid]
            if gains:
                row.append(gains[label].note or f"{gains[label].gain:+.1f} %")
            rows.append(row)
        means = [f"mean {resource}, units" for resource in self.population.resources]
        return markdown_table(["class", "workloads", *means, "medoid", *(["G"] if gains else [])], rows)

    def _classifier_lines(self) -> list[str]:
        report = self.classifier
        if report is None:
            return ["No class has enough workloads to hold some out for the run-time classifier.", ""]
        shown = ["-" if np.isnan(a) else f"{a:.1%}" for a in report.accuracy]
        return [
            "## Run-time classifier",
            "",
            f"Trained on 70 % of the workloads, asked about {report.workloads} others; the commonest class alone "
            f"reaches {report.commonest:.1%}; expected calibration error {report.calibration_error:.3f}.",
            "",
            markdown_table(["slots seen", *map(str, report.seen)], [["accuracy", *shown]]),
            "",
            *_picture("accuracy, confusion, calibration", "classifier"),
        ]


def comparison_table(candidates: Sequence[Candidate]) -> str:
    """A row per representation."""
    rows = []
    for candidate in candidates:
        search, gain = candidate.classes.search_, candidate.gain
        silhouette = f"{search.mean[search.ks.index(search.k)]:.3f}" if search else "-"
        row = [candidate.name, str(candidate.classes.k), silhouette]
        if gain is None:
            row += ["-"] * 6
        else:
            row += [f"{gain.fraction:.2f}", f"{gain.effective_gain:.2f}"]
            rs = (gain.correlation, gain.agnostic, gain.last_value, gain.seasonal)
            row += ["-" if np.isnan(r) else f"{r:.3f}" for r in rs]
        spent = f"{candidate.seconds:.1f}" + (f" + {gain.seconds:.1f}" if gain else "")
        rows.append([*row, spent])
    correlations = ("r, by class", "r, of all", "r, last value", "r, a day before")
    head = ["representation", "k", "silhouette", "f", "EG", *correlations, "seconds (+ forecaster)"]
    return markdown_table(head, rows)


def _picture(what: str, name: str, there: bool = True) -> list[str]:
    return [f"![{what}](plots/{name}.png)", ""] if there else []


LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 9}
SHOWN = 3  # number of members drawn beside the medoid
MOST_CLASSES = 20  # largest number of classes drawn
DAYS = 7  # longest part of a series drawn
MOST_NUMBERS = 10  # classes up to which cells have their number written in
DARK = 0.6  # value of a cell from which on its number is white
PARAMETERS = {"lag": "lag {}", "chunk_len": "by {} slots"}  # how people say a feature's; of others, the value alone
STATISTICS = {  # what people call features; others are called as in their names, without underscores
    "std": "standard deviation",
    "normalised_std": "standard deviation / mean",
    "mean_abs_change": "mean absolute change",
    "linear_trend": "trend",
    "agg_linear_trend": "trend",
    "rvalue": "correlation",
}


def plot_silhouettes(searches: dict[str, KSearch], path: Path) -> None:
    """Silhouette against k, a panel for each representation: mean, and range over the initialisations."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(WIDTH, 3.4)
    panels = figure.subplots(1, len(searches), sharey=True, squeeze=False)[0]
    for axes, (name, search) in zip(panels, searches.items(), strict=True):
        axes.fill_between(
            search.ks,
            search.silhouettes.min(axis=1),
            search.silhouettes.max(axis=1),
            color=COLOURS[0],
            alpha=0.2,
            lw=0,
            label="range over initialisations",
        )
        axes.plot(search.ks, search.mean, ".-", color=COLOURS[0], label="mean")
        best = search.mean[search.ks.index(search.k)]
        axes.plot(search.k, best, "o", ms=11, mfc="none", mec=OURS, mew=2, ls="", label="best mean")
        axes.set_title(f"{TITLES.get(name, name)}\nk = {search.k}", fontsize=10)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _finish(axes, "number of classes k", "")
    panels[0].set_ylabel("silhouette (higher is better)", fontsize=9)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, **LEGEND)
    figure.savefig(path, dpi=DPI)


def plot_members(population: Population, labels: Int, medoids: Int, path: Path) -> None:
    """One row per class: its medoid and a few members, of each the first days."""
    count = min(len(medoids), MOST_CLASSES)
    figure = new_figure(WIDTH, 1.25 * count + 0.8)
    most = DAYS * population.slots_per_day
    grid = figure.subplots(count, SHOWN + 1, squeeze=False, sharey=True)
    for label, row in enumerate(grid, 1):
        members = np.flatnonzero((labels == label) & (np.arange(len(labels)) != medoids[label - 1]))
        drawn = [medoids[label - 1], *members[np.linspace(0, len(members) - 1, min(SHOWN, len(members))).astype(int)]]
        for axes, i in zip(row, drawn, strict=False):
            series = population.series[i][:most]
            days = np.arange(len(series)) / population.slots_per_day
            for d, name in enumerate(population.resources):
                axes.plot(days, series[:, d], lw=0.9, color=COLOURS[d % len(COLOURS)], label=people_call(name))
            axes.locator_params(nbins=4)
            _finish(axes, "days" if label == count else "", "")
        for axes in row[len(drawn) :]:
            axes.axis("off")
        row[0].set_ylabel(f"class {label}", fontsize=9)
    for number, axes in enumerate(grid[0]):
        axes.set_title("medoid" if number == 0 else f"member {number}", fontsize=10)
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, [f"{name}, units" for name in names], loc="outside lower center", ncols=4, **LEGEND)
    figure.savefig(path, dpi=DPI)


def plot_features(names: Sequence[str], means: Float, path: Path) -> None:
    """Mean of every scaled feature (0..1) by class, `means` (k, F)."""
    figure = new_figure(WIDTH, 0.26 * len(names) + 1.3)
    axes = figure.add_subplot()
    image = axes.imshow(means.T, aspect="auto", vmin=0, vmax=1, cmap="Blues")
    axes.set_yticks(range(len(names)), [feature_title(name) for name in names], fontsize=9)
    axes.set_xticks(range(len(means)), [f"class {label}" for label in range(1, len(means) + 1)], fontsize=9)
    if len(means) > MOST_NUMBERS:
        axes.set_xticks(range(len(means)), [str(label) for label in range(1, len(means) + 1)])
        axes.set_xlabel("class", fontsize=9)
    else:
        _write_cells(axes, means.T, "{:.2f}")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, location="bottom", aspect=50, shrink=0.8, pad=0.02)
    bar.set_label("mean over the class; 0: least, 1: most of all workloads", fontsize=9)
    bar.ax.tick_params(labelsize=9)
    bar.outline.set_visible(False)
    figure.savefig(path, dpi=DPI)


def feature_title(name: str) -> str:
    """What people call a feature.

    >>> feature_title("mem_per_cpu__normalised_std"), feature_title("cpu__autocorrelation__lag_48")
    ('memory per CPU, standard deviation / mean', 'CPU, autocorrelation, lag 48')
    >>> feature_title('mem__agg_linear_trend__attr_"rvalue"__chunk_len_10__f_agg_"max"')
    'memory, trend, correlation, by 10 slots, max'
    """
    subject, *parts = name.split("__")
    words = [" per ".join(people_call(resource) for resource in subject.split("_per_"))]
    words += [STATISTICS.get(part, part.replace("_", " ")) for part in parts[:1]]
    for part in parts[1:]:
        parameter, _, value = part.replace('"', "").rpartition("_")
        words.append(PARAMETERS.get(parameter, "{}").format(STATISTICS.get(value, value)))
    return ", ".join(words)


def plot_classifier(report: ClassifierReport, path: Path) -> None:
    """Accuracy against slots seen, confusion, calibration."""
    figure = new_figure(WIDTH, 3.5)
    accuracy, confusion, calibration = figure.subplots(1, 3)
    accuracy.plot(range(len(report.seen)), [100 * share for share in report.accuracy], "o-", ms=4, color=OURS)
    accuracy.axhline(100 * report.commonest, color="#555555", ls="--", lw=1)
    accuracy.set_xticks(range(len(report.seen)), [str(s) for s in report.seen], rotation=45)
    accuracy.set_ylim(0, 100)
    accuracy.set_title("Accuracy, new workloads", fontsize=10)
    _finish(accuracy, "slots seen", "right answers, %")
    rows = report.confusion / np.maximum(report.confusion.sum(axis=1, keepdims=True), 1)
    confusion.imshow(rows, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    labels = [str(label) for label in range(1, len(rows) + 1)]
    confusion.set_xticks(range(len(rows)), labels)
    confusion.set_yticks(range(len(rows)), labels)
    if len(rows) <= MOST_NUMBERS:
        _write_cells(confusion, rows, "{:.0%}")
    confusion.set_title("Answers by true class", fontsize=10)
    confusion.set_xlabel("answer", fontsize=9)
    confusion.set_ylabel("true class", fontsize=9)
    confusion.tick_params(length=0, labelsize=9)
    confusion.spines[:].set_visible(False)
    calibration.plot([0, 100], [0, 100], color="#555555", ls="--", lw=1)
    claimed, reached = ([100 * share for share in shares] for shares in (report.claimed, report.reached))
    calibration.plot(claimed, reached, "o-", ms=5, color=OURS)
    calibration.set(xlim=(0, 100), ylim=(0, 100))
    calibration.set_title(f"Calibration: off by {100 * report.calibration_error:.0f} points", fontsize=10)
    _finish(calibration, "probability claimed, %", "right answers, %")
    dashed = "left: always the commonest class; right: perfect calibration"
    figure.legend(calibration.lines[::-1], ["classifier", dashed], loc="outside lower center", ncols=2, **LEGEND)
    figure.savefig(path, dpi=DPI)


def _write_cells(axes: Any, shown: Float, form: str) -> None:
    """The numbers of an image, 0 to 1, into its cells."""
    for (i, j), value in np.ndenumerate(shown):
        colour = "white" if value > DARK else "black"
        axes.text(j, i, form.format(value), ha="center", va="center", fontsize=9, color=colour)


def _finish(axes: Any, across: str, up: str) -> None:
    axes.set_xlabel(across, fontsize=9)
    axes.set_ylabel(up, fontsize=9)
    axes.tick_params(labelsize=9)
    tidy(axes)
