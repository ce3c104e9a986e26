"""How a value of machines is learnt, by fitting or policy gradient: options that help can list without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from tvwrl.checks import at_least, below, different, positive, within
from tvwrl.types import InputError


@dataclass(frozen=True)
class ValueSettings:
    """How a value of machines is learnt.

    Parameters
    ----------
    sequences : int, default 240
        Training sequences that a generation plays, over all problems.
    validation : int, default 60
        Validation sequences on which settings are chosen, over all problems.
    generations : int, default 2
        The first plays a rule, or the value that it begins with; each other one the value of the generation before.
    minutes : float, optional
        No generation begins later than this many minutes after the first one, in place of a number of generations.
        How many there are then depends on how fast the machine is.
    random_moves : float, default 0.08
        Share of the slots in which a random move is made in place of the policy's.
    gammas : tuple[float, ...], default (0.85, 0.9, 0.94)
        Discounts per slot, of which one is chosen.
    risks : tuple[float, ...], default (1.0, 1.6)
        Weights of the value of overshoots, of which one is chosen. Validation sequences have few overshoots, so
        that low weights look good there: a value with 0.6 failed on a trace that it had not seen.
    thresholds : tuple[float, ...], default (1.0, 1.5, 2.0)
        Gains that a move must exceed, as multiples of its price, of which one is chosen.
    units : tuple[int, int], default (64, 32)
        Units of the hidden layers.
    epochs : int, default 6
        Times that all labels are seen.
    seed : int, default 0
        Of sequences, exploration and weights.

    Examples
    --------
    >>> ValueSettings(sequences=60, generations=1)
    ValueSettings(sequences=60, validation=60, generations=1, ...)
    """

    sequences: int = 240
    validation: int = 60
    generations: int = 2
    minutes: float | None = None
    random_moves: float = 0.08
    gammas: tuple[float, ...] = (0.85, 0.9, 0.94)
    risks: tuple[float, ...] = (1.0, 1.6)
    thresholds: tuple[float, ...] = (1.0, 1.5, 2.0)
    units: tuple[int, int] = (64, 32)
    epochs: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        counts = {name: getattr(self, name) for name in ("sequences", "validation", "generations", "epochs", "seed")}
        if wrong := [name for name, value in counts.items() if value != int(value)]:
            raise InputError(f"{wrong[0]} is {counts[wrong[0]]}: must be a whole number")
        if len(self.units) != 2:
            raise InputError(f"units is {self.units}: must be two numbers, of two hidden layers")
        different(gammas=self.gammas, risks=self.risks, thresholds=self.thresholds)
        at_least(1, sequences=self.sequences, validation=self.validation, generations=self.generations)
        at_least(1, epochs=self.epochs, units=self.units)
        at_least(0, seed=self.seed, risks=self.risks, thresholds=self.thresholds)
        if self.minutes is not None:
            positive(minutes=self.minutes)
        within(0, 1, random_moves=self.random_moves)
        below(1, gammas=self.gammas)


@dataclass(frozen=True)
class PolicySettings:
    """How what to move is learnt by policy gradient: REINFORCE or PPO.

    Parameters
    ----------
    batches : int, default 4
        Batches of episodes that a generation plays; steps are made after each.
    batch_sequences : int, default 4
        Training sequences of a batch.
    trajectories : int, default 8
        Episodes that are played on each of them, at least 2.
    temperature : float, default 100
        Units of the reward that logits are divided by: the larger, the more random are the moves.
    rate : float, default 1e-3
        Of the steps of Adam.
    discount : float, default 0.95
        Of costs, per slot.
    clip : float, default 0.2
        Of PPO: how far the probability of a decision may change at a step, as a share of it.
    passes : int, default 3
        Of PPO: times that a batch is used.
    look_ahead : float, default 0.9
        Of PPO: lambda of the generalised advantages.

    Examples
    --------
    >>> PolicySettings(temperature=150)
    PolicySettings(batches=4, batch_sequences=4, trajectories=8, temperature=150, ...)
    """

    batches: int = 4
    batch_sequences: int = 4
    trajectories: int = 8
    temperature: float = 100.0
    rate: float = 1e-3
    discount: float = 0.95
    clip: float = 0.2
    passes: int = 3
    look_ahead: float = 0.9

    def __post_init__(self) -> None:
        counts = {name: getattr(self, name) for name in ("batches", "batch_sequences", "trajectories", "passes")}
        if wrong := [name for name, value in counts.items() if value != int(value)]:
            raise InputError(f"{wrong[0]} is {counts[wrong[0]]}: must be a whole number")
        at_least(1, batches=self.batches, batch_sequences=self.batch_sequences, passes=self.passes)
        at_least(2, trajectories=self.trajectories)
        positive(temperature=self.temperature, rate=self.rate, clip=self.clip)
        within(0, 1, look_ahead=self.look_ahead)
        at_least(0, discount=self.discount)
        below(1, discount=self.discount)
