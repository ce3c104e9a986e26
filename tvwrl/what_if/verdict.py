"""What the figures support: which rules may be recommended, which are open, and which cannot be told apart.

A rule is recommended only if its whole intervals say so: it saves, and it overshoots no more than as placed, whether
what ran at first is placed anew or stays. What is saved is money where the price of every machine is known, as fewer
machines may be dearer ones; machines where it is not. A value in an interval is no proof of anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from tvwrl.plotting import Point
from tvwrl.schedulers.knowledge import FORECASTS_AND_PEAKS, FUTURE, PEAKS
from tvwrl.what_if.compared import Compared, Outcome

NOTICEABLE = 0.05  # machines, or machine-hours a day
ABOUT = 1.1  # times the fewest machines count as about as few
FEWEST_DAYS = 2  # whole days with which a rule may be recommended: one says nothing about others
FREE = "most-allocated"  # a profile of kube-scheduler that packs, without new software
REFERENCES = (PEAKS.group, FUTURE.group, FORECASTS_AND_PEAKS.group)


class Answer(Enum):
    """What an interval says."""

    YES, OPEN, NO = "yes", "open", "no"


@dataclass(frozen=True, eq=False)
class Verdict:
    """The rules that a cluster could have, by what the figures support; in each, those that save most first."""

    recommended: Sequence[Outcome]  # one, and what cannot be told from it
    open: Sequence[Outcome]  # perhaps it saves, and perhaps overshoots no more
    risky: Sequence[Outcome]  # it saves, but surely overshoots more or leaves pods without a place
    fewest: Sequence[Outcome]  # about the fewest machines: the one that overshoots least, and what ties with it
    dearer: Sequence[Outcome]  # surely fewer machines, but surely for more money

    @property
    def first(self) -> Outcome | None:
        """The rule to look at; None if none needs fewer machines."""
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
    priced = compared.priced
    candidates.sort(key=lambda one: -compared.money(one).value if priced else one.mean("needed").value)
    saving = [one for one in candidates if saves(compared, one) is not Answer.NO]
    safe = [one for one in saving if not one.unplaced and overshoots_anyhow(compared, one) is not Answer.YES]
    sure = [one for one in safe if supported(compared, one)]
    recommended = [one for one in sure if one is sure[0] or saves_as_much(compared, one, sure[0])]
    recommended.sort(key=lambda one: one.name != FREE)  # of those that cannot be told apart, what needs no new software
    return Verdict(
        recommended,
        [one for one in safe if one not in sure],
        [one for one in saving if one not in safe],
        _fewest(compared, saving),
        [one for one in candidates if priced and compared.money(one).high < 0 and _fewer(compared, one) is Answer.YES],
    )


def supported(compared: Compared, outcome: Outcome) -> bool:
    """Whether the intervals hold nothing but savings and no more overshoot."""
    return (
        compared.days >= FEWEST_DAYS
        and not outcome.unplaced
        and saves(compared, outcome) is Answer.YES
        and overshoots_anyhow(compared, outcome) is Answer.NO
    )


def saves(compared: Compared, outcome: Outcome) -> Answer:
    """Whether it costs less than as placed, or needs fewer machines where prices are not known."""
    if not compared.priced:
        return _fewer(compared, outcome)
    money = compared.money(outcome)
    low, high = (money.value if np.isnan(end) else end for end in money[1:])
    kept = compared.kept.get(outcome.name)
    dearer_if_kept = kept is not None and compared.money(kept).value < 0
    return Answer.NO if high <= 0 else Answer.YES if low > 0 and not dearer_if_kept else Answer.OPEN


def saves_as_much(compared: Compared, one: Outcome, other: Outcome) -> bool:
    """Whether both may save the same, for all that is known: money, or machines where prices are not known."""
    if not compared.priced:
        return tied(compared, one, other)
    money = compared.cheaper(one, other)
    return not (money.low > 0 or money.high < 0)


def _fewer(compared: Compared, outcome: Outcome) -> Answer:
    """Whether it needs fewer machines than as placed."""
    return _above(compared.saved(outcome))


def overshoots_more(compared: Compared, outcome: Outcome) -> Answer:
    """Whether it has more machine-hours of overshoot than as placed, of CPU or memory."""
    answers = {_above(compared.change(outcome, f"{kind}_over")) for kind in ("cpu", "memory")}
    return next(answer for answer in Answer if answer in answers)


def overshoots_anyhow(compared: Compared, outcome: Outcome) -> Answer:
    """The worse of both: with all pods placed anew, and with those that ran at first where they were."""
    kept = compared.kept.get(outcome.name)
    answers = {overshoots_more(compared, one) for one in (outcome, kept) if one is not None}
    return next(answer for answer in Answer if answer in answers)


def tied(compared: Compared, one: Outcome, other: Outcome, *quantities: str) -> bool:
    """Whether the sum of some quantities (default: machines needed) may be the same of both, for all that is known."""
    difference = compared.difference(one, other, *(quantities or ("needed",)))
    return not (difference.low > NOTICEABLE or difference.high < -NOTICEABLE)


def _above(change: Point) -> Answer:
    """Whether a change is above what is noticeable; without an interval, its value alone can only say that it is."""
    if np.isnan(change.low):
        return Answer.YES if change.value > NOTICEABLE else Answer.NO
    return Answer.YES if change.low > NOTICEABLE else Answer.NO if change.high <= NOTICEABLE else Answer.OPEN


def _fewest(compared: Compared, saving: Sequence[Outcome]) -> list[Outcome]:
    """Of those that need about the fewest machines and leave fewest pods unplaced, the one that overshoots least, and
    those whose overshoot cannot be told from its."""
    unplaced = min((one.unplaced for one in saving), default=0)
    placing = [one for one in saving if one.unplaced == unplaced]
    limit = ABOUT * min((one.mean("needed").value for one in placing), default=0.0)
    about = [one for one in placing if one.mean("needed").value <= limit]
    about.sort(key=lambda one: one.mean("memory_over").value + one.mean("cpu_over").value)
    return [one for one in about if one is about[0] or tied(compared, one, about[0], "cpu_over", "memory_over")]
