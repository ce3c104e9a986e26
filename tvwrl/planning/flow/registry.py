"""The planners of the Aladdin+H paper by name, as in its figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from tvwrl.planning.flow.aladdin import place_by_flow
from tvwrl.planning.flow.baselines.firmament import Firmament
from tvwrl.planning.flow.baselines.medea import Medea
from tvwrl.planning.flow.baselines.tetris_graphene import Graphene, Tetris
from tvwrl.planning.flow.network import FlowSettings
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import InputError

FlowPlanner = Callable[[PlanningProblem], Plan]

ALADDIN = tuple(f"Aladdin+H.{groups}({order})" for groups in (2, 4, 8) for order in ("LRF", "SRF"))
BASELINES = (
    *("Tetris.1", "Tetris.4", "Graphene.1", "Graphene.4"),
    *("Medea(1,1,1)", "Medea(1,0.5,0.5)", "Medea(0.5,0.5,0.5)"),
    *("TRIVIAL-cpu", "TRIVIAL-mem", "OCTOPUS-cpu", "OCTOPUS-mem"),
)
_WEIGHT = r"(0(?:\.\d+)?|1(?:\.0+)?)"


def flow_planner(name: str, seed: int = 0, medea_seconds: float = 2.0) -> FlowPlanner | None:
    """The planner of a `name` like those in `ALADDIN` and `BASELINES`, with any numbers and resources in it.

    `Aladdin+H.4` means `(LRF)`. A suffix `-none`, `-blocked` or `-cheapest` sets `FlowSettings.repack`; a further
    suffix `-still` switches `consolidate` off. `medea_seconds` limits each of Medea's integer programmes. `seed` >= 0
    decides what planners draw. None: there is no such planner.

    >>> plan = flow_planner("Tetris.1")(problem)  # doctest: +SKIP
    """
    if found := re.fullmatch(r"Aladdin\+H\.([1-9]\d*)(?:\((LRF|SRF)\))?(?:-(none|blocked|cheapest))?(-still)?", name):
        if found[3] == "none" and found[4]:
            raise InputError(f"planner '{name}': -still has no effect with -none: leave it out")
        order: Any = found[2] or "LRF"
        repack: Any = found[3] or "blocked"
        settings = FlowSettings(int(found[1]), order, repack, consolidate=not found[4])
        return partial(place_by_flow, settings=settings, seed=seed)
    if found := re.fullmatch(r"(Tetris|Graphene)\.(\d+)", name):
        return (Tetris if found[1] == "Tetris" else Graphene)(int(found[2]))
    if found := re.fullmatch(rf"Medea\({_WEIGHT},{_WEIGHT},{_WEIGHT}\)", name):
        a, b, c = map(float, found.groups())
        return Medea(a, b, c, limit=medea_seconds, seed=seed)
    if found := re.fullmatch(r"(TRIVIAL|OCTOPUS)-(\w+)", name):
        policy: Any = found[1]
        return Firmament(policy, found[2])
    return None
