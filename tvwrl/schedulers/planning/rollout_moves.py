"""Rollout of moves: compares sets of moves in sampled futures; makes the set that is significantly the best.

The estimated gain of a move is mostly noise, and the largest of many is mostly luck. So the candidates of the expected
cost are played on, all in the same futures (common random numbers), in which whole clusters go on: what arrives, where
it is placed, who waits. It is one step of policy improvement on a rule that places and moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, whole
from tvwrl.schedulers.base import is_registered
from tvwrl.schedulers.head_of_queue import Backfill
from tvwrl.schedulers.knowledge import FORECASTS
from tvwrl.schedulers.moving.base import MoveRule, move_rule
from tvwrl.schedulers.moving.machine_costs import (
    Costs,
    Present,
    costs_of,
    present,
)
from tvwrl.schedulers.moving.move_search import (
    SINGLE,
    SWAP,
    TOGETHER,
    check_together,
    find_moves,
)
from tvwrl.schedulers.planning import rollout
from tvwrl.schedulers.planning.futures import Futures, Likeness
from tvwrl.schedulers.planning.move_replay import MoveReplay
from tvwrl.schedulers.planning.replay import NOWHERE
from tvwrl.schedulers.planning.rollout import ALSO_KNOWN, ROLLOUT_BASES, Tally
from tvwrl.simulation import Cluster
from tvwrl.types import Bool, InputError, Int, Move

ROLLOUTS, SLOTS, ERRORS, PRICES, MOST = 240, 24, 1.0, 2.0, 4
ALONE, EMPTIED = 4, 2  # candidates: workloads that move alone, machines that are emptied
SET_PRICES = (1.0, 4.0, 16.0)  # thresholds of the sets of moves that are found one after another, prices of a move


@move_rule("Rollout of moves")
class RolloutMoves(MoveRule):
    """Plays sets of moves on in sampled futures; makes the best if its mean gain is clear.

    The candidates are those of the expected cost: the workloads that gain most by moving alone, the machines that gain
    most by being emptied, the best swap, and sets that are found one move after another at several thresholds. After
    each, and after no move at all, the rule that places goes on in the same futures, and nothing moves. The better half
    gets further futures, and so on (sequential halving).

    Parameters
    ----------
    rollouts : float, default 240
        The budget of a decision: sets times futures, >= 2.
    horizon : float, default 24
        Length of a rollout, slots, >= 2. A long one counts gains that later moves could bring as well.
    certainty : float, default 1.0
        How many standard errors above 0 the mean gain of a set must be, >= 0.
    price : float, default 2.0
        Prices of a move that each must gain at least, >= 0. The price is paid once, but a move that is made now is
        compared with never moving, not with moving later.
    most : float, default 4
        Workloads of a machine that are moved away together, a whole number from 1 to 8.

    Raises
    ------
    InputError
        For values out of range.

    Examples
    --------
    >>> from tvwrl.schedulers import make_move_rule
    >>> make_move_rule("rollout-moves(horizon=16)").name
    'rollout-moves(horizon=16)'
    """

    name, knowledge, needs_forecasts = "rollout-moves", FORECASTS.and_also(ALSO_KNOWN), True
    is_slow = True
    options: ClassVar = {"rollouts": (), "horizon": (), "certainty": (), "price": (), "most": ()}

    def __init__(
        self,
        rollouts: float = ROLLOUTS,
        horizon: float = SLOTS,
        certainty: float = ERRORS,
        price: float = PRICES,
        most: float = MOST,
    ) -> None:
        at_least(2, rollouts=rollouts, horizon=horizon)
        at_least(0, certainty=certainty, price=price)
        whole(rollouts=rollouts, horizon=horizon)
        self.rollouts, self.horizon = int(rollouts), int(horizon)
        self.certainty, self.price, self.most = certainty, price, check_together(most)
        self._made: tuple[object, object] = (None, None)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode.

        Raises InputError where the rule that places cannot be rolled out, and for sequences without training sequences.
        """
        if self._made[0] is not cluster.simulation:
            self._make(cluster)
        self._rng, self._costs = rng, costs_of(cluster)
        self._futures.forget()

    def _make(self, cluster: Cluster) -> None:
        """Prepare for the sequences and the machines of a simulation."""
        simulation, placing = cluster.simulation, self.placing
        base = placing.served if isinstance(placing, Backfill) else placing
        if base.name not in ROLLOUT_BASES or not is_registered(base):
            raise InputError(
                f"{self.name} plays on with the rule that places, which is {placing.name}: must be one of "
                f"{', '.join(ROLLOUT_BASES)} without options, or these with -backfill"
            )
        if simulation.sequences.training is None:
            raise InputError(f"{self.name} samples futures from training sequences: draw them with Problem.sequences")
        training = simulation.sequences.training()
        likeness = Likeness(training, float(simulation.scenario.peak_units), True, base.name.endswith("-peak"))
        count = min(rollout.TOGETHER, self.rollouts)
        self._futures = Futures(simulation, training, likeness, count, self.horizon, base is not placing)
        sets = 1 + ALONE + EMPTIED + 1 + len(SET_PRICES)
        self._replay = MoveReplay(self._futures.simulation, base.name, self.horizon, sets)
        self._made = (simulation, training)

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        running, left = cluster.running, cluster.moves_left
        if not running.movable.any():
            return
        plans = candidates(present(cluster, running), self._costs, cluster.scenario.K_m, left, self.most)
        if len(plans) == 1:
            return
        for i, machine in plans[self._best(cluster, plans, left)][:left].tolist():
            if i != NOWHERE:
                yield Move(int(running.workload[i]), machine)

    def _best(self, cluster: Cluster, plans: Int, left: int) -> int:
        """The set of moves to make, by sequential halving; the first is none."""
        alive, tally = np.ones(len(plans), np.bool_), Tally(len(plans), 0)
        charged = self.price * cluster.scenario.K_m * (plans[:, :, 0] != NOWHERE).sum(axis=1)
        rounds = math.ceil(math.log2(len(plans)))
        for _ in range(rounds):
            todo = max(1, self.rollouts // (rounds * int(alive.sum())))
            while todo > 0:
                count = min(todo, rollout.TOGETHER)
                self._futures.sample(cluster, self._rng, count)
                tally.add(self._replay.move_costs(count, plans, left, alive) + charged)
                todo -= count
            alive = tally.better_half(alive)
        return tally.best(self.certainty)


def candidates(here: Present, costs: Costs, price: float, left: int, most: int) -> Int:
    """(A, P, 2) different sets of moves of rows of `here` to machines, -1: no more; the first is empty.

    `price`: gain in expected cost that each move of a set must exceed
    `left`: moves that may be made in the slot; only a machine that is emptied may take more
    """
    found: list[list[list[int]]] = [[]]

    def search(kinds: int, threshold: float, size: int, movable: Bool) -> list[list[int]]:
        fresh = here._replace(
            where=here.where.copy(), movable=movable.copy(), after=here.after.copy(),
            load=np.zeros_like(here.load), workloads=np.zeros_like(here.workloads), unshot=np.zeros_like(here.unshot),
        )  # fmt: skip
        moves = np.empty((size, 2), np.int64)
        made = find_moves(fresh, costs, kinds, threshold, most, 1.0, moves)
        chosen: list[list[int]] = moves[:made].tolist()
        if chosen and chosen not in found:
            found.append(chosen)
        return chosen

    for kinds, size, times in ((SINGLE, 1, ALONE), (TOGETHER, most, EMPTIED)):
        free = here.movable.copy()
        for _ in range(times):
            chosen = search(kinds, price, size, free)
            if not chosen:
                break
            free[[i for i, _ in chosen]] = False
    if left >= 2:
        search(SWAP, price, 2, here.movable)
    for prices in SET_PRICES:
        search(SINGLE | TOGETHER | SWAP, prices * price, left, here.movable)
    out = np.full((len(found), max(1, *map(len, found)), 2), NOWHERE)
    for row, moves in zip(out, found, strict=True):
        row[: len(moves)] = np.array(moves).reshape(-1, 2)
    return out
