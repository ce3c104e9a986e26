"""What a pod requests, as Kubernetes counts it: the one definition that the loader, what-if and the server share.

A pod requests the larger of what its containers need together (with its sidecars, which run beside them) and of what
one of its init containers needs (with the sidecars started before it), plus the overhead of its runtime class. A
request that is made for the pod itself stands for that of its containers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.types import Float, InputError

MOST_LISTED = 100_000
MOST_CONTAINERS = 1000
MOST = 2.0**63  # of a quantity: Kubernetes cuts larger ones as well
MOST_QUANTITY = 64  # characters
QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i))?", re.ASCII)
# fmt: off
SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}
# fmt: on
KINDS = ("cpu", "memory")  # in our order: cores, bytes


@dataclass(frozen=True)
class Requested:
    """The parts of what pods request: arrays of one shape; NaN where there is none."""

    containers: Float  # sum of the containers
    sidecars: Float  # sum of the sidecars
    steps: Float  # the most that one other init container needs with the sidecars before it
    overhead: Float  # of the pod's runtime class
    pod: Float  # resources of the pod itself

    @property
    def total(self) -> Float:
        """What the pods request.

        >>> part = np.array([1.0]), np.array([0.5]), np.array([2.0]), np.array([0.25]), np.array([np.nan])
        >>> Requested(*part).total
        array([2.25])
        """
        by_containers = np.fmax(plus(self.containers, self.sidecars), self.steps)
        return plus(np.where(np.isnan(self.pod), by_containers, self.pod), self.overhead)


def requested(
    containers: Iterable[Float], init: Sequence[tuple[Float, bool]], overhead: Float, pod: Float
) -> Requested:
    """The parts of one pod, from what each of its containers requests of D resources.

    `containers`: (D,) each
    `init`: (D,) of each init container in their order, and whether it is a sidecar
    `overhead`, `pod`: (D,)
    """
    nothing = np.full_like(overhead, np.nan)
    total, sidecars, steps = nothing, nothing, nothing
    for asked, sidecar in init:
        if sidecar:
            sidecars = plus(sidecars, asked)
        else:
            steps = np.fmax(steps, plus(sidecars, asked))
    for asked in containers:
        total = plus(total, asked)
    return Requested(total, sidecars, steps, overhead, pod)


def plus(one: Float, other: Float) -> Float:
    """The sum, in which NaN is nothing; NaN only where both are."""
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, one + other))


def request_of(spec: object, field: str = "Pod.spec") -> Float:
    """(2,) cores and bytes that a pod requests, from its `spec` as the API has it; NaN: it requests none.

    Raises InputError, naming the field, for what Kubernetes would not have.

    >>> request_of({"containers": [{"resources": {"requests": {"cpu": "250m"}}}], "overhead": {"cpu": "50m"}})
    array([0.3, nan])
    """
    content, request = as_object(spec, field), ("resources", "requests")
    init = [
        (_amounts(one, f"{field}.initContainers", *request), one.get("restartPolicy") == "Always")
        for one in as_list(content.get("initContainers") or [], f"{field}.initContainers", MOST_CONTAINERS)
    ]
    containers = as_list(content.get("containers") or [], f"{field}.containers", MOST_CONTAINERS)
    asked = [_amounts(one, f"{field}.containers", *request) for one in containers]
    return requested(asked, init, _amounts(content, field, "overhead"), _amounts(content, field, *request)).total


def quantity(text: object, field: str) -> float:
    """A quantity of Kubernetes as a number: cores or bytes. Raises InputError for what is none, or negative.

    >>> quantity("250m", "cpu"), quantity("2Gi", "memory"), quantity("1e3", "memory")
    (0.25, 2147483648.0, 1000.0)
    """
    found = QUANTITY.fullmatch(str(text)[: MOST_QUANTITY + 1])
    value = math.nan
    if found and len(found[0]) <= MOST_QUANTITY:
        number, exponent, suffix = found.groups()
        value = float(number + (exponent or "")) * SUFFIXES.get(suffix or "", 1.0)
    if not 0 <= value < math.inf:
        raise InputError(f"{field} is not a Kubernetes quantity, such as 250m or 2Gi")
    return min(value, MOST)


def _amounts(content: object, field: str, *path: str) -> Float:
    """(2,) cores and bytes at the end of a path of fields, each of which may be absent; NaN: not given."""
    given = as_object(content, field)
    for name in path:
        field = f"{field}.{name}"
        given = as_object(given.get(name) or {}, field)
    return np.array([quantity(given[kind], f"{field}.{kind}") if kind in given else np.nan for kind in KINDS])


def as_object(value: object, field: str) -> Mapping[str, Any]:
    """An object of JSON. Raises InputError for anything else."""
    if not isinstance(value, dict):
        raise InputError(f"{field}: an object is needed")
    return value


def as_list(value: object, field: str, most: int = MOST_LISTED) -> list[Any]:
    """A list of JSON. Raises InputError for anything else, and for a longer one."""
    if not isinstance(value, list) or len(value) > most:
        raise InputError(f"{field}: a list of at most {most} is needed")
    return value
