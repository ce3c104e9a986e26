"""Problems of paper 002 by hand."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from tvwrl.flow.problem import Bundles, Problem
from tvwrl.provisioning.instance import Affinity, Fleet, Instance

Make = Callable[..., Problem]


def make_problem(
    replicas: Sequence[int],
    demand: Sequence[Sequence[float]],
    machines: Sequence[Sequence[float]],
    limits: Sequence[tuple[int, int, int]] = (),
    bundles: Sequence[Mapping[int, int]] = (),
) -> Problem:
    """Applications t0, t1, ... with `limits` (i, j, a_ij), on these machines."""
    arcs = np.array(limits, dtype=np.int64).reshape(-1, 3).T
    names = np.array([f"t{i}" for i in range(len(replicas))], dtype=object)
    sizes = np.array(demand, dtype=np.float64)[:, None]
    resources = ("cpu", "mem")[: sizes.shape[2]]
    instance = Instance("hand", names, np.array(replicas), sizes, resources, Affinity.of(len(names), *arcs))
    return Problem(instance, Fleet(np.array(machines, dtype=np.float64), fixed=True), Bundles.of(bundles))


@pytest.fixture
def make() -> Make:
    return make_problem
