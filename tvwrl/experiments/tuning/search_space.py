"""Which hyper-parameters a search may change, and how far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Range(NamedTuple):
    """Numbers from `low` to `high`, whole ones if the ends are."""

    low: float
    high: float
    log: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value can be drawn."""
        return self.low <= value <= self.high

    def suggest(self, trial: Any, name: str) -> float:
        """A value for the trial."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        suggest = trial.suggest_int if whole else trial.suggest_float
        value: float = suggest(name, self.low, self.high, log=self.log)
        return value


class Choice(NamedTuple):
    """One of a few values, in no order."""

    values: tuple[float, ...]

    def holds(self, value: float) -> bool:
        """Whether a value can be drawn."""
        return value in self.values

    def suggest(self, trial: Any, name: str) -> float:
        """A value for the trial."""
        value: float = trial.suggest_categorical(name, self.values)
        return value


SPACE: Mapping[str, Range | Choice] = {  # fields of TrainConfig; final_... keep their ratio to the start
    "learning_rate": Range(1e-4, 1e-2, log=True),
    "gamma": Choice((0.97, 0.99, 0.995, 0.997, 0.999, 1.0)),
    "gae_lambda": Range(0.5, 1.0),
    "entropy_bonus": Range(1e-4, 0.1, log=True),
    "clip": Range(0.1, 0.4),
    "hidden": Choice((20, 32, 64, 128)),
    "epochs": Range(1, 6),
    "minibatches": Choice((1, 2, 4, 8, 16)),
    "max_gradient_norm": Range(0.1, 5.0, log=True),
    "horizon": Choice((8, 16, 24, 32, 48, 64)),
    "cost_scale": Range(500.0, 10_000.0, log=True),
}
REPLAYING = ("horizon", "cost_scale")  # parameters of counterfactual learning alone
WITHOUT_EFFECT = {  # algo -> parameters
    "ppo": REPLAYING,
    "reinforce": ("gae_lambda", *REPLAYING),
    "counterfactual": ("gamma", "gae_lambda", "clip"),
    "sb3-ppo": REPLAYING,
    "sb3-a2c": ("clip", "epochs", *REPLAYING),
}
