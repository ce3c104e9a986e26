"""The registered schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tvwrl.checks import hint
from tvwrl.names import numbers, read_name, written
from tvwrl.schedulers import best_fit, rules
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
from tvwrl.schedulers.moving import descheduler, drs, expected_gain, karpenter, lars, machine_value
from tvwrl.schedulers.moving import koordinator as low_node_load
from tvwrl.schedulers.moving.base import MOVE_RULES, Moving, head_of, make_move_rule, parted, plus
from tvwrl.schedulers.planning import rollout_moves
from tvwrl.schedulers.planning.hindsight import Hindsight
from tvwrl.schedulers.planning.perfect_forecast import PERFECT, PerfectForecast
from tvwrl.schedulers.planning.rollout import ALSO_KNOWN, ROLLOUT_BASES, Rollout
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
    expected_gain, machine_value, rollout_moves, descheduler, low_node_load, karpenter, drs, lars,
)  # fmt: skip
_order = {module.__name__: place for place, module in enumerate(REGISTERED_BY)}
_rows = sorted(MOVE_RULES.items(), key=lambda named: _order[named[1].made.__module__])
MOVE_RULES.clear()
MOVE_RULES.update(_rows)  # ours first, as lists show them; imports come in the order of the alphabet


def _greedy(name: str, knowledge: Knowledge, passes: Filter, score: Score, title: str) -> None:
    register(partial(Greedy, name, knowledge, passes, score), name, knowledge, title)


_greedy("best-fit", CURRENT_LOAD, Cluster.room_now, best_fit.tightest_now, "Best-Fit")
_greedy("best-fit-peak", PEAKS, Cluster.room_for_peaks, best_fit.tightest_peaks, "Best-Fit, peaks")
_greedy("first-fit-peak", PEAKS, Cluster.room_for_peaks, best_fit.first, "First-Fit, peaks")
_greedy("worst-fit-peak", PEAKS, Cluster.room_for_peaks, best_fit.roomiest_peaks, "Worst-Fit, peaks")
_greedy("spread", CURRENT_LOAD, Cluster.room_now, best_fit.emptiest, "Spread")
_greedy("stack", CURRENT_LOAD, Cluster.room_now, best_fit.fullest, "Stack")
_greedy("stack-80", CURRENT_LOAD, Cluster.room_now, best_fit.fullest_to_a_limit, "Stack up to 80 %")
_greedy("clairvoyant", FUTURE, Cluster.room_ahead, best_fit.tightest_ahead, "Clairvoyant")
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
    if base not in ROLLOUT_NAMES:
        near = hint(base, ROLLOUT_NAMES, listed_by="tvwrl evaluate --list-schedulers names what can")
        raise InputError(f"rollout({base}): '{base}' cannot be rolled out; {near}")
    rule = base.removesuffix(BACKFILL)
    given = numbers(f"rollout(BASE,{','.join(options)})", options, ROLLOUT_OPTIONS)
    scheduler = SCHEDULERS[rule]()
    assert isinstance(scheduler, HeadOfQueue)
    made = Rollout(scheduler, proposal=proposal, backfill=rule != base, **given)
    made.name = written("rollout", made.name.removeprefix("rollout(").removesuffix(")"), given)
    return made


def tunable(name: str) -> Mapping[str, tuple[float, ...]]:
    """Option -> values over which it is tuned, for the options that a scheduler's name may set, as in n-sigma(n=3)."""
    make = SCHEDULERS[name]
    return getattr(getattr(make, "func", make), "options", {})  # one class may make several, by `partial`


ROLLOUT_NAMES: tuple[str, ...] = (
    *ROLLOUT_BASES,
    *(base + BACKFILL for base in ROLLOUT_BASES if base + BACKFILL in SCHEDULERS),
)
ROLLOUT_OPTIONS = {"milliseconds": float, "rollouts": int, "horizon": int, "certainty": float}
# Slower than the others by three orders of magnitude, so in no default list
ROLLOUTS: dict[str, Callable[[], Scheduler]] = {f"rollout({base})": partial(rollout_of, base) for base in ROLLOUT_NAMES}
KNOWLEDGE: dict[str, Knowledge] = {name: RULES[name].knowledge for name in SCHEDULERS} | {
    f"rollout({base})": RULES[base.removesuffix(BACKFILL)].knowledge.and_also(ALSO_KNOWN) for base in ROLLOUT_NAMES
}


def list_schedulers(knowing: str | None = None) -> dict[str, Knowledge]:
    """List every scheduler that can be named; those that only some code can make are not here.

    Parameters
    ----------
    knowing : str, optional
        A group of `tvwrl.schedulers.GROUPS`, to list only its schedulers.

    Returns
    -------
    dict[str, Knowledge]
        Name -> what it knows.

    Raises
    ------
    InputError
        For an unknown group.

    Examples
    --------
    >>> list_schedulers()["clairvoyant"].note
    'the whole future (a reference)'
    >>> list(list_schedulers("the whole future"))
    ['clairvoyant', 'hindsight', 'peak-oracle']
    """
    if knowing is not None and knowing not in GROUPS:
        raise InputError(f"knowing is '{knowing}': {hint(knowing, GROUPS)}")
    return {name: known for name, known in KNOWLEDGE.items() if knowing in (None, known.group)}


class UnknownScheduler(InputError):
    """No scheduler has this name; `meant` says which are near, or how to list all."""

    def __init__(self, message: str, meant: str) -> None:
        super().__init__(message)
        self.meant = meant


def with_moves(placing: Scheduler, rule: str) -> Moving:
    """A scheduler with the move rule of that name. Raises InputError where only one of the two knows the future."""
    moves = make_move_rule(rule)
    if isinstance(placing, PerfectForecast):
        meant = PerfectForecast(Moving(placing.scheduler, moves)).name
        raise InputError(f"scheduler is '{plus(placing.name, rule)}': give both rules perfect forecasts, as in {meant}")
    return Moving(placing, moves)


def moves_of(name: str) -> str:
    """The rule by which a scheduler of that name moves what runs, without options; empty if it moves nothing.

    >>> moves_of("spread + evacuate(most=2)"), moves_of("spread + machine-value=runs/a/value.npz"), moves_of("spread")
    ('evacuate', 'machine-value', '')
    """
    rule = head_of(rule_that_moves(name))
    return rule if rule in MOVE_RULES else ""


def rule_that_moves(name: str) -> str:
    """The part of a scheduler's name that says how it moves what runs; empty if it moves nothing.

    >>> rule_that_moves("perfect-forecast(spread + evacuate(most=2))"), rule_that_moves("spread")
    ('evacuate(most=2)', '')
    """
    whole = name.startswith(f"{PERFECT}(") and name.endswith(")")
    both = parted(name[len(PERFECT) + 1 : -1] if whole else name)
    return both[1] if both else ""


def make_scheduler(name: str) -> Scheduler:
    """Make a scheduler by its name.

    Parameters
    ----------
    name : str
        One of `SCHEDULERS` or `ROLLOUTS`, perhaps with options, as in `n-sigma(n=3)` and
        `rollout(spread,milliseconds=50)`. `NAME-backfill` adds backfilling to any rule that serves the head of the
        queue: when that has to wait, others may pass it. `NAME + MOVES` adds one of `MOVE_RULES`, as in
        `expected-cost + evacuate(threshold=5000)`, for scenarios in which what runs may be moved.
        `NAME + machine-value=FILE` moves by a value that was learnt (`tvwrl train --moves`).
        `perfect-forecast(NAME)` is a reference: any of these that looks at forecasts, and sees what really comes.

    Returns
    -------
    Scheduler
        A new one, for one episode at a time.

    Raises
    ------
    UnknownScheduler
        For another name; it says which are near.
    InputError
        For bad options; it lists the valid ones.

    Examples
    --------
    >>> make_scheduler("n-sigma(n=3)")
    <NSigma name='n-sigma(n=3)', knows='declared requests'>
    >>> runner.play(make_scheduler("tetris"), 0)  # doctest: +SKIP
    """
    if name in SCHEDULERS:
        return SCHEDULERS[name]()
    if both := parted(name):
        return with_moves(make_scheduler(both[0]), both[1])
    if name.startswith(f"{PERFECT}(") and name.endswith(")"):
        return PerfectForecast(make_scheduler(name[len(PERFECT) + 1 : -1].strip()))
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
    if head.endswith(BACKFILL) and (base := head.removesuffix(BACKFILL)) in SCHEDULERS and tunable(base):
        raise InputError(f"scheduler is '{name}': write {base}{name.removeprefix(head)}{BACKFILL}")
    if head in SCHEDULERS:
        if not (allowed := dict.fromkeys(tunable(head), float)):
            raise InputError(f"scheduler is '{name}': {head} has no options")
        given = numbers(name, (*filter(None, [of]), *options), allowed)
        made = SCHEDULERS[head](**given)
        made.name = written(head, options=given)
        return made
    listed_by = "tvwrl evaluate --list-schedulers lists all"
    meant = hint(head, SCHEDULERS | ROLLOUTS, listed_by=listed_by)
    unknown = f"there is no scheduler '{name}'; {meant}" if meant == listed_by else f"scheduler is '{name}': {meant}"
    raise UnknownScheduler(unknown, meant)
