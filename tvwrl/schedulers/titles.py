"""What people call the registered schedulers, for pictures; tables show the names that commands take."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tvwrl.names import name_and_source
from tvwrl.schedulers.base import RULES
from tvwrl.schedulers.head_of_queue import BACKFILL
from tvwrl.schedulers.moving.base import MOVE_RULES, head_of, parted, plus
from tvwrl.schedulers.registry import KNOWLEDGE

OWN_RULES = ("expected-cost", "forecast-fit", "rollout(")  # how the names of this project's own rules begin
OWN_MOVE_RULES = ("greedy", "evacuate", "greedy-evacuate", "swap", "machine-value", "rollout-moves")
TITLES = {name: rule.title for name, rule in RULES.items()} | {
    "deeprm": "DeepRM",
    "tvw-rl": "TVW-RL",
    "agent": "Agent",
    "agent-history": "Agent, history only",
    "agent-peak": "Agent with peaks",
    "agent-forecast-peak": "Agent with peaks and forecasts",
}
INITIAL = "-initial"  # what the name of the policy before training ends with
LEARNT, BEFORE = "Learnt policy", ", before training"


def title_of(name: str) -> str:
    """What people call a scheduler; a name that nobody registered is shown as it is.

    >>> title_of("best-fit-peak-backfill"), title_of("n-sigma(n=3)"), title_of("mine")
    ('Best-Fit, peaks + backfill', 'N-sigma (Google), n=3', 'mine')
    >>> title_of("spread + swap(threshold=3000)")
    'Spread + Greedy and swaps, threshold=3000'
    """
    if name in TITLES:
        return TITLES[name]
    if (both := parted(name)) and (rule := head_of(both[1])) in MOVE_RULES:
        moving, file = name_and_source(both[1])
        settings = moving.strip().partition("(")[2].removesuffix(")")
        return ", ".join(filter(None, (plus(title_of(both[0]), MOVE_RULES[rule].title), settings, file.strip())))
    if name.endswith(BACKFILL):
        return f"{title_of(name.removesuffix(BACKFILL))} + backfill"
    base, _, options = name.partition("(")
    if base == "perfect-forecast" and options.endswith(")"):
        return f"{title_of(options[:-1])}, perfect forecasts"
    if base == "rollout":
        inner, _, options = options.removesuffix(")").partition(",")
        return ", ".join(filter(None, (f"Rollout of {title_of(inner)}", options)))
    return f"{TITLES[base]}, {options.removesuffix(')')}" if base in TITLES and options else name


def titles_of(names: Iterable[str]) -> dict[str, str]:
    """Scheduler -> what people call it, all different.

    A training run is the learnt policy, with its name if there are several, without the time if that leaves them apart.

    >>> list(titles_of(["tetris", "google-20260101-120000", "google-20260101-120000-initial"]).values())
    ['Tetris', 'Learnt policy', 'Learnt policy, before training']
    """
    names = list(names)
    runs = dict.fromkeys(name.removesuffix(INITIAL) for name in names if not is_registered(name))
    short = {run: re.sub(r"-\d{8}-\d{6}", "", run) for run in runs}
    short = short if len(set(short.values())) == len(runs) else {run: run for run in runs}
    titles = {}
    for name in names:
        run = name.removesuffix(INITIAL)
        if run not in runs:
            titles[name] = title_of(name)
        else:
            titles[name] = LEARNT + f" {short[run]}" * (len(runs) > 1) + BEFORE * (run != name)
    return titles


def is_registered(name: str) -> bool:
    """Whether this is the name of a scheduler, with options perhaps, and not that of a training run."""
    return name in KNOWLEDGE or title_of(name) != name


def is_ours(name: str) -> bool:
    """Whether this is one of this project's own rules, or a training run; of a rule with moves, whether those are."""
    if (both := parted(name)) and (rule := head_of(both[1])) in MOVE_RULES:
        return rule in OWN_MOVE_RULES
    return name.startswith(("agent", "tvw-rl", *OWN_RULES)) or not is_registered(name)
