"""`tvwrl.recommend_size`: how much an application needs, from a few measurements of it and many of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.checks import at_least, hint
from tvwrl.input_tables import InputTable
from tvwrl.lrasched.advice import LEVEL, Advice, Asked, Prices, advise, order_of
from tvwrl.lrasched.outlook import AUTO, PerformanceModel
from tvwrl.lrasched.profiles import Configuration, Profiles, read_configurations, read_profiles
from tvwrl.lrasched.target import Target, plain
from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, OTHERS, OURS, WIDTH, new_figure, tidy
from tvwrl.runs import provenance, whole_file, whole_folder, write_csv, write_json
from tvwrl.types import InputError

SCATTER = 2.0  # times by which measurements of one pair differ, above which that is said
WIDE = 30.0  # times, beyond which performance is drawn on a logarithmic axis


def explain(found: Advice, source: str) -> str:
    """Markdown: the decision in words, then what to expect of sizes and of degrees. `source`: what was learnt from."""
    target, chosen = found.asked.target, found.configuration
    low, high = np.sort(found.outlook.interval(LEVEL)[:, found.chosen])
    expected, probability = found.outlook.expected[found.chosen], found.probability[found.chosen]
    seen = (
        f"{target.said(expected)} is expected, and {plain(low)} to {target.said(high)} with a probability of {LEVEL:g}"
    )
    if chosen.name in found.measured:
        seen = f"{target.said(found.measured[chosen.name])} was measured there"
    title = "Recommended" if found.reached else "Most probable" if probability > 0.0 else "Expected to perform best"
    words = [
        f"{found.application}: {source}, predicted by {found.outlook.predictor}. Goal: {target}, with a probability of "
        f"at least {found.asked.sure:g}."
    ]
    if not found.reached:
        words.append("NOT SURE ENOUGH: no configuration meets the goal so surely.")
    words.append(
        f"**{title}: {chosen.name}: {_cores(chosen.cpu)}, {chosen.mem:g} GiB, at most {chosen.collocation} on a "
        f"machine{_priced(found)}.** It meets the goal with a probability of {_chance(probability)}: {seen}."
    )
    if (after := found.next_measurement) is not None:
        name, now = after.configuration.name, float(found.cost[found.chosen])
        if not found.reached:
            more = f"with a probability of {after.chance:.2f} one is sure enough then"
        elif plain(after.cost) != plain(now):
            more = f"where one is sure enough then, it costs {plain(after.cost)} on average, and {plain(now)} now"
        else:
            more = (
                f"where one is sure enough then, {after.degree:.2g} replicas may share a machine on average, and "
                f"{chosen.collocation} now"
            )
        words.append(f"Measure {name} next: {more}.")
    words += found.notes
    configurations, least = found.configurations, min(one.collocation for one in found.configurations)
    order = order_of(found.cost, configurations)
    sizes = [i for i in order if configurations[i].collocation == least]
    degrees = [i for i in order if configurations[i].size == chosen.size]
    tables = [f"Sizes, the cheapest first\n\n{_table(found, sizes)}"]
    if len(degrees) > 1:
        tables.append(
            f"Replicas of {_cores(chosen.cpu)} and {chosen.mem:g} GiB on a machine\n\n{_table(found, degrees)}"
        )
    return "\n\n".join([*words, *tables])


def _cores(number: float) -> str:
    """1 core, 2 cores."""
    return f"{number:g} core{'' if number == 1 else 's'}"


def _chance(probability: float) -> str:
    """A probability, rounded down, so that none reads as certain that is not."""
    return f"{np.floor(100 * probability + 1e-9) / 100:.2f}" if probability < 0.99 else f"{min(probability, 0.999):.3f}"


def _priced(found: Advice) -> str:
    prices = found.asked.prices
    return "" if prices is None else f", {plain(float(found.cost[found.chosen]))} {prices.currency}".rstrip()


def _table(found: Advice, which: Sequence[int]) -> str:
    rows, target = [], found.asked.target
    (low, high), expected = found.outlook.interval(LEVEL), found.outlook.expected
    for i in which:
        c = found.configurations[i]
        value = plain(found.measured[c.name]) if c.name in found.measured else ""
        numbers = [
            f"{c.cpu:g}",
            f"{c.mem:g}",
            str(c.collocation),
            plain(float(found.cost[i])),
            value,
            plain(float(expected[i])),
        ]
        mark = "<- chosen" if i == found.chosen else "" if found.possible[i] else "no room"
        between = "" if c.name in found.measured else f"{plain(float(low[i]))} to {plain(float(high[i]))}"
        rows.append([c.name, *numbers, between, _chance(found.probability[i]), mark])
    unit = f" ({target.unit})" if target.unit else ""
    head = ("configuration", "cores", "GiB", "on a machine", "cost", f"measured{unit}", "expected")
    return markdown_table((*head, f"{LEVEL:.0%} interval", "goal met", ""), rows)


def plot_recommendation(found: Advice, file: Path, title: str) -> None:
    """Write a PNG of what to expect of sizes and of degrees: medians, bands, measurements, the goal and the choice."""
    configurations, target = found.configurations, found.asked.target
    least, order = min(one.collocation for one in configurations), order_of(found.cost, configurations)
    panels = {
        "Sizes, cheapest first": [i for i in order if configurations[i].collocation == least],
        "Replicas on a machine": [i for i in order if configurations[i].size == found.configuration.size],
    }
    counts = [len(which) for which in panels.values()]
    figure = new_figure(WIDTH, 4.6)
    axes = figure.subplots(1, 2, width_ratios=[max(count, sum(counts) / 3) for count in counts], sharey=True)
    (low, high), expected = found.outlook.interval(LEVEL), found.outlook.expected
    inner = found.outlook.interval(0.5)
    for axis, (label, which) in zip(axes, panels.items(), strict=True):
        x, names = np.arange(len(which)), [configurations[i].name for i in which]
        axis.fill_between(x, low[which], high[which], color=COLOURS[0], alpha=0.15, lw=0, label=f"{LEVEL:.0%} interval")
        axis.fill_between(x, inner[0][which], inner[1][which], color=COLOURS[0], alpha=0.3, lw=0, label="50% interval")
        axis.plot(x, expected[which], "-o", color=COLOURS[0], ms=4, lw=1.4, label="expected")
        known = [k for k, name in enumerate(names) if name in found.measured]
        axis.plot(known, [found.measured[names[k]] for k in known], "D", color=OTHERS, ms=7, ls="", label="measured")
        axis.axhline(target.limit, color=OTHERS, lw=1.2, ls="--", label="goal")
        ring = {"ls": "", "marker": "o", "ms": 15, "mfc": "none", "mec": OURS, "mew": 2}
        if found.chosen in which:
            axis.plot(which.index(found.chosen), expected[found.chosen], **ring, label="recommended")
        axis.set_xticks(x, names, rotation=60, ha="right", rotation_mode="anchor")
        axis.tick_params(labelsize=9)
        axis.set_title(label + ("" if found.reached else ":\nnot sure enough"), fontsize=10)
        if low.min() > 0.0 and high.max() > WIDE * low.min():
            axis.set_yscale("log")
        tidy(axis, "y")
    better = "higher" if target.higher_is_better else "lower"
    axes[0].set_ylabel(f"{target.name}{f', {target.unit}' if target.unit else ''} ({better} is better)", fontsize=9.5)
    figure.suptitle(title, fontsize=10)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    figure.savefig(file, dpi=DPI, format="png")


@dataclass(frozen=True)
class Sizing:
    """A recommendation and what it was learnt from; printing it explains the decision.

    Parameters
    ----------
    advice : Advice
        The configuration, what to expect of all of them, and what to measure next.
    source : str
        What it was learnt from, in a few words.
    note : str
        What was left out, and what was measured several times; paragraphs.

    Examples
    --------
    >>> print(recommend_size("history.csv", "new.csv", "p99 <= 20 ms"))  # doctest: +SKIP
    """

    advice: Advice
    source: str
    note: str = ""

    @property
    def configuration(self) -> Configuration:
        """The recommended one: name, `cpu` (cores), `mem` (GiB) and `collocation` (replicas on a machine)."""
        return self.advice.configuration

    @property
    def probability(self) -> float:
        """With which the goal is met there, 0 to 1."""
        return float(self.advice.probability[self.advice.chosen])

    @property
    def reached(self) -> bool:
        """Whether that is as much as was asked for."""
        return self.advice.reached

    def rows(self) -> list[dict[str, Any]]:
        """What to expect: a row per configuration, the cheapest first."""
        return self.advice.rows()

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
        found, folder, chosen = self.advice, Path(folder), self.configuration
        after = found.next_measurement
        facts = {
            "application": found.application,
            "goal": str(found.asked.target),
            "sure": found.asked.sure,
            "configuration": chosen.name,
            "cpu": chosen.cpu,
            "mem": chosen.mem,
            "collocation": chosen.collocation,
            "cost": float(found.cost[found.chosen]),
            "probability": self.probability,
            "reached": found.reached,
            "measure_next": None if after is None else after.configuration.name,
            "notes": [*self.note.split("\n\n")[:-1], *found.notes],
            "predictor": found.outlook.predictor,
            "error": found.outlook.error,
            "source": self.source,
            "curve": self.rows(),
        }
        with whole_folder(folder) as partial:
            write_json(partial / "recommendation.json", facts | provenance())
            write_csv(partial / "curve.csv", self.rows())
            with whole_file(partial / "curve.png") as picture:
                plot_recommendation(found, picture, f"{found.application} ({self.source})")
        return folder

    def __str__(self) -> str:
        return self.note + explain(self.advice, self.source)


def recommend_size(
    profiles: Profiles | str | Path,
    measured: Mapping[str, float] | str | Path | None = None,
    goal: Target | str | float = "0.8",
    *,
    application: str | None = None,
    configurations: Sequence[Configuration] | str | Path | None = None,
    sure: float = 0.9,
    machine: tuple[float, float] | None = None,
    prices: Prices | None = None,
    predictor: str = AUTO,
    monotone: bool = True,
    seed: int = 0,
) -> Sizing:
    """Recommend the cheapest size of replicas that meets a goal surely enough, and how many may share a machine.

    Parameters
    ----------
    profiles : Profiles, str or Path
        Earlier applications, at least two: `Profiles`, or a table (CSV or Parquet) of columns application,
        configuration and one that is called like what the goal limits (performance, p99, ...).
    measured : mapping, str, Path or None
        The application: configuration -> performance, or such a table; None: what `profiles` hold of `application`.
    goal : Target, str or float
        Such as `p99 <= 20 ms`; a number alone is the least performance there may be.
    application : str or None
        Its name. What `profiles` hold of it counts as measured.
    configurations : sequence of Configuration, str, Path or None
        The configurations, or a table of columns configuration, cpu (cores), mem (GiB) and, optionally, collocation;
        default: these columns of the table of profiles.
    sure : float
        Probability with which the goal has to be met, 0.5 to 0.995.
    machine : tuple of float or None
        Cores and GiB of a machine; replicas that share it do not get more together.
    prices : Prices or None
        Of a core and a GiB; None: a replica costs its share of the largest CPU plus its share of the largest memory.
    predictor : str
        auto (what predicts these profiles best), curves, factorization-machine, matrix-factorization or means.
    monotone : bool
        More CPU or memory is not worse, and more neighbours are not better.
    seed : int
        Of predictors that draw, >= 0.

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
    >>> rng = np.random.default_rng(0)
    >>> level = rng.uniform(0.3, 0.6, 20)
    >>> grid = np.stack([level, level + 0.35], axis=1)
    >>> history = Profiles.of_grid([f"app{i}" for i in range(20)], ["small", "large"], grid)
    >>> found = recommend_size(history, {"small": 0.55}, 0.8, configurations=sizes)
    >>> found.configuration.name, round(found.probability, 2)
    ('large', 0.95)
    """
    at_least(0, seed=seed)
    target = goal if isinstance(goal, Target) else Target.parse(str(goal))
    if isinstance(profiles, Profiles) and profiles.higher_is_better != target.higher_is_better:
        way = "at least" if profiles.higher_is_better else "at most"
        raise InputError(f"goal is {target}, but the profiles are of performance that is to be {way} a goal")
    given: Any = profiles if configurations is None else configurations
    if isinstance(given, str | Path):
        given = read_configurations(Path(given))
    if isinstance(given, Profiles) or not all(isinstance(one, Configuration) for one in given):
        raise InputError("configurations is needed in addition to Profiles: Configuration objects, or a table of them")
    offered: tuple[Configuration, ...] = tuple(given)
    names = [one.name for one in offered]
    if isinstance(profiles, Profiles):
        history, where = profiles, "the profiles"
    else:
        history, where = read_profiles(Path(profiles), names, target.higher_is_better, target.name), Path(profiles).name
    own, repeated, scatter = dict[str, float](), history.repeated, history.scatter
    if isinstance(measured, Mapping):
        own = dict(measured)
    elif measured is not None:
        new = read_profiles(Path(measured), names, target.higher_is_better, target.name)
        if len(new.applications) > 1:
            raise InputError(f"{measured}: holds {len(new.applications)} applications: must be one, the new one")
        if application not in (None, new.applications[0]):
            raise InputError(f"application is {application!r}, but {measured} holds {new.applications[0]!r}")
        application = new.applications[0]
        own, repeated = new.of_application(application), repeated + new.repeated
        scatter = float(np.maximum(scatter, new.scatter))
        _check_sizes(Path(measured), offered)
    if application is not None and application in history.applications:
        own = history.of_application(application) | own
        history = history.select(np.array([name != application for name in history.applications]))
    elif measured is None and application is not None:
        meant = hint(application, history.applications, listed_by="Or give what was measured of it")
        raise InputError(f"application is {application!r}: {where} has no row of it: {meant}")
    known = set(history.measured())
    left = [name for name in names if name not in known]
    offered = _apart([one for one in offered if one.name in known])
    for name in own:
        if name in left:
            raise InputError(f"{name!r} was measured in no earlier application, so nothing can be learnt from it")
    model = PerformanceModel(history, offered, target.higher_is_better, predictor, monotone, seed)
    found = advise(model, application or "the new application", own, Asked(target, sure, machine, prices))
    note = f"Left out, because no application of {where} was measured in: {', '.join(left)}.\n\n" if left else ""
    if repeated:
        apart = "" if scatter < SCATTER else f", with results that differ by a factor of up to {scatter:.3g}"
        apart = ", with results of both signs" if np.isnan(scatter) else apart
        was = "was" if repeated == 1 else "were"
        note += (
            f"Of pairs of application and configuration, {repeated} {was} measured several times{apart}: their mean "
            "counts.\n\n"
        )
    return Sizing(found, f"learnt from {len(model.applications)} applications of {where}", note)


def _check_sizes(path: Path, offered: Sequence[Configuration]) -> None:
    """Raises InputError if a table of measurements has sizes, and others than the configurations of these names."""
    if not {"cpu", "mem"} <= set(InputTable.read(path).columns):
        return
    known = {one.name: one for one in offered}
    for one in read_configurations(path):
        if (one.size, one.collocation) != (known[one.name].size, known[one.name].collocation):
            raise InputError(f"{path}: configuration {one.name!r} is {one} here, but {known[one.name]} in the history")


def _apart(configurations: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """The configurations by size, whatever the order of a file. Raises InputError if two have the same numbers."""
    same: dict[tuple[float, float, int], str] = {}
    for one in configurations:
        if (twin := same.setdefault((*one.size, one.collocation), one.name)) != one.name:
            raise InputError(f"configurations {twin!r} and {one.name!r} have the same cpu, mem and collocation")
    return tuple(sorted(configurations, key=lambda one: (*one.size, one.collocation)))
