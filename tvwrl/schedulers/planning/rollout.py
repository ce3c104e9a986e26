"""Rollout: plans at decision time. Simulates machines in sampled futures; takes one that is significantly better.

Rollout is one step of policy improvement (Bertsekas, Tsitsiklis and Wu 1997); rollouts are spent by sequential halving
(Karnin, Koren and Somekh 2013).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.checks import at_least, one_of, positive
from tvwrl.schedulers.base import Opinion, Scheduler, is_registered
from tvwrl.schedulers.head_of_queue import Backfill, HeadOfQueue
from tvwrl.schedulers.knowledge import Knowledge, knowing_no_more
from tvwrl.schedulers.planning.futures import Futures, Likeness
from tvwrl.schedulers.planning.replay import BASES, RESERVING, Replay
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, InputError, Placement, Workload

if TYPE_CHECKING:
    from tvwrl.schedulers.planning.continuation import Continuation
    from tvwrl.schedulers.runner import Runner

USUAL_ROLLOUTS: int = 600
HORIZON: int = 64
CERTAINTY: float = 1.0
CERTAINTY_OF_RISKS: float = 3.0  # overshoot is rare and costly, so where it may happen means are uncertain
TOGETHER, TIMED = 64, 8  # futures that are sampled at a time, without and with a time limit
SLOWER = 2.0  # how much longer than those before a batch may take without exceeding the time limit
PROPOSED = 4  # machines that a policy proposes
ALSO_KNOWN = "what workloads used so far, and training workloads"  # beside what the base knows
ROLLOUT_BASES: tuple[str, ...] = tuple(base for base in BASES if base != "clairvoyant")


class Rollout(Scheduler):
    """The choice of `base`, unless another machine is significantly better in sampled futures.

    The machines compared are those that the base chooses from; the base decides when to wait. After each of them the
    base continues, in the same `Futures` for all; the better half then gets further futures, and so on. The best one
    is taken if its mean gain exceeds `certainty` standard errors: by default 1 if the base reserves peaks, and so never
    overshoots, otherwise 3.

    `backfill`: whether the base is `Backfill(base)`; then all pairs of a visible workload and a machine are compared
    `rollouts`: the budget of a decision, choices times futures
    `horizon`: length of a rollout, slots
    `milliseconds`: time limit of a decision; results then depend on the speed of the computer
    `proposal`: a trained policy, whose choice replaces the base's; its best `PROPOSED` machines are compared

    Attribute: `leader`, the scheduler whose choices are improved.

    Raises InputError for a base that is not one of `ROLLOUT_BASES` or knows more than the policy, and for values out of
    range.
    """

    def __init__(
        self,
        base: HeadOfQueue,
        rollouts: int = USUAL_ROLLOUTS,
        horizon: int = HORIZON,
        certainty: float | None = None,
        milliseconds: float | None = None,
        proposal: Scheduler | None = None,
        backfill: bool = False,
    ) -> None:
        one_of(ROLLOUT_BASES, base=base.name)
        if not is_registered(base):
            raise InputError(f"base is {base.name} with other settings: rollouts know it only as it is registered")
        at_least(1, horizon=horizon)
        at_least(2, rollouts=rollouts)
        at_least(0, certainty=certainty)
        positive(milliseconds=milliseconds)
        self.base, self.proposal, self._rollouts, self._horizon = base, proposal, rollouts, horizon
        usual = CERTAINTY if base.name in RESERVING else CERTAINTY_OF_RISKS
        self._certainty = usual if certainty is None else certainty
        self._milliseconds, self._backfill = milliseconds, backfill
        self.leader: Scheduler = proposal or (Backfill(base) if backfill else base)
        self.name = f"rollout({base.name}+policy)" if proposal else f"rollout({self.leader.name})"
        self.needs_forecasts = base.needs_forecasts or self.leader.needs_forecasts
        self.looks_at_grid = self.leader.looks_at_grid
        self.knowledge = base.knowledge.and_also(ALSO_KNOWN)
        if proposal is not None:
            own, told = base.knowledge, proposal.knowledge
            if own.group not in knowing_no_more(told.group):
                raise InputError(
                    f"base is {base.name}: it knows more ({own.note}) than the policy '{proposal.name}' ({told.note}); "
                    "use another base, or a policy that is trained with it"
                )
            self.knowledge = Knowledge(told.group, f"{told.note}; {self.knowledge.note}")
        self._made: tuple[object, object] = (None, None)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode.

        Raises InputError for sequences without training sequences or forecasts, and for too many machines.
        """
        if self._made[0] is not cluster.simulation:
            self._make(cluster)
        self._rng = rng
        self._futures.forget()
        self.base.reset(cluster, rng)
        self.leader.reset(cluster, rng)

    def _make(self, cluster: Cluster) -> None:
        """Prepare for the sequences and the machines of a simulation."""
        simulation = cluster.simulation
        if simulation.sequences.training is None:
            raise InputError(f"{self.name} samples futures from training sequences: draw them with Problem.sequences")
        training, table = simulation.sequences.training(), simulation.sequences.forecast
        if self.base.needs_forecasts and (table is None or training.forecast is None):
            raise InputError(f"{self.name} needs sequences that were drawn with forecasts: use Problem.with_forecasts")
        units = float(simulation.scenario.peak_units)
        likeness = Likeness(training, units, self.base.needs_forecasts, peaks=self.base.name.endswith("-peak"))
        together = min(TOGETHER, self._rollouts)
        from_queue = self._backfill or (self.proposal is not None and simulation.scenario.choose_from_queue)
        self._futures = Futures(simulation, training, likeness, together, self._horizon, from_queue)
        self._replay = Replay(self._futures.simulation, self.base.name, self._horizon)
        self._made = (simulation, training)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """One placement, or none; the runner asks again with the updated queue."""
        began = time.perf_counter()
        own = next(iter(self.leader.schedule(cluster, pending)), None)
        if own is None:
            return
        queue = cluster.simulation.waiting(cluster.b)[: self._futures.simulation.scenario.places].tolist()
        takes = np.zeros((len(queue), len(cluster.machines)), np.bool_)
        for workload in pending if self._backfill else [own.workload]:
            takes[queue.index(workload.index)] = self._compared(cluster, workload, own)
        chosen = queue.index(own.workload.index) * takes.shape[1] + own.machine
        takes.flat[chosen] = True
        best = self._search(cluster, takes.ravel(), chosen, began) if takes.sum() > 1 else chosen
        place, machine = divmod(best, takes.shape[1])
        yield Placement(next(w for w in pending if w.index == queue[place]), machine)

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        """See `Scheduler.opinion`: of the scheduler whose choices are improved."""
        return self.leader.opinion(cluster, workload)

    def continuation(self, runner: Runner, actions: int) -> Continuation:
        """See `Scheduler.continuation`: the scheduler whose choices are improved goes on, which is a thousand times
        faster."""
        from tvwrl.schedulers.planning.continuation import continuation_of

        if self.proposal is None:
            return continuation_of(self.leader, runner, actions, self.leader)
        made = self.proposal.continuation(runner, actions)
        made.by = self.proposal.name
        return made

    def _compared(self, cluster: Cluster, workload: Workload, own: Placement) -> Mask:
        """(M,) machines for a workload that are compared with the leader's placement."""
        takes = self.base.candidates(cluster, workload) & cluster.capacity.any(axis=1)
        if self.proposal is not None:
            best = self.proposal.alternatives(cluster, [workload], own, PROPOSED)
            takes &= np.isin(np.arange(len(takes)), best)
        return _without_twins(cluster, takes, own.machine)

    def _search(self, cluster: Cluster, takes: Mask, own: int, began: float) -> int:
        """The choice after sequential halving among `takes` (Q M,), of which `own` is the leader's.

        `began`: when the decision did, seconds
        """
        longest = 0.0
        alive, tally = takes.copy(), Tally(len(takes), own)
        rounds = max(1, math.ceil(math.log2(takes.sum())))
        for _ in range(rounds):
            left = max(1, self._rollouts // (rounds * int(alive.sum())))
            while left > 0:
                count = min(left, TOGETHER if self._milliseconds is None else TIMED)
                started = time.perf_counter()
                if self._milliseconds is not None and 1000 * (started - began + SLOWER * longest) > self._milliseconds:
                    return tally.best(self._certainty)
                self._futures.sample(cluster, self._rng, count)
                costs, _ = self._replay.costs(np.arange(count), np.tile(alive, (count, 1)))
                tally.add(costs[:, : len(takes)].sum(axis=2))
                longest = max(longest, time.perf_counter() - started)
                left -= count
            alive = tally.better_half(alive)
        return tally.best(self._certainty)


class Tally:
    """Gains of choices over one of them in the futures that both have seen."""

    def __init__(self, choices: int, own: int) -> None:
        self._own = own
        self._count, self._sum, self._squares = np.zeros(choices), np.zeros(choices), np.zeros(choices)

    def add(self, costs: Float) -> None:
        """Count futures: (n, A) costs, NaN where a choice was not played."""
        gain = costs[:, [self._own]] - costs
        played = np.isfinite(gain[0])
        gain = np.where(played, gain, 0.0)
        self._count += len(gain) * played
        self._sum += gain.sum(axis=0)
        self._squares += (gain**2).sum(axis=0)

    @property
    def mean(self) -> Float:
        """(A,) mean gain, -inf where there is none."""
        return np.where(self._count > 0, self._sum / np.maximum(self._count, 1), -np.inf)

    def better_half(self, alive: Mask) -> Mask:
        """(A,) the better half of those alive, and the choice that they are compared with."""
        keep = max(2, math.ceil(alive.sum() / 2))
        order = np.argsort(np.where(alive, -self.mean, np.inf), kind="stable")
        half = np.zeros_like(alive)
        half[order[:keep]] = True
        half[self._own] = True
        return half

    def best(self, certainty: float) -> int:
        """The choice of the largest mean among those that gain more than `certainty` standard errors."""
        count, mean = np.maximum(self._count, 2), np.where(self._count > 1, self.mean, 0.0)
        error = np.sqrt(np.maximum(self._squares - count * mean**2, 0.0) / (count - 1) / count)
        sure = mean > certainty * error
        return int(np.where(sure, mean, -np.inf).argmax()) if sure.any() else self._own


def _without_twins(cluster: Cluster, takes: Mask, own: int) -> Mask:
    """(M,) without empty machines that are like another one, as they would cost the same; `own` is kept."""
    if cluster.simulation.state.background.shape[1] or cluster.measured < cluster.slot:  # empty ones may look different
        return takes
    kept, seen = takes.copy(), set()
    for m in sorted(np.flatnonzero(takes & (cluster.active == 0)).tolist(), key=lambda m: m != own):
        kind = tuple(cluster.capacity[m])
        kept[m] = kind not in seen
        seen.add(kind)
    return kept
