"""Small instances made by hand, drawn ones, and every plan of tiny ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from tvwrl.provisioning.instance import Affinity, Fleet, Instance

REAL_DATA = Path(os.environ.get("TVWRL_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def _make_instance(replicas: Sequence[int], demand: object, arcs: Sequence[tuple[int, int, int]] = ()) -> Instance:
    """Applications a, b, c, ... of `demand` (A, H, D) or (A, D), and arcs (i, j, a_ij)."""
    sizes = np.asarray(demand, np.float64)
    sizes = sizes[:, None] if sizes.ndim == 2 else sizes
    i, j, limit = (np.array([arc[n] for arc in arcs], np.int64) for n in range(3))
    names = np.array([chr(ord("a") + n) for n in range(len(replicas))], dtype=object)
    resources = ("cpu", "mem", "disk")[: sizes.shape[2]]
    return Instance("hand", names, np.array(replicas), sizes, resources, Affinity.of(len(names), i, j, limit))


@pytest.fixture(scope="session")
def make() -> Callable[..., Instance]:
    """The function that makes a hand-made Instance; see `_make_instance`."""
    return _make_instance


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder of the published instances."""
    folder = REAL_DATA.parent / "reference" / "provisioning"
    if not folder.is_dir():
        pytest.skip(f"no reference instances at {folder}")
    return folder


@pytest.fixture(scope="session")
def contest() -> Path:
    """The zip of the Tianchi contest."""
    path = REAL_DATA / "tianchi" / "preliminary_dataB_20180726.zip"
    if not path.exists():
        pytest.skip(f"no contest data at {path}")
    return path


@st.composite
def _instances(draw: st.DrawFn, applications: int = 3, replicas: int = 3, most: int = 5, times: int = 2) -> Instance:
    """Tiny ones of two resources whose sizes are whole numbers up to `most`, with affinity and self limits."""
    count = draw(st.integers(1, applications))
    shape = (count, draw(st.integers(1, times)), 2)
    sizes = draw(st.lists(st.integers(0, most), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    pairs = draw(st.sets(st.sampled_from(list(product(range(count), repeat=2)))))
    arcs = [(i, j, draw(st.integers(int(i == j), 2))) for i, j in sorted(pairs)]
    several = draw(st.lists(st.integers(1, replicas), min_size=count, max_size=count))
    return _make_instance(several, np.array(sizes).reshape(shape), arcs)


def _fits(instance: Instance, counts: Sequence[int], capacity: Sequence[float]) -> bool:
    """Whether a machine may hold so many replicas of each: from the definition, limit by limit."""
    load = np.einsum("a,ahd->hd", np.asarray(counts, np.float64), instance.demand)
    a = instance.affinity
    arcs = [(i, a.to[e], a.limit[e]) for i in range(len(counts)) for e in range(a.start[i], a.start[i + 1])]
    return bool((load <= capacity).all()) and all(not counts[i] or counts[j] <= limit for i, j, limit in arcs)


def _fewest_machines(instance: Instance, fleet: Fleet) -> int:
    """By trying everything: machines of one kind that hold all replicas."""
    every = product(*(range(n + 1) for n in instance.replicas.tolist()))
    fillings = [np.array(c) for c in every if any(c) and _fits(instance, c, fleet.capacity[0])]
    left, machines = {tuple(instance.replicas.tolist())}, 0
    while not any(not any(state) for state in left):
        left = {tuple((np.array(s) - f).tolist()) for s in left for f in fillings if (f <= np.array(s)).all()}
        machines += 1
    return machines


@pytest.fixture(scope="session")
def instances() -> Callable[..., st.SearchStrategy[Instance]]:
    """The strategy that draws tiny instances; see `_instances`."""
    return _instances


@pytest.fixture(scope="session")
def fits() -> Callable[..., bool]:
    """The function that says what a machine may hold; see `_fits`."""
    return _fits


@pytest.fixture(scope="session")
def fewest_machines() -> Callable[..., int]:
    """The function that tries everything; see `_fewest_machines`."""
    return _fewest_machines
