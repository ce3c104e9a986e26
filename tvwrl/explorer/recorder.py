"""Plays an episode, and from every decision each alternative, in the same recorded future."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tvwrl.checks import positive
from tvwrl.explorer.recording import NONE, WAIT, Recording, machine_loads
from tvwrl.metrics import penalties_by_slot
from tvwrl.packing import fits
from tvwrl.penalties import TERMS
from tvwrl.schedulers import Continuation, Knowledge, Opinion, Runner, Scheduler, emptiest
from tvwrl.simulation import Cluster
from tvwrl.types import Episode, Float, Int, Move, Moves, Placement, Workload

ALL = 20  # machines, up to which all of them are alternatives; of more, the MOST most promising are
MOST = 10
SECONDS = 60.0
SLOW = 1.0  # milliseconds of a decision, from which on its time is taken as measured
SLOW_MOVES = 0.5  # the same where things move: most decisions are then about moves, and fast
MOVES = 2  # decisions to place that take as long as to decide what moves in a slot
EQUAL = 1e-9  # share of a cost by which two ways to add it up may differ


def record(
    runner: Runner, scheduler: Scheduler, sequence: int, what_if: bool = True, seconds: float = SECONDS
) -> Recording:
    """Play the episode of a `scheduler` on one sequence, and simulate the alternatives to its decisions.

    Up to `ALL` machines every machine is an alternative, and waiting one slot; of more, its `MOST` best-ranked, or the
    emptiest if it does not rank them. If simulating all alternatives would take much longer than `seconds`, repeated
    decisions to keep a workload waiting are skipped; if that is not enough, only some decisions are simulated, those
    first whose machine overshoots later.

    Parameters
    ----------
    runner : Runner
        Plays the sequences of one set.
    scheduler : Scheduler
        Decides.
    sequence : int
        Number of the sequence, from 0.
    what_if : bool
        False leaves the costs of alternatives out.
    seconds : float
        About how long it may take, > 0. Of schedulers that are not slow, the same decisions are simulated on every
        computer.

    Returns
    -------
    Recording
        The episode, its decisions, and what their alternatives would have cost.

    Raises
    ------
    InputError
        As of `Runner.play`, and for `seconds` of 0 or less.

    Examples
    --------
    >>> runner = Runner(problem.sequences("test", 1, 0), problem.machines, problem.scenario)  # doctest: +SKIP
    >>> recording = record(runner, make_scheduler("spread"), 0)  # doctest: +SKIP
    >>> recording.regret.argmax()  # the costliest decision  # doctest: +SKIP
    """
    positive(seconds=seconds)
    count = len(runner.machines)
    actions = (count if count <= ALL else MOST + 1) + 1
    continuation, asked = None, frozenset[int]()
    if what_if:
        continuation = scheduler.continuation(runner, actions)
        asked = _played_on(runner, scheduler, sequence, seconds, continuation.decisions / SECONDS, actions)
    watcher = _Watcher(scheduler, continuation, asked, actions)
    episode = runner.play(scheduler, sequence, watcher.see)
    scenario = runner.scenario
    penalties = penalties_by_slot(episode, runner.machines, scenario.penalty_weights(), scenario.overshoot_per)
    return watcher.recording(episode, penalties)


def _played_on(
    runner: Runner, scheduler: Scheduler, sequence: int, seconds: float, speed: float, actions: int
) -> frozenset[int]:
    """Decisions from which an alternative is simulated within about `seconds`; `speed`: further decisions per second,
    of one of the `actions`.

    Where not all are, those whose machine overshoots while the workload runs there come first.
    """
    first: list[bool] = []  # of each decision, whether it places, or waits for another workload than the one before
    about: list[int] = []
    last = NONE

    def note(cluster: Cluster, visible: Sequence[Workload], placement: Placement | None) -> None:
        nonlocal last
        waits_for = visible[0].index if placement is None else NONE
        first.append(placement is not None or waits_for != last)
        about.append(visible[0].index if placement is None else placement.workload.index)
        last = waits_for

    episode = runner.play(scheduler, sequence, note)
    speed, work = speed / actions, max(1, len(first))
    if episode.moves is not None:  # each action plays on for itself, and decides on moves in every slot
        slots = int(episode.finish.max(initial=0))
        work += MOVES * slots
        if episode.decision_ms > SLOW_MOVES:
            speed = min(speed, 1000.0 * work / (actions * episode.decision_ms * (len(first) + slots)))
    elif episode.decision_ms > SLOW:
        speed = min(speed, 1000.0 / episode.decision_ms)
    most = max(1, int(2 * seconds * speed / work))  # the others follow half of the episode on average
    if len(first) <= most:
        return frozenset(range(len(first)))
    some = np.flatnonzero(first)
    if len(some) <= most:
        return frozenset(some.tolist())
    loads = machine_loads(episode, runner.machines, int(episode.finish.max(initial=0)))
    over = ~fits(loads, runner.machines.capacity, runner.machines.capacity)  # (T, M)
    overshot = np.zeros(len(episode.start), np.bool_)
    for i, machine, begin, end in zip(*episode.stays(), strict=True):
        overshot[i] |= over[begin:end, machine].any()
    costly = overshot[np.array(about)[some]]
    chosen: list[int] = []
    for part, count in ((some[costly], most), (some[~costly], most - costly.sum())):
        chosen += part[:: max(1, math.ceil(len(part) / count))].tolist() if count > 0 else []  # evenly spread
    return frozenset(chosen)


class _Watcher:
    """Collects the decisions of an episode as they are taken."""

    def __init__(
        self, scheduler: Scheduler, continuation: Continuation | None, asked: frozenset[int], actions: int
    ) -> None:
        self._continuation, self._asked, self._scheduler, self._actions = continuation, asked, scheduler, actions
        self._facts: list[tuple[int, int, int, int]] = []  # slot, workload, chosen, waiting
        self._machines: list[Int] = []
        self._opinions: list[tuple[Float, npt.NDArray[np.bool_]]] = []
        self._meaning = ""

    def see(self, cluster: Cluster, visible: Sequence[Workload], placement: Placement | None) -> None:
        """See `runner.play_on`: note a decision before it is carried out."""
        workload = visible[0] if placement is None else placement.workload
        chosen = WAIT if placement is None else int(placement.machine)
        waiting = cluster.simulation.waiting(cluster.b).tolist()
        opinion = self._scheduler.opinion(cluster, workload)
        machines = _alternatives(cluster, workload, opinion, chosen, self._actions)
        if self._continuation is not None and len(self._facts) in self._asked:
            shown = [w for w in visible if w.index != workload.index and w.index in waiting]
            place = waiting.index(workload.index)
            self._continuation.ask(cluster.simulation, self._scheduler, shown, place, machines)
        self._facts.append((cluster.slot, workload.index, chosen, len(waiting)))
        self._machines.append(machines)
        self._opinions.append(_opinion_on(machines, opinion))
        self._meaning = opinion.meaning if opinion is not None else self._meaning

    def recording(self, episode: Episode, penalties: Float) -> Recording:
        """The recording of the episode that was watched."""
        count, width = len(self._facts), self._actions
        slot, workload, chosen, waiting = np.array(self._facts, np.int64).reshape(count, 4).T
        machines = np.array(self._machines, np.int64).reshape(count, width)
        costs = np.full((count, width, len(TERMS)), np.nan)
        repeats, asked = True, sorted(self._asked)
        if self._continuation is not None and asked:
            costs[asked] = self._continuation.answers()
            if self._continuation.by is None:
                own = np.vstack([penalties[::-1].cumsum(axis=0)[::-1], np.zeros(len(TERMS))])
                own = own[np.minimum(slot[asked], len(penalties))]
                taken = (machines == chosen[:, None]).argmax(axis=1)[asked]
                near = EQUAL * (1 + own.sum(axis=1, keepdims=True))
                repeats = bool((np.abs(costs[asked, taken] - own) <= near).all())
                costs[asked, taken] = own
        scores = [score for score, _ in self._opinions]
        possible = [can for _, can in self._opinions]
        if episode.moves is None:  # then nobody asks what they cost
            penalties, costs = penalties[:, :-1], costs[:, :, :-1]
        kept = slot < len(penalties)  # after the last workload that ran, waiting costs nothing more
        return Recording(
            episode=episode,
            penalties=penalties,
            slot=slot[kept],
            workload=workload[kept],
            chosen=chosen[kept],
            waiting=waiting[kept],
            machines=machines[kept],
            costs=costs[kept],
            scores=np.array(scores, np.float32).reshape(count, width)[kept],
            possible=np.array(possible, np.bool_).reshape(count, width)[kept],
            meaning=self._meaning,
            continued_by=(self._continuation and self._continuation.by) or self._scheduler.name,
            repeats=repeats,
        )


def _alternatives(cluster: Cluster, workload: Workload, opinion: Opinion | None, chosen: int, actions: int) -> Int:
    """(actions,) the machines compared in ascending order, with the chosen one, then `WAIT`; the rest is `NONE`."""
    on = np.flatnonzero(cluster.capacity.any(axis=1))
    if len(on) >= actions:
        possible, score = np.zeros(len(cluster.capacity)), emptiest(cluster, workload)
        order = [score]
        if opinion is not None:
            possible = opinion.possible.astype(float)
            if opinion.scores is not None:
                thought = opinion.scores[: len(possible)]
                order.append(-thought if opinion.meaning == "expected cost" else thought)
        ranked = np.lexsort((*(-part for part in order), -possible, np.arange(len(possible)) != chosen))
        on = np.sort(ranked[np.isin(ranked, on)][: actions - 1])
    found = np.full(actions, NONE, np.int64)
    found[: len(on)], found[len(on)] = on, WAIT
    return found


def _opinion_on(machines: Int, opinion: Opinion | None) -> tuple[Float, npt.NDArray[np.bool_]]:
    """(A,) scores and (A,) whether it is possible, of alternatives; waiting always is."""
    scores, possible = np.full(len(machines), np.nan), machines == WAIT
    if opinion is None:  # nobody knows
        return scores, machines != NONE
    placing = machines >= 0
    possible[placing] = opinion.possible[machines[placing]]
    if opinion.scores is not None:
        scores[placing] = opinion.scores[machines[placing]]
        if len(opinion.scores) > len(opinion.possible):
            scores[machines == WAIT] = opinion.scores[-1]
        scores[~np.isfinite(scores)] = np.nan
    return scores, possible


class Followed(Scheduler):
    """Does what was recorded: workload i goes to `machine[i]` in slot `start[i]`; -1: never; and `moved` is moved.

    `behind`: the scheduler that was recorded, if it has a `leader`. That can say what it thinks, and goes on after
    alternatives.
    """

    def __init__(
        self,
        name: str,
        knowledge: Knowledge,
        machine: Int,
        start: Int,
        behind: Scheduler | None = None,
        moved: Moves | None = None,
    ) -> None:
        self.name, self.knowledge, self._machine, self._start = name, knowledge, machine, start
        self._behind, self._moved = behind, moved
        if behind is not None:
            self.leader = behind.leader
            self.looks_at_grid, self.needs_forecasts = behind.looks_at_grid, behind.needs_forecasts

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare what goes on after alternatives."""
        if self.leader is not None:
            self.leader.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        for workload in pending:
            if self._start[workload.index] == cluster.slot:
                yield Placement(workload, int(self._machine[workload.index]))

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `Scheduler.moves`."""
        if self._moved is not None:
            for k in np.flatnonzero(self._moved.slot - self._moved.rules.slots == cluster.slot):
                yield Move(int(self._moved.workload[k]), int(self._moved.target[k]))

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        """See `Scheduler.opinion`."""
        return None if self.leader is None else self.leader.opinion(cluster, workload)

    def continuation(self, runner: Runner, actions: int) -> Continuation:
        """See `Scheduler.continuation`."""
        assert self._behind is not None, "nobody knows how this scheduler would go on"
        return self._behind.continuation(runner, actions)
