"""Online learning (paper, Algorithm 1): a pretrained policy keeps learning from the workloads that it places.

A stream is a series of phases, each with its own arrival sequences. One policy serves several clusters side by side,
one episode in each at a time. Every sequence is played once, and after each episode the policy learns from the latest
ones. Classes and forecasts of running workloads are predicted anew in every slot, by models that stay as they were
fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from tvwrl.agents.acting import DeterministicActions
from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.episodes import Diverged, Trajectories, play
from tvwrl.agents.networks import check_device
from tvwrl.agents.online_config import OnlineConfig
from tvwrl.agents.policy_gradient import check_update, restored_on_divergence
from tvwrl.agents.training import LEARNERS, collect_signals
from tvwrl.envs import PlacementVectorEnv, Problem
from tvwrl.runs import read_csv, write_csv
from tvwrl.types import InputError, SequenceSet

STREAM = 2**32  # offset of the seeds of arrivals from those of training and evaluation
ONLINE = "online"  # the policy's name in rows


@dataclass(frozen=True, eq=False)
class Phase:
    """A part of the stream: its problem and its arrival sequences."""

    problem: Problem
    trace: dict[str, Any]  # as a checkpoint names it
    sequences: SequenceSet

    @property
    def name(self) -> str:
        """Trace and load, for display."""
        return f"{self.problem.trace.name}, load {self.problem.scenario.load:g}"

    @classmethod
    def draw(cls, problem: Problem, trace: dict[str, Any], place: int, config: OnlineConfig) -> Phase:
        """The phase at `place` (0 = first) of the stream of the config's seed."""
        seed = STREAM * (place + 1) + config.seed
        count = config.after if place else config.before
        return cls(problem, trace, problem.sequences(config.series, count, seed))


class OnlineLearner:
    """A pretrained policy on a stream, in a folder: `checkpoints/last.pt`, `progress.csv` (a row per episode).

    Raises InputError for a checkpoint of another algorithm than ppo and counterfactual: online, no sequence repeats.
    """

    def __init__(self, start: Checkpoint, stream: Sequence[Phase], config: OnlineConfig, folder: Path) -> None:
        trained, able = start.config, ("counterfactual", "ppo")
        if trained.algo not in able or trained.policy == "deeprm":
            raise InputError(
                f"the checkpoint was trained by {trained.algo} (policy {trained.policy}), which cannot learn online, "
                f"where no sequence repeats: train with algo {' or '.join(able)}"
            )
        check_device(start.config.device)
        torch.set_num_threads(start.config.threads)
        self.start, self.stream, self.config, self.folder = start, stream, config, folder
        self.policy = start.make_policy().to(start.config.device)
        self.learner = LEARNERS[start.config.algo](self.policy, config.applied_to(start.config))
        self.learner.restore(deepcopy(start.learner))  # Adam updates the tensors that it is given in place
        self.updates = 0
        self.progress: list[dict[str, Any]] = []
        self._recent: list[Trajectories] = []
        self._actions = torch.Generator().manual_seed(config.seed)
        self._envs = [environments(phase, config.clusters) for phase in stream]
        self._todo = list(rounds(stream, config.clusters))

    @property
    def total(self) -> int:
        """Updates of the whole stream."""
        return len(self._todo)

    def restore(self, saved: Checkpoint) -> None:
        """Continue where the checkpoint was written."""
        self.policy.load_state_dict(saved.policy)
        self.learner.restore(saved.learner)
        self._actions.set_state(saved.random["actions"])
        self._recent = [Trajectories.unpack(kept) for kept in saved.learner["recent"]]
        self.updates = saved.iteration - self.start.iteration
        self.progress = read_csv(self.folder / "progress.csv")[: self.updates * self.config.clusters]

    def checkpoint(self) -> Checkpoint:
        """The current policy, with the problem of the latest phase."""
        phase = self.stream[self._todo[max(self.updates - 1, 0)][0]]
        return replace(
            self.start,
            config=replace(self.learner.config, scenario=phase.problem.scenario),
            trace=phase.trace,
            unit=phase.problem.sampler.unit.tolist(),
            policy=self.policy.state_dict(),
            learner=self.learner.state() | {"recent": [kept.pack() for kept in self._recent]},
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
                latest = [float(row["reward"] or "nan") for row in self.progress[-self.config.clusters :]]
                bar.set_postfix(reward=f"{np.mean(latest):.4g}", refresh=False)
                bar.update()
                if self.updates % self.config.save_every == 0:
                    self.save()
            self.save()
        if received:
            return str(received[0])
        return "finished" if self.updates >= self.total else "stopped"

    def step(self) -> None:
        """Play the next episode of every cluster, then learn."""
        place, chosen = self._todo[self.updates]
        phase, envs = self.stream[place], self._envs[place]
        most_probable = DeterministicActions(envs.num_envs, envs.simulation.placements)
        how = self._actions if self.config.explore else most_probable
        if learns := self.config.learning_rate > 0:
            played = self.learner.play(envs, chosen, how)
        else:  # without what only learning needs, such as the costs of other actions
            play(self.policy, envs, chosen, how, self.start.config.device)
        scores = score(envs, phase)
        steps = self._learn(played) if learns else {}
        for row in scores:
            where = {"phase": place, "episode": len(self.progress)}
            self.progress.append(where | row | {"scheduler": ONLINE} | steps)
        self.updates += 1

    def _learn(self, played: Trajectories) -> dict[str, float]:
        recent = [*self._recent, played][-self.config.recent :]
        try:
            with restored_on_divergence(self.policy, self.learner):
                # Older episodes are reused as PPO reuses a batch: the ratio to the policy that played them is clipped
                steps = self.learner.update(Trajectories.concatenate(recent), 0, self._actions)
                check_update(steps, self.learner.weights())
        except Diverged as trouble:
            self.save()
            raise InputError(
                f"{trouble} in the update after episode {len(self.progress)}: lower learning_rate; "
                f"the last good state is in {self.folder / 'checkpoints' / 'last.pt'}"
            ) from None
        self._recent = recent
        return steps

    def save(self) -> None:
        """Write progress.csv, then checkpoints/last.pt, which says how much of it counts."""
        write_csv(self.folder / "progress.csv", self.progress)
        self.checkpoint().save(self.folder / "checkpoints" / "last.pt")

    def facts(self) -> dict[str, Any]:
        """Settings that run.json keeps for resumption."""
        phases = [{"trace": p.trace, "load": p.problem.scenario.load} for p in self.stream]
        return {"online": asdict(self.config), "phases": phases}


def environments(phase: Phase, batch: int) -> PlacementVectorEnv:
    """`batch` environments on the sequences of the phase, never truncated."""
    machines, scenario = phase.problem.machines, phase.problem.scenario
    return PlacementVectorEnv(batch, phase.sequences, machines, scenario, "Disabled", copy=False, max_slots=0)


def rounds(stream: Sequence[Phase], clusters: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Phase and sequences (clusters,) of every round of episodes in the stream."""
    for place, phase in enumerate(stream):
        for first in range(0, len(phase.sequences), clusters):
            yield place, np.arange(first, first + clusters)


def score(envs: PlacementVectorEnv, phase: Phase) -> list[dict[str, Any]]:
    """The referee's scores of the episode that each environment has just ended."""
    return [phase.problem.score(envs.simulation.record(b)) for b in range(envs.num_envs)]


def play_frozen(
    start: Checkpoint, stream: Sequence[Phase], config: OnlineConfig, explore: bool
) -> list[dict[str, Any]]:
    """Rows as in `OnlineLearner.progress` for the checkpoint's policy without further learning."""
    policy = start.make_policy().to(start.config.device)
    actions = torch.Generator().manual_seed(config.seed)
    rows: list[dict[str, Any]] = []
    envs = [environments(phase, config.clusters) for phase in stream]
    for place, chosen in rounds(stream, config.clusters):
        how = actions if explore else DeterministicActions(config.clusters, envs[place].simulation.placements)
        play(policy, envs[place], chosen, how, start.config.device)
        rows += [
            {"phase": place, "episode": len(rows) + b} | row for b, row in enumerate(score(envs[place], stream[place]))
        ]
    return rows
