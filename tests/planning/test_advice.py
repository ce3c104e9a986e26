"""Advice: what it sees in an instance, and what it chooses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tvwrl.planning.advice import Candidate, Features, _choice, _growth, advise, features_of, names_for
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.types import InputError

Make = Callable[..., Instance]


def test_features_by_hand(make: Make) -> None:
    instance = make([4, 2], [[1.0, 2.0], [1.0, 6.0]], [(0, 1, 1)])
    features = features_of(instance, Fleet.of([4.0, 4.0]))
    assert features == Features(2, 6, 1, 0.5, {"cpu": 2, "mem": 5}, "mem")
    assert features_of(instance, Fleet.of([2.0, 6.0])).dominant is None  # 3 and 10/3 machines


def test_candidates_follow_the_instance() -> None:
    sparse = Features(9000, 60000, 1, 0.001, {"cpu": 10, "mem": 11}, None)
    assert "LRASched-Fitness" in names_for(sparse)
    dense = Features(9000, 60000, 1, 0.05, {"cpu": 10, "mem": 30}, "mem")
    assert {"NCD-DotProduct", "SpreadWFD-Max-BinSearch", "SpreadWFD-Avg-Hybrid0.5-BinSearch"} <= set(names_for(dense))
    series = Features(9000, 60000, 98, 0.05, {"cpu": 10, "mem": 11}, None)
    assert not {"NCD-DotProduct", "LRASched-Fitness"} & set(names_for(series))


def test_the_choice_by_the_time_there_is() -> None:
    features = Features(9000, 60000, 98, 0.01, {"cpu": 10}, None)
    tried = [
        Candidate("FF", "", "", 1.0, 1.0, 12.0),
        Candidate("WFD-AvgExp", "", "", 1.0, 5.0, 10.0),
        Candidate("SpreadWFD-Avg-BinSearch", "", "", 1.0, 50.0, 1.0),
    ]
    chosen = [_choice(tried, features, seconds)[0] for seconds in (0.1, 2.0, 10.0, 60.0, 500.0)]
    assert chosen == ["FF", "FF", "WFD-AvgExp", "SpreadWFD-Avg-BinSearch", "best"]


def test_growth_is_the_power() -> None:
    sizes = np.array([10.0, 20.0, 40.0])
    assert _growth(sizes, 3e-3 * sizes**2) == pytest.approx(2.0)


def test_advice_on_a_small_instance(make: Make) -> None:
    rng = np.random.default_rng(0)
    instance = make(rng.integers(1, 4, 20), rng.uniform(0.1, 1.0, (20, 2)))
    advice = advise(instance, Fleet.of([4.0, 4.0]), 60.0)
    assert advice.algorithm == "best"
    assert advice.sample == 20
    assert all(one.deviation_pct >= 0 for one in advice.candidates)
    with pytest.raises(InputError, match="seconds is 0"):
        advise(instance, Fleet.of([4.0, 4.0]), 0.0)
