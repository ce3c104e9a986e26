"""Rows of the provisioning studies -> tables beside what was published and measured, whether rankings hold, plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.bench.provisioning_cells import KNOWN
from tvwrl.bench.provisioning_published import STUDIES, Figure
from tvwrl.bench.provisioning_reference import Outcome, Outcomes, Reference
from tvwrl.experiments.plots import Bar, plot_bars
from tvwrl.experiments.statistics import bootstrap_interval
from tvwrl.markdown import markdown_table
from tvwrl.provisioning.results import plot_trade_off

Row = Mapping[str, Any]
Where = tuple[str, int]  # graph, value of what is varied
DEVIATION, SECONDS = "Machines above the lower bound, %", "Seconds of the solve"
DIFFERENT = 0.1  # percentage points from which on two published deviations are taken to differ
HERE = "here"
FELL_BACK = "\\*: spreading failed at First-Fit's count, and First-Fit's plan was given."


def outcomes(rows: Iterable[Row]) -> dict[Where, Outcomes]:
    """Mean deviation and seconds of every algorithm, by graph and value."""
    found: dict[Where, dict[str, list[Row]]] = {}
    for row in rows:
        where = str(row["graph"]), int(row["value"])
        found.setdefault(where, {}).setdefault(str(row["algorithm"]), []).append(row)
    return {where: {name: _mean(own) for name, own in algorithms.items()} for where, algorithms in found.items()}


def _mean(rows: Sequence[Row]) -> Outcome:
    deviation, seconds = (float(np.mean([float(row[of]) for row in rows])) for of in ("deviation_pct", "seconds"))
    return Outcome(deviation, seconds, round(np.mean([int(row["machines"]) for row in rows])))


def over(groups: Sequence[Outcomes]) -> Outcomes:
    """Means over groups, of the algorithms that all of them have."""
    common = [name for name in groups[0] if all(name in group for group in groups)] if groups else []

    def mean(name: str, of: int) -> float:
        return float(np.mean([group[name][of] for group in groups]))

    return {name: Outcome(mean(name, 0), mean(name, 1)) for name in common}


def report(name: str, figure: Figure, rows: Sequence[Row], reference: Reference) -> str:
    """The tables of a figure in Markdown."""
    drawn = outcomes(row for row in rows if row["study"] != KNOWN)
    published = {where: reference.results.get((figure.study, *where), {}) for where in drawn}
    known = {where[0]: own for where, own in outcomes(row for row in rows if row["study"] == KNOWN).items()}
    parts = [f"## {figure.title}", _counted(rows)]
    sections = _sections(name, figure, drawn)
    if drawn:
        said = " (the authors' published results in brackets)" if reference.folder else ""
        for title, told, of in ((DEVIATION, figure.deviation, 0), (SECONDS, figure.seconds, 1)):
            table = _table(figure, sections, drawn, published, told, of)
            parts += [f"{title}{said}; last column: the paper's text.", table]
    parts += [_order(drawn, published)]
    parts += [_beside(instance, own, reference) for instance, own in known.items()]
    parts.append(_claims(figure, drawn, published, known, reference))
    return "\n\n".join(part for part in parts if part) + "\n"


def _counted(rows: Sequence[Row]) -> str:
    """What of the study is there."""
    drawn: dict[Where, set[int]] = {}
    for row in rows:
        if row["study"] != KNOWN:
            drawn.setdefault((str(row["graph"]), int(row["value"])), set()).add(int(row["number"]))
    study = next((STUDIES[row["study"]] for row in rows if row["study"] != KNOWN), None)
    told = [f"{graph}, {study.shown(value)}: {len(numbers)}" for (graph, value), numbers in drawn.items() if study]
    return f"Instances drawn here: {'; '.join(told)}." if told else ""


def _sections(name: str, figure: Figure, drawn: Mapping[Where, Outcomes]) -> dict[str, dict[str, list[Where]]]:
    """Blocks of a table -> its columns -> the groups that a column is the mean of. Figure 3 has one of each."""
    study = STUDIES[figure.study]
    if name == "fig3":
        return {"all graphs": {"mean of all": list(drawn)}}
    blocks: dict[str, dict[str, list[Where]]] = {}
    for graph in dict.fromkeys(graph for graph, _ in drawn):
        own = sorted(where for where in drawn if where[0] == graph)
        blocks[graph] = {study.shown(where[1]): [where] for where in own}
        if len(own) > 1:
            blocks[graph]["mean"] = own
    return blocks


def _table(
    figure: Figure,
    sections: Mapping[str, Mapping[str, list[Where]]],
    drawn: Mapping[Where, Outcomes],
    published: Mapping[Where, Outcomes],
    told: Mapping[str, str],
    of: int,
) -> str:
    columns = list(dict.fromkeys(column for own in sections.values() for column in own))
    body: list[list[str]] = []
    for block, own in sections.items():
        body += [[f"*{block}*", *[""] * (len(columns) + 1)]] if len(sections) > 1 else []
        ours = {c: over([drawn[where] for where in wheres]) for c, wheres in own.items()}
        theirs = {c: over([published[where] for where in wheres]) for c, wheres in own.items()}
        for name in figure.algorithms:
            cells = [_both(ours.get(c, {}).get(name), theirs.get(c, {}).get(name), of) for c in columns]
            if any(cells):
                body.append([name, *cells, told.get(name, "")])
    return markdown_table(["algorithm", *columns, "text"], body)


def _both(ours: Outcome | None, theirs: Outcome | None, of: int) -> str:
    if ours is None:
        return ""
    return _figure(ours[of], of) + (f" ({_figure(theirs[of], of)})" if theirs else "")


def _figure(value: float, of: int) -> str:
    if of == 0:
        return f"{value:.2f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ranked(deviation: Outcomes) -> list[str]:
    """Algorithms, the nearest to the bound first."""
    return sorted(deviation, key=lambda name: deviation[name].deviation)


def agreement(ours: Outcomes, theirs: Outcomes) -> tuple[int, int]:
    """Pairs of algorithms that stand as there, of those whose deviations differ there."""
    pairs = [
        (a, b)
        for a, b in combinations([name for name in ours if name in theirs], 2)
        if abs(theirs[a].deviation - theirs[b].deviation) >= DIFFERENT
    ]
    same = [(ours[a].deviation - ours[b].deviation) * (theirs[a].deviation - theirs[b].deviation) > 0 for a, b in pairs]
    return sum(same), len(pairs)


def _order(drawn: Mapping[Where, Outcomes], published: Mapping[Where, Outcomes]) -> str:
    """Who is how far above the bound on average, here and in the authors' results."""
    lines = []
    ours, theirs = over(list(drawn.values())), over(list(published.values()))
    theirs = {name: one for name, one in theirs.items() if name in ours}
    for who, found in ((HERE, ours), ("in the authors' results", theirs)):
        if found:
            told = ", ".join(f"{name} {found[name].deviation:.2f}" for name in ranked(found))
            lines.append(f"- order {who}, mean % above the bound: {told}")
    same, pairs = agreement(ours, theirs)
    if pairs:
        lines.append(
            f"- of {pairs} pairs of algorithms that differ by {DIFFERENT} points or more there, {same} stand so here"
        )
    return "\n".join(lines)


def _beside(instance: str, ours: Outcomes, reference: Reference) -> str:
    """One instance: ours beside the released code, as it is and in floating point."""
    released, floating = reference.released.get(instance, {}), reference.floating.get(instance, {})
    body = []
    for name, own in ours.items():
        right, shipped = floating.get(name), released.get(name)
        change = f"{100 * (own.machines / right.machines - 1):+.2f}" if right else ""
        machines = [f"{own.machines:,}", _machines(right), change, _machines(shipped)]
        times = [_figure(own.seconds, 1), *(_figure(one.seconds, 1) if one else "" for one in (right, shipped))]
        body.append([name, f"{own.deviation:.2f}", *machines, *times])
    head = ["algorithm", "% above the bound", "machines", "C++, floating point", "difference, %", "C++ as released"]
    head += ["seconds", "C++, floating point", "C++ as released"]
    text = f"### {instance}\n\n{markdown_table(head, body)}"
    return f"{text}\n\n{FELL_BACK}" if "*" in text else text


def _machines(outcome: Outcome | None) -> str:
    return "" if outcome is None else f"{outcome.machines:,}{'*' * outcome.fell_back}"


def _claims(
    figure: Figure,
    drawn: Mapping[Where, Outcomes],
    published: Mapping[Where, Outcomes],
    known: Mapping[str, Outcomes],
    reference: Reference,
) -> str:
    """In how many groups, and on how many of the known instances, each ranking of the text holds."""
    sides: dict[str, Iterable[Outcomes]] = {HERE: drawn.values(), "authors' results": published.values()}
    if known:
        sides |= {"here, known instances": known.values()}
        sides |= {"C++ as released": [reference.released.get(one, {}) for one in known]}
        sides |= {"C++, floating point": [reference.floating.get(one, {}) for one in known]}
    body = []
    for claim in figure.claims:
        said = [[claim.holds({n: o.deviation for n, o in group.items()}) for group in of] for of in sides.values()]
        body.append([claim.said, *(_share([one for one in answers if one is not None]) for answers in said)])
    return "Does the ranking of the text hold?\n\n" + markdown_table(["claim", *sides], body)


def _share(answers: Sequence[bool]) -> str:
    return f"{sum(answers)} of {len(answers)}" if answers else "-"


def plot(name: str, figure: Figure, rows: Sequence[Row], reference: Reference, file: Path) -> None:
    """Figure 3: deviation against seconds; the others: bars of both, published values as diamonds."""
    drawn = [row for row in rows if row["study"] != KNOWN]
    file.parent.mkdir(parents=True, exist_ok=True)
    if name == "fig3":
        return _plot_trade_off(drawn or rows, file)
    study, panels, published = STUDIES[figure.study], {}, {}
    for graph in dict.fromkeys(str(row["graph"]) for row in drawn):
        values = sorted({int(row["value"]) for row in drawn if row["graph"] == graph})
        for of, (title, column) in enumerate(((DEVIATION, "deviation_pct"), (SECONDS, "seconds"))):
            panel = f"{title}: {graph}"
            panels[panel] = {
                study.shown(value): {
                    n: _bar([float(row[column]) for row in drawn if _is(row, graph, value, n)])
                    for n in figure.algorithms
                }
                for value in values
            }
            theirs = [reference.results.get((figure.study, graph, value), {}) for value in values]
            published[panel] = {n: [one[n][of] for one in theirs] for n in over(theirs) if n in figure.algorithms}
    if panels:
        logarithmic = [panel for panel in panels if panel.startswith(SECONDS)]
        plot_bars(panels, file, published if any(published.values()) else None, "instances", logarithmic)


def _is(row: Row, graph: str, value: int, name: str) -> bool:
    return row["graph"] == graph and int(row["value"]) == value and row["algorithm"] == name


def _bar(values: Sequence[float]) -> Bar:
    if not values:
        return Bar(float("nan"), float("nan"), float("nan"))
    return Bar(float(np.mean(values)), *bootstrap_interval(np.array(values)))


def _plot_trade_off(rows: Sequence[Row], file: Path) -> None:
    found = over(list(outcomes(rows).values()))
    bound = round(np.mean([int(row["lower_bound"]) for row in rows])) if rows else 0
    points = [{"algorithm": n, "seconds": one.seconds, "deviation_pct": one.deviation} for n, one in found.items()]
    if points:
        of = {"instance": f"mean of {len({row['instance'] for row in rows})} instances", "lower_bound": bound}
        plot_trade_off([of | point for point in points], file)
