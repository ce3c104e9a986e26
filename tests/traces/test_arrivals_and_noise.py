"""Random draws: batches of arrivals, perturbed demand, background load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.envs.problem import Problem
from tvwrl.traces.sequences import draw_arrivals, draw_background, perturb_demand


@pytest.mark.parametrize("burst", [1.0, 2.5, 8.0])
def test_bursts_keep_the_rate_and_have_their_mean_size(burst: float) -> None:
    arrival = draw_arrivals(60_000, 0.05, burst, np.random.default_rng(0))
    assert len(arrival) == 60_000
    assert (np.diff(arrival) >= 0).all()
    assert len(arrival) / arrival[-1] == pytest.approx(0.05, rel=0.05)
    # Batches are told apart by their slot; few fall into the same one at this rate.
    assert len(arrival) / len(np.unique(arrival)) == pytest.approx(burst, rel=0.1)


def test_burst_of_one_is_the_poisson_process() -> None:
    gaps = np.random.default_rng(3).exponential(1 / 0.4, 50)
    assert draw_arrivals(50, 0.4, 1.0, np.random.default_rng(3)).tolist() == np.floor(np.cumsum(gaps)).tolist()


def test_perturbed_by_whole_units_within_the_range() -> None:
    demand = np.repeat([[1.0, 6.0, 3.0]], 3000, axis=0)
    changed = perturb_demand(demand, 1, 6, np.random.default_rng(0))
    assert np.unique(changed[:, 0]).tolist() == [1, 2]
    assert np.unique(changed[:, 1]).tolist() == [5, 6]
    values, counts = np.unique(changed[:, 2], return_counts=True)
    assert values.tolist() == [2, 3, 4]
    assert counts / 3000 == pytest.approx([1 / 3] * 3, abs=0.05)


def test_background_is_uniform_on_whole_units() -> None:
    units = draw_background(3, (10, 2), np.random.default_rng(0))
    assert units.shape[1:] == (10, 2)
    values, counts = np.unique(units, return_counts=True)
    assert values.tolist() == [0, 1, 2, 3]
    assert counts / units.size == pytest.approx([1 / 4] * 4, abs=0.05)


def test_noise_leaves_the_rest_of_a_sequence_as_it_is(problem: Problem) -> None:
    plain = problem.sequences("test", 2, 0)
    noisy = Problem.build(problem.trace, replace(problem.scenario, background=1, perturb=1), problem.classes)
    drawn = noisy.sequences("test", 2, 0)
    assert plain.background is None
    assert drawn.background is not None
    assert drawn.background.shape[0] == 2
    for name in ("workload_id", "arrival", "length"):
        assert (getattr(plain, name) == getattr(drawn, name)).all()
    runs = np.arange(plain.demand.shape[2]) < plain.length[..., None]
    assert set(np.unique((drawn.demand - plain.demand)[runs])) == {-1.0, 0.0, 1.0}
    assert not drawn.demand[~runs].any()
    assert not np.array_equal(drawn.background[0], drawn.background[1])
    unperturbed = Problem.build(problem.trace, replace(problem.scenario, background=1), problem.classes)
    again = unperturbed.sequences("test", 2, 0).background
    assert again is not None
    assert np.array_equal(again, drawn.background)
