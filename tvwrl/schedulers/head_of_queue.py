"""Schedulers that serve the head of the queue first, and the loop that they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tvwrl.schedulers.base import Opinion, Scheduler
from tvwrl.schedulers.knowledge import Knowledge
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, Placement, Workload

Filter = Callable[[Cluster, Workload], Mask]  # (M,) machines that may take the workload
Score = Callable[[Cluster, Workload], Float]  # (M,) higher is better

BACKFILL = "-backfill"  # how the name of a rule with backfilling ends


class HeadOfQueue(Scheduler):
    """First in, first out: places the head of the queue repeatedly, until it has to wait.

    Examples
    --------
    >>> class Emptiest(HeadOfQueue):
    ...     name, knowledge = "emptiest", Knowledge("current load and history", "how many workloads run")
    ...
    ...     def choose(self, cluster, workload):
    ...         return best(self.candidates(cluster, workload), -cluster.active)
    """

    @abstractmethod
    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """The machine for the head of the queue; None to let it wait.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        workload : Workload
            The workload that waits.
        """

    def candidates(self, cluster: Cluster, workload: Workload) -> Mask:
        """(M,) machines to choose from: by default those with room now.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        workload : Workload
            The workload that waits.
        """
        return cluster.room_now(workload)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        for workload in pending:
            machine = self.choose(cluster, workload)
            if machine is None:
                return
            yield Placement(workload, machine)

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion:
        return Opinion(self.candidates(cluster, workload))


class Backfill(Scheduler):
    """Places the first visible workload that another scheduler would place if that were the head of the queue.

    Parameters
    ----------
    scheduler : HeadOfQueue
        The rule; `served` is its name as an attribute.

    Examples
    --------
    >>> from tvwrl.schedulers import make_scheduler
    >>> Backfill(make_scheduler("spread")).name
    'spread-backfill'
    """

    def __init__(self, scheduler: HeadOfQueue) -> None:
        self.name, self.knowledge, self.served = f"{scheduler.name}{BACKFILL}", scheduler.knowledge, scheduler
        self.looks_at_grid, self.needs_forecasts = scheduler.looks_at_grid, scheduler.needs_forecasts

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare the scheduler for a new episode."""
        self.served.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """One placement or none; the runner calls again with the updated queue, so the search restarts at its head."""
        for workload in pending:
            for placement in self.served.schedule(cluster, [workload]):
                yield placement
                return

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        return self.served.opinion(cluster, workload)


class Scored(HeadOfQueue):
    """The head of the queue goes to the machine with the best `score` among the `candidates`."""

    @abstractmethod
    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """(M,) higher is better."""

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        among = self.candidates(cluster, workload)
        return best(among, self.score(cluster, workload)) if among.any() else None

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion:
        """See `Scheduler.opinion`."""
        return Opinion(self.candidates(cluster, workload), self.score(cluster, workload), "score")

    def considered(self, cluster: Cluster, workload: Workload) -> tuple[int | None, Opinion | None]:
        """See `Scheduler.considered`: the best of its scores, unless a subclass chooses otherwise."""
        rule = type(self)
        if rule.choose is not Scored.choose or rule.schedule is not HeadOfQueue.schedule:
            return super().considered(cluster, workload)
        opinion = self.opinion(cluster, workload)
        return None if opinion.scores is None else best(opinion.possible, opinion.scores), opinion


class FilterAndScore(Scored):
    """Rules in the form of Kubernetes: a filter, `passes`, and a score for the machines that pass."""

    @abstractmethod
    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """(M,) whether the rule's own filter lets a machine take the workload."""

    def candidates(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `admitted`."""
        room = cluster.room_now(workload)
        return admitted(cluster, workload, self.passes(cluster, workload)) if room.any() else room


class Greedy(Scored):
    """A rule from two functions, a filter and a score.

    Parameters
    ----------
    name : str
        What tables call it.
    knowledge : Knowledge
        What filter and score look at.
    passes : Filter
        (cluster, workload) -> (M,) machines that may take the workload.
    score : Score
        (cluster, workload) -> (M,) numbers, higher is better; of equals the first machine is taken.

    Examples
    --------
    >>> from tvwrl.schedulers import CURRENT_LOAD
    >>> Greedy("fewest", CURRENT_LOAD, Cluster.room_now, lambda cluster, workload: -cluster.active)
    <Greedy name='fewest', knows='current load and history'>
    """

    def __init__(self, name: str, knowledge: Knowledge, passes: Filter, score: Score) -> None:
        self.name, self.knowledge, self._passes, self._score = name, knowledge, passes, score

    def candidates(self, cluster: Cluster, workload: Workload) -> Mask:
        return self._passes(cluster, workload)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        return self._score(cluster, workload)


def admitted(cluster: Cluster, workload: Workload, passes: Mask) -> Mask:
    """(M,) machines with room now that pass a rule's filter `passes` (M,), and all idle machines with room now.

    Idle machines pass so that every workload is placed eventually; in the sources it might wait forever.
    """
    mask: Mask = cluster.room_now(workload) & (passes | (cluster.active == 0))
    return mask


def best(passing: Mask, *scores: Float) -> int | None:
    """The machine with the highest score (M,) among those that pass (M,), the first of equals; None if none passes.

    With several scores, each breaks the ties of those before it.
    """
    if not passing.any():
        return None
    *before, last = scores
    for score in before:
        highest = np.where(passing, score, -np.inf)
        passing = highest == highest.max()
    return int(np.where(passing, last, -np.inf).argmax())
