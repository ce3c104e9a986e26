"""What an exported file says of its policy beside the network: enough to schedule with it; needs no PyTorch.

In the file it is one JSON text per field, under the field's name with "tvwrl." before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl import __version__
from tvwrl.agents.exporting.onnx_file import PREFIX
from tvwrl.agents.made_for import knows, problem_for
from tvwrl.agents.shapes import environment_signature
from tvwrl.ec import Classes, classes_from
from tvwrl.envs import Problem
from tvwrl.forecasting import Forecaster, NetworkForecaster
from tvwrl.schedulers import knowledge_of
from tvwrl.simulation import Scenario
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    from tvwrl.agents.checkpoint import Checkpoint

FORMAT = 1
DAMAGE = (AttributeError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError, InputError)
TRACE = ("name", "source", "hash", "slot_seconds")  # what to open it by may be a path, and stays where it is


@dataclass(frozen=True)
class Facts:
    """What an exported file says of its policy."""

    name: str  # of the training run
    policy: str  # flat or shared
    scenario: Scenario  # that it was trained in
    shapes: dict[str, Any]  # see `shapes_of`
    classes: Classes
    forecaster: Forecaster | None  # without the windows that it learnt from, so that it cannot sample
    resources: tuple[str, ...]
    unit: tuple[float, ...]  # input value of one unit per resource
    trace: dict[str, Any]  # see `TRACE`

    @classmethod
    def of(cls, checkpoint: Checkpoint, name: str) -> Facts:
        """Those of a checkpoint."""
        given = checkpoint.trace
        return cls(
            name=name,
            policy=checkpoint.config.policy,
            scenario=checkpoint.config.scenario,
            shapes=checkpoint.shapes,
            classes=checkpoint.classes,
            forecaster=checkpoint.forecaster,
            resources=tuple(checkpoint.resources),
            unit=tuple(checkpoint.unit),
            trace={field: given.get(field) for field in TRACE},
        )

    @property
    def any_machines(self) -> bool:
        """Whether the policy can play on another number of machines."""
        return self.policy != "flat"

    def knows(self, trace: Trace) -> bool:
        """Whether the policy was trained on this very trace."""
        return knows(self, trace)

    def problem(self, trace: Trace, load: float | None = None) -> Problem:
        """The policy's environment on `trace`: see `problem_for`."""
        return problem_for(self, trace, load, f"policy '{self.name}'")

    def to_texts(self) -> dict[str, str]:
        """Field -> JSON, to be put into a file."""
        knowledge = knowledge_of(self.scenario)
        content = {
            "format": FORMAT,
            "version": __version__,
            "name": self.name,
            "policy": self.policy,
            "scenario": asdict(self.scenario),
            "signature": environment_signature(self.shapes, self.scenario),
            "shapes": self.shapes,
            "classes": self.classes.to_dict(),
            "forecaster": None if self.forecaster is None else _weights_of(self.forecaster),
            "resources": self.resources,
            "unit": self.unit,
            "knowledge": {"group": knowledge.group, "note": knowledge.note},
            "trace": self.trace,
        }
        return {PREFIX + field: json.dumps(value, separators=(",", ":")) for field, value in content.items()}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], where: str) -> Facts:
        """The inverse of `to_texts`. Raises InputError, which begins with `where`, for what is foreign or damaged."""
        if PREFIX + "format" not in texts:
            raise InputError(
                f"{where} is not a policy that tvwrl exported: its metadata lacks '{PREFIX}format'; write one with "
                "tvwrl export RUN"
            )
        try:
            content = {name.removeprefix(PREFIX): json.loads(text) for name, text in texts.items() if PREFIX in name}
            if content["format"] != FORMAT:
                raise InputError(
                    f"{where} was written by tvwrl {content.get('version', '?')} in export format {content['format']}; "
                    f"this is tvwrl {__version__}, which reads format {FORMAT}: export the run again"
                )
            forecaster = content["forecaster"]
            facts = cls(
                name=str(content["name"]),
                policy=content["policy"],
                scenario=Scenario(**content["scenario"]),
                shapes=content["shapes"],
                classes=classes_from(content["classes"]),
                forecaster=None if forecaster is None else NetworkForecaster.from_dict(forecaster),
                resources=tuple(map(str, content["resources"])),
                unit=tuple(map(float, content["unit"])),
                trace=content["trace"],
            )
            facts._check(content["signature"])
        except DAMAGE as error:
            if isinstance(error, InputError) and str(error).startswith(where):
                raise
            said = f"{type(error).__name__} {error}".splitlines()[0][:200]
            raise InputError(f"{where} is damaged: {said}; export the run again") from None
        return facts

    def _check(self, signature: dict[str, Any]) -> None:
        """Raise ValueError or TypeError for facts that contradict one another."""
        machines, resources, history, columns = (int(size) for size in self.shapes["grid"])
        if self.policy not in ("flat", "shared"):
            raise ValueError(f"its policy is {self.policy!r}")
        if environment_signature(self.shapes, self.scenario) != signature:
            raise ValueError("its shapes and its scenario do not make its signature")
        if not min(machines, history, columns) >= 1 or resources != len(self.resources) or resources != len(self.unit):
            raise ValueError(f"its shapes are of {resources} resources, its names {self.resources}")
        if not (np.isfinite(self.unit).all() and min(self.unit) > 0):
            raise ValueError(f"its unit is {self.unit}")
        if not {"name", "hash"} <= set(self.trace):
            raise ValueError("its trace has no name or hash")


def _weights_of(forecaster: Forecaster) -> dict[str, Any]:
    """What forecasts new workloads: neither the windows that it learnt from, nor the copies that forecast those."""
    content: dict[str, Any] = _single(forecaster.to_dict() | {"learnt": None, "without": {}})
    return content


def _single(value: Any) -> Any:
    """The same with floats of as many digits as single precision has, in which the weights are: half the text."""
    if isinstance(value, dict):
        return {name: _single(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_single(part) for part in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value
