"""Compare schedulers, and trained policies, on the same arrival sequences of a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from tvwrl import command_line
from tvwrl.envs.problem import Problem
from tvwrl.experiments.evaluation import DEFAULT_SCHEDULERS, evaluate
from tvwrl.experiments.tables import terminal_table
from tvwrl.runs import default_folder
from tvwrl.schedulers import KNOWLEDGE, SCHEDULERS, Scheduler, make_scheduler
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_and_describe
from tvwrl.types import InputError

HELP = (
    f"Comma-separated names of {', '.join(SCHEDULERS)}. deeprm=RUN is DeepRM as that run trained it; NAME+pism=FILE is "
    "NAME (also deeprm=RUN+pism=FILE), or `policy` for that of --checkpoint, with the interference score of a file of "
    "scripts/fit_interference.py."
)


@dataclass(frozen=True)
class Environment(Scenario):
    """The environment, by default the paper's; with --checkpoint it is the checkpoint's and cannot be changed."""

    load: tyro.conf.Suppress[float] = 0.5
    machines: tyro.conf.Suppress[int] = 10


@dataclass(frozen=True)
class Arguments:
    """Compare schedulers, and trained policies, on the same arrival sequences of a trace.

    Writes rows.csv, bounds.csv, episodes.parquet, demand.parquet, run.json, table.md and plots/ to --out, and prints
    the table.
    """

    checkpoint: Path | None = None
    """A training run (its folder or a .pt file) to compare too; it sets environment, classes and trace."""
    schedulers: Annotated[str, tyro.conf.arg(help=HELP)] = ",".join(DEFAULT_SCHEDULERS)
    trace: str | None = None
    """google, alibaba, a prepared trace's name, a trace folder or a CSV; default: the checkpoint's, or google."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    load: tuple[float, ...] = (0.5,)
    """Offered loads."""
    machines: int | None = None
    """Machines in the cluster; default: 10, or the checkpoint's. With --checkpoint only a policy `shared` plays on
    another number; placements per slot and workloads grow with it."""
    sequences: int = 30
    """Test sequences per load."""
    seed: int = 0
    """Seed of the test sequences."""
    bounds: bool = True
    """Lower bounds on the machines that each sequence needs, and every scheduler's gap to them."""
    bound_seconds: float = 0.0
    """Seconds for each integer programme that tightens the bounds, of which a sequence has dozens; 0 = none."""
    out: Path | None = None
    """Output folder; default: runs/evaluation-<trace>-<timestamp>."""
    device: str = "cpu"
    """Where a policy runs."""
    environment: tyro.conf.OmitArgPrefixes[Environment] = field(default_factory=Environment)


def main() -> None:
    """Parse the arguments, play, print the table."""
    arguments = tyro.cli(Arguments)
    entries = check(arguments)
    of_policy = [entry for entry in entries if entry.startswith("policy+pism=")]
    schedulers = [maker(entry, arguments.device) for entry in entries if entry not in of_policy]
    facts: dict[str, Any] = {"schedulers": entries}
    name = None
    if arguments.checkpoint is None:
        if of_policy:
            raise InputError(f"{of_policy[0]} is the policy of --checkpoint, which is not given")
        problem = without_policy(arguments)
    else:
        problem, policy, more = with_policy(arguments, arguments.checkpoint, entries)
        name, facts = policy.name, facts | more
        schedulers.insert(0, lambda: policy)
        schedulers += [partial(with_interference, policy, entry.partition("=")[2]) for entry in of_policy]
    files = {parts_of(entry)[2] for entry in entries} - {""}
    if files:
        from tvwrl.interference.score import InterferenceScore

        facts["scores"] = {file: InterferenceScore.load(Path(file)).about for file in sorted(files)}
    made = [make() for make in schedulers]
    knowledge = {scheduler.name: scheduler.knowledge for scheduler in made}
    out = arguments.out or default_folder(f"evaluation-{problem.trace.name}")
    rows = evaluate(
        problem,
        schedulers,
        arguments.load,
        arguments.sequences,
        arguments.seed,
        out,
        facts,
        knowledge,
        name,
        bound_seconds=arguments.bound_seconds if arguments.bounds else None,
    )
    print(terminal_table(rows, KNOWLEDGE | knowledge))
    print(f"written to {out}")
    if any("+pism=" in entry for entry in entries):
        print("what services gain from scores of interference, simulated: python scripts/reproduce.py pism-schedulers")


def check(arguments: Arguments) -> list[str]:
    """The entries of --schedulers. Raises InputError for options that are wrong by themselves or together."""
    entries = command_line.split_list(arguments.schedulers)
    names = [parts_of(entry)[0] for entry in entries]
    if len(set(names)) != len(names):
        raise InputError(f"schedulers: '{max(names, key=names.count)}' is given twice")
    if arguments.sequences < 1:
        raise InputError(f"sequences is {arguments.sequences}: must be at least 1")
    if arguments.seed < 0:
        raise InputError(f"seed is {arguments.seed}: must be >= 0")
    if not arguments.bound_seconds >= 0:
        raise InputError(f"bound_seconds is {arguments.bound_seconds}: must be >= 0")
    if not arguments.load:
        raise InputError("the list of loads is empty")
    if arguments.checkpoint is not None:
        if arguments.environment != Environment():
            raise InputError("environment options do not go with --checkpoint: the environment is the checkpoint's")
        if arguments.trace is None and arguments.slot_seconds is not None:
            raise InputError("--slot-seconds goes with --trace: without one the checkpoint's trace is used")
    return entries


def without_policy(arguments: Arguments) -> Problem:
    """The environment that the options describe."""
    trace = open_and_describe(arguments.trace or "google", arguments.slot_seconds, print)
    scenario = replace(Scenario(**asdict(arguments.environment)), load=arguments.load[0])
    if arguments.machines is not None:
        scenario = replace(scenario, machines=arguments.machines)
    return Problem.build(trace, scenario)


def with_policy(arguments: Arguments, run: Path, entries: list[str]) -> tuple[Problem, Any, dict[str, Any]]:
    """The environment of a checkpoint, its policy as a scheduler, and what run.json says of it; `entries` of others."""
    from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
    from tvwrl.agents.policy_scheduler import load_policy

    path = find_checkpoint(run)
    saved = Checkpoint.load(path)
    policy = load_policy(run, saved, arguments.device)
    kind, machines, trained_on = saved.config.policy, arguments.machines, saved.config.scenario.machines
    if policy.name in (*SCHEDULERS, *(entry.partition("=")[0] for entry in entries)):
        raise InputError(f"the run is called '{policy.name}' like a scheduler: rename its folder")
    if machines is not None and machines != trained_on and kind != "shared":
        raise InputError(
            f"machines is {machines}: the {kind} policy of '{policy.name}' is one network for {trained_on} machines "
            "together; only policy shared, a network per machine, plays on a number that it was not trained on"
        )
    if arguments.trace is None:
        trace = open_and_describe(saved.trace["argument"], saved.trace["slot_seconds"], print)
    else:
        trace = open_and_describe(arguments.trace, arguments.slot_seconds, print)
    if not saved.knows(trace):
        print("note: this is not the trace that the policy was trained on; units are set anew for it, classes not")
    problem = saved.problem(trace, arguments.load[0])
    if machines is not None and machines != trained_on:
        problem = problem.at_load(max(arguments.load)).on_machines(machines)  # with as many workloads as the most needs
    facts = {"run": policy.name, "file": path.name, "iteration": saved.iteration, "trace": saved.trace}
    return problem, policy, {"checkpoint": facts}


def maker(entry: str, device: str) -> Callable[[], Scheduler]:
    """What makes the scheduler of an entry of --schedulers; refuses a bad one before anything long begins."""
    name, run, file = parts_of(entry)
    if name.endswith("+pism") and not file:
        raise InputError(f"{name}=FILE: the file of scripts/fit_interference.py is missing")
    if name.removesuffix("+pism") == "deeprm":
        from tvwrl.agents.deeprm.scheduler import load_deeprm

        deeprm = load_deeprm(run, device)
        alone: Callable[[], Scheduler] = lambda: deeprm  # noqa: E731
    else:
        alone = partial(make_scheduler, entry.partition("+pism")[0])
        alone()
    if not file:
        return alone
    with_interference(alone(), file)
    return lambda: with_interference(alone(), file)


def parts_of(entry: str) -> tuple[str, str, str]:
    """Name, run and file of NAME, deeprm=RUN, NAME+pism=FILE or deeprm=RUN+pism=FILE; `+pism` is part of the name."""
    before, pism, file = entry.partition("+pism")
    name, _, run = before.partition("=")
    return name + pism, run, file.removeprefix("=")


def with_interference(inner: Scheduler, file: str) -> Scheduler:
    """A scheduler with the interference score of a file (scripts/fit_interference.py)."""
    from tvwrl.interference.scheduler import WithInterference
    from tvwrl.interference.score import InterferenceScore

    return WithInterference(inner, InterferenceScore.load(Path(file)))


if __name__ == "__main__":
    command_line.run(main)
