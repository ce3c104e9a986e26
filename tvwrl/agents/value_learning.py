"""Learning a value of machines for moves: play, note what each machine cost afterwards, fit, choose, play again.

The value of a machine is the discounted cost of that machine from the next slot on (a Monte Carlo return; moves are
charged to the machine that is left). It is learnt from episodes in which some decisions are replaced by random moves.
Labels are of single machines, so the noise of all others is not in them: the return of the whole cluster after a single
move is noise almost alone. The first generation plays a rule, later ones the value itself (policy iteration).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from tvwrl.agents.learning_clock import Clock
from tvwrl.agents.value_settings import ValueSettings
from tvwrl.envs import Problem
from tvwrl.packing import fits
from tvwrl.progress import Report, nothing
from tvwrl.schedulers import (
    SCALE,
    SLOPE,
    ByMachineValue,
    Layers,
    MachineValue,
    Moving,
    Runner,
    Scheduler,
    make_move_rule,
    make_scheduler,
    meaning,
)
from tvwrl.simulation import Scenario
from tvwrl.traces import Split
from tvwrl.types import Episode, Float, Float32, InputError, Int, Machines

LARGEST = 240.0  # of a label, in thousands: rarer ones would outweigh all others
LEAST_DEVIATION = 0.01  # of a feature that hardly changes
OVERSHOOTS = 0.02  # weight of the errors of overshoots, which are larger and nearly all noise
RATE, BATCH, DECAY = 8e-3, 4096, 1e-2
GOING_ON = 0.25  # of the rate, where weights go on from others
ENDS = ("generations", "seconds")  # settings that only say when learning ends
LEAST_STEPS = 100  # in an epoch: batches are smaller where there is little to learn from


class Labels(NamedTuple):
    """What episodes tell: n pairs of machine and slot."""

    features: Float32  # (n, F)
    costs: Float32  # (n, 2) discounted, in thousands: of load and moves, of overshoots


class Played(NamedTuple):
    """An episode, as a value learns from it."""

    slot: Int  # (t,) slots in which moves were decided
    features: Float32  # (t, M, F) of the machines after those moves
    costs: Float  # (T, M, 2) of load and moves, of overshoots


def learn_value(
    problems: Sequence[Problem],
    settings: ValueSettings,
    report: Report = nothing,
    kept: Path | None = None,
    start: MachineValue | None = None,
) -> MachineValue:
    """Learn one value of machines on training sequences of all problems.

    Parameters
    ----------
    problems : Sequence[Problem]
        With forecasts, and scenarios with `moves_per_slot` of the same `MEANING`; traces, loads and prices may differ.
    settings : ValueSettings
        How.
    report : Report, optional
        Called with lines of progress.
    kept : Path, optional
        Folder that keeps what each generation has learnt. A generation that is there is not learnt again: called with
        the same folder after an interruption, this goes on with the same result.
    start : MachineValue, optional
        A value to begin with: it plays the first generation, which learns on from its weights, and it is what is
        returned if no generation is better. Default: a rule plays the first generation, which learns from nothing.

    Returns
    -------
    MachineValue
        That of the generation which was best on validation sequences, with the settings that were best there.

    Raises
    ------
    InputError
        For problems without moves, those that have no value in common, a `start` that means nothing there, and a `kept`
        folder in which something else was learnt.

    Examples
    --------
    >>> learn_value([problem], ValueSettings(sequences=60)).save("value.npz")  # doctest: +SKIP
    """
    check_problems(problems)
    if start is not None and (why := start.misfit(problems[0].scenario, problems[0].machines.resources)):
        raise InputError(why)
    judge = Judge(problems, settings, report=report)
    best, value = None, start
    if start is not None:
        best = judge.cost(start)
        report(f"the value it begins with: {100 * best:.1f} % of the cost without moves")
    clock, generation = Clock(settings, kept), 0
    while clock.goes_on(generation):
        generation += 1
        file = None if kept is None else kept / f"generation-{generation}.npz"
        if file is not None and file.is_file():
            found = MachineValue.load(file)
            expected = facts_of(problems, settings) | place_of(generation, start)
            if differing := [name for name, fact in expected.items() if found.facts.get(name) != fact]:
                raise InputError(f"{file} was learnt with other {', '.join(differing)}: give another folder")
        else:
            found = _generation(problems, settings, judge, place_of(generation, start), value, report)
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                found.save(file)
            clock.note(generation)
        cost = float(str(found.facts.get("validation")))
        if not math.isfinite(cost):
            raise InputError(f"{file or 'what was learnt'}: its cost on validation sequences is {cost}")
        report(f"generation {generation}: {100 * cost:.1f} % of the cost without moves, with {_chosen(found)}")
        if best is not None and cost >= best:
            break
        best, value = cost, found
    assert value is not None
    return value


def _generation(
    problems: Sequence[Problem],
    settings: ValueSettings,
    judge: Judge,
    place: dict[str, object],
    value: MachineValue | None,
    report: Report,
) -> MachineValue:
    """What one generation learns, at its `place`, with the settings that are best on validation sequences."""
    count, generation = -(-settings.sequences // len(problems)), int(str(place["generation"]))
    played = list[Played]()
    for number, problem in enumerate(problems):
        where = f"{problem.trace.name}, load {problem.scenario.load:g}, price {problem.scenario.K_m:g}"
        report(f"generation {generation}: playing {count} training sequences of {where}")
        played += collect(problem, value, settings, generation, number, count)
    best: MachineValue | None = None
    about, resources = facts_of(problems, settings) | place, problems[0].machines.resources
    for gamma in settings.gammas:
        labels = labels_of(played, gamma)
        layers, explained = fit(labels, settings, None if value is None or place["began"] is None else value.layers)
        report(
            f"generation {generation}, discount {gamma}: {len(labels.costs):,} labels; explained of load "
            f"{explained[0]:.2f}, of overshoots {explained[1]:.2f}"
        )
        for risk in settings.risks:
            for threshold in settings.thresholds:
                chosen = {"gamma": gamma, "risk": risk, "threshold": threshold, "placing": 0.0}
                best = _better(best, judge, MachineValue(layers, resources, about | chosen))
    assert best is not None
    for placing in settings.placings:  # of the best alone, as what places hardly changes what moves best
        if placing > 0:
            best = _better(best, judge, replace(best, facts={**best.facts, "placing": placing}))
    return best


def _better(best: MachineValue | None, judge: Judge, found: MachineValue) -> MachineValue:
    """The value that costs less on validation sequences, which its facts then tell."""
    found = replace(found, facts=dict(found.facts) | {"validation": judge.cost(found)})
    return found if best is None or found.facts["validation"] < best.facts["validation"] else best


def check_problems(problems: Sequence[Problem]) -> None:
    """Raise InputError for problems that have no value of machines, or none in common."""
    if not problems:
        raise InputError("problems is empty: give at least one")
    for problem in problems:
        if not problem.scenario.moves_per_slot:
            raise InputError("moves_per_slot is 0: a value of machines is for moves; set it to 1 or more")
        if problem.forecaster is None:
            raise InputError("a problem has no forecaster: a value of machines needs forecasts (with_forecasts)")
        first = problems[0]
        if (
            meaning(problem.scenario) != meaning(first.scenario)
            or problem.machines.resources != first.machines.resources
        ):
            raise InputError("problems have other penalties, units or resources: learn a value for each")


def facts_of(problems: Sequence[Problem], settings: ValueSettings) -> dict[str, object]:
    """What a value is learnt from and how, as JSON holds it: where one of these differs, so may what is learnt."""
    how = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(settings).items() if name not in ENDS}
    return {
        "scenario": meaning(problems[0].scenario),
        "traces": sorted({problem.trace.name for problem in problems}),
        "loads": sorted({problem.scenario.load for problem in problems}),
        "prices": sorted({problem.scenario.K_m for problem in problems}),
        "settings": how,
        "problems": sha256(repr([problem.scenario for problem in problems]).encode()).hexdigest()[:16],
    }


def place_of(generation: int, start: MachineValue | None) -> dict[str, object]:
    """Which generation it is, and of what."""
    return {"generation": generation, "began": None if start is None else start.digest}


def _chosen(value: MachineValue) -> str:
    return ", ".join(f"{name} {value.facts[name]:g}" for name in ("gamma", "risk", "threshold", "placing"))


def first_rule(scenario: Scenario) -> str:
    """The move rule that the first generation plays; moves that cost more must gain more."""
    return f"greedy-evacuate(threshold={min(max(10 * scenario.K_m, 5_000), 20_000):g},most=2,single=3)"


def policy(scenario: Scenario, places: str, value: MachineValue | None) -> Scheduler:
    """Who plays a generation: the value of the one before, or the first rule."""
    rule = make_move_rule(first_rule(scenario)) if value is None else ByMachineValue(value)
    return Moving(make_scheduler(places), rule)


class Draw(NamedTuple):
    """What sequences are drawn for, so that no two purposes have the same."""

    number: int
    split: Split


COLLECTING, VALIDATION, CLIMBING, SEARCH = Draw(0, "train"), Draw(1, "validation"), Draw(2, "train"), Draw(3, "train")


class Judge:
    """Plays policies on the same sequences: those that validate, or those on which options of rules are searched."""

    def __init__(
        self, problems: Sequence[Problem], settings: ValueSettings, draw: Draw = VALIDATION, report: Report = nothing
    ) -> None:
        total, split = settings.validation if draw is VALIDATION else settings.sequences, draw.split
        self.total, self._count = total, -(-total // len(problems))
        report(f"playing {self._count * len(problems)} {split} sequences without moves")
        self._stages, self._places = [], settings.places
        for number, problem in enumerate(problems):
            drawn = problem.sequences(split, self._count, draw_seed(settings, 0, number, draw))
            runner = Runner(drawn, problem.machines, problem.scenario)
            still = self._costs(problem, runner, make_scheduler(self._places))
            if not math.isfinite(still):
                raise InputError(
                    f"workloads were left unplaced on {split} sequences without moves: lower the load, or add machines"
                )
            if still <= 0:
                raise InputError(
                    f"nothing costs anything on {split} sequences without moves: there is nothing to learn"
                )
            self._stages.append((problem, runner, still))

    def _costs(self, problem: Problem, runner: Runner, scheduler: Scheduler) -> float:
        return -float(sum(problem.score(runner.play(scheduler, i))["reward"] for i in range(self._count)))

    def cost(self, value: MachineValue) -> float:
        """The cost with a value as a share of that without moves, mean over problems."""
        return self.cost_of(lambda scenario: policy(scenario, self._places, value))

    def cost_of(self, make: Callable[[Scenario], Scheduler]) -> float:
        """The same of the scheduler that is made for a scenario; infinite where workloads were left unplaced."""
        shares = [
            self._costs(problem, runner, make(problem.scenario)) / still for problem, runner, still in self._stages
        ]
        mean = float(np.mean(shares))
        return mean if math.isfinite(mean) else math.inf


def draw_seed(settings: ValueSettings, generation: int, number: int, draw: Draw) -> int:
    """Of one draw of sequences: different for generations, problems and purposes."""
    return int(np.random.SeedSequence([settings.seed, generation, number, draw.number]).generate_state(1)[0])


def collect(
    problem: Problem, value: MachineValue | None, settings: ValueSettings, generation: int, number: int, count: int
) -> list[Played]:
    """Episodes of a generation on training sequences of a problem, in which some decisions are random moves."""
    seed = draw_seed(settings, generation, number, COLLECTING)
    runner = Runner(problem.sequences("train", count, seed), problem.machines, problem.scenario, seed)
    scheduler, found = policy(problem.scenario, settings.places, value), []
    for i in range(count):
        episode, slots, features = runner.noted(scheduler, i, settings.random_moves)
        found.append(Played(slots, features, costs_by_machine(episode, problem.machines, problem.scenario)))
    return found


def costs_by_machine(episode: Episode, machines: Machines, scenario: Scenario) -> Float:
    """(T, M, 2) what each machine cost in each slot: contention, under-utilisation and the price of moves away from it;
    first overshoots. Their sum over machines is that of the referee, without waiting.

    Parameters
    ----------
    episode : Episode
        With moves.
    machines : Machines
        The cluster.
    scenario : Scenario
        Its penalties.

    Examples
    --------
    >>> costs_by_machine(episode, problem.machines, problem.scenario).sum()  # doctest: +SKIP
    """
    count, resources = machines.capacity.shape
    slots, weights = int(episode.finish.max()), scenario.penalty_weights().per_resource(resources)
    load, squares = np.zeros((2, slots, count, resources))
    runs = np.zeros((slots, count), np.bool_)
    if episode.background is not None:
        load += episode.background[np.arange(slots) % len(episode.background)]
        squares += load**2
    stays = episode.stays()
    for i, m, begin, end in zip(*(part.tolist() for part in stays), strict=True):
        own = episode.demand[i][begin - episode.start[i] : end - episode.start[i]]
        load[begin:end, m] += own
        squares[begin:end, m] += own**2
        runs[begin:end, m] = True
    out = np.zeros((slots, count, 2))
    unused = np.where(weights[1] > 0, np.maximum(machines.capacity - load, 0.0) ** weights[1], 0.0)
    each = weights[0] * 0.5 * (load**2 - squares) + unused
    out[:, :, 0] = np.where(runs, each.sum(axis=2), 0.0)
    capacity = machines.capacity[:, :, None]
    over = ~fits(load[..., None], capacity, capacity)
    _charge_overshoots(episode, stays, over & runs[:, :, None], weights[2], scenario.overshoot_per, out)
    assert episode.moves is not None
    decided = episode.moves.slot - episode.moves.rules.slots
    np.add.at(out[:, :, 0], (decided, episode.moves.source), scenario.K_m)
    return out


def _charge_overshoots(
    episode: Episode, stays: tuple[Int, Int, Int, Int], over: np.ndarray, weight: Float, per: str, out: Float
) -> None:
    """Add first overshoots to `out`: of each workload over all its stays, or of each machine."""
    if per == "machine":
        first = over & (over.cumsum(axis=0) == 1)
        out[:, :, 1] += first @ weight
        return
    charged = np.zeros((len(episode.start), over.shape[2]), np.bool_)
    for i, m, begin, end in zip(*(part.tolist() for part in stays), strict=True):  # slots rise within a workload
        here = over[begin:end, m]
        for d in np.flatnonzero(here.any(axis=0) & ~charged[i]).tolist():
            out[begin + here[:, d].argmax(), m, 1] += weight[d]
            charged[i, d] = True


def labels_of(played: Sequence[Played], gamma: float) -> Labels:
    """Features of all machines in the slots that were noted, and what each cost from the next slot on, discounted."""
    features, labels = [], []
    for one in played:
        slots = len(one.costs)
        sums = np.zeros((slots, *one.costs.shape[1:]))
        for t in range(slots - 2, -1, -1):
            sums[t] = one.costs[t + 1] + gamma * sums[t + 1]
        kept = one.slot < slots
        features.append(one.features[kept].reshape(-1, one.features.shape[2]))
        labels.append((sums[one.slot[kept]] / SCALE).reshape(-1, 2).astype(np.float32))
    return Labels(np.concatenate(features), np.minimum(np.concatenate(labels), np.float32(LARGEST)))


def fit(labels: Labels, settings: ValueSettings, start: Layers | None = None) -> tuple[Layers, Float]:
    """Fit a network; returns it, and (2,) the share of the variance that it explains of what it was fitted to.

    Parameters
    ----------
    labels : Labels
        Features and costs.
    settings : ValueSettings
        Sizes, epochs and seed.
    start : Layers, optional
        Weights to go on from, in smaller steps; its sizes count then.

    Examples
    --------
    >>> layers, explained = fit(labels, ValueSettings())  # doctest: +SKIP
    """
    if start is None:
        mean, (first, second), rate = labels.features.mean(axis=0), settings.units, RATE
        scale = np.maximum(labels.features.std(axis=0), np.float32(LEAST_DEVIATION))
    else:
        mean, scale, (first, second), rate = start.mean, start.scale, start.second.shape, RATE * GOING_ON
    inputs = torch.from_numpy((labels.features - mean) / scale)
    targets, count = torch.from_numpy(labels.costs), len(labels.costs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        net = nn.Sequential(
            nn.Linear(len(mean), first), nn.LeakyReLU(SLOPE), nn.Linear(first, second), nn.LeakyReLU(SLOPE),
            nn.Linear(second, 2),
        )  # fmt: skip
        linear = [part for part in net if isinstance(part, nn.Linear)]
        if start is not None:
            for part, weight, bias in zip(linear, start[2::2], start[3::2], strict=True):
                part.weight.data, part.bias.data = torch.tensor(weight.T), torch.tensor(bias)
        batch = min(BATCH, max(count // LEAST_STEPS, 1))
        optimiser = torch.optim.AdamW(net.parameters(), rate, weight_decay=DECAY)
        steps = settings.epochs * (count // batch)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=max(steps, 2))
        balance = torch.tensor([1.0, OVERSHOOTS])
        for _ in range(settings.epochs):
            order = torch.randperm(count)
            for k in range(count // batch):
                rows = order[k * batch : (k + 1) * batch]
                loss = (balance * (net(inputs[rows]) - targets[rows]).square()).mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                cycle.step()
        with torch.no_grad():
            left = (net(inputs) - targets).var(dim=0) / targets.var(dim=0).clamp_min(1e-9)
    weights = [
        np.ascontiguousarray(values.detach().numpy(), np.float32)
        for part in linear
        for values in (part.weight.T, part.bias)
    ]
    return Layers(mean.astype(np.float32), scale.astype(np.float32), *weights), 1.0 - left.numpy().astype(np.float64)
