"""Rules that move what runs, and how one of them is combined with a scheduler that places: `PLACEMENT + MOVES`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from tvwrl.checks import hint
from tvwrl.names import name_and_source, numbers, read_name, written
from tvwrl.packing import room_now
from tvwrl.schedulers.base import Opinion, Scheduler
from tvwrl.schedulers.knowledge import Knowledge, together
from tvwrl.simulation import Cluster, Running, Scenario
from tvwrl.types import InputError, Int, Move, Placement, Workload, summary

PLUS = " + "  # between the names of the two rules
PLACING = "expected-cost"  # what places where only rules that move are compared


class MoveRule(ABC):
    """Decides which running workload goes to another machine, after the placements of a slot.

    Attributes
    ----------
    name : str
        What tables call it.
    knowledge : Knowledge
        What it may know; a group of `GROUPS`.
    needs_forecasts : bool
        Whether it looks at forecasts of demand.
    is_slow : bool
        Whether an episode takes seconds, so that it is compared only if it is named.
    options : Mapping[str, tuple[float, ...]]
        Option that its name may set -> values over which it is tuned.
    reads : str
        What a file behind its name holds, as in `machine-value=FILE`; empty: it reads none.
    placing : Scheduler
        Who places what waits, for rules that only say what has to leave its machine; see `target`.

    Examples
    --------
    A rule that moves the newest workload to the machine with the lowest load, if that has room:

    >>> class Newest(MoveRule):  # doctest: +SKIP
    ...     name, knowledge = "newest", CURRENT_LOAD
    ...
    ...     def moves(self, cluster):
    ...         running, load = cluster.running, cluster.load_after_moves
    ...         target = int(load.sum(axis=1).argmin())
    ...         if len(running.workload) and running.movable[-1] and running.machine[-1] != target:
    ...             if room_now(load, running.usage[-1], cluster.capacity)[target]:
    ...                 yield Move(int(running.workload[-1]), target)
    """

    name: str
    knowledge: Knowledge
    needs_forecasts = is_slow = False
    options: ClassVar[Mapping[str, tuple[float, ...]]] = {}
    reads: ClassVar[str] = ""
    placing: Scheduler  # who places what waits; set by `Moving`

    def __repr__(self) -> str:
        return summary(self, name=self.name, knows=self.knowledge.group)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode on `cluster`. Rules that remember nothing need not override this.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        rng : np.random.Generator
            The random stream of the episode.
        """
        return

    def watch(self, recorded: Any, rows: Int, nodes: Int, ratio: int) -> None:
        """Learn which recorded cluster is replayed, before `reset`; rules that look at load alone need not override it.

        Parameters
        ----------
        recorded : tvwrl.what_if.Recorded
            The record; a rule may look at what lies before the current slot.
        rows : Int
            (n,) the pod of the record that each workload is.
        nodes : Int
            (M,) the node of the record that each machine is.
        ratio : int
            Slots of the record in one of the replay.
        """
        return

    def misfit(self, scenario: Scenario, resources: Sequence[str]) -> str:
        """Why it can't be played in a scenario; empty, as for most rules: it can.

        Parameters
        ----------
        scenario : Scenario
            What is played.
        resources : Sequence[str]
            (D,) names of the trace's resources.
        """
        return ""

    def placing_too(self, placing: Scheduler) -> Scheduler:
        """Who places what waits; by default `placing`, as a rule that moves has no part in that.

        Parameters
        ----------
        placing : Scheduler
            The rule that it is combined with.
        """
        return placing

    @abstractmethod
    def moves(self, cluster: Cluster) -> Iterable[Move]:
        """The moves of the current slot; each is carried out before the next one is asked for.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.

        Returns
        -------
        Iterable[Move]
            At most `cluster.moves_left`.
        """

    def target(self, cluster: Cluster, running: Running, i: int, barred: Sequence[int] = ()) -> int | None:
        """The machine to which the placing rule would put a running workload if that waited; None if none has room.

        Parameters
        ----------
        cluster : Cluster
            What it sees of the cluster.
        running : Running
            What runs in this slot.
        i : int
            Which of them, 0..n-1.
        barred : Sequence[int], optional
            Machines that the workload must not go to.

        Returns
        -------
        int or None
            The machine, 0..M-1.
        """
        seen, workload = cluster.as_waiting(running, i, barred)
        placement = next(iter(self.placing.schedule(seen, [workload])), None)
        if placement is None or not room_now(seen.load, running.usage[i], seen.capacity)[placement.machine]:
            return None
        return placement.machine


class Moving(Scheduler):
    """A scheduler that places by one rule and moves by another.

    Parameters
    ----------
    placing : Scheduler
        Places what waits.
    rule : MoveRule
        Moves what runs.

    Raises
    ------
    InputError
        If `placing` moves already.

    Examples
    --------
    >>> from tvwrl.schedulers import make_scheduler
    >>> make_scheduler("spread + evacuate(threshold=5000)").name
    'spread + evacuate(threshold=5000)'
    """

    def __init__(self, placing: Scheduler, rule: MoveRule) -> None:
        if placing.moves_what_runs:
            raise InputError(f"scheduler is '{placing.name}{PLUS}{rule.name}': {placing.name} moves already")
        self.placing, self.rule = rule.placing_too(placing), rule
        rule.placing = self.placing
        self.name = f"{placing.name}{PLUS}{rule.name}"
        self.knowledge = together(placing.knowledge, rule.knowledge)
        self.looks_at_grid = placing.looks_at_grid
        self.needs_forecasts = placing.needs_forecasts or rule.needs_forecasts

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare both rules for a new episode. Raises InputError in a scenario in which nothing may move."""
        if not cluster.scenario.moves_per_slot:
            raise InputError(
                f"scheduler is '{self.name}': nothing may move, as moves_per_slot is 0; set it to 1 or more"
            )
        self.placing.reset(cluster, rng)
        self.rule.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterable[Placement]:
        """See `Scheduler.schedule`."""
        return self.placing.schedule(cluster, pending)

    def moves(self, cluster: Cluster) -> Iterable[Move]:
        """See `Scheduler.moves`."""
        return self.rule.moves(cluster)

    def alternatives(self, cluster: Cluster, waiting: Sequence[Workload], choice: Placement, count: int) -> Int:
        """See `Scheduler.alternatives`."""
        return self.placing.alternatives(cluster, waiting, choice, count)

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        """See `Scheduler.opinion`."""
        return self.placing.opinion(cluster, workload)


class MoveRow(NamedTuple):
    """A move rule that has a name."""

    make: Callable[..., MoveRule]
    title: str
    made: type[MoveRule]  # the class


MOVE_RULES: dict[str, MoveRow] = {}  # by name, in the order in which they were registered
MoveRuleClass = TypeVar("MoveRuleClass", bound=type[MoveRule])


def move_rule(title: str, name: str = "", **settings: Any) -> Callable[[MoveRuleClass], MoveRuleClass]:
    """A decorator that registers a class as a move rule under its `name`, or made with `settings` under another.

    Raises ValueError for a name in use.
    """

    def of(made: MoveRuleClass) -> MoveRuleClass:
        called = name or made.name

        def make(file: str = "", **options: float) -> MoveRule:
            rule = made(**settings, **({"file": file} if file else {}), **options)
            rule.name = written(called, options=options) + (f"={file}" if file else "")
            return rule

        if called in MOVE_RULES:
            raise ValueError(f"there is a move rule '{called}' already")
        MOVE_RULES[called] = MoveRow(make, title, made)
        return made

    return of


def make_move_rule(name: str) -> MoveRule:
    """Make a move rule by its name, as in `evacuate(threshold=5000)` and `machine-value(threshold=1.5)=value.npz`.

    Parameters
    ----------
    name : str
        One of `MOVE_RULES`, perhaps with options, and with a file if it reads one.

    Raises
    ------
    InputError
        For another name, bad options, and a file that can't be used; it says which there are.

    Examples
    --------
    >>> make_move_rule("greedy(threshold=5e3)").name
    'greedy(threshold=5000)'
    """
    entry, file = map(str.strip, name_and_source(name))
    head, of, options = read_name(entry, "move rule")
    if head not in MOVE_RULES:
        raise InputError(f"move rule is '{name.strip()}': {hint(head, MOVE_RULES)}")
    row = MOVE_RULES[head]
    if not file and name.strip() != entry:
        raise InputError(f"move rule is '{name.strip()}': the file after = is missing")
    if file and not row.made.reads:
        raise InputError(f"move rule is '{name.strip()}': {head} reads no file; leave out ={file}")
    given: dict[str, float] = {}
    if of or options:
        if not row.made.options:
            raise InputError(f"move rule is '{name.strip()}': {head} has no options")
        given = numbers(name.strip(), (*filter(None, [of]), *options), dict.fromkeys(row.made.options, float))
    return row.make(**({"file": file} if file else {}), **given)


def head_of(rule: str) -> str:
    """The name of a move rule without its options and its file.

    >>> head_of("machine-value(most=2)=value.npz")
    'machine-value'
    """
    return name_and_source(rule)[0].partition("(")[0].strip()


def parted(name: str) -> tuple[str, str] | None:
    """The two rules of `PLACING + MOVES`, of which the second is perhaps none that there is; None for other names.

    >>> parted("rollout(spread+policy)=runs/a + greedy"), parted("spread+greedy"), parted("spread+pism=file")
    (('rollout(spread+policy)=runs/a', 'greedy'), ('spread', 'greedy'), None)
    """
    depth = 0
    for place in range(len(name) - 1, 0, -1):
        depth += (name[place] == ")") - (name[place] == "(")
        if name[place] == PLUS.strip() and depth == 0:
            placing, rule = name[:place], name[place + 1 :].strip()
            if placing.endswith(" ") or head_of(rule) in MOVE_RULES:
                return placing.strip(), rule
    return None


def plus(placing: str, rule: str) -> str:
    """The name of a scheduler with a move rule.

    >>> plus("spread", "greedy")
    'spread + greedy'
    """
    return f"{placing}{PLUS}{rule}"
