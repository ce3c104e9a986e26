"""Learning what to move by policy gradient: REINFORCE and PPO on the weights of a value of machines.

The policy draws moves with probabilities that a value of machines gives (`tvwrl.schedulers.moving.move_policy`). Its
weights climb the gradient of what episodes bring, in place of being fitted to what machines cost. What is learnt is a
value again, of which only differences have a meaning, and is played as others are: without drawing.

- `reinforce`: several episodes on the same arrivals; what one costs from a slot on is compared with the mean of the
  others from that slot on (an input-dependent baseline; Mao et al., ICLR 2019).
- `ppo`: clipped ratios and generalised advantages, whose critic is a value of machines: the value that the policy
  begins with, fitted on to the costs of each batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
import torch

from tvwrl.agents.learning_clock import Clock
from tvwrl.agents.value_learning import (
    CLIMBING,
    LEAST_DEVIATION,
    Judge,
    Played,
    check_problems,
    costs_by_machine,
    draw_seed,
    facts_of,
    fit,
    labels_of,
    place_of,
)
from tvwrl.agents.value_settings import PolicySettings, ValueSettings
from tvwrl.checks import one_of
from tvwrl.envs import Problem
from tvwrl.progress import Report, nothing
from tvwrl.schedulers import (
    PLACING,
    SCALE,
    SLOPE,
    ByMachineValue,
    Costs,
    Decisions,
    Drawing,
    Layers,
    MachineValue,
    MoveRule,
    Moving,
    Present,
    Runner,
    climb,
    costs_of,
    draw_moves,
    feature_count,
    make_scheduler,
    no_decisions,
    present,
    untouched,
)
from tvwrl.simulation import Cluster
from tvwrl.types import Float, Float32, InputError, Move

MOST = 4  # workloads of a machine that are moved away together: the default of `machine-value`
WEIGHTS = 2  # layers before these are means and scales, which stay
FIRST_OUTPUTS = 0.1  # of the usual size, where a policy begins with nothing: its values differ little then
PARTS = 4  # of a batch: PPO makes a step on each
PASSES = 2  # of the critic over the labels of a batch


class Step(NamedTuple):
    """What was decided in a slot."""

    slot: int
    here: Present  # before the moves
    made: Decisions
    decisions: int  # how many
    before: Float32  # (M, F) features of the machines before the moves
    after: Float32  # (M, F) after them


class Trajectory(NamedTuple):
    """An episode, as a policy learns from it."""

    sequence: int  # of the batch: those of the same one have the same arrivals
    steps: list[Step]
    costs: Float  # (T, M, 2) of load and moves, of overshoots
    prices: Float  # (T, M) of moves alone, at the machine that is left
    weighing: Costs  # what logits are computed with; its weights are those of the policy, which change
    drawing: Drawing


class DrawnMoves(MoveRule):
    """Draws moves with the probabilities that a value gives, and notes what was drawn.

    Parameters
    ----------
    value : MachineValue
        Gives the probabilities; its weights are looked at anew in each slot.
    temperature : float
        Units of the reward that a logit is divided by, > 0.
    seed : tuple[int, ...], default (0,)
        Of what is drawn in an episode, whatever its arrivals are.

    Examples
    --------
    >>> DrawnMoves(shipped_value(), 200.0)  # doctest: +SKIP
    """

    name, knowledge, needs_forecasts = "drawn-moves", ByMachineValue.knowledge, True

    def __init__(self, value: MachineValue, temperature: float, seed: tuple[int, ...] = (0,)) -> None:
        self.value, self.temperature, self.seed = value, temperature, seed

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget the episode before. `rng` is not used: it is the same on the same arrivals."""
        facts = self.value.facts
        self._rng = np.random.default_rng(self.seed)
        self.weighing = costs_of(cluster, facts["risk"], self.value.layers, SCALE)
        self.drawing = Drawing(facts["threshold"] * cluster.scenario.K_m, self.temperature, MOST)
        self.steps: list[Step] = []

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        running = cluster.running
        here = present(cluster, running, self.value.layers)
        made = no_decisions(min(cluster.moves_left, len(running.workload)))
        features = np.empty((2, len(here.cost), len(here.seen)), np.float32)
        uniform = self._rng.random(len(made.option))
        count = draw_moves(untouched(here), self.weighing, self.drawing, uniform, made, features)
        self.steps.append(Step(cluster.slot, here, made, count, *features))
        for i, machine in made.moves[: made.end[count - 1] if count else 0].tolist():
            yield Move(int(running.workload[i]), machine)


class Climbing:
    """The weights of a policy, and the steps that they take up the gradient.

    Parameters
    ----------
    value : MachineValue
        What it begins with; it is not changed.
    rate : float
        Of Adam.
    """

    def __init__(self, value: MachineValue, rate: float) -> None:
        own = [layer.copy() for layer in value.layers]
        self.value = replace(value, layers=Layers(*own))
        self._weights = [torch.from_numpy(layer) for layer in own[WEIGHTS:]]  # the same memory
        self._optimiser = torch.optim.Adam(self._weights, rate)

    def gradient(self, slots: Sequence[tuple[Trajectory, Step, Float]], clip: float = 0.0) -> tuple[Layers, float]:
        """Mean gradient of slots with the gains of their decisions, and mean divergence from the policy that played.

        Parameters
        ----------
        slots : Sequence[tuple[Trajectory, Step, Float]]
            Each with (L + 1,) gains.
        clip : float, default 0
            Of the ratios of PPO; 0: no ratios.
        """
        up, apart = Layers(*(np.zeros_like(layer) for layer in self.value.layers)), 0.0
        for one, step, gains in slots:
            here = untouched(step.here)
            apart += climb(here, one.weighing, one.drawing, step.made, step.decisions, gains, clip, up)
        for layer in up:
            layer /= len(slots)
        return up, apart / len(slots)

    def step(self, up: Layers) -> None:
        """A step up a gradient."""
        for weight, gradient in zip(self._weights, up[WEIGHTS:], strict=True):
            weight.grad = torch.from_numpy(-gradient)
        self._optimiser.step()

    def frozen(self) -> MachineValue:
        """The value as it is now."""
        return replace(self.value, layers=Layers(*(layer.copy() for layer in self.value.layers)))


def returns_compared(played: Sequence[Trajectory], discount: float) -> list[Float]:
    """(t,) of each episode: what it cost less, from each decision on, than the others on the same arrivals.

    Parameters
    ----------
    played : Sequence[Trajectory]
        At least two on the same arrivals.
    discount : float
        Of a slot.
    """
    longest = max(len(one.costs) for one in played)
    costs = np.zeros((len(played), longest))
    for row, one in zip(costs, played, strict=True):
        total, prices, later = one.costs.sum(axis=(1, 2)), one.prices.sum(axis=1), 0.0
        for t in range(len(total) - 1, -1, -1):
            row[t] = prices[t] + later
            later = total[t] + discount * later
    of = np.array([one.sequence for one in played])
    found = list[Float]()
    for row, one in zip(costs, played, strict=True):
        same = costs[of == one.sequence]
        others = (same.sum(axis=0) - row) / (len(same) - 1)
        found.append((others - row)[[step.slot for step in one.steps]])
    return found


def advantages(one: Trajectory, critic: Layers, discount: float, look_ahead: float) -> Float:
    """(t, M) generalised advantages of an episode: what each machine cost less, from each decision on, than it was
    expected to cost without the moves of that slot.

    Parameters
    ----------
    one : Trajectory
        The episode.
    critic : Layers
        Values of machines.
    discount : float
        Of a slot.
    look_ahead : float
        Lambda: 0 trusts the critic from the next slot on, 1 never.
    """
    slots = np.array([step.slot for step in one.steps])
    expected, after = np.zeros((2, *one.prices.shape))
    expected[slots] = values(critic, np.array([step.before for step in one.steps]))
    after[slots] = values(critic, np.array([step.after for step in one.steps]))
    total, later, found = one.costs.sum(axis=2), np.zeros(one.prices.shape[1]), np.zeros(one.prices.shape)
    seen = np.zeros(len(found), np.bool_)  # in other slots nothing could move, and the critic was not asked
    seen[slots] = True
    for t in range(len(found) - 1, -1, -1):
        found[t] = expected[t] - one.prices[t] - later
        ahead = look_ahead if seen[t] else 1.0
        later = total[t] + discount * ((1.0 - ahead) * after[t] + ahead * later)
    advantage: Float = found[slots]
    return advantage


def values(layers: Layers, features: Float32) -> Float:
    """(...) what machines with features (..., F) are expected to cost, in units of the reward."""
    cost: Float = SCALE * outputs(layers, features).sum(axis=-1).astype(np.float64)
    return cost


def outputs(layers: Layers, features: Float32) -> Float32:
    """(..., 2) what a network returns for features (..., F), in thousands: costs of load, and of overshoots."""
    hidden = (features - layers.mean) / layers.scale @ layers.first + layers.first_bias
    deeper = np.maximum(hidden, SLOPE * hidden) @ layers.second + layers.second_bias
    both: Float32 = np.maximum(deeper, SLOPE * deeper) @ layers.last + layers.last_bias
    return both


def learn_policy(
    problems: Sequence[Problem],
    algo: str,
    settings: ValueSettings,
    how: PolicySettings,
    report: Report = nothing,
    kept: Path | None = None,
    start: MachineValue | None = None,
) -> MachineValue:
    """Learn by policy gradient what to move, on training sequences of all problems.

    Parameters
    ----------
    problems : Sequence[Problem]
        As `learn_value` takes them.
    algo : str
        `reinforce` or `ppo`.
    settings : ValueSettings
        Validation, generations, units and seed; without a start, the first threshold and risk.
    how : PolicySettings
        How.
    report : Report, optional
        Called with lines of progress.
    kept : Path, optional
        Folder that keeps what each generation has learnt, from which a later call goes on with the same result.
    start : MachineValue, optional
        A value to begin with, which is what is returned if no generation is better. Default: random weights.

    Returns
    -------
    MachineValue
        That of the generation which was best on validation sequences; it is played without drawing.

    Raises
    ------
    InputError
        For another `algo`; otherwise as `learn_value` does.

    Examples
    --------
    >>> learn_policy([problem], "ppo", ValueSettings(), PolicySettings(), start=shipped_value())  # doctest: +SKIP
    """
    one_of(("reinforce", "ppo"), algo=algo)
    check_problems(problems)
    if start is not None and (why := start.misfit(problems[0].scenario, problems[0].machines.resources)):
        raise InputError(why)
    judge, clock = Judge(problems, settings, report=report), Clock(settings, kept)
    value, critic = start or _random(problems, settings, how), start
    best, cost = value, judge.cost(value)
    report(f"the policy it begins with: {100 * cost:.1f} % of the cost without moves")
    generation = 0
    while clock.goes_on(generation):
        generation += 1
        facts = facts_of(problems, settings) | asdict(how) | place_of(generation, start) | {"algo": algo}
        names = ["generation", "critic"] if algo == "ppo" else ["generation"]
        files = [] if kept is None else [kept / f"{name}-{generation}.npz" for name in names]
        if files and all(file.is_file() for file in files):
            value, *critics = map(MachineValue.load, files)
            critic = critics[0] if critics else None
            if differing := [name for name, fact in facts.items() if value.facts.get(name) != fact]:
                raise InputError(f"{files[0]} was learnt with other {', '.join(differing)}: give another folder")
        else:
            value, critic = _generation(problems, algo, settings, how, generation, value, critic, report)
            facts |= {name: value.facts[name] for name in ("risk", "threshold")}
            value = replace(value, facts=facts | {"validation": judge.cost(replace(value, facts=facts))})
            for file, learnt in zip(files, (value, critic), strict=False):
                assert learnt is not None  # a critic is there where its file is asked for
                file.parent.mkdir(parents=True, exist_ok=True)
                learnt.save(file)
            clock.note(generation)
        found = float(str(value.facts["validation"]))
        if not math.isfinite(found):
            raise InputError(
                f"generation {generation}: its cost on validation sequences is {found}: "
                "workloads were left unplaced, or the weights grew beyond all bounds; lower learning_rate"
            )
        report(f"generation {generation}: {100 * found:.1f} % of the cost without moves")
        if found < cost:
            best, cost = value, found
    return best


def _generation(
    problems: Sequence[Problem],
    algo: str,
    settings: ValueSettings,
    how: PolicySettings,
    generation: int,
    value: MachineValue,
    critic: MachineValue | None,
    report: Report,
) -> tuple[MachineValue, MachineValue | None]:
    """Weights after the batches of a generation, and a critic that was fitted on; steps begin anew each time."""
    climbing, began = Climbing(value, how.learning_rate), monotonic()
    stages = []
    for number, problem in enumerate(problems):
        count = how.sequences_per_iteration * len(range(number, how.batches, len(problems)))
        if count:
            seed = draw_seed(settings, generation, number, CLIMBING)
            runner = Runner(problem.sequences("train", count, seed), problem.machines, problem.scenario)
            stages.append((problem, runner))
    costs, apart, moves = 0.0, list[float](), 0
    for batch in range(how.batches):
        turn, number = divmod(batch, len(stages))
        problem, runner = stages[number]
        first = turn * how.sequences_per_iteration
        played = []
        for k in range(how.sequences_per_iteration * how.trajectories):
            sequence, trajectory = divmod(k, how.trajectories)
            drawn = (settings.seed, generation, batch, sequence, trajectory)
            one = play(problem, runner, first + sequence, climbing.value, how.temperature, drawn, settings.places)
            played.append(one)
        costs += sum(float(one.costs.sum()) for one in played) / len(played)
        moves += sum(
            len(step.made.moves) and int(step.made.end[step.decisions - 1]) for one in played for step in one.steps
        )
        if algo == "reinforce":
            gains = returns_compared(played, how.gamma)
            up, _ = climbing.gradient(_slots(played, gains))
            climbing.step(up)
            continue
        critic = fitted(problems, played, settings, how, critic)
        gains = [advantages(one, critic.layers, how.gamma, how.gae_lambda).sum(axis=1) for one in played]
        slots = _slots(played, gains)
        rng = np.random.default_rng([settings.seed, generation, batch])
        for _ in range(how.passes):
            for part in np.array_split(rng.permutation(len(slots)), PARTS):
                up, divergence = climbing.gradient([slots[k] for k in part], how.clip)
                climbing.step(up)
                apart.append(divergence)
    episodes = how.batches * how.sequences_per_iteration * how.trajectories
    said = f", divergence {apart[-1]:.4f}" if apart else ""
    report(
        f"generation {generation}: {episodes} drawn episodes in {monotonic() - began:.0f} s, mean cost "
        f"{costs / how.batches / 1000:.1f} thousand, {moves / episodes:.1f} moves{said}"
    )
    value = climbing.frozen()
    return value, critic


def play(
    problem: Problem,
    runner: Runner,
    sequence: int,
    value: MachineValue,
    temperature: float,
    seed: tuple[int, ...],
    places: str = PLACING,
) -> Trajectory:
    """An episode with drawn moves.

    Parameters
    ----------
    problem : Problem
        Whose it is.
    runner : Runner
        Of training sequences.
    sequence : int
        Which of these.
    value : MachineValue
        Gives the probabilities.
    temperature : float
        Of these.
    seed : tuple[int, ...]
        Of what is drawn.
    places : str, optional
        Who places what waits.
    """
    rule = DrawnMoves(value, temperature, seed)
    episode = runner.play(Moving(make_scheduler(places), rule), sequence)
    costs = costs_by_machine(episode, problem.machines, problem.scenario)
    prices = np.zeros(costs.shape[:2])
    assert episode.moves is not None
    decided = episode.moves.slot - episode.moves.rules.slots
    np.add.at(prices, (decided, episode.moves.source), problem.scenario.K_m)
    steps = [step for step in rule.steps if step.slot < len(costs)]
    return Trajectory(sequence, steps, costs, prices, rule.weighing, rule.drawing)


def _slots(played: Sequence[Trajectory], gains: Sequence[Float]) -> list[tuple[Trajectory, Step, Float]]:
    """The slots in which something could be moved, with the gains of all their decisions, of mean square 1."""
    found = [
        (one, step, np.full(len(step.made.option), gain))
        for one, own in zip(played, gains, strict=True)
        for step, gain in zip(one.steps, own.tolist(), strict=True)
        if step.here.movable.any()
    ]
    size = math.sqrt(np.mean([gains[0] ** 2 for _, _, gains in found])) if found else 1.0
    return [(one, step, gains / max(size, 1e-9)) for one, step, gains in found]


def fitted(
    problems: Sequence[Problem],
    played: Sequence[Trajectory],
    settings: ValueSettings,
    how: PolicySettings,
    critic: MachineValue | None,
) -> MachineValue:
    """The critic, fitted on to what a batch cost."""
    labels = labels_of(
        [
            Played(np.array([step.slot for step in one.steps]), np.array([step.after for step in one.steps]), one.costs)
            for one in played
        ],
        how.gamma,
    )
    layers, _ = fit(labels, replace(settings, epochs=PASSES), None if critic is None else critic.layers)
    facts = facts_of(problems, settings) | {"risk": 1.0, "threshold": 1.0}
    return MachineValue(layers, problems[0].machines.resources, facts)


def _random(problems: Sequence[Problem], settings: ValueSettings, how: PolicySettings) -> MachineValue:
    """Random weights, for features of the size that they have where nothing moves."""
    resources = problems[0].machines.resources
    width = feature_count(len(resources))
    rng = np.random.default_rng(settings.seed)
    sizes = (width, *settings.units, 2)
    weights = []
    for number, (rows, columns) in enumerate(pairwise(sizes)):
        size = math.sqrt(2.0 / rows) * (FIRST_OUTPUTS if number == 2 else 1.0)
        weights += [rng.normal(0.0, size, (rows, columns)), np.zeros(columns)]
    facts = facts_of(problems, settings) | {"risk": settings.risks[0], "threshold": settings.thresholds[0]}
    layers = Layers(*(np.ascontiguousarray(part, np.float32) for part in (np.zeros(width), np.ones(width), *weights)))
    still, features = MachineValue(layers, resources, facts), []
    for number, problem in enumerate(problems):
        drawn = problem.sequences("train", how.sequences_per_iteration, draw_seed(settings, 0, number, CLIMBING))
        runner = Runner(drawn, problem.machines, problem.scenario)
        for i in range(how.sequences_per_iteration):
            features += [step.before for step in play(problem, runner, i, still, how.temperature, (i,)).steps]
    seen = np.concatenate(features)
    scale = np.maximum(seen.std(axis=0), np.float32(LEAST_DEVIATION))
    return replace(still, layers=layers._replace(mean=seen.mean(axis=0), scale=scale))
