"""The report of a choice of classes: report.md, report.json and plots, in one folder with the classes file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.ec.classes import CLASSES_FILE
from tvwrl.ec.classifier_report import ClassifierReport
from tvwrl.ec.comparison import Candidate, Comparison
from tvwrl.ec.plots import plot_classifier, plot_features, plot_members, plot_silhouettes
from tvwrl.ec.population import Population
from tvwrl.ec.representations import FeatureRepresentation
from tvwrl.markdown import markdown_table
from tvwrl.runs import provenance, write_json


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
