"""How a value of machines is learnt, by fitting or policy gradient: options that help can list without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from tvwrl.checks import at_least, below, different, positive, whole, within
from tvwrl.schedulers import make_scheduler, plain_expected_cost
from tvwrl.types import InputError


@dataclass(frozen=True)
class ValueSettings:
    """How a value of machines is learnt.

    Parameters
    ----------
    sequences : int, default 240
        Training sequences that a generation plays, over all problems; in a search of options, with each draw of them.
    validation : int, default 60
        Validation sequences on which settings are chosen, over all problems.
    generations : int, default 2
        Number of generations; each but the first plays the value of the one before.
    seconds : float, optional
        Time limit of learning, seconds, in place of a number of generations: none begins after it. How many there are
        then depends on how fast the computer is.
    random_moves : float, default 0.08
        Share of the slots in which a random move is made in place of the policy's.
    gammas : tuple[float, ...], default (0.85, 0.9, 0.94)
        Discounts per slot, of which one is chosen.
    risks : tuple[float, ...], default (1.0, 1.6)
        Weights of the value of overshoots, of which one is chosen. Validation sequences have few overshoots, so
        that low weights look good there: a value with 0.6 failed on a trace that it had not seen.
    thresholds : tuple[float, ...], default (1.0, 1.5, 2.0)
        Gains that a move must exceed, as multiples of its price, of which one is chosen.
    placings : tuple[float, ...], default (0.0,)
        Shares of the value in the choice of machines for what waits, of which one is chosen; 0: expected cost alone.
    places : str, default "expected-cost"
        Who places what waits: expected-cost, perhaps as in "expected-cost(opening=200)-backfill".
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
    seconds: float | None = None
    random_moves: float = 0.08
    gammas: tuple[float, ...] = (0.85, 0.9, 0.94)
    risks: tuple[float, ...] = (1.0, 1.6)
    thresholds: tuple[float, ...] = (1.0, 1.5, 2.0)
    placings: tuple[float, ...] = (0.0,)
    places: str = "expected-cost"
    units: tuple[int, int] = (64, 32)
    epochs: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        counts = {name: getattr(self, name) for name in ("sequences", "validation", "generations", "epochs", "seed")}
        whole(**counts)
        if len(self.units) != 2:
            raise InputError(f"units is {self.units}: must be two numbers, of two hidden layers")
        different(gammas=self.gammas, risks=self.risks, thresholds=self.thresholds, placings=self.placings)
        at_least(1, sequences=self.sequences, validation=self.validation, generations=self.generations)
        at_least(1, epochs=self.epochs, units=self.units)
        places = make_scheduler(self.places)
        object.__setattr__(self, "places", places.name)  # the same for all ways to write it
        if plain_expected_cost(places) is None:
            raise InputError(
                f"places is '{self.places}': must be expected-cost, perhaps with opening and backfilling, as in "
                "expected-cost(opening=200)-backfill"
            )
        at_least(0, seed=self.seed, risks=self.risks, thresholds=self.thresholds)
        if self.seconds is not None:
            positive(seconds=self.seconds)
        within(0, 1, random_moves=self.random_moves, placings=self.placings)
        below(1, gammas=self.gammas)


@dataclass(frozen=True)
class PolicySettings:
    """How to learn what to move by policy gradient: REINFORCE or PPO.

    Parameters
    ----------
    batches : int, default 4
        Batches of episodes that a generation plays; the policy makes steps after each.
    sequences_per_iteration : int, default 4
        Training sequences of a batch.
    trajectories : int, default 8
        Episodes per sampled sequence, at least 2; reinforce compares each with the others.
    temperature : float, default 100
        Units of the reward that logits are divided by: the larger, the more random are the moves.
    learning_rate : float, default 0.001
        Learning rate of Adam, which begins anew in each generation.
    gamma : float, default 0.95
        Discount per slot.
    gae_lambda : float, default 0.9
        Lambda of generalised advantage estimation, per slot (ppo): 1 relies on returns only, 0 on the critic only.
    clip : float, default 0.2
        Clipping range of the probability ratio (ppo).
    passes : int, default 3
        Passes over the episodes of a batch (ppo), with 4 steps each.

    Examples
    --------
    >>> PolicySettings(temperature=150)
    PolicySettings(batches=4, sequences_per_iteration=4, trajectories=8, temperature=150, ...)
    """

    batches: int = 4
    sequences_per_iteration: int = 4
    trajectories: int = 8
    temperature: float = 100.0
    learning_rate: float = 0.001
    gamma: float = 0.95
    gae_lambda: float = 0.9
    clip: float = 0.2
    passes: int = 3

    def __post_init__(self) -> None:
        counts = {
            name: getattr(self, name) for name in ("batches", "sequences_per_iteration", "trajectories", "passes")
        }
        whole(**counts)
        at_least(1, batches=self.batches, passes=self.passes, sequences_per_iteration=self.sequences_per_iteration)
        at_least(2, trajectories=self.trajectories)
        positive(temperature=self.temperature, learning_rate=self.learning_rate, clip=self.clip)
        within(0, 1, gae_lambda=self.gae_lambda)
        at_least(0, gamma=self.gamma)
        below(1, gamma=self.gamma)
