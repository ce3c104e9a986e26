"""Batches drawn as in the simulations of the LRASched paper: ranges and seeds."""

from __future__ import annotations

import numpy as np

from tvwrl.planning.sources.generated import Drawn


def test_values_stay_in_their_ranges_and_depend_on_the_seed() -> None:
    instance, fleet = Drawn(200, 50, 4, (2, 5), 0.3).draw(0)
    assert instance.demand.shape == (200, 1, 4)
    assert 0 < instance.demand.min() < 0.01 < 0.29 < instance.demand.max() <= 0.3
    assert set(instance.replicas) == {2, 3, 4, 5}
    assert set(instance.affinity.own) == set(range(1, 11))
    assert fleet.capacity[:50].min() >= 0.1
    assert fleet.capacity[-1].tolist() == [1.0] * 4  # so that whatever is left over fits
    again, other = Drawn(200, 50, 4, (2, 5), 0.3).draw(0)[0], Drawn(200, 50, 4, (2, 5), 0.3).draw(1)[0]
    assert np.array_equal(again.demand, instance.demand)
    assert not np.array_equal(other.demand, instance.demand)
