"""Tables 1 and 2 and Figure 8 on real traces: arrivals, how often graphs recur, usage and its thresholds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.experiments import Report, Rows, bootstrap_interval, mean, point_estimate, with_interval
from tvwrl.interference import (
    ARRIVALS_FILE,
    CLASSES,
    USAGE_FILE,
    BatchTasks,
    Thresholds,
    category_of,
    read_arrivals,
    read_usage,
)
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism import published
from tvwrl.plotting import COLOURS, DPI, new_figure
from tvwrl.types import Float, Int

if TYPE_CHECKING:
    from tvwrl.papers.pism.figures import TraceStudy

FILES = {"arrivals": (ARRIVALS_FILE, read_arrivals), "usage": (USAGE_FILE, read_usage)}
TITLES = {"arrivals": "an hour of arrivals (real)", "usage": "tasks with usage (real)"}
SHORT = 60.0  # seconds
RESAMPLES = 400
KINDS = {"M": "map", "J": "join", "R": "reduce"}  # first letter of a task's name
UNITS = {"cpu": "cores of an instance", "memory": "memory of an instance, normalised", "makespan": "seconds"}
Made = tuple[str, Rows]  # text, rows


def trace_figure(figure: str, data: Path) -> Made:
    """Text and rows of a figure: `table1`, `table2` or `fig8`; malformed names are counted."""
    tasks, bad = _read(data)
    text, rows = {"table1": _table1, "table2": _table2, "fig8": _fig8}[figure](tasks)
    counts = (f"{bad[kind]:,} of {len(one):,} ({TITLES[kind]})" for kind, one in tasks.items())
    return f"{text}\n\nMalformed task names, treated as independent tasks: {', '.join(counts)}.", rows


def report(title: str, rows: Rows, study: TraceStudy, plotted: bool = False) -> Report:
    """What a cell made of `trace_figure`; `plotted`: with a plot of usage."""
    first, *others = rows
    plots = {"plot": partial(_plot_usage, study.data_folder())} if plotted else {}
    return Report(f"# {title} (real)\n\n{first['text']}", others, plots)


def _plot_usage(data: Path, file: Path) -> None:
    """A PNG of the distributions of CPU, memory and makespan over tasks, thresholds as dotted lines."""
    tasks = _read(data)[0]["usage"]
    thresholds = Thresholds.from_usage(tasks.cpu, tasks.memory, tasks.makespan)
    figure = new_figure(12, 3.8)
    kind = _kind_of(tasks)
    for axis, name in zip(figure.subplots(1, 3), CLASSES, strict=True):
        values = getattr(tasks, name)
        for colour, (letter, label) in zip(COLOURS, {"": "all", **KINDS}.items(), strict=False):
            own = np.sort(values[kind == letter] if letter else values)
            axis.plot(own, np.linspace(0, 1, len(own)), color=colour, label=label, lw=2 if not letter else 1.2)
        for cut in getattr(thresholds, name):
            axis.axvline(cut, color="#555555", ls=":", lw=1)
        axis.set_xscale("log")
        axis.set(xlabel=f"{name}: {UNITS[name]}", ylabel="share of tasks (real)", ylim=(0, 1))
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, loc="upper left")
    figure.savefig(file, dpi=DPI, format="png")


@lru_cache(maxsize=1)
def _read(data: Path) -> tuple[dict[str, BatchTasks], dict[str, int]]:
    """Tasks of both files, and their numbers of malformed names."""
    bad: dict[str, Counter[str]] = {kind: Counter() for kind in FILES}
    tasks = {kind: read(data / file, bad[kind]) for kind, (file, read) in FILES.items()}
    return tasks, {kind: count.total() for kind, count in bad.items()}


def _with_interval(values: Float, decimals: int = 1) -> str:
    """Mean and 95 % interval of independent values (n,) or, of (n, 2), the ratio of sums."""
    statistic = mean if values.ndim == 1 else _ratio
    low, high = bootstrap_interval(values, statistic=statistic, resamples=RESAMPLES)
    return with_interval(point_estimate(values, statistic), (low, high), decimals, ",")


def _ratio(samples: Float) -> Float:
    total = mean(samples)
    return np.asarray(total[:, 0] / total[:, 1])


def _percent(of: Any, among: Any, tasks: BatchTasks) -> str:
    """Percent that `of` (N,) is of `among` (N,), tasks of one job resampled together."""
    job = tasks.jobs()[1]
    return _with_interval(np.stack([np.bincount(job, 100.0 * of), np.bincount(job, among)], axis=1))


def _per_minute(tasks: BatchTasks) -> dict[str, Float]:
    """(minutes,) jobs, tasks and instances that arrive in each whole minute; the last, begun one is left out."""
    minute, first = (tasks.seconds // 60).astype(np.int64), tasks.jobs()[0]
    whole = int(minute.max())
    parts = {"jobs": (minute[first], None), "tasks": (minute, None), "instances": (minute, tasks.instances)}
    return {name: np.bincount(at, weight, whole + 1)[:whole].astype(float) for name, (at, weight) in parts.items()}


def _table1(tasks: Mapping[str, BatchTasks]) -> Made:
    arrivals = _per_minute(tasks["arrivals"])
    per_day = round(1440 * arrivals["jobs"].mean())
    equal = arrivals["instances"].mean() / published.INSTANCES_PER_MACHINE
    short = {
        (kind, weight): _percent((one.makespan < SHORT) * count, np.broadcast_to(count, len(one)).astype(float), one)
        for kind, one in tasks.items()
        for weight, count in (("tasks", 1), ("instances", one.instances))
    }
    none = "not in the data"
    paper = {name: [name, *columns] for name, columns in published.TABLE1.items()}
    instances = "instances of less than a minute, %"
    body = [
        [*paper["machines"], none, none],
        [*paper["services; instances of them on a machine"], none, none],
        [*paper["jobs a day"], f"{per_day:,} at the file's rate", none],
        *([f"{name} that arrive in a minute", "", "", _with_interval(n), none] for name, n in arrivals.items()),
        [*paper["instances that begin on a machine in a minute"], none, none],
        ["tasks of less than a minute, %", "", "", short["arrivals", "tasks"], short["usage", "tasks"]],
        [*paper[instances], short["arrivals", "instances"], short["usage", "instances"]],
    ]
    text = (
        "95 % bootstrap intervals: of rates over the minutes, of shares over the jobs. Only one hour of arrivals "
        f"exists, so nothing is known of a day's course; its instances are what {equal:,.0f} machines begin at the "
        "published rate. Lifetimes there are those of whole tasks (an upper bound of their instances'), with usage "
        "they are means over a task's instances.\n\n"
    )
    head = ("", "paper", "paper, Google 2019", *(TITLES[kind] for kind in tasks))
    minutes = zip(*(values.tolist() for values in arrivals.values()), strict=True)
    rows: Rows = [{"minute": i} | dict(zip(arrivals, row, strict=True)) for i, row in enumerate(minutes)]
    return text + markdown_table(head, body), rows


def _table2(tasks: Mapping[str, BatchTasks]) -> Made:
    columns, rows = {}, []
    for kind, one in tasks.items():
        first, number = one.jobs()
        single = np.bincount(number) == 1
        for several, label in ((False, TITLES[kind]), (True, f"of them with several tasks, {TITLES[kind]}")):
            if several and not single.any():
                continue
            own = first[~single] if several else first
            tags, jobs = np.unique(one.tag[own].astype(str), return_counts=True)
            rows += [{"data": label, "tag": tag, "jobs": int(count)} for tag, count in zip(tags, jobs, strict=True)]
            columns[label] = _repeats(jobs)
    columns = {"paper": list(published.TABLE2), **columns}
    labels = (
        "jobs",
        "graphs",
        "jobs per graph",
        f"jobs of graphs with fewer than {published.INFREQUENT} jobs",
        "jobs whose graph is unique",
        "jobs whose graph recurs, %",
    )
    body = [[label, *(column[i] for column in columns.values())] for i, label in enumerate(labels)]
    text = (
        "Graphs are told apart by their Weisfeiler-Lehman tags. Paper: seven days of one business unit; here: an hour "
        "of a cluster, and a sample of jobs with 5 to 7 tasks over seven days, chosen by a rule that is not "
        "known. A longer record lets more graphs recur, so the columns are not to be compared as if they were of "
        "equal length.\n\n"
    )
    return text + markdown_table(("", *columns), body), rows


def _repeats(jobs: Int) -> list[str]:
    """Rows of Table 2 for numbers of jobs by graph (graphs,)."""
    total, unique = int(jobs.sum()), int((jobs == 1).sum())
    counts = [total, len(jobs), round(total / len(jobs)), int(jobs[jobs < published.INFREQUENT].sum()), unique]
    return [*(f"{count:,}" for count in counts), f"{100 * (1 - unique / total):.2f}"]


def _fig8(tasks: Mapping[str, BatchTasks]) -> Made:
    one = tasks["usage"]
    usage = (one.cpu, one.memory, one.makespan)
    found = Thresholds.from_usage(*usage)
    resampled = _resampled_thresholds(one)
    classes = found.classes(*usage)
    body, rows = [], []
    for d, (name, count) in enumerate(CLASSES.items()):
        cuts = getattr(found, name)
        for c in range(count):
            own = (classes[:, d] == c).astype(float)
            begin = "0" if c == 0 else f"{cuts[c - 1]:.3g}"
            if c and name != "cpu":
                low, high = np.quantile(resampled[name][:, c - 1], [0.025, 0.975])
                begin += f" [{low:.3g}, {high:.3g}]"
            share, weighted = _percent(own, np.ones(len(one)), one), _percent(own * one.instances, one.instances, one)
            kinds = [100 * own[_kind_of(one) == letter].mean() for letter in KINDS]
            body.append([f"{name} {c}", begin, share, weighted, *(f"{value:.0f}" for value in kinds)])
            weighted_pct = 100 * np.average(own, weights=one.instances)
            about = {"dimension": name, "class": c, "from": 0.0 if c == 0 else cuts[c - 1]}
            rows.append(about | {"tasks_pct": 100 * own.mean(), "instances_pct": weighted_pct})
    filled, jobs = np.unique(category_of(classes), return_counts=True)
    text = (
        f"{len(one):,} tasks of Alibaba's trace with measured usage; 95 % bootstrap intervals, jobs resampled. A class "
        "begins at its threshold. CPU: the paper's 0.5 and 1.5 cores; memory and makespan, for which it gives no "
        "figures: natural breaks of the histograms of the logarithms, on these tasks. The paper's four types of jobs "
        "(SQL, SQLRT, Algo, Dup) are not in the data; beside all tasks stand those whose name begins with M, J and R. "
        f"{len(filled)} of 60 categories occur; the largest holds {100 * jobs.max() / len(one):.1f} % of the tasks.\n\n"
    )
    head = ("class", "from", "% of tasks", "% of instances", *(f"% of {kind}s" for kind in KINDS.values()))
    return text + markdown_table(head, body), rows


def _resampled_thresholds(tasks: BatchTasks, resamples: int = 100) -> dict[str, Float]:
    """(resamples, thresholds) by dimension, of jobs drawn with replacement."""
    number = tasks.jobs()[1]
    jobs = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    rng, found = np.random.default_rng(0), []
    for _ in range(resamples):
        rows = np.concatenate([jobs[i] for i in rng.integers(len(jobs), size=len(jobs))])
        found.append(Thresholds.from_usage(tasks.cpu[rows], tasks.memory[rows], tasks.makespan[rows]))
    return {name: np.array([getattr(one, name) for one in found]) for name in CLASSES}


def _kind_of(tasks: BatchTasks) -> Any:
    """(N,) first letter of each task's name."""
    return np.array([name[0] for name in tasks.task])
