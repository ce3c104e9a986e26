"""Tables of the provisioning paper: our results, the published and measured ones, and whether rankings hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tvwrl.experiments import Rows, select
from tvwrl.markdown import markdown_table
from tvwrl.papers.provisioning.cells import KNOWN
from tvwrl.papers.provisioning.published import FIGURES, STUDIES, Figure, Measurement, Measurements, Reference

Where = tuple[str, int]  # graph, value of what is varied
Means = dict[Where, Measurements]
DEVIATION, SECONDS = "Machines above the lower bound, %", "Seconds of the solve"
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


def tables_of(name: str, rows: Rows, reference: Reference) -> str:
    """The tables of a figure in Markdown, below a heading."""
    figure = FIGURES[name]
    drawn_rows = [row for row in rows if row["study"] != KNOWN]
    drawn = means_of(drawn_rows)
    published = {where: reference.results.get((figure.study, *where), {}) for where in drawn}
    known = {where[0]: own for where, own in means_of(select(rows, study=KNOWN)).items()}
    results = _Results(figure, drawn, published, known, reference)
    parts = [f"# {figure.title}"]
    if drawn:
        parts.append(_counts(figure, drawn_rows))
        brackets = " (the authors' published results in brackets)" if reference.folder else ""
        sections = _sections(name, results)
        for title, text, of in ((DEVIATION, figure.deviation, 0), (SECONDS, figure.seconds, 1)):
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


def agreement(ours: Measurements, theirs: Measurements) -> tuple[int, int]:
    """Pairs of algorithms that rank as in `theirs`, and all pairs whose deviations differ there."""
    pairs = [
        (a, b)
        for a, b in combinations([name for name in ours if name in theirs], 2)
        if abs(theirs[a].deviation - theirs[b].deviation) >= DIFFERENT
    ]
    same = [(ours[a].deviation - ours[b].deviation) * (theirs[a].deviation - theirs[b].deviation) > 0 for a, b in pairs]
    return sum(same), len(pairs)


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
    same, pairs = agreement(ours, theirs)
    if pairs:
        lines.append(
            f"- of {pairs} pairs of algorithms that differ by {DIFFERENT} points or more there, "
            f"{same} are in the same order here"
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
