"""What a planner is, and how planners are registered and found by their names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tvwrl.checks import hint
from tvwrl.names import Form, Part
from tvwrl.types import InputError

if TYPE_CHECKING:
    from tvwrl.planning.packing_problem import PackingProblem
    from tvwrl.planning.plan import Plan
    from tvwrl.planning.problem import PlanningProblem

Progress = Callable[..., None]  # share done, 0 to 1, and of a search the machines of the best plan

PARTS, LEAST = 64, 500  # parts in which a pass is done, to look at the clock in between, and how long they are at least


@dataclass(frozen=True)
class Watch:
    """Reports progress, and stops a planner at its deadline."""

    progress: Progress | None = None
    deadline: float | None = None  # as time.monotonic() tells it

    def parts(self, count: int) -> Iterator[slice]:
        """Slices of `count` things to do. Raises TimeoutError between two of them after the deadline."""
        step = max(LEAST, -(-count // PARTS))
        for begin in range(0, count, step):
            self.check(begin / count)
            yield slice(begin, min(begin + step, count))

    def check(self, share: float) -> None:
        """Report, and raise TimeoutError if the deadline has passed."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeoutError("no plan was found by the deadline")
        self.report(share)

    def report(self, share: float) -> None:
        """Say how much is done, 0 to 1."""
        if self.progress is not None:
            self.progress(share)

    def within(self, begin: float, end: float) -> Watch:
        """For a part of the task, from share `begin` to `end`."""
        return Watch(lambda share: self.report(begin + share * (end - begin)), self.deadline)


class Rule(Protocol):
    """Places all replicas, or, if the fleet is fixed, as many as it can."""

    def pack(self, problem: PackingProblem, watch: Watch) -> Any:
        """A `packing.affinity.Packing`. Raises TimeoutError if there is none by the deadline."""


class Options(NamedTuple):
    """What `make_plan` was asked for, for planners that see the whole problem."""

    seed: int = 0
    seconds: float = 30.0
    moves_cost: float = 0.0
    most_moves: int | None = None
    searches: int = 1
    medea_seconds: float = 2.0
    progress: Progress | None = None


Planner = Callable[["PlanningProblem", Options], "Plan"]


@dataclass(frozen=True)
class Abilities:
    """What a planner can do. All plan demand over time, machines of several kinds, and any affinity limits.

    Parameters
    ----------
    open_fleet : bool
        It can open as many machines as it takes; others need a fixed number of them.
    keeps_constraints : bool
        Affinity limits, groups and blacklists hold in its plans; others may break them.
    moves_running : bool
        It starts from what runs; others place all replicas anew.
    unlimited : bool
        It goes on until its time is over.

    Examples
    --------
    >>> abilities("Tetris.1").keeps_constraints
    False
    """

    open_fleet: bool
    keeps_constraints: bool
    moves_running: bool
    unlimited: bool


RULE = Abilities(True, True, False, False)
FLOW = Abilities(False, True, False, False)
BASELINE = Abilities(False, False, False, False)

# Families: how planners place, as lists and pictures show it
BY_APPLICATION, BY_MACHINE, TWO_PHASES = "application by application", "machine by machine", "in two phases"
SPREAD, MATCHED = "all machines, replicas spread", "all machines, pairs matched"
BUDGET, BY_FLOW = "within a time budget", "by flow through groups of machines"
UNCONSTRAINED, PROGRAMMES = "without regard to constraints", "programmes for batches"

PROVISIONING, LRASCHED, ALADDIN = (
    "provisioning paper",
    "LRASched paper",
    "Aladdin+H paper",
)  # docs/explanation/fidelity.md
MEDEA = "Garefalakis et al. 2018"


class Registered(NamedTuple):
    """Planners whose names are of one form."""

    form: Form
    title: str  # what people call them, with words for the {parts} of the form
    family: str
    abilities: Abilities
    source: str
    make: Callable[..., Any]  # takes the parts that a name has by their names; returns a `Rule` or a `Planner`


REGISTERED: list[Registered] = []
MILP = "MILP"  # the integer programme, which has no name among planners, as it goes on from a plan of theirs
SEARCH = "best"
IMPROVED = f"+{SEARCH}"  # at the end of a name: the search goes on from that planner's plan


def register(
    form: str,
    title: str,
    family: str,
    abilities: Abilities,
    source: str,
    make: Callable[..., Any],
    **parts: Part,
) -> None:
    """Let planners be found by names of a form, see `tvwrl.names.Form`. What `make` leaves out has its defaults."""
    REGISTERED.append(Registered(Form(form, parts), title, family, abilities, source, make))


def listed_names() -> tuple[str, ...]:
    """All planners that are listed, in the order in which they were registered."""
    return tuple(name for one in REGISTERED for name in one.form.names)


def find(name: str) -> tuple[Registered, dict[str, str]]:
    """What the planner `name` is registered as, and the text of each part of it. Raises InputError if there is none."""
    for one in REGISTERED:
        if (texts := one.form.read(name)) is not None:
            return one, texts
    meant = hint(name, listed_names(), listed_by="tvwrl place --list-planners lists all")
    raise InputError(f"there is no planner '{name}': {meant}")


def make_planner(name: str) -> Any:
    """The `Rule` or `Planner` of a name. Raises InputError if there is none, or for numbers that are out of range."""
    one, texts = find(name)
    return one.make(**one.form.values(texts))


def abilities(name: str) -> Abilities:
    """What a planner can do.

    Parameters
    ----------
    name : str
        One of `PLANNERS`, or a name of the same form with other numbers.

    Returns
    -------
    Abilities
        What it can do.

    Raises
    ------
    InputError
        There is no such planner, or a number in its name is out of range.

    Examples
    --------
    >>> from tvwrl.planning import abilities
    >>> abilities("Aladdin+H.4(LRF)").open_fleet
    False
    """
    if not name.endswith(IMPROVED):
        make_planner(name)  # numbers may be out of range
        return find(name)[0].abilities
    start = abilities(name.removesuffix(IMPROVED))
    if not start.keeps_constraints or start.unlimited:
        raise InputError(f"planner '{name}': {SEARCH} can only go on from a plan that breaks no constraint")
    return Abilities(start.open_fleet, True, False, True)


def title_of_planner(name: str) -> str:
    """What people call an algorithm; its name where that says it all, as of rare variants.

    >>> title_of_planner("SpreadWFD-AvgExp-Decr2"), title_of_planner("Tetris.1")
    ('Spread, exp. average, 2 % steps', 'Tetris, 1 rescheduling')
    >>> title_of_planner("Aladdin+H.4(LRF)-none")
    'Aladdin+H, 4 groups, large first, nothing moves'
    """
    if name == MILP:
        return "Integer programme"
    if name.endswith(IMPROVED):
        return f"{title_of_planner(name.removesuffix(IMPROVED))}, then search"
    try:
        one, texts = find(name)
    except InputError:  # of a plan that was read from a file
        return name
    return one.form.say(one.title, texts) or name


def family_of(name: str) -> str:
    """How an algorithm places, as lists and pictures show it. Raises InputError if there is none of that name."""
    return BUDGET if name == MILP else find(name.removesuffix(IMPROVED))[0].family
