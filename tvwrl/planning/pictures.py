"""What people call the planners, the families they belong to, and the picture of what they needed and how long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tvwrl.planning.best import SEARCH
from tvwrl.planning.registry import IMPROVED
from tvwrl.plotting import Panel, Point, Row, draw_estimates, people_call, ranked
from tvwrl.runs import whole_file

FAMILIES = {  # those of a longer beginning of their names first
    "programmes for batches": ("Medea(",),
    "application by application": ("FF", "BF", "WF", "Medea"),
    "machine by machine": ("NCD", "LRASched-Fitness"),
    "in two phases": ("LRASched",),
    "all machines, replicas spread": ("SpreadWF",),
    "all machines, pairs matched": ("Matching",),
    "within a time budget": ("best", "MILP"),
    "by flow through groups of machines": ("Aladdin",),
    "without regard to constraints": ("Tetris", "Graphene", "TRIVIAL", "OCTOPUS"),
}
ABOVE, SECONDS = "Machines above bound, %", "Processor time, s"
BETTER = "lower is better"
SHORTEST = 1e-4  # seconds, to which times are rounded: what took none is drawn there

_RULES = {"F": "First-Fit", "B": "Best-Fit", "W": "Worst-Fit"}
_WORDS = {
    "Avg": "average",
    "Max": "maximum",
    "AvgExp": "exp. average",
    "Surrogate": "surrogate",
    "ExtendedSum": "extended sum",
    "DotProduct": "dot product",
    "L2Norm": "L2 norm",
    "TightFill": "tight fill",
    "Fitness": "fitness",
}
_TITLES = {
    "FF": "First-Fit",
    "BF": "Best-Fit",
    "WF": "Worst-Fit",
    "Medea-TP": "Medea, tag popularity",
    "Medea-NC": "Medea, node candidates",
    "LRASched-Fitness": "LRASched, fitness",
    "LRASched-Search": "LRASched with local search",
    "FFD-AntiAffinity": "First-Fit, anti-affinity first",
    SEARCH: "Search within the time given",
    "MILP": "Integer programme",
}


_ORDERS = {"LRF": "large first", "SRF": "small first"}
_WAYS = {
    "none": "nothing moves",
    "still": "moves to let one in",
    "blocked-still": "moves to let one in",
    "blocked": "moves to empty machines too",
    "cheapest": "moves where cheaper too",
    "cheapest-still": "moves where cheaper",
}


def family_of(name: str) -> str:
    """Which of `FAMILIES` an algorithm is of."""
    return next(family for family, starts in FAMILIES.items() if name.startswith(starts))


def title_of_planner(name: str) -> str:
    """What people call an algorithm; its name where that says it all, as of rare variants.

    >>> title_of_planner("SpreadWFD-AvgExp-Decr2"), title_of_planner("Tetris.1")
    ('Spread, exp. average, 2 % steps', 'Tetris, 1 rescheduling')
    >>> title_of_planner("Aladdin+H.4(LRF)-none")
    'Aladdin+H, 4 groups, large first, nothing moves'
    """
    if name.endswith(IMPROVED):
        return f"{title_of_planner(name.removesuffix(IMPROVED))}, then search"
    if found := re.fullmatch(r"Aladdin\+H\.(\d+)(?:\((LRF|SRF)\))?(?:-(.+))?", name):
        order, way = _ORDERS[found[2] or "LRF"], _WAYS[found[3]] if found[3] else ""
        return ", ".join(filter(None, ["Aladdin+H", _number(found[1], "group"), order, way]))
    if found := re.fullmatch(r"(Tetris|Graphene)\.(\d+)", name):
        return f"{found[1]}, {_number(found[2], 'rescheduling')}"
    if found := re.fullmatch(r"Medea\((.+)\)", name):
        return f"Medea, weights {found[1].replace(',', ', ')}"
    if found := re.fullmatch(r"(TRIVIAL|OCTOPUS)-(\w+)", name):
        return f"{found[1]}, {people_call(found[2])}"
    word = "|".join(_WORDS)
    if found := re.fullmatch(rf"([FBW])FD-({word})", name):
        return f"{_RULES[found[1]]} Decreasing, {_WORDS[found[2]]}"
    if found := re.fullmatch(rf"NCD-({word})", name):
        return f"Node-centric, {_WORDS[found[1]]}"
    if found := re.fullmatch(rf"(SpreadWFD?|Matching)-({word})-(?:BinSearch|Decr(\d+))", name):
        rule = {"SpreadWFD": "Spread", "SpreadWF": "Spread as listed", "Matching": "Match"}[found[1]]
        return f"{rule}, {_WORDS[found[2]]}, {f'{found[3]} % steps' if found[3] else 'binary search'}"
    return _TITLES.get(name, name)


def _number(count: str, what: str) -> str:
    return f"{count} {what}{'s' * (count != '1')}"


def rows_of(cost: Mapping[str, float], ours: Iterable[str]) -> list[Row]:
    """A row for each algorithm, by rising `cost` within its family, the family of the cheapest first.

    `ours`: names of those in the strong colour.
    """
    own = set(ours)
    rows = [Row(title_of_planner(name), family_of(name), name in own) for name in cost]
    families = [family_of(name) for name in sorted(cost, key=lambda name: cost[name])]
    return ranked(rows, {title_of_planner(name): value for name, value in cost.items()}, list(dict.fromkeys(families)))


def plot_trade_off(rows: list[dict[str, Any]], path: Path) -> None:
    """Deviation from the lower bound, and seconds, of every algorithm that placed all replicas of one instance."""
    rows = [row for row in rows if row["above_bound_pct"] != ""]
    if not rows:
        return
    names = {row["planner"]: title_of_planner(row["planner"]) for row in rows}
    above = {names[row["planner"]]: [Point(row["above_bound_pct"])] for row in rows}
    seconds = {names[row["planner"]]: [Point(max(row["seconds"], SHORTEST))] for row in rows}
    shown = rows_of({row["planner"]: row["above_bound_pct"] for row in rows}, [SEARCH])
    caption = f"{rows[0]['instance']}: lower bound {rows[0]['bound']:,} machines; {BETTER}"
    with whole_file(path) as partial:
        draw_estimates(
            partial, shown, [Panel(ABOVE, above), Panel(SECONDS, seconds, logarithmic=True)], caption=caption
        )
