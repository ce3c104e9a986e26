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
from tvwrl.agents.networks import Policy, make_policy
from tvwrl.agents.observing import Trained
from tvwrl.ec import Classes, classes_from
from tvwrl.forecasting import Forecaster, NetworkForecaster
from tvwrl.runs import whole_file
from tvwrl.simulation import Scenario
from tvwrl.types import InputError

FORMAT = 7  # 7: a forecaster learnt once more without each fold
DAMAGE = (AttributeError, LookupError, TypeError, ValueError)  # what reading a damaged file can raise


@dataclass
class Checkpoint(Trained):
    """A trained policy, what is needed to rebuild its environment, and the state of training.

    Parameters
    ----------
    config : TrainConfig
        Hyper-parameters, the scenario among them.
    trace : dict
        Argument, slot_seconds, name, source, hash.
    unit : list[float]
        Input value of one unit per resource.
    resources : list[str]
        (D,) of the trace.
    classes : Classes
        Which workloads are labelled with.
    forecaster : Forecaster or None
        Of demand, if the policy sees forecasts.
    shapes : dict
        See `shapes_of`.
    policy : dict
        Weights.
    learner : dict
        Optimisers and critic.
    random : dict
        States of the random streams.
    iteration : int
        Iterations done.
    best_reward : float
        Of the periodic evaluation.
    best_iteration : int
        How many iterations the best policy had; -1: none yet.
    imitated : bool, default False
        Whether the head start is done.
    steps : int, default 0
        Environment steps (decisions) that were learnt from.
    best_policy : dict, optional
        Weights of `best_iteration`, where a generation may begin with them.

    Examples
    --------
    >>> saved = Checkpoint.load(find_checkpoint(Path("runs/google")))  # doctest: +SKIP
    >>> saved.config.algo, saved.iteration  # doctest: +SKIP
    ('counterfactual', 40)
    """

    called = "the checkpoint"
    config: TrainConfig
    trace: dict[str, Any]
    unit: list[float]
    resources: list[str]
    classes: Classes
    forecaster: Forecaster | None
    shapes: dict[str, Any]
    policy: dict[str, Any]
    learner: dict[str, Any]
    random: dict[str, Any]
    iteration: int
    best_reward: float
    best_iteration: int
    imitated: bool = False
    steps: int = 0
    best_policy: dict[str, Any] | None = None

    def save(self, path: Path) -> None:
        """Write the file atomically: a crash leaves the old one.

        Parameters
        ----------
        path : Path
            The file.
        """
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
        """Read a checkpoint.

        Parameters
        ----------
        path : Path
            The file.

        Raises
        ------
        InputError
            For a missing, damaged or foreign file.
        """
        if not path.is_file():
            raise InputError(f"{path}: no such file; give the folder or a .pt file of a training run")
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except (*DAMAGE, RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
            raise InputError(f"{path} cannot be read: it is truncated or not a checkpoint") from error
        if not isinstance(content, dict) or "format" not in content:
            raise InputError(f"{path} is not a tvwrl checkpoint: it has no field 'format'")
        if content["format"] != FORMAT:
            raise InputError(
                f"{path} was written by tvwrl {content.get('tvwrl', '?')} in checkpoint format {content['format']}; "
                f"this is tvwrl {__version__}, which reads format {FORMAT}: train again, or use that version"
            )
        fields = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        needed = {name for name, field in cls.__dataclass_fields__.items() if field.default is MISSING}
        if missing := sorted(needed - set(fields)):
            raise InputError(
                f"{path} is damaged: field '{missing[0]}' is missing; use another checkpoint, or train again"
            )
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

    def make_policy(self) -> Policy:
        """The policy network with its weights."""
        policy = make_policy(self.config.policy, self.shapes, self.config.hidden, self.config.network)
        try:
            policy.load_state_dict(self.policy)
        except RuntimeError as error:
            raise InputError(f"checkpoint weights do not fit its own environment: {error}") from error
        return policy


def find_checkpoint(run: Path, names: tuple[str, ...] = ("best.pt", "last.pt")) -> Path:
    """Find the checkpoint of a run.

    Parameters
    ----------
    run : Path
        A run folder, a .pt file, or shipped:NAME, the weights of an agent that comes with the package.
    names : tuple[str, ...], optional
        Of files in the run's folder `checkpoints`; the first that exists is taken.

    Returns
    -------
    Path
        The file, or the path itself if it is a file.

    Raises
    ------
    InputError
        If there is none.

    Examples
    --------
    >>> find_checkpoint(Path("runs/google"))  # doctest: +SKIP
    PosixPath('runs/google/checkpoints/best.pt')
    """
    from tvwrl.agents.shipped import STARTS, located

    run = located(run, STARTS)
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
