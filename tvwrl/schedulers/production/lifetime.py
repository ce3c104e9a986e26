"""Google's rules that place by when machines will become empty: NILAS and LAVA (Ling and others, MLSys 2025).

We found no code, so there is no licence to state. We read the paper's title and Google's description of it; docstrings
mark what is from the re-implementation by Alibaba's DVLA (OSDI 2026) or from memory.

Sequences draw lifetimes at random (`traces.sequences`), independently of the workload. So only its age predicts a
workload's remaining lifetime, and these rules can gain little here; in production they know more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from tvwrl.checks import at_least, positive
from tvwrl.schedulers.head_of_queue import HeadOfQueue, admitted, best
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.production.requests import requested, requests_fit
from tvwrl.schedulers.production.usage import running
from tvwrl.schedulers.scores import tightest
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.simulation.state import MACHINE, START
from tvwrl.types import Float, InputError, Int, SequenceSet, Workload

LIFETIMES = REQUESTS.and_also("how long training workloads ran, and running ones so far")
GRID = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0, 48.0, 72.0, 120.0, 168.0)  # hours
CLASS_ENDS = np.array([1.0, 10.0, 100.0, 1000.0])  # hours
LONGEST = len(CLASS_ENDS) - 1
RECYCLING = 0.9  # requested share of the capacity from which a machine is nearly full
ROUNDING = 1e-9  # hours
IDLE = -1  # class of a machine without workloads
SAME, OTHER, EMPTY, REFUSED = 10.0, 20.0, 30.0, np.inf  # levels of LAVA's machines, after those from 1 to 3


def expected_left(lengths: Sequence[int] | Int) -> Float:
    """(longest + 1,) mean slots that a workload still runs after it has run for 0, 1, ... slots.

    The mean over those `lengths` (slots, >= 1) that are longer; half a slot if none is.

    >>> expected_left([2, 4])
    array([3. , 2. , 2. , 1. , 0.5])
    """
    at_least(1, lengths=lengths)
    age = np.arange(max(lengths) + 1)
    longer = np.array(lengths)[:, None] - age
    count = (longer > 0).sum(axis=0)
    left: Float = np.where(count > 0, np.maximum(longer, 0).sum(axis=0) / np.maximum(count, 1), 0.5)
    return left


class Running(NamedTuple):
    """What runs, and when it is expected to end."""

    workload: Int  # (R,) index in the arrival sequence, in the order of placement
    machine: Int  # (R,) where each runs
    age: Float  # (R,) hours that each has run
    left: Float  # (R,) hours that each is still expected to run
    exit: Float  # (M,) hours until a machine is expected to be empty; 0: it is empty now


class Nilas(HeadOfQueue):
    """NILAS: the machine that the newcomer keeps from becoming empty for the shortest time; of equals, the tightest by
    requests.

    A machine's *exit* is when it becomes empty: when the last workload that runs on it ends. If the newcomer is
    expected to end later than that, it delays the exit by the difference, which is rounded up to one of 12 values from
    0 to 168 hours (`GRID`); otherwise the delay is 0. In every slot, the remaining lifetime of each running workload is
    predicted anew: it is the mean of the training workloads that reached the same age. Filter: requests fit. Default:
    no overcommitment.

    The number of values and their range are from DVLA's re-implementation; the values between are ours. Breaking ties
    by the ordinary packing score is from memory; scoring it by requests is ours.

    `overcommit`: > 0, the requests that a machine takes, as a multiple of its capacity; 1 in the source
    `lengths`: slots that training workloads ran, each >= 1; default: those of the training sequences

    `reset` raises InputError if there are neither `lengths` nor training sequences.
    """

    name, knowledge = "nilas", LIFETIMES
    options: ClassVar = {"overcommit": (1.0, 1.25, 1.5, 2.0, 3.0)}

    def __init__(self, overcommit: float = 1.0, lengths: Sequence[int] | None = None) -> None:
        positive(overcommit=overcommit)
        self.overcommit, self._lengths = overcommit, lengths
        self._learnt: tuple[SequenceSet | None, Float] = (None, np.zeros(1))

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Learn from training workloads how long workloads run."""
        simulation = cluster.simulation
        if self._learnt[0] is not simulation.sequences:
            self._learnt = (simulation.sequences, expected_left(self._training(simulation.sequences)))
        self._left = self._learnt[1] * simulation.scenario.step_seconds / 3600

    def _training(self, sequences: SequenceSet) -> Sequence[int] | Int:
        """The slots that training workloads ran."""
        if self._lengths is not None:
            return self._lengths
        if sequences.training is None:
            raise InputError(f"{self.name} learns lifetimes from training sequences: draw them with Problem.sequences")
        return sequences.training().length.ravel()

    def candidates(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `HeadOfQueue.candidates`."""
        return admitted(cluster, workload, requests_fit(cluster, workload, self.overcommit))

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        among = self.candidates(cluster, workload)
        if not among.any():
            return None
        now, life = self._running(cluster), float(self._left[0])
        level = self.level(cluster, now, life)
        tight = tightest(cluster, requested(cluster, workload), cluster.request_of(workload))
        return best(among, -level, -put_off(life, now.exit), tight)

    def level(self, cluster: Cluster, now: Running, life: float) -> Float:
        """(M,) preference before all other scores, lowest first. `life`: the newcomer's expected hours."""
        return np.zeros(len(now.exit))

    def _running(self, cluster: Cluster) -> Running:
        simulation = cluster.simulation
        workload, machine = running(cluster)
        age = cluster.slot - simulation.state.workloads[cluster.b, workload, START].astype(np.int64)
        left, hours = self._left[np.minimum(age, len(self._left) - 1)], simulation.scenario.step_seconds / 3600
        exit = np.zeros(len(cluster.machines))
        np.maximum.at(exit, machine, left)
        return Running(workload, machine, age * hours, left, exit)


def put_off(life: float, exit: Float) -> Float:
    """(M,) index in `GRID`, 0 to 12, of the delay by a workload of `life` hours; `exit`: (M,) hours until exits.

    >>> put_off(5.0, np.array([10.0, 4.8, 3.0]))
    array([0., 1., 3.])
    """
    value: Float = np.searchsorted(GRID, np.maximum(life - exit, 0.0) - ROUNDING).astype(float)
    return value


class Lava(Nilas):
    """LAVA: machines have lifetime classes, and nearly full machines of a long class are filled with short workloads.

    Classes end at 1, 10, 100 and 1,000 hours. The class of a workload is that of its expected total lifetime. A machine
    gets the class of its first workload, and a deadline at the end of that class. If its expected exit passes the
    deadline, both move up by one class. When a workload leaves, the class falls to that of the workload expected to
    stay longest, if that is lower, with a new deadline. A machine of which 0.9 of a resource is requested is nearly
    full, and takes only workloads of a lower class. The order of preference, with ties broken as in `Nilas`:

    1. nearly full machines of a higher class, the nearest class first;
    2. machines of the workload's class;
    3. other machines in use;
    4. idle machines.

    Classes and the 0.9 are from DVLA's re-implementation; the order, the deadlines and the fall of a class are from
    memory. Lifetimes here are 3 to 60 hours, so all newcomers have the same expected class, and the first case is rare.
    """

    name = "lava"

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Learn from training workloads how long workloads run, and forget the machines' classes."""
        super().reset(cluster, rng)
        machines = len(cluster.machines)
        self._class = np.full(machines, IDLE)
        self._deadline = np.zeros(machines)  # hours since the start of the episode
        self._at, self._were = -1, np.zeros(0, np.int64)  # slot of the last `_classify`, and what ran then

    def candidates(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `HeadOfQueue.candidates`."""
        level = self.level(cluster, self._running(cluster), float(self._left[0]))
        return super().candidates(cluster, workload) & (level < REFUSED)

    def level(self, cluster: Cluster, now: Running, life: float) -> Float:
        """See `Nilas.level`; `REFUSED`: the machine does not take the workload."""
        self._classify(cluster, now, class_of(life))
        higher = self._class - class_of(life)
        share = (cluster.reserved_requests / (self.overcommit * cluster.divisor)).max(axis=1)
        level = np.where(higher == 0, SAME, OTHER)
        level = np.where(share >= RECYCLING, np.where(higher > 0, higher, REFUSED), level)
        return np.where(self._class == IDLE, EMPTY, level)

    def _classify(self, cluster: Cluster, now: Running, newcomer: Int) -> None:
        """Update the classes of machines; `newcomer`: the class of workloads that have just started."""
        if cluster.slot == self._at and np.array_equal(now.workload, self._were):
            return
        clock = cluster.slot * cluster.simulation.scenario.step_seconds / 3600
        busy = now.exit > 0
        self._class[~busy] = IDLE
        first_on, first = np.unique(now.machine, return_index=True)
        new = self._class[first_on] == IDLE
        first_on, first = first_on[new], first[new]
        self._class[first_on] = newcomer
        self._deadline[first_on] = clock - now.age[first] + CLASS_ENDS[newcomer]

        gone = np.setdiff1d(self._were, now.workload)
        left_behind = np.unique(cluster.simulation.state.workloads[cluster.b, gone, MACHINE])
        stays = np.flatnonzero(now.left == now.exit[now.machine])
        lowest = np.full(len(busy), LONGEST)
        lowest[now.machine[stays]] = class_of(now.age[stays] + now.left[stays])
        falls = left_behind[lowest[left_behind] < self._class[left_behind]]
        self._class[falls] = lowest[falls]
        self._deadline[falls] = clock + CLASS_ENDS[lowest[falls]]

        while (late := busy & (clock + now.exit > self._deadline + ROUNDING) & (self._class < LONGEST)).any():
            end = CLASS_ENDS[self._class[late]]
            self._class[late] += 1
            self._deadline[late] += CLASS_ENDS[self._class[late]] - end
        self._at, self._were = cluster.slot, now.workload


def class_of(hours: Float | float) -> Int:
    """(...) the class of lifetimes in hours: 0 below 1, 1 below 10, 2 below 100, 3 from 100 on.

    >>> class_of(np.array([0.5, 1.0, 9.9, 10.0, 5000.0]))
    array([0, 1, 1, 2, 3])
    """
    return np.searchsorted(CLASS_ENDS[:LONGEST], hours, side="right")
