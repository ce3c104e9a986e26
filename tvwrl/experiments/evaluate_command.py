"""Compares the schedulers, and the trained policy, that `tvwrl evaluate` is asked for."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from tvwrl.checks import at_least, different
from tvwrl.command_line import TRACE, ForecasterFile, SlotSeconds, described
from tvwrl.envs import Problem
from tvwrl.experiments.engine import CellOptions
from tvwrl.experiments.evaluation import DEFAULT_SCHEDULERS, EvaluationSetup, Player, evaluate, with_wanted_forecasts
from tvwrl.experiments.exploring.explored import first_look
from tvwrl.experiments.scheduler_names import (
    is_of_checkpoint,
    origin_of,
    parts_of,
    scheduler_of,
    scores_behind,
    warn_of_foreign_scores,
)
from tvwrl.experiments.tables import terminal_table
from tvwrl.experiments.tuned_moves import with_tuned_moves
from tvwrl.forecasting import forecaster_file, read_forecaster
from tvwrl.progress import say
from tvwrl.runs import default_folder
from tvwrl.schedulers import (
    CERTAINTY,
    CERTAINTY_OF_RISKS,
    GROUPS,
    HORIZON,
    KNOWLEDGE,
    MOVE_RULES,
    PLACING,
    ROLLOUT_NAMES,
    SCHEDULERS,
    USUAL_ROLLOUTS,
    Scheduler,
    known_by,
    make_scheduler,
    parted,
)
from tvwrl.simulation import Scenario, check_moves
from tvwrl.traces import SequenceSampler, how_to_open, open_and_describe
from tvwrl.types import InputError

if TYPE_CHECKING:
    from tvwrl.agents import Checkpoint, Facts

ROLLOUTS_HELP = (
    f"milliseconds (time limit of a decision; default: none), rollouts (budget of a decision, choices times futures; "
    f"default: {USUAL_ROLLOUTS}), horizon (length of a rollout, slots; default: {HORIZON}) and certainty (how "
    f"many standard errors better than the rule's own choice another must look; default: {CERTAINTY:g}, or "
    f"{CERTAINTY_OF_RISKS:g} if BASE may overshoot)"
)


def _options(rule: str) -> str:
    """The options of a move rule as its name has them, without values."""
    options = ",".join(f"{option}=" for option in MOVE_RULES[rule].made.options)
    return f"({options})" if options else ""


FORMS = {
    "rollout(BASE)": "BASE, improved by simulating choices in sampled futures, which takes tenths of a second per "
    f"decision; BASE is one of {', '.join(ROLLOUT_NAMES)}. Options of a rollout follow BASE, as in "
    f"rollout(spread,milliseconds=50,horizon=32): {ROLLOUTS_HELP}",
    "rollout(BASE+policy)=RUN": "the policy of a training run, improved likewise; without =RUN, that of --checkpoint",
    "deeprm=RUN": "the DeepRM policy of a training run",
    "expected-cost(opening=200)": "expected-cost that waits for room or company while a machine that is opened is "
    "expected to cost more than so many slots of waiting for each workload that waits; with -backfill others may pass",
    "NAME + MOVES": "NAME, and a rule that moves what runs, with --moves-per-slot of 1 or more, as in expected-cost + "
    f"evacuate(threshold=5000): one of {', '.join(name + _options(name) for name in MOVE_RULES)}",
    "NAME + machine-value=FILE": "NAME, and moves by a value that tvwrl train --moves learnt",
    "perfect-forecast(NAME)": "a reference: NAME, or NAME + MOVES, that sees what really comes in place of forecasts",
    "NAME+pism=FILE": "NAME, deeprm=RUN or policy (that of --checkpoint) with an interference score, a file of "
    "tvwrl interference",
}


@dataclass(frozen=True)
class Environment(Scenario):
    """The environment, by default the paper's; with --checkpoint it is the checkpoint's and cannot be changed."""

    load: tyro.conf.Suppress[float] = 0.5
    machines: tyro.conf.Suppress[int] = 10


@dataclass(frozen=True)
class ComparisonSettings(CellOptions):
    """Compare schedulers, and trained policies, on the same arrival sequences of a trace.

    Writes rows.csv, bounds.csv, episodes.parquet, demand.parquet, moves.parquet, observed.npz, run.json, table.md,
    plots/ and explorer.html to --out, and prints the table. After Ctrl-C or a crash, run the same command with the same
    --out to continue.
    """

    checkpoint: Path | None = None
    """Training run (its folder, a .pt file, an .onnx file of tvwrl export, or shipped:NAME) whose policy is compared
    too; environment and classes are then the run's, and by default the trace, which an .onnx file does not name."""
    schedulers: tuple[str, ...] = DEFAULT_SCHEDULERS
    """Schedulers to compare; --list-schedulers lists their names. Default with --moves-per-slot: expected-cost alone,
    and with each rule that moves, at the settings that are best on training sequences at the first load."""
    trace: Annotated[str | None, described(TRACE, "the checkpoint's, or google")] = None
    slot_seconds: SlotSeconds = None
    forecaster: ForecasterFile = None
    loads: tuple[float, ...] = (0.5,)
    """Offered loads."""
    machines: int | None = None
    """Machines in the cluster; default: the checkpoint's, or 10. Only a shared policy can play on a different number of
    machines than in training; placements per slot and workloads then change in proportion."""
    sequences: int = 30
    """Test sequences per load."""
    seed: int = 0
    """Seed of the test sequences."""
    bounds: bool = True
    """Compute lower bounds on the number of machines needed, and the gaps to them."""
    bound_seconds: float = 0.0
    """Seconds to spend on each linear programme that improves the lower bound (evaluate solves dozens per sequence,
    provision one); 0: none."""
    reward_bound: bool = False
    """Also compute a bound on the reward of all schedules that place every workload, with moves or without; takes
    a second or more per sequence."""
    device: str = "cpu"
    """PyTorch device of policies: cpu, cuda, cuda:1."""
    list_schedulers: bool = False
    """Only list what --schedulers takes."""
    environment: tyro.conf.OmitArgPrefixes[Environment] = field(default_factory=Environment)

    def check(self) -> None:
        """Raise InputError for options that are wrong by themselves or together."""
        self.check_run()
        if not all(entry.strip() for entry in self.schedulers) or not self.schedulers:
            raise InputError("schedulers has an empty name: --list-schedulers lists what there is")
        names = [parts_of(entry)[0] for entry in self.schedulers]
        if len(set(names)) != len(names):
            raise InputError(f"schedulers: '{max(names, key=names.count)}' is given twice")
        different(loads=self.loads)
        check_moves(self.environment, "add --moves-per-slot 2")
        at_least(1, sequences=self.sequences)
        at_least(0, seed=self.seed, bound_seconds=self.bound_seconds)
        if self.reward_bound and not self.bounds:
            raise InputError("reward_bound cannot be combined with --no-bounds, which leaves all bounds out")
        if self.checkpoint is not None:
            if self.environment != Environment():
                raise InputError("environment options cannot be combined with --checkpoint, which sets the environment")
            if self.forecaster is not None:
                raise InputError("--forecaster cannot be combined with --checkpoint, which has a forecaster of its own")
            if self.trace is None and self.slot_seconds is not None:
                raise InputError("--slot-seconds needs --trace: without it, the checkpoint's trace is used")
        elif of_policy := list(filter(is_of_checkpoint, self.schedulers)):
            raise InputError(f"{of_policy[0]} needs a policy: give its training run as --checkpoint RUN")


def compare_schedulers(settings: ComparisonSettings) -> None:
    """Play the schedulers, write the evaluation folder, and print its table.

    Raises InputError for bad options, and at the end for schedulers that failed; the others have their table then.
    """
    if settings.list_schedulers:
        print(_listing())
        return
    settings.check()
    entries = settings.schedulers
    named = {entry: scheduler_of(entry, settings.device) for entry in entries if not is_of_checkpoint(entry)}
    moving = [entry for entry in named if parted(entry)]
    if moving and settings.checkpoint is None and not settings.environment.moves_per_slot:
        raise InputError(f"'{moving[0]}' moves what runs, but nothing may be moved: add --moves-per-slot 2")
    facts: dict[str, Any] = {"schedulers": entries}
    origins: dict[str, Any] = {scheduler.name: origin_of(entry, scheduler) for entry, scheduler in named.items()}
    policy = None
    if settings.checkpoint is None:
        problem = _problem(settings)
        if settings.forecaster is not None:
            file = forecaster_file(settings.forecaster)
            facts["forecaster"] = str(file)
            told = [scheduler.name for scheduler in named.values() if scheduler.needs_forecasts]
            origins |= {name: {"scheduler": origins[name], "forecaster": file} for name in told}
    else:
        from tvwrl.agents import find_checkpoint, located

        run = located(settings.checkpoint)
        problem, policy, about = _problem_and_policy(settings, run)
        facts["checkpoint"] = origins[policy.name] = about
        file = run if run.is_file() else find_checkpoint(run)
        facts["policies"] = {policy.name: str(file.resolve())}
        for entry in filter(is_of_checkpoint, entries):
            named[entry] = scheduler_of(entry, settings.device, policy)
            origins[named[entry].name] = {"scheduler": entry, "checkpoint": about}
    schedulers = [*filter(None, [policy]), *named.values()]
    if settings.environment.moves_per_slot and settings.schedulers == DEFAULT_SCHEDULERS:
        problem = problem.with_forecasts(say)
        if len(settings.loads) > 1:
            say(f"rules that move are tuned at load {problem.scenario.load:g}, and played at all loads")
        schedulers = [make_scheduler(PLACING), *with_tuned_moves(problem, PLACING, report=say)]
        facts["schedulers"] = tuple(scheduler.name for scheduler in schedulers)
        origins = {scheduler.name: origin_of(scheduler.name, scheduler) for scheduler in schedulers}
    if scores := scores_behind(entries):
        facts["scores"] = scores
        warn_of_foreign_scores(entries, problem.trace)
    players = [Player(one, origins.get(one.name), agent=one is policy) for one in schedulers]
    problem = with_wanted_forecasts(problem, players, say)
    knowledge = {scheduler.name: known_by(problem.forecaster, scheduler.knowledge) for scheduler in schedulers}
    out = settings.out or default_folder(f"evaluation-{problem.trace.name}")
    bound_seconds = settings.bound_seconds if settings.bounds else None
    rows = evaluate(
        EvaluationSetup(
            problem, settings.loads, settings.sequences, settings.seed, bound_seconds, settings.reward_bound
        ),
        players,
        out,
        facts,
        reference=None if policy is None else policy.name,
        completed=settings.complete,
        report=say,
    )
    if rows is None:
        return
    print(terminal_table(rows, KNOWLEDGE | knowledge))
    print(f"written to {out}")
    print(first_look(out))
    if any("+pism=" in entry for entry in entries):
        print("to simulate what services gain from interference scores: tvwrl reproduce pism-schedulers")


def _listing() -> str:
    """What --schedulers takes: the names, by what they know, and the forms of other entries."""
    knowing = {group: [name for name in SCHEDULERS if KNOWLEDGE[name].group == group] for group in GROUPS}
    names = {f"{group}:": ", ".join(own) for group, own in knowing.items() if own}
    return "\n\n".join(
        "\n".join(
            [head, textwrap.fill(f"{text}.", 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)]
        )
        for head, text in (names | FORMS).items()
    )


def _problem(settings: ComparisonSettings) -> Problem:
    """The environment that the options describe."""
    trace = open_and_describe(settings.trace or "google", settings.slot_seconds, say)
    scenario = replace(Scenario(**asdict(settings.environment)), load=settings.loads[0])
    if settings.machines is not None:
        scenario = replace(scenario, machines=settings.machines)
    forecaster = None
    if settings.forecaster is not None:
        forecaster = read_forecaster(settings.forecaster, SequenceSampler(trace, scenario))
    return Problem.build(trace, scenario, forecaster=forecaster, report=say)


def _problem_and_policy(settings: ComparisonSettings, run: Path) -> tuple[Problem, Scheduler, dict[str, Any]]:
    """The environment of a policy, the policy as a scheduler, and what run.json says of it."""
    saved, policy, kind, facts = _saved(settings, run)
    machines, trained_on = settings.machines, saved.scenario.machines
    if policy.name in (*SCHEDULERS, *(parts_of(entry)[0] for entry in settings.schedulers)):
        raise InputError(f"the run has the name of a scheduler, '{policy.name}': rename its folder")
    if machines is not None and machines != trained_on and kind != "shared":
        raise InputError(
            f"machines is {machines}: the {kind} policy of '{policy.name}' is one network for exactly {trained_on} "
            "machines; only policy shared, one network for every machine, can play on another number"
        )
    if settings.trace is None:
        trace = open_and_describe(*how_to_open(saved.trace), say)
    else:
        trace = open_and_describe(settings.trace, settings.slot_seconds, say)
    if not saved.knows(trace):
        say("note: the policy was trained on another trace; its units are refitted, the classes are not")
    problem = saved.problem(trace, settings.loads[0])
    if machines is not None and machines != trained_on:
        problem = problem.at_load(max(settings.loads)).on_machines(machines)  # with as many workloads as the most needs
    return problem, policy, facts


def _saved(settings: ComparisonSettings, run: Path) -> tuple[Checkpoint | Facts, Scheduler, str, dict[str, Any]]:
    """What the policy was made for, the policy, its kind, and what run.json says of it."""
    if run.suffix == ".onnx":
        from tvwrl.agents import load_exported

        exported = load_exported(run)
        if settings.trace is None:
            name = exported.facts.trace["name"]
            raise InputError(f"{run} does not say where its trace, '{name}', is: give it as --trace")
        return exported.facts, exported, exported.facts.policy, {"run": exported.name, "trace": exported.facts.trace}
    from tvwrl.agents import Checkpoint, find_checkpoint, load_policy

    path = find_checkpoint(run)
    saved = Checkpoint.load(path)
    policy = load_policy(run, saved, settings.device)
    facts = {"run": policy.name, "file": path.name, "iteration": saved.iteration, "trace": saved.trace}
    return saved, policy, saved.config.policy, facts
