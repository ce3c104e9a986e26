"""What the provisioning paper reports: its studies and figures, and the numbers and rankings in its text.

Paper: "Affinity-Aware Resource Provisioning for Long-Running Applications in Shared Clusters" (Mommessin, Yang,
Shakhlevich et al.). Its Figures 3 to 7 are plots without numbers; the text gives some of them.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tvwrl.papers import PROVISIONING
from tvwrl.planning import SIZES
from tvwrl.types import InputError

GRAPHS = ("arbitrary", "normal", "threshold")
INSTANCES = 10  # of each graph and value, Table 5
MACHINE = (64.0, 128.0)  # cores, GiB (5.1)
SPREAD, STEPS = "SpreadWFD-Avg-BinSearch", "SpreadWFD-Avg-Decr2"


@dataclass(frozen=True)
class Study:
    """Instances of Table 5 in which one thing is varied."""

    title: str
    series: bool  # demand at 98 times, or its maxima
    varied: str  # "density" (%) of the original applications, or "applications" at a density of 0.5 %
    values: tuple[int, ...]

    def describe(self, value: int) -> str:
        """A value of what is varied, with its unit."""
        return f"{value} %" if self.varied == "density" else f"{value:,} applications"


DENSITY, FEW = 0.5, (10_000, 50_000, 100_000)  # %, of the studies that vary the applications
STUDIES = {  # by their names in the published summary
    "density2D": Study("fixed demand, 9,338 applications", False, "density", (1, 5, 10)),
    "large2D": Study("fixed demand, density 0.5 %", False, "applications", FEW),
    "densityTS": Study("demand at 98 times, 9,338 applications", True, "density", (1, 5, 10)),
    "largeTS": Study("demand at 98 times, density 0.5 %", True, "applications", FEW),
}

PACKING = tuple(f"{rule}-{size}" for rule in ("FFD", "BFD", "WFD") for size in SIZES)
SUMS = tuple(name for name in PACKING if name.endswith("ExtendedSum"))
NODES = ("LRASched-Fitness", "NCD-DotProduct", "NCD-L2Norm", "NCD-TightFill")
PLAIN = ("FF", "Medea-TP", *(n for n in PACKING if n not in SUMS and n != "WFD-AvgExp"))
SPREADING = (
    *(f"SpreadWFD-{size}-BinSearch" for size in ("Avg", "Max", "AvgExp", "Surrogate")),
    *(f"SpreadWFD-Avg-Decr{step}" for step in (2, 3, 5)),
)
EVERY = ("FF", "Medea-TP", "Medea-NC", *PACKING, *NODES, *SPREADING)
SHOWN = ("FF", "BFD-Avg", "WFD-AvgExp", "Medea-TP", *NODES[:2], STEPS, SPREAD)  # in the legends of Figures 4 and 5
SERIES = tuple(name for name in SHOWN if name not in NODES)


@dataclass(frozen=True)
class Claim:
    """A ranking in the text: each of `lower` is nearer to the bound than each of `higher`; or, where `higher` is empty,
    all of `lower` lie within `within` percentage points."""

    text: str
    lower: tuple[str, ...]
    higher: tuple[str, ...] = ()
    within: float = 0.0

    def holds(self, deviation: Mapping[str, float]) -> bool | None:
        """Whether deviations from the bound, %, agree; None if too few of the algorithms have one."""
        low, high = ([deviation[name] for name in names if name in deviation] for names in (self.lower, self.higher))
        if not self.higher:
            return max(low) - min(low) <= self.within if len(low) > 1 else None
        return max(low) < min(high) if low and high else None


@dataclass(frozen=True)
class Figure:
    """One figure of the paper."""

    title: str
    study: str
    algorithms: tuple[str, ...]
    known: tuple[str, ...] = ()  # instances on which the released code was measured
    small: tuple[str, ...] = ()  # the same for presets smaller than the paper's
    deviation: dict[str, str] = field(default_factory=dict)  # algorithm -> deviation from the bound, %, in the text
    seconds: dict[str, str] = field(default_factory=dict)  # algorithm -> seconds, in the text
    claims: tuple[Claim, ...] = ()


_OTHERS = tuple(name for name in EVERY if name not in SPREADING)
_BEST = (
    Claim("SpreadWFD-Avg beats all that do not spread (5.3, 6)", (SPREAD, STEPS), _OTHERS),
    Claim("binary search is better than steps of 2 % (5.3, 6)", (SPREAD,), (STEPS,)),
)
_WFD = Claim(
    "WFD-AvgExp outperforms the other application-centric algorithms (5.3, 6)",
    ("WFD-AvgExp",),
    (*PLAIN, *SUMS, "Medea-NC"),
)
_RANKS = (
    *(*_BEST, _WFD),
    Claim("WFD-AvgExp outperforms the node-centric algorithms (5.3, 6)", ("WFD-AvgExp",), NODES),
    Claim("node-centric ones come next, before the other application-centric ones (5.3)", NODES, (*PLAIN, *SUMS)),
)
_SECOND_LAST = tuple(name for name in EVERY if name not in (*SUMS, "Medea-NC"))
_LAST = Claim("Medea-NC is outperformed by all but ExtendedSum (5.3)", _SECOND_LAST, ("Medea-NC",))
_ALIKE = (
    Claim("application-centric algorithms perform similarly, whatever the size (5.3)", PLAIN, within=0.5),
    Claim("ExtendedSum is consistently the worst (5.3)", tuple(name for name in EVERY if name not in SUMS), SUMS),
)

_DENSITIES = {
    **dict.fromkeys(PLAIN, "about 12.1"),
    **dict.fromkeys(SUMS, "15.6"),
    **dict.fromkeys(NODES, "11.5"),
    "WFD-AvgExp": "10.7",
    "Medea-TP": "12.2",
    "Medea-NC": "12.6",
    SPREAD: "4.5",
    STEPS: "5.4",
}
_DENSITIES_SECONDS = {
    **dict.fromkeys(("FF", "Medea-TP", *(n for n in PACKING if n[0] in "FB")), "< 5, 18, 33"),
    **dict.fromkeys((n for n in PACKING if n[0] == "W"), "26, 41, 61"),
    "NCD-DotProduct": "16, 34, 62",
    SPREAD: "225, 653, 1,214",
    "Medea-NC": "512, 3,200, 8,005",
}
_FAST = ("FF", "BFD-Avg", "Medea-TP")

FIGURES = {
    "fig3": Figure(
        PROVISIONING.titles["fig3"],
        study="density2D",
        algorithms=EVERY,
        known=("TClab_2D", "arbitrary_d1_0"),
        small=("small_500_threshold_d10_s103", "small_1000_arbitrary_d1_s104", "small_2000_normal_d5_s106"),
        deviation=_DENSITIES,
        seconds=_DENSITIES_SECONDS,
        claims=(*_ALIKE, *_RANKS, _LAST),
    ),
    "fig4": Figure(
        PROVISIONING.titles["fig4"],
        study="density2D",
        algorithms=(*SHOWN, "Medea-NC"),
        deviation=_DENSITIES,
        seconds=_DENSITIES_SECONDS,
        claims=(*_RANKS, _LAST),
    ),
    "fig5": Figure(
        PROVISIONING.titles["fig5"],
        study="large2D",
        algorithms=SHOWN,
        deviation={
            **dict.fromkeys(_FAST, "2.5 at 100,000"),
            **dict.fromkeys(NODES, "2.4 at 100,000"),
            "WFD-AvgExp": "2 at 100,000",
            STEPS: "1.8",
            SPREAD: "0.9; 0.3 at 100,000",
        },
        seconds={
            **dict.fromkeys(_FAST, "< 480 at 100,000"),
            "LRASched-Fitness": "2,100 at 100,000",
            "NCD-DotProduct": "2,700 at 100,000",
            "WFD-AvgExp": "4,680 at 100,000",
            STEPS: "7,200 at 100,000",
            SPREAD: "25,200 at 100,000",
        },
        claims=_RANKS,
    ),
    "fig6": Figure(
        PROVISIONING.titles["fig6"],
        study="densityTS",
        algorithms=SERIES,
        known=("TClab_TS", "arbitrary_d1_0_TS"),
        small=("small_400_threshold_d10_s101_TS",),
        deviation={SPREAD: "< 3"},
        seconds={**dict.fromkeys(_FAST, "< 45"), "WFD-AvgExp": "< 240", STEPS: "< 540", SPREAD: "1,080 at 10 %"},
        claims=(*_BEST, _WFD),
    ),
    "fig7": Figure(
        PROVISIONING.titles["fig7"],
        study="largeTS",
        algorithms=SERIES,
        deviation={SPREAD: "3.2 at 10,000, 3.8 at 100,000"},
        seconds={
            "FF": "840 at 100,000",
            "Medea-TP": "840 at 100,000",
            "BFD-Avg": "1,080 at 100,000",
            "WFD-AvgExp": "18,000 at 100,000",
            STEPS: "9,000 at 100,000",
            SPREAD: "39,600 at 100,000",
        },
        claims=(*_BEST, _WFD),
    ),
}


SUMMARY, MEASURED = "published_summary.csv", "reference.json"
PAPER_NAMES = {  # name in the released code -> name in the paper
    "FFD-Degree": "Medea-TP",
    "NodeCount": "Medea-NC",
    "NCD-Fitness": "LRASched-Fitness",
    "NCD-DotDivision": "NCD-TightFill",
}


class Measurement(NamedTuple):
    """One algorithm's results: % above the bound of Eq. 4, seconds, and machines on a single instance."""

    deviation: float
    seconds: float
    machines: int = 0
    fell_back: bool = False  # spreading failed with First-Fit's number of machines and returned its plan


Measurements = dict[str, Measurement]  # by algorithm
Group = tuple[str, str, int]  # study, graph, value of what is varied


@dataclass(frozen=True)
class Reference:
    """Contents of the folder; empty without one."""

    folder: Path | None = None
    results: dict[Group, Measurements] = field(default_factory=dict)  # published means
    released: dict[str, Measurements] = field(default_factory=dict)  # instance -> the released code when run again
    floating: dict[str, Measurements] = field(default_factory=dict)  # instance -> the same with floating point

    def instance(self, name: str) -> Path | None:
        """The file of an instance, or None."""
        path = self.folder / f"{name}.csv.gz" if self.folder else None
        return path if path and path.exists() else None


@lru_cache(maxsize=1)
def read_reference(folder: Path | None) -> Reference:
    """Read both tables. Raises InputError if one is missing or not as described."""
    if folder is None:
        return Reference()
    for name in (SUMMARY, MEASURED):
        if not (folder / name).is_file():
            raise InputError(f"reference {folder}: has no {name}")
    try:
        with (folder / SUMMARY).open(newline="") as file:
            results = _summary(list(csv.DictReader(file)))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / SUMMARY}: not as described, or damaged: {error!r}") from None
    try:
        measured = json.loads((folder / MEASURED).read_text())["instances"]
        released = {name: _measurements(modes["as_published_code"]) for name, modes in measured.items()}
        # Instances with series were computed in floating point from the start.
        floating = {name: _measurements(modes["as_in_paper"]) or released[name] for name, modes in measured.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{folder / MEASURED}: not as described, or damaged: {error!r}") from None
    return Reference(folder, results, released, floating)


def paper_name(code: str) -> str:
    """The paper's name of an algorithm of the released code: `SpreadWFD-Avg-Decr2` for `RefineWFD-Avg-2`."""
    name = PAPER_NAMES.get(code, re.sub(r"-AvgExpo$", "-AvgExp", code))
    if found := re.fullmatch(r"RefineWFD-(\w+)-(\d+)", name):
        return f"SpreadWFD-{found[1]}-Decr{found[2]}"
    return f"{name}-BinSearch" if name.startswith("SpreadWFD") else name


def _summary(rows: list[dict[str, str]]) -> dict[Group, Measurements]:
    found: dict[Group, Measurements] = {}
    for row in rows:
        if row["set"] not in STUDIES:
            raise ValueError(f"set {row['set']}")
        group = row["set"], row["graph"], int(row["param"])
        outcome = Measurement(float(row["mean_dev_pct"]), float(row["mean_time_s"]))
        found.setdefault(group, {})[paper_name(row["algo"])] = outcome
    return found


def _measurements(algorithms: dict[str, dict[str, Any]]) -> Measurements:
    return {
        name: Measurement(float(one["dev_pct"]), float(one["cpu_s"]), int(one["nodes"]), bool(one["ub_fallback"]))
        for name, one in algorithms.items()
    }
