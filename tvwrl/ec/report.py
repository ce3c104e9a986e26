"""The report of a choice of classes: report.md, report.json and plots, in one folder with the classes file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.ec.classes import CLASSES_FILE
from tvwrl.ec.classifier import ClassifierReport, Interval
from tvwrl.ec.clustering import KSearch
from tvwrl.ec.comparison import LIKELY, Candidate, Comparison
from tvwrl.ec.profiles import Profile
from tvwrl.ec.representations import TITLES, FeatureRepresentation, Population
from tvwrl.ec.stability import KEPT, RESAMPLES, SEEDS, STABLE
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
    profiles: list[Profile]  # of the chosen classes
    seconds: dict[str, float]  # by step
    facts: dict[str, Any]

    def write(self, folder: Path) -> None:
        """Write everything into `folder`, which exists."""
        self._plot(folder / "plots")
        chosen = self.comparison.chosen
        chosen.classes.save(folder / CLASSES_FILE)
        (folder / "report.md").write_text(self.text(), encoding="utf-8")
        content = self.facts | {
            "chosen": chosen.name,
            "why": self.comparison.why,
            "helps_forecasts": self.comparison.helps,
            "objections": {c.name: c.objections(len(self.comparison.candidates)) for c in self.comparison.candidates},
            "candidates": [candidate.to_dict() for candidate in self.comparison.candidates],
            "profiles": [profile.to_dict() for profile in self.profiles],
            "seconds": self.seconds,
            "labels": dict(zip(self.population.workload_id, self._labels.tolist(), strict=True)),
        }
        if self.comparison.chance is not None:
            content |= {"chance": self.comparison.chance.to_dict()}
        write_json(folder / "report.json", content | provenance())

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
        chosen = self.comparison.chosen
        plot_profiles(self.profiles, self.population, folder / f"day-{chosen.name}.png")
        for candidate in self.comparison.candidates:
            classes = candidate.classes
            plot_members(self.population, classes.labels_, classes.medoids_, folder / f"members-{candidate.name}.png")
            found = classes.representation_
            if isinstance(found, FeatureRepresentation):
                scaled, labels = found.scaled(self.population.series), range(1, classes.k + 1)
                means = np.array([scaled[classes.labels_ == label].mean(axis=0) for label in labels])
                plot_features(found.names_, means, folder / f"features-{candidate.name}.png")
        if chosen.recognition is not None:
            plot_classifier(chosen.recognition, folder / "classifier.png")

    def text(self) -> str:
        """report.md, which also reads well in a terminal."""
        chosen, count = self.comparison.chosen, len(self.population)
        slots = sorted(len(one) for one in self.population.series)
        lines = [
            "# Equivalence classes",
            "",
            self.trace,
            "",
            f"Classes are fitted on {count} workloads of {slots[0]} to {slots[-1]} slots: {self._part()}, in slots of "
            f"{self.population.step_seconds / 60:g} min.",
            "",
            *self._verdict(),
            f"Chosen to show to agents: **{chosen.name}** with {chosen.classes.k} classes; {self.comparison.why}.",
            "",
            "## Evidence",
            "",
            evidence_table(self.comparison.candidates),
            "",
            EVIDENCE_NOTE,
            "",
            *self._forecasts(),
            *_picture("silhouette against k", "silhouettes", self._searched()),
            *self._network(),
            f"## Classes of {chosen.name}",
            "",
            self._class_table(),
            "",
            "A name says how usage varies, whether it follows the day (hours since the trace began), and the mean of "
            f"the middle workload. {self._machine()}",
            "",
            *_picture("usage by hour of the day", f"day-{chosen.name}"),
            *_picture("members of the classes", f"members-{chosen.name}"),
            *_picture("features of the classes", f"features-{chosen.name}", chosen.name != "dtw"),
            *self._classifier_lines(),
            "## Time",
            "",
            markdown_table(["step", "seconds"], [[name, f"{spent:.1f}"] for name, spent in self.seconds.items()]),
            "",
        ]
        return "\n".join(lines)

    def _part(self) -> str:
        """Of the trace's series, those that classes are fitted on."""
        made_of = self.facts["made_of"]
        if made_of["of"] == "all":
            return "all of the trace's workloads"
        if made_of["split"] == "time":
            return "the first part of the series of the trace's workloads, which is for training"
        return f"the training part of the trace's workloads (--split {made_of['split']})"

    def _verdict(self) -> list[str]:
        """Whether classes help to forecast, and for each representation what speaks against it."""
        found = self.comparison
        tried = len(found.candidates)
        helping = [c.name for c in found.candidates if not c.objections(tried)]
        if helping:
            answer = f"**Classes help to forecast here:** those of {', '.join(helping)}."
        else:
            answer = "**No classes for forecasts:** nothing shows that classes help to forecast here."
        lines = [f"- {c.name}: {'; '.join(why)}" for c in found.candidates if (why := c.objections(tried))]
        if (application := self.population.application) is not None:
            count = len(np.unique(application))
            gains = [c.linear for c in found.candidates if c.linear is not None]
            none_small = bool(gains) and all(gain.least_p * tried > LIKELY for gain in gains)
            few = ". They are too few for an answer" if factorial(count) < tried / LIKELY or none_small else ""
            lines.append(
                f"- these are {len(self.population)} workloads of {count} applications: whole applications are held "
                f"out, and in random divisions whole applications exchange their classes (workloads of the same "
                f"series count as one application){few}"
            )
        return [answer, "", *lines, *([""] if lines else [])]

    @property
    def _held_out(self) -> str:
        """What is held out whole."""
        return "workloads" if self.population.application is None else "applications"

    def _forecasts(self) -> list[str]:
        linear = self.comparison.chosen.linear
        if linear is None:
            return [f"Nothing was forecast: {self.comparison.chosen.no_forecasts}.", ""]
        return [
            f"Forecasts {linear.horizon} slots ahead from {linear.window} slots, by linear models of workloads that "
            f"they have not seen; that usage stays what it is: r = {linear.last_value:.3f}. Each workload is forecast "
            "by the model of the class of its whole series, so the gain is the most that knowing the class could give. "
            f"p: how often {len(linear.permuted)} random divisions, in which {self._held_out} exchange their classes, "
            "gain as much; with "
            f"{len(self.comparison.candidates)} representations tried, at most "
            f"{LIKELY / len(self.comparison.candidates):.3f} is called more than chance.",
            "",
        ]

    def _network(self) -> list[str]:
        """The paper's gain, where it was measured."""
        gains = [candidate.gain for candidate in self.comparison.candidates if candidate.gain is not None]
        if not gains:
            return []
        gain, chance = gains[0], self.comparison.chance
        verdict = "The forecaster beats them."
        if not gain.beats_plain_rules:
            verdict = "Mind: the forecaster does not beat them, so f and EG mean nothing."
        replicas = ""
        if self.population.application is not None:
            replicas = ", of which replicas may have been learnt from: here no applications are held out whole"
        dealt = (
            f" The labels of the highest EG dealt out at random reach {chance.effective_gain:.2f}." if chance else ""
        )
        return [
            "## The paper's gain",
            "",
            network_table(self.comparison.candidates),
            "",
            "LSTNet by class and of all workloads. f: share of workloads in classes that gain; EG: effective "
            "prediction gain, %, which counts only classes that gain; r: mean correlation of forecast and usage over "
            f"held-out workloads{replicas}. The last value reaches r = {gain.last_value:.3f}, the value a day before "
            f"{gain.seasonal:.3f}. {verdict}{dealt}",
            "",
        ]

    def _machine(self) -> str:
        machine = self.facts.get("machine")
        if self.population.unit is None or machine is None:
            return ""
        if isinstance(machine, Mapping):
            machine = ", ".join(f"{name} {value:g}" for name, value in machine.items() if value is not None)
        return f"A machine is that of the trace: {machine}."

    def _class_table(self) -> str:
        chosen = self.comparison.chosen
        rows = []
        for profile in self.profiles:
            medoid = str(self.population.workload_id[chosen.classes.medoids_[profile.label - 1]])
            rows.append([str(profile.label), str(profile.workloads), profile.name, medoid])
        return markdown_table(["class", "workloads", "usage", "most typical"], rows)

    def _classifier_lines(self) -> list[str]:
        report = self.comparison.chosen.recognition
        if report is None:
            return ["There are too few workloads, or applications, to hold some out for the run-time classifier.", ""]
        names = [f"{profile.label}: {profile.name}" for profile in self.profiles]
        return [
            "## Run-time classifier",
            "",
            f"Trained on {1 - report.share:.0%} of the {self._held_out} and asked about {report.workloads} workloads "
            f"of the others, {report.splits} times; the commonest class alone reaches {report.commonest:.1%}; over all "
            f"lengths seen the classifier is right {points(report.advantage)} points more often; expected calibration "
            f"error {report.calibration_error:.3f}.",
            "",
            markdown_table(
                ["slots seen", *map(str, report.seen)], [["right, %", *(percent(a) for a in report.accuracy)]]
            ),
            "",
            "Intervals: 95 %, over the splits. Answers by true class, of all splits and lengths seen:",
            "",
            confusion_table(report.confusion, names),
            "",
            *_picture("accuracy, confusion, calibration", "classifier"),
        ]


EVIDENCE_NOTE = (
    f"k: number of classes. Same with other seeds, same in samples: adjusted Rand index, 1 = the same classes, over "
    f"{SEEDS} other seeds, and over {RESAMPLES} samples of {KEPT:.0%} of the workloads (smallest in brackets). "
    "Recognised: percentage points by which the run-time classifier is right more often about new workloads than who "
    "always guesses the commonest class [95 % interval over repeated splits]. r: correlation of forecast and usage, "
    "mean over workloads that were held out. Classes help to forecast where both indices are at least "
    f"{STABLE:g}, both ends of the interval are above 0, the gain is above 0, and p is small."
)


def evidence_table(candidates: Sequence[Candidate]) -> str:
    """A row per representation."""
    rows = []
    for candidate in candidates:
        search, stable, linear = candidate.classes.search_, candidate.stability, candidate.linear
        row = [candidate.name, str(candidate.classes.k)]
        row.append(f"{search.mean[search.ks.index(search.k)]:.3f}" if search else "-")
        if stable is None:
            row += ["-", "-"]
        else:
            row += [f"{stable.over_seeds:.2f} ({min(stable.seeds):.2f})"]
            row += [f"{stable.over_resamples:.2f} ({min(stable.resamples):.2f})"]
        row.append(points(candidate.recognition.advantage) if candidate.recognition else "-")
        if linear is None:
            row += ["-"] * 4
        else:
            row += [f"{linear.by_class:.3f}", f"{linear.of_all:.3f}", f"{linear.gain:+.3f}", f"{linear.p:.3f}"]
        rows.append(row)
    head = ["representation", "k", "silhouette", "same with other seeds", "same in samples", "recognised, points"]
    return markdown_table([*head, "r by class", "r of all", "gain", "p"], rows)


def points(interval: Interval) -> str:
    """A difference of shares in percentage points, with its interval.

    >>> points(Interval(0.19, 0.081, 0.3))
    '+19 [+8, +30]'
    """
    if np.isnan(interval.mean):
        return "-"
    mean, low, high = (f"{100 * value:+.0f}" for value in interval)
    return mean if np.isnan(interval.low) else f"{mean} [{low}, {high}]"


def percent(interval: Interval) -> str:
    """A share in per cent, with its interval, cut at 0 and 100."""
    if np.isnan(interval.mean):
        return "-"
    mean, low, high = (f"{100 * min(max(value, 0.0), 1.0):.0f}" for value in interval)
    return mean if np.isnan(interval.low) else f"{mean} [{low}, {high}]"


def confusion_table(confusion: Int, names: Sequence[str]) -> str:
    """Counts and shares of the answers by true class: a row per class, in which shares add up to 100 %."""
    rows = []
    for name, row in zip(names, confusion, strict=True):
        total = row.sum()
        cells = [f"{n:,} ({n / total:.0%})" if total else "-" for n in row.tolist()]
        rows.append([name, *cells])
    return markdown_table(["true class", *(f"answer {n}" for n in range(1, len(names) + 1))], rows)


def network_table(candidates: Sequence[Candidate]) -> str:
    """LSTNet's gains, a row per representation."""
    rows = []
    for candidate in candidates:
        if (gain := candidate.gain) is not None:
            rs = [f"{r:.3f}" if np.isfinite(r) else "-" for r in (gain.correlation, gain.agnostic)]
            rows.append([candidate.name, f"{gain.fraction:.2f}", f"{gain.effective_gain:.2f}", *rs])
    return markdown_table(["representation", "f", "EG", "r, by class", "r, of all"], rows)


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


def plot_profiles(found: Sequence[Profile], population: Population, path: Path) -> None:
    """A row per class, a column per resource: median workload by hour of the day, and the quartiles around it."""
    shown, unit = found[:MOST_CLASSES], "units" if population.unit is None else "%"
    factor = 1 if population.unit is None else 100
    figure = new_figure(WIDTH, 1.6 * len(shown) + 0.8)
    grid = figure.subplots(len(shown), len(population.resources), squeeze=False, sharex=True)
    for row, profile in zip(grid, shown, strict=True):
        for d, (axes, name) in enumerate(zip(row, population.resources, strict=True)):
            low, middle, high = factor * profile.by_hour[:, d].T
            hours, colour = np.arange(len(middle)), COLOURS[d % len(COLOURS)]
            axes.fill_between(hours, low, high, color=colour, alpha=0.2, lw=0, label="middle half of the workloads")
            axes.plot(hours, middle, color=colour, lw=1.5, label="median")
            axes.set_ylim(bottom=0)
            axes.set_xticks(range(0, len(middle) + 1, 6))
            last = profile is shown[-1]
            _finish(axes, "hour of the trace's day" if last else "", f"{people_call(name)}, {unit}")
        row[0].set_title(f"class {profile.label}: {profile.habit}", fontsize=10, loc="left")
        row[-1].set_title(profile.size, fontsize=10, loc="right")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, **LEGEND)
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
    accuracy.plot(range(len(report.seen)), [100 * share.mean for share in report.accuracy], "o-", ms=4, color=OURS)
    low, high = ([100 * getattr(share, end) for share in report.accuracy] for end in ("low", "high"))
    accuracy.fill_between(range(len(report.seen)), low, high, color=OURS, alpha=0.15, lw=0)
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
