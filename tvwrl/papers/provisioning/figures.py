"""Figures 3 to 7 of the provisioning paper: the instances and algorithms that each needs, and its tables and plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from tvwrl.checks import at_least, different, one_of
from tvwrl.experiments import (
    Cell,
    Report,
    Rows,
    RunOptions,
    bootstrap_interval,
    column,
    distinct,
    paired_bootstrap,
    read_cell_rows,
    select,
)
from tvwrl.markdown import markdown_table
from tvwrl.papers.provisioning.cells import KNOWN, PlanCell, base_instance
from tvwrl.papers.provisioning.published import (
    FEW,
    FIGURES,
    GRAPHS,
    INSTANCES,
    SPREADING,
    STUDIES,
    Figure,
    Measurement,
    Measurements,
    Reference,
    read_reference,
)
from tvwrl.planning import ABOVE, BETTER, SECONDS, SHORTEST, rows_of, title_of_planner
from tvwrl.plotting import NOTHING, Panel, Point, draw_estimates

Where = tuple[str, int]  # graph, value of what is varied
Means = dict[Where, Measurements]
DEVIATION_TITLE, SECONDS_TITLE = "Machines above the lower bound, %", "Seconds of the solve"
DIFFERENT = 0.1  # percentage points from which on two published deviations are taken to differ
HERE = "here"
FELL_BACK = "\\*: spreading failed at First-Fit's count, and First-Fit's plan was given."


def means_of(rows: Rows) -> Means:
    """Mean deviation, seconds and machines of every algorithm, by graph and value."""
    found: dict[Where, dict[str, Rows]] = {}
    for row in rows:
        found.setdefault((row["graph"], row["value"]), {}).setdefault(row["algorithm"], []).append(row)

    def mean(rows: Rows) -> Measurement:
        deviation, seconds, machines = (
            float(np.mean([row[column] for row in rows])) for column in ("deviation_pct", "seconds", "machines")
        )
        return Measurement(deviation, seconds, round(machines))

    return {where: {name: mean(own) for name, own in algorithms.items()} for where, algorithms in found.items()}


def mean_over(groups: Sequence[Measurements]) -> Measurements:
    """Means over groups, of the algorithms that all of them have."""
    common = [name for name in groups[0] if all(name in group for group in groups)] if groups else []

    def mean(name: str, of: int) -> float:
        return float(np.mean([group[name][of] for group in groups]))

    return {name: Measurement(mean(name, 0), mean(name, 1)) for name in common}


@dataclass(frozen=True)
class _Results:
    """What the tables of a figure compare."""

    figure: Figure
    drawn: Means  # here, on drawn instances
    published: Means  # by the authors, for the same graphs and values
    known: dict[str, Measurements]  # here, on instances of the reference folder
    reference: Reference
    rows: Rows  # of what was drawn


def tables_of(name: str, rows: Rows, reference: Reference) -> str:
    """The tables of a figure in Markdown, below a heading."""
    figure = FIGURES[name]
    drawn_rows = [row for row in rows if row["study"] != KNOWN]
    drawn = means_of(drawn_rows)
    published = {where: reference.results.get((figure.study, *where), {}) for where in drawn}
    known = {where[0]: own for where, own in means_of(select(rows, study=KNOWN)).items()}
    results = _Results(figure, drawn, published, known, reference, drawn_rows)
    parts = [f"# {figure.title}"]
    if drawn:
        parts.append(_counts(figure, drawn_rows))
        brackets = " (the authors' published results in brackets)" if reference.folder else ""
        sections = _sections(name, results)
        for title, text, of in ((DEVIATION_TITLE, figure.deviation, 0), (SECONDS_TITLE, figure.seconds, 1)):
            parts += [
                f"{title}{brackets}; last column: what the paper's text says.",
                _table(results, sections, text, of),
            ]
        parts.append(_order(results))
    parts += [_known_instance(instance, own, reference) for instance, own in known.items()]
    return "\n\n".join([*parts, _claims(results)]) + "\n"


def _counts(figure: Figure, rows: Rows) -> str:
    """How many instances there are of each graph and value."""
    numbers: dict[Where, set[int]] = {}
    for row in rows:
        numbers.setdefault((row["graph"], row["value"]), set()).add(row["number"])
    describe = STUDIES[figure.study].describe
    counts = [f"{graph}, {describe(value)}: {len(own)}" for (graph, value), own in numbers.items()]
    return f"Instances drawn here: {'; '.join(counts)}."


def _sections(name: str, results: _Results) -> dict[str, dict[str, list[Where]]]:
    """Blocks of a table -> its columns -> the groups that a column is the mean of. Figure 3 has one of each."""
    if name == "fig3":
        return {"all graphs": {"mean of all": list(results.drawn)}}
    study = STUDIES[results.figure.study]
    blocks: dict[str, dict[str, list[Where]]] = {}
    for graph in dict.fromkeys(graph for graph, _ in results.drawn):
        own = sorted(where for where in results.drawn if where[0] == graph)
        blocks[graph] = {study.describe(where[1]): [where] for where in own}
        if len(own) > 1:
            blocks[graph]["mean"] = own
    return blocks


def _table(
    results: _Results, sections: Mapping[str, Mapping[str, list[Where]]], text: Mapping[str, str], of: int
) -> str:
    columns = list(dict.fromkeys(column for own in sections.values() for column in own))
    body: list[list[str]] = []
    for block, own in sections.items():
        body += [[f"*{block}*", *[""] * (len(columns) + 1)]] if len(sections) > 1 else []
        ours = {c: mean_over([results.drawn[where] for where in wheres]) for c, wheres in own.items()}
        theirs = {c: mean_over([results.published[where] for where in wheres]) for c, wheres in own.items()}
        for name in results.figure.algorithms:
            cells = [_both(ours.get(c, {}).get(name), theirs.get(c, {}).get(name), of) for c in columns]
            if any(cells):
                body.append([name, *cells, text.get(name, "")])
    return markdown_table(["algorithm", *columns, "text"], body)


def _both(ours: Measurement | None, theirs: Measurement | None, of: int) -> str:
    if ours is None:
        return ""
    return _format(ours[of], of) + (f" ({_format(theirs[of], of)})" if theirs else "")


def _format(value: float, of: int) -> str:
    """A deviation (`of` 0) or seconds (1)."""
    if of == 0:
        return f"{value:.2f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Agreement(NamedTuple):
    """How the order of algorithms here agrees with another."""

    pairs: int  # that differ there
    same: int  # of these, in the same order here
    reversed: int  # in the other order by more than chance, paired by instance


def agreement(ours: Measurements, theirs: Measurements, rows: Rows) -> Agreement:
    """Pairs of algorithms whose deviations differ in `theirs`, and how they rank here, where `rows` were measured,
    each of one algorithm on one instance."""
    pairs = [
        (a, b) if theirs[a].deviation < theirs[b].deviation else (b, a)
        for a, b in combinations([name for name in ours if name in theirs], 2)
        if abs(theirs[a].deviation - theirs[b].deviation) >= DIFFERENT
    ]
    same = [ours[better].deviation < ours[worse].deviation for better, worse in pairs]
    found: dict[str, dict[Hashable, float]] = {}  # deviation by algorithm and instance
    for row in rows:
        found.setdefault(row["algorithm"], {})[row["graph"], row["value"], row["number"]] = row["deviation_pct"]
    told = [_is_more(found.get(better, {}), found.get(worse, {})) for better, worse in pairs]
    return Agreement(len(pairs), sum(same), sum(told))


def _is_more(one: Mapping[Hashable, float], other: Mapping[Hashable, float]) -> bool:
    """Whether values are larger than others by more than chance, paired by instance."""
    both = [name for name in one if name in other]
    first, second = (np.array([of[name] for name in both]) for of in (one, other))
    return len(both) > 1 and paired_bootstrap(first, second)[1] > 0.0


def _order(results: _Results) -> str:
    """The algorithms by mean deviation, here and in the authors' results."""
    lines = []
    ours, theirs = mean_over(list(results.drawn.values())), mean_over(list(results.published.values()))
    theirs = {name: one for name, one in theirs.items() if name in ours}
    for who, found in ((HERE, ours), ("in the authors' results", theirs)):
        if found:
            ranked = sorted(found, key=lambda name: found[name].deviation)
            order = ", ".join(f"{name} {found[name].deviation:.2f}" for name in ranked)
            lines.append(f"- order {who}, mean % above the bound: {order}")
    both = agreement(ours, theirs, results.rows)
    if both.pairs:
        lines.append(
            f"- of {both.pairs} pairs of algorithms that differ by {DIFFERENT} points or more there, "
            f"{both.same} are in the same order here, and {both.reversed} in the other one by more than chance"
        )
    return "\n".join(lines)


def _known_instance(instance: str, ours: Measurements, reference: Reference) -> str:
    """Results here beside those of the released code, as it is and with floating point."""
    released, floating = reference.released.get(instance, {}), reference.floating.get(instance, {})
    body = []
    for name, own in ours.items():
        right, shipped = floating.get(name), released.get(name)
        change = f"{100 * (own.machines / right.machines - 1):+.2f}" if right else ""
        machines = [f"{own.machines:,}", _machines(right), change, _machines(shipped)]
        times = [_format(own.seconds, 1), *(_format(one.seconds, 1) if one else "" for one in (right, shipped))]
        body.append([name, f"{own.deviation:.2f}", *machines, *times])
    head = ["algorithm", "% above the bound", "machines", "C++, floating point", "difference, %", "C++ as released"]
    head += ["seconds", "C++, floating point", "C++ as released"]
    text = f"## {instance}\n\n{markdown_table(head, body)}"
    return f"{text}\n\n{FELL_BACK}" if "*" in text else text


def _machines(one: Measurement | None) -> str:
    return "" if one is None else f"{one.machines:,}{'*' * one.fell_back}"


def _claims(results: _Results) -> str:
    """In how many groups, and on how many of the known instances, each ranking of the text holds."""
    known, reference = results.known, results.reference
    sides: dict[str, Iterable[Measurements]] = {
        HERE: results.drawn.values(),
        "authors' results": results.published.values(),
    }
    if known:
        sides |= {"here, known instances": known.values()}
        sides |= {"C++ as released": [reference.released.get(one, {}) for one in known]}
        sides |= {"C++, floating point": [reference.floating.get(one, {}) for one in known]}
    body = []
    for claim in results.figure.claims:
        verdicts = [[claim.holds({n: o.deviation for n, o in one.items()}) for one in of] for of in sides.values()]
        known_verdicts = [[verdict for verdict in own if verdict is not None] for own in verdicts]
        body.append([claim.text, *(f"{sum(own)} of {len(own)}" if own else "-" for own in known_verdicts)])
    return "Do the claims of the text hold?\n\n" + markdown_table(["claim", *sides], body)


Group = tuple[Where, ...]  # graphs and values that a point is the mean over
SIDES = "spreading, the paper's best", "others"


def plots_of(name: str, rows: Rows, reference: Reference) -> dict[str, Callable[[Path], None]]:
    """`plot` and what draws it, if the rows suffice: Figure 3 is over all groups of instances, as is its table."""
    drawn = [row for row in rows if row["study"] != KNOWN]
    if name == "fig3":
        return {"plot": partial(_plot_all, drawn or rows, reference)} if rows else {}
    return {"plot": partial(_plot, name, drawn, reference)} if drawn else {}


def _plot_all(rows: Rows, reference: Reference, file: Path) -> None:
    """Deviation and seconds, means over all groups that rows are of."""
    panels = _panels(rows, reference, "", [tuple(means_of(rows))])
    _draw(rows, panels, [""], f"means over {len({row['instance'] for row in rows})} instances", file)


def _plot(name: str, rows: Rows, reference: Reference, file: Path) -> None:
    """A column of panels for each graph, and a point for each value; if there is one value, a point for each graph."""
    study = STUDIES[FIGURES[name].study]
    graphs, values = distinct(rows, "graph"), sorted(distinct(rows, "value"))
    varied = [("density " if study.varied == "density" else "") + study.describe(value) for value in values]
    if len(values) == 1:
        panels = _panels(rows, reference, "", [((graph, values[0]),) for graph in graphs])
        _draw(rows, panels, [f"{graph} graph" for graph in graphs], f"{varied[0]}; {_counted(rows)}", file)
        return
    pairs = [
        _panels(rows, reference, f" ({graph} graphs)", [((graph, value),) for value in values]) for graph in graphs
    ]
    panels = [panel for kind in zip(*pairs, strict=True) for panel in kind]
    _draw(rows, panels, varied, _counted(rows), file, len(graphs))


def _draw(
    rows: Rows, panels: Sequence[Panel], series: Sequence[str], caption: str, file: Path, across: int = 2
) -> None:
    found = means_of(rows).values()
    names = {name: [one[name].deviation for one in found if name in one] for name in distinct(rows, "algorithm")}
    shown = rows_of({name: float(np.mean(values)) for name, values in names.items()}, SPREADING)
    draw_estimates(
        file,
        shown,
        panels,
        series,
        across=across,
        sides=SIDES,
        caption=f"{caption[0].upper()}{caption[1:]}; {BETTER}",
    )


def _panels(rows: Rows, reference: Reference, of: str, groups: Sequence[Group]) -> list[Panel]:
    """Deviation and seconds by algorithm, a point for each of the groups, with what was published."""
    study = rows[0]["study"]
    theirs = [mean_over([reference.results.get((study, *where), {}) for where in group]) for group in groups]
    names = distinct(rows, "algorithm")
    panels = []
    for place, (title, field) in enumerate(((ABOVE, "deviation_pct"), (SECONDS, "seconds"))):
        points = {title_of_planner(name): [_point(rows, name, field, group) for group in groups] for name in names}
        panels.append(
            Panel(f"{title}{of}", points, _published(names, theirs, place), logarithmic=field == "seconds", axis=field)
        )
    return panels


def _published(
    names: Iterable[str], theirs: Sequence[Measurements], place: int
) -> Mapping[str, Sequence[tuple[float, float]]]:
    known = [name for name in names if all(name in one for one in theirs)]
    return {title_of_planner(name): [(one[name][place], one[name][place]) for one in theirs] for name in known}


def _point(rows: Rows, name: str, field: str, group: Group) -> Point:
    """Mean over groups; its interval is over the numbers of instances, of which each has one in every group."""
    values = [column(rows, field, algorithm=name, graph=graph, value=value) for graph, value in group]
    together = min(map(len, values))
    if together == 0:
        return NOTHING
    values = [np.maximum(one, SHORTEST) for one in values] if field == "seconds" else values
    mean = float(np.mean([one.mean() for one in values]))
    return Point(mean, *bootstrap_interval(np.mean([one[:together] for one in values], axis=0)))


def _counted(rows: Rows) -> str:
    """What a point is the mean over."""
    names = Counter((row["graph"], row["value"], row["algorithm"]) for row in rows).values()
    least, most = min(names), max(names)
    if most == 1:
        return "one instance each"
    return f"means over {most if least == most else f'{least} to {most}'} instances each"


class Scale(NamedTuple):
    """How much a preset plans."""

    graphs: tuple[str, ...]
    instances: int  # of each graph and value
    shrink: int  # divides the number of applications


SCALES = {"smoke": Scale(GRAPHS[:1], 1, 50), "medium": Scale(GRAPHS, 3, 10), "paper": Scale(GRAPHS, INSTANCES, 1)}


@dataclass(frozen=True)
class ProvisioningStudy(RunOptions):
    """The paper's algorithms on generated instances, and on those used to measure its released code."""

    preset: Literal["smoke", "medium", "paper"] = "smoke"
    """smoke: one arbitrary graph, 50 times fewer applications, seconds; medium: 3 graphs with 3 instances each, 10
    times fewer applications, minutes; paper: the paper's sizes, 3 graphs with 10 instances each, hours."""
    graphs: tuple[str, ...] | None = None
    """Kinds of affinity graphs: arbitrary, normal, threshold; default: the preset's."""
    instances: int | None = None
    """Instances of each graph and value; default: the preset's."""
    densities: tuple[int, ...] = (1, 5, 10)
    """Affinity densities of Figures 3, 4 and 6, %."""
    application_counts: tuple[int, ...] = FEW
    """Numbers of applications of Figures 5 and 7."""
    base: str = "tianchi"
    """Instance or trace to draw applications, replicas and limits from, unless --reference-data has one."""
    reference_data: Path | None = None
    """Folder with published_summary.csv, reference.json and the instances that the released code was measured on."""
    seed: int = 0
    """Seed of the first instance of each kind; the others follow."""

    partial = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """Graphs to draw."""
        return SCALES[self.preset].graphs if self.graphs is None else self.graphs

    @property
    def count(self) -> int:
        """Instances per graph and value."""
        return SCALES[self.preset].instances if self.instances is None else self.instances

    def cells(self, figure: str) -> list[Cell]:
        """Every algorithm on known instances, then on drawn ones. Raises InputError for bad options or sources."""
        self._check()
        wanted, reference = FIGURES[figure], read_reference(self.reference_data)
        study = STUDIES[wanted.study]
        base = str(reference.instance("TClab_TS" if study.series else "TClab_2D") or self.base)
        if not (self.report_only or self.dry_run):
            base_instance(base, study.series)
        shrink = SCALES[self.preset].shrink
        return self._known(wanted, reference) + [
            PlanCell(wanted.study, graph, value, number, algorithm, base, shrink, self.seed)
            for number in range(self.count)
            for graph in self.kinds
            for value in sorted(self.densities if study.varied == "density" else self.application_counts)
            for algorithm in wanted.algorithms
        ]

    def report(self, figure: str, out: Path, cells: Sequence[PlanCell]) -> Report:
        """Tables beside what was published and measured, and a plot."""
        rows, reference = read_cell_rows(out, cells), read_reference(self.reference_data)
        text = tables_of(figure, rows, reference)
        if (shrink := SCALES[self.preset].shrink) > 1:
            title, _, rest = text.partition("\n")
            note = f"{self.preset.capitalize()}: drawn instances are {shrink} times smaller than the published ones, "
            note += "so do not compare them."
            text = f"{title}\n\n{note}\n{rest}"
            reference = Reference()  # a picture has no note, so published values do not stand in it
        return Report(text, rows, plots_of(figure, rows, reference))

    def _known(self, figure: Figure, reference: Reference) -> list[Cell]:
        """Cells of the instances that the reference folder has, by the figure's algorithms and all measured there."""
        files = {
            name: file
            for name in (figure.known if self.preset == "paper" else figure.small)
            if (file := reference.instance(name))
        }
        return [
            PlanCell(KNOWN, name, 0, 0, algorithm, str(file))
            for name, file in files.items()
            for algorithm in dict.fromkeys((*figure.algorithms, *reference.released.get(name, {})))
        ]

    def _check(self) -> None:
        """Raise InputError for values out of range."""
        for name, values, allowed in (
            ("graphs", self.kinds, GRAPHS),
            ("densities", self.densities, STUDIES["density2D"].values),
            ("application_counts", self.application_counts, FEW),
        ):
            different(**{name: values})
            one_of(allowed, **{name: values})
        at_least(1, instances=self.count)
        at_least(0, seed=self.seed)
