"""What each figure and table measures: which scheduler in which scenario, and what was published about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from tvwrl.experiments.training_cells import DEEPRM, TVW_RL, Column, Setup
from tvwrl.papers.tvw_rl import published as paper
from tvwrl.papers.tvw_rl.published import INFINITE, Claim, Numbers

LOADS = (0.3, 0.5, 0.8)
BURST = 8.0  # workloads that arrive together, on average
WAITING_WEIGHTS = (50.0, 500.0, 5000.0)  # K_w: the paper's, 10 and 100 times it
GAP_NOTE = (
    "Clairvoyant knows the whole future; the paper has neither it nor bounds. Bounds (docs/optimality.md): of machines "
    "used at once, for schedules without overshoot and waiting (others can lie below it), and of slots in which "
    "machines are used, which holds for schedules that wait too."
)
WAITING_CLAIMS = tuple(
    Claim(metric, f"K_w = {over:g}", f"K_w = {under:g}", 1.0, INFINITE, source)
    for less, more in pairwise(WAITING_WEIGHTS)
    for metric, over, under, source in (
        ("wait_mean", less, more, "shorter waits with a higher K_w"),
        ("machines_used", more, less, "a less optimum placement mode"),
        ("overshoot_pct", more, less, "a less optimum placement mode"),
    )
)


@dataclass(frozen=True)
class Experiment:
    """One figure or table."""

    title: str
    columns: Callable[[Setup, Sequence[int]], list[Column]]  # for the seeds to train with
    numbers: Numbers | None = None  # published
    claims: tuple[Claim, ...] = ()  # published
    note: str = ""


def _figure(trace: str, setup: Setup, seeds: Sequence[int]) -> list[Column]:
    """Figures 4 and 5: trained at each load, beside the baselines and a scheduler that knows the future."""
    columns = []
    for load in LOADS:
        for name in ("tvw-rl", "deeprm", "tetris", "best-fit", "clairvoyant"):
            own = seeds if name in (TVW_RL, DEEPRM) else [0]
            columns += [setup.column(f"load {load:g}", name, trace, name, {"load": load}, seed=seed) for seed in own]
    return columns


def _noise(setup: Setup, seeds: Sequence[int]) -> list[Column]:
    """Table 2, left: trained in the noise that it is evaluated in, and trained without any."""
    columns = []
    for name, scenario, trained_in in (
        *((f"trained [0-{n}]", {"background": n}, {"background": n}) for n in (1, 2, 3)),
        *((f"not trained [0-{n}]", {"background": n}, {}) for n in (1, 2, 3)),
        ("no noise", {}, {}),
        ("trained perturbed", {"perturb": 1}, {"perturb": 1}),
        ("not trained perturbed", {"perturb": 1}, {}),
    ):
        columns += [setup.column("load 0.5", name, "google", TVW_RL, scenario, trained_in, seed=seed) for seed in seeds]
    return columns


def _clustering(setup: Setup, seeds: Sequence[int]) -> list[Column]:
    """Table 2, right: without classes and with each kind of them."""
    kinds = {"no classes": "none", "aggregate": "aggregate", "dtw": "dtw", "temporal": "temporal"}
    return [
        setup.column("load 0.5", name, "google", TVW_RL, classes=kind, seed=seed)
        for name, kind in kinds.items()
        for seed in seeds
    ]


def _weight(name: str, values: Sequence[float], setup: Setup, seeds: Sequence[int]) -> list[Column]:
    """One weight of the penalties varied, in training and so in the reward of the evaluation."""
    return [
        setup.column("load 0.5", f"{name} = {value:g}", "alibaba", TVW_RL, {name: value}, seed=seed)
        for value in values
        for seed in seeds
    ]


def _waiting(setup: Setup, seeds: Sequence[int]) -> list[Column]:
    """K_w with an agent that may wait, where workloads come one by one and where they come in bursts.

    Any number may be placed in a slot: with the paper's one, a burst queues whatever the agent does.
    """
    may = {"hold_action": True, "placements_per_slot": None}
    columns = []
    for group, arrivals in (("calm", {}), ("burst", {"burst": BURST})):
        for value in WAITING_WEIGHTS:
            scenario = {**may, "K_w": value, **arrivals}
            columns += [
                setup.column(group, f"K_w = {value:g}", "alibaba", TVW_RL, scenario, seed=seed) for seed in seeds
            ]
    return columns


EXPERIMENTS: dict[str, Experiment] = {
    "fig4": Experiment(
        "Figure 4: operational excellence, Google",
        partial(_figure, "google"),
        claims=paper.FIGURE_CLAIMS,
        note=GAP_NOTE,
    ),
    "fig5": Experiment(
        "Figure 5: operational excellence, Alibaba",
        partial(_figure, "alibaba"),
        claims=paper.FIGURE_CLAIMS,
        note=GAP_NOTE,
    ),
    "table2-noise": Experiment(
        "Table 2, robustness against noise (Google, load 0.5)",
        _noise,
        paper.NOISE,
        paper.NOISE_CLAIMS,
        "[0-n]: background load of 0 to n units on every machine, resource and slot; perturbed: demand changed by "
        "-1 to 1 units. The paper does not say whether the perturbed workloads were trained with.",
    ),
    "table2-clustering": Experiment(
        "Table 2, variation of clustering (Google, load 0.5)", _clustering, paper.CLUSTERING
    ),
    "table3-ku": Experiment(
        "Table 3: effect of K_u (Alibaba, load 0.5)",
        partial(_weight, "K_u", (0.0, 1.0, 2.0, 3.0)),
        paper.KU,
        note="Rewards of different columns are sums of different penalties.",
    ),
    "sensitivity-ko": Experiment(
        "Sensitivity to K_o, the penalty of overshoot (load 0.5)",
        partial(_weight, "K_o", (0.0, 15000.0, 30000.0, 45000.0)),
        paper.KO,
        note="The paper does not name the trace; 2 and 6.2 machines are the ends of its range. "
        "Rewards of different columns are sums of different penalties.",
    ),
    "sensitivity-kc": Experiment(
        "Sensitivity to K_c, the penalty of contention (load 0.5)",
        partial(_weight, "K_c", (0.0, 0.1, 1.0, 10.0)),
        paper.KC,
        note="The paper does not name the trace and gives the ends of the range alone. "
        "Rewards of different columns are sums of different penalties.",
    ),
    "sensitivity-kw": Experiment(
        "Sensitivity to K_w, the penalty of waiting, in calm and in bursts (load 0.5)",
        _waiting,
        claims=WAITING_CLAIMS,
        note="The paper claims, without numbers, that K_w switches between careful placement, for calm times, and fast "
        f"placement, for bursts. The agent may let a slot pass here (hold_action) and place any number of workloads in "
        f"one, so that no wait is forced while there is room; burst: {BURST:g} workloads arrive "
        "together on average, at the same rate. The claim predicts shorter waits at the cost of packing as K_w rises. "
        "An agent that never stops waiting leaves workloads unplaced, and its other figures mean nothing. "
        "Rewards of different columns are sums of different penalties.",
    ),
}
