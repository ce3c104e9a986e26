"""Moves by a learnt value of machines: what each is expected to cost from now on, under the policy that goes on.

The reward is a sum over machines, and so is the value of a state after a decision (a post-decision state; Powell,
Approximate Dynamic Programming, 2011, chapter 4.6): V = sum over machines of v(features of the machine). A move gains
what it lowers that sum by. `tvwrl.agents.value_learning` learns v.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, ClassVar
from zipfile import BadZipFile

import numpy as np

from tvwrl.checks import at_least, within
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.expected_cost import ExpectedCost, plain_expected_cost
from tvwrl.schedulers.head_of_queue import Backfill
from tvwrl.schedulers.knowledge import FORECASTS
from tvwrl.schedulers.moving.base import move_rule
from tvwrl.schedulers.moving.machine_costs import (
    Layers,
    costs_of,
    feature_count,
    joining,
    present,
)
from tvwrl.schedulers.moving.move_search import (
    SINGLE,
    TOGETHER,
    BySearch,
    Search,
    check_together,
)
from tvwrl.simulation import Cluster, Scenario
from tvwrl.types import Float, InputError, Workload, summary

FILE = "machine_value.npz"  # that comes with the package
LARGEST_WEIGHT, LEAST_SCALE = 1e4, 1e-3  # of a file: beyond them values overflow
IGNORED = ("K_w",)  # fields that values had which were learnt before
SCALE = 1000.0  # units of the reward that 1 of a value stands for
# Fields of the scenario that give a value its meaning; it is of no use where they differ. What waits is on no machine,
# so no label has its price.
MEANING = (
    "K_c", "K_u", "K_o", "overshoot_per", "capacity", "machine_types", "peak_units", "quantise", "perturb",
    "sample", "background", "usage_delay", "step_seconds", "move_slots", "move_overlap",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class MachineValue:
    """A learnt value of machines.

    Parameters
    ----------
    layers : Layers
        The network.
    resources : tuple[str, ...]
        (D,) names of the resources.
    facts : Mapping[str, Any]
        `scenario`: the fields of `MEANING`; `risk` and `threshold`: settings that were chosen with it; what else it was
        learnt from.

    Examples
    --------
    >>> MachineValue.load("runs/moves/value.npz")  # doctest: +SKIP
    """

    layers: Layers
    resources: tuple[str, ...]
    facts: Mapping[str, Any]

    def __repr__(self) -> str:
        return summary(self, resources=self.resources, learnt_from=self.facts.get("traces"))

    @property
    def digest(self) -> str:
        """A text that differs between values."""
        content = sha256(json.dumps(dict(self.facts), sort_keys=True).encode())
        for layer in self.layers:
            content.update(layer.tobytes())
        return content.hexdigest()[:16]

    def save(self, file: str | Path) -> None:
        """Write it to a file, which holds numbers and a text in JSON and nothing that runs.

        Parameters
        ----------
        file : str or Path
            A .npz file.
        """
        text = json.dumps({"resources": list(self.resources), "facts": dict(self.facts)}, sort_keys=True)
        about = np.frombuffer(text.encode(), np.uint8)
        part = Path(file).with_name(Path(file).name + ".part")
        with part.open("wb") as opened:
            np.savez_compressed(opened, about=about, **self.layers._asdict())
        part.replace(file)

    @classmethod
    def load(cls, file: str | Path) -> MachineValue:
        """Read it from a file.

        Parameters
        ----------
        file : str or Path
            What `save` wrote.

        Raises
        ------
        InputError
            If it is no such file.
        """
        path = Path(file)
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        try:
            with np.load(path, allow_pickle=False) as saved:
                about = json.loads(saved["about"].tobytes().decode())
                layers = Layers(**{name: np.ascontiguousarray(saved[name], np.float32) for name in Layers._fields})
            resources, facts = tuple(map(str, about["resources"])), dict(about["facts"])
            missing = sorted({"scenario", "risk", "threshold"} - set(facts))
            if not missing:
                facts["scenario"] = {name: v for name, v in facts["scenario"].items() if name not in IGNORED}
                missing = sorted(set(MEANING) ^ set(facts["scenario"]))
            if not missing:
                meaning(Scenario(**facts["scenario"]))
            chosen = {name: facts.get(name, 0.0) for name in ("risk", "threshold", "placing")}
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise InputError(f"{path} is no learnt value of machines, or damaged: {error}") from error
        width = feature_count(len(resources))
        shapes = [layer.shape for layer in layers]
        a, b = (layers.first.shape[-1], layers.second.shape[-1])
        if missing or shapes != [(width,), (width,), (width, a), (a,), (a, b), (b,), (b, 2), (2,)]:
            raise InputError(f"{path} is no learnt value of machines: {missing or shapes}")
        for name, number in chosen.items():
            most = 1 if name == "placing" else LARGEST_WEIGHT
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise InputError(f"{path}: its {name} is {number!r}: must be a number")
            if not 0 <= number <= most:
                raise InputError(f"{path}: its {name} is {number}: must be 0 to {most:g}")
        if not all((np.abs(layer) <= LARGEST_WEIGHT).all() for layer in layers) or (layers.scale < LEAST_SCALE).any():
            raise InputError(
                f"{path}: its weights are not all finite numbers up to {LARGEST_WEIGHT:g}, or scales not all "
                f"{LEAST_SCALE} or more"
            )
        return cls(layers, resources, facts)

    def misfit(self, scenario: Scenario, resources: Sequence[str]) -> str:
        """Why the value means nothing in a scenario; empty: it does.

        Parameters
        ----------
        scenario : Scenario
            What is played.
        resources : Sequence[str]
            (D,) names of the trace's resources.
        """
        if tuple(resources) != self.resources:
            return f"the learnt value is of {', '.join(self.resources)}, but the trace has {', '.join(resources)}"
        here = meaning(scenario)
        for name, learnt in meaning(Scenario(**self.facts["scenario"])).items():
            if here[name] != learnt:
                return (
                    f"the learnt value is for {name} {learnt}, but it is {here[name]} here: learn one for that "
                    "(tvwrl train --moves)"
                )
        return ""


def meaning(scenario: Scenario) -> dict[str, Any]:
    """The fields of a scenario that give a value its meaning, as JSON holds them, the same for all ways to write them.

    Of machines, only their kinds count.

    >>> meaning(Scenario(capacity=(8, 8), machine_types=())) == meaning(Scenario(machine_types=("10x8",)))
    True
    """
    found = {name: getattr(scenario, name) for name in MEANING}
    counts = [text.count(",") + 1 for text in scenario.machine_types] or [np.size(scenario.capacity)]
    sizes = scenario.cluster(tuple(map(str, range(max(counts))))).capacity  # resources as many as there are sizes
    kinds: list[list[float]] = np.unique(sizes, axis=0).tolist()
    if len(kinds) == 1:
        found |= {"capacity": kinds[0], "machine_types": ()}
    else:
        found |= {"capacity": Scenario().capacity, "machine_types": [f"1x{','.join(map(str, row))}" for row in kinds]}
    return {name: _shortest(value) for name, value in found.items()}


def _shortest(value: Any) -> Any:
    """A number in place of several that are the same."""
    if isinstance(value, tuple | list):
        value = list(value)
        return value[0] if value and isinstance(value[0], int | float) and len(set(value)) == 1 else value
    return value


@lru_cache(maxsize=1)
def shipped_value() -> MachineValue:
    """The value that comes with the package; `benchmarks/pretrain_value.py` made it, from traces that may be passed on.

    Examples
    --------
    >>> shipped_value().facts["traces"]
    ['google2011', 'google2019']
    """
    with as_file(files("tvwrl.schedulers.moving").joinpath(FILE)) as path:
        return MachineValue.load(path)


@move_rule("Learnt value of machines")
class ByMachineValue(BySearch):
    """Makes the moves that lower the learnt values of machines most, of single workloads and of whole machines.

    Parameters
    ----------
    value : MachineValue, optional
        What was learnt; default: that of `file`.
    file : str, default ''
        What `MachineValue.save` wrote; empty: the value that comes with the package.
    threshold : float, optional
        Gain that a move must exceed, as a multiple of its price, >= 0; default: as chosen when the value was learnt.
    risk : float, optional
        Weight of the value of overshoots, >= 0; default: as chosen when the value was learnt.
    most : float, default 4
        Workloads of a machine that are moved away together, a whole number from 1 to 8.
    placing : float, optional
        Share of the value in the choice of machines for what waits, 0 to 1, where `expected-cost` places; default: as
        chosen when the value was learnt.

    Examples
    --------
    >>> ByMachineValue(value, threshold=1.5)  # doctest: +SKIP
    """

    name, knowledge, needs_forecasts = "machine-value", FORECASTS.and_also("values learnt from moves"), True
    options: ClassVar = {
        "threshold": (0.7, 1.0, 1.5, 2.0, 3.0, 4.0), "risk": (1.0, 1.6, 2.5, 4.0), "most": (1, 2, 3, 4), "placing": (),
    }  # fmt: skip
    reads = "a value that tvwrl train --moves learnt"

    def __init__(
        self,
        value: MachineValue | None = None,
        file: str = "",
        threshold: float | None = None,
        risk: float | None = None,
        most: float = 4,
        placing: float | None = None,
    ) -> None:
        at_least(0, threshold=threshold, risk=risk)
        within(0, 1, placing=placing)
        value = value or (MachineValue.load(file) if file else shipped_value())
        self.value, self.most = value, check_together(most)
        self.threshold = value.facts["threshold"] if threshold is None else threshold
        self.risk = value.facts["risk"] if risk is None else risk
        self.share: float = value.facts.get("placing", 0.0) if placing is None else placing
        self._shared = placing is not None and placing > 0

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Take the weights of the penalties and the sizes of the machines."""
        if why := self.misfit(cluster.scenario, cluster.machines.resources):
            raise InputError(why)
        costs = costs_of(cluster, self.risk, self.value.layers, SCALE)
        self.search = Search(costs, SINGLE | TOGETHER, self.threshold * cluster.scenario.K_m, self.most)

    def misfit(self, scenario: Scenario, resources: Sequence[str]) -> str:
        """See `MoveRule.misfit`."""
        return self.value.misfit(scenario, resources)

    def placing_too(self, placing: Scheduler) -> Scheduler:
        """See `MoveRule.placing_too`. Raises InputError if its name gives it a share of another rule's choice."""
        if not self.share:
            return placing
        if served := plain_expected_cost(placing):
            shares = ByValue(self, served.opening)
            return shares if served is placing else Backfill(shares)
        if self._shared:
            raise InputError(f"placing is {self.share:g}, but {placing.name} places: only expected-cost shares")
        return placing


class ByValue(ExpectedCost):
    """Expected cost, in whose choice of a machine the learnt value of a rule has a share.

    `rule`: whose value and share it is; reset before this
    `opening`: as of `ExpectedCost`; compared with the expected cost alone, whatever the share
    """

    def __init__(self, rule: ByMachineValue, opening: float | None = None) -> None:
        super().__init__(opening=opening)
        self.rule = rule
        self.knowledge = rule.knowledge

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare the rule too, as it is asked first."""
        super().reset(cluster, rng)
        self.rule.reset(cluster, rng)

    def weighed(self, cluster: Cluster, workload: Workload, costs: Float) -> Float:
        """See `ExpectedCost.weighed`."""
        more = joining(present(cluster, cluster.running, self.rule.value.layers, workload), self.rule.search.costs)
        found: Float = (1.0 - self.rule.share) * costs.sum(axis=1) + self.rule.share * more
        return found
