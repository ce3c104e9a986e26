"""`tvwrl.recommend_size`: how much a new application needs, from a few measurements of it and many of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.checks import at_least, one_of
from tvwrl.lrasched.predictors import PREDICTORS
from tvwrl.lrasched.profiles import Configuration, Profiles, read_configurations, read_profiles
from tvwrl.lrasched.recommender import Choice, Recommendation, Recommender
from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, OTHERS, OURS, WIDTH, new_figure, tidy
from tvwrl.runs import provenance, whole_file, whole_folder, write_csv, write_json
from tvwrl.types import InputError


def explain(found: Recommendation, source: str) -> str:
    """Markdown: the decision in words, then both curves as tables. `source` says what was learnt from."""
    goal, chosen = found.goal, found.configuration
    sign = ">=" if goal.higher_is_better else "<="
    known = "measured" if found.degree.measured[found.degree.chosen] else "predicted"
    words = [
        f"{found.application}: {source}. Goal: performance {sign} {goal.performance:g}, with the margin {sign} "
        f"{goal.limit:g}.",
        f"Recommended: {chosen.name}: {chosen.cpu:g} cores, {chosen.mem:g} GiB, at most {chosen.collocation} on a "
        f"machine; {known} performance {found.degree.expected:.3f}.",
    ]
    if not found.reached:
        none = "no degree of the sizes that might reach it is" if found.size.reached else "no configuration is"
        words.append(f"GOAL NOT REACHED: {none} expected to. This is the one expected to perform best.")
    passed = [c.name for c in found.size.configurations[: found.size.chosen]]
    promising = [n for n, met in zip(passed, goal.met(found.size.performance), strict=False) if met]
    if promising:
        words.append(f"Passed over, because no degree of theirs is expected to reach the goal: {', '.join(promising)}.")
    if found.size.measured.sum() < 2:
        words.append("The curve of sizes rests on one measurement: measure a second size, and ask again.")
    degrees = int(found.degree.measured.sum())
    if degrees < min(2, len(found.degree.configurations)):
        names = " and ".join(c.name for c in found.degree.configurations[-3:-1][::-1])
        count = "none" if found.assumed else "only one"
        words.append(
            f"The degree rests on other applications: {count} was measured. Measure e.g. {names}, and ask again."
        )
    if found.unused:
        words.append(f"Not used, because their sizes were not considered: {', '.join(found.unused)}.")
    tables = [
        f"{title}\n\n{_table(choice)}"
        for title, choice in (("Sizes, the smallest first", found.size), ("Degrees, the largest first", found.degree))
    ]
    return "\n\n".join([*words, *tables])


def _table(choice: Choice) -> str:
    rows = []
    for i, c in enumerate(choice.configurations):
        value = f"{choice.performance[i]:.3f}" if choice.measured[i] else ""
        numbers = [f"{c.cpu:g}", f"{c.mem:g}", str(c.collocation), f"{choice.predicted[i]:.3f}", value]
        rows.append([c.name, *numbers, "<- chosen" if i == choice.chosen else ""])
    head = ("configuration", "cores", "GiB", "on a machine", "predicted", "measured", "")
    return markdown_table(head, rows)


def plot_recommendation(found: Recommendation, file: Path, title: str) -> None:
    """Write a PNG of both curves: predictions, measurements, the goal and the choice."""
    choices = {"Size,\nthe smallest first": found.size, "Replicas on a machine,\nthe most first": found.degree}
    counts = [len(choice.configurations) for choice in choices.values()]
    figure = new_figure(WIDTH, 4.6)
    axes = figure.subplots(1, 2, width_ratios=[max(count, sum(counts) / 3) for count in counts], sharey=True)
    for axis, (label, choice) in zip(axes, choices.items(), strict=True):
        x, known, chosen = np.arange(len(choice.configurations)), choice.measured, choice.chosen
        axis.plot(x, choice.predicted, "-o", color=COLOURS[0], ms=4, lw=1.4, label="predicted")
        axis.plot(x[known], choice.performance[known], "D", color=OTHERS, ms=7, label="measured")
        axis.axhline(found.goal.performance, color=OTHERS, lw=1.2, label="goal")
        axis.axhline(found.goal.limit, color=OTHERS, lw=1.2, ls="--", label="goal with margin")
        ring = {"ls": "", "marker": "o", "ms": 15, "mfc": "none", "mec": OURS, "mew": 2}
        axis.plot(chosen, choice.performance[chosen], **ring, label="recommended")
        axis.set_xticks(x, [c.name for c in choice.configurations], rotation=60, ha="right", rotation_mode="anchor")
        axis.tick_params(labelsize=9)
        axis.set_ylim(0, 1.08)
        axis.set_title(label + ("" if choice.reached else ":\ngoal not reached"), fontsize=10)
        tidy(axis, "y")
    better = "higher" if found.goal.higher_is_better else "lower"
    axes[0].set_ylabel(f"performance ({better} is better)", fontsize=9.5)
    figure.suptitle(title, fontsize=10)
    legend = axes[0].get_legend_handles_labels()
    figure.legend(*legend, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.savefig(file, dpi=DPI, format="png")


@dataclass(frozen=True)
class Sizing:
    """A recommendation and what it was learnt from; printing it explains the decision.

    Parameters
    ----------
    recommendation : Recommendation
        Size and degree, with the curves that they rest on.
    source : str
        What it was learnt from, in a few words.
    predictor : str
        A key of `PREDICTORS`.
    note : str
        What was left out, and why.

    Examples
    --------
    >>> print(recommend_size("profiles.csv", "new.csv", goal=0.8))  # doctest: +SKIP
    """

    recommendation: Recommendation
    source: str
    predictor: str
    note: str = ""

    @property
    def configuration(self) -> Configuration:
        """The recommended one: name, `cpu` (cores), `mem` (GiB) and `collocation` (replicas on a machine)."""
        return self.recommendation.configuration

    @property
    def reached(self) -> bool:
        """Whether it is expected to reach the goal with its margin."""
        return self.recommendation.reached

    def rows(self) -> list[dict[str, Any]]:
        """The curves that it rests on: a row per decision (size, then degree) and configuration."""
        return self.recommendation.rows()

    def write(self, folder: str | Path) -> Path:
        """Write recommendation.json, curve.csv and curve.png to a new folder; returns it.

        Parameters
        ----------
        folder : str or Path
            New or empty.

        Raises
        ------
        InputError
            The folder is a file or not empty.
        """
        found, folder = self.recommendation, Path(folder)
        facts = {"source": self.source, "predictor": self.predictor}
        with whole_folder(folder) as partial:
            write_json(partial / "recommendation.json", found.to_dict() | facts | provenance())
            write_csv(partial / "curve.csv", found.rows())
            with whole_file(partial / "curve.png") as picture:
                plot_recommendation(found, picture, f"{found.application} ({self.source})")
        return folder

    def __str__(self) -> str:
        return self.note + explain(self.recommendation, self.source)


def recommend_size(
    profiles: Profiles | str | Path,
    measured: Mapping[str, float] | str | Path,
    goal: float = 0.8,
    margin: float = 0.02,
    *,
    configurations: Sequence[Configuration] | str | Path | None = None,
    higher_is_better: bool = True,
    predictor: str = "factorization-machine",
    seed: int = 0,
) -> Sizing:
    """Recommend the smallest size of replicas that reaches a goal, then the most replicas that may share a machine.

    Parameters
    ----------
    profiles : Profiles, str or Path
        Earlier applications, at least two: `Profiles`, or a table (CSV or Parquet) of columns application,
        configuration and performance (0 to 1).
    measured : mapping, str or Path
        The new application: configuration -> performance (0 to 1), or such a table; two sizes at the lowest degree of
        collocation at least, then further degrees of the chosen size.
    goal : float
        The performance to reach, 0 to 1.
    margin : float
        Beyond the goal, against errors of prediction, 0 to 1.
    configurations : sequence of Configuration, str, Path or None
        The configurations, or a table of columns configuration, cpu (cores), mem (GiB) and, optionally, collocation;
        default: these columns of the table of profiles.
    higher_is_better : bool
        False where performance is a latency and the goal an upper limit; for tables only.
    predictor : str
        factorization-machine (the paper's), matrix-factorization or means.
    seed : int
        Of the predictor, >= 0.

    Returns
    -------
    Sizing
        The recommended configuration, and why.

    Raises
    ------
    InputError
        A table that cannot be read (with file, row and field), fewer than two earlier applications, an unknown
        configuration, or a value out of range.

    Examples
    --------
    >>> sizes = [Configuration("small", 1.0, 2.0), Configuration("large", 4.0, 8.0)]
    >>> grid = np.array([[0.5, 0.9], [0.6, 1.0], [0.4, 0.8]])
    >>> history = Profiles.of_grid(["a", "b", "c"], ["small", "large"], grid)
    >>> found = recommend_size(history, {"small": 0.55, "large": 0.95}, goal=0.9, configurations=sizes)
    >>> found.configuration.cpu, found.configuration.mem, found.configuration.collocation
    (4.0, 8.0, 1)
    """
    one_of(PREDICTORS, predictor=predictor)
    at_least(0, seed=seed)
    given: Any = profiles if configurations is None else configurations
    if isinstance(given, str | Path):
        given = read_configurations(Path(given))
    if isinstance(given, Profiles) or not all(isinstance(one, Configuration) for one in given):
        raise InputError("configurations is needed in addition to Profiles: Configuration objects, or a table of them")
    offered: tuple[Configuration, ...] = tuple(given)
    names = [one.name for one in offered]
    history = profiles if isinstance(profiles, Profiles) else read_profiles(Path(profiles), names, higher_is_better)
    if isinstance(measured, Mapping):
        application, known = "the new application", dict(measured)
    else:
        new = read_profiles(Path(measured), names, history.higher_is_better)
        if len(new.applications) > 1:
            raise InputError(f"{measured}: holds {len(new.applications)} applications: must be one, the new one")
        application = new.applications[0]
        known = {names[c]: float(y) for c, y in zip(new.configuration, new.performance, strict=True)}
    recommender = Recommender(history, offered, PREDICTORS[predictor], seed)
    where = "the profiles" if isinstance(profiles, Profiles) else Path(profiles).name
    note = ""
    if recommender.left_out:
        left = ", ".join(recommender.left_out)
        note = f"Left out, because no application of {where} was measured in: {left}.\n\n"
    found = recommender.recommend(application, known, goal, margin)
    source = f"learnt from {len(history.applications)} applications of {where}"
    return Sizing(found, source, predictor, note)
