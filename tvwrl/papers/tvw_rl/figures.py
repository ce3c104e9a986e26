"""The commands of the TVW-RL paper: figures and tables next to the published numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.agents import PRESETS, TrainConfig
from tvwrl.ec import TITLES as CLASSES
from tvwrl.experiments import (
    DEEPRM,
    TVW_RL,
    Cell,
    Column,
    Estimate,
    Report,
    Scale,
    Setup,
    cells_of,
    describe_training,
    estimates_by_column,
    incomplete_by,
    opened,
    read_columns,
)
from tvwrl.markdown import markdown_table
from tvwrl.papers.tvw_rl.cells import EXPERIMENTS, Experiment
from tvwrl.papers.tvw_rl.classes_study import ClassesStudy as ClassesStudy
from tvwrl.papers.tvw_rl.published import BESIDE, SIX, Claim, Metric
from tvwrl.papers.tvw_rl.table1 import PaperTraces, Table1Study
from tvwrl.plotting import NOTHING, Panel, Point, Row, draw_estimates, ranked
from tvwrl.schedulers import GROUPS, KNOWLEDGE, LEARNT_PEAKS_AND_LENGTHS, is_ours, knowledge_of, title_of
from tvwrl.traces import describe_source
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

Group = dict[str, dict[str, Estimate]]  # column of the rows -> column of the table -> estimate
Left = Mapping[tuple[Any, ...], str]  # group, column of the table -> what was not placed, in words
EVERY_METRIC = (*SIX, *BESIDE)
UNDECIDED = "not decided by these runs"


def summarise(rows: pl.DataFrame) -> dict[str, Group]:
    """group -> metric -> column -> estimate."""
    groups: dict[str, Group] = {}
    for metric in EVERY_METRIC:
        for group, columns in estimates_by_column(rows, metric.column).items():
            groups.setdefault(group, {})[metric.column] = columns
    return groups


def write_tables(experiment: Experiment, groups: dict[str, Group], left: Left | None = None) -> str:
    """Markdown: per group a table, then how our order and ratios stand to the paper's.

    `left`: what columns with incomplete episodes, which have no figures but their number, did not place.
    """
    parts = ["Mean [95 % interval over test sequences and training seeds]" + " (published)" * bool(experiment.numbers)]
    for name, group in groups.items():
        columns = list(group[SIX[0].column])
        body = [[m.title, *(_cell(experiment, m, group, column) for column in columns)] for m in EVERY_METRIC]
        parts += [f"## {name[0].upper()}{name[1:]}", markdown_table(["metric", *columns], body)]
        if lines := [f"- {column}: no figures, {what}" for (of, column), what in (left or {}).items() if of == name]:
            parts.append("\n".join(lines))
        if verdicts := _orders(experiment, group) + [
            line for claim in experiment.claims for line in _claim(claim, group)
        ]:
            parts.append("\n".join(verdicts))
    if experiment.note:
        parts.append(experiment.note)
    return "\n\n".join(parts) + "\n"


def plot(experiment: Experiment, groups: dict[str, Group], file: Path) -> None:
    """The paper's six metrics, one row per column of the table, with what was published. Settings stand in the table's
    order, schedulers ranked by reward within what they may know."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group[SIX[0].column]))
    titles = {name: _title(name) for name in names}
    rows = [Row(titles[name], _knowledge(name), is_ours(name)) for name in names]
    if all(row.group for row in rows):
        rewards = [group["reward"] for group in groups.values()]
        cost = {titles[name]: -sum(of[name].mean for of in rewards if name in of) for name in names}
        cost = {title: np.inf if np.isnan(of) else of for title, of in cost.items()}  # left workloads unplaced
        rows = ranked(rows, cost, GROUPS)
    panels = []
    for metric in SIX:
        numbers = {c: v[metric.column] for c, v in (experiment.numbers or {}).items() if metric.column in v}
        panels.append(
            Panel(
                f"{metric.plotted} ({'higher' if metric.more else 'lower'} is better)",
                {titles[c]: [_point(group[metric.column].get(c)) for group in groups.values()] for c in names},
                {titles[c]: [(value, value)] * len(groups) for c, value in numbers.items() if c in titles},
            )
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    over = "test sequences and training seeds"
    draw_estimates(file, rows, panels, list(groups), over, sides=("TVW-RL", "other schedulers"))


def _knowledge(column: str) -> str:
    """What a scheduler may know, "" for a setting of TVW-RL."""
    trained = {TVW_RL: knowledge_of(PRESETS["paper"].scenario), DEEPRM: LEARNT_PEAKS_AND_LENGTHS}
    known = trained.get(column) or KNOWLEDGE.get(column)
    return known.group if known else ""


def _title(column: str) -> str:
    """What a row of the plot is called: the title of a scheduler or of classes, or Table 2's noise in words."""
    noise = re.fullmatch(r"(not )?trained (?:\[0-(\d)\]|perturbed)", column)
    if not noise:
        return CLASSES.get(column) or title_of(column)
    kind = f"noise of 0 to {noise[2]}" if noise[2] else "perturbed demand"
    return f"{kind}, {'unseen in' if noise[1] else 'also in'} training"


def _point(found: Estimate | None) -> Point:
    return NOTHING if found is None else Point(found.mean, *found.interval)


def _cell(experiment: Experiment, metric: Metric, group: Group, column: str) -> str:
    found = group[metric.column][column]
    low, high = found.interval

    def shown(value: float) -> str:
        return f"{metric.scale * value:.{metric.decimals}f}"

    text = "-" if np.isnan(found.mean) else shown(found.mean)
    text += "" if np.isnan(low) else f" [{shown(low)}, {shown(high)}]"
    published = (experiment.numbers or {}).get(column, {}).get(metric.column)
    return text if published is None else f"{text} ({published:g})"


def _orders(experiment: Experiment, group: Group) -> list[str]:
    """For each metric: whether every two columns whose published values differ stand in the published order.

    Differences are paired, over the sequences and seeds that both columns have.
    """
    lines = []
    for metric in SIX:
        known = {c: v[metric.column] for c, v in (experiment.numbers or {}).items() if metric.column in v}
        pairs = [(a, b) for a, b in combinations(known, 2) if known[a] != known[b]]
        if not pairs or not known.keys() <= group[metric.column].keys():
            continue
        found = [group[metric.column][a] - group[metric.column][b] for a, b in pairs]
        agree = [np.sign(ours.mean) * np.sign(known[a] - known[b]) for (a, b), ours in zip(pairs, found, strict=True)]
        right, wrong = ([ours.excludes_zero for ours, a in zip(found, agree, strict=True) if a == s] for s in (1, -1))
        unknown = sum(bool(np.isnan(ours.mean)) for ours in found)
        verdict = _verdict_on_order(len(pairs) - unknown, len(right), sum(right), len(wrong), sum(wrong))
        verdict = UNDECIDED if unknown and verdict == "holds" else verdict
        verdict = f"is {verdict}" if verdict == UNDECIDED else verdict
        lines.append(
            f"- {metric.title}: the paper's order {verdict}: "
            f"of {len(pairs)} pairs of columns, {len(right)} are ordered as in the paper "
            f"({sum(right)} significantly), {len(wrong)} the other way round ({sum(wrong)} significantly)"
            + f", {unknown} cannot be compared, as workloads were left unplaced"
            * bool(unknown)
        )
    return lines


def _verdict_on_order(pairs: int, right: int, surely_right: int, wrong: int, surely_wrong: int) -> str:
    """An order holds if every pair has it significantly, and does not if one contradicts it significantly, or is equal
    in every sequence and seed."""
    if surely_right == pairs:
        return "holds"
    return "does not hold" if surely_wrong or right + wrong < pairs else UNDECIDED


def _claim(claim: Claim, group: Group) -> list[str]:
    """A line on one statement of the text; none where one of its columns was not measured."""
    columns = group[claim.metric]
    if claim.over not in columns or claim.under not in columns:
        return []
    title = next(metric.title for metric in EVERY_METRIC if metric.column == claim.metric)
    if silent := [column for column in (claim.over, claim.under) if np.isnan(columns[column].mean)]:
        return [f"- {title}, {claim.over} / {claim.under}: cannot be said, as {silent[0]} has no figure"]
    found = columns[claim.over] / columns[claim.under]
    low, high = found.interval
    interval = "" if np.isnan(low) else f" [{low:.2f}, {high:.2f}]"
    return [
        f"- {title}, {claim.over} / {claim.under}: {found.mean:.2f}{interval}; paper {_range(claim)} "
        f'("{claim.source}"): {_verdict(claim, found.mean, low, high)}'
    ]


def _range(claim: Claim) -> str:
    if claim.low == claim.high:
        return f"{claim.low:g}"
    if np.isinf(claim.high):
        return f"above {claim.low:g}" if claim.low == 1 else f"at least {claim.low:g}"
    return f"{claim.low:g} to {claim.high:g}"


def _verdict(claim: Claim, mean: float, low: float, high: float) -> str:
    """Where our interval does not hold 1: within the range (one value: is it in the interval?), beyond it, short of it,
    or against it. Otherwise our runs do not say which column has more; they may say that it is not as much more as
    published."""
    if np.isnan(mean):
        return "cannot be said, both are 0"
    if low <= 1 <= high and low < high:
        reached = claim.low <= high and low <= claim.high
        return UNDECIDED if reached else f"does not hold in size; the direction is {UNDECIDED}"
    more = claim.low >= 1  # claimed: more than `under`, or less
    if claim.low == claim.high and low <= claim.low <= high:
        return "holds, it is in our interval"
    if mean == 1 or (mean > 1) != more:
        return "does not hold"
    if claim.low <= mean <= claim.high:
        return "holds"
    if (mean > claim.high) if more else (mean < claim.low):
        return "holds, beyond what was published"
    return "holds in direction, not in size"


TABLE1, CLASSES_HELP = "table1", "classes"


@dataclass(frozen=True)
class TvwRlStudy(PaperTraces, Scale):
    """Train what is missing, evaluate it, and print the table next to the published values; resumable. Agents know what
    the paper's agent knows, with every preset."""

    partial = False

    def cells(self, figure: str) -> list[Cell]:
        """Trainings and evaluations; Table 1 has cells of its own, and none in preset smoke. Whether classes help is a
        study with options of its own."""
        if figure == CLASSES_HELP:
            return []
        if figure == TABLE1:
            return [] if self.preset == "smoke" else self._table1().cells(figure)
        columns = self._columns(figure)
        for name in dict.fromkeys(column.trace for column in columns):
            _check_resources(self._setup().traces[name])
        return cells_of(columns)

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        """Tables with a verdict on each published order and claim, and a plot."""
        if figure == TABLE1:
            return self._table1().report(figure, out, cells)
        setup, experiment, columns = self._setup(), EXPERIMENTS[figure], self._columns(figure)
        names = sorted({column.trace for column in columns})
        sources = [describe_source(opened(setup.traces[name])[0], setup.traces[name]) for name in names]
        seeds = ", ".join(map(str, self.training_seeds))
        scale = f"Preset `{self.preset}`: seeds {seeds}, {setup.base.comparison_sequences} test sequences."
        trained = {c.column if c.column == DEEPRM else "tvw-rl": c.cell.training for c in columns if c.cell.training}
        how = [
            describe_training(training.config, name, LEARNT_PEAKS_AND_LENGTHS if name == DEEPRM else None)
            for name, training in trained.items()
        ]
        rows = read_columns(out, columns)
        groups = summarise(rows)
        head = "\n\n".join([*sources, scale, "\n".join(how)])
        tables = write_tables(experiment, groups, incomplete_by(rows, ("group", "column")))
        text = f"# {experiment.title}\n\n{head}\n\n{tables}"
        facts = {"config": setup.base.to_dict(), "sources": sources}
        return Report(text, rows.to_dicts(), {"plot": partial(plot, experiment, groups)}, facts)

    def _table1(self) -> Table1Study:
        return Table1Study(self.google, self.alibaba)

    def _setup(self) -> Setup:
        return self.setup(with_the_papers_knowledge(self.base), {"google": self.google, "alibaba": self.alibaba})

    def _columns(self, figure: str) -> list[Column]:
        return EXPERIMENTS[figure].columns(self._setup(), self.training_seeds)


def with_the_papers_knowledge(base: TrainConfig) -> TrainConfig:
    """Hyper-parameters with an agent that observes and may do what the paper's can; episodes keep their length."""
    return replace(base, scenario=replace(PRESETS["paper"].scenario, max_slots=base.scenario.max_slots))


def _check_resources(name: str) -> None:
    if missing := {"cpu", "mem"} - set(opened(name)[0].resources):
        raise InputError(f"trace '{name}' lacks {', '.join(sorted(missing))}: the paper's tables are of cpu and mem")
