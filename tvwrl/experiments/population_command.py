"""Fits a synthetic population to a trace, and judges it by what schedulers earn on both, for `tvwrl population`."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from tvwrl.checks import at_least, positive
from tvwrl.command_line import SlotSeconds, TraceName
from tvwrl.envs import Problem
from tvwrl.experiments.statistics import ratio_bootstrap
from tvwrl.forecasting import Forecaster, NetworkForecaster, training_windows
from tvwrl.progress import say
from tvwrl.runs import whole_file
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import compare_populations, fit_population, generate, open_trace
from tvwrl.types import Float, InputError, Trace

JUDGES = ("random", "spread", "best-fit", "n-sigma", "tetris", "best-fit-peak", "expected-cost", "clairvoyant")
NEAR = 0.1  # a reward that differs by at most this share is near
FIRST_SEED = 100  # of the populations that are compared


@dataclass(frozen=True)
class PopulationOptions:
    """Fit the figures of a synthetic workload population to a trace, and judge populations by outcomes.

    Writes the figures to --file; --trace synthetic:FILE then generates workloads from them. With --judge, it prints how
    far the rewards of eight schedulers on a synthetic population are from those on the trace.
    """

    trace: TraceName
    file: Path | None = None
    """File to write, NAME.json; generated traces get that name."""
    slot_seconds: SlotSeconds = None
    groups: int | None = None
    """Most groups of similar workloads around which parameters are drawn; default: one for 8 workloads."""
    peaks: bool = False
    """Scatter the largest values of a series in short times; else they cluster when usage is high."""
    population: str | None = None
    """Fit nothing, and judge this trace or population, such as synthetic:google, instead."""
    judge: int = 0
    """Number of populations on which schedulers play, each against the trace, split at random once more; 0: none."""
    workloads: int = 400
    """Workloads of a population that is judged."""
    sequences: int = 20
    """Test sequences that every scheduler plays per population and load."""
    loads: tyro.conf.UseAppendAction[tuple[float, ...]] = (0.3, 0.5, 0.8)
    """Offered loads at which populations are judged."""
    yardstick: bool = False
    """Also judge resampled workloads of the trace and halves of it: what chance alone leaves to differ."""


def fit_and_judge(options: PopulationOptions, report: Callable[[str], object] = print) -> None:
    """Do what `tvwrl population` is asked to, and pass `report` the tables."""
    at_least(0, judge=options.judge)
    at_least(2, workloads=options.workloads)
    at_least(1, sequences=options.sequences)
    positive(**{f"loads[{i}]": load for i, load in enumerate(options.loads)})
    if (options.file is None) == (options.population is None):
        raise InputError("give --file to fit a population and write it there, or --population to judge one that exists")
    if options.file is not None and (options.file.suffix != ".json" or "(" in str(options.file.resolve())):
        raise InputError(
            f"file is {options.file}: must end with .json, with no bracket in its path, for --trace to find it"
        )
    if options.population is not None and options.workloads != PopulationOptions.workloads:
        raise InputError(
            "workloads is for --file; for --population say it in its name: synthetic:google-v2(workloads=100)"
        )
    if options.yardstick and options.judge < 2:
        raise InputError(f"judge is {options.judge}: must be at least 2 with --yardstick, which compares splits")
    real = open_trace(options.trace, options.slot_seconds)
    if options.file is None:
        makes = _others(str(options.population))
    else:
        content = fit_population(real, options.file.stem, options.groups, options.peaks)
        with whole_file(options.file) as partial:
            partial.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
        report(f"{options.file}: {len(content['groups']['share'])} groups of {len(real)} workloads")
        makes = _of_figures(content, options.workloads)
    made = makes(FIRST_SEED)
    report(f"Kolmogorov-Smirnov distance of {len(made)} workloads (seed {FIRST_SEED}):")
    for name, distance in compare_populations(made, real).items():
        report(f"{name:20s}{distance:8.3f}")
    if options.judge:
        found = judge(real, makes, options.judge, options.sequences, options.loads, options.yardstick)
        for line in judged_lines(found):
            report(line)


Cells = dict[tuple[float, str], Float]  # load, scheduler -> (S,) mean reward on each of S populations


def judge(
    real: Trace,
    makes: Callable[[int], Trace],
    count: int,
    sequences: int,
    loads: Sequence[float],
    yardstick: bool = False,
) -> dict[str, tuple[Cells, Cells]]:
    """What schedulers earn, by what is compared: on the former traces and on those that it is measured by.

    A trace is split into training and test series by the names of its workloads. Some splits are hard and some are
    easy, so a trace is played `count` times with its names exchanged at random.

    Parameters
    ----------
    real : Trace
        The recorded trace.
    makes : callable
        Returns a population of a seed.
    count : int
        How many populations and splits are played, >= 1.
    sequences : int
        Test sequences per population and load, >= 1.
    loads : sequence of float
        Offered loads.
    yardstick : bool
        Whether resampled workloads and halves are played too.
    """
    seeds = range(FIRST_SEED, FIRST_SEED + count)

    def play(what: str, traces: Sequence[Callable[[], Trace]]) -> Cells:
        rows = []
        for i, make in enumerate(traces, 1):
            say(f"{what}: {i} of {len(traces)}")
            rows.append(rewards_on(make(), sequences, loads))
        return {key: np.array([row[key] for row in rows]) for key in rows[0]}

    truth = play("the trace", [lambda s=s: renamed(real, s) for s in seeds])  # type: ignore[misc]
    found = {"population": (play("population", [lambda s=s: makes(s) for s in seeds]), truth)}  # type: ignore[misc]
    if yardstick:
        found["one split of the trace"] = truth, truth
        found["resampled workloads"] = play("resampled", [lambda s=s: resampled(real, s) for s in seeds]), truth  # type: ignore[misc]
        halves = [half for s in seeds for half in halves_of(real, s)]
        played = play("halves", [lambda h=h: h for h in halves])  # type: ignore[misc]
        one, other = ({key: v[k::2] for key, v in played.items()} for k in (0, 1))
        found["one half and the other"] = one, other
    return found


def rewards_on(trace: Trace, sequences: int, loads: Sequence[float]) -> dict[tuple[float, str], float]:
    """Mean reward of each of `JUDGES` on test sequences of a trace at each load."""
    out: dict[tuple[float, str], float] = {}
    forecaster: Forecaster | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what a trace cannot give is the same in all
        for load in loads:
            problem = Problem.build(trace, Scenario(load=load), "none")
            if forecaster is None:  # one for all training series, because test series are all that is played
                made = NetworkForecaster(problem.scenario.peak_units, problem.scenario.step_seconds)
                forecaster = made.fit(training_windows(problem.sampler).without_folds())
            problem = replace(problem, forecaster=forecaster)
            runner = Runner(problem.sequences("test", sequences, seed=0), problem.machines, problem.scenario)
            for name in JUDGES:
                out[load, name] = float(problem.rewards(runner, make_scheduler(name)).mean())
    return out


def judged_lines(found: dict[str, tuple[Cells, Cells]]) -> list[str]:
    """The table of `judge` as lines of text."""
    made, truth = found["population"]
    lines = [f"{'load':>5s} {'scheduler':14s}{'trace':>10s}{'population':>12s}{'difference':>12s}   95 % interval"]
    for load, name in truth:
        a, b = made[load, name], truth[load, name]
        ratio, low, high = ratio_bootstrap(a, b)
        interval = f"[{100 * (low - 1):+.0f}, {100 * (high - 1):+.0f}]" if len(a) > 1 else "-"
        means = f"{b.mean() / 1000:10.1f}{a.mean() / 1000:12.1f}"
        lines.append(f"{load:5g} {name:14s}{means}{100 * (ratio - 1):+11.1f} %   {interval}")
    lines.append(
        "rewards in thousands; + is worse than on the trace; intervals resample the populations and splits that were "
        f"played: of {len(next(iter(truth.values())))}, which makes them too narrow where these are few"
    )
    for what, (a_cells, b_cells) in found.items():
        single = []  # as if one population had been played only
        for k in range(len(next(iter(a_cells.values())))):
            reference = {key: v[k] if what.startswith("one half") else v.mean() for key, v in b_cells.items()}
            if a_cells is b_cells:  # the other splits, as it is none of them
                reference = {key: np.delete(v, k).mean() for key, v in b_cells.items()}
            single.append(sum(abs(v[k] / reference[key] - 1) <= NEAR for key, v in a_cells.items()))
        cells = f"{np.mean(single):.1f} of {len(truth)} cells one by one ({min(single)} to {max(single)})"
        line = f"{what}: within {NEAR:.0%} in {cells}"
        if a_cells is not b_cells:
            gaps = [a.mean() / b_cells[key].mean() - 1 for key, a in a_cells.items()]
            line += f"; by their means in {sum(abs(g) <= NEAR for g in gaps)}, mean distance {np.abs(gaps).mean():.1%}"
        lines.append(line)
    return lines


def renamed(trace: Trace, seed: int) -> Trace:
    """The same trace with the names of its workloads exchanged, so that others are for training and for testing."""
    return replace(trace, workload_id=np.random.default_rng(seed).permutation(trace.workload_id))


def resampled(trace: Trace, seed: int) -> Trace:
    """As many workloads of a trace drawn with replacement, each under a name of its own."""
    return _named(trace.select(np.random.default_rng(seed).integers(len(trace), size=len(trace))))


def halves_of(trace: Trace, seed: int) -> tuple[Trace, Trace]:
    """The workloads of a trace in two halves at random."""
    order = np.random.default_rng(seed).permutation(len(trace))
    return _named(trace.select(order[: len(order) // 2])), _named(trace.select(order[len(order) // 2 :]))


def _named(trace: Trace) -> Trace:
    names = np.array([f"w{i}" for i in range(len(trace))], dtype=object)
    return replace(trace, workload_id=names, application=names.copy())


def _of_figures(content: dict[str, Any], workloads: int) -> Callable[[int], Trace]:
    return lambda seed: generate(content, workloads, seed)


def _others(name: str) -> Callable[[int], Trace]:
    """Populations by name; a recorded trace, which has one, is renamed instead. Raises InputError for a seed in it."""
    if "seed=" in name:
        raise InputError(f"population is '{name}': leave the seed out, as every population that is judged has its own")

    def make(seed: int) -> Trace:
        trace = open_trace(name, seed=seed)
        return renamed(trace, seed) if trace.source == "real" else trace

    return make
