"""The scheduler interface."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from tvwrl.schedulers.knowledge import Knowledge
from tvwrl.simulation import Cluster, Mask, Scenario
from tvwrl.types import Float, Int, Move, Placement, Workload, summary

if TYPE_CHECKING:
    from tvwrl.schedulers.planning.continuation import Continuation
    from tvwrl.schedulers.runner import Runner


class Opinion(NamedTuple):
    """A scheduler's opinion of the machines for a workload."""

    possible: Mask  # (M,) those that it chooses from
    scores: Float | None = None  # (M,), or (M + 1,) with that of waiting; None: it only filters
    meaning: str = ""  # of `scores`: "score" (higher is better), "probability", "expected cost"


class Scheduler(ABC):
    """Decides which machine gets a waiting workload.

    A scheduler of your own needs a `name`, its `knowledge`, and `schedule` (or `choose` of a `HeadOfQueue`).

    Attributes
    ----------
    name : str
        What tables call it.
    knowledge : Knowledge
        What it may know; a group of `GROUPS`.
    looks_at_grid, needs_forecasts : bool
        Whether the simulation must draw label grids for it, and sum forecasts of demand by machine.
    leader : Scheduler or None
        Whose choices it improves, and who decides after alternatives, as this one is too slow.

    Examples
    --------
    A scheduler that always takes the first machine:

    >>> class First(HeadOfQueue):  # doctest: +SKIP
    ...     name, knowledge = "first", CURRENT_LOAD
    ...
    ...     def choose(self, cluster, workload):
    ...         return 0
    """

    name: str
    knowledge: Knowledge
    looks_at_grid = False
    needs_forecasts = False
    leader: Scheduler | None = None

    def __repr__(self) -> str:
        return summary(self, name=self.name, knows=self.knowledge.group)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode on `cluster`. Stateless schedulers need not override this.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        rng : np.random.Generator
            The random stream of the episode.
        """
        return

    def wants_forecasts(self, scenario: Scenario) -> bool:
        """Whether sequences have to be drawn with forecasts for it: for some, only where workloads may move.

        Parameters
        ----------
        scenario : Scenario
            What is played.
        """
        return self.needs_forecasts

    @abstractmethod
    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterable[Placement]:
        """Placements for the current slot; each is applied before the next one is asked for.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        pending : Sequence[Workload]
            The visible waiting workloads, oldest first.
        """

    def moves(self, cluster: Cluster) -> Iterable[Move]:
        """Workloads that run and go to another machine, decided after the placements of a slot; by default none.

        Asked for in scenarios with `moves_per_slot` only. Each is carried out before the next one is asked for; see
        `Cluster.running` for what may move, and `Simulation.objection` for what is refused.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        """
        return ()

    @property
    def moves_what_runs(self) -> bool:
        """Whether it also decides moves, so that no other rule can."""
        return type(self).moves is not Scheduler.moves

    def alternatives(self, cluster: Cluster, waiting: Sequence[Workload], choice: Placement, count: int) -> Int:
        """(n <= count,) different machines for the workload of `choice`: the chosen one, then the next best in order.

        By default the scheduler is asked again with the machines found so far switched off, until it would wait.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        waiting : Sequence[Workload]
            The visible waiting workloads, oldest first.
        choice : Placement
            The scheduler's own placement of one of them.
        count : int
            The most machines to name.
        """
        machines = [choice.machine]
        while len(machines) < min(count, len(cluster.machines)):
            placements = self.schedule(cluster.without(machines), waiting)
            machine = next((p.machine for p in placements if p.workload is choice.workload), None)
            if machine is None or machine in machines:
                break
            machines.append(machine)
        return np.array(machines, dtype=np.int64)

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        """Say what it thinks of each machine for a waiting workload; None if it cannot say.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        workload : Workload
            The workload that waits.
        """
        return None

    def considered(self, cluster: Cluster, workload: Workload) -> tuple[int | None, Opinion | None]:
        """Say where a waiting workload should go, and what it thinks of each machine: for who asks both.

        By default both are asked for. What takes both from the same numbers computes those only once.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        workload : Workload
            The workload that waits, alone.

        Returns
        -------
        machine : int or None
            None: it waits; also if the opinion is of probabilities, by which the caller decides.
        opinion : Opinion or None
            See `opinion`.
        """
        opinion = self.opinion(cluster, workload)
        if opinion is not None and opinion.meaning == "probability":
            return None, opinion
        placement = next(iter(self.schedule(cluster, [workload])), None)
        return None if placement is None else placement.machine, opinion

    def fork(self) -> Scheduler:
        """A scheduler that decides from now on as this one would, without changing this one."""
        return self if type(self).reset is Scheduler.reset else copy.deepcopy(self)

    def continuation(self, runner: Runner, actions: int) -> Continuation:
        """Make what finds the cost of actions in states of the episodes that a runner plays.

        By default this scheduler takes all decisions after the action; one that is too slow for that names another.

        Parameters
        ----------
        runner : Runner
            Plays the episodes.
        actions : int
            The most actions of a decision that are asked for.
        """
        from tvwrl.schedulers.planning.continuation import continuation_of

        return continuation_of(self, runner, actions)


class Rule(NamedTuple):
    """A scheduler that has a name."""

    make: Callable[..., Scheduler]
    title: str  # what people call it, for pictures
    knowledge: Knowledge
    kind: str


# What every trained policy is compared with; rules of production clusters (docs/reference/production-rules.md), and
# those of them that are baselines too; rules reconstructed from abstracts and what others wrote, which the benchmark
# does not count as the best of production; what is compared only if it is named, as it takes seconds per episode
BASELINE, PRODUCTION_RULE, BOTH, RECONSTRUCTION, SEARCH = "baseline", "production", "both", "reconstruction", "search"

RULES: dict[str, Rule] = {}  # by name, in the order in which they were registered
SchedulerClass = TypeVar("SchedulerClass", bound=type[Scheduler])


def register(make: Callable[..., Scheduler], name: str, knowledge: Knowledge, title: str, kind: str = BASELINE) -> None:
    """Let `make` be found by `name`. What it makes has that name and knowledge. Raises ValueError for a name in use."""
    if name in RULES:
        raise ValueError(f"there is a scheduler '{name}' already")
    RULES[name] = Rule(make, title, knowledge, kind)


def registered(title: str, kind: str = BASELINE) -> Callable[[SchedulerClass], SchedulerClass]:
    """A decorator that registers a class under its `name`; it can be made without arguments.

    `options` of the class, if there are any, may be set in the name, as in n-sigma(n=3).
    """

    def of(made: SchedulerClass) -> SchedulerClass:
        register(made, made.name, made.knowledge, title, kind)
        return made

    return of


def is_registered(scheduler: Scheduler) -> bool:
    """Whether it is what the registry makes by this name, with the same settings."""
    if scheduler.name not in RULES:
        return False
    usual = RULES[scheduler.name].make()
    own = vars(scheduler)
    return type(scheduler) is type(usual) and all(own.get(name) == value for name, value in vars(usual).items())
