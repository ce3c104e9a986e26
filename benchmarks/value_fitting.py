"""Which ways to fit a value of machines are better: sizes, epochs, several networks, more generations, bootstrapping.

All learn from the same training sequences of one trace, at three loads and three prices, and are judged on the same
validation sequences, by the cost as a share of that without moves. A first generation is played by a rule, later ones
by the value before. `TD(0.5)`: targets are lambda returns in which the value before stands for half of what follows in
each slot (Sutton and Barto, Reinforcement Learning, 2018, chapter 12), in place of what was really played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tyro

from tvwrl import Scenario, open_trace
from tvwrl.agents import ValueSettings
from tvwrl.agents.move_policy_gradient import outputs
from tvwrl.agents.value_learning import LARGEST, Labels, Played, collect, facts_of, fit, labels_of, policy
from tvwrl.envs import Problem
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import PLACING, SCALE, Layers, MachineValue, Runner, make_scheduler
from tvwrl.types import Float

LOADS, PRICES = (0.3, 0.5, 0.8), (300.0, 1000.0, 3000.0)
GAMMA, LAMBDA, THRESHOLD = 0.9, 0.5, 1.0
JUDGED_BY = 91_000  # seed of the sequences that judge


def main(trace: str = "tianchi", each: int = 40, judged: int = 30, seed: int = 0) -> None:
    """Print the table.

    Args:
        trace: name of a prepared trace.
        each: training sequences of a generation, at each load and price.
        judged: validation sequences, at each load and price.
        seed: of learning.
    """
    base = Problem.build(open_trace(trace), Scenario(moves_per_slot=2)).with_forecasts()
    problems = [base.at_load(load).at_price(price) for load in LOADS for price in PRICES]
    settings = ValueSettings(seed=seed)
    stages = []
    for number, problem in enumerate(problems):
        drawn = problem.sequences("validation", judged, JUDGED_BY + number)
        runner = Runner(drawn, problem.machines, problem.scenario)
        stages.append((problem, runner, -problem.rewards(runner, make_scheduler(PLACING)).mean()))
    lines: list[list[str]] = []
    first: list[Float] = []

    def value_of(layers: Layers) -> MachineValue:
        chosen = {"gamma": GAMMA, "risk": 1.0, "threshold": THRESHOLD, "placing": 0.0}
        return MachineValue(layers, base.machines.resources, facts_of(problems, settings) | chosen)

    def judge(label: str, layers: Layers) -> None:
        value = value_of(layers)
        costs = np.array(
            [-one.rewards(runner, policy(one.scenario, PLACING, value)) / still for one, runner, still in stages]
        )
        first.append(costs)
        apart = costs - first[0]
        half = 1.96 * np.sqrt((apart.var(axis=1, ddof=1) / judged).sum()) / len(apart)
        lines.append([label, f"{100 * costs.mean():.1f}", f"{100 * apart.mean():+.1f} ± {100 * half:.1f}"])
        print(*lines[-1], sep=" | ", flush=True)

    def played(generation: int, value: MachineValue | None) -> list[Played]:
        how = replace(settings, sequences=each * len(problems))
        return [one for k, problem in enumerate(problems) for one in collect(problem, value, how, generation, k, each)]

    def fitted(labels: Labels, **changed: object) -> Layers:
        return fit(labels, replace(settings, **changed))[0]  # type: ignore[arg-type]

    def three(labels: Labels) -> list[Layers]:
        return [fitted(labels, seed=seed + 100 * k) for k in range(3)]

    one = played(1, None)
    labels = labels_of(one, GAMMA)
    nets = three(labels)
    judge("first generation, (64, 32) units, 6 epochs", nets[0])
    judge("another seed of the network", nets[1])
    judge("mean of three networks", mean_of(nets))
    judge("(16, 8) units", fitted(labels, units=(16, 8)))
    judge("15 epochs", fitted(labels, epochs=15))
    two = played(2, value_of(nets[0]))
    later = labels_of(two, GAMMA)
    judge("second generation", fitted(later))
    both = pooled(labels, later)
    judge("second generation, labels of both", fitted(both))
    judge("second generation, TD(0.5)", fitted(bootstrapped(two, nets[0])))
    pair = pooled(bootstrapped(one, nets[0]), bootstrapped(two, nets[0]))
    nets = three(pair)
    judge("second generation, TD(0.5), played by both", nets[0])
    judge("the same, mean of three networks", mean_of(nets))
    three_of_them = [*one, *two, *played(3, value_of(mean_of(nets)))]
    judge("third generation, TD(0.5), played by all", fitted(bootstrapped(three_of_them, mean_of(nets))))
    print(markdown_table(["", "% of the cost without moves", "difference from the first"], lines))


def mean_of(nets: Sequence[Layers]) -> Layers:
    """One network that returns the mean of several with the same inputs: their units side by side."""
    count, (a, b) = len(nets), nets[0].second.shape
    second = np.zeros((a * count, b * count), np.float32)
    for k, net in enumerate(nets):
        second[k * a : (k + 1) * a, k * b : (k + 1) * b] = net.second
    return Layers(
        nets[0].mean,
        nets[0].scale,
        np.concatenate([net.first for net in nets], axis=1),
        np.concatenate([net.first_bias for net in nets]),
        second,
        np.concatenate([net.second_bias for net in nets]),
        np.concatenate([net.last for net in nets]) / np.float32(count),
        np.mean([net.last_bias for net in nets], axis=0),
    )


def pooled(one: Labels, other: Labels) -> Labels:
    return Labels(np.concatenate([one.features, other.features]), np.concatenate([one.costs, other.costs]))


def bootstrapped(played: Sequence[Played], net: Layers) -> Labels:
    """Labels in which the network's value stands for `1 - LAMBDA` of what follows, where it was noted."""
    features, labels = [], []
    for one in played:
        slots, noted = len(one.costs), one.slot < len(one.costs)
        known = outputs(net, one.features)
        known[..., 1] = np.maximum(known[..., 1], 0.0)
        place = dict(zip(one.slot.tolist(), range(len(one.slot)), strict=True))
        sums = np.zeros((slots, *one.costs.shape[1:]))
        for t in range(slots - 2, -1, -1):
            after = sums[t + 1]
            if t + 1 in place:
                after = LAMBDA * after + (1.0 - LAMBDA) * known[place[t + 1]]
            sums[t] = one.costs[t + 1] / SCALE + GAMMA * after
        features.append(one.features[noted].reshape(-1, one.features.shape[2]))
        labels.append(sums[one.slot[noted]].reshape(-1, 2).astype(np.float32))
    return Labels(np.concatenate(features), np.minimum(np.concatenate(labels), np.float32(LARGEST)))


if __name__ == "__main__":
    tyro.cli(main)
