"""Drawn affinity graphs: density, shape and values like the original's, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from tvwrl.planning.instance import Instance
from tvwrl.planning.sources.generated import GRAPHS, generate_instance
from tvwrl.types import InputError

Make = Callable[..., Instance]


@pytest.fixture(scope="module")
def base(make: Make) -> Instance:
    """400 applications whose limits are 0 (half of them), 1 and 7, and self limits of 3."""
    count = 400
    ring = [(i, (i + 1) % count, (0, 0, 1, 7)[i % 4]) for i in range(count)]
    itself = [(i, i, 3) for i in range(count)]
    sizes = np.random.default_rng(0).integers(1, 9, (count, 2, 2))
    instance: Instance = make(np.arange(count) % 5 + 1, sizes, ring + itself)
    return instance


def rows(instance: Instance) -> list[set[int]]:
    """Ends of the arcs of each application."""
    a = instance.affinity
    return [set(a.to[begin:end].tolist()) for begin, end in zip(a.start, a.start[1:], strict=False)]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("density", [0.0, 0.01, 0.1, 0.6, 1.0])
def test_density_and_arcs(base: Instance, graph: str, density: float) -> None:
    drawn = generate_instance(base, graph, density, seed=3)
    sets, count = rows(drawn), len(base)
    assert sum(map(len, sets)) == len(drawn.affinity)  # none twice
    assert not any(i in ends for i, ends in enumerate(sets))  # none to itself
    share = len(drawn.affinity) / (count * (count - 1))
    if graph != "normal" or density < 0.5:  # its degrees cannot exceed A - 1, so dense ones are thinner
        assert share == pytest.approx(density, abs=0.001 if graph == "arbitrary" else 0.02 + 0.1 * density)
    np.testing.assert_array_equal(drawn.demand, base.demand)
    np.testing.assert_array_equal(drawn.replicas, base.replicas)


def test_limits_are_drawn_from_the_original(base: Instance) -> None:
    limits = generate_instance(base, "normal", 0.2, seed=1).affinity.limit
    values, counts = np.unique(limits, return_counts=True)
    assert values.tolist() == [0, 1, 7]
    np.testing.assert_allclose(counts / len(limits), [0.5, 0.25, 0.25], atol=0.02)


def test_shapes(base: Instance) -> None:
    degrees = {graph: np.array([len(r) for r in rows(generate_instance(base, graph, 0.1, seed=5))]) for graph in GRAPHS}
    assert degrees["arbitrary"].std() == pytest.approx(np.sqrt(400 * 0.1 * 0.9), rel=0.15)
    assert degrees["normal"].std() == pytest.approx(20, rel=0.15)  # half of the mean degree
    assert (degrees["threshold"] == 0).mean() == pytest.approx(1 - np.sqrt(2 * 0.1), abs=0.08)
    reach = sorted(rows(generate_instance(base, "threshold", 0.1, seed=5)), key=len)
    assert all(len(few - many) <= 1 for few, many in pairwise(reach))  # nested, but for itself


def test_seeds(base: Instance) -> None:
    for graph in GRAPHS:
        one, same, other = (generate_instance(base, graph, 0.05, 50, seed) for seed in (1, 1, 2))
        assert rows(one) == rows(same) != rows(other)
        np.testing.assert_array_equal(one.affinity.limit, same.affinity.limit)
        np.testing.assert_array_equal(one.demand, same.demand)


def test_more_applications(base: Instance) -> None:
    drawn = generate_instance(base, "arbitrary", 0.005, 1000, seed=0)
    assert len(drawn) == 1000
    assert drawn.application[[0, 999]].tolist() == ["1", "1000"]
    assert {d.tobytes() for d in drawn.demand} <= {d.tobytes() for d in base.demand}
    assert set(drawn.replicas.tolist()) == {1, 2, 3, 4, 5}
    sizes = {d.tobytes(): r for d, r in zip(base.demand, base.replicas.tolist(), strict=True)}
    assert any(sizes[d.tobytes()] != r for d, r in zip(drawn.demand, drawn.replicas.tolist(), strict=True))


def test_what_cannot_be_drawn_is_refused(base: Instance, make: Make) -> None:
    for arguments, message in (
        ({"graph": "ring"}, "graph is 'ring': must be one of arbitrary, threshold, normal"),
        ({"density": 1.5}, "density is 1.5: must be 0 to 1"),
        ({"applications": 1}, "applications is 1: must be at least 2"),
    ):
        with pytest.raises(InputError, match=message):
            generate_instance(base, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no affinity limits to draw from"):
        generate_instance(make([1, 1], np.ones((2, 2)), [(0, 0, 2)]))


@pytest.mark.real_data
def test_like_the_published(published: Callable[[str], Instance]) -> None:
    theirs, drawn = published("arbitrary_d1_0"), generate_instance(published("TClab_2D"), "arbitrary", 0.01)
    assert len(drawn.affinity) == len(theirs.affinity) == 871_889
    shares = [np.bincount(one.affinity.limit, minlength=5) / len(one.affinity) for one in (drawn, theirs)]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.002)
    degrees = [np.diff(one.affinity.start).std() for one in (drawn, theirs)]
    assert degrees[0] == pytest.approx(degrees[1], rel=0.03)
