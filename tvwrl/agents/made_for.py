"""What a saved policy was made for, and its environment on a trace; needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tvwrl.ec import Classes
from tvwrl.envs import Problem
from tvwrl.forecasting import Forecaster
from tvwrl.simulation import Scenario
from tvwrl.traces import trace_hash
from tvwrl.types import InputError, Trace


class MadeFor(Protocol):
    """What a checkpoint and an exported file both say of their policy."""

    @property
    def scenario(self) -> Scenario:
        """Of the environment that it was trained in."""

    @property
    def trace(self) -> dict[str, Any]:
        """`name` and `hash` of the trace that it was trained on, and more."""

    @property
    def unit(self) -> Sequence[float]:
        """(D,) value in the trace of one unit of each resource."""

    @property
    def resources(self) -> Sequence[str]:
        """The resources that it observes."""

    @property
    def classes(self) -> Classes:
        """The classes of workloads that it observes."""

    @property
    def forecaster(self) -> Forecaster | None:
        """Whose forecasts it observes."""


def knows(made: MadeFor, trace: Trace) -> bool:
    """Whether the policy was trained on this very trace."""
    return bool(trace_hash(trace) == made.trace["hash"])


def problem_for(made: MadeFor, trace: Trace, load: float | None = None, what: str = "the checkpoint") -> Problem:
    """The policy's environment on `trace`, at its own load or another; units are derived anew for a trace that it was
    not trained on.

    `what`: what holds the policy, in errors. Raises InputError for a trace of other resources.
    """
    if list(trace.resources) != list(made.resources):
        raise InputError(
            f"trace '{trace.name}' has the resources {', '.join(trace.resources)}, "
            f"but {what} was trained on {', '.join(made.resources)}"
        )
    scenario = made.scenario if load is None else replace(made.scenario, load=load)
    unit = np.array(made.unit) if knows(made, trace) else None
    return Problem.build(trace, scenario, made.classes, unit, made.forecaster)
