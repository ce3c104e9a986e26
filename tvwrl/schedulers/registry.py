"""The registered schedulers by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvwrl.checks import one_of
from tvwrl.schedulers import scores
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.expected_cost import ExpectedCost
from tvwrl.schedulers.forecast_fit import ForecastFit
from tvwrl.schedulers.head_of_queue import Backfill, Greedy, HeadOfQueue
from tvwrl.schedulers.hindsight import Hindsight
from tvwrl.schedulers.knowledge import CURRENT_LOAD, FUTURE, PEAKS, Knowledge
from tvwrl.schedulers.lrasched import LRASched
from tvwrl.schedulers.rollout import ROLLOUT_BASES, Rollout
from tvwrl.schedulers.stateful import Random, RiskBalancing, RoundRobin
from tvwrl.schedulers.tetris import Tetris
from tvwrl.simulation.cluster import Cluster

_best_fit_peak = partial(Greedy, "best-fit-peak", PEAKS, Cluster.room_for_peaks, scores.tightest_peaks)
_clairvoyant = partial(Greedy, "clairvoyant", FUTURE, Cluster.room_ahead, scores.tightest_ahead)
_MAKERS: tuple[Callable[[], Scheduler], ...] = (
    partial(Greedy, "best-fit", CURRENT_LOAD, Cluster.room_now, scores.tightest_now),
    _best_fit_peak,
    lambda: Backfill(_best_fit_peak()),
    partial(Greedy, "first-fit-peak", PEAKS, Cluster.room_for_peaks, scores.first),
    partial(Greedy, "worst-fit-peak", PEAKS, Cluster.room_for_peaks, scores.roomiest_peaks),
    partial(LRASched, "lrasched-peak"),
    partial(LRASched, "lrasched-request", by_request=True),
    Tetris,
    Random,
    RoundRobin,
    partial(Greedy, "spread", CURRENT_LOAD, Cluster.room_now, scores.emptiest),
    partial(Greedy, "stack", CURRENT_LOAD, Cluster.room_now, scores.fullest),
    partial(Greedy, "stack-80", CURRENT_LOAD, Cluster.room_now, scores.fullest_to_a_limit),
    partial(Greedy, "load-aware", CURRENT_LOAD, Cluster.room_now, scores.load_aware),
    partial(Greedy, "target-load-packing", CURRENT_LOAD, Cluster.room_now, scores.target_load_packing),
    RiskBalancing,
    ForecastFit,
    ExpectedCost,
    partial(ExpectedCost, "expected-cost-peak", peaks=True),
    _clairvoyant,
    partial(Hindsight, _clairvoyant),
)

SCHEDULERS: dict[str, Callable[[], Scheduler]] = {make().name: make for make in _MAKERS}
SEARCHING = ("hindsight",)  # takes seconds for an episode: compared only where somebody names it


def rollout_of(base: str, proposal: Scheduler | None = None) -> Rollout:
    """A rollout on the scheduler named `base`. Raises InputError for a base that cannot play on."""
    one_of(ROLLOUT_NAMES, base=base)
    rule = base.removesuffix(BACKFILL)
    scheduler = SCHEDULERS[rule]()
    assert isinstance(scheduler, HeadOfQueue)
    return Rollout(scheduler, proposal=proposal, backfill=rule != base)


BACKFILL = "-backfill"
ROLLOUT_NAMES = (*ROLLOUT_BASES, *(base + BACKFILL for base in ROLLOUT_BASES if base + BACKFILL in SCHEDULERS))
ROLLOUTS: dict[str, Callable[[], Scheduler]] = {
    f"rollout({base})": partial(rollout_of, base) for base in ROLLOUT_NAMES
}  # slower than the others by three orders of magnitude, and so in no list by default
KNOWLEDGE: dict[str, Knowledge] = {name: make().knowledge for name, make in (SCHEDULERS | ROLLOUTS).items()}


def make_scheduler(name: str) -> Scheduler:
    """A new scheduler of that name, of `SCHEDULERS` or `ROLLOUTS`. Raises InputError that lists the valid names.

    >>> problem = Problem.build(open_trace("google"), Scenario())  # doctest: +SKIP
    >>> sequences = problem.sequences("test", 10, seed=0)  # doctest: +SKIP
    >>> runner = Runner(sequences, problem.machines, problem.scenario)  # doctest: +SKIP
    >>> episode = runner.play(make_scheduler("tetris"), 0)  # doctest: +SKIP
    """
    every = SCHEDULERS | ROLLOUTS
    one_of(every, scheduler=name)
    return every[name]()
