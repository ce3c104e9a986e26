"""Online learning (paper, Algorithm 1): a pretrained policy goes on learning from the workloads that it places.

A stream is a row of phases, each with arrival sequences of its own. Every sequence is played once, in order; after
every `episodes_per_update` of them (the paper updates after each episode) the policy learns from what it has just done,
and never again. Classes and forecasts of running workloads are predicted anew in every slot, as everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tqdm import tqdm

from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Decisive, Trajectories, play
from tvwrl.agents.networks import Policy, check_device
from tvwrl.agents.ppo import PPO
from tvwrl.agents.training import collect_signals
from tvwrl.envs import PlacementVectorEnv
from tvwrl.envs.problem import Problem
from tvwrl.metrics import score_episode
from tvwrl.runs import read_csv, write_csv
from tvwrl.types import Float, InputError, SequenceSet

STREAM = 2**32  # seeds of arrivals are this far from those of training and evaluation, which are small
ONLINE = "online"  # the policy's name in rows
AT_ONCE = 48  # episodes that a frozen policy plays side by side, at most


@dataclass(frozen=True)
class OnlineConfig:
    """Settings of online learning; all else is as the checkpoint was trained."""

    episodes: int = 400
    """Arrival sequences of each phase, played once each."""
    split: Literal["train", "test"] = "test"
    """Series that the arrivals are cut from: test, which the training never saw; train leaves those to evaluate.py."""
    episodes_per_update: int = 1
    """Episodes gathered for an update (paper, Algorithm 1: one)."""
    learning_rate: float = 1e-4
    """Step size of Adam, of policy and critic; 0 plays without learning."""
    explore: bool = True
    """Draw actions by their probability; off, those that evaluation would take."""
    epochs: int = 1
    """Passes over the episodes of an update."""
    minibatches: int = 1
    """Steps of Adam per pass."""
    memory: float = 0.98
    """How much of mean and deviation of the advantages is kept from update to update."""
    entropy_bonus: float = 0.0
    """Weight of the policy's entropy."""
    gamma: float = 0.999
    """Discount per slot."""
    gae_lambda: float = 0.98
    """How far advantages trust what happened over what the critic expected; it knows nothing of what is new."""
    seed: int = 0
    """Seed of the arrivals and of the actions drawn."""
    save_every: int = 25
    """Updates between two saves of checkpoints/last.pt."""

    def __post_init__(self) -> None:
        limits = {
            **dict.fromkeys(("episodes", "episodes_per_update", "epochs", "minibatches", "save_every"), (1, 1e9)),
            **dict.fromkeys(("learning_rate", "entropy_bonus", "seed"), (0, 1e9)),
            "memory": (0, 0.9999),
        }
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise InputError(f"{name} is {getattr(self, name)}: must be {low:g} to {high:g}")
        if self.split not in ("train", "test"):
            raise InputError(f"split is {self.split}: must be train or test")
        if self.episodes % self.episodes_per_update:
            raise InputError(
                f"episodes is {self.episodes}: must be a multiple of episodes_per_update, {self.episodes_per_update}"
            )

    def applied_to(self, config: TrainConfig) -> TrainConfig:
        """The hyper-parameters of a training, with what changes online."""
        rate = self.learning_rate or config.final_learning_rate
        return replace(
            config,
            sequences_per_iteration=self.episodes_per_update,
            trajectories=1,
            learning_rate=rate,
            final_learning_rate=rate,
            entropy_bonus=self.entropy_bonus,
            final_entropy_bonus=self.entropy_bonus,
            epochs=self.epochs,
            minibatches=self.minibatches,
            seed=self.seed,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
        )


@dataclass(frozen=True, eq=False)
class Phase:
    """A stretch of the stream: where the workloads come from, and those that arrive, sequence by sequence."""

    problem: Problem
    trace: dict[str, Any]  # as a checkpoint names it
    sequences: SequenceSet

    @property
    def name(self) -> str:
        """For people: trace and load."""
        return f"{self.problem.trace.name}, load {self.problem.scenario.load:g}"

    @classmethod
    def draw(cls, problem: Problem, trace: dict[str, Any], place: int, config: OnlineConfig) -> Phase:
        """The phase at `place` (0 = first) of the stream of the config's seed."""
        seed = STREAM * (place + 1) + config.seed
        return cls(problem, trace, problem.sequences(config.split, config.episodes, seed))


class OnlinePPO(PPO):
    """PPO for updates of a few episodes: advantages are measured against a running mean and deviation.

    Within one episode either is chance: an episode without an overshoot would count for as much as one with ten.
    """

    def __init__(self, policy: Policy, config: TrainConfig, memory: float) -> None:
        super().__init__(policy, config)
        self.memory = memory
        self._running = np.zeros(3)  # decaying sums over updates: 1, mean, mean square

    def moments(self, known: Float) -> tuple[float, float]:
        """Of all updates so far, the latest counting most."""
        latest = np.array([1.0, known.mean(), (known**2).mean()])
        self._running = self.memory * self._running + (1 - self.memory) * latest
        mean, square = self._running[1:] / self._running[0]
        return float(mean), float(np.sqrt(max(square - mean**2, 0.0)))

    def state(self) -> dict[str, Any]:
        """With the running moments."""
        return super().state() | {"running": self._running.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; the moments begin anew after an offline training."""
        super().restore(state)
        self._running = np.array(state.get("running", [0.0, 0.0, 0.0]))


class OnlineLearner:
    """A pretrained policy on a stream, in a folder: `checkpoints/last.pt`, `progress.csv` (a row per episode).

    Raises InputError for a checkpoint without a critic: REINFORCE takes its baseline from several episodes on the same
    arrivals, and online each arrives once.
    """

    def __init__(self, start: Checkpoint, stream: Sequence[Phase], config: OnlineConfig, folder: Path) -> None:
        if start.config.algo != "ppo" or start.config.policy != "shared":
            raise InputError(
                f"the checkpoint was trained by {start.config.algo} (policy {start.config.policy}), whose baseline "
                "needs several episodes on the same arrivals; online each arrives once: train with --algo ppo"
            )
        check_device(start.config.device)
        torch.set_num_threads(start.config.threads)
        self.start, self.stream, self.config, self.folder = start, stream, config, folder
        self.policy = start.make_policy().to(start.config.device)
        self.learner = OnlinePPO(self.policy, config.applied_to(start.config), config.memory)
        self.learner.restore(deepcopy(start.learner))  # Adam goes on in the tensors that it is given
        self.updates = 0
        self.progress: list[dict[str, Any]] = []
        self._actions = torch.Generator().manual_seed(config.seed)
        self._envs = [self._environments(phase) for phase in stream]

    @property
    def total(self) -> int:
        """Updates of the whole stream."""
        return len(self.stream) * self.config.episodes // self.config.episodes_per_update

    def restore(self, saved: Checkpoint) -> None:
        """Continue where the checkpoint was written."""
        self.policy.load_state_dict(saved.policy)
        self.learner.restore(saved.learner)
        self._actions.set_state(saved.random["actions"])
        self.updates = saved.iteration - self.start.iteration
        rows = read_csv(self.folder / "progress.csv")
        self.progress = rows[: self.updates * self.config.episodes_per_update]

    def checkpoint(self) -> Checkpoint:
        """The policy as it is now, in the surroundings that it last worked in."""
        done = max(self.updates - 1, 0) * self.config.episodes_per_update
        phase = self.stream[done // self.config.episodes]
        return replace(
            self.start,
            config=replace(self.learner.config, scenario=phase.problem.scenario),
            trace=phase.trace,
            unit=phase.problem.sampler.unit.tolist(),
            policy=self.policy.state_dict(),
            learner=self.learner.state(),
            random={"actions": self._actions.get_state()},
            iteration=self.start.iteration + self.updates,
        )

    def run(self, stop_after: int | None = None) -> str:
        """Play and learn to the end of the stream; returns "finished", "stopped" (`stop_after` updates) or a signal."""
        end = self.total if stop_after is None else min(self.total, self.updates + stop_after)
        bar = tqdm(total=self.total, initial=self.updates, unit="update", desc="learning online", disable=None)
        with bar, collect_signals() as received:
            while self.updates < end and not received:
                self.step()
                bar.set_postfix(reward=f"{float(self.progress[-1]['reward']):.4g}", refresh=False)
                bar.update()
                if self.updates % self.config.save_every == 0:
                    self.save()
            self.save()
        if received:
            return str(received[0])
        return "finished" if self.updates >= self.total else "stopped"

    def step(self) -> None:
        """Play the next episodes of the stream, then learn from them."""
        config, first = self.config, self.updates * self.config.episodes_per_update
        place, sequence = divmod(first, config.episodes)
        problem, envs, device = self.stream[place].problem, self._envs[place], self.start.config.device
        chosen = np.arange(sequence, sequence + config.episodes_per_update)
        how = self._actions if config.explore else Decisive(envs.num_envs, len(problem.machines))
        played = play(self.policy, envs, chosen, how, device)
        steps = self._learn(played, first) if config.learning_rate else {}
        weights, per = problem.scenario.penalty_weights(), problem.scenario.overshoot_per
        for b in range(envs.num_envs):
            scores = score_episode(envs.simulation.record(b), problem.machines, weights, per)
            where = {"phase": place, "episode": first + b}
            self.progress.append(where | scores | {"scheduler": ONLINE} | steps)
        self.updates += 1

    def _learn(self, played: Trajectories, first: int) -> dict[str, float]:
        good = deepcopy((self.policy.state_dict(), self.learner.state()))
        steps = self.learner.update(played, 0, self._actions)
        if not np.isfinite(steps["gradient_norm"]):
            self.policy.load_state_dict(good[0])
            self.learner.restore(good[1])
            self.save()
            raise InputError(
                f"the gradient is {steps['gradient_norm']} in the update after episode {first}: lower --learning-rate; "
                f"the last good state is in {self.folder / 'checkpoints' / 'last.pt'}"
            )
        return steps

    def _environments(self, phase: Phase) -> PlacementVectorEnv:
        problem, batch = phase.problem, self.config.episodes_per_update
        both = (problem.machines, problem.scenario, "Disabled")
        return PlacementVectorEnv(batch, phase.sequences, *both, copy=False, max_slots=0)

    def save(self) -> None:
        """Write progress.csv, then checkpoints/last.pt, which says how much of it counts."""
        write_csv(self.folder / "progress.csv", self.progress)
        self.checkpoint().save(self.folder / "checkpoints" / "last.pt")

    def facts(self) -> dict[str, Any]:
        """What run.json keeps for resumption."""
        phases = [{"trace": p.trace, "load": p.problem.scenario.load} for p in self.stream]
        return {"online": asdict(self.config), "phases": phases}


def play_frozen(
    start: Checkpoint, stream: Sequence[Phase], config: OnlineConfig, explore: bool
) -> list[dict[str, Any]]:
    """Rows as `OnlineLearner.progress`, of the policy as it is in the checkpoint."""
    batch = math.gcd(config.episodes, AT_ONCE)
    still = replace(config, learning_rate=0.0, explore=explore, episodes_per_update=batch)
    frozen = OnlineLearner(start, stream, still, Path())
    while frozen.updates < frozen.total:
        frozen.step()
    return frozen.progress
