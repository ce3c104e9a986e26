"""LRASched's two equations by hand, from kernel and scheduler alike."""

from __future__ import annotations

import numpy as np
import pytest

from tvwrl.packing.lrasched_kernels import fitness, fitness_weights, measure


def test_measure_and_fitness_by_hand() -> None:
    # A batch of (2, 1) and (2, 3) needs 4, 4. Two machines have 8, 4 and 2, 4 left: 10, 8 in all.
    total, size = measure(np.array([[2.0, 1.0], [2.0, 3.0]]))
    assert total.tolist() == [4, 4]
    assert size.tolist() == [0.75, 1.25]
    residual = np.array([[8.0, 4.0], [2.0, 4.0]])
    found = fitness(np.array([2.0, 1.0]), total, residual)
    assert found == pytest.approx([0.5 * 8 / 10 + 0.25 * 4 / 8, 0.5 * 2 / 10 + 0.25 * 4 / 8])


def test_what_nobody_needs_and_what_is_free_nowhere_count_nothing() -> None:
    total, size = measure(np.array([[2.0, 0.0]]))
    assert (total.tolist(), size.tolist()) == ([2, 1], [1])
    weight = np.empty(2)
    fitness_weights(np.array([1.0, 1.0]), np.array([2.0, 2.0]), np.array([4.0, 0.0]), weight)
    assert weight.tolist() == [0.125, 0.0]
