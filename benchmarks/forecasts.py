"""Figures of docs/results/forecasting.md: what more series, a pretrained start and an application's past are worth."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import tyro

from tvwrl.envs.problem import Problem
from tvwrl.experiments.engine import Rows, RowsCell, as_folder, complete, read_cell_rows, refuse_failed
from tvwrl.experiments.statistics import bootstrap_interval, column, crossed_estimate, select, with_interval
from tvwrl.forecasting import Beginnings, Forecaster, NetworkForecaster, Outcomes, training_windows
from tvwrl.forecasting.base import WINDOWS
from tvwrl.forecasting.pretrained import fit_or_adapt, start_for
from tvwrl.forecasting.scores import judged_beginnings, ranked_probability, score, skill
from tvwrl.markdown import markdown_table
from tvwrl.plotting import DPI, OTHERS, OURS, WIDTH, new_figure, scale_logarithmically, tidy
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import DAY_SECONDS, open_trace
from tvwrl.traces.past import EarlierUsage
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.splits import TEST_SHARE, VALIDATION_SHARE, Split
from tvwrl.traces.windows import Window, Windows, stack_windows
from tvwrl.types import Float

TRACES = ("google2011", "google2019", "bitbrains", "tianchi")
ALL = 0
SEQUENCES, JUDGED = 60, 2000  # test sequences that are played, and test windows whose beginnings are forecast
Kind = Literal["own", "pooled"]
OWN: Kind = "own"
POOLED: Kind = "pooled"
STYLES: dict[Kind, dict[str, Any]] = {
    OWN: {"label": "series of this trace alone", "color": OTHERS, "fmt": "s--", "ms": 4.5, "lw": 1.4},
    POOLED: {"label": "and all series of the other traces", "color": OURS, "fmt": "o-", "ms": 5, "lw": 1.4},
}
SMALL = (10, 30, 100, 180)  # workloads of traces that may start from the shipped forecaster
CLUSTER = "synthetic:google-v2(workloads=1000,replicas=4)"  # applications whose replicas restart
PASTS = (
    ("bitbrains", "time"),
    ("google2011", "time"),
    ("google2019", "time"),
    ("google2019", "placements"),
    (CLUSTER, "placements"),
)  # traces, and what is kept from training
COUNTS = {OWN: (10, 30, 100, 300, 1000), POOLED: (10, 100, 1000)}  # of training series, and then all


@lru_cache(maxsize=8)
def problem_of(name: str) -> Problem:
    """The trace's problem at load 0.5, without a forecaster."""
    return Problem.build(open_trace(name), Scenario(load=0.5), classes="none")


@lru_cache(maxsize=8)
def series_of(name: str) -> int:
    """Number of a trace's training workloads."""
    return len({run.workload for run in problem_of(name).sampler.runs["train"]})


@lru_cache(maxsize=8)
def windows_of(name: str) -> Windows:
    """Windows of all training series of a trace, for pooled training."""
    return training_windows(problem_of(name).sampler).without_folds()


def narrowed(sampler: SequenceSampler, count: int, seed: int) -> SequenceSampler:
    """The sampler with `count` drawn training workloads; units, rates and the other splits stay as they are."""
    workloads = np.unique([run.workload for run in sampler.runs["train"]])
    if count in (ALL, len(workloads)):
        return sampler
    kept = set(np.random.default_rng([seed, 6]).permutation(workloads)[:count].tolist())
    few = copy(sampler)
    few.runs = sampler.runs | {"train": [run for run in sampler.runs["train"] if run.workload in kept]}
    few._candidates = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few._most = sampler._most | {"train": few._reach("train")}
    return few


def judged(name: str, forecaster: Forecaster, split: Split = "test") -> Rows:
    """Reward of expected-cost on every sequence of a split, in thousands, and the skill on windows of its series."""
    problem = replace(problem_of(name), forecaster=forecaster)
    sequences = problem.sequences(split, SEQUENCES, 0)
    runner, scheduler = Runner(sequences, problem.machines, problem.scenario), make_scheduler("expected-cost")
    rewards = problem.rewards(runner, scheduler) / 1000
    gained = skill_of(name, forecaster, split)
    return [{"sequence": i, "reward": float(reward), "skill": gained} for i, reward in enumerate(rewards)]


def skill_of(name: str, forecaster: Forecaster, split: Split = "test") -> float:
    """1 - CRPS / CRPS of what is usual in the trace's training series, of the segments' largest demand."""
    sampler = problem_of(name).sampler
    drawn = sampler.windows(split, JUDGED, np.random.default_rng([7, 1]))
    test = Beginnings.draw(stack_windows(drawn, sampler.trace, sampler.unit), np.random.default_rng([7, 2]))
    usual = Beginnings.draw(windows_of(name), np.random.default_rng([7, 3]))
    truth, known = (Outcomes.of(part).levels(forecaster.levels, forecaster.peak_units)[0] for part in (test, usual))
    shares = np.stack([(known == level).mean(axis=0) for level in range(forecaster.levels + 1)], axis=-1)
    crps = [ranked_probability(chances, truth).mean() for chances in (forecaster.predict(test).most, shares)]
    return float(skill(*crps))


@dataclass(frozen=True)
class Point(RowsCell):
    """A forecaster that learnt from so many series of a trace, and what it is worth on series that it never saw."""

    trace: str
    count: int  # training series; ALL of them
    kind: Kind  # own, or pooled with all training series of the other traces
    seed: int  # of which series are taken, and of training
    hidden: int = 64
    windows: int = WINDOWS

    @property
    def name(self) -> str:
        size = f"-{self.hidden}" * (self.hidden != 64) + f"-w{self.windows}" * (self.windows != WINDOWS)
        return f"{self.group}/{self.count}{size}-{self.seed}"

    @property
    def group(self) -> str:
        return f"{self.trace}-{self.kind}"

    def request(self) -> dict[str, Any]:
        return asdict(self)

    def measure(self) -> Rows:
        sampler = narrowed(problem_of(self.trace).sampler, self.count, self.seed)
        own = training_windows(sampler, self.windows, self.seed).without_folds()
        also = [windows_of(name) for name in TRACES if name != self.trace] if self.kind == POOLED else []
        return judged(self.trace, NetworkForecaster(hidden=self.hidden, random_state=self.seed).fit(own, also))


@dataclass(frozen=True)
class Start(RowsCell):
    """A forecaster of a small trace, from nothing and from the shipped one, and what it is worth on other series."""

    trace: str
    workloads: int  # of the small trace: its training series are as many as a trace of that size leaves for training
    seed: int
    split: Split = "test"  # whose series it is worth something on

    @property
    def name(self) -> str:
        return f"start-{self.split}/{self.trace}-{self.workloads}-{self.seed}"

    def request(self) -> dict[str, Any]:
        return asdict(self)

    def measure(self) -> Rows:
        sampler = problem_of(self.trace).sampler
        count = round((1 - TEST_SHARE) * (1 - VALIDATION_SHARE) * self.workloads)
        own = training_windows(narrowed(sampler, count, self.seed), random_state=self.seed)
        rows: Rows = []
        for start in (None, start_for(sampler.trace, NetworkForecaster())):
            began = time.perf_counter()
            fitted = NetworkForecaster(random_state=self.seed).fit(own, start=start)
            facts = {"start": start is not None, "seconds": time.perf_counter() - began}
            facts["error"] = fitted.unseen_error()
            rows += [row | facts for row in judged(self.trace, fitted, self.split)]
        return rows


@dataclass(frozen=True)
class Past(RowsCell):
    """A forecaster that learnt with what applications used before, and what it is worth where it is told, or not."""

    trace: str
    by: str  # --split
    seed: int  # of training
    loads: tuple[float, ...]
    split: Split = "test"  # whose series it is worth something on

    @property
    def name(self) -> str:
        return f"past-{self.split}/{as_folder(self.trace)}-{self.by}-{self.seed}"

    def request(self) -> dict[str, Any]:
        return asdict(self)

    def measure(self) -> Rows:
        problems = {
            (load, told): Problem.build(
                open_trace(self.trace), Scenario(load=load, split=self.by, own_past=told), classes="none"
            )
            for load in self.loads
            for told in (False, True)
        }
        sampler = problems[self.loads[0], True].sampler
        own = training_windows(sampler, random_state=self.seed)
        forecaster = fit_or_adapt(NetworkForecaster(random_state=self.seed), own, sampler.trace)
        rows: Rows = []
        for (load, told), problem in problems.items():
            beginnings = judged_beginnings(problem.sampler, self.split, 0)
            scores = score(forecaster, beginnings)
            facts = {"told": told, "load": load, "looks": forecaster.uses_past, "known": float(beginnings.told.mean())}
            facts |= {"crps": 1000 * float(scores.crps.mean()), "within_90": float(scores.within_90.mean())}
            problem = replace(problem, forecaster=forecaster)
            runner = Runner(problem.sequences(self.split, SEQUENCES, 0), problem.machines, problem.scenario)
            played = problem.rewards(runner, make_scheduler("expected-cost"))
            rows += [{"sequence": i, "reward": float(reward) / 1000} | facts for i, reward in enumerate(played)]
        return rows


def curve(
    out: Path = Path("runs/forecast-curve"),
    seeds: int = 2,
    kinds: tuple[Kind, ...] = (OWN, POOLED),
    figure: Path = Path("docs/results/forecasting/curve.png"),
) -> None:
    """Reward and skill against the number of training series, own and pooled.

    Args:
        out: folder of what is finished; an interrupted call continues.
        seeds: draws of which series are taken.
        kinds: what is measured; the others have to be finished.
        figure: where it is drawn.
    """
    points = [
        point for seed in range(seeds) for kind in kinds for trace in TRACES for point in points_of(trace, kind, seed)
    ]
    refuse_failed(complete(out, points))
    print(curve_table(out, points))
    draw_curves(out, points, figure)


def points_of(trace: str, kind: Kind, seed: int) -> list[Point]:
    """The points of one seed; of the first, also those that tell whether a larger network or more windows would do."""
    counts = [count for count in COUNTS[kind] if count < series_of(trace)] + [ALL]
    points = [Point(trace, count, kind, seed) for count in counts]
    if kind == OWN and seed == 0:
        points += [Point(trace, ALL, kind, 0, hidden=128), Point(trace, ALL, kind, 0, windows=4 * WINDOWS)]
    return points


def start(out: Path = Path("runs/forecast-start"), seeds: int = 2, split: Split = "test") -> None:
    """What the shipped forecaster is worth to a trace of few workloads that it never saw.

    Args:
        out: folder of what is finished; an interrupted call continues.
        seeds: draws of which workloads the small trace has.
        split: series on which it is worth something: validation to choose a setting, test to judge it.
    """
    traces = ("tianchi", "bitbrains")
    cells = [Start(trace, n, s, split) for s in range(seeds) for n in SMALL for trace in traces]
    refuse_failed(complete(out, cells))
    print(start_table(out, cells))


def past(
    out: Path = Path("runs/forecast-past"),
    seeds: int = 3,
    traces: tuple[str, ...] = (),
    loads: tuple[float, ...] = (0.5,),
    split: Split = "test",
) -> None:
    """What it is worth to know what an application used before.

    Args:
        out: folder of what is finished; an interrupted call continues.
        seeds: trainings.
        traces: those of these names alone; default: all.
        loads: offered loads.
        split: series on which it is worth something: validation to choose a setting, test to judge it.
    """
    chosen = [pair for pair in PASTS if not traces or pair[0] in traces]
    cells = [Past(trace, by, seed, loads, split) for seed in range(seeds) for trace, by in chosen]
    refuse_failed(complete(out, cells))
    print(past_table(out, cells))


def speed(trace: str = "google2011", repeats: int = 5) -> None:
    """Seconds to fit on one core, and microseconds to forecast a workload in a slot.

    Args:
        trace: the trace; pooled training has the other three beside it.
        repeats: measurements, of which the best counts.
    """
    torch.set_num_threads(1)
    problem = problem_of(trace)
    own, others = training_windows(problem.sampler), [windows_of(name) for name in TRACES if name != trace]
    test = problem.sampler.windows("test", JUDGED, np.random.default_rng(0))
    every = Beginnings.every(stack_windows(test, problem.trace, problem.sampler.unit))
    for name, also in ((OWN, []), (POOLED, others)):
        began = time.perf_counter()
        forecaster = NetworkForecaster().fit(own, also)
        print(f"fit {name}: {time.perf_counter() - began:.0f} s", flush=True)
    times = []
    for _ in range(repeats):
        fresh = every[slice(None)]  # inputs are computed anew
        began = time.perf_counter()
        forecaster.predict(fresh).forecast()
        times.append(time.perf_counter() - began)
    print(f"forecast: {1e6 * min(times) / len(every):.1f} us per workload and slot ({len(every)} of them)")


def past_speed(replicas: int = 5000, windows: int = 6000) -> None:
    """Seconds to tell windows what an application of many replicas used before.

    Args:
        replicas: of the one application, each with seven days of usage.
        windows: windows of its replicas.
    """
    one = open_trace("synthetic:google-v2(workloads=1)")
    slots, nothing = 7 * DAY_SECONDS // one.slot_seconds, np.full(replicas, np.nan)
    usage = np.random.default_rng(0).random((replicas * slots, len(one.resources)))
    many = replace(
        one,
        workload_id=np.array([f"pod-{i}" for i in range(replicas)], dtype=object),
        application=np.array(["web"] * replicas, dtype=object),
        offsets=np.arange(replicas + 1) * slots,
        slot=np.tile(np.arange(slots), replicas),
        usage=usage,
        arrival=np.zeros(replicas, np.int64),
        priority=nothing,
        scheduling_class=nothing,
        request=np.stack([nothing] * len(one.resources), axis=1),
    )
    begun = np.random.default_rng(1).integers(0, slots, windows).tolist()
    drawn = [Window(i % replicas, slot, usage[:1]) for i, slot in enumerate(begun)]
    unit = np.ones(len(one.resources))
    EarlierUsage(one, 6, unit, 6.0, "max").before([Window(0, 48, usage[:1])])  # compiles
    began = time.perf_counter()
    EarlierUsage(many, 6, unit, 6.0, "max").before(drawn)
    print(f"{replicas} replicas, {windows} windows: {time.perf_counter() - began:.2f} s")


def rewards_and_skills(out: Path, cells: Sequence[RowsCell], started: bool | None = None) -> tuple[Float, Float]:
    """(seeds, sequences) rewards and (seeds,) skills of cells; with or without a start where cells have both."""
    parts = [
        [row for row in read_cell_rows(out, [cell]) if started is None or row["start"] == started] for cell in cells
    ]
    rewards = np.array([[row["reward"] for row in part] for part in parts])
    return rewards, np.array([part[0]["skill"] for part in parts])


def by_line(points: Sequence[Point]) -> dict[tuple[str, Kind, int, int], dict[int, list[Point]]]:
    """(trace, kind, hidden, windows) -> training series -> the points of its seeds, by rising number of series."""
    lines: dict[tuple[str, Kind, int, int], dict[int, list[Point]]] = {}
    for point in points:
        sizes = lines.setdefault((point.trace, point.kind, point.hidden, point.windows), {})
        sizes.setdefault(point.count or series_of(point.trace), []).append(point)
    return {line: dict(sorted(sizes.items())) for line, sizes in lines.items()}


def curve_table(out: Path, points: Sequence[Point]) -> str:
    """Means over seeds; differences are to the trace's own training on all series, sequence by sequence."""
    rows = []
    for (trace, kind, hidden, windows), sizes in sorted(
        by_line(points).items(), key=lambda item: TRACES.index(item[0][0])
    ):
        all_own = [
            p for p in points if p.count == ALL and (p.trace, p.kind, p.hidden, p.windows) == (trace, OWN, 64, WINDOWS)
        ]
        reference = rewards_and_skills(out, all_own)[0].mean(axis=0)
        size = ", twice the size" * (hidden != 64) + f", {windows} windows" * (windows != WINDOWS)
        for count, seeds in sizes.items():
            rewards, skills = rewards_and_skills(out, seeds)
            gain = rewards.mean(axis=0) - reference
            text = "" if gain.any() == 0 else with_interval(gain.mean(), bootstrap_interval(gain), 0, "+")
            rows.append([trace, kind + size, str(count), f"{rewards.mean():.0f}", text, f"{skills.mean():.2f}"])
    return markdown_table(["trace", "training", "series", "reward", "against all its own series", "skill"], rows)


def start_table(out: Path, cells: Sequence[Start]) -> str:
    """Means over seeds; differences are to training from nothing, sequence by sequence."""
    rows = []
    for trace, workloads in dict.fromkeys((cell.trace, cell.workloads) for cell in cells):
        seeds = [cell for cell in cells if (cell.trace, cell.workloads) == (trace, workloads)]
        nothing, shipped = (rewards_and_skills(out, seeds, started) for started in (False, True))
        errors = np.array(
            [[rows[0]["error"], rows[-1]["error"]] for rows in (read_cell_rows(out, [cell]) for cell in seeds)]
        )
        taken = errors[:, 1] < errors[:, 0]
        gain = shipped[0] - nothing[0]
        gains = [part.mean(axis=0) for part in (gain, gain * taken[:, None])]
        texts = [with_interval(part.mean(), bootstrap_interval(part), 0, "+") for part in gains]
        skills = [f"{part.mean():.2f}" for part in (nothing[1], shipped[1], np.where(taken, shipped[1], nothing[1]))]
        rewards = [f"{part[0].mean():.0f}" for part in (nothing, shipped)]
        rows.append([trace, str(workloads), *rewards, *texts, f"{taken.sum()} of {len(taken)}", *skills])
    titles = ["from nothing", "from the shipped", "gain", "gain of the rule", "rule takes it"]
    return markdown_table(["trace", "workloads", *titles, "skill: nothing", "shipped", "rule"], rows)


def past_table(out: Path, cells: Sequence[Past]) -> str:
    """Means over seeds and sequences; differences are of the same networks on the same sequences."""
    table = []
    for trace, by in dict.fromkeys((cell.trace, cell.by) for cell in cells):
        seeds = [read_cell_rows(out, [cell]) for cell in cells if (cell.trace, cell.by) == (trace, by)]
        for load in cells[0].loads:
            without, told = (
                np.array([column(rows, "reward", load=load, told=told) for rows in seeds]) for told in (False, True)
            )
            gain = crossed_estimate(told - without)
            facts = [select(rows, load=load, told=told)[0] for told in (False, True) for rows in seeds]
            crps, within = (np.reshape([row[name] for row in facts], (2, -1)).mean(1) for name in ("crps", "within_90"))
            line = [trace, by, f"{load:g}", f"{without.mean():.0f}", f"{told.mean():.0f}"]
            line += [with_interval(gain.mean, gain.interval, 0, "+"), f"{crps[0]:.1f}", f"{crps[1]:.1f}"]
            line += [f"{100 * share:.0f}" for share in within]
            looks = sum(row["looks"] for row in facts[len(seeds) :])
            table.append([*line, f"{100 * facts[-1]['known']:.0f}", f"{looks} of {len(seeds)}"])
    titles = ["load", "reward, without", "with", "gain", "CRPS, without", "with", "in 90 %, without", "with"]
    return markdown_table(["trace", "split", *titles, "% told of", "looks at it"], table)


def draw_curves(out: Path, points: Sequence[Point], figure: Path) -> None:
    """The curves of the usual size of network and number of windows."""
    curves: dict[str, dict[Kind, Curve]] = {trace: {} for trace in TRACES}
    for (trace, kind, hidden, windows), sizes in by_line(points).items():
        if (hidden, windows) == (64, WINDOWS):
            found = [rewards_and_skills(out, seeds) for seeds in sizes.values()]
            rewards = np.array([reward.mean(axis=1) for reward, _ in found])
            curves[trace][kind] = Curve(list(sizes), rewards, np.array([skills for _, skills in found]))
    figure.parent.mkdir(parents=True, exist_ok=True)
    plot_curves(curves, figure)


class Curve(NamedTuple):
    """What one kind of training reached on a trace."""

    counts: list[int]  # of training series
    reward: Float  # (counts, seeds) thousands
    skill: Float  # (counts, seeds)


def plot_curves(curves: Mapping[str, Mapping[Kind, Curve]], figure: Path) -> None:
    """Reward above, skill below, one column per trace; bars are the range of the seeds, if there are several."""
    from matplotlib.ticker import LogLocator

    page = new_figure(WIDTH, 4.8)
    axes = page.subplots(2, len(curves), sharex="col", squeeze=False)
    for pair, (trace, kinds) in zip(axes.T, curves.items(), strict=True):
        for kind, curve in kinds.items():
            for axis, values in zip(pair, (curve.reward, curve.skill), strict=True):
                middle = values.mean(axis=1)
                bars = np.abs(np.array([values.min(axis=1), values.max(axis=1)]) - middle)
                axis.errorbar(curve.counts, middle, bars if bars.any() else None, **STYLES[kind])
        pair[0].set_title(trace, fontsize=10)
        for axis in pair:
            scale_logarithmically(axis.xaxis)
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 3) if max(kinds[OWN].counts) < 1000 else (1,)))
            axis.locator_params(axis="y", nbins=5)
            axis.yaxis.set_major_formatter("{x:,g}")
            axis.tick_params(labelsize=8.5)
            tidy(axis)
    axes[0, 0].set_ylabel("reward of expected-cost,\nthousands (higher is better)", fontsize=9.5)
    axes[1, 0].set_ylabel("skill against climatology\n(higher is better)", fontsize=9.5)
    for axis in axes[1]:
        axis.set_xlabel("series of the trace", fontsize=9.5)
    page.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    page.savefig(figure, dpi=DPI)


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    tyro.extras.subcommand_cli_from_dict(
        {"curve": curve, "start": start, "past": past, "past-speed": past_speed, "speed": speed}
    )
