"""PPO (Schulman et al. 2017) with generalised advantages over decisions that are unequally far apart.

Its critic values each machine by itself. All penalties but the wait belong to one machine, so it learns from M numbers
per decision rather than from their sum, and can tell which machine a placement endangers. The clipped loss of the
policy is `policy_gradient.clipped_gain`, which REINFORCE shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tvwrl.agents.acting import DeterministicActions
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Environments, Trajectories, play
from tvwrl.agents.features import GREAT, SMALL
from tvwrl.agents.networks import Encoded, SharedPolicy, SharedTrunk
from tvwrl.agents.policy_gradient import CHUNK, PolicyGradient, discounted_sums
from tvwrl.compiled import inner, njit
from tvwrl.packing import exceeds
from tvwrl.penalties import contention, overshoot, under_utilisation
from tvwrl.simulation import (
    ARRIVAL,
    ARRIVED,
    LENGTH,
    MACHINE,
    MACHINE_OVERSHOT,
    OVERSHOOT_PER_MACHINE,
    OVERSHOT,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    START,
    WAITING,
    WAITS,
    Simulation,
    State,
)
from tvwrl.types import Float, Float32, InputError, Int

ENDS = (4, 16, 64, 1 << 30)  # slots from now at which a horizon ends
MANY, FEW, LONG = 50.0, 10.0, 100.0  # workloads in all, workloads that arrive in a horizon, and slots that count as 1


def ahead_count(resources: int) -> int:
    """F of `ahead`: see `Foresight.of`."""
    return 2 + (1 + len(ENDS)) * (1 + resources)


class Foresight:
    """The future in the environments of a simulation; costs t slots away are discounted by `gamma` ** t."""

    def __init__(self, simulation: Simulation, gamma: float) -> None:
        self._simulation, self._gamma = simulation, gamma
        self._work: Float = simulation.sequences.demand.sum(axis=2)

    def of(self, rows: Int) -> Encoded:
        """What the critic sees in addition to the policy's encoding, in environments `rows` (n,).

        `committed` (n, M): discounted cost of each machine if nothing more is placed on it
        `ahead` (n, F): number of workloads still to arrive, and slots until the last does; then for the waiting
            workloads, and for those that arrive in each horizon: their number and, per resource, their work (demand
            summed over slots)
        """
        machines, resources = self._simulation.machines.capacity.shape
        committed = np.zeros((len(rows), machines), np.float32)
        ahead = np.zeros((len(rows), ahead_count(resources)), np.float32)
        foresee(self._simulation.state, self._work, rows, self._gamma, committed, ahead)
        return {"committed": torch.from_numpy(committed), "ahead": torch.from_numpy(ahead)}


@njit
def foresee(s: State, work: Float, rows: Int, gamma: float, committed: Float32, ahead: Float32) -> None:
    """Write the arrays of `Foresight.of`, which are 0 at first. `s`: `State`; `work`: (S, N, D) units x slots."""
    machines, resources = s.capacity.shape
    square, ends = np.empty((machines, s.load.shape[2], resources)), np.empty(machines, np.int64)
    whole = np.zeros(resources)
    for m in range(machines):
        for d in range(resources):
            whole[d] += s.capacity[m, d]
    for d in range(resources):
        whole[d] *= LONG
    for i in range(len(rows)):
        _look_ahead(s, work, whole, rows[i], ahead[i])
        _sum_squares(s, rows[i], square, ends)
        for m in range(machines):
            committed[i, m] = _committed(s, rows[i], m, ends[m], square[m], gamma)


@inner
def _look_ahead(s: State, work: Float, whole: Float, b: int, out: Float32) -> None:
    resources, count = s.capacity.shape[1], s.timing.shape[1]
    sequence, slot, waiting = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.counters[b, WAITING]
    arrived, horizon = s.counters[b, ARRIVED], 0
    out[0] = (count - arrived) / MANY
    out[1] = max(s.timing[sequence, count - 1, ARRIVAL] - slot, 0) / LONG
    for i in range(waiting + count - arrived):
        w, at = s.workloads[b, i, WAITS], 2
        if i >= waiting:
            w = arrived + i - waiting
            while s.timing[sequence, w, ARRIVAL] - slot >= ENDS[horizon]:
                horizon += 1
            at += (1 + horizon) * (1 + resources)
        out[at] += 1 / FEW
        for d in range(resources):
            if whole[d] > 0:
                out[at + 1 + d] += work[sequence, w, d] / whole[d]


@inner
def _sum_squares(s: State, b: int, square: Float, ends: Int) -> None:
    """Write the sum of squared demand (M, H, D) of the slots from now, and slots until each machine is empty (M,)."""
    ends[:], square[:] = 0, 0.0
    sequence, slot = s.counters[b, SEQUENCE], s.counters[b, SLOT]
    period = s.background.shape[1]
    if period > 0:
        for k in range(square.shape[1]):
            for m in range(square.shape[0]):
                for d in range(square.shape[2]):
                    square[m, k, d] = float(s.background[sequence, (slot + k) % period, m, d]) ** 2
    for i in range(s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        m, age = s.workloads[b, w, MACHINE], slot - s.workloads[b, w, START]
        left = s.timing[sequence, w, LENGTH] - age
        ends[m] = max(ends[m], left)
        for k in range(left):
            for d in range(square.shape[2]):
                demand = float(s.demand[sequence, w, age + k, d])
                square[m, k, d] += demand * demand


@inner
def _committed(s: State, b: int, m: int, end: int, square: Float, gamma: float) -> float:
    """What machine m costs, discounted, until it is empty `end` slots from now. `square`: (H, D), see above."""
    ring, resources = s.load.shape[2:]
    costs = 0.0
    for d in range(resources):
        row, discount, charged, capacity = s.counters[b, SLOT] % ring, 1.0, False, s.capacity[m, d]
        for k in range(end):
            load = float(s.load[b, m, row, d])
            contended = s.weights[0, d] * contention(load, square[k, d])
            costs += discount * (contended + under_utilisation(max(capacity - load, 0.0), s.weights[1, d]))
            if not charged and exceeds(load, capacity):
                charged = True
                costs += discount * overshoot(_charged(s, b, m, d, k), s.weights[2, d])
            discount *= gamma
            row = row + 1 if row + 1 < ring else 0
    return costs


@inner
def _charged(s: State, b: int, m: int, d: int, k: int) -> int:
    """How many first overshoots machine m, which is not empty by then, causes if its next overshoot is k slots away."""
    if s.rules[OVERSHOOT_PER_MACHINE]:
        return 0 if s.machines[b, m, MACHINE_OVERSHOT] & (1 << d) else 1
    count, last = 0, s.counters[b, SLOT] + k
    for i in range(s.counters[b, RUNNING]):
        w = s.workloads[b, i, RUNS]
        if s.workloads[b, w, MACHINE] == m and not s.workloads[b, w, OVERSHOT] & (1 << d):
            count += s.workloads[b, w, START] + s.timing[s.counters[b, SEQUENCE], w, LENGTH] > last
    return count


class Critic(nn.Module):
    """Expected discounted future cost of every machine, and of waiting; built like the `shared` policy.

    `foresees`: whether it also sees the future (`Foresight`). It is then given the costs that machines incur in any
    case, and learns the rest.
    """

    def __init__(self, policy: SharedPolicy, hidden: int, foresees: bool = False) -> None:
        super().__init__()
        self.foresees = foresees
        machine, queue = policy.trunk.machine.in_features, policy.trunk.queue.in_features
        if foresees:
            machine, queue = machine + 1, queue + ahead_count(policy.resources)
        self.trunk = SharedTrunk(machine, queue, hidden)
        self.machine = nn.Linear(hidden, 1)
        self.wait = nn.Linear(hidden, 1)
        for head in (self.machine, self.wait):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, encoded: Encoded, scale: float = 1.0) -> Tensor:
        """(B, M + 1) values in units of `scale`: each machine's, then that of waiting."""
        anyway: Tensor | float = 0.0
        if self.foresees:
            committed = encoded["committed"]
            known = torch.asinh(committed[..., None] / SMALL) / GREAT
            anyway = committed / scale
            encoded = {
                "machines": torch.cat([encoded["machines"], known], dim=2),
                "queue": torch.cat([encoded["queue"], encoded["ahead"]], dim=1),
            }
        machines, cluster = self.trunk(encoded)
        return torch.cat([self.machine(machines)[..., 0] - anyway, self.wait(cluster)], dim=1)


class PPO(PolicyGradient):
    """Clipped policy gradient with advantages of GAE(lambda), and a critic with an optimiser of its own.

    Values are learnt in units of `scale`, the mean return of the first iteration's episodes.
    """

    def __init__(self, policy: Any, config: TrainConfig) -> None:
        super().__init__(policy, config)
        if not isinstance(policy, SharedPolicy):
            if config.network:
                what = "a network that extends tvwrl.agents.SharedPolicy or PairPolicy"
                raise InputError(f"algo ppo needs {what}: {config.network} does not; use algo reinforce")
            raise InputError(f"algo ppo needs policy shared, not {config.policy}: use policy shared or algo reinforce")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed + 1)
            self.critic = Critic(policy, config.hidden, foresees=True).to(config.device)
        self.critic_optimiser = torch.optim.Adam(self.critic.parameters(), lr=config.learning_rate)
        self.scale = 0.0  # until the first iteration

    def play(
        self, envs: Environments, sequence: npt.NDArray[np.int64], how: torch.Generator | DeterministicActions
    ) -> Trajectories:
        """See `EpisodeLearner.play`; encodings include what only the critic sees, the future (`Foresight`)."""
        foresight, ahead = Foresight(envs.simulation, self.config.gamma), list[Encoded]()

        def look(rows: npt.NDArray[np.int64], _: npt.NDArray[np.bool_]) -> None:
            ahead.append(foresight.of(rows))

        played = play(self.policy, envs, sequence, how, self.config.device, look)
        played.encoded |= {name: torch.cat([part[name] for part in ahead]) for name in ahead[0]}
        played.last |= foresight.of(np.arange(envs.num_envs))
        return played

    def advantages(self, played: Trajectories) -> Float:
        """(T, B) GAE(lambda); with `advantage_scaling` standardised over the batch and clipped."""
        if not self.scale:
            self.scale = float(np.abs(played.costs * played.alive[..., None]).sum(axis=0).mean()) or 1.0
        values, last = np.zeros_like(played.costs), self._values(played.last)
        values[played.alive] = self._values(played.encoded)
        placements = played.encoded["mask"].shape[1] - (self.policy.hold is not None)
        steps = -played.costs / self.scale, values, last * played.truncated[:, None], played
        by_part = generalised_advantages(*steps, self.config, placements)
        self._target = torch.from_numpy((by_part + values)[played.alive]).float()
        missed = generalised_advantages(*steps, replace(self.config, gae_lambda=1.0), placements)
        self._explained = explained_variance((missed + values)[played.alive], missed[played.alive])
        total = by_part.sum(axis=2)
        known = total[played.alive]
        if self.config.advantage_scaling:
            total = (total - known.mean()) / (known.std() + 1e-8)
            total = np.clip(total, -self.config.advantage_clip, self.config.advantage_clip)
        advantage: Float = total * played.alive
        return advantage

    def update(self, played: Trajectories, iteration: int, rng: torch.Generator) -> dict[str, float]:
        """Update the policy, then the critic, which is fitted to the lambda-returns.

        `value_loss` is its mean squared error before that, in squared units of `scale`.
        """
        logged, losses = super().update(played, iteration, rng), []

        def backward(part: Tensor) -> None:
            seen = {name: rows[part].to(self.config.device) for name, rows in played.encoded.items()}
            loss = ((self.critic(seen, self.scale) - self._target[part].to(self.config.device)) ** 2).sum(dim=1).mean()
            loss.backward()
            losses.append(float(loss.detach()))

        norms = self.descend(self.critic, self.critic_optimiser, iteration, len(self._target), rng, backward)
        return logged | {
            "value_loss": float(np.mean(losses[: self.config.minibatches])),
            "critic_gradient_norm": float(np.mean(norms)),
            "explained_variance": self._explained,
        }

    def _values(self, encoded: Encoded) -> Float:
        """(n, M + 1) values of observations (n, ...)."""
        with torch.no_grad():
            chunks = (
                {name: part[rows].to(self.config.device) for name, part in encoded.items()}
                for rows in torch.split(torch.arange(len(encoded["mask"])), CHUNK)
            )
            parts = [self.critic(chunk, self.scale).cpu() for chunk in chunks]
        return torch.cat(parts).numpy().astype(np.float64)

    def weights(self) -> Iterator[Tensor]:
        """See `Learner`; includes the critic's."""
        yield from super().weights()
        yield from self.critic.parameters()

    def state(self) -> dict[str, Any]:
        """See `Learner`; includes the critic and its scale."""
        own = {"critic": self.critic.state_dict(), "critic_optimiser": self.critic_optimiser.state_dict()}
        return super().state() | own | {"scale": self.scale}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Learner`. Raises InputError for the critic of an earlier version, which has fewer inputs."""
        super().restore(state)
        try:
            self.critic.load_state_dict(state["critic"])
        except RuntimeError:
            raise InputError("the critic in the checkpoint does not fit this version: train again") from None
        self.critic_optimiser.load_state_dict(state["critic_optimiser"])
        self.scale = state["scale"]


def generalised_advantages(
    reward: Float, values: Float, last: Float, played: Trajectories, config: TrainConfig, placements: int
) -> Float:
    """(T, B, P) GAE (Schulman et al. 2016, Eq. 16) of P parts of the reward, over semi-Markov steps.

    `reward`, `values`: (T, B, P); part p < P - 1 belongs to machine p, the last to waiting
    `last`: (B, P) value after the final decision; 0 if the episode terminated
    `placements`: actions below this place a workload

    A step of s slots discounts by gamma ** s. Lambda applies after a placement but not after a hold, so that holding
    and placing are compared over equally many placements, including the postponed one, and over the same time.
    """
    going = np.append(played.alive[1:], np.zeros_like(played.alive[:1]), axis=0)[..., None]  # another decision follows
    after = np.where(going, np.append(values[1:], last[None], axis=0), last)
    discount = config.gamma ** played.slots[..., None]
    trust = np.where(played.action < placements, config.gae_lambda, 1.0)[..., None]
    advantage = discounted_sums(reward + discount * after - values, discount * trust * going)
    return np.where(played.alive[..., None], advantage, 0.0)


def explained_variance(returns: Float, missed: Float) -> float:
    """Share of the variance of `returns` (n, P), summed over parts P, that is explained by values whose errors are
    `missed` (n, P); at most 1, and below 0 if the values are worse than a constant."""
    return 1.0 - float(missed.sum(axis=1).var() / max(returns.sum(axis=1).var(), 1e-12))
