"""What the figures support: which rules may be recommended, which are open, and which cannot be told apart.

A rule is recommended only if its whole intervals say so: it saves, and neither overshoots more nor costs more than as
placed, whether what ran at first is placed anew or stays. Where all nodes have prices, to save is to save money, as
fewer machines can be dearer ones; elsewhere it is to need fewer machines. A value in an interval is no proof of more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from tvwrl.plotting import Point
from tvwrl.schedulers import FORECASTS_AND_PEAKS, FUTURE, PEAKS
from tvwrl.what_if.compared import Compared, Outcome

NOTICEABLE = 0.05  # machines, or machine-hours a day
ABOUT = 1.1  # times the fewest machines, or the lowest cost, count as about as few, or as low
FEWEST_DAYS = 2  # whole days with which a rule may be recommended: one says nothing about others
ALONE = ("most-allocated", "kube-default")  # what kube-scheduler can do without new software
REFERENCES = (PEAKS.group, FUTURE.group, FORECASTS_AND_PEAKS.group)


class Answer(Enum):
    """What an interval says."""

    YES, OPEN, NO = "yes", "open", "no"


@dataclass(frozen=True, eq=False)
class Verdict:
    """The rules that a cluster could have, by what the figures support; in each, those that save most first."""

    recommended: Sequence[Outcome]  # one, and what cannot be told from it
    open: Sequence[Outcome]  # perhaps a saving, and perhaps no more overshoot or cost
    risky: Sequence[Outcome]  # a saving, or perhaps one, but surely more overshoot or pods without a place
    dearer: Sequence[Outcome]  # surely a higher cost, if all pods are placed anew or if what ran at first stays
    fewest: Sequence[Outcome]  # of those that save about the most, the one that overshoots least, and what ties with
    # it; those recommended, if it is one of them

    @property
    def first(self) -> Outcome | None:
        """The rule to look at; None if none saves."""
        return next(iter((*self.recommended, *self.fewest)), None)

    def as_dict(self) -> dict[str, Any]:
        """Names."""
        return {name: [one.name for one in getattr(self, name)] for name in self.__dataclass_fields__}


def is_reference(outcome: Outcome) -> bool:
    """Whether it knows what no scheduler of a real cluster can know."""
    knowledge = outcome.placed.knowledge
    return knowledge is not None and knowledge.group in REFERENCES


def verdict_of(compared: Compared) -> Verdict:
    """What the figures support."""
    candidates = [one for one in compared.others if not is_reference(one) and one.placed.knowledge is not None]
    candidates.sort(key=lambda one: _level(compared, one))
    saving = [one for one in candidates if saves(compared, one) is not Answer.NO]
    risky = [one for one in saving if one.unplaced or overshoots_anyhow(compared, one) is Answer.YES]
    dearer = [one for one in candidates if costs_anyhow(compared, one) is Answer.YES]
    safe = [one for one in saving if one not in risky and one not in dearer]
    sure = [one for one in safe if supported(compared, one)]
    recommended, fewest = _tied_with_first(compared, sure), _fewest(compared, saving)
    # One list under both names, or the page and what-if.json would name different rules that "tie".
    fewest = recommended if fewest and fewest[0] in recommended else fewest
    return Verdict(recommended, [one for one in safe if one not in sure], risky, dearer, fewest)


def _tied_with_first(compared: Compared, sure: Sequence[Outcome]) -> list[Outcome]:
    """One of the rules that save most, and what cannot be told from it; one that needs no new software, if there is."""
    tying = [one for one in sure if one is sure[0] or tied(compared, one, sure[0])]
    first = next((one for name in ALONE for one in tying if one.name == name), next(iter(tying), None))
    if first is None:
        return []
    return [first, *(one for one in sure if one is not first and tied(compared, one, first))]


def supported(compared: Compared, outcome: Outcome) -> bool:
    """Whether the intervals hold nothing but a saving, and neither more overshoot nor a higher cost."""
    return (
        compared.days >= FEWEST_DAYS
        and not outcome.unplaced
        and saves(compared, outcome) is Answer.YES
        and overshoots_anyhow(compared, outcome) is Answer.NO
        and costs_anyhow(compared, outcome) is Answer.NO
    )


def saves(compared: Compared, outcome: Outcome) -> Answer:
    """Whether it saves money where prices are known, or else needs fewer machines than as placed."""
    if compared.by_money:
        return _above(compared.money(outcome), compared.worth(NOTICEABLE))
    return _above(compared.saved(outcome))


def costs(compared: Compared, outcome: Outcome) -> Answer:
    """Whether it is dearer than as placed, as far as prices are known."""
    if not compared.by_money:
        return Answer.NO
    value, low, high = compared.money(outcome)
    return _above(Point(-value, -high, -low), compared.worth(NOTICEABLE))


def costs_anyhow(compared: Compared, outcome: Outcome) -> Answer:
    """The worse of both: with all pods placed anew, and with those that ran at first where they were."""
    return _worst(costs, compared, outcome)


def overshoots_more(compared: Compared, outcome: Outcome) -> Answer:
    """Whether it has more machine-hours of overshoot than as placed, of CPU or memory."""
    answers = {_above(compared.change(outcome, f"{kind}_over")) for kind in ("cpu", "memory")}
    return next(answer for answer in Answer if answer in answers)


def overshoots_anyhow(compared: Compared, outcome: Outcome) -> Answer:
    """The worse of both: with all pods placed anew, and with those that ran at first where they were."""
    return _worst(overshoots_more, compared, outcome)


def _worst(question: Callable[[Compared, Outcome], Answer], compared: Compared, outcome: Outcome) -> Answer:
    kept = compared.kept.get(outcome.name)
    answers = {question(compared, one) for one in (outcome, kept) if one is not None}
    return next(answer for answer in Answer if answer in answers)


def tied(compared: Compared, one: Outcome, other: Outcome, *quantities: str) -> bool:
    """Whether the sum of some quantities may be the same of both, for all that is known.

    `quantities`: default: money where prices are known, or else machines needed
    """
    difference, limit = compared.difference(one, other, *(quantities or ("needed",))), NOTICEABLE
    if compared.by_money and not quantities:
        difference, limit = compared.money(one, other), compared.worth(NOTICEABLE)
    return not (difference.low > limit or difference.high < -limit)


def _above(change: Point, limit: float = NOTICEABLE) -> Answer:
    """Whether a change is above what is noticeable; without an interval, its value alone can only say that it is."""
    if np.isnan(change.low):
        return Answer.YES if change.value > limit else Answer.NO
    return Answer.YES if change.low > limit else Answer.NO if change.high <= limit else Answer.OPEN


def _level(compared: Compared, outcome: Outcome) -> float:
    """Its cost where prices are known, or else the machines that it needs."""
    return compared.cost(outcome) if compared.by_money else outcome.mean("needed").value


def _fewest(compared: Compared, saving: Sequence[Outcome]) -> list[Outcome]:
    """Of those that save about the most and leave fewest pods unplaced, the one that overshoots least, and those whose
    overshoot cannot be told from its."""
    unplaced = min((one.unplaced for one in saving), default=0)
    placing = [one for one in saving if one.unplaced == unplaced]
    limit = ABOUT * min((_level(compared, one) for one in placing), default=0.0)
    about = [one for one in placing if _level(compared, one) <= limit]
    about.sort(key=lambda one: one.mean("memory_over").value + one.mean("cpu_over").value)
    return [one for one in about if one is about[0] or tied(compared, one, about[0], "cpu_over", "memory_over")]
