"""Kubernetes' rules about labels and taints, for all nodes or all pods of a namespace at once.

A label selector becomes requirements, which are evaluated on an index of labels: a mask of those that it matches. So a
rule costs the same whether it stands in one pod or in a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tvwrl.rebalance.kubernetes_objects import Field
from tvwrl.types import Bool, Int

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")  # of label selectors
BARRING = ("NoSchedule", "NoExecute")  # effects of taints that keep pods away; PreferNoSchedule only advises


class Requirement(NamedTuple):
    """What a label must be."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


Selector = tuple[Requirement, ...]  # all must hold, so that the empty one matches everything


class Labels:
    """An index of the labels of N things.

    >>> labels = Labels([{"zone": "a"}, {"zone": "b"}, {}])
    >>> labels.match((Requirement("zone", "NotIn", ("a",)),))
    array([False,  True,  True])
    """

    def __init__(self, labels: Sequence[Mapping[str, str]]) -> None:
        self._number = len(labels)
        rows: dict[str, dict[str, list[int]]] = {}
        for row, one in enumerate(labels):
            for key, value in one.items():
                rows.setdefault(key, {}).setdefault(value, []).append(row)
        self._rows = {
            key: {value: np.array(where, np.int64) for value, where in values.items()} for key, values in rows.items()
        }

    def values(self, key: str) -> Int:
        """(N,) of each thing the number of its value of a label, from 0; -1: it has no such label."""
        number = np.full(self._number, -1, np.int64)
        for place, where in enumerate(self._rows.get(key, {}).values()):
            number[where] = place
        return number

    def match(self, selector: Selector) -> Bool:
        """(N,) which things meet all requirements."""
        met = np.ones(self._number, np.bool_)
        for requirement in selector:
            met &= self._meeting(requirement)
        return met

    def _meeting(self, requirement: Requirement) -> Bool:
        met, of_key = np.zeros(self._number, np.bool_), self._rows.get(requirement.key, {})
        match requirement.operator:
            case "In" | "NotIn":
                for value in requirement.values:
                    met[of_key.get(value, [])] = True
            case "Exists" | "DoesNotExist":
                for where in of_key.values():
                    met[where] = True
            case "Gt" | "Lt" if len(requirement.values) == 1:
                limit = _whole(requirement.values[0])
                for value, where in of_key.items():
                    number = _whole(value)
                    if limit is not None and number is not None:
                        met[where] = number > limit if requirement.operator == "Gt" else number < limit
        return ~met if requirement.operator in ("NotIn", "DoesNotExist") else met


def _whole(text: str) -> int | None:
    try:
        return int(text) if len(text) < 20 and text.strip() == text and "_" not in text else None
    except ValueError:
        return None


def label_selector(field: Field) -> Selector | None:
    """The requirements of a label selector; None, which matches nothing, where there is none.

    Raises InputError for an operator that Kubernetes does not know.
    """
    if not field.given:
        return None
    found = [Requirement(key, "In", (value,)) for key, value in field.at("matchLabels").texts().items()]
    for one in field.at("matchExpressions"):
        requirement = _requirement(one)
        if requirement.operator not in OPERATORS:
            one.at("operator").refuse(f"one of {', '.join(OPERATORS)}")
        found.append(requirement)
    return tuple(sorted(found))


def _requirement(field: Field) -> Requirement:
    values = tuple(sorted(value.text() for value in field.at("values")))
    return Requirement(field.at("key").name(), field.at("operator").text(), values)


def of_same_labels(keys: Field, labels: Mapping[str, str], operator: str) -> Selector:
    """What `matchLabelKeys` (operator In) and `mismatchLabelKeys` (NotIn) of a pod with these labels add."""
    named = [key.text() for key in keys]
    return tuple(Requirement(key, operator, (labels[key],)) for key in named if key in labels)


def nodes_selected(field: Field, names: Sequence[str], labels: Labels) -> Bool:
    """(M,) nodes that a NodeSelector allows: those that meet one of its terms.

    An empty term meets nothing, and so does one with an operator that is not known here.
    """
    allowed, column = np.zeros(len(names), np.bool_), np.array(names, np.object_)
    for term in field.at("nodeSelectorTerms"):
        expressions = tuple(_requirement(one) for one in term.at("matchExpressions"))
        fields = [_requirement(one) for one in term.at("matchFields")]
        if not expressions and not fields:
            continue
        if any(key not in ("matchExpressions", "matchFields") for key in term.fields()):
            continue
        if any(one.operator not in (*OPERATORS, "Gt", "Lt") for one in expressions):
            continue
        met = labels.match(expressions)
        for key, operator, values in fields:
            if key != "metadata.name" or operator not in ("In", "NotIn") or len(values) != 1:
                met[:] = False
            else:
                met &= (column == values[0]) == (operator == "In")
        allowed |= met
    return allowed


class Taints:
    """Taints of M nodes that keep pods away.

    >>> taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    >>> taints = Taints([Field([taint], "Node a"), Field(None, "Node b")])
    >>> taints.tolerated(Field([], "Pod c")), taints.tolerated(Field([{"operator": "Exists"}], "Pod d"))
    (array([False,  True]), array([ True,  True]))
    """

    def __init__(self, taints: Iterable[Field]) -> None:
        self._nodes: dict[tuple[str, str, str], list[int]] = {}
        self._number = 0
        for node, listed in enumerate(taints):
            self._number += 1
            for taint in listed:
                key, value, effect = (taint.at(name).text() for name in ("key", "value", "effect"))
                if effect in BARRING:
                    self._nodes.setdefault((key, value, effect), []).append(node)

    def tolerated(self, tolerations: Field) -> Bool:
        """(M,) nodes of which a pod with these tolerations tolerates every taint, for as long as it runs."""
        rules = [
            (
                *(one.at(name).text() for name in ("key", "operator", "value", "effect")),
                one.at("tolerationSeconds").given,
            )
            for one in tolerations
        ]
        allowed = np.ones(self._number, np.bool_)
        for (key, value, effect), nodes in self._nodes.items():
            if not any(
                its_effect in ("", effect)
                and not (for_a_while and effect == "NoExecute")
                and (its_key == key or (not its_key and operator == "Exists"))
                and (operator == "Exists" or (operator in ("", "Equal") and its_value == value))
                for its_key, operator, its_value, its_effect, for_a_while in rules
            ):
                allowed[nodes] = False
        return allowed
