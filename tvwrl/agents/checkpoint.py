"""Checkpoints: all that evaluation and exact resumption need, in a file that runs no code when loaded."""

from __future__ import annotations

import io
import pickle
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tvwrl import __version__
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.made_for import knows, problem_for
from tvwrl.agents.networks import Policy, make_policy
from tvwrl.ec import Classes, classes_from
from tvwrl.envs import Problem
from tvwrl.forecasting import Forecaster, NetworkForecaster
from tvwrl.runs import whole_file
from tvwrl.simulation import Scenario
from tvwrl.types import InputError, Trace

FORMAT = 7  # 7: a forecaster learnt once more without each fold
DAMAGE = (AttributeError, LookupError, TypeError, ValueError)  # what reading a damaged file can raise


@dataclass
class Checkpoint:
    """A trained policy, what is needed to rebuild its environment, and the state of training."""

    config: TrainConfig
    trace: dict[str, Any]  # argument, slot_seconds, name, source, hash
    unit: list[float]  # input value of one unit per resource
    resources: list[str]
    classes: Classes
    forecaster: Forecaster | None
    shapes: dict[str, Any]  # see `shapes_of`
    policy: dict[str, Any]  # weights
    learner: dict[str, Any]  # optimisers, critic
    random: dict[str, Any]  # states of the random streams
    iteration: int  # iterations done
    best_reward: float  # of the periodic evaluation
    best_iteration: int
    imitated: bool = False  # whether the head start is done
    best_policy: dict[str, Any] | None = None  # weights of `best_iteration`, where a generation may begin with them

    def save(self, path: Path) -> None:
        """Write the file atomically: a crash leaves the old one."""
        content = {
            "format": FORMAT,
            "tvwrl": __version__,
            **vars(self),
            "config": self.config.to_dict(),
            "classes": self.classes.to_dict(),
            "forecaster": None if self.forecaster is None else self.forecaster.to_dict(),
        }
        buffer = io.BytesIO()  # on a full disk torch's own writing ends in an error that names neither disk nor file
        torch.save(content, buffer)
        with whole_file(path) as partial:
            partial.write_bytes(buffer.getbuffer())

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a checkpoint. Raises InputError for a missing, damaged or foreign file."""
        if not path.is_file():
            raise InputError(f"{path}: no such checkpoint")
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except (*DAMAGE, RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
            raise InputError(f"{path} cannot be read: it is truncated or not a checkpoint") from error
        if not isinstance(content, dict) or "format" not in content:
            raise InputError(f"{path} is not a tvwrl checkpoint: it has no field 'format'")
        if content["format"] != FORMAT:
            raise InputError(
                f"{path} was written by tvwrl {content.get('tvwrl', '?')} in checkpoint format {content['format']}; "
                f"this is tvwrl {__version__}, which reads format {FORMAT}"
            )
        fields = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        needed = {name for name, field in cls.__dataclass_fields__.items() if field.default is MISSING}
        if missing := sorted(needed - set(fields)):
            raise InputError(f"{path} is damaged: field '{missing[0]}' is missing")
        try:
            fields["config"] = TrainConfig.from_dict(fields["config"])
            fields["classes"] = classes_from(fields["classes"])
            if fields["forecaster"] is not None:
                fields["forecaster"] = NetworkForecaster.from_dict(fields["forecaster"])
        except DAMAGE as error:
            raise InputError(f"{path} is damaged or from another version: {error}") from error
        return cls(**fields)

    @property
    def scenario(self) -> Scenario:
        """Of the environment that the policy is trained in."""
        return self.config.scenario

    def knows(self, trace: Trace) -> bool:
        """Whether it was trained on this very trace."""
        return knows(self, trace)

    def problem(self, trace: Trace, load: float | None = None) -> Problem:
        """Its environment on `trace`: see `problem_for`."""
        return problem_for(self, trace, load)

    def make_policy(self) -> Policy:
        """The policy network with its weights."""
        policy = make_policy(self.config.policy, self.shapes, self.config.hidden)
        try:
            policy.load_state_dict(self.policy)
        except RuntimeError as error:
            raise InputError(f"checkpoint weights do not fit its own environment: {error}") from error
        return policy


def find_checkpoint(run: Path, names: tuple[str, ...] = ("best.pt", "last.pt")) -> Path:
    """The file of a run folder (the first of `names` that exists), or the path itself if it is a file.

    Raises InputError if there is none.
    """
    if run.is_file():
        return run
    for name in names:
        if (run / "checkpoints" / name).is_file():
            return run / "checkpoints" / name
    if not run.exists():
        raise InputError(f"{run}: no such run folder or checkpoint")
    raise InputError(f"{run}: no checkpoint in this run (looked for checkpoints/{', checkpoints/'.join(names)})")


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """State of a numpy generator as strings and numbers that a checkpoint may hold."""
    state = rng.bit_generator.state
    return {**state, "state": {name: str(value) for name, value in state["state"].items()}}


def restore_generator(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Put a numpy generator back into a saved state."""
    rng.bit_generator.state = {**state, "state": {name: int(value) for name, value in state["state"].items()}}
