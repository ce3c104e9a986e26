"""A trained policy as a scheduler: its deterministic action."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, softmax

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.deeprm.scheduler import DeepRM
from tvwrl.agents.episodes import DeterministicActions, logits_of
from tvwrl.agents.networks import check_device, shapes_of
from tvwrl.agents.policy_continuation import ByPolicy
from tvwrl.envs.base import action_masks
from tvwrl.schedulers.base import Opinion, Scheduler
from tvwrl.schedulers.knowledge import knowledge_of
from tvwrl.schedulers.planning.continuation import Continuation
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Int, Placement, Workload

# Scenario fields that change observations or actions; forecasts and peaks have the same width but differ in meaning
# fmt: off
SHOWN = (
    "observe_request", "observe_demand", "observe_forecast", "observe_peak", "hold_action", "choose_from_queue",
)
# fmt: on


class PolicyScheduler(Scheduler):
    """Places with the policy of a checkpoint, which observes what the environment shows and nothing else."""

    looks_at_grid = True

    def __init__(self, name: str, checkpoint: Checkpoint, device: str = "cpu") -> None:
        self.name, self._device, self.checkpoint = name, device, checkpoint
        self.knowledge = knowledge_of(checkpoint.config.scenario)
        self.needs_forecasts = checkpoint.config.scenario.observe_forecast
        self._trained = environment_signature(checkpoint.shapes, checkpoint.config.scenario)
        if checkpoint.config.policy != "flat":
            del self._trained["machines"]
        check_device(device)
        self._policy = checkpoint.make_policy().to(device).eval()

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode. Raises InputError if the cluster differs from what the policy was trained on."""
        self._deterministic = DeterministicActions(1, cluster.simulation.placements)
        found = environment_signature(shapes_of(cluster.simulation), cluster.simulation.scenario)
        for field, expected in self._trained.items():
            if expected != found[field]:
                raise InputError(f"checkpoint '{self.name}' was trained with {field} {expected}, not {found[field]}")

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """One placement, or none if the policy holds; the runner asks again with the updated queue."""
        action = int(self._deterministic.choose(self._logits(cluster))[0])
        if action < cluster.simulation.placements:
            place, machine = divmod(action, len(cluster.machines))
            yield Placement(pending[place], machine)

    def alternatives(self, cluster: Cluster, waiting: Sequence[Workload], choice: Placement, count: int) -> Int:
        """See `Scheduler.alternatives`: the machines with room now in order of probability."""
        queue, machines = cluster.simulation.waiting(cluster.b).tolist(), len(cluster.machines)
        place = queue.index(choice.workload.index)
        logits = self._logits(cluster)[0, place * machines :][:machines].cpu().numpy()
        takes = cluster.room_now(choice.workload) & cluster.capacity.any(axis=1)
        takes[choice.machine] = False
        others = [m for m in np.argsort(-logits, kind="stable") if takes[m]]
        return np.array([choice.machine, *others[: count - 1]], dtype=np.int64)

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion:
        """See `Scheduler.opinion`: probabilities of the machines, and of holding where the policy may."""
        count, placements = len(cluster.machines), cluster.simulation.placements
        place = cluster.simulation.waiting(cluster.b).tolist().index(workload.index)
        probability = softmax(self._logits(cluster)[0].double(), dim=0).cpu().numpy()
        allowed = action_masks(cluster.simulation)[cluster.b, place * count :][:count]
        return Opinion(
            allowed, np.append(probability[place * count :][:count], probability[placements:].sum()), "probability"
        )

    @property
    def held(self) -> float:
        """What it remembers of having held the workloads that wait; see `DeterministicActions`."""
        return float(self._deterministic.held[0])

    def fork(self) -> PolicyScheduler:
        """See `Scheduler.fork`; both share the network, which does not change."""
        other = copy.copy(self)
        other._deterministic = copy.deepcopy(self._deterministic)
        return other

    def continuation(self, runner: Runner, actions: int) -> Continuation:
        """See `Scheduler.continuation`."""
        return ByPolicy(runner, self._policy, self._device)

    def _logits(self, cluster: Cluster) -> Tensor:
        """(1, actions), `FORBIDDEN` for actions that may not be chosen."""
        mask = action_masks(cluster.simulation)[cluster.b : cluster.b + 1]
        return logits_of(self._policy, cluster.observation(), mask, self._device)[0]


def environment_signature(shapes: dict[str, Any], scenario: Scenario) -> dict[str, Any]:
    """What must be the same in the environments that a policy is trained and used in; `shapes`: see `shapes_of`."""
    machines, resources, history, columns = shapes["grid"]
    return {
        "machines": machines,
        "resources": resources,
        "history": history,
        "capacity": columns,
        "queue": shapes["queue"][0],
        "classes": shapes["classes"],
        "peak_units": shapes["peak_units"],
        **{name: getattr(scenario, name) for name in SHOWN},
        "queue features": shapes["queue"][1],
    }


def load_policy(run: str | Path, checkpoint: Checkpoint | None = None, device: str = "cpu") -> PolicyScheduler | DeepRM:
    """The policy of a training run as a scheduler, named after the run.

    `run`: its folder, of which the best checkpoint is taken, or the last if none is best yet; or a .pt file
    `checkpoint`: that of the run, if it is loaded already
    `device`: of PyTorch: cpu, cuda, cuda:1

    Raises InputError for a run that is missing, a file that is damaged or no checkpoint, and an unknown device.

    >>> policy = load_policy("runs/google")  # doctest: +SKIP
    >>> policy.knowledge.group  # doctest: +SKIP
    'demand forecasts'
    """
    run = Path(run).resolve()
    checkpoint = Checkpoint.load(find_checkpoint(run)) if checkpoint is None else checkpoint
    folder = run.parent.parent if run.is_file() and run.parent.name == "checkpoints" else run
    make = DeepRM if checkpoint.config.policy == "deeprm" else PolicyScheduler
    return make(folder.stem if folder.is_file() else folder.name, checkpoint, device)
