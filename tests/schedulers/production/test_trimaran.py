"""Trimaran's rules by hand: machines of 8."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.schedulers.production.trimaran import LowRiskOverCommitment, low_risk
from tvwrl.types import InputError


def test_upstreams_own_cases():
    # 4000 milli-cores and 4096 bytes, used by 0.8 and 0.25 without any deviation.
    for amounts, size, mean, risk in (
        ((2000, 3000, 1000, 2000), 4000, 0.8, 0.5),
        ((2048, 6144, 0, 0), 4096, 0.25, 0.25),
        ((4000, 5000, 3000, 4000), 4000, 0.8, 1.0),
        ((1024, 7168, 512, 6144), 4096, 0.25, 0.75),
    ):
        shares = (np.array([amount / size]) for amount in amounts)
        assert low_risk(*shares, np.array([mean]), np.array([0.0])) == pytest.approx(risk)


def test_low_risk_with_a_beta_distribution():
    # A mean of 0.5 and a deviation of 0.1, times the root of 5, make Beta(2, 2): F(x) = 3 x^2 - 2 x^3.
    of = [np.array([x]) for x in (0.6, 0.9, 0.5, 0.8, 0.5, 0.1)]
    assert low_risk(*of) == pytest.approx(0.5 * (1 - 0.5 / 0.896), abs=1e-6)
    of[1] = np.array([1.4])  # limits of 1.4 with requests of 0.6: half of what lies between is above the capacity
    assert low_risk(*of) == pytest.approx(0.5 * 0.5 + 0.5 * (1 - 0.5 / 0.896), abs=1e-6)


def test_requests_that_are_the_limits_rank_nothing():
    rng = np.random.default_rng(0)
    before = rng.uniform(0.1, 1.4, 200)
    after = before + 0.2
    risk = low_risk(after, after, before, before, rng.uniform(0.2, 0.8, 200), rng.uniform(0.01, 0.1, 200))
    assert np.allclose(risk, 0.5 * (after > 1))


@given(*[st.floats(0, 3)] * 2, st.floats(0.1, 1), st.floats(0, 1), st.floats(0, 0.5))
def test_risk_is_between_0_and_1(limit, added, share, mean, sd):
    parts = (share * (limit + added), limit + added, share * limit, limit)
    risk = low_risk(*(np.array([x]) for x in (*parts, mean, sd)))
    assert 0 <= risk[0] <= 1


def test_low_risk_over_commitment_prefers_fewer_limits_above_the_capacity(choice):
    # Limits of 11 and 9 with the newcomer's 4, requests of half of them: an excess of 3 / 5.5 and 1 / 4.5. What is used
    # is below the requests before.
    rows = [(0, [[1, 1]] * 3)] * 3
    assert choice(LowRiskOverCommitment(), rows, [[7, 4], [5, 4], [4, 1]]) == 1
    assert choice(LowRiskOverCommitment(), rows, [[5, 4], [5, 4], [4, 1]]) == 0
    # On m0 1 unit of memory is used, above the 0.5 that are requested: a risk of 0.5, above the 3 / 11 on m1.
    assert choice(LowRiskOverCommitment(), rows, [[5, 1], [7, 4], [4, 1]]) == 1
    # With requests of 0.8 of the limits 8.8 and 9.6 of 8 are requested: neither has room.
    assert choice(LowRiskOverCommitment(0.8), rows, [[7, 1], [8, 1], [4, 1]]) is None
    with pytest.raises(InputError, match=r"request is 1.5: must be a fraction above 0 and at most 1"):
        LowRiskOverCommitment(1.5)
