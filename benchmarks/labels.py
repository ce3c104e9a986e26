"""Compare labels for counterfactual learning: recorded costs, sampled costs, predicted overshoot.

Policies are fitted to the same states with different labels, and judged by the recorded futures of validation states.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro
from torch import Tensor

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.episodes import play
from tvwrl.agents.networks import FORBIDDEN, Encoded, Policy, make_policy
from tvwrl.envs import PlacementVectorEnv
from tvwrl.envs.problem import Problem
from tvwrl.markdown import markdown_table
from tvwrl.schedulers.planning.futures import Futures, Likeness
from tvwrl.schedulers.planning.replay import Replay
from tvwrl.simulation.cluster import Cluster
from tvwrl.traces import open_trace
from tvwrl.types import Float, Int

OVERSHOOT = 2  # which of the four penalties
EVENT_EPOCHS, BATCH = 4, 256
LABELS = ("recorded", "recorded and sampled, half each", "sampled", "recorded, overshoot predicted")


@dataclass
class States:
    """n labelled states; A placements."""

    encoded: Encoded
    recorded: Float  # (n, A, 4) penalties in the recorded future, NaN where not allowed
    sampled: Float  # (n, A, 4) mean over sampled futures
    sequence: Int  # (n,)

    @property
    def allowed(self) -> Tensor:
        """(n, A)"""
        return torch.from_numpy(~np.isnan(self.recorded[:, :, 0]))


def main(
    checkpoint: Path,
    futures: int = 32,
    sequences: int = 1350,
    share: float = 0.3,
    epochs: int = 15,
    seeds: tuple[int, ...] = (0, 1, 2),
) -> None:
    """Print the gain per decision over the initial policy, in the recorded future of validation states.

    Args:
        checkpoint: a run of tvwrl train --algo counterfactual; its policy visits the states.
        futures: sampled per state.
        sequences: training sequences, and as many for validation.
        share: of the decisions that become states.
        epochs: of each fit.
        seeds: of the fits.
    """
    saved = Checkpoint.load(find_checkpoint(checkpoint))
    if saved.config.start_from or not saved.config.built_in:
        raise SystemExit(f"{checkpoint}: its initial policy is not a built-in rule: give another run")
    trace = open_trace(saved.trace["argument"], saved.trace["slot_seconds"])
    problem = saved.problem(trace)
    torch.set_num_threads(1)
    train = collect(saved, problem, "train", sequences, share, futures)
    held_out = collect(saved, problem, "validation", sequences, share, 0)
    print(f"{len(train.sequence)} states to train on, {len(held_out.sequence)} to validate on", flush=True)
    made = {label: labels(saved, train, label) for label in LABELS}
    initial = choices(fresh(saved), held_out)
    rows = [["policy of the run", gain(held_out, choices(saved.make_policy(), held_out), initial)]]
    for label, costs in made.items():
        gains = [gain(held_out, choices(fit(saved, train, costs, epochs, seed), held_out), initial) for seed in seeds]
        rows.append([label, "; ".join(gains)])
        print(*rows[-1], flush=True)
    print(markdown_table(["labels", "gain per decision, by seed (of it overshoot)"], rows))


def collect(
    saved: Checkpoint, problem: Problem, split: Literal["train", "validation"], count: int, share: float, futures: int
) -> States:
    """States that the policy visits on `count` sequences of a split; `sampled` is zero for no futures."""
    config, rng = saved.config, np.random.default_rng(1)
    drawn = problem.sequences(split, count, 5, config.train_loads or (config.scenario.load,))
    envs = PlacementVectorEnv(count, drawn, problem.machines, config.scenario, "Disabled", copy=False, max_slots=0)
    simulation, slots = envs.simulation, config.rollout_slots
    placements, replay = simulation.placements, Replay(simulation, config.base_rule, slots)
    assert drawn.training is not None
    training, peaks = drawn.training(), config.base_rule.endswith("-peak")
    likeness = Likeness(training, float(config.scenario.peak_units), config.scenario.observe_forecast, peaks)
    ahead = Futures(simulation, training, likeness, max(futures, 1), slots, config.scenario.choose_from_queue)
    sampled = Replay(ahead.simulation, config.base_rule, slots)
    kept, recorded, means, which = [], [], [], []

    def look(rows: Int, allowed: np.ndarray) -> None:
        chosen = (replay.choices(rows) < placements) & (allowed[:, :placements].sum(axis=1) > 1)
        some = np.flatnonzero(chosen & (rng.random(len(rows)) < share))
        mean = np.zeros((len(some), placements, 4), np.float32)
        for i, row in enumerate(some if futures else ()):
            ahead.forget()
            ahead.sample(Cluster(simulation, int(rows[row])), rng, futures)
            takes = np.tile(allowed[row, :placements], (futures, 1))
            mean[i] = sampled.costs(np.arange(futures), takes)[0][:, :-1].mean(axis=0)
        kept.append(np.isin(np.arange(len(rows)), some))
        recorded.append(replay.costs(rows[some], allowed[some, :placements])[0][:, :-1].astype(np.float32))
        means.append(mean)
        which.append(rows[some])

    played = play(saved.make_policy(), envs, np.arange(count), torch.Generator().manual_seed(0), "cpu", look)
    some = torch.from_numpy(np.flatnonzero(np.concatenate(kept)))
    encoded = {name: values[some] for name, values in played.encoded.items()}
    return States(encoded, np.concatenate(recorded), np.concatenate(means), np.concatenate(which))


def labels(saved: Checkpoint, train: States, label: str) -> Float:
    """(n, A) costs to learn from, infinite where not allowed."""
    recorded, sampled = (np.where(np.isnan(part), 0, part) for part in (train.recorded, train.sampled))
    total = {
        "recorded": recorded.sum(axis=2),
        "recorded and sampled, half each": (recorded.sum(axis=2) + sampled.sum(axis=2)) / 2,
        "sampled": sampled.sum(axis=2),
    }
    if label in total:
        return np.where(train.allowed.numpy(), total[label], np.inf)
    price = saved.config.scenario.K_o
    predicted = price * overshoots(saved, train, recorded[:, :, OVERSHOOT] / price)
    return np.where(train.allowed.numpy(), recorded.sum(axis=2) - recorded[:, :, OVERSHOOT] + predicted, np.inf)


def overshoots(saved: Checkpoint, train: States, events: Float) -> Float:
    """(n, A) expected number of overshoots, by Poisson models fitted to the other half of the sequences."""
    seen, allowed, found = torch.from_numpy(events).float(), train.allowed, np.zeros_like(events)
    for half in (0, 1):
        fitted, judged = (np.flatnonzero((train.sequence % 2 == half) == own) for own in (False, True))
        torch.manual_seed(half)
        model = fresh(saved)
        bias = torch.nn.Parameter(seen[fitted][allowed[fitted]].mean().log())

        def log_rate(rows: Tensor, model: Policy = model, bias: Tensor = bias) -> Tensor:
            part = {name: values[rows] for name, values in train.encoded.items()}
            given = part["prior"][:, : allowed.shape[1]] if "prior" in part else torch.zeros(())
            return (model(part)[:, : allowed.shape[1]] - given + bias).masked_fill(~allowed[rows], 0).clamp(-9, 3)

        def loss(rows: Tensor, log_rate=log_rate) -> Tensor:
            rate, one = log_rate(rows), allowed[rows]
            return ((rate.exp() - seen[rows] * rate) * one).sum() / one.sum()

        descend([*model.parameters(), bias], fitted, EVENT_EPOCHS, half, loss)
        with torch.no_grad():
            for rows in torch.from_numpy(judged).split(2048):
                found[rows.numpy()] = log_rate(rows).exp().numpy()
    rate, count = found[allowed.numpy()], events[allowed.numpy()]
    for low, high in ((0, 50), (50, 90), (90, 100)):
        inside = (rate >= np.percentile(rate, low)) & (rate <= np.percentile(rate, high))
        print(f"overshoots, {low} to {high} %: predicted {rate[inside].mean():.3f}, seen {count[inside].mean():.3f}")
    return found


def fit(saved: Checkpoint, train: States, costs: Float, epochs: int, seed: int) -> Policy:
    """A policy of least expected cost, with the loss of `Counterfactual.update` except its term for holding."""
    torch.manual_seed(seed)
    policy, config, allowed = fresh(saved), saved.config, train.allowed
    beyond = np.minimum(costs - costs.min(axis=1, keepdims=True), config.most_cost) / config.cost_scale
    target = torch.from_numpy(np.where(allowed.numpy(), beyond, 0)).float()

    def loss(rows: Tensor) -> Tensor:
        part = {name: values[rows] for name, values in train.encoded.items()}
        logits = policy.logits(part)[:, : allowed.shape[1]].masked_fill(~allowed[rows], FORBIDDEN)
        log_probability = torch.log_softmax(logits, dim=1)
        cost = target[rows] + config.entropy_bonus * log_probability
        return (log_probability.exp() * cost).sum(dim=1).mean()

    descend(list(policy.parameters()), np.arange(len(costs)), epochs, seed, loss)
    return policy


def descend(parameters: list[torch.nn.Parameter], rows: Int, epochs: int, seed: int, loss) -> None:
    """Minimise `loss` of batches of rows."""
    steps = len(rows) // BATCH
    optimiser = torch.optim.AdamW(parameters, weight_decay=0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-3, total_steps=epochs * steps + 1, pct_start=0.1)
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        for part in torch.from_numpy(rng.permutation(rows)[: steps * BATCH]).view(-1, BATCH):
            optimiser.zero_grad()
            loss(part).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 0.5)
            optimiser.step()
            schedule.step()


def fresh(saved: Checkpoint) -> Policy:
    """The initial policy: the rule that is built in."""
    return make_policy(saved.config.policy, saved.shapes, saved.config.hidden)


def choices(policy: Policy, states: States) -> Int:
    """(n,) the most probable placement."""
    found, allowed = [], states.allowed
    with torch.no_grad():
        for rows in torch.arange(len(allowed)).split(2048):
            logits = policy.logits({name: values[rows] for name, values in states.encoded.items()})
            found.append(logits[:, : allowed.shape[1]].masked_fill(~allowed[rows], FORBIDDEN).argmax(dim=1))
    return torch.cat(found).numpy()


def gain(states: States, chosen: Int, initial: Int) -> str:
    """Mean cost that the choices save in the recorded future, with its 95 % interval over sequences."""
    every = np.arange(len(chosen))
    saved = states.recorded[every, initial] - states.recorded[every, chosen]
    total = saved.sum(axis=1)
    sums = np.bincount(states.sequence, total)[np.unique(states.sequence)]
    margin = 1.96 * sums.std(ddof=1) * np.sqrt(len(sums)) / len(total)
    return f"{total.mean():+.0f} ± {margin:.0f} ({saved[:, OVERSHOOT].mean():+.0f})"


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # what a trace cannot give
    tyro.cli(main)
