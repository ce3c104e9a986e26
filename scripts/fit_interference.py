"""Learn an interference score from simulated observations and write it to a file that evaluate.py takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from tvwrl import command_line
from tvwrl.bench.pism_days import two_days
from tvwrl.bench.pism_prediction import PredictionSettings
from tvwrl.bench.pism_schedulers import EPISODES, check_learning, learn
from tvwrl.command_line import Names
from tvwrl.envs.problem import Problem
from tvwrl.interference.batch_tasks import USAGE_FILE, read_usage
from tvwrl.interference.categories import NAMES as CATEGORY_NAMES
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.machines import alike
from tvwrl.interference.observations import CATEGORIES
from tvwrl.interference.score import InterferenceScore
from tvwrl.markdown import markdown_table
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_and_tell
from tvwrl.types import InputError, Int

OPTIONS = {"trace": ("slot_seconds", "load", "episodes"), "data": ("services", "hours")}  # that one source has
MOST = 100_000  # instances of a category on a machine
ALONE = (1, 3, 5)  # instances of a category that --explain tries by themselves


@dataclass(frozen=True)
class Arguments:
    """Learn an interference score and write it to a file, or tell what is in one.

    Of a trace (--trace): workloads are the batch work, thresholds of categories come from their use; for
    `evaluate.py --schedulers spread,spread+pism=FILE` on that trace. Of batch tasks (--data): two simulated days.
    Response times are simulated under --law; the score sees what monitoring would, never the law.
    """

    out: Path | None = None
    """File to write, .npz."""
    trace: str | None = None
    """google, alibaba, a prepared trace's name, a trace folder or a CSV."""
    data: Path | None = None
    """Folder with spar_sample_tasks.csv.gz and ali18_usage_tasks.csv.gz; thresholds of categories come from the second.
    """
    explain: Path | None = None
    """A file written before: tell which categories push the score of a machine and by how much, and end."""
    running: Names = ()
    """With --explain: what the machine runs, as CATEGORY=INSTANCES,..., categories being 0 to 59; default: 1, 3 or
    5 instances of one category, for each that makes a difference."""
    law: str = "memory"
    """How batch work slows services: memory, queue, control."""
    weighting: str = "corr"
    """How much each service counts: fair, cpu-quota, corr, cv."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds (--trace)."""
    load: float | None = None
    """Offered load (--trace); default: 0.5."""
    episodes: int | None = None
    """Training sequences to learn from (--trace); default: 24."""
    machines: int | None = None
    """Simulated machines; default: 10 with --trace, else 20."""
    services: int | None = None
    """Simulated services (--data); default: 150."""
    hours: int | None = None
    """Length of a day (--data); default: 12."""
    seed: int = 0
    """Of everything drawn, and of trees."""


def main() -> None:
    """Simulate, learn, write; tell how machines' scores are spread."""
    arguments = tyro.cli(Arguments)
    check(arguments)
    if arguments.explain is not None:
        print(explained(InterferenceScore.load(arguments.explain), arguments.running))
        return
    assert arguments.out is not None
    score = of_batch_tasks(arguments) if arguments.trace is None else of_trace(arguments, arguments.trace)
    score.save(arguments.out)
    known = int((score.trees.root >= 0).sum())
    span = np.interp([5, 95], score.percent, score.knots)
    print(f"{known} of {len(score.services)} services learnt; mean level {span[0]:.1f} scores 5, {span[1]:.1f} 95")
    print(f"written to {arguments.out}")


def check(arguments: Arguments) -> None:
    """Raise InputError for options that are wrong by themselves or together."""
    sources = [name for name in ("trace", "data", "explain") if getattr(arguments, name) is not None]
    if arguments.running and arguments.explain is None:
        raise InputError("--running goes with --explain: it is what a machine runs")
    if len(sources) != 1:
        raise InputError(f"{' and '.join(sources) or 'none'} given: must be one of --trace, --data and --explain")
    if arguments.explain is not None and (arguments.out is not None or arguments.machines is not None):
        raise InputError("--out and --machines do not go with --explain, which only tells what is in a file")
    if arguments.out is not None and arguments.out.is_dir():
        raise InputError(f"{arguments.out}: is a folder: must be the file to write, .npz")
    if arguments.out is None and sources != ["explain"]:
        raise InputError("--out is missing: the file to write")
    for source, names in OPTIONS.items():
        for name in names:
            if getattr(arguments, name) is not None and source not in sources:
                raise InputError(f"--{name.replace('_', '-')} goes with --{source}")
    check_learning(arguments.law, arguments.weighting, arguments.episodes or EPISODES)
    if arguments.seed < 0:
        raise InputError(f"seed is {arguments.seed}: must be >= 0")


def explained(score: InterferenceScore, running: Names) -> str:
    """Markdown: what pushes the score of a machine with every service and the instances `running`; of none: of an
    empty machine, by how much instances of each category alone would."""
    machine = alike(counts_of(running)[None], len(score.services))
    if running:
        head = ("category", "CPU, memory, makespan", "instances", "points")
        rows = [
            [str(push.category), CATEGORY_NAMES[push.category], str(push.instances), f"{push.points:+.1f}"]
            for push in score.explain(machine, 0)
        ]
    else:
        head = ("category", "CPU, memory, makespan", *(f"points of {count}" for count in ALONE))
        points = np.array([_alone(score, category) for category in range(CATEGORIES)])
        rows = [
            [str(c), CATEGORY_NAMES[c], *(f"{value:+.1f}" for value in points[c])]
            for c in np.argsort(-points.sum(axis=1), kind="stable")
            if points[c].any()
        ]
    empty, total = (score.of(one, 0.0)[0] for one in (alike(counts_of(())[None], len(score.services)), machine))
    scores = f"The machine scores {total:.1f} of 100, an empty one" if running else "The empty machine scores"
    classes = "" if score.thresholds is None else f"Classes begin at {score.thresholds.told()}.\n\n"
    return (
        f"Learnt from {score.about or 'observations'}.\n\n{classes}{markdown_table(head, rows)}\n\n"
        f"{scores} {empty:.1f}{'' if running else ' of 100'}."
    )


def _alone(score: InterferenceScore, category: int) -> list[float]:
    """Points of `ALONE` instances of a category on an otherwise empty machine."""
    found = []
    for instances in ALONE:
        counts = np.zeros((1, CATEGORIES), np.int64)
        counts[0, category] = instances
        found.append(score.explain(alike(counts, len(score.services)), 0)[0].points)
    return found


def counts_of(running: Names) -> Int:
    """(60,) instances of `running`. Raises InputError for what is no CATEGORY=INSTANCES."""
    counts = np.zeros(CATEGORIES, np.int64)
    for entry in running:
        category, _, instances = entry.partition("=")
        if not (category.isdecimal() and instances.isdecimal() and int(category) < CATEGORIES):
            raise InputError(f"running is '{entry}': must be CATEGORY=INSTANCES with a category 0 to {CATEGORIES - 1}")
        counts[int(category)] += min(int(instances), MOST + 1)
        if counts[int(category)] > MOST:
            raise InputError(f"running is '{entry}': more than {MOST:,} instances run on no machine")
    return counts


def of_trace(arguments: Arguments, name: str) -> InterferenceScore:
    """A score of training sequences of a trace."""
    trace = open_and_tell(name, arguments.slot_seconds, print)
    machines = Scenario.machines if arguments.machines is None else arguments.machines
    load = Scenario.load if arguments.load is None else arguments.load
    episodes = EPISODES if arguments.episodes is None else arguments.episodes
    problem = Problem.build(trace, Scenario(machines=machines, load=load), "none")
    return learn(problem, arguments.law, arguments.weighting, episodes, arguments.seed).score


def of_batch_tasks(arguments: Arguments) -> InterferenceScore:
    """A score of two simulated days of batch tasks."""
    machines = 20 if arguments.machines is None else arguments.machines
    folder, law, seed = arguments.data, arguments.law, arguments.seed
    services, hours = (d if n is None else n for n, d in ((arguments.services, 150), (arguments.hours, 12)))
    settings = PredictionSettings((seed,), (law,), folder, machines, services, hours)
    settings.check()
    assert folder is not None
    usage = read_usage(folder / USAGE_FILE, Counter())  # the simulation tells how many bad names there are
    thresholds = Thresholds.from_usage(usage.cpu, usage.memory, usage.makespan)
    _, first, second = next(two_days(settings, seed))
    score = InterferenceScore.fit(
        first.and_then(second),
        weighting=arguments.weighting,
        random_state=seed,
        skip_rare=True,
        thresholds=thresholds,
    )
    score.about = (
        f"two simulated days of {hours} h of batch tasks on {machines} machines with {services} services, law {law}, "
        f"weighting {arguments.weighting}, seed {seed}"
    )
    return score


if __name__ == "__main__":
    command_line.run(main)
