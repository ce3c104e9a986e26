"""DeepRM as a scheduler: the network draws a waiting workload, best fit on peaks chooses its machine."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.deeprm.environment import Seen, observation
from tvwrl.agents.episodes import logits_of
from tvwrl.agents.networks import check_device
from tvwrl.schedulers import LEARNT_PEAKS_AND_LENGTHS, Opinion, Scheduler, make_scheduler
from tvwrl.simulation import Cluster
from tvwrl.types import InputError, Int, Placement, Workload

HOW_TO_TRAIN = "train it with 'tvwrl train --policy deeprm --out runs/deeprm', then write deeprm=runs/deeprm"


class DeepRM(Scheduler):
    """{DeepRM + Best-Fit} of the paper, "Baselines". Actions are drawn from the policy, as its published code does.

    If the drawn workload fits no single machine, although it may fit the cluster as a whole, the slot ends: this is how
    fragmentation makes DeepRM wait. The void action ends the slot as well.
    """

    knowledge = LEARNT_PEAKS_AND_LENGTHS

    def __init__(self, name: str, checkpoint: Checkpoint, device: str = "cpu") -> None:
        check_device(device)
        self.name, self._shapes, self._device = name, checkpoint.shapes, device
        self._policy = checkpoint.make_policy().to(device).eval()
        self._placer = make_scheduler("best-fit-peak")

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Take the episode's random stream. Raises InputError for a queue or resources of another number."""
        self._rng, self._ended = rng, -1
        theirs = (cluster.simulation.scenario.queue, cluster.capacity.shape[1])
        ours = (self._shapes["queue"][0], self._shapes["cluster"][1])
        for field, expected, found in zip(("queue", "resources"), ours, theirs, strict=True):
            if expected != found:
                raise InputError(f"checkpoint '{self.name}' was trained with {field} {expected}, not {found}")

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """One placement, or none, which ends the slot; the runner asks again with the updated queue."""
        if self._ended == cluster.slot:
            return
        anything = np.ones((1, self._shapes["actions"]), np.bool_)
        logits = logits_of(self._policy, self._see(cluster, pending), anything, self._device)[0][0].double()
        place = int(self._rng.choice(len(logits), p=logits.softmax(0).cpu().numpy()))
        placements = list(self._placer.schedule(cluster, pending[place : place + 1]))
        if not placements:
            self._ended = cluster.slot
        yield from placements

    def alternatives(self, cluster: Cluster, waiting: Sequence[Workload], choice: Placement, count: int) -> Int:
        """See `Scheduler.alternatives`; best fit ranks the machines."""
        return self._placer.alternatives(cluster, waiting, choice, count)

    def fork(self) -> DeepRM:
        """See `Scheduler.fork`; both share the network, which does not change."""
        other = copy.copy(self)
        other._rng = copy.deepcopy(self._rng)
        return other

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        """See `Scheduler.opinion`; best fit chooses the machine."""
        return self._placer.opinion(cluster, workload)

    def _see(self, cluster: Cluster, pending: Sequence[Workload]) -> Seen:
        """The observation of `DeepRMVectorEnv` for a cluster of several machines."""
        places, features = self._shapes["queue"]
        queue = np.zeros((places, features))
        for q, workload in enumerate(pending):
            queue[q] = [*workload.peak, workload.length]
        ahead = cluster.reserved_ahead(self._shapes["cluster"][0])
        backlog = [[max(cluster.waiting - places, 0)]]
        return observation(ahead[None], queue[None], np.array(backlog), cluster.machines)


def load_deeprm(run: str, device: str = "cpu") -> DeepRM:
    """The scheduler `deeprm` with the weights of `run`, a folder or .pt file, on a `device` of PyTorch.

    Raises InputError if they are missing or another policy's.
    """
    if not run:
        raise InputError(f"scheduler 'deeprm' is learnt and needs its weights: {HOW_TO_TRAIN}")
    try:
        saved = Checkpoint.load(find_checkpoint(Path(run)))
    except InputError as error:
        raise InputError(f"deeprm={run}: {error}; {HOW_TO_TRAIN}") from None
    if saved.config.policy != "deeprm":
        raise InputError(f"deeprm={run}: that run trained the policy '{saved.config.policy}'; {HOW_TO_TRAIN}")
    return DeepRM("deeprm", saved, device)
