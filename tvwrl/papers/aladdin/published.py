"""Numbers that the paper's text gives for Figures 10 and 11, at 12,000 machines (Sections 4.2 and 4.3)."""

from __future__ import annotations

from math import inf, nan
from typing import NamedTuple

MACHINES = 12_000
GROUPS = tuple(f"Aladdin+H.{groups}" for groups in (2, 4, 8))
MEDEA = tuple(f"Medea({weights})" for weights in ("1,1,1", "1,0.5,0.5", "0.5,0.5,0.5"))


class Reported(NamedTuple):
    """Words of the text, and the range that they give: alike, an end infinite where it is a limit, NaN if none."""

    text: str
    low: float = nan
    high: float = nan


def _about(text: str, value: float) -> Reported:
    return Reported(text, value, value)


REPORTED: dict[str, dict[str, Reported]] = {  # column of the rows -> planner -> what the text says of it
    "violations": {
        **dict.fromkeys(GROUPS, _about("0", 0)),
        "Tetris.1": _about("almost 10,000", 10_000),
        "Tetris.4": _about("331", 331),
        "Graphene.1": Reported("more than 8,000", 8_000, inf),
    },
    "cpu_pct": {
        **dict.fromkeys(GROUPS, Reported("up to 42 %", -inf, 42)),
        **dict.fromkeys(("Tetris.1", "Graphene.1"), _about("about 32 %", 32)),
    },
    "mem_pct": dict.fromkeys(GROUPS, Reported("more than 65 %", 65, inf)),
    "seconds": {
        **dict.fromkeys(("Aladdin+H.4", "Aladdin+H.4(SRF)"), _about("nearly 4 min", 240)),
        "Aladdin+H.2(SRF)": Reported("more than 15 min", 900, inf),
    },
    "migrations": {
        "Aladdin+H.2(SRF)": Reported("more than 2,000", 2_000, inf),
        "Aladdin+H.8(SRF)": Reported("fewest"),
    },
    "latency_ms": {
        **dict.fromkeys(GROUPS, Reported("below 1 s", -inf, 1_000)),
        **dict.fromkeys(MEDEA, Reported("above 1 s from 5,000 machines", 1_000, inf)),
    },
}


def reported(column: str, planner: str) -> Reported | None:
    """What the text says of a planner, or of it whatever the order of arrival."""
    known = REPORTED.get(column, {})
    return known.get(planner) or known.get(planner.removesuffix("(LRF)").removesuffix("(SRF)"))
