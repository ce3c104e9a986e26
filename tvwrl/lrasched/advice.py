"""Which configuration to take, and which measurement would make that surer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.checks import positive, within
from tvwrl.lrasched.history import FEWEST, FOREIGN, not_worse
from tvwrl.lrasched.outlook import Outlook, PerformanceModel
from tvwrl.lrasched.profiles import Bool, Configuration
from tvwrl.lrasched.target import Target
from tvwrl.types import Float, InputError

CANDIDATES, OUTCOMES = 8, 7  # configurations that might be measured next, and values that each might show
LEVEL = 0.9  # of intervals
MOST_SURE = 0.995  # which takes 199 earlier applications, and no more than `MOST` are compared
NEAR_GOAL = 0.05  # share of the goal, within which a measurement that meets it may be chance
WORSE = 0.2  # share of pairs in which the better configuration did worse, above which that is said


@dataclass(frozen=True)
class Prices:
    """What a replica costs.

    Parameters
    ----------
    cpu, mem : float
        Price of a core, and of a GiB; for the same time.
    currency : str
        Of both.

    Raises
    ------
    InputError
        A price is not above 0.

    Examples
    --------
    >>> Prices(0.03, 0.004, "EUR").cpu
    0.03
    """

    cpu: float
    mem: float
    currency: str = ""

    def __post_init__(self) -> None:
        positive(cpu_price=self.cpu, mem_price=self.mem)


@dataclass(frozen=True)
class Asked:
    """What is asked for.

    Parameters
    ----------
    target : Target
        The goal.
    sure : float
        Probability with which it has to be met, 0.5 to 0.995.
    machine : tuple of float or None
        Cores and GiB of a machine, which replicas that share it may not exceed together; None: not known.
    prices : Prices or None
        None: a replica costs its share of the largest CPU plus its share of the largest memory.

    Raises
    ------
    InputError
        A value is out of range.

    Examples
    --------
    >>> Asked(Target.parse("p99 <= 20 ms"), sure=0.95).sure
    0.95
    """

    target: Target
    sure: float = 0.9
    machine: tuple[float, float] | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        within(0.5, MOST_SURE, sure=self.sure)
        if self.machine is not None:
            positive(machine_cpu=self.machine[0], machine_mem=self.machine[1])

    def costs(self, configurations: Sequence[Configuration]) -> Float:
        """(C,) of a replica.

        Parameters
        ----------
        configurations : sequence of Configuration
            C of them.
        """
        cpu, mem = (np.array([getattr(one, name) for one in configurations]) for name in ("cpu", "mem"))
        if self.prices is None:
            return np.asarray(cpu / cpu.max() + mem / mem.max())
        return np.asarray(cpu * self.prices.cpu + mem * self.prices.mem)

    def possible(self, configurations: Sequence[Configuration]) -> Bool:
        """(C,) whether as many replicas as may share a machine have room there.

        Parameters
        ----------
        configurations : sequence of Configuration
            C of them.

        Raises
        ------
        InputError
            None has.
        """
        if self.machine is None:
            return np.ones(len(configurations), np.bool_)
        cpu, mem = self.machine
        room = np.array([c.cpu * c.collocation <= cpu and c.mem * c.collocation <= mem for c in configurations])
        if not room.any():
            least = min(configurations, key=lambda c: (c.mem * c.collocation, c.cpu))
            raise InputError(
                f"machine is {cpu:g} cores, {mem:g} GiB: no configuration fits into it; {least.name} takes "
                f"{least.cpu:g} cores and {least.mem:g} GiB (mem is in GiB)"
            )
        return room


@dataclass(frozen=True)
class Next:
    """The measurement that promises most.

    Parameters
    ----------
    configuration : Configuration
        What to measure.
    chance : float
        Probability that some configuration is sure to meet the goal afterwards, 0 to 1.
    cost, degree : float
        Expected cost and replicas on a machine of the recommendation afterwards, where one is sure.

    Examples
    --------
    >>> Next(Configuration("4c-4g-x1", 4.0, 4.0), 0.7, 1.5, 1.0).chance
    0.7
    """

    configuration: Configuration
    chance: float
    cost: float
    degree: float


@dataclass(frozen=True)
class Advice:
    """A recommendation, and what it rests on.

    Parameters
    ----------
    application : str
        Whose it is.
    asked : Asked
        What was asked for.
    configurations : tuple of Configuration
        Those that were compared, C of them.
    measured : mapping of str to float
        Configuration -> performance.
    outlook : Outlook
        What to expect in each.
    probability : Float
        (C,) that the goal is met.
    cost : Float
        (C,) of a replica.
    possible : Bool
        (C,) whether so many replicas have room on a machine.
    chosen : int
        The recommended one.
    reached : bool
        Whether the goal is met there with the probability that was asked for.
    next_measurement : Next or None
        What to measure next; None: nothing would change the recommendation.
    notes : tuple of str
        What to know before one relies on it.

    Examples
    --------
    >>> print(recommend_size("history.csv", "new.csv", "p99 <= 20 ms"))  # doctest: +SKIP
    """

    application: str
    asked: Asked
    configurations: tuple[Configuration, ...]
    measured: Mapping[str, float]
    outlook: Outlook
    probability: Float
    cost: Float
    possible: Bool
    chosen: int
    reached: bool
    next_measurement: Next | None
    notes: tuple[str, ...]

    @property
    def configuration(self) -> Configuration:
        """The recommended one."""
        return self.configurations[self.chosen]

    def rows(self) -> list[dict[str, Any]]:
        """A row per configuration, the cheapest first."""
        low, high = self.outlook.interval(LEVEL)
        expected = self.outlook.expected
        return [
            {
                "configuration": c.name,
                "cpu": c.cpu,
                "mem": c.mem,
                "collocation": c.collocation,
                "cost": round(float(self.cost[i]), 6),
                "measured": self.measured.get(c.name, ""),
                "expected": float(f"{expected[i]:.6g}"),
                "low": float(f"{low[i]:.6g}"),
                "high": float(f"{high[i]:.6g}"),
                "probability": round(float(self.probability[i]), 4),
                "possible": bool(self.possible[i]),
                "chosen": i == self.chosen,
            }
            for i in order_of(self.cost, self.configurations)
            for c in (self.configurations[i],)
        ]


def order_of(cost: Float, configurations: Sequence[Configuration]) -> list[int]:
    """Configurations from the cheapest to the dearest, and from the smallest degree to the largest."""
    return sorted(range(len(cost)), key=lambda i: (cost[i], configurations[i].cpu, configurations[i].collocation))


def advise(model: PerformanceModel, application: str, measured: Mapping[str, float], asked: Asked) -> Advice:
    """Recommend the cheapest size that meets the goal with the probability asked for, at the largest degree that does.

    Parameters
    ----------
    model : PerformanceModel
        That learnt from earlier applications.
    application : str
        Name of the new one.
    measured : mapping of str to float
        Configuration -> performance of the new one; may be empty.
    asked : Asked
        Goal, certainty, machine and prices.

    Returns
    -------
    Advice
        The recommendation. Where no configuration is sure enough, the most probable one, or the one that is expected to
        perform best if none has any chance; of equals the cheapest, at the smallest degree.

    Raises
    ------
    InputError
        A configuration that the model does not know, or a value in another unit than the history's.

    Examples
    --------
    >>> found = advise(model, "checkout", {"2c-4g-x1": 31.0}, Asked(Target.parse("p99 <= 20 ms")))  # doctest: +SKIP
    >>> found.configuration.name, found.next_measurement.configuration.name  # doctest: +SKIP
    ('4c-4g-x1', '2c-8g-x1')
    """
    configurations = tuple(model.configurations)
    cost, possible = asked.costs(configurations), asked.possible(configurations)
    model.history.check(application, measured)
    if model.higher_is_better != asked.target.higher_is_better:
        way = "at least" if model.higher_is_better else "at most"
        raise InputError(f"goal is {asked.target}, but the history is of performance that is to be {way} a goal")
    notes = tuple(_notes(model, measured, asked))
    model = model.nearest(measured)
    outlook = model.outlook(measured, asked.sure)
    judge = _Judge(model, asked, cost, possible)
    probability = model.probability(outlook, measured, asked.target)
    chosen, reached = judge.choice(probability, outlook)
    found = judge.next_measurement(outlook, measured, probability, chosen, reached)
    if few := _few(outlook, asked):
        notes = few, *notes
    known, choice = dict(measured), (chosen, reached)
    return Advice(
        application, asked, configurations, known, outlook, probability, cost, possible, *choice, found, notes
    )


class _Judge:
    """Turns what to expect into a choice."""

    def __init__(self, model: PerformanceModel, asked: Asked, cost: Float, possible: Bool) -> None:
        self._model, self._asked, self._cost, self._possible = model, asked, cost, possible
        self._configurations = list(model.configurations)
        self._column = {one.name: i for i, one in enumerate(self._configurations)}
        self._degree = np.array([one.collocation for one in self._configurations])
        self._size = np.array([one.size for one in self._configurations])

    def choice(self, probability: Float, outlook: Outlook) -> tuple[int, bool]:
        """The recommended configuration, and whether it is sure enough.

        Where none has any chance, the one that is expected to perform best; of equals always the cheapest, with the
        fewest neighbours.
        """
        sure = self._possible & (probability >= self._asked.sure - 1e-12)
        if sure.any():
            cheapest = min(np.flatnonzero(sure), key=lambda i: (self._cost[i], self._size[i, 0], self._degree[i]))
            same = sure & (self._size == self._size[cheapest]).all(axis=1)
            return int(max(np.flatnonzero(same), key=lambda i: self._degree[i])), True
        if probability[self._possible].max() <= 0.0:
            probability = outlook.expected if self._asked.target.higher_is_better else -outlook.expected
        best = probability[self._possible].max()
        likely = np.flatnonzero(self._possible & (probability >= best - 1e-12))
        return int(min(likely, key=lambda i: (self._cost[i], self._degree[i]))), False

    def next_measurement(
        self, outlook: Outlook, measured: Mapping[str, float], probability: Float, chosen: int, reached: bool
    ) -> Next | None:
        """What to measure so that the expected cost of the recommendation falls most, or at the same cost so that more
        replicas may share a machine; where none is sure to meet the goal, so that one becomes sure. None: no
        measurement is expected to do either."""
        doubt = np.where(self._possible, probability * (1.0 - probability), 0.0)
        if reached:
            doubt = np.where(self._cost > self._cost[chosen], 0.0, doubt)
        for name in measured:
            doubt[self._column[name]] = 0.0
        open_ = np.argsort(-doubt, kind="stable")[:CANDIDATES]
        largest, levels = float(self._cost.max()), (np.arange(OUTCOMES) + 0.5) / OUTCOMES
        now = (self._cost[chosen], -float(self._degree[chosen])) if reached else (2.0 * largest, 0.0)
        best: tuple[tuple[float, float], Next] | None = None
        for column in open_[doubt[open_] > 0.0]:
            name = self._configurations[column].name
            costs, degrees = list[float](), list[float]()
            for value in np.quantile(outlook.curves[:, column], levels):
                more = dict(measured) | {name: float(value)}
                seen = self._model.outlook(more, self._asked.sure, outlook.how)
                then, sure = self.choice(self._model.probability(seen, more, self._asked.target), seen)
                costs.append(float(self._cost[then]) if sure else 2.0 * largest)
                degrees.append(float(self._degree[then]) if sure else 0.0)
            met = [i for i, cost in enumerate(costs) if cost <= largest]
            # to 9 digits, so that degrees decide between equal costs
            expected = round(float(np.mean(costs)) / largest, 9) * largest, -float(np.mean(degrees))
            if best is None or expected < best[0]:
                cost, degree = (float(np.mean([of[i] for i in met])) if met else 0.0 for of in (costs, degrees))
                best = expected, Next(self._configurations[column], len(met) / len(costs), cost, degree)
        if best is None or best[0][0] > now[0] + 1e-9 * largest:
            return None
        gains = best[0][0] < now[0] - 1e-9 * largest or best[0][1] < now[1] - 1e-9
        return best[1] if gains else None


def _few(outlook: Outlook, asked: Asked) -> str:
    """That the history is too small for the probability asked for; empty: it is not."""
    count = len(outlook.curves)
    if count / (count + 1) >= asked.sure:
        return ""
    needed = int(np.ceil(asked.sure / (1.0 - asked.sure) - 1e-9))
    most = np.floor(1000.0 * count / (count + 1)) / 1000.0
    return (
        f"{count} earlier applications can show a probability of {most:g} at most, beside what was measured itself; "
        f"{asked.sure:g} takes {needed}."
    )


def _notes(model: PerformanceModel, measured: Mapping[str, float], asked: Asked) -> list[str]:
    """What to know of the history before one relies on it."""
    notes, target = list[str](), asked.target
    for name, value in measured.items():
        low, high = model.history.seen(name)
        if not low <= value <= high:
            notes.append(
                f"In {name}, {target.said(value)} was measured, but {low:.4g} to {high:.4g} of earlier applications: "
                "it is unlike all of them, so doubts may be larger than given here."
            )
        if target.met(np.array(value)) and abs(value - target.limit) < NEAR_GOAL * abs(target.limit):
            notes.append(
                f"In {name}, {target.said(value)} was measured, which counts as it is, although it is within "
                f"{NEAR_GOAL:.0%} of the goal: measure it again if measurements scatter more; their mean counts."
            )
    worst, best = model.history.worst_and_best()
    if not target.met(np.array(best)):
        far = not target.limit / FOREIGN <= best <= target.limit * FOREIGN
        notes.append(
            f"No earlier application reached this goal in any configuration; the best had {target.said(best)}"
            + ("." if not far else ": is the goal in the unit of the measurements?")
        )
    if target.met(np.array(worst)) and all(target.met(np.array(value)) for value in measured.values()):
        notes.append(
            f"Every earlier application reached this goal in every configuration; the worst had {target.said(worst)}: "
            "is the goal in the unit of the measurements, and are <= and >= the right way round?"
        )
    met = [name for name, value in measured.items() if target.met(np.array(value))]
    if model.monotone and (pair := _contradiction(model, met, [name for name in measured if name not in met])):
        notes.append(
            f"{pair[0]} met the goal, but {pair[1]}, which is no smaller and no fuller, missed it: measure both again, "
            "or do without the assumption that more is not worse (--no-monotone)."
        )
    if names := model.history.of_another_unit():
        notes.append(
            f"{', '.join(names[:5])}{' and others' if len(names) > 5 else ''}: more than 100 times above or below the "
            "others in the same configurations: are they in another unit?"
        )
    if below := model.history.not_positive():
        notes.append(f"{below} measurements of the history are not above 0, unlike all others: are they right?")
    if alike := model.history.repeated():
        notes.append(
            f"{alike} earlier applications were measured exactly as another one: if they are the same under another "
            "name, doubts are larger than given here."
        )
    if few := model.history.rarely_measured():
        notes.append(
            f"Fewer than {FEWEST} earlier applications were measured in {', '.join(few)}: what is said of these rests "
            "on few."
        )
    if model.monotone and (share := model.history.against_order()) > WORSE:
        notes.append(
            f"Where one configuration is at least as large as another and no fuller, it did worse in {share:.0%} of "
            "the history: if that is no noise, do without this assumption (--no-monotone)."
        )
    if asked.machine is None and max(one.collocation for one in model.configurations) > 1:
        notes.append("The size of machines is not known, so it was not checked that as many replicas have room on one.")
    return notes


def _contradiction(model: PerformanceModel, met: Sequence[str], missed: Sequence[str]) -> tuple[str, str] | None:
    """A configuration that met the goal, and one that is at least as good and missed it."""
    names, better = [one.name for one in model.configurations], not_worse(model.configurations)
    for good in met:
        for bad in missed:
            if better[names.index(bad), names.index(good)]:
                return good, bad
    return None
