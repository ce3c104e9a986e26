"""Moves that lower the expected cost: of single workloads, of all workloads of a machine, and swaps.

The expected cost of a machine is that of `expected_costs`, of what runs there and is on its way. A move gains what it
lowers the sum over machines by, over the 63 slots of a forecast and as if nothing moved afterwards. That is why gains
are compared with a threshold far above the price of a move: each slot would count the same gain again, and the largest
of many noisy gains is mostly noise.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least
from tvwrl.schedulers.knowledge import FORECASTS
from tvwrl.schedulers.moving.base import move_rule
from tvwrl.schedulers.moving.machine_costs import (
    costs_of,
)
from tvwrl.schedulers.moving.move_search import (
    SINGLE,
    SWAP,
    TOGETHER,
    BySearch,
    Search,
    check_together,
)
from tvwrl.simulation import Cluster

THRESHOLD = 10_000.0
MOST = 3  # workloads of a machine that are moved away together


@move_rule("Greedy moves")
class ExpectedGain(BySearch):
    """Makes the moves whose expected gain, for each workload moved, exceeds the threshold most.

    Parameters
    ----------
    threshold : float, default 10000.0
        Expected gain that a move must exceed, in units of the reward, >= 0.
    overshoot : float, default 1.0
        Weight of expected overshoots against expected under-utilisation, >= 0.
    most : float, default 3
        Workloads of a machine that are moved away together, a whole number from 1 to 8; where machines are emptied.
    single : float, default 1.0
        Factor on the threshold for workloads that are moved alone, >= 0; where machines are emptied too.
    late : float, default 1.0
        Weight of the under-utilisation that is forecast for slots 32 to 63, which later moves will change, >= 0.

    Examples
    --------
    >>> ExpectedGain(threshold=5000).name
    'greedy'
    """

    name, knowledge, needs_forecasts = "greedy", FORECASTS, True
    kinds: ClassVar = SINGLE  # of moves that it considers
    options: ClassVar = {
        "threshold": (1_000.0, 2_500.0, 5_000.0, 10_000.0, 15_000.0, 20_000.0, 30_000.0, 60_000.0),
        "overshoot": (0.25, 0.5, 1.0, 2.0),
        "late": (0.0, 0.25, 0.5),
    }

    def __init__(
        self,
        threshold: float = THRESHOLD,
        overshoot: float = 1.0,
        most: float = MOST,
        single: float = 1.0,
        late: float = 1.0,
    ) -> None:
        at_least(0, threshold=threshold, overshoot=overshoot, single=single, late=late)
        self.late = float(late)
        self.threshold, self.overshoot = float(threshold), float(overshoot)
        self.most, self.single = check_together(most), float(single)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Take the weights of the penalties and the sizes of the machines."""
        costs = costs_of(cluster, self.overshoot, late=self.late)
        self.search = Search(costs, self.kinds, self.threshold, self.most, self.single)


@move_rule("Greedy and swaps")
class Swap(ExpectedGain):
    """The same, also with pairs that change places."""

    name, kinds = "swap", SINGLE | SWAP


@move_rule("Evacuation of machines")
class Evacuate(ExpectedGain):
    """The same, of all workloads of a machine at once."""

    name, kinds = "evacuate", TOGETHER
    options: ClassVar = ExpectedGain.options | {"most": (2, 3, 4, 6, 8)}


@move_rule("Greedy and evacuation")
class GreedyEvacuate(ExpectedGain):
    """The same, of single workloads and of all of a machine."""

    name, kinds = "greedy-evacuate", SINGLE | TOGETHER
    options: ClassVar = Evacuate.options | {"single": (1.0, 1.5, 2.0, 3.0)}
