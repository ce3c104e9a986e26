"""Compare schedulers, and trained policies, on the same arrival sequences of a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import tyro

from tvwrl import command_line
from tvwrl.bench.evaluation import DEFAULT_SCHEDULERS, evaluate
from tvwrl.bench.tables import terminal_table
from tvwrl.envs.problem import Problem
from tvwrl.runs import default_folder
from tvwrl.schedulers import Scheduler, make_scheduler
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import describe_source, open_trace, trace_hash
from tvwrl.types import InputError


@dataclass(frozen=True)
class Environment(Scenario):
    """The environment, by default the paper's; with --checkpoint it is the checkpoint's and cannot be changed."""

    load: tyro.conf.Suppress[float] = 0.5


@dataclass(frozen=True)
class Arguments:
    """Compare schedulers, and trained policies, on the same arrival sequences of a trace.

    Writes rows.csv, episodes.parquet, demand.parquet, run.json, table.md and plots/ to --out, and prints the table.
    """

    checkpoint: Path | None = None
    """A training run (its folder or a .pt file) to compare too; it sets environment, classes and trace."""
    schedulers: str = ",".join(DEFAULT_SCHEDULERS)
    """Comma-separated names; an unknown one lists those that there are."""
    trace: str | None = None
    """google, alibaba, a prepared trace's name, a trace folder or a CSV; default: the checkpoint's, or google."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    load: tuple[float, ...] = (0.5,)
    """Offered loads."""
    sequences: int = 30
    """Test sequences per load."""
    seed: int = 0
    """Seed of the test sequences."""
    out: Path | None = None
    """Output folder; default: runs/evaluation-<trace>-<timestamp>."""
    split: Literal["workloads", "time"] = "workloads"
    """Test on series that training never sees, or (time) on the last 30 percent of every series."""
    device: str = "cpu"
    """Where a policy runs."""
    environment: tyro.conf.OmitArgPrefixes[Environment] = field(default_factory=Environment)


def main() -> None:
    """Parse the arguments, play, print the table."""
    arguments = tyro.cli(Arguments)
    names = [name.strip() for name in arguments.schedulers.split(",") if name.strip()]
    schedulers: list[Callable[[], Scheduler]] = [partial(make_scheduler, name) for name in names]
    for make in schedulers:
        make()  # refuses an unknown name before anything long begins
    if len(set(names)) != len(names):
        raise InputError(f"schedulers: '{max(names, key=names.count)}' is given twice")
    scenario = Scenario(**asdict(arguments.environment))
    name, slot_seconds, classes, facts, knowledge = arguments.trace or "google", arguments.slot_seconds, None, {}, {}
    if arguments.checkpoint is not None:
        from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
        from tvwrl.agents.policy_scheduler import load_policy

        path = find_checkpoint(arguments.checkpoint)
        saved = Checkpoint.load(path)
        if scenario != Scenario():
            raise InputError("environment options do not go with --checkpoint: the environment is the checkpoint's")
        scenario, classes = saved.config.scenario, saved.classes
        if arguments.trace is None:
            name, slot_seconds = saved.trace["argument"], saved.trace["slot_seconds"]
        policy = load_policy(arguments.checkpoint, saved, arguments.device)
        if policy.name in names:
            raise InputError(f"the run is called '{policy.name}' like a scheduler: rename its folder")
        schedulers.insert(0, lambda: policy)
        seen = "requests, classes and" if scenario.observe_request else "classes and"
        knowledge[policy.name] = f"{seen} the last {scenario.history} slots of load (learnt)"
        facts["checkpoint"] = {
            "run": policy.name,
            "file": path.name,
            "iteration": saved.iteration,
            "trace": saved.trace,
        }

    trace = open_trace(name, slot_seconds)
    print(f"trace: {describe_source(trace, name)}")
    if arguments.checkpoint is not None and trace_hash(trace) != facts["checkpoint"]["trace"]["hash"]:
        print("note: this is not the trace that the policy was trained on; units are set anew for it")
    problem = Problem.build(trace, replace(scenario, load=arguments.load[0]), classes, arguments.split == "time")
    for note in problem.sampler.notes:
        print(f"note: {note}")
    out = arguments.out or default_folder(f"evaluation-{trace.name}")
    reference = next(iter(knowledge), None)  # the policy, if there is one
    rows = evaluate(
        problem, schedulers, arguments.load, arguments.sequences, arguments.seed, out, facts, knowledge, reference
    )
    print(terminal_table(rows))
    print(f"written to {out}")


if __name__ == "__main__":
    command_line.run(main)
