"""Find equivalence classes of a trace's workloads: compare representations and k, choose, write a classes file."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import tyro

from tvwrl import command_line
from tvwrl.ec import REPRESENTATIONS, EquivalenceClasses, Population, population_of
from tvwrl.ec.classes import CLASSES_FILE, INITIALISATIONS
from tvwrl.ec.classifier_report import report_classifier
from tvwrl.ec.comparison import compare
from tvwrl.ec.k_search import LARGEST_K, SMALLEST_K
from tvwrl.ec.lstnet import ForecastSettings
from tvwrl.ec.report import ClassesReport
from tvwrl.ec.representations import Backends
from tvwrl.runs import check_new_folder, default_folder, whole_folder
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import describe_source, open_trace, trace_hash
from tvwrl.traces.sequences import SequenceSampler, gapless_runs
from tvwrl.types import InputError, Trace


@dataclass(frozen=True)
class Arguments:
    """Find equivalence classes of a trace's training workloads, and say why these.

    Clusters by every representation with k by silhouette, judges the classes by how much a forecaster gains that is
    trained on each, trains the run-time classifier. Writes classes.json (train.py --ec takes it), report.md,
    report.json and plots/ to --out, and prints the report.
    """

    trace: str = "google"
    """google, alibaba, the name of a prepared trace, a canonical trace folder, or a CSV."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    out: Path | None = None
    """Output folder; default: runs/ec-<trace>-<timestamp>."""
    compare: tuple[Literal["aggregate", "temporal", "dtw"], ...] = REPRESENTATIONS  # type: ignore[assignment]
    """Representations to compare."""
    representation: Literal["aggregate", "temporal", "dtw"] | None = None
    """Take this one whatever the comparison says; default: the one of highest prediction gain."""
    k: int | None = None
    """Number of classes, at most the workloads and 253; default: the one of highest mean silhouette."""
    k_min: int = SMALLEST_K
    """Smallest number of classes tried."""
    k_max: int = LARGEST_K
    """Largest number of classes tried."""
    initialisations: int = INITIALISATIONS
    """Starts of K-Means and K-Medoids for each k."""
    radius: int | None = None
    """Sakoe-Chiba band of dynamic time warping, slots; default: no band."""
    judge: bool = True
    """Train the forecaster (minutes); without it k is by silhouette, and temporal goes before dtw and aggregate."""
    workloads: Literal["train", "all"] = "train"
    """Whose classes: of the training series, or of all (for looking at a trace; classes then know the test series)."""
    step_seconds: int = Scenario.step_seconds
    """Length of one slot of the environment, seconds."""
    sample: Literal["mean", "max"] = "mean"
    """How the trace's samples inside a slot become one."""
    split: Literal["workloads", "time"] = "workloads"
    """How training and test are told apart: see train.py."""
    seed: int = 0
    """Seed of everything random, the forecaster's too."""
    backends: Backends = field(default_factory=Backends)
    forecast: ForecastSettings = field(default_factory=ForecastSettings)


def main() -> None:
    """Parse the arguments, compare, write, print the report."""
    arguments = tyro.cli(Arguments)
    check(arguments)
    trace = open_trace(arguments.trace, arguments.slot_seconds)
    described = describe_source(trace, arguments.trace)
    print(f"trace: {described}")
    out = arguments.out or default_folder(f"ec-{trace.name}")
    check_new_folder(out)
    population = workloads_of(arguments, trace)
    seconds: dict[str, float] = {}
    begun = time.perf_counter()
    asked = arguments.k, arguments.initialisations, arguments.radius, range(arguments.k_min, arguments.k_max + 1)
    names = arguments.compare if arguments.representation is None else (*arguments.compare, arguments.representation)
    makes = [
        partial(EquivalenceClasses, name, *asked, arguments.seed, arguments.backends) for name in dict.fromkeys(names)
    ]
    settings = replace(arguments.forecast, seed=arguments.seed) if arguments.judge else None
    comparison = compare(population, makes, settings, arguments.representation)
    seconds |= {f"clustering by {c.name}": c.seconds for c in comparison.candidates}
    seconds["forecaster"] = time.perf_counter() - begun - sum(seconds.values())
    begun = time.perf_counter()
    classes = comparison.chosen.classes
    made_of = {"trace": trace.name, "hash": trace_hash(trace), "of": arguments.workloads}
    made_of |= {"split": arguments.split, "sample": arguments.sample}
    classes.train_classifier(population, made_of)
    classifier = report_classifier(population, classes.labels_, arguments.seed)
    seconds["run-time classifier"] = time.perf_counter() - begun
    with whole_folder(out) as folder:
        report = ClassesReport(described, population, comparison, classifier, seconds, {"made_of": made_of})
        report.write(folder)
        text = report.text()
    print(text)
    options = ["--trace", arguments.trace, "--ec", str(out / CLASSES_FILE)]
    for name in ("slot_seconds", "step_seconds", "sample", "split"):
        if (value := getattr(arguments, name)) != getattr(Arguments, name):
            options += [f"--{name.replace('_', '-')}", str(value)]
    print(f"written to {out}; use it with: python scripts/train.py {' '.join(options)}")


def check(arguments: Arguments) -> None:
    """Refuse what makes no sense, before anything long begins."""
    for name, least in (("k_min", 2), ("initialisations", 1), ("seed", 0)):
        if getattr(arguments, name) < least:
            raise InputError(f"{name} is {getattr(arguments, name)}: must be at least {least}")
    if arguments.k_max < arguments.k_min:
        raise InputError(f"k_max is {arguments.k_max}: must be at least k_min, {arguments.k_min}")
    if arguments.k is not None and not 1 <= arguments.k <= 253:
        raise InputError(f"k is {arguments.k}: must be 1 to 253")
    if not arguments.compare:
        raise InputError("the list of representations to compare is empty")


def workloads_of(arguments: Arguments, trace: Trace) -> Population:
    """The workloads whose classes are wanted, in slots and units of the environment."""
    scenario = Scenario(
        step_seconds=arguments.step_seconds, sample=arguments.sample, split=arguments.split, placements_per_slot=None
    )
    sampler = SequenceSampler(trace, scenario)
    population = population_of(
        sampler, gapless_runs(trace, range(len(trace))) if arguments.workloads == "all" else None
    )
    if arguments.k is not None and arguments.k > len(population):
        raise InputError(f"k is {arguments.k}, but there are {len(population)} workloads to divide into classes")
    return population


if __name__ == "__main__":
    command_line.run(main)
