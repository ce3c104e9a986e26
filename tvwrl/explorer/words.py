"""What a decision was and what it cost, in plain English: the same sentence in every picture, trace and page."""

from __future__ import annotations

import numpy as np

from tvwrl.explorer.derived import ROUNDING, only
from tvwrl.explorer.recording import NONE, WAIT, Recording
from tvwrl.penalties import TERMS

TERM_WORDS = dict(zip(TERMS, ("contention", "under-utilisation", "overshoot", "waiting"), strict=True))
LONGEST_NAME = 100  # letters of a workload's name; traces may have any, a megabyte too
WORTH_A_WORD = 0.001  # share of a decision's regret, below which a term is not named


def number_in_words(value: float) -> str:
    """Three digits or, from 100 on, all before the decimal point, with commas between thousands.

    >>> number_in_words(31204.4), number_in_words(2.3456)
    ('31,204', '2.35')
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def shortened(text: object, letters: int = LONGEST_NAME) -> str:
    """A name in one line of at most `letters` letters; what cannot be printed becomes a space.

    >>> shortened("web" + chr(10) + "server", 6)
    'web s…'
    """
    line = "".join(letter if letter.isprintable() else " " for letter in str(text)[: letters + 1])
    return line if len(line) <= letters else line[: letters - 1] + "…"


def alternative_in_words(machine: int) -> str:
    """What an alternative is called.

    >>> alternative_in_words(3), alternative_in_words(WAIT)
    ('machine 3', 'waiting one slot')
    """
    return "waiting one slot" if machine == WAIT else f"machine {machine}"


def workload_in_words(recording: Recording, k: int, letters: int = LONGEST_NAME) -> str:
    """The name of the workload that decision `k` is about."""
    return shortened(recording.episode.workload_id[recording.workload[k]], letters) or "a workload without a name"


def savings(recording: Recording, k: int) -> dict[str, float]:
    """By term of `penalties.TERMS`: what the cheapest alternative of decision `k` costs less (below 0: more), largest
    first; NaN where alternatives were not simulated."""
    decision = only(recording, k)
    costs, own, best = decision.costs[0], int(decision.own[0]), int(decision.best[0])
    parts = dict(zip(TERMS, (costs[own] - costs[best]).tolist(), strict=True))
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def decision_in_words(recording: Recording, k: int, letters: int = LONGEST_NAME) -> str:
    """One sentence on decision `k`: what was done, and what the cheapest alternative would have saved, by term.

    `letters`: longest name of a workload. As in "Slot 41: w17 went to machine 3; machine 7 would have cost 31,204 less
    (30,000 less for overshoot, 1,204 less for under-utilisation)".
    """
    chosen, workload = int(recording.chosen[k]), workload_in_words(recording, k, letters)
    did = f"{workload} was left waiting" if chosen == WAIT else f"{workload} went to machine {chosen}"
    return f"Slot {int(recording.slot[k]):,}: {did}; {_alternative(only(recording, k))}"


def _alternative(decision: Recording) -> str:
    """How the cheapest alternative compares with what was done; of a recording of one decision."""
    if np.count_nonzero(decision.machines[0] != NONE) < 2:
        return "there was no alternative"
    regret = float(decision.regret[0])
    if np.isnan(regret):
        return "its alternatives were not simulated"
    own, best = int(decision.own[0]), int(decision.best[0])
    if regret <= ROUNDING * max(1.0, float(decision.totals[0, own])):
        return "no simulated alternative would have cost less"
    parts = [
        f"{number_in_words(abs(value))} {'less' if value > 0 else 'more'} for {TERM_WORDS[term]}"
        for term, value in savings(decision, 0).items()
        if abs(value) >= WORTH_A_WORD * regret
    ]
    instead = alternative_in_words(int(decision.machines[0, best]))
    return f"{instead} would have cost {number_in_words(regret)} less ({', '.join(parts)})"
