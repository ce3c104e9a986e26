"""Names and numbers as reports and pages show them."""

from __future__ import annotations

from tvwrl.explorer.recording import WAIT, Recording, only
from tvwrl.penalties import TERMS

TERM_WORDS = dict(zip(TERMS, ("contention", "under-utilisation", "overshoot", "waiting"), strict=True))
LONGEST_NAME = 100  # letters of a workload's name; traces may have any, a megabyte too


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
