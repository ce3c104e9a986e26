"""Imitation learning: the policy learns to place like a heuristic scheduler, from its own observations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.networks import Encoded, Observation, Policy
from tvwrl.envs import Problem, action_masks
from tvwrl.schedulers import Backfill, HeadOfQueue, Runner, Scheduler, make_scheduler
from tvwrl.simulation import Cluster
from tvwrl.types import Placement, Workload

STEPS, MINIBATCH = 200, 256


class RecordedTeacher(Scheduler):
    """Places as `teacher` does and records, for each decision, what a policy would observe and its action.

    A teacher is shown what the policy may choose from: the head of the queue, or all visible workloads.
    """

    looks_at_grid = True

    def __init__(self, teacher: Scheduler, forecasts: bool) -> None:
        self.name, self.knowledge, self._teacher = teacher.name, teacher.knowledge, teacher
        self.needs_forecasts = forecasts or teacher.needs_forecasts
        self.seen: list[Observation] = []
        self.masks: list[np.ndarray] = []
        self.actions: list[int] = []

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare the teacher for a new episode."""
        self._teacher.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """One placement, or none; the runner asks again. Waiting is recorded only where a policy may hold."""
        seen = {name: part.copy() for name, part in cluster.observation().items()}
        mask, simulation = action_masks(cluster.simulation)[cluster.b], cluster.simulation
        offered = pending[: simulation.scenario.places]
        placement, action = next(iter(self._teacher.schedule(cluster, offered)), None), simulation.placements
        if placement is not None:
            place = next(q for q, workload in enumerate(offered) if workload is placement.workload)
            action = place * len(cluster.machines) + placement.machine
        if action < len(mask) and mask[action]:
            self.seen.append(seen)
            self.masks.append(mask)
            self.actions.append(action)
        if placement is not None:
            yield placement


def imitate(policy: Policy, problem: Problem, config: TrainConfig) -> float:
    """Train `policy` to make the choices of scheduler `config.imitates`; returns the share of choices that then agree.

    The scheduler plays `config.imitate` training sequences. It may know more than the policy (peaks, the future); the
    policy then learns its average choice given the policy's own observations. Machines that look the same count as the
    same choice. For a policy that chooses from the queue, a scheduler that serves its head places the first visible
    workload that it can (`Backfill`).
    """
    teacher = make_scheduler(config.imitates)
    if config.scenario.choose_from_queue and isinstance(teacher, HeadOfQueue):
        teacher = Backfill(teacher)
    sequences = problem.sequences("train", config.imitate, config.seed, config.train_loads)
    recorded = RecordedTeacher(teacher, config.scenario.observe_forecast)
    runner = Runner(sequences, problem.machines, config.scenario, config.seed)
    for i in range(len(sequences)):
        runner.play(recorded, i)
    stacked = {name: np.concatenate([seen[name] for seen in recorded.seen]) for name in recorded.seen[0]}
    encoded = policy.encode(stacked) | {"mask": torch.from_numpy(np.array(recorded.masks))}
    good = _equally_good(encoded, torch.tensor(recorded.actions))
    optimiser = torch.optim.Adam(policy.parameters(), lr=config.imitation_rate)
    rng = torch.Generator().manual_seed(config.seed)
    for _ in range(STEPS):
        part = torch.randint(len(good), (MINIBATCH,), generator=rng)
        logits = policy.logits({name: rows[part].to(config.device) for name, rows in encoded.items()})
        chance = (torch.softmax(logits, dim=1) * good[part].to(config.device)).sum(dim=1)
        optimiser.zero_grad()
        (-torch.log(chance + 1e-6).mean()).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        best = policy.logits({name: rows.to(config.device) for name, rows in encoded.items()}).argmax(dim=1).cpu()
    return float(good[torch.arange(len(good)), best].float().mean())


def _equally_good(encoded: Encoded, actions: torch.Tensor) -> torch.Tensor:
    """(n, actions) bool: the chosen action, and machines that look the same to that workload as the chosen one."""
    good = torch.nn.functional.one_hot(actions, encoded["mask"].shape[1]).bool()
    if "machines" in encoded:
        every, look = torch.arange(len(actions)), encoded["machines"]
        machines, places = look.shape[1], encoded["places"].shape[1] if "places" in encoded else 1
        placed = actions < places * machines
        place, machine = actions.clamp(max=places * machines - 1) // machines, actions % machines
        if "pairs" in encoded:
            look = torch.cat([look, encoded["pairs"][every, place]], dim=2)
        same = (look == look[every, machine][:, None]).all(dim=2) & placed[:, None]
        good[:, : places * machines].view(-1, places, machines)[every, place] |= same
    return good & encoded["mask"]
