"""Learns what to move, and compares it with rules that move, as `tvwrl train --moves` is asked to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import tyro

from tvwrl.agents import PolicySettings, ValueSettings
from tvwrl.checks import at_least, different, one_of
from tvwrl.command_line import SlotSeconds, TraceName
from tvwrl.envs import Problem
from tvwrl.experiments.engine import complete
from tvwrl.experiments.episode_rows import incomplete_by
from tvwrl.experiments.evaluate_command import Environment
from tvwrl.experiments.evaluation import EvaluationSetup, Player, evaluate, is_unfinished
from tvwrl.experiments.exploring.explored import first_look
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.experiments.tables import terminal_table
from tvwrl.experiments.training_runs import open_again
from tvwrl.experiments.tuned_moves import PLACING, with_tuned_moves
from tvwrl.progress import Report, say
from tvwrl.runs import GENERATIONS, check_new_folder, default_folder, how_to_continue, provenance, write_json
from tvwrl.schedulers import KNOWLEDGE, MachineValue, Scheduler, make_move_rule, make_scheduler, plus, shipped_value
from tvwrl.simulation import Scenario
from tvwrl.traces import check_others, open_and_describe, trace_identity
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    import polars as pl

FITTING = "machine-value"
SEARCHING = "policy-search"
ALGORITHMS = (FITTING, "reinforce", "ppo", SEARCHING)
# Settings that some algorithms have no use for
OF_FITTING = ("sequences", "random_moves", "gammas", "epochs", "placings")
OF_PPO = ("gae_lambda", "clip", "passes")
OF_VALUES = ("random_moves", "gammas", "risks", "thresholds", "placings", "units", "epochs")
COMPARED = ("evacuate", "greedy-evacuate", "machine-value")  # with what is learnt, at their tuned settings


@dataclass(frozen=True)
class MovingEnvironment(Environment):
    """The environment of `tvwrl evaluate`, in which workloads may move."""

    moves_per_slot: int = 2
    machines: int = 10
    """Machines in the cluster."""


@dataclass(frozen=True)
class MoveTrainingSettings:
    """Learn which running workloads to move, and where to, then compare that with rules that move, on unseen workloads.

    The run folder holds run.json, generations/, value.npz or rule.json, and evaluation/. After Ctrl-C or a crash,
    --resume goes on from the last generation that ended. See docs/explanation/moves.md.
    """

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    algo: Literal["machine-value", "reinforce", "ppo", "policy-search"] = "machine-value"
    """Fit a value to what machines cost, learn its weights by policy gradient, or search the options of --rule."""
    rule: Literal["greedy", "evacuate", "greedy-evacuate", "swap", "machine-value"] = "greedy-evacuate"
    """Rule whose options policy-search learns."""
    also: tuple[str, ...] = ()
    """Further traces to learn from; what is learnt is compared on --trace."""
    loads: tuple[float, ...] = (0.5,)
    """Offered loads to learn from; what is learnt is compared at the first."""
    move_prices: tuple[float, ...] = ()
    """Prices of a move to learn from; default: --K-m, at which what is learnt is compared."""
    from_shipped: bool = True
    """Learn on from the value that comes with the package, which is kept if nothing better is learnt; no: from nothing.
    Where penalties, units or sizes are others, it is always from nothing."""
    comparison_sequences: int = 30
    """Test sequences of the comparison; 0: none."""
    out: Path | None = None
    """Output folder; default: runs/moves-<trace>-<timestamp>."""
    resume: Path | None = None
    """Continue the run in this folder; no other option can be combined with it."""
    value: tyro.conf.OmitArgPrefixes[ValueSettings] = field(default_factory=ValueSettings)
    policy: tyro.conf.OmitArgPrefixes[PolicySettings] = field(default_factory=PolicySettings)
    environment: tyro.conf.OmitArgPrefixes[MovingEnvironment] = field(default_factory=MovingEnvironment)

    def __post_init__(self) -> None:
        different(loads=self.loads, move_prices=self.move_prices or (1.0,), traces=(self.trace, *self.also))
        at_least(0, comparison_sequences=self.comparison_sequences, move_prices=self.move_prices)
        one_of(ALGORITHMS, algo=self.algo)
        given, default = asdict(self.value) | asdict(self.policy), asdict(ValueSettings()) | asdict(PolicySettings())
        changed = {name: setting for name, setting in given.items() if setting != default[name]}
        unused = {
            FITTING: tuple(asdict(self.policy)),
            "reinforce": (*OF_FITTING, *OF_PPO),
            "ppo": OF_FITTING,
            SEARCHING: (*OF_VALUES, *asdict(self.policy)),
        }[self.algo]
        if self.algo != SEARCHING and self.rule != MoveTrainingSettings.rule:
            raise InputError(
                f"rule is {self.rule}, but algo {self.algo} learns no options of rules: add --algo policy-search, or "
                "leave it out"
            )
        if self.algo == SEARCHING and not self.from_shipped:
            raise InputError("from_shipped is false, but policy-search begins with no value: leave it out")
        if other := [name for name in unused if name in changed]:
            raise InputError(f"{other[0]} is {changed[other[0]]}, but algo {self.algo} has no {other[0]}: leave it out")
        begun = ("units",) if self.algo == FITTING else ("units", "thresholds", "risks")
        if self.from_shipped and self.algo != SEARCHING and (other := [name for name in begun if name in changed]):
            raise InputError(
                f"{other[0]} is {changed[other[0]]}, but learning goes on from the value that ships, with its own: "
                "add --no-from-shipped, or leave it out"
            )
        if self.value.seconds is not None and "generations" in changed:
            raise InputError(f"generations is {changed['generations']}, but seconds end learning: give one")


def learn_moves(settings: MoveTrainingSettings) -> int:
    """Learn what to move, then compare it; returns the exit code.

    Raises InputError for bad options; KeyboardInterrupt and SystemExit pass through, and leave what `resume` needs.
    """
    if settings.resume is None:
        folder, settings, traces = _begin(settings)
    else:
        folder, settings, traces = _take_up(settings)
    try:
        problems = _problems(settings, traces, say)
        learnt = _learnt(problems, settings, folder)
        if not settings.comparison_sequences:
            print(f"{learnt.said}; it plays as '{plus(settings.value.places, learnt.rule)}'")
            return 0
        found = _compare(problems[0], settings, folder, learnt)
    except (KeyboardInterrupt, SystemExit):
        say(f"stopped; continue with: {how_to_continue(folder)}")
        raise
    if found is not None:
        print(found)
    return 0


def _begin(settings: MoveTrainingSettings) -> tuple[Path, MoveTrainingSettings, list[Trace]]:
    """A new run in its folder."""
    if not settings.environment.moves_per_slot:
        raise InputError("moves_per_slot is 0: nothing may move; set it to 1 or more")
    if settings.algo in ("reinforce", "ppo") and not settings.from_shipped:
        for name in ("thresholds", "risks"):
            given = getattr(settings.value, name)
            if len(given) > 1 and given != getattr(ValueSettings(), name):
                raise InputError(f"{name} are {given}: algo {settings.algo} has one; give one")
    names = (settings.trace, *settings.also)
    traces = [open_and_describe(name, settings.slot_seconds, say) for name in names]
    check_others(traces[0], dict(zip(settings.also, traces[1:], strict=True)))
    folder = settings.out or default_folder(f"moves-{traces[0].name}")
    check_new_folder(folder)
    identities = [trace_identity(trace, name, settings.slot_seconds) for trace, name in zip(traces, names, strict=True)]
    (folder / GENERATIONS).mkdir(parents=True)
    kept = asdict(replace(settings, out=None, resume=None, slot_seconds=settings.slot_seconds))
    write_json(folder / "run.json", provenance() | {"moves": kept, "traces": identities})
    say(f"run folder: {folder}")
    return folder, settings, traces


def _take_up(settings: MoveTrainingSettings) -> tuple[Path, MoveTrainingSettings, list[Trace]]:
    """A run as its last generation left it. Raises InputError if there is none, or a trace has changed."""
    folder = settings.resume
    assert folder is not None
    if replace(settings, resume=None) != MoveTrainingSettings():
        raise InputError("--resume continues with the run's own settings: no other option can be combined with it")
    try:
        facts = json.loads((folder / "run.json").read_text())
        kept, identities = dict(facts["moves"]), facts["traces"]
        value, environment = ValueSettings(**_tuples(kept.pop("value"))), _tuples(kept.pop("environment"))
        policy = PolicySettings(**kept.pop("policy", {}))
        again = MoveTrainingSettings(
            **_tuples(kept),
            value=value,
            policy=policy,
            environment=MovingEnvironment(**environment),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{folder} is no run of tvwrl train --moves, or its run.json is damaged") from error
    return folder, again, [open_again(identity, say) for identity in identities]


def _tuples(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they were before JSON made lists of their tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}


def _problems(settings: MoveTrainingSettings, traces: list[Trace], report: Report) -> list[Problem]:
    """What is learnt from: each trace at each load and price."""
    scenario = Scenario(**asdict(settings.environment) | {"load": settings.loads[0]})
    found = []
    for trace in traces:
        problem = Problem.build(trace, scenario, report=report).with_forecasts(report)
        at_loads = [problem.at_load(load) for load in settings.loads]
        found += [one.at_price(price) for one in at_loads for price in settings.move_prices or (scenario.K_m,)]
    return found


class Learnt(NamedTuple):
    """What a run has learnt."""

    rule: str  # its name
    digest: str  # a text that differs between what is learnt
    said: str  # for people


def _learnt(problems: list[Problem], settings: MoveTrainingSettings, folder: Path) -> Learnt:
    """What a run learns, or has learnt."""
    from tvwrl.agents import learn_policy, learn_rule, learn_value

    kept = folder / GENERATIONS
    if settings.algo == SEARCHING:
        file = folder / "rule.json"
        if not file.is_file():
            write_json(file, {"rule": learn_rule(problems, settings.rule, settings.value, say, kept)})
        try:
            rule = make_move_rule(json.loads(file.read_text())["rule"]).name
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(f"{file} is damaged: {error}; remove it, and --resume writes it again") from error
        return Learnt(rule, rule, f"the rule is {rule}")
    file = folder / "value.npz"
    if not file.is_file():
        start = None
        if settings.from_shipped:
            start = shipped_value()
            if why := start.misfit(problems[0].scenario, problems[0].machines.resources):
                say(f"it begins with no value: {why}")
                start = None
        if settings.algo == FITTING:
            value = learn_value(problems, settings.value, say, kept, start)
        else:
            value = learn_policy(problems, settings.algo, settings.value, settings.policy, say, kept, start)
        value.save(file)
    digest, said = MachineValue.load(file).digest, f"the value is {file}"
    if settings.from_shipped and digest == shipped_value().digest:
        said += ": the one that ships, as no generation was better on validation sequences"
    return Learnt(f"machine-value={file}", digest, said)


def _compare(problem: Problem, settings: MoveTrainingSettings, folder: Path, learnt: Learnt) -> str | None:
    """Play what was learnt against rules on test sequences; returns what to print, None if that has been written."""
    out, problem = folder / "evaluation", problem.at_price(settings.environment.K_m)
    if out.exists() and not is_unfinished(out):
        return (out / "table.md").read_text()
    places = settings.value.places
    entry = plus(places, learnt.rule)
    player = make_scheduler(entry)
    player.name = plus(places, "learnt")
    say(f"learning is done, {learnt.said}; now rules are tuned, to compare it with (--comparison-sequences 0: none)")
    rules = with_tuned_moves(problem, places, COMPARED, say)
    schedulers: list[Scheduler] = [player, make_scheduler(places), *rules]
    rows = evaluate(
        EvaluationSetup(problem, [problem.scenario.load], settings.comparison_sequences),
        [Player(one, learnt.digest if one is player else one.name) for one in schedulers],
        out,
        {"schedulers": {one.name: one.name for one in schedulers} | {player.name: entry}},
        reference=player.name,
        completed=lambda cells, all_cells: complete(cells, all_cells, report=say),
        report=say,
    )
    if rows is None:
        return None
    knowledge = KNOWLEDGE | {one.name: one.knowledge for one in schedulers}
    brought = what_moves_bring(rows, player.name, [one.name for one in rules], places)
    return "\n".join([terminal_table(rows, knowledge), brought, learnt.said, first_look(out)])


def what_moves_bring(rows: pl.DataFrame, learnt: str, rules: list[str], places: str = PLACING) -> str:
    """A sentence on the rewards of `learnt` against `places` without moves, and against the best of the rules."""
    import polars as pl

    if left := incomplete_by(rows, ["scheduler"]):
        return f"nothing can be said of rewards: workloads were left unplaced by {', '.join(one for (one,) in left)}"
    rewards = {
        name: rows.filter(pl.col("scheduler") == name).sort("load", "sequence")["reward"].to_numpy() / 1000
        for name in (learnt, places, *rules)
    }
    if len(rewards[learnt]) == 1:
        return "one unseen sequence is too few to rule out chance: compare on more (--comparison-sequences)"
    best = max(rules, key=lambda name: float(rewards[name].mean()))
    parts = []
    for name, what in ((places, "no moves"), (best, f"the best rule here, {best.removeprefix(places + ' + ')}")):
        gain, low, high = paired_bootstrap(rewards[learnt], rewards[name])
        share = 100 * gain / max(abs(float(rewards[name].mean())), 1e-9)
        sure = "surely better" if low > 0 else "surely worse" if high < 0 else "no significant difference"
        parts.append(f"against {what}: {gain:+.1f} thousand [{low:+.1f}, {high:+.1f}] ({share:+.1f} %), {sure}")
    return f"learnt moves on {len(rewards[learnt])} unseen sequences (paired, 95 %): {'; '.join(parts)}"
