"""Fits equivalence classes of a trace as asked for: compares representations, chooses, writes classes and a report."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tvwrl.checks import at_least, different, one_of, within
from tvwrl.command_line import SlotSeconds, TraceName, spelled
from tvwrl.disk_cache import cache_folder
from tvwrl.ec.backends import load_backend
from tvwrl.ec.classes import CLASSES_FILE, INITIALISATIONS, EquivalenceClasses
from tvwrl.ec.clustering import LARGEST_K, SMALLEST_K
from tvwrl.ec.comparison import compare
from tvwrl.ec.profiles import profiles
from tvwrl.ec.report import ClassesReport
from tvwrl.ec.representations import REPRESENTATIONS, Backends, population_of
from tvwrl.forecasting import ForecastSettings
from tvwrl.progress import phase, say
from tvwrl.runs import check_new_folder, default_folder, whole_folder
from tvwrl.simulation import Scenario
from tvwrl.traces import SequenceSampler, describe_source, gapless_runs, open_trace, trace_hash
from tvwrl.types import InputError

SMALLEST_DIVISION = 2  # one class would say of all workloads that they are alike
LARGEST_LABEL = 253  # labels are bytes, of which some mean something else


@dataclass(frozen=True)
class ClassFitOptions:
    """Find equivalence classes of a trace's training workloads, and report how they were chosen.

    Clusters the workloads by every representation (the silhouette chooses k), and gathers evidence: whether the classes
    are found again, whether they are recognised at run time, and whether forecasts by class gain more than random
    classes do. Writes classes.json (for tvwrl train --ec), report.md, report.json and plots/ to --out, and prints the
    report. What was measured of a representation is kept (TVWRL_CACHE), so the same command continues after Ctrl-C.
    """

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    out: Path | None = None
    """Output folder; default: runs/ec-<trace>-<timestamp>."""
    representations: tuple[str, ...] = REPRESENTATIONS
    """Representations to compare: aggregate, temporal, dtw."""
    representation: Literal["aggregate", "temporal", "dtw"] | None = None
    """Use this representation whatever the comparison shows; default: by the evidence."""
    k: int | None = None
    """Number of classes, 2 to 253 and at most the number of workloads; default: the one with the highest mean
    silhouette."""
    k_min: int = SMALLEST_K
    """Smallest number of classes tried."""
    k_max: int = LARGEST_K
    """Largest number of classes tried."""
    initialisations: int = INITIALISATIONS
    """Starts of K-Means and K-Medoids for each k."""
    radius: int | None = None
    """Half-width of the Sakoe-Chiba band of dynamic time warping, slots; default: no band."""
    compare_by_forecast: bool = False
    """Also train the paper's forecaster, LSTNet, on all workloads and per class (minutes), and report its gain; it
    decides nothing."""
    fit_on: Literal["train", "all"] = "train"
    """Series to fit the classes on: training series only, or all (to explore a trace; the classes then depend on test
    series)."""
    step_seconds: int = Scenario.step_seconds
    """Length of one slot of the environment, seconds; a multiple of the trace's interval."""
    sample: Literal["mean", "max"] = "mean"
    """How to combine the trace's samples within a slot."""
    split: Literal["workloads", "applications", "time", "placements"] = "workloads"
    """Validate and test on workloads that training never sees, on applications that it never sees, on the last part of
    every series (time), or on new placements of known applications (placements): replicas that training never sees, and
    of what has no replicas, the last part of its series."""
    seed: int = 0
    """Seed of all random choices, including the forecaster's."""
    backends: Backends = field(default_factory=Backends)
    forecast: ForecastSettings = field(default_factory=ForecastSettings)

    def check(self) -> None:
        """Raise InputError for options that contradict one another, before anything long begins."""
        within(SMALLEST_DIVISION, LARGEST_LABEL, k_min=self.k_min)
        within(self.k_min, LARGEST_LABEL, k_max=self.k_max)
        at_least(1, initialisations=self.initialisations)
        at_least(0, radius=self.radius, seed=self.seed)
        within(SMALLEST_DIVISION, LARGEST_LABEL, k=self.k)
        for name in vars(self.backends).values():
            load_backend(name)
        different(representations=self.representations)
        one_of(REPRESENTATIONS, representations=self.representations)


def fit_and_report(options: ClassFitOptions, report: Callable[[str], object] = print) -> Path:
    """Write the classes that the options ask for; passes the report's text to `report` and returns the folder.

    Raises InputError for options or a trace that cannot be used.
    """
    options.check()
    trace = open_trace(options.trace, options.slot_seconds)
    described = describe_source(trace, options.trace)
    report(f"trace: {described}")
    out = options.out or default_folder(f"ec-{trace.name}")
    check_new_folder(out)
    slots: dict[str, Any] = {name: getattr(options, name) for name in ("step_seconds", "sample", "split")}
    sampler = SequenceSampler(trace, Scenario(placements_per_slot=None, **slots))
    population = population_of(sampler, gapless_runs(trace, range(len(trace))) if options.fit_on == "all" else None)
    if options.k is not None and options.k > len(population):
        raise InputError(f"k is {options.k}, but there are {len(population)} workloads to divide into classes")
    asked = options.k, options.initialisations, options.radius, range(options.k_min, options.k_max + 1)
    names = (
        options.representations
        if options.representation is None
        else (*options.representations, options.representation)
    )
    makes = [partial(EquivalenceClasses, name, *asked, options.seed, options.backends) for name in dict.fromkeys(names)]
    settings = replace(options.forecast, seed=options.seed)
    with _saying_what_is_kept():
        comparison = compare(population, makes, settings, options.representation, options.compare_by_forecast)
    seconds = {f"{c.name}, {what}": own for c in comparison.candidates for what, own in c.seconds.items()}
    gains = [gain for gain in (*(c.gain for c in comparison.candidates), comparison.chance) if gain is not None]
    if gains:
        seconds["LSTNet"] = gains[0].agnostic_seconds + sum(gain.seconds for gain in gains)
    classes = comparison.chosen.classes
    made_of = {"trace": trace.name, "hash": trace_hash(trace), "of": options.fit_on}
    made_of |= {"split": options.split, "sample": options.sample}
    begun = time.perf_counter()
    with _saying_what_is_kept(), phase("training the run-time classifiers"):
        classes.train_classifier(population, made_of)
    seconds["run-time classifiers"] = time.perf_counter() - begun
    facts = {"made_of": made_of, "machine": trace.reference_machine}
    shown = profiles(population, classes.labels_, trace.reference_machine)
    found = ClassesReport(described, population, comparison, shown, seconds, facts)
    with whole_folder(out) as folder:
        found.write(folder)
    report(found.text())
    use = ["tvwrl", "train", "--trace", options.trace, "--ec", str(out / CLASSES_FILE)]
    use += spelled(options, ClassFitOptions(), ("slot_seconds", "step_seconds", "sample", "split"))
    report(f"written to {out}; to show these classes to an agent: {shlex.join(use)}")
    if not comparison.helps:
        report("nothing shows that classes help here: --ec none trains without them, without --ec a default makes some")
    return out


@contextmanager
def _saying_what_is_kept() -> Iterator[None]:
    """Where a signal stops it: that the same command continues, and with what."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if (folder := cache_folder()) is None:
            say("stopped; nothing is kept, as TVWRL_CACHE is off")
        else:
            say(f"stopped; the same command continues, as representations that are finished are kept in {folder}")
        raise
