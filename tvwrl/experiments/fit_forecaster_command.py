"""Compares forecasters of demand and keeps the best network, as `tvwrl forecast` is asked to."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from tvwrl.checks import at_least, different, one_of
from tvwrl.command_line import SlotSeconds, TraceName, spelled
from tvwrl.envs import Problem
from tvwrl.experiments.engine import ROWS, Cell, CellOptions, Rows, folder_of, read_cell_rows, refuse_failed
from tvwrl.experiments.evaluate_command import Environment
from tvwrl.experiments.statistics import mean_with_interval, paired_difference
from tvwrl.forecasting import (
    FILE,
    FORECASTERS,
    REFERENCE,
    SEGMENTS,
    SHARES,
    WINDOWS,
    Beginnings,
    Forecaster,
    NetworkForecaster,
    Scores,
    fit_or_adapt,
    judged_beginnings,
    make_forecaster,
    read_forecaster,
    score,
    skill,
    training_windows,
    write_forecaster,
)
from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, new_figure, tidy
from tvwrl.progress import say
from tvwrl.runs import default_folder, provenance, whole_file, write_csv, write_json
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import (
    SequenceSampler,
    Split,
    Windows,
    open_and_describe,
    open_trace,
    share_workloads,
    trace_hash,
)
from tvwrl.types import Float, InputError, Trace

DEFAULT = tuple(name for name in FORECASTERS if name != "boosting")  # that one takes minutes
CANDIDATES = (
    f"Forecasters to compare: {', '.join(FORECASTERS)}. boosting takes minutes to fit and is not in the default."
)
SAVED = "network"  # the forecaster that can be saved
SHIPPED = "from_shipped"  # measure: whether it started from the weights that ship with the package
OWN, POOLED, OTHERS = "own", "pooled", "others"  # series that one learns from
LEFT_OUT = ((SAVED, OWN), (SAVED, POOLED))  # of the test, unless chosen
NOTE = f"""Rewards, in thousands, are those of `expected-cost` with these forecasts; differences are paired by
sequence, with 95 % bootstrap intervals over sequences. CRPS, in thousandths of --peak-units, is that of the largest
demand in a segment of the future; 0 is perfect. "While running" is the CRPS of demand alone, given that the workload
still runs; Brier is the score of the probability that it does. Skill is 1 - CRPS / CRPS of {REFERENCE}. The last
columns are coverage: the share of what came, in %, that lies within central intervals of 50 % and 90 %, for segments
and for the peak of the rest of the life."""


LOOKS_BACK = "It looks at what applications used before, where that is known."
LOOKS_NOT_BACK = (
    "It does not look at what applications used before: too few windows are told of it to learn from, or forecasts of "
    "series that were held out were no better with it. So --own-past changes nothing here."
)


@dataclass(frozen=True)
class ForecasterFitOptions(CellOptions):
    """Compare forecasters of demand on unseen series, and keep the best network for tvwrl train --forecaster.

    Networks learn from the trace, from it and other traces, or from other traces only. The command keeps the network
    that gives expected-cost the highest reward on validation sequences, and evaluates it on test series. Writes
    forecaster.json, table.md, report.csv, run.json and plots/ to --out. After Ctrl-C or a crash, run the same command
    with the same --out to continue.
    """

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    also: tuple[str, ...] = ()
    """Other traces whose training series networks may learn from. They need the same resources, and slots that divide
    --step-seconds. CSV files are read with --slot-seconds."""
    candidates: Annotated[tuple[str, ...], tyro.conf.arg(help=CANDIDATES)] = DEFAULT
    loads: tuple[float, ...] = (0.3, 0.5, 0.8)
    """Offered loads."""
    sequences: int = 60
    """Validation sequences per load, used to choose the network, and test sequences per load, used to judge it."""
    windows: int = WINDOWS
    """Number of training windows, cut from the training series of each trace."""
    seed: int = 0
    """Seed of everything that is drawn: windows, networks and sequences."""
    environment: tyro.conf.OmitArgPrefixes[Environment] = field(default_factory=Environment)

    def comparison(self) -> Comparison:
        """What is compared. Raises InputError for options that are wrong by themselves or together."""
        self.check_run()
        one_of(FORECASTERS, candidates=self.candidates)
        different(candidates=self.candidates, loads=self.loads)
        at_least(1, sequences=self.sequences, windows=self.windows)
        at_least(0, seed=self.seed)
        compared = Comparison(
            self.trace,
            self.slot_seconds,
            self.also,
            replace(self.environment, observe_forecast=False, observe_peak=False),  # the judge needs neither
            self.loads,
            self.sequences,
            self.windows,
            self.seed,
        )
        compared.check()
        return compared


def fit_forecasters(options: ForecasterFitOptions) -> None:
    """Fit and judge the forecasters, print the tables and write the folder.

    Raises InputError for bad options, and at the end for forecasters that failed, each by name; the others have their
    tables then. KeyboardInterrupt and SystemExit pass through; finished cells are kept.
    """
    trace = open_and_describe(options.trace, options.slot_seconds, say)
    compared = options.comparison()
    out = options.out or default_folder(f"forecaster-{trace.name}")
    cells = cells_of(compared, options.candidates)
    if (failed := options.complete(out, cells)) is None:
        return
    validated = Finished(out, [cell for cell in cells if cell.name not in failed])
    if not validated.cells:
        refuse_failed(failed)
    best = validated.best()
    wanted = [cell for cell in validated.cells if cell == best or (cell.candidate, cell.sources) not in LEFT_OUT]
    judged = [
        replace(cell, split="test", fitted=folder_of(out, cell) / FILE if cell.candidate == SAVED else None)
        for cell in wanted
    ]
    failed |= options.complete(out, judged) or {}
    tested = Finished(out, [cell for cell in judged if cell.name not in failed])
    kept = None if best is None else read_forecaster(folder_of(out, best) / FILE, compared.sampler)
    text = _text(compared, validated, tested, best, kept)
    _write(out, compared, validated, tested, best, text)
    print(text)
    if best is not None:
        use = ["tvwrl", "train", "--trace", options.trace, *spelled(options, ForecasterFitOptions(), ("slot_seconds",))]
        use += ["--forecaster", str(out / FILE), *spelled(options.environment, Environment())]
        print(f"train with it: {shlex.join(use)}")
    else:
        print("no forecaster was saved: only networks can be, and none was among the candidates or finished")
    print(f"written to {out}")
    refuse_failed(failed)


def _text(
    compared: Comparison, validated: Finished, tested: Finished, best: ForecasterCell | None, kept: Forecaster | None
) -> str:
    """table.md."""
    parts = ["## Validation series (used to choose)", validated.reward_table(best), validated.scores_table()]
    if best is not None:
        parts.append(f"`{best.title}` has the best mean reward of the networks and is kept.")
        gains = {name: validated.mean(name) - validated.mean(best.title) for name in validated.rewards}
        if better := [f"`{name}` (by {gain / 1000:.1f})" for name, gain in gains.items() if gain > 0]:
            parts.append(f"A higher mean reward, but cannot be saved: {', '.join(better)}.")
    if compared.scenario.own_past and kept is not None:
        parts.append(LOOKS_BACK if kept.uses_past else LOOKS_NOT_BACK)
    if not compared.sampler.holds_out:
        parts.append("Too few series to hold any out: validation series are the training series here.")
    if tested.cells:
        compared_with = best if best is not None and best.title in tested.rewards else None  # its test may have failed
        parts += ["## Test series (used to judge)", tested.reward_table(compared_with), tested.scores_table()]
    parts.append(NOTE)
    return "\n\n".join(parts) + "\n"


def _write(
    out: Path, compared: Comparison, validated: Finished, tested: Finished, best: ForecasterCell | None, text: str
) -> None:
    """Everything but the cells."""
    write_csv(out / "report.csv", [*validated.rows, *tested.rows])
    plots = out / "plots"
    step = compared.scenario.step_seconds
    pictures: dict[str, Callable[[Path], None]] = {"calibration.png": tested.plot_calibration}
    if REFERENCE in validated.scores:
        pictures["skill-validation.png"] = partial(validated.plot_skill, step)
    if REFERENCE in tested.scores:
        pictures["skill.png"] = partial(tested.plot_skill, step)
    if best is not None:
        with whole_file(out / FILE) as copy:
            shutil.copyfile(folder_of(out, best) / FILE, copy)
        pictures["examples.png"] = partial(plot_examples, compared, read_forecaster(out / FILE, compared.sampler))
    for name, draw in pictures.items():
        with whole_file(plots / name) as picture:
            draw(picture)
    trace = compared.opened
    facts = {"trace": {"name": trace.name, "source": trace.source, "hash": trace_hash(trace)}, "also": compared.also}
    chosen = None if best is None else best.title
    write_json(
        out / "run.json",
        provenance() | facts | compared.request() | {"chosen": chosen, "notes": compared.sampler.notes},
    )
    with whole_file(out / "table.md") as file:
        file.write_text(text, encoding="utf-8")


JUDGE = "expected-cost"  # the scheduler that believes a forecaster
SCORES, REWARDS = "scores.json", "rewards.json"


@dataclass(frozen=True)
class Comparison:
    """What forecasters are compared on."""

    trace: str
    slot_seconds: int | None
    also: tuple[str, ...]
    scenario: Scenario
    loads: tuple[float, ...]
    sequences: int
    windows: int
    seed: int

    def problem(self, load: float, forecaster: Forecaster | None = None) -> Problem:
        """The problem at a load; labels are no matter, as the scheduler that judges looks at none."""
        scenario = replace(self.scenario, load=load)
        return Problem.build(self.opened, scenario, "none", self.sampler.unit, forecaster)

    @property
    def opened(self) -> Trace:
        """The trace to forecast."""
        return _opened(self.trace, self.slot_seconds)

    @property
    def sampler(self) -> SequenceSampler:
        """Draws windows of the trace."""
        return _sampler(self.trace, self.slot_seconds, replace(self.scenario, load=self.loads[0]))

    @property
    def others(self) -> list[tuple[str, int | None, Scenario]]:
        """What opens the samplers of other traces."""
        scenario = replace(self.scenario, **WINDOWS_ALONE)
        return [(name, self.slot_seconds if name.endswith(".csv") else None, scenario) for name in self.also]

    def training(self, sources: str) -> list[Windows]:
        """Windows of training series: the trace's own, then those of others; or others' alone, without folds."""
        own = (self.trace, self.slot_seconds, self.sampler.scenario)
        chosen = [own] * (sources != OTHERS) + self.others * (sources != OWN)
        found = [_windows(*one, self.windows, self.seed) for one in chosen]
        return found if sources != OTHERS else [one.without_folds() for one in found]

    def request(self) -> dict[str, Any]:
        """What every result depends on; a trace counts by its content."""
        scenario = replace(self.scenario, load=self.loads[0])
        asked = {"trace_hash": trace_hash(self.opened), "scenario": asdict(scenario), "loads": self.loads}
        return asked | {"sequences": self.sequences, "windows": self.windows, "seed": self.seed}

    def check(self) -> None:
        """Raise InputError, naming the trace and the field, for traces that cannot be learnt from together, and for
        loads that cannot be offered."""
        first = self.opened
        hashes = {trace_hash(first): self.trace}
        others = [(name, _opened(name, slot_seconds)) for name, slot_seconds, _ in self.others]
        for name, trace in [(self.trace, first), *others]:
            if trace.resources != first.resources:
                raise InputError(
                    f"also: trace '{name}' has the resources {', '.join(trace.resources)}, but '{self.trace}' has "
                    f"{', '.join(first.resources)}: must be the same in the same order"
                )
            if self.scenario.step_seconds % trace.slot_seconds:
                raise InputError(
                    f"step_seconds is {self.scenario.step_seconds}: must be a multiple of the slot_seconds of trace "
                    f"'{name}', {trace.slot_seconds}; give another --step-seconds, or leave it out"
                )
            if trace is not first and (same := hashes.setdefault(trace_hash(trace), name)) != name:
                raise InputError(f"also: trace '{name}' is '{same}' under another name: leave it out")
            if trace is not first and share_workloads(first, trace):
                raise InputError(
                    f"also: trace '{name}' shares workload names with '{self.trace}', so forecasters could see its "
                    "test series: leave it out, or rename its workloads if they are different ones"
                )
        if self.trace in self.also or len(set(self.also)) < len(self.also):
            raise InputError(f"also is {', '.join(self.also)}: must be different traces, without '{self.trace}'")
        for load in self.loads:
            self.problem(load)
        for one in self.others:
            _sampler(*one)


# Of other traces only windows are drawn, so it does not matter whether they could be served; nor have all applications.
WINDOWS_ALONE: dict[str, Any] = {"placements_per_slot": None, "split": "workloads"}


@dataclass(frozen=True)
class ForecasterCell(Cell):
    """A forecaster judged on validation or test: by scores, and by rewards of `JUDGE`."""

    comparison: Comparison
    candidate: str
    sources: str
    split: Split
    fitted: Path | None = None  # a file of the fitted forecaster; default: fit it

    @property
    def name(self) -> str:
        return f"{self.split}/{self.title}"

    @property
    def title(self) -> str:
        """The candidate, and what it learnt from, in the name of a folder."""
        return self.candidate if self.candidate != SAVED else f"{self.candidate}-{self.sources}"

    def request(self) -> dict[str, Any]:
        traces = [] if self.sources == OWN else self.comparison.others
        others = {name: trace_hash(_opened(name, slot_seconds)) for name, slot_seconds, _ in traces}
        asked = {"candidate": self.candidate, "sources": self.sources, "split": self.split, "also": others}
        return self.comparison.request() | asked | {"fitted": self.fitted}

    def run(self, folder: Path) -> None:
        """Leave rows of the report, scores, rewards, and the fitted forecaster if it can be saved."""
        compared = self.comparison
        forecaster, seconds = self._forecaster()
        if self.candidate == SAVED and self.fitted is None:
            write_forecaster(folder / FILE, forecaster, compared.sampler)
        scores = score(forecaster, judged_beginnings(compared.sampler, self.split, compared.seed))
        write_json(folder / SCORES, {name: np.asarray(value).tolist() for name, value in vars(scores).items()})
        rewards = {str(load): self._rewards(load, forecaster) for load in compared.loads}
        write_json(folder / REWARDS, rewards)
        rows = self._rows(scores, rewards, seconds)
        if isinstance(forecaster, NetworkForecaster):
            rows.append(self._named() | {"measure": SHIPPED, "at": None, "value": float(forecaster.adapted_)})
        write_json(folder / ROWS, rows)

    def _forecaster(self) -> tuple[Forecaster, float]:
        """The fitted forecaster, and the seconds that it took."""
        compared = self.comparison
        if self.fitted is not None:
            return read_forecaster(self.fitted, compared.sampler), 0.0
        own, *also = compared.training(self.sources)
        scenario = compared.scenario
        made = make_forecaster(self.candidate, scenario.peak_units, scenario.step_seconds, compared.seed)
        begun = time.monotonic()
        if isinstance(made, NetworkForecaster) and self.sources == OWN:
            return fit_or_adapt(made, own, compared.opened), time.monotonic() - begun
        return made.fit(own, also), time.monotonic() - begun

    def _rewards(self, load: float, forecaster: Forecaster) -> list[float]:
        """The rewards of `JUDGE` on the sequences of the split at a load."""
        problem = self.comparison.problem(load, forecaster)
        drawn = problem.sequences(self.split, self.comparison.sequences, self.comparison.seed)
        runner = Runner(drawn, problem.machines, problem.scenario, self.comparison.seed)
        rewards: list[float] = problem.rewards(runner, make_scheduler(JUDGE)).tolist()
        return rewards

    def _named(self) -> dict[str, Any]:
        return {"split": self.split, "forecaster": self.candidate, "learnt_from": self.sources}

    def _rows(self, scores: Scores, rewards: dict[str, list[float]], seconds: float) -> Rows:
        """What report.csv says of it: a row for every measure."""
        named = self._named()
        rows: Rows = [named | {"measure": "fit_seconds", "at": None, "value": seconds}] if self.fitted is None else []
        for measure in ("crps", "running_crps", "brier", "within_50", "within_90"):
            for (first, last), value in zip(SEGMENTS, getattr(scores, measure), strict=True):
                rows.append(named | {"measure": measure, "at": f"{first}-{last}", "value": float(value)})
        for measure in ("peak_crps", "peak_within_50", "peak_within_90"):
            rows.append(named | {"measure": measure, "at": "peak", "value": float(getattr(scores, measure))})
        for share, value in zip(SHARES, scores.calibration, strict=True):
            rows.append(named | {"measure": "calibration", "at": str(share), "value": float(value)})
        for load, values in rewards.items():
            rows += [named | {"measure": "reward", "at": f"{load}/{i}", "value": v} for i, v in enumerate(values)]
        return rows


def cells_of(comparison: Comparison, candidates: Sequence[str]) -> list[ForecasterCell]:
    """The forecasters on validation: each learns from the trace, the one that can be saved from others too."""
    learns = {SAVED: [OWN, *([POOLED, OTHERS] if comparison.also else [])]}
    return [
        ForecasterCell(comparison, name, sources, "validation")
        for name in candidates
        for sources in learns.get(name, [OWN])
    ]


@lru_cache(maxsize=8)
def _opened(name: str, slot_seconds: int | None) -> Trace:
    return open_trace(name, slot_seconds)


@lru_cache(maxsize=8)
def _sampler(name: str, slot_seconds: int | None, scenario: Scenario) -> SequenceSampler:
    return SequenceSampler(_opened(name, slot_seconds), scenario)


@lru_cache(maxsize=8)
def _windows(name: str, slot_seconds: int | None, scenario: Scenario, count: int, seed: int) -> Windows:
    return training_windows(_sampler(name, slot_seconds, scenario), count, seed)


EXAMPLES, SEEN_HOURS = 6, 8.0  # workloads shown, and what has been seen of them
LEARNT = {OWN: "the trace", POOLED: "the trace and others", OTHERS: "others only"}


class Finished:
    """What the finished cells of a split left, by the titles of the forecasters."""

    def __init__(self, out: Path, cells: Sequence[ForecasterCell]) -> None:
        self.cells = list(cells)
        self.rows = read_cell_rows(out, cells)
        folders = {cell.title: folder_of(out, cell) for cell in cells}
        self.scores = {name: _arrays(folder / SCORES) for name, folder in folders.items()}
        # Of a load in which an episode has no reward, as it left workloads unplaced, none counts
        self.rewards = {
            name: {
                load: np.full_like(own, np.nan) if np.isnan(own).any() else own
                for load, own in _arrays(folder / REWARDS).items()
            }
            for name, folder in folders.items()
        }

    def best(self) -> ForecasterCell | None:
        """Of the forecasters that can be saved, the one with the best mean reward over all loads."""
        able = [cell for cell in self.cells if cell.candidate == SAVED]
        return max(able, key=lambda cell: np.nan_to_num(self.mean(cell.title), nan=-np.inf), default=None)

    def mean(self, title: str) -> float:
        """The mean reward over all loads; NaN if workloads were left unplaced at any."""
        return float(np.mean(list(self.rewards[title].values())))

    def reward_table(self, compared: ForecasterCell | None) -> str:
        """Markdown: a line for each forecaster with its rewards, and how much better those of `compared` are."""
        loads = list(next(iter(self.rewards.values())))
        head = ["forecaster", "learnt from", *(f"load {load}" for load in loads)]
        if compared is not None:
            head += [f"{compared.title} is better by, load {load}" for load in loads]
        return markdown_table(head, [self._rewards(cell, loads, compared) for cell in self.cells])

    def _rewards(self, cell: ForecasterCell, loads: Sequence[str], compared: ForecasterCell | None) -> list[str]:
        rewards = self.rewards[cell.title]
        shipped = any(
            row["measure"] == SHIPPED and row["value"] and row["learnt_from"] == cell.sources for row in self.rows
        )
        learnt = LEARNT[cell.sources] + ", from shipped weights" * (shipped and cell.candidate == SAVED)
        line = [cell.title, learnt, *(mean_with_interval(rewards[load] / 1000) for load in loads)]
        if compared is None:
            return line
        if compared.title == cell.title:
            return line + ["-"] * len(loads)
        own = self.rewards[compared.title]
        return line + [paired_difference(own[load], rewards[load], scale=1 / 1000) for load in loads]

    def scores_table(self) -> str:
        """Markdown: a line for each forecaster with its scores, means over segments."""
        head = ["forecaster", "CRPS", "skill %", "while running", "skill %", "Brier"]
        head += [f"{what} in {percent} %" for what in ("segments", "peak") for percent in (50, 90)]
        return markdown_table(head, [self._scores(cell.title) for cell in self.cells])

    def _scores(self, name: str) -> list[str]:
        scores, reference, line = self.scores[name], self.scores.get(REFERENCE), [name]
        for measure in ("crps", "running_crps"):
            own = float(np.nanmean(scores[measure]))
            line.append(f"{1000 * own:.1f}")
            line.append("-" if reference is None else f"{100 * skill(own, float(np.nanmean(reference[measure]))):.1f}")
        line.append(f"{scores['brier'].mean():.3f}")
        covered = (scores[f"{of}within_{percent}"].mean() for of in ("", "peak_") for percent in (50, 90))
        return line + [f"{100 * share:.0f}" for share in covered]

    def plot_skill(self, step_seconds: int, file: Path) -> None:
        """Skill of the largest demand by horizon, against the reference."""
        figure = new_figure(7, 4)
        axis = figure.subplots()
        hours = [(first + last) / 2 * step_seconds / 3600 for first, last in SEGMENTS]
        reference = self.scores[REFERENCE]["crps"]
        for i, (name, scores) in enumerate(self.scores.items()):
            style = _style(i, name)
            axis.plot(hours, 100 * skill(scores["crps"], reference), "o", ms=3, label=name, **style)
        axis.set_xscale("log", base=2)
        axis.set_xticks(hours, [f"{h:.3g}" for h in hours])
        axis.set(xlabel="hours ahead (middle of the segment)", ylabel=f"CRPS below that of {REFERENCE}, %")
        axis.legend(frameon=False, fontsize=7)
        tidy(axis)
        figure.savefig(file, dpi=DPI, format="png")

    def plot_calibration(self, file: Path) -> None:
        """Share of what came below each quantile."""
        figure = new_figure(5, 4.4)
        axis = figure.subplots()
        axis.plot([0, 1], [0, 1], color="grey", lw=1)
        for i, (name, scores) in enumerate(self.scores.items()):
            style = _style(i, name)
            axis.plot(SHARES, scores["calibration"], label=name, **style)
        axis.set(xlabel="quantile forecast", ylabel="share of what came below it", xlim=(0, 1), ylim=(0, 1))
        axis.legend(frameon=False, fontsize=7)
        tidy(axis)
        figure.savefig(file, dpi=DPI, format="png")


def plot_examples(comparison: Comparison, forecaster: Forecaster, file: Path) -> None:
    """A few test workloads: what was seen, bands of the largest demand by segment, and what came."""
    sampler, step = comparison.sampler, comparison.scenario.step_seconds / 3600
    drawn = sampler.windows("test", 20 * EXAMPLES, np.random.default_rng([comparison.seed, 9]))
    seen = max(1, round(SEEN_HOURS / step))
    longest = sorted(drawn, key=lambda window: -len(window.demand))[: 4 * EXAMPLES]
    chosen = sorted(longest, key=lambda window: -float(window.demand.std()))[::4]
    windows = sampler.stacked(chosen, "test")
    beginnings = Beginnings(windows, np.arange(len(windows)), np.minimum(windows.length, seen))
    forecast = forecaster.predict(beginnings)
    bands = {
        share: forecast.quantile(share).astype(np.float64) * forecaster.peak_units
        for share in (0.05, 0.25, 0.5, 0.75, 0.95)
    }
    figure = new_figure(11, 5.4)
    for i, axis in enumerate(figure.subplots(2, len(chosen) // 2, squeeze=False, sharey=True).flat):
        d = i % len(sampler.trace.resources)
        demand, start = chosen[i].demand[:, d], int(beginnings.seen[i])
        hours = (np.arange(len(demand)) - start + 1) * step
        axis.step(hours, demand, where="mid", color="black", lw=1)
        axis.axvline(step / 2, color="grey", lw=0.8, ls=":")
        for low, high, colour, label in ((0.05, 0.95, "#C6DBEF", "90 %"), (0.25, 0.75, "#6BAED6", "50 %")):
            _band(axis, bands[low][i, :, d], bands[high][i, :, d], step, colour, label)
        axis.set_title(f"{sampler.trace.workload_id[chosen[i].workload]}"[:24], fontsize=7)
        axis.set(xlabel="hours from now", ylabel=f"{sampler.trace.resources[d]}, units")
        tidy(axis)
        if i == 0:
            axis.legend(frameon=False, fontsize=7, title="largest demand; 0: ended", title_fontsize=7)
    figure.savefig(file, dpi=DPI, format="png")


def _style(number: int, name: str) -> dict[str, Any]:
    """Networks have solid lines; where colours come a second time, lines are dotted."""
    again = number >= len(COLOURS)
    line = "-" if name.startswith(SAVED) else ":" if again else "--"
    return {"color": COLOURS[number % len(COLOURS)], "ls": line}


def _band(axis: Any, low: Float, high: Float, step: float, colour: str, label: str) -> None:
    """A band with one pair of values for each segment."""
    edges = [*((first - 0.5) * step for first, _ in SEGMENTS), (SEGMENTS[-1][1] + 0.5) * step]
    pairs = [np.append(values, values[-1]) for values in (low, high)]
    axis.fill_between(edges, *pairs, step="post", color=colour, lw=0, label=label)


def _arrays(path: Path) -> dict[str, Float]:
    return {name: np.array(value, np.float64) for name, value in json.loads(path.read_text()).items()}
