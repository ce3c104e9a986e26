"""Which rules that move pods are replayed, and at which settings, from the names of `--moves`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from inspect import signature

from tvwrl.checks import different, either
from tvwrl.names import name_and_source, written
from tvwrl.schedulers import (
    MOVE_RULES,
    MostAllocated,
    MoveRule,
    Moving,
    head_of,
    make_move_rule,
    make_scheduler,
    parted,
    plus,
)
from tvwrl.types import InputError
from tvwrl.what_if.as_kubernetes import KUBERNETES

PROFILE = "kube-default"  # of kube-scheduler, if a name has none
DEFAULT_MOVES = (
    "low-node-utilization", "high-node-utilization", plus(MostAllocated.name, "high-node-utilization"),
    "low-node-load", "karpenter", plus(MostAllocated.name, "karpenter"), "karpenter-balanced", "greedy-evacuate",
    "machine-value",
)  # fmt: skip
SETTINGS = 3  # values of its first option at which a rule is played beside its default


def movers(names: Collection[str]) -> list[Moving]:
    """The rules of these names, each at several settings, unless its name has options; no names: `DEFAULT_MOVES`.

    A name is a rule that moves, or `PROFILE + RULE` with one of kube-scheduler's profiles.

    Raises InputError for unknown names, options that a rule does not have, and the same rule twice.
    """
    listed = [one for name in names or _default() for one in _settings(name.strip())]
    different(moves=[named(one) for one in listed])
    return listed


def _default() -> Iterator[str]:
    """`DEFAULT_MOVES`, and rules of packages that are built on this one, which plan from a record."""
    yield from DEFAULT_MOVES
    for name, row in MOVE_RULES.items():
        if row.made.watch is not MoveRule.watch:
            yield plus(MostAllocated.name, name)


def named(moving: Moving) -> str:
    """The rule, behind its profile if that is not Kubernetes' default."""
    return moving.name.removeprefix(plus(PROFILE, ""))


def family(name: str) -> str:
    """The same name without options.

    >>> family("most-allocated + karpenter(after=1)")
    'most-allocated + karpenter'
    """
    profile, rule = parted(name) or ("", name)
    return plus(profile, head_of(rule)) if profile else head_of(rule)


def _settings(name: str) -> Iterator[Moving]:
    profile, rule = parted(name) or (PROFILE, name)
    allowed = [made.name for made in KUBERNETES]
    if profile.partition("(")[0] not in allowed:
        raise InputError(f"moves is '{name}': {profile} places, but here it must be {either(sorted(allowed))}")
    made = make_move_rule(rule)
    if made.is_slow:
        raise InputError(f"moves is '{name}': it needs training workloads; name another rule")
    yield _moving(profile, rule)
    entry, file = name_and_source(rule)
    options = type(made).options
    if "(" in entry or not options:
        return
    option, values = next(iter(options.items()))
    usual = signature(type(made).__init__).parameters.get(option)
    others = [value for value in values if usual is None or value != usual.default]
    for value in _spread(others, SETTINGS):
        try:
            yield _moving(profile, written(entry, options={option: value}) + (f"={file}" if file else ""))
        except InputError:
            continue  # not together with the defaults of the rule's other options


def _moving(profile: str, rule: str) -> Moving:
    made = make_scheduler(plus(profile, rule))
    assert isinstance(made, Moving)
    return made


def _spread(values: list[float], count: int) -> list[float]:
    """At most so many of the values, evenly spread, the first and the last included."""
    if len(values) <= count:
        return values
    return [values[round(k * (len(values) - 1) / (count - 1))] for k in range(count)]
