"""Learning the options of a rule that moves: policy search by the cross-entropy method, in the same episodes for all.

Options are drawn from normal distributions, whole episodes are played with each draw, and the distributions move to the
best draws (Rubinstein and Kroese, The Cross-Entropy Method, 2004, chapter 4).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tvwrl.agents.learning_clock import Clock
from tvwrl.agents.value_learning import SEARCH, VALIDATION, Judge, check_problems, facts_of
from tvwrl.agents.value_settings import ValueSettings
from tvwrl.checks import one_of
from tvwrl.envs import Problem
from tvwrl.names import written
from tvwrl.progress import Report, nothing
from tvwrl.runs import write_json
from tvwrl.schedulers import MOST_TOGETHER, MOVE_RULES, BySearch, Scheduler, make_move_rule, make_scheduler, plus
from tvwrl.simulation import Scenario
from tvwrl.types import Float, InputError

ROUNDS = 2  # of a generation
CANDIDATES = 16  # draws of a round
ELITE = 4  # of these the best, to which means and deviations move
COUNT = "most"  # the option that is a whole number
KEPT = 0.3  # share of the former means and deviations that a round keeps
DIGITS = 3  # of an option
LEAST = {"risk": 1.0}  # lower weights of overshoots look good on sequences with few, and failed on unseen traces
UNPLACED = 1e9  # cost as a share of that without moves, where workloads were left unplaced
# By expected cost or a learnt value: compiled whole, so that thousands of episodes take minutes
SEARCHED = tuple(name for name, row in MOVE_RULES.items() if issubclass(row.made, BySearch))


class Option(NamedTuple):
    """How an option is drawn; most are drawn as logarithms, as factors matter and not differences."""

    name: str
    mean: float
    deviation: float
    by_factors: bool
    is_count: bool

    def value(self, drawn: float) -> float:
        """What the option is for a number that was drawn."""
        if self.is_count:
            return float(np.clip(round(drawn), 1, MOST_TOGETHER))
        value = math.exp(drawn) if self.by_factors else drawn
        return float(f"{max(value, LEAST.get(self.name, 0.0)):.{DIGITS}g}")


def options_of(rule: str) -> list[Option]:
    """What is searched of a rule: centres and widths are those of the values over which it is tuned.

    >>> [option.name for option in options_of("greedy")]
    ['threshold', 'overshoot', 'late']
    """
    found = []
    for name, values in MOVE_RULES[rule].made.options.items():
        if len(values) < 2:
            continue
        is_count = name == COUNT
        by_factors = min(values) > 0 and not is_count
        low, high = (math.log(end) if by_factors else end for end in (min(values), max(values)))
        width = (high - low) / (3 if by_factors else 2)
        found.append(Option(name, (low + high) / 2, width, by_factors, is_count))
    return found


def learn_rule(
    problems: Sequence[Problem],
    rule: str,
    settings: ValueSettings,
    report: Report = nothing,
    kept: Path | None = None,
) -> str:
    """Search the options of a rule on training sequences of all problems.

    Parameters
    ----------
    problems : Sequence[Problem]
        As `learn_value` takes them.
    rule : str
        One of `SEARCHED`.
    settings : ValueSettings
        Sequences, validation, generations, who places, and seed.
    report : Report, optional
        Called with lines of progress.
    kept : Path, optional
        Folder that keeps what each generation has learnt, from which a later call goes on with the same result.

    Returns
    -------
    str
        The rule with the options that cost least on validation sequences: its defaults, or the means of a generation.

    Raises
    ------
    InputError
        As `learn_value` does, and for another rule, or one that does not fit the problems.

    Examples
    --------
    >>> learn_rule([problem], "greedy-evacuate", ValueSettings(sequences=60))  # doctest: +SKIP
    'greedy-evacuate(threshold=11700,overshoot=0.896,late=0.573,most=3,single=1.57)'
    """
    check_problems(problems)
    one_of(SEARCHED, rule=rule)
    if why := make_move_rule(rule).misfit(problems[0].scenario, problems[0].machines.resources):
        raise InputError(f"{rule}: {why}")
    judge = Judge(problems, settings, VALIDATION, report)
    trial = Judge(problems, settings, SEARCH, report)
    space = options_of(rule)
    mean, deviation = (np.array([option[k] for option in space]) for k in (1, 2))
    best = rule
    cost = _finite(judge.cost_of(_maker(settings.places, rule)))
    report(f"{rule} as it is: {100 * cost:.1f} % of the cost without moves")
    clock, generation = Clock(settings, kept), 0
    while clock.goes_on(generation):
        generation += 1
        facts = facts_of(problems, settings) | {"rule": rule, "generation": generation}
        file = None if kept is None else kept / f"generation-{generation}.json"
        if file is not None and file.is_file():
            mean, deviation, found = _read(file, facts, len(space))
            name = _named(rule, space, mean)
        else:
            rng = np.random.default_rng([settings.seed, generation])
            for turn in range(1, ROUNDS + 1):
                mean, deviation, least = _round(trial, settings.places, rule, space, mean, deviation, rng)
                report(f"generation {generation}, round {turn}: least {100 * least:.1f} % on training sequences")
            name = _named(rule, space, mean)
            found = _finite(judge.cost_of(_maker(settings.places, name)))
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                state = {"mean": mean.tolist(), "deviation": deviation.tolist(), "rule_then": name, "validation": found}
                write_json(file, facts | state)
            clock.note(generation)
        report(f"generation {generation}: {100 * found:.1f} % of the cost without moves, {name}")
        if found < cost:
            best, cost = name, found
    return best


def _finite(cost: float) -> float:
    """The cost, beyond all others where workloads were left unplaced."""
    return cost if math.isfinite(cost) else UNPLACED


def _maker(places: str, rule: str) -> Callable[[Scenario], Scheduler]:
    """What makes the scheduler with that rule, whatever the scenario."""
    return lambda scenario: make_scheduler(plus(places, rule))


def _named(rule: str, space: Sequence[Option], drawn: Float) -> str:
    return written(
        rule, options={option.name: option.value(x) for option, x in zip(space, drawn.tolist(), strict=True)}
    )


def _round(
    trial: Judge,
    places: str,
    rule: str,
    space: Sequence[Option],
    mean: Float,
    deviation: Float,
    rng: np.random.Generator,
) -> tuple[Float, Float, float]:
    """Means and deviations after a round, and the least cost in it."""
    drawn = mean + deviation * rng.standard_normal((CANDIDATES, len(space)))
    drawn[0] = mean  # so that what is known is never lost
    costs = []
    for one in drawn:
        costs.append(_finite(trial.cost_of(_maker(places, _named(rule, space, one)))))
    elite = drawn[np.argsort(costs, kind="stable")[:ELITE]]
    mean = KEPT * mean + (1 - KEPT) * elite.mean(axis=0)
    deviation = KEPT * deviation + (1 - KEPT) * elite.std(axis=0)
    return mean, deviation, min(costs)


def _read(file: Path, facts: dict[str, object], options: int) -> tuple[Float, Float, float]:
    """What a generation has kept. Raises InputError if it was learnt otherwise, or the file is damaged."""
    damaged = "give another folder, or remove the file"
    try:
        known = dict(json.loads(file.read_text()))
    except (ValueError, TypeError) as error:
        raise InputError(f"{file} is damaged: {error}; {damaged}") from error
    if differing := [name for name, fact in facts.items() if known.get(name) != fact]:
        raise InputError(f"{file} was learnt with other {', '.join(differing)}: give another folder")
    try:
        mean, deviation = (np.array(known[name], np.float64) for name in ("mean", "deviation"))
        found = float(known["validation"])
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"{file} is damaged: {error}; {damaged}") from error
    sound = mean.shape == deviation.shape == (options,) and np.isfinite([*mean, *deviation]).all() and found > 0
    if not sound:
        raise InputError(f"{file} is damaged: needed: {options} finite means and deviations, and a cost; {damaged}")
    return mean, deviation, found
