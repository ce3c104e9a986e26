"""The schedulers of paper 002 by the names of its figures."""

from __future__ import annotations

import re

from tvwrl.flow.baselines.aligned import Graphene, Tetris
from tvwrl.flow.baselines.firmament import Firmament
from tvwrl.flow.baselines.medea import Medea
from tvwrl.flow.outcome import Place
from tvwrl.types import InputError

BASELINES = (
    *("Tetris.1", "Tetris.4", "Graphene.1", "Graphene.4"),
    *("Medea(1,1,1)", "Medea(1,0.5,0.5)", "Medea(0.5,0.5,0.5)"),
    *("TRIVIAL-cpu", "TRIVIAL-mem", "OCTOPUS-cpu", "OCTOPUS-mem"),
)
_WEIGHT = r"(0(?:\.\d+)?|1(?:\.0+)?)"


def scheduler(name: str, seed: int = 0) -> Place:
    """The scheduler of a name; numbers and resources in it may be others. Raises InputError if there is none."""
    if found := re.fullmatch(r"(Tetris|Graphene)\.(\d+)", name):
        return (Tetris if found[1] == "Tetris" else Graphene)(int(found[2]))
    if found := re.fullmatch(rf"Medea\({_WEIGHT},{_WEIGHT},{_WEIGHT}\)", name):
        return Medea(*map(float, found.groups()), seed=seed)
    if found := re.fullmatch(r"(TRIVIAL|OCTOPUS)-(\w+)", name):
        return Firmament("TRIVIAL" if found[1] == "TRIVIAL" else "OCTOPUS", found[2])
    raise InputError(f"there is no scheduler '{name}': must be one of {', '.join(BASELINES)}")
