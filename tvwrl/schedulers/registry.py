"""The registered schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tvwrl.checks import hint, one_of
from tvwrl.names import numbers, read_name, written
from tvwrl.schedulers import rules, scores
from tvwrl.schedulers.base import (
    BASELINE,
    BOTH,
    PRODUCTION_RULE,
    RECONSTRUCTION,
    RULES,
    SEARCH,
    Scheduler,
    register,
)
from tvwrl.schedulers.expected_cost import EXPECTED_COSTS
from tvwrl.schedulers.head_of_queue import BACKFILL, Backfill, Filter, Greedy, HeadOfQueue, Score
from tvwrl.schedulers.knowledge import CURRENT_LOAD, FUTURE, GROUPS, PEAKS, Knowledge
from tvwrl.schedulers.planning.hindsight import Hindsight
from tvwrl.schedulers.planning.rollout import ROLLOUT_BASES, Rollout, knowledge_of_rollout
from tvwrl.schedulers.production import (
    crane,
    google,
    gpa,
    katalyst,
    koordinator,
    kubernetes,
    lifetime,
    microsoft,
    trimaran,
)
from tvwrl.simulation import Cluster
from tvwrl.types import InputError

REGISTERED_BY = (  # importing them registers their rules
    rules, crane, google, gpa, katalyst, koordinator, kubernetes, lifetime, microsoft, trimaran,
)  # fmt: skip


def _greedy(name: str, knowledge: Knowledge, passes: Filter, score: Score, title: str) -> None:
    register(partial(Greedy, name, knowledge, passes, score), name, knowledge, title)


_greedy("best-fit", CURRENT_LOAD, Cluster.room_now, scores.tightest_now, "Best-Fit")
_greedy("best-fit-peak", PEAKS, Cluster.room_for_peaks, scores.tightest_peaks, "Best-Fit, peaks")
_greedy("first-fit-peak", PEAKS, Cluster.room_for_peaks, scores.first, "First-Fit, peaks")
_greedy("worst-fit-peak", PEAKS, Cluster.room_for_peaks, scores.roomiest_peaks, "Worst-Fit, peaks")
_greedy("spread", CURRENT_LOAD, Cluster.room_now, scores.emptiest, "Spread")
_greedy("stack", CURRENT_LOAD, Cluster.room_now, scores.fullest, "Stack")
_greedy("stack-80", CURRENT_LOAD, Cluster.room_now, scores.fullest_to_a_limit, "Stack up to 80 %")
_greedy("clairvoyant", FUTURE, Cluster.room_ahead, scores.tightest_ahead, "Clairvoyant")
register(partial(Hindsight, RULES["clairvoyant"].make), Hindsight.name, FUTURE, "Search in hindsight", SEARCH)


def _backfilling(base: str) -> Backfill:
    served = RULES[base].make()
    assert isinstance(served, HeadOfQueue)
    return Backfill(served)


for _base in ("best-fit-peak", *EXPECTED_COSTS):
    _of = RULES[_base]
    register(partial(_backfilling, _base), _base + BACKFILL, _of.knowledge, f"{_of.title} + backfill")


def _of_kinds(*kinds: str) -> tuple[str, ...]:
    return tuple(name for name, rule in RULES.items() if rule.kind in kinds)


BASELINES = _of_kinds(BASELINE, BOTH)
SEARCHING = _of_kinds(SEARCH)
RECONSTRUCTED = _of_kinds(RECONSTRUCTION)
PRODUCTION = _of_kinds(PRODUCTION_RULE, BOTH, RECONSTRUCTION)
# As lists show them: baselines before what else production uses
SCHEDULERS: dict[str, Callable[..., Scheduler]] = {
    name: RULES[name].make
    for name in dict.fromkeys((*BASELINES, *SEARCHING, *_of_kinds(PRODUCTION_RULE), *RECONSTRUCTED))
}


def rollout_of(base: str, proposal: Scheduler | None = None, options: Sequence[str] = ()) -> Rollout:
    """A rollout with the scheduler named `base`; the rollout's name ends with its options.

    `options`: any of `ROLLOUT_OPTIONS` in any order, as in ["milliseconds=50", "horizon=32"]

    Raises InputError for a base without a compiled rule, and for options that are unknown, given twice or out of range.
    """
    one_of(ROLLOUT_NAMES, **{"rollout's base": base})
    rule = base.removesuffix(BACKFILL)
    given = numbers(f"rollout(BASE,{','.join(options)})", options, ROLLOUT_OPTIONS)
    scheduler = SCHEDULERS[rule]()
    assert isinstance(scheduler, HeadOfQueue)
    made = Rollout(scheduler, proposal=proposal, backfill=rule != base, **given)
    made.name = written("rollout", made.name.removeprefix("rollout(").removesuffix(")"), given)
    return made


def _rule(name: str, entry: str, options: Sequence[str]) -> Scheduler:
    """The scheduler of that name with options, which also end its name; `entry`: how it was written."""
    allowed = dict.fromkeys(tunable(name), float)
    if not allowed:
        raise InputError(f"scheduler is '{entry}': {name} has no options")
    given = numbers(entry, options, allowed)
    made = SCHEDULERS[name](**given)
    made.name = written(name, options=given)
    return made


def tunable(name: str) -> Mapping[str, tuple[float, ...]]:
    """Option -> values over which it is tuned, for the options that a scheduler's name may set, as in n-sigma(n=3)."""
    found: Mapping[str, tuple[float, ...]] = getattr(SCHEDULERS[name], "options", {})
    return found


ROLLOUT_NAMES: tuple[str, ...] = (
    *ROLLOUT_BASES,
    *(base + BACKFILL for base in ROLLOUT_BASES if base + BACKFILL in SCHEDULERS),
)
ROLLOUT_OPTIONS = {"milliseconds": float, "rollouts": int, "horizon": int, "certainty": float}
# Slower than the others by three orders of magnitude, so in no default list
ROLLOUTS: dict[str, Callable[[], Scheduler]] = {f"rollout({base})": partial(rollout_of, base) for base in ROLLOUT_NAMES}
KNOWLEDGE: dict[str, Knowledge] = {name: RULES[name].knowledge for name in SCHEDULERS} | {
    f"rollout({base})": knowledge_of_rollout(RULES[base.removesuffix(BACKFILL)].knowledge) for base in ROLLOUT_NAMES
}


def list_schedulers(knowing: str | None = None) -> dict[str, Knowledge]:
    """Name -> what it knows, of every scheduler that can be named; those that only some code can make are not here.

    `knowing`: only those of this group of `tvwrl.schedulers.GROUPS`. Raises InputError for an unknown group.

    >>> list_schedulers()["clairvoyant"].note
    'the whole future (a reference)'
    >>> list(list_schedulers("the whole future"))
    ['clairvoyant', 'hindsight', 'peak-oracle']
    """
    if knowing is not None and knowing not in GROUPS:
        raise InputError(f"knowing is '{knowing}': {hint(knowing, GROUPS)}")
    return {name: known for name, known in KNOWLEDGE.items() if knowing in (None, known.group)}


class UnknownScheduler(InputError):
    """No scheduler has this name."""


def make_scheduler(name: str) -> Scheduler:
    """A new scheduler of that name: one of `SCHEDULERS` or `ROLLOUTS`, perhaps with options, as in `n-sigma(n=3)` and
    `rollout(spread,milliseconds=50)`. `NAME-backfill` adds backfilling to any rule that serves the head of the queue:
    when that has to wait, others may pass it.

    Raises an InputError for bad options that lists the valid ones, and UnknownScheduler with names that are near.

    >>> problem = Problem.build(open_trace("google"), Scenario())  # doctest: +SKIP
    >>> sequences = problem.sequences("test", 10, seed=0)  # doctest: +SKIP
    >>> runner = Runner(sequences, problem.machines, problem.scenario)  # doctest: +SKIP
    >>> episode = runner.play(make_scheduler("tetris"), 0)  # doctest: +SKIP
    """
    if name in SCHEDULERS:
        return SCHEDULERS[name]()
    if name.endswith(BACKFILL):
        served = make_scheduler(name.removesuffix(BACKFILL))
        if not isinstance(served, HeadOfQueue):
            raise InputError(
                f"scheduler is '{name}': {served.name} already chooses from the whole queue, so it cannot backfill"
            )
        return Backfill(served)
    head, of, options = read_name(name, "scheduler")
    if head == "rollout" and of:
        return rollout_of(of, options=options)
    if head in SCHEDULERS:
        return _rule(head, name, (*filter(None, [of]), *options))
    meant = hint(head, SCHEDULERS | ROLLOUTS, listed_by="tvwrl evaluate --list-schedulers lists all")
    raise UnknownScheduler(f"scheduler is '{name}': {meant}")
