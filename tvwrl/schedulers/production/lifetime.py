"""Google's rules that place by when machines will be empty: NILAS and LAVA (Ling and others, MLSys 2025).

No code of them was found, so there is no licence to state. Of the paper the title and Google's description were read;
what is taken from the re-implementation by Alibaba's DVLA (OSDI 2026) or from memory is marked as such.

Sequences draw lifetimes at random (`traces.sequences`), regardless of what a workload is. Its age is thus all that
predicts how long it goes on, and these rules can gain little here; in production they know more.
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
RECYCLING = 0.9  # share of the capacity that is requested
ROUNDING = 1e-9  # hours
IDLE = -1  # class of a machine without workloads
SAME, OTHER, EMPTY, REFUSED = 10.0, 20.0, 30.0, np.inf  # levels of LAVA's machines, after those from 1 to 3


def expected_left(lengths: Sequence[int] | Int) -> Float:
    """(longest + 1,) slots that a workload goes on on average after it has run for 0, 1, ... slots.

    The mean over those `lengths` (slots, >= 1) that are longer than that; half a slot where none is.

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
    left: Float  # (R,) hours that each is expected to go on
    exit: Float  # (M,) hours until a machine is expected to be empty; 0: it is


class Nilas(HeadOfQueue):
    """NILAS: the machine whose expected exit the newcomer puts off the least; of equals the tightest by requests.

    A machine exits when the last of its workloads does. What the newcomer is expected to run beyond that is rounded up
    to one of 12 values from 0 to 168 hours (`GRID`). Lifetimes are predicted again in every slot: the mean of what is
    left in training, given the age. Filter: requests fit. Default: no overcommitment.

    The number of values and their range are from DVLA's re-implementation; the values within are ours. That equals go
    to the ordinary packing score is from memory, and by requests is ours.

    `overcommit`: > 0, how many times its capacity a machine takes in requests; 1 in the source
    `lengths`: slots that training workloads ran, each >= 1; default: those of the sequences' training sequences

    `reset` raises InputError for sequences without training sequences if `lengths` are not given.
    """

    name, knowledge = "nilas", LIFETIMES
    options: ClassVar = {"overcommit": (1.0, 1.25, 1.5, 2.0, 3.0)}

    def __init__(self, overcommit: float = 1.0, lengths: Sequence[int] | None = None) -> None:
        positive(overcommit=overcommit)
        self.overcommit, self._lengths = overcommit, lengths
        self._learnt: tuple[SequenceSet | None, Float] = (None, np.zeros(1))

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Learn from training how long workloads go on."""
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
        """(M,) what decides before all else, the lowest first. `life`: expected hours."""
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
    """(M,) by which value of `GRID`, 0 to 12, a workload of `life` hours puts off exits (M,) in so many hours.

    >>> put_off(5.0, np.array([10.0, 4.8, 3.0]))
    array([0., 1., 3.])
    """
    value: Float = np.searchsorted(GRID, np.maximum(life - exit, 0.0) - ROUNDING).astype(float)
    return value


class Lava(Nilas):
    """LAVA: machines have a class of lifetimes, and long-lived ones that are nearly full are filled up by short lives.

    Classes end at 1, 10, 100 and 1,000 hours. A workload's is that of its expected total life. A machine's is that of
    its first workload, with a deadline at the end of the class. If its expected exit passes the deadline, the class
    rises by one and the deadline to the end of that; when a workload leaves, the class falls to that of the workload
    that is expected to stay longest, if it is lower, and the deadline begins anew. Where 0.9 of a resource is
    requested, only workloads of a lower class are taken. Preferred in this order, and within each as `Nilas` has it:

    1. such machines of a higher class, the nearest class first;
    2. machines of the workload's class;
    3. other machines in use;
    4. idle machines.

    Classes and the 0.9 are from DVLA's re-implementation; the order, deadlines and what lowers a class are from memory.
    Of lives of 3 to 60 hours the mean is in one class, so all newcomers have the same, and the first case is rare.
    """

    name = "lava"

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Learn from training how long workloads go on, and forget the machines' classes."""
        super().reset(cluster, rng)
        machines = len(cluster.machines)
        self._class = np.full(machines, IDLE)
        self._deadline = np.zeros(machines)  # hours since the beginning
        self._at, self._were = -1, np.zeros(0, np.int64)  # slot of the latest `_classify`, and what ran then

    def candidates(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `HeadOfQueue.candidates`."""
        level = self.level(cluster, self._running(cluster), float(self._left[0]))
        return super().candidates(cluster, workload) & (level < REFUSED)

    def level(self, cluster: Cluster, now: Running, life: float) -> Float:
        """See `Nilas.level`; `REFUSED`: it takes none."""
        self._classify(cluster, now, class_of(life))
        higher = self._class - class_of(life)
        share = (cluster.reserved_requests / (self.overcommit * cluster.divisor)).max(axis=1)
        level = np.where(higher == 0, SAME, OTHER)
        level = np.where(share >= RECYCLING, np.where(higher > 0, higher, REFUSED), level)
        return np.where(self._class == IDLE, EMPTY, level)

    def _classify(self, cluster: Cluster, now: Running, newcomer: Int) -> None:
        """Bring the classes of machines up to date; `newcomer`: the class of what has just begun."""
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
    """(...) the class 0 to 3 of lives of so many hours: below 1, 10, 100, and longer.

    >>> class_of(np.array([0.5, 1.0, 9.9, 10.0, 5000.0]))
    array([0, 1, 1, 2, 3])
    """
    return np.searchsorted(CLASS_ENDS[:LONGEST], hours, side="right")
