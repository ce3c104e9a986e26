"""Tables 1 and 2, Figures 4 and 8 on real traces: arrivals, how often graphs recur, usage and its thresholds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.experiments.engine import Cell, Rows, folder_of
from tvwrl.experiments.reproduce import Report
from tvwrl.experiments.statistics import bootstrap_interval, mean
from tvwrl.interference.batch_tasks import ARRIVALS_FILE, USAGE_FILE, BatchTasks, read_arrivals, read_usage
from tvwrl.interference.categories import CLASSES, Thresholds, category_of
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism import published
from tvwrl.papers.pism.options import folder_with
from tvwrl.papers.pism.trace_plots import KINDS, kind_of, plot_arrivals, plot_usage
from tvwrl.runs import write_json
from tvwrl.types import Float, Int

FIGURES = {
    "table1": "Table 1, how much batch work arrives and how long it runs",
    "table2": "Table 2, how often graphs of jobs recur",
    "fig4": "Figure 4, arrivals over time",
    "fig8": "Figure 8, usage of batch tasks and thresholds between its classes",
}
FILES = {"arrivals": (ARRIVALS_FILE, read_arrivals), "usage": (USAGE_FILE, read_usage)}
TITLES = {"arrivals": "an hour of arrivals (real)", "usage": "tasks with usage (real)"}
SHORT = 60.0  # seconds
RESAMPLES = 400
Made = tuple[str, Rows]  # text, rows
DESCRIPTION = "description.json"


@dataclass(frozen=True)
class TraceCell(Cell):
    """Text and rows of one figure."""

    figure: str
    data: Path

    @property
    def name(self) -> str:
        """By figure."""
        return f"traces/{self.figure}"

    def run(self, folder: Path) -> None:
        """Describe the tasks; malformed names are counted."""
        tasks, bad = _read(self.data)
        make = {"table1": _table1, "table2": _table2, "fig4": _fig4, "fig8": _fig8}[self.figure]
        text, rows = make(tasks)
        counts = (f"{bad[kind]:,} of {len(one):,} ({TITLES[kind]})" for kind, one in tasks.items())
        note = f"Malformed task names, treated as independent tasks: {', '.join(counts)}."
        write_json(folder / DESCRIPTION, {"text": f"{text}\n\n{note}", "rows": rows})


@dataclass(frozen=True)
class TraceStudy:
    """Real batch tasks of Alibaba's cluster-trace-v2018."""

    data: Path | None = None
    """Folder with spar_sample_tasks.csv.gz and ali18_usage_tasks.csv.gz."""

    partial = False

    def cells(self, figure: str) -> list[TraceCell]:
        """The figure itself."""
        return [TraceCell(figure, folder_with(self.data, ARRIVALS_FILE, USAGE_FILE))]

    def report(self, figure: str, out: Path, cells: Sequence[TraceCell]) -> Report:
        """The figure as described, and the plots of Figures 4 and 8."""
        made = json.loads((folder_of(out, cells[0]) / DESCRIPTION).read_text(encoding="utf-8"))
        plot = {"fig4": _plot_fig4, "fig8": _plot_fig8}.get(figure)
        plots = {"plot": partial(plot, data=cells[0].data)} if plot else {}
        return Report(f"# {FIGURES[figure]} (real)\n\n{made['text']}", made["rows"], plots)


@lru_cache(maxsize=1)
def _read(data: Path) -> tuple[dict[str, BatchTasks], dict[str, int]]:
    """Tasks of both files, and their numbers of malformed names."""
    bad: dict[str, Counter[str]] = {kind: Counter() for kind in FILES}
    tasks = {kind: read(data / file, bad[kind]) for kind, (file, read) in FILES.items()}
    return tasks, {kind: count.total() for kind, count in bad.items()}


def _jobs(tasks: BatchTasks) -> tuple[Int, Int]:
    """(jobs,) first row of each job, (N,) number of each task's job."""
    names = tasks.job.astype(str)
    first, number = np.unique(names, return_index=True, return_inverse=True)[1:]
    return first.astype(np.int64), number.astype(np.int64)


def _with_interval(values: Float, decimals: int = 1) -> str:
    """Mean and 95 % interval of independent values (n,) or, of (n, 2), the ratio of sums."""
    rng = np.random.default_rng(0)
    if values.ndim == 1:
        low, high = bootstrap_interval(values, rng, resamples=RESAMPLES)
        centre = values.mean()
    else:
        low, high = bootstrap_interval(values, rng, _ratio, RESAMPLES)
        centre = _ratio(values[None])[0]
    return f"{centre:,.{decimals}f} [{low:,.{decimals}f}, {high:,.{decimals}f}]"


def _ratio(samples: Float) -> Float:
    total = mean(samples)
    return np.asarray(total[:, 0] / total[:, 1])


def _percent(of: Any, among: Any, tasks: BatchTasks) -> str:
    """Percent that `of` (N,) is of `among` (N,), tasks of one job resampled together."""
    job = _jobs(tasks)[1]
    return _with_interval(np.stack([np.bincount(job, 100.0 * of), np.bincount(job, among)], axis=1))


def _per_minute(tasks: BatchTasks) -> dict[str, Float]:
    """(minutes,) jobs, tasks and instances that arrive in each whole minute; the last, begun one is left out."""
    minute = (tasks.seconds // 60).astype(np.int64)
    whole = int(minute.max())
    first = _jobs(tasks)[0]
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
        *(
            [f"{name} that arrive in a minute", "", "", _with_interval(values), none]
            for name, values in arrivals.items()
        ),
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
    rows = [
        {"minute": i, **{name: values[i] for name, values in arrivals.items()}} for i in range(len(arrivals["jobs"]))
    ]
    return text + markdown_table(head, body), rows


def _table2(tasks: Mapping[str, BatchTasks]) -> Made:
    columns, rows = {}, []
    for kind, one in tasks.items():
        first, number = _jobs(one)
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
    unique = int((jobs == 1).sum())
    infrequent = int(jobs[jobs < published.INFREQUENT].sum())
    total = int(jobs.sum())
    recurring = 100 * (1 - unique / total)
    counts = [total, len(jobs), round(total / len(jobs)), infrequent, unique]
    return [*(f"{count:,}" for count in counts), f"{recurring:.2f}"]


def _fig4(tasks: Mapping[str, BatchTasks]) -> Made:
    minutes = _per_minute(tasks["arrivals"])
    hours = _per_hour(tasks["usage"])
    body = [
        [what, f"{v.mean():,.1f}", f"{v.min():,.0f}", f"{v.max():,.0f}", f"{v.std() / v.mean():.2f}"]
        for what, v in (
            *((f"{name} in a minute, one hour", values) for name, values in minutes.items()),
            ("tasks with usage in an hour, seven days", hours),
        )
    ]
    by_clock = [hours[start::24].mean() for start in range(min(24, len(hours)))]
    text = (
        "Paper: about 100,000 jobs an hour over seven days, with a peak at midnight, beside the cluster's CPU "
        "utilisation. Here arrivals are complete for one hour only, minute by minute, and utilisation is not in the "
        "data. The tasks with usage span seven days but are a sample: their number by hour depends on the sampling as "
        f"much as on arrivals (mean by hour of the day from {min(by_clock):.0f} to "
        f"{max(by_clock):.0f} tasks).\n\n"
    )
    rows: Rows = [
        {"what": name, "time": i, "number": float(value)}
        for name, values in (*minutes.items(), ("tasks with usage by hour", hours))
        for i, value in enumerate(values)
    ]
    table = markdown_table(("", "mean", "least", "most", "coefficient of variation"), body)
    return text + table, rows


def _plot_fig4(file: Path, data: Path) -> None:
    tasks = _read(data)[0]
    plot_arrivals(file, _per_minute(tasks["arrivals"]), _per_hour(tasks["usage"]))


def _per_hour(tasks: BatchTasks) -> Float:
    """(hours,) tasks submitted in each hour, from the first that has any."""
    hours = np.bincount((tasks.seconds // 3600).astype(np.int64)).astype(float)
    return hours[np.flatnonzero(hours)[0] :]


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
            kinds = [100 * own[kind_of(one) == letter].mean() for letter in KINDS]
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


def _plot_fig8(file: Path, data: Path) -> None:
    tasks = _read(data)[0]["usage"]
    plot_usage(file, tasks, Thresholds.from_usage(tasks.cpu, tasks.memory, tasks.makespan))


def _resampled_thresholds(tasks: BatchTasks, resamples: int = 100) -> dict[str, Float]:
    """(resamples, thresholds) by dimension, of jobs drawn with replacement."""
    number = _jobs(tasks)[1]
    order = np.argsort(number, kind="stable")
    begin = np.concatenate([[0], np.cumsum(np.bincount(number))])
    rng = np.random.default_rng(0)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in CLASSES}
    for _ in range(resamples):
        drawn = rng.integers(len(begin) - 1, size=len(begin) - 1)
        rows = order[np.concatenate([np.arange(begin[i], begin[i + 1]) for i in drawn])]
        one = Thresholds.from_usage(tasks.cpu[rows], tasks.memory[rows], tasks.makespan[rows])
        for name in CLASSES:
            found[name].append(getattr(one, name))
    return {name: np.array(rows) for name, rows in found.items()}
