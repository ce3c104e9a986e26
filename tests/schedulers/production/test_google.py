"""Google's predictors, by hand: one resource, a machine of 8, slots of 30 minutes, so two hours are four samples."""

from tvwrl.schedulers.production.google import NSigma

A, B = (4, [1, 2, 1, 2]), (4, [1, 1, 1, 1])


def test_n_sigma(chosen):
    # Usage by requests: .375, .25, .375, .25; mean .3125, deviation .0722; of 8 together: 5.387.
    assert chosen("n-sigma", [A, B], 2) == 0
    assert chosen("n-sigma", [A, B], 3) is None
    # With n = 2 .4569 x 8 = 3.655, with 0 the mean alone, 2.5.
    assert chosen("n-sigma(n=2)", [A, B], 4.3) == 0
    assert chosen("n-sigma(n=2)", [A, B], 4.4) is None
    assert chosen("n-sigma(n=0)", [A, B], 5.5) == 0


def test_n_sigma_counts_the_young_with_their_requests(chosen):
    # B has three samples. A alone: .5, .25, .5, .25, so min(1, 1.097) x 4, and 4 for B: nothing fits.
    assert chosen("n-sigma", [A, (4, [1, 1, 1])], 0.1) is None
    assert chosen("n-sigma(n=0)", [A, (4, [1, 1, 1])], 2.5) == 0  # 1.5 + 4
    assert chosen("n-sigma(n=0)", [A, (4, [1, 1, 1])], 2.6) is None


def test_usage_counts_up_to_the_request(chosen):
    over = (2, [4, 4, 4, 4])
    assert chosen("n-sigma", [over], 6.1) is None
    assert chosen("n-sigma", [over], 6) == 0  # 2 + 6, though 4 is used
    assert chosen(NSigma(cap=False), [over], 6) == 0  # the predicted ratio is at most 1 anyway
