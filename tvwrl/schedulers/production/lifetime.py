"""Rules in the manner of NILAS and LAVA, which place by when machines will become empty.

Source: Ling and others, "LAVA: Lifetime-Aware VM Allocation with Learned Distributions and Adaptation to
Mispredictions" (MLSys 2025, arXiv 2412.09840). We could read its abstract, Google's description of it, and sections
2.3, 3.1 and 6.1 of the paper on DVLA (OSDI 2026), which describe both rules and re-implement LAVA; not its sections,
and there is no code. So the rules are called `-like`, and no headline rests on them. Of each part, docstrings say
whether it is in what we read or our reconstruction; docs/reference/production-rules.md lists the deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tvwrl.checks import at_least, positive
from tvwrl.schedulers.base import RECONSTRUCTION, registered
from tvwrl.schedulers.best_fit import tightest
from tvwrl.schedulers.head_of_queue import HeadOfQueue, admitted, best
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.production.facts import Learnt, TrainingWorkloads, requested, requests_fit, running
from tvwrl.simulation import SEQUENCE, START, Cluster, Mask
from tvwrl.types import Float, InputError, Int, Workload

LIFETIMES = REQUESTS.and_also("how long training workloads ran, by their requests, and running ones so far")
GRID = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0, 48.0, 72.0, 120.0, 168.0)  # hours
CLASS_ENDS = np.array([1.0, 10.0, 100.0, 1000.0])  # hours: LC1 to LC4, here 0 to 3
LONGEST = len(CLASS_ENDS) - 1
RECYCLES = 0.9  # requested share of the capacity from which a machine recycles
ROUNDING = 1e-9  # hours
EMPTY, OPEN, RECYCLING = range(3)  # states of LAVA's machines
SAME, OTHER, IDLE, REFUSED = 10.0, 20.0, 30.0, np.inf  # levels of LAVA's machines, after those from 1 to 3
LEAVES = (2, 4, 8, 16)  # sizes of the tree that are tried
FOLDS = 5


class Lifetimes:
    """The distribution of lifetimes given what a workload requests, and what is left of it given its age.

    A regression tree over the requests splits the training workloads; a leaf keeps the lifetimes of those in it. What
    is left after an age is the mean over those of the leaf that ran longer (over all workloads if none of the leaf did,
    half a slot if none did). The tree has as many leaves as predict the logarithm of lifetimes best in
    cross-validation: one, if requests tell nothing.

    `length`: (W,) slots that training workloads ran, each >= 1
    `request`: (W, D) what they requested; default: nothing is known of them
    """

    def __init__(self, length: Sequence[int] | Int, request: Float | None = None) -> None:
        at_least(1, lengths=length)
        length = np.asarray(length, np.int64)
        self._tree = None if request is None else _tree(request, length)
        which = np.zeros(len(length), np.int64) if request is None else self.leaf(request)
        everyone = expected_left(length)
        self.left = np.tile(everyone, (which.max() + 1, 1))  # (leaves, longest + 1) slots, by age
        for leaf in np.unique(which):
            own = expected_left(length[which == leaf])
            self.left[leaf, : len(own) - 1] = own[:-1]

    def leaf(self, request: Float) -> Int:
        """(N,) leaf of workloads by their requests (N, D)."""
        return np.zeros(len(request), np.int64) if self._tree is None else self._tree.apply(request)


def _tree(request: Float, length: Int) -> Any:
    """A fitted regression tree, or None if no tree predicts better than the mean."""
    from sklearn.model_selection import cross_val_score
    from sklearn.tree import DecisionTreeRegressor

    target = np.log10(length)
    if len(target) < FOLDS * LEAVES[0] or np.ptp(target) == 0:
        return None
    trees = [DecisionTreeRegressor(max_leaf_nodes=leaves, random_state=0) for leaves in LEAVES]
    gain = [float(cross_val_score(tree, request, target, cv=FOLDS).mean()) for tree in trees]
    return trees[int(np.argmax(gain))].fit(request, target) if max(gain) > 0 else None


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
    return np.where(count > 0, np.maximum(longer, 0).sum(axis=0) / np.maximum(count, 1), 0.5)


class Running(NamedTuple):
    """What runs, and when it is expected to end."""

    workload: Int  # (R,) index in the arrival sequence, in the order of placement
    machine: Int  # (R,) where each runs
    age: Float  # (R,) hours that each has run
    left: Float  # (R,) hours that each is still expected to run
    exit: Float  # (M,) hours until a machine is expected to be empty; 0: it is empty now


@registered("NILAS-like (Google)", RECONSTRUCTION)
class NilasLike(HeadOfQueue):
    """As NILAS: the machine that the newcomer keeps from becoming empty for the shortest time; of equals, the tightest
    by requests.

    A machine's *exit* is when it becomes empty: when the last workload that runs on it ends. If the newcomer is
    expected to end later than that, it delays the exit by the difference, which is rounded up to one of 12 values from
    0 to 168 hours (`GRID`); otherwise the delay is 0. In every slot, the remaining lifetime of each running workload is
    predicted anew from the distribution of `Lifetimes`. Filter: requests fit. Default: no overcommitment.

    Read: lifetimes are distributions, predicted again as a workload runs on (abstract); workloads of similar lifetimes
    share machines, by one more score in a lexicographic order (Google's description; DVLA, 2.3); 12 values from 0 to
    168 hours (DVLA, 3.1). Reconstructed: the delay of the exit as the score, the values between, the tightest after it.

    `overcommit`: > 0, the requests that a machine takes, as a multiple of its capacity; 1 in the source
    `lengths`: slots that training workloads ran, each >= 1, whatever they requested; default: learnt from the training
        sequences, with their requests

    `reset` raises InputError if there are neither `lengths` nor training sequences.
    """

    name, knowledge = "nilas-like", LIFETIMES
    options: ClassVar = {"overcommit": (1.0, 1.25, 1.5, 2.0, 3.0)}

    def __init__(self, overcommit: float = 1.0, lengths: Sequence[int] | None = None) -> None:
        positive(overcommit=overcommit)
        self.overcommit = overcommit
        self._given = None if lengths is None else Lifetimes(lengths)
        self._learnt = Learnt(_lifetimes)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Learn from training workloads how long workloads run."""
        simulation = cluster.simulation
        found = self._given or self._learnt.of(simulation)
        if found is None:
            raise InputError(f"{self.name} learns lifetimes from training sequences: draw them with Problem.sequences")
        self._left = found.left * simulation.scenario.step_seconds / 3600  # hours
        self._leaf = found.leaf(simulation.request[simulation.state.counters[cluster.b, SEQUENCE]])

    def candidates(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `HeadOfQueue.candidates`."""
        level = self.level(cluster, self._running(cluster), self._life(workload))
        return admitted(cluster, workload, requests_fit(cluster, workload, self.overcommit)) & (level < REFUSED)

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        now, life = self._running(cluster), self._life(workload)
        level = self.level(cluster, now, life)
        among = admitted(cluster, workload, requests_fit(cluster, workload, self.overcommit)) & (level < REFUSED)
        tight = tightest(cluster, requested(cluster, workload), cluster.request_of(workload))
        return best(among, -level, -put_off(life, now.exit), tight)

    def level(self, cluster: Cluster, now: Running, life: float) -> Float:
        """(M,) preference before all other scores, lowest first; `REFUSED`: the machine does not take the workload.

        `life`: the newcomer's expected hours
        """
        return np.zeros(len(now.exit))

    def _life(self, workload: Workload) -> float:
        return float(self._left[self._leaf[workload.index], 0])

    def _running(self, cluster: Cluster) -> Running:
        simulation = cluster.simulation
        workload, machine = running(cluster)
        age = cluster.slot - simulation.state.workloads[cluster.b, workload, START].astype(np.int64)
        left = self._left[self._leaf[workload], np.minimum(age, self._left.shape[1] - 1)]
        exit = np.zeros(len(cluster.machines))
        np.maximum.at(exit, machine, left)
        return Running(workload, machine, age * simulation.scenario.step_seconds / 3600, left, exit)


def _lifetimes(training: TrainingWorkloads) -> Lifetimes:
    return Lifetimes(training.length, training.request)


def put_off(life: float, exit: Float) -> Float:
    """(M,) index in `GRID`, 0 to 12, of the delay by a workload of `life` hours; `exit`: (M,) hours until exits.

    >>> put_off(5.0, np.array([10.0, 4.8, 3.0]))
    array([0., 1., 3.])
    """
    return np.searchsorted(GRID, np.maximum(life - exit, 0.0) - ROUNDING).astype(float)


@registered("LAVA-like (Google)", RECONSTRUCTION)
class LavaLike(NilasLike):
    """As LAVA: full machines are topped up with workloads that end before the long-lived ones that keep them in use.

    Lifetime classes end at 1, 10, 100 and 1,000 hours. The class of a workload is that of its expected lifetime at
    arrival. A machine is *empty*, *open* or *recycling*:

    - The first workload opens an empty machine, gives it its class, and a deadline: the end of that class.
    - An open machine of which 0.9 of a resource is requested recycles until it is empty. What runs on it then is
      *residual*. It takes only workloads of lower classes than its own.
    - When the last residual workload has left a recycling machine, its class falls by one, what runs on it is residual,
      and the deadline is the end of the lower class from now on.
    - When the deadline passes, lifetimes were mispredicted: the class rises by one, and the deadline to its end.

    The order of preference, with ties broken as in `NilasLike`:

    1. recycling machines of a higher class, the nearest class first;
    2. open machines of the workload's class;
    3. other open machines;
    4. empty machines.

    Read: the four classes, of workloads and machines; from 90 % on, only workloads of strictly lower classes; classes
    of machines change when deadlines pass and when workloads leave; the regression uses the age (DVLA, 6.1);
    short-lived workloads share machines with long-lived ones (DVLA, 2.3). Reconstructed: residual workloads, by how
    much a class falls and rises, the order. Lifetimes here are 3 to 60 hours, so nearly all newcomers have the same
    class.
    """

    name = "lava-like"

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Learn from training workloads how long workloads run, and forget the machines' states."""
        super().reset(cluster, rng)
        machines = len(cluster.machines)
        self._state, self._class = np.full(machines, EMPTY), np.zeros(machines, np.int64)
        self._since = np.zeros(machines)  # hour of the episode from which the class counts
        self._residual = np.zeros(len(self._leaf), np.bool_)
        self._at, self._were = -1, np.zeros(0, np.int64)  # slot of the last `_update`, and what ran then

    def level(self, cluster: Cluster, now: Running, life: float) -> Float:
        """See `NilasLike.level`."""
        self._update(cluster, now)
        higher = self._class - class_of(life)
        open_ones = np.where(higher == 0, SAME, OTHER)
        recycling = np.where(higher > 0, higher, REFUSED)
        return np.choose(self._state, [np.full(len(higher), IDLE), open_ones, recycling])

    def _update(self, cluster: Cluster, now: Running) -> None:
        """Update states and classes of machines after workloads came or left, or time passed."""
        if cluster.slot == self._at and np.array_equal(now.workload, self._were):
            return
        clock = cluster.slot * cluster.simulation.scenario.step_seconds / 3600
        busy = now.exit > 0
        self._state[~busy] = EMPTY
        machine, first = np.unique(now.machine, return_index=True)
        new = self._state[machine] == EMPTY
        machine, first = machine[new], first[new]
        self._state[machine] = OPEN
        self._class[machine] = class_of(self._left[self._leaf[now.workload[first]], 0])
        self._since[machine] = clock - now.age[first]

        occupied = np.zeros(len(busy), np.bool_)
        occupied[now.machine[self._residual[now.workload]]] = True
        falls = (self._state == RECYCLING) & ~occupied
        self._class[falls] = np.maximum(self._class[falls] - 1, 0)
        self._since[falls] = clock
        while (
            late := busy & (clock > self._since + CLASS_ENDS[self._class] + ROUNDING) & (self._class < LONGEST)
        ).any():
            self._class[late] += 1

        share = (cluster.reserved_requests / (self.overcommit * cluster.divisor)).max(axis=1)
        full = (self._state == OPEN) & (share >= RECYCLES)
        self._state[full] = RECYCLING
        self._residual[now.workload[(falls | full)[now.machine]]] = True
        self._at, self._were = cluster.slot, now.workload


def class_of(hours: Float | float) -> Int:
    """(...) the class of lifetimes in hours: 0 below 1, 1 below 10, 2 below 100, 3 from 100 on.

    >>> class_of(np.array([0.5, 1.0, 9.9, 10.0, 5000.0]))
    array([0, 1, 1, 2, 3])
    """
    return np.searchsorted(CLASS_ENDS[:LONGEST], hours, side="right")
