"""DeepRM's environment: the cluster is one machine, workloads need their peak throughout, durations are known."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.episodes import logits_of
from tvwrl.agents.networks import check_device
from tvwrl.checks import at_least
from tvwrl.compiled import njit
from tvwrl.envs import check_actions, check_options, check_sequence
from tvwrl.packing import exceeds
from tvwrl.schedulers import LEARNT_PEAKS_AND_LENGTHS, Opinion, Scheduler, make_scheduler
from tvwrl.simulation import (
    GOING,
    LENGTH,
    OVER,
    RUNNING,
    RUNS,
    SEQUENCE,
    SLOT,
    SLOTS,
    TERMINATED,
    TRUNCATED,
    WAITING,
    WAITS,
    Cluster,
    Scenario,
    Simulation,
    State,
    begin,
    may_place_more,
    place,
    tick,
)
from tvwrl.types import Float, Float32, InputError, Int, Machines, Placement, SequenceSet, Workload

SLOWDOWN, UNUSED = range(2)  # columns of `terms`


class SeenArrays(NamedTuple):
    """Observations of B environments, in units and slots."""

    cluster: Float32  # (B, T, D) units reserved in the current slot and the T - 1 after it
    queue: Float32  # (B, Q, D + 1) peak and duration of the first Q waiting workloads, 0 = empty place
    backlog: Float32  # (B, 1) waiting beyond Q


@njit(inline="always", _nrt=False)
def _fits(s: State, b: int, w: int) -> bool:
    """Whether the peak of w fits in the current slot, and so for its whole life, as reservations only end."""
    row = s.counters[b, SLOT] % s.load.shape[2]
    for d in range(s.capacity.shape[1]):
        if exceeds(float(s.load[b, 0, row, d]) + float(s.demand[s.counters[b, SEQUENCE], w, 0, d]), s.capacity[0, d]):
            return False
    return True


@njit(inline="always", _nrt=False)
def _charge(s: State, b: int, terms: Float) -> None:
    """Add the current slot's terms: 1 / duration of all in the system, and the unused share of the cluster."""
    sequence = s.counters[b, SEQUENCE]
    for i in range(s.counters[b, RUNNING]):
        terms[b, SLOWDOWN] += 1.0 / s.timing[sequence, s.workloads[b, i, RUNS], LENGTH]
    for i in range(s.counters[b, WAITING]):
        terms[b, SLOWDOWN] += 1.0 / s.timing[sequence, s.workloads[b, i, WAITS], LENGTH]
    row, resources = s.counters[b, SLOT] % s.load.shape[2], s.capacity.shape[1]
    for d in range(resources):
        terms[b, UNUSED] += (1.0 - float(s.load[b, 0, row, d]) / s.capacity[0, d]) / resources


@njit(inline="always", _nrt=False)
def _observe(s: State, b: int, seen: SeenArrays) -> None:
    """Write the observation of environment b."""
    sequence, slot, waiting = s.counters[b, SEQUENCE], s.counters[b, SLOT], s.counters[b, WAITING]
    resources, horizon, places = s.capacity.shape[1], s.load.shape[2], seen.queue.shape[1]
    for ahead in range(seen.cluster.shape[1]):
        for d in range(resources):
            reserved = s.load[b, 0, (slot + ahead) % horizon, d] if ahead < horizon else 0
            seen.cluster[b, ahead, d] = reserved
    for q in range(places):
        w = s.workloads[b, q, WAITS] if q < waiting else 0
        for d in range(resources):
            seen.queue[b, q, d] = s.demand[sequence, w, 0, d] if q < waiting else 0
        seen.queue[b, q, resources] = s.timing[sequence, w, LENGTH] if q < waiting else 0
    seen.backlog[b, 0] = max(waiting - places, 0)


@njit(_nrt=False)
def drive(s: State, seen: SeenArrays, terms: Float, resets: bool, argument: Int) -> None:
    """Apply one decision in every environment, or with `resets` begin an episode, then write the observations.

    `s`: `State` of a simulation in which the cluster is one machine and workloads need their peak throughout
    `seen`: (output) observations
    `terms`: (output, (B, 2)) unweighted cost terms of the slots passed
    `resets`: whether `argument` (B,) holds sequences; otherwise places in the queue, of which Q, an empty one and one
        whose workload does not fit end the slot

    An environment whose episode is over stands still.
    """
    for b in range(len(argument)):
        terms[b] = 0.0
        s.totals[b] = 0.0
        decision_due = False
        if resets:
            begin(s, b, argument[b])
        elif s.counters[b, OVER] != GOING:
            decision_due = True
        else:
            q = argument[b]
            valid = q < seen.queue.shape[1] and q < s.counters[b, WAITING]
            if valid and _fits(s, b, s.workloads[b, q, WAITS]):
                place(s, b, q, 0)
                decision_due = may_place_more(s, b)
        while not decision_due:  # the only call of `tick`, because each inlined copy takes seconds to compile
            if not resets:
                _charge(s, b, terms)
            decision_due = tick(s, b)
        if resets:
            s.totals[b] = 0.0  # nothing could wait or run yet
        _observe(s, b, seen)


Seen = dict[str, npt.NDArray[np.float32]]


class DeepRMVectorEnv:
    """B environments in which an agent chooses the next workload; paper, "Baselines": DeepRM's inputs, state, rewards.

    Action: 0..Q-1 starts the workload at that place of the queue, Q (void) lets the slot end. An empty place, or a
    workload whose peak exceeds what is left of the cluster, is void too. Several may start in a slot, up to
    `placements_per_slot`. A step is one decision; the clock runs on while no workload waits.

    Observation: see `observation`. Reward per slot: minus `slowdown`, the sum of 1 / duration over all workloads that
    wait or run (Mao et al. 2016, Section 3.2), minus `unused`, the unreserved share of the cluster's resources times
    `unused_weight` (the paper's modification; its weight is not given). `info` has both terms (B,) and `slots` (B,).
    """

    terms: tuple[str, ...] = ("slowdown", "unused")

    def __init__(
        self,
        num_envs: int,
        sequences: SequenceSet,
        machines: Machines,
        scenario: Scenario,
        slots_ahead: int,
        unused_weight: float,
        max_slots: int | None = None,
    ) -> None:
        at_least(1, slots_ahead=slots_ahead)
        whole = Machines(machines.capacity.sum(axis=0, keepdims=True), machines.resources)
        hidden = dict.fromkeys(("observe_request", "observe_demand", "observe_forecast", "observe_peak"), False)
        # It sees only reservations, which are never late
        plain = replace(scenario, K_c=0.0, K_u=0.0, K_o=0.0, K_w=0.0, usage_delay=0, **hidden)  # type: ignore[arg-type]
        self.simulation = Simulation(_at_peaks(sequences), whole, plain, num_envs, grid=False, max_slots=max_slots)
        self.num_envs, self.machines = num_envs, machines
        resources, places = len(machines.resources), scenario.queue
        self.shapes: dict[str, Any] = {
            "cluster": [slots_ahead, resources],
            "queue": [places, resources + 1],
            "actions": places + 1,
        }
        self._seen = SeenArrays(
            cluster=np.zeros((num_envs, slots_ahead, resources), np.float32),
            queue=np.zeros((num_envs, places, resources + 1), np.float32),
            backlog=np.zeros((num_envs, 1), np.float32),
        )
        self._terms, self._weights = np.zeros((num_envs, 2)), np.array([1.0, unused_weight])

    def reset(self, *, options: dict[str, Any]) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode in every environment, on the sequences (B,) of `options["sequence"]`."""
        chosen = check_sequence(self.simulation, check_options(options, "sequence")["sequence"])
        if chosen.min() < 0:  # nothing is drawn at random here
            last = len(self.simulation.sequences) - 1
            raise InputError(f"options['sequence'] is {chosen.tolist()}: must be 0 to {last}")
        drive(self.simulation.state, self._seen, self._terms, True, chosen)
        return self._observation(), self._info()

    def step(
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[Seen, Float, npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """One decision (B,) in every environment: observation, reward, terminated, truncated, info."""
        actions = check_actions(actions, self.num_envs, self.shapes["actions"])
        drive(self.simulation.state, self._seen, self._terms, False, actions)
        over = self.simulation.state.counters[:, OVER]
        info = self._info()
        reward = -(info["slowdown"] + info["unused"])
        return self._observation(), reward, over == TERMINATED, over == TRUNCATED, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """(B, Q + 1) all actions are allowed; those that cannot start a workload are void."""
        return np.ones((self.num_envs, self.shapes["actions"]), np.bool_)

    def costs(self) -> Float:
        """(B, 2) the terms since the last decision."""
        costs: Float = self._terms * self._weights
        return costs

    def close(self) -> None:
        """Nothing to release."""

    def _observation(self) -> Seen:
        return observation(self._seen.cluster, self._seen.queue, self._seen.backlog, self.machines)

    def _info(self) -> dict[str, Any]:
        costs = self.costs()
        slots = self.simulation.state.totals[:, SLOTS].astype(np.int64)
        return {name: costs[:, i] for i, name in enumerate(self.terms)} | {"slots": slots}


def observation(
    cluster: npt.NDArray[Any], queue: npt.NDArray[Any], backlog: npt.NDArray[Any], machines: Machines
) -> Seen:
    """DeepRM's observation in shares, from units and slots (`SeenArrays`); float32, new arrays.

    `cluster` (B, T, D) reserved share of the cluster per slot ahead; `queue` (B, Q, D + 1) peak as a share of a mean
    machine and duration as a share of T, 0 in an empty place; `backlog` (B, 1) the number waiting beyond Q. This is
    DeepRM's image reduced to counts, since pixels need no identity in a cluster without machines; its published code
    has a similar compact representation.
    """
    scale = np.append(machines.capacity.mean(axis=0), cluster.shape[1])
    return {
        "cluster": (cluster / machines.capacity.sum(axis=0)).astype(np.float32),
        "queue": (queue / scale).astype(np.float32),
        "backlog": np.array(backlog, np.float32),
    }


def _at_peaks(sequences: SequenceSet) -> SequenceSet:
    """The sequences with every workload's peak in all of its slots, because DeepRM takes demand to be constant.

    Background load is left out: it is not reserved, and DeepRM sees only reservations.
    """
    peak = sequences.demand.max(axis=2, keepdims=True)
    runs = np.arange(sequences.demand.shape[2]) < sequences.length[..., None]
    return replace(sequences, demand=np.where(runs[..., None], peak, 0.0), background=None)


HOW_TO_TRAIN = "train it with 'tvwrl train --policy deeprm --out runs/deeprm', then write deeprm=runs/deeprm"


class DeepRM(Scheduler):
    """{DeepRM + Best-Fit} of the paper, "Baselines". Actions are drawn from the policy, as its published code does.

    If the drawn workload fits no single machine, although it may fit the cluster as a whole, the slot ends: this is how
    fragmentation makes DeepRM wait. The void action ends the slot as well.

    Parameters
    ----------
    name : str
        What tables call it.
    checkpoint : Checkpoint
        Of a run of `--policy deeprm`.
    device : str, default 'cpu'
        Of PyTorch: cpu, cuda, cuda:1.

    Examples
    --------
    >>> load_deeprm("runs/deeprm").knowledge.group  # doctest: +SKIP
    'true lifetime peaks (a privilege)'
    """

    knowledge = LEARNT_PEAKS_AND_LENGTHS

    def __init__(self, name: str, checkpoint: Checkpoint, device: str = "cpu") -> None:
        check_device(device)
        self.name, self._shapes, self._device = name, checkpoint.shapes, device
        self._policy = checkpoint.make_policy().to(device).eval()
        self._placer = make_scheduler("best-fit-peak")

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Take the episode's random stream.

        Raises
        ------
        InputError
            For a queue or resources of another number than in training.
        """
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
    """Load the scheduler `deeprm`.

    Parameters
    ----------
    run : str
        Its folder, or a .pt file.
    device : str, default 'cpu'
        Of PyTorch: cpu, cuda, cuda:1.

    Returns
    -------
    DeepRM
        A scheduler that is called deeprm.

    Raises
    ------
    InputError
        If the weights are missing or another policy's.

    Examples
    --------
    >>> runner.play(load_deeprm("runs/deeprm"), 0)  # doctest: +SKIP
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
