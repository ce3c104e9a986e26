"""Move rules with the settings that are best on training sequences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvwrl.envs import Problem
from tvwrl.names import name_and_source, written
from tvwrl.progress import Report, nothing, phase
from tvwrl.schedulers import MOVE_RULES, Runner, Scheduler, head_of, make_move_rule, make_scheduler, plus
from tvwrl.schedulers import PLACING as PLACING
from tvwrl.types import InputError

QUICK = tuple(name for name, row in MOVE_RULES.items() if not row.made.is_slow)
SEQUENCES = 60  # that settings are chosen on
ROUNDS = 2  # in which they are, as what is best for one option depends on the others
SEED = 7001  # of these, so that they are not those that a policy is trained on


def with_tuned_moves(
    problem: Problem, placing: str, rules: Sequence[str] = QUICK, report: Report = nothing
) -> list[Scheduler]:
    """The scheduler `placing` with each of the move rules, at the settings that cost least on training sequences.

    Options are chosen in turn, in the order in which the rule lists them, each with the values found so far, twice.
    `report` gets a line for each rule.

    Parameters
    ----------
    problem : Problem
        What is played; with forecasts, if any of the rules needs them.
    placing : str
        Name of the scheduler that places.
    rules : Sequence[str], optional
        Names of move rules, perhaps with a file, as in `machine-value=value.npz`; default: all but those that take
        seconds an episode.
    report : Report, optional
        Called with lines of progress.

    Returns
    -------
    list of Scheduler
        One for each rule that can be played in the problem's scenario.

    Raises
    ------
    InputError
        For names that there are not, rules with options in their names, and files that hold no learnt value.

    Examples
    --------
    >>> [one.name for one in with_tuned_moves(problem, "expected-cost", ["evacuate"])]  # doctest: +SKIP
    ['expected-cost + evacuate(threshold=5000,overshoot=1,most=4)']
    """
    runner = Runner(problem.sequences("train", SEQUENCES, SEED), problem.machines, problem.scenario)
    found = []
    for rule in rules:
        if why := make_move_rule(rule).misfit(problem.scenario, problem.machines.resources):
            report(f"{rule} is left out: {why}")
            continue
        with phase(f"tuning {rule} on {SEQUENCES} training sequences, a minute or more", report):
            settings, best = tuned_settings(problem, runner, placing, rule)
        found.append(make_scheduler(plus(placing, with_settings(rule, settings))))
        said = f"mean reward {best:,.0f}" if math.isfinite(best) else "workloads were left unplaced at all settings"
        report(f"{found[-1].name}: {said} on {SEQUENCES} training sequences")
    return found


def tuned_settings(problem: Problem, runner: Runner, placing: str, rule: str) -> tuple[dict[str, float], float]:
    """The settings of a move rule that are best on the sequences of a runner, and the mean reward with them.

    Options are chosen in turn, each with the values found so far, `ROUNDS` times. Settings that the rule refuses, and
    those that leave workloads unplaced, are never the best; the reward is -inf if no others were found. Raises
    InputError for names that there are not, and a rule that has options in its name.
    """
    if "(" in name_and_source(rule)[0]:
        raise InputError(f"move rule is '{rule}': its options are tuned; write {head_of(rule)} without them")
    options = MOVE_RULES[head_of(rule)].made.options
    settings: dict[str, float] = {}
    known: dict[str, float] = {}  # by the name of what was played

    def reward(changed: Mapping[str, float]) -> float:
        name = with_settings(rule, {option: changed[option] for option in options if option in changed})
        if name not in known:
            known[name] = -math.inf
            if not changed or _is_allowed(name):
                mean = float(problem.rewards(runner, make_scheduler(plus(placing, name))).mean())
                known[name] = mean if math.isfinite(mean) else -math.inf
        return known[name]

    best = reward(settings)
    for _ in range(ROUNDS):
        for option, values in options.items():
            rewards = {value: reward(settings | {option: value}) for value in values}
            value = max(rewards, key=rewards.__getitem__, default=None)
            if value is not None and rewards[value] > best:  # otherwise what it was is as good
                settings[option], best = value, rewards[value]
    return {option: settings[option] for option in options if option in settings}, best


def _is_allowed(rule: str) -> bool:
    """Whether a rule takes its options together, as low and high thresholds."""
    try:
        make_move_rule(rule)
    except InputError:
        return False
    return True


def with_settings(rule: str, settings: Mapping[str, float]) -> str:
    """
    >>> with_settings("machine-value=value.npz", {"most": 2})
    'machine-value(most=2)=value.npz'
    """
    head, file = name_and_source(rule)
    return written(head, options=settings) + (f"={file}" if file else "")
