"""Where the initial policy comes from: the best of the rules that could be built in, the policy of another run, or
imitation: the policy learns to place like a scheduler, from its own observations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.networks import Encoded, Observation, Policy
from tvwrl.agents.observing import environment_signature
from tvwrl.envs import Problem, action_masks
from tvwrl.progress import Report
from tvwrl.schedulers import Backfill, CompiledRule, HeadOfQueue, Runner, Scheduler, make_scheduler
from tvwrl.simulation import GOING, OVER, SLOT, SLOTS, Cluster, Simulation
from tvwrl.types import InputError, Placement, SequenceSet, Workload

SEQUENCES = 100  # training sequences that the rules play, and as many validation sequences


def with_starting_rule(config: TrainConfig, problem: Problem, report: Report) -> TrainConfig:
    """The configuration with a teacher and a base policy: the best of `config.starting_rules`.

    The best has the highest mean reward on training and validation sequences together, as rules learn nothing from
    either. Unchanged if there is no choice.
    """
    if config.start_from and not config.teacher:  # the rule built into that policy
        start = Checkpoint.load(find_checkpoint(Path(config.start_from))).config
        return replace(config, teacher=start.built_in or start.teacher or "best-fit-peak")
    rules = config.starting_rules
    if len(rules) < 2:
        return config
    drawn = [problem.sequences(part, SEQUENCES, config.seed, config.train_loads) for part in ("train", "validation")]
    costs = {rule: sum(_cost(problem, config, rule, sequences) for sequences in drawn) / len(drawn) for rule in rules}
    best = min(costs, key=lambda rule: costs[rule])
    shown = ", ".join(f"{rule} {-cost / 1000:.1f}" for rule, cost in costs.items())
    report(f"mean rewards of rules on {len(drawn) * SEQUENCES} training and validation sequences, thousands: {shown}")
    return replace(config, teacher=best, base_policy=config.base_policy or best)


def labels_of_start(config: TrainConfig) -> int | None:
    """The number of classes that the policy of `config.start_from` knows; None if it looks at none."""
    found: int | None = Checkpoint.load(find_checkpoint(Path(config.start_from))).shapes.get("classes")
    return found


def check_start(config: TrainConfig, resources: Sequence[str], labels: int | None) -> None:
    """Raise InputError unless the policy of `config.start_from` sees, and chooses from, what training shows.

    `labels`: the number of classes; None: as many as the policy knows
    """
    saved = Checkpoint.load(find_checkpoint(Path(config.start_from)))
    scenario, before = config.scenario, saved.config
    trained: dict[str, Any] = {
        "policy": before.policy,
        "hidden": before.hidden,
        "resources": ", ".join(saved.resources),
    }
    found: dict[str, Any] = {"policy": config.policy, "hidden": config.hidden, "resources": ", ".join(resources)}
    if "grid" in saved.shapes and found == trained:
        capacity = scenario.cluster(tuple(resources)).capacity
        shapes = saved.shapes | {
            "grid": [*capacity.shape, scenario.history, int(capacity.max())],
            "queue": [scenario.queue, saved.shapes["queue"][1]],
            "classes": saved.shapes["classes"] if labels is None else labels,
            "peak_units": scenario.peak_units,
        }
        trained = environment_signature(saved.shapes, before.scenario)
        found = environment_signature(shapes, scenario)
        if config.policy == "shared":
            del found["machines"]
    for field, value in found.items():
        if value != trained[field]:
            raise InputError(
                f"start_from is {config.start_from}: its policy was trained with {field} {trained[field]}, not "
                f"{value}; use the options that it was trained with"
            )


def _cost(problem: Problem, config: TrainConfig, rule: str, sequences: SequenceSet) -> float:
    """Mean cost of an episode of the rule."""
    count = len(sequences)
    simulation = Simulation(
        sequences, problem.machines, config.scenario, count, grid=False, forecasts=True, max_slots=0
    )
    simulation.reset(np.arange(count))
    compiled, state, cost = CompiledRule(simulation, rule), simulation.state, 0.0
    # If never idle while workloads wait, it is done when they could all have run one after another
    latest, over = int(sequences.arrival.max() + sequences.length.sum(axis=1).max()), state.counters[:, OVER]
    while (going := np.flatnonzero((over == GOING) & (state.counters[:, SLOT] <= latest))).size:
        actions = np.full(count, simulation.placements)
        actions[going] = compiled.choices(going)
        simulation.step(actions)
        cost += float(state.totals[going, :SLOTS].sum())
    return cost / count


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
