"""What each figure and table measures: which scheduler in which scenario, and what was published about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tvwrl.experiments import DEEPRM, PUBLISHED_CLASSES, TVW_RL, Changes, Column, Setup
from tvwrl.papers import TVW_RL as TVW_RL_PAPER
from tvwrl.papers.tvw_rl import published as paper
from tvwrl.papers.tvw_rl.published import INFINITE, Claim, Numbers

LOADS = (0.3, 0.5, 0.8)
LOADS_OF_WEIGHTS = (0.3, 0.5)  # at 0.5 nearly all machines are in use, so their number can differ at 0.3 only
BURST = 8.0  # workloads that arrive together, on average
WAITING_WEIGHTS = (50.0, 500.0, 5000.0)  # K_w: the paper's, 10 and 100 times it
GAP_NOTE = (
    "Clairvoyant knows the whole future; the paper has no such scheduler, and no bounds (docs/explanation/bounds.md). "
    "The bound on the most machines used at once is for schedules that neither overshoot nor wait, so others can lie "
    "below it; the bound on machine slots, summed over time, also holds for schedules that wait."
)
REWARDS = "The columns weigh penalties differently, so their rewards cannot be compared."
WAITING_CLAIMS = tuple(
    Claim(metric, f"K_w = {over:g}", f"K_w = {under:g}", 1.0, INFINITE, source)
    for less, more in pairwise(WAITING_WEIGHTS)
    for metric, over, under, source in (
        ("wait_mean", less, more, "shorter waits with a higher K_w"),
        ("machines_used", more, less, "a less optimum placement mode"),
        ("overshoot_pct", more, less, "a less optimum placement mode"),
    )
)


class Asked(NamedTuple):
    """A column of a table: what is evaluated in which scenario. The fields are arguments of `Setup.column`."""

    group: str
    column: str
    trace: str  # google or alibaba
    scheduler: str = TVW_RL
    scenario: Changes | None = None  # what differs from the preset's
    trained_in: Changes | None = None  # default: the scenario
    classes: str = PUBLISHED_CLASSES


@dataclass(frozen=True)
class Experiment:
    """One figure or table."""

    title: str
    asked: tuple[Asked, ...]
    numbers: Numbers | None = None  # published
    claims: tuple[Claim, ...] = ()  # published
    note: str = ""

    def columns(self, setup: Setup, seeds: Sequence[int]) -> list[Column]:
        """The columns, those that are trained once per seed."""
        return [
            setup.column(*one, seed=seed)
            for one in self.asked
            for seed in (seeds if one.scheduler in (TVW_RL, DEEPRM) else [0])
        ]


def _figure(trace: str) -> tuple[Asked, ...]:
    """Figures 4 and 5: trained at each load, beside the baselines and a scheduler that knows the future."""
    names = (TVW_RL, DEEPRM, "tetris", "best-fit", "clairvoyant")
    return tuple(Asked(f"load {load:g}", name, trace, name, {"load": load}) for load in LOADS for name in names)


def _weight(name: str, *values: float) -> tuple[Asked, ...]:
    """One penalty weight at each of the values, in training and in the reward of the evaluation."""
    return tuple(
        Asked(f"load {load:g}", f"{name} = {value:g}", "alibaba", scenario={"load": load, name: value})
        for load in LOADS_OF_WEIGHTS
        for value in values
    )


NOISES = tuple(  # Table 2, left: trained in the noise that it is evaluated in, and trained without any
    Asked("load 0.5", name, "google", TVW_RL, scenario, trained_in)
    for name, scenario, trained_in in (
        *((f"trained [0-{n}]", {"background": n}, {"background": n}) for n in (1, 2, 3)),
        *((f"not trained [0-{n}]", {"background": n}, {}) for n in (1, 2, 3)),
        ("no noise", {}, {}),
        ("trained perturbed", {"perturb": 1}, {"perturb": 1}),
        ("not trained perturbed", {"perturb": 1}, {}),
    )
)
CLASSES = tuple(  # Table 2, right: without classes and with each kind of them
    Asked("load 0.5", name, "google", classes=kind)
    for name, kind in (("no classes", "none"), *((kind, kind) for kind in ("aggregate", "dtw", "temporal")))
)
# K_w with an agent that may wait, where workloads come one by one and where they come in bursts. Any number may be
# placed in a slot: with the paper's one, a burst queues whatever the agent does.
WAITING = tuple(
    Asked(
        group,
        f"K_w = {value:g}",
        "alibaba",
        scenario={"hold_action": True, "placements_per_slot": None, "K_w": value, **arrivals},
    )
    for group, arrivals in (("calm", {}), ("burst", {"burst": BURST}))
    for value in WAITING_WEIGHTS
)


EXPERIMENTS: dict[str, Experiment] = {
    "fig4": Experiment(
        TVW_RL_PAPER.titles["fig4"],
        _figure("google"),
        claims=paper.FIGURE_CLAIMS,
        note=GAP_NOTE,
    ),
    "fig5": Experiment(
        TVW_RL_PAPER.titles["fig5"],
        _figure("alibaba"),
        claims=paper.FIGURE_CLAIMS,
        note=GAP_NOTE,
    ),
    "table2-noise": Experiment(
        TVW_RL_PAPER.titles["table2-noise"],
        NOISES,
        paper.NOISE,
        paper.NOISE_CLAIMS,
        "[0-n]: every machine has a background load of 0 to n units, drawn anew for each resource and slot. Perturbed: "
        "demand is changed by -1 to 1 units; the paper does not say whether the agent was trained so too.",
    ),
    "table2-clustering": Experiment(TVW_RL_PAPER.titles["table2-clustering"], CLASSES, paper.CLUSTERING),
    "table3-ku": Experiment(
        TVW_RL_PAPER.titles["table3-ku"],
        _weight("K_u", 0.0, 1.0, 2.0, 3.0),
        paper.KU,
        note=REWARDS,
    ),
    "sensitivity-ko": Experiment(
        TVW_RL_PAPER.titles["sensitivity-ko"],
        _weight("K_o", 0.0, 15000.0, 30000.0, 45000.0),
        paper.KO,
        note="The paper gives only the ends of its range of machines, 2 and 6.2. " + REWARDS,
    ),
    "sensitivity-kc": Experiment(
        TVW_RL_PAPER.titles["sensitivity-kc"],
        _weight("K_c", 0.0, 0.1, 1.0, 10.0),
        paper.KC,
        note="The paper gives only the ends of its range. " + REWARDS,
    ),
    "sensitivity-kw": Experiment(
        TVW_RL_PAPER.titles["sensitivity-kw"],
        WAITING,
        claims=WAITING_CLAIMS,
        note="The paper says, without numbers, that a low K_w suits calm times, when placement may take time, and a "
        "high one bursts, when it must be fast. So as K_w rises, waits should become shorter, and packing worse. The "
        "agent may let a slot pass here, and place any number of workloads in one, so that nothing has to wait where "
        f"there is room. In bursts, {BURST:g} workloads arrive together on average, at the same rate. An agent that "
        "never stops waiting leaves workloads unplaced, and has no other figures. " + REWARDS,
    ),
}
