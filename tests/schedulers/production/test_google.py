"""Google's predictors, by hand: one resource, a machine of 8, slots of 30 minutes, so two hours are four samples."""

from tvwrl.schedulers.production.google import NSigma, RCLike

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


def test_borg_default_multiplies_what_runs_but_not_the_newcomer(chosen):
    assert chosen("borg-default", [(4, [1]), (3, [1])], 2) is None  # 6.3 + 2
    assert chosen("borg-default", [(4, [1]), (2, [1])], 2) == 0  # 5.4 + 2
    assert chosen("borg-default", [(4, [1]), (3.5, [1])], 1.3) is None  # 6.75 + 1.3
    assert chosen("borg-default(phi=0.5)", [(4, [1]), (3, [1])], 4.5) == 0  # 3.5 + 4.5


def test_rc_like(chosen):
    # 99 % between the two largest of 1, 1, 1, 2: 1.97; and 1.
    running = [(4, [1, 1, 1, 2]), B]
    assert chosen("rc-like", running, 5) == 0
    assert chosen("rc-like", running, 5.04) is None
    assert chosen("rc-like(p=100)", running, 5.01) is None  # 2 + 1
    assert chosen("rc-like(p=50)", running, 6) == 0  # 1 + 1
    # The last two hours count; what is younger counts with its request.
    assert chosen("rc-like", [(4, [4, 1, 1, 1, 1]), B], 6) == 0
    assert chosen("rc-like", [(4, [1, 1, 1]), B], 3) == 0
    assert chosen("rc-like", [(4, [1, 1, 1]), B], 3.1) is None
    # Usage counts up to the request.
    assert chosen("rc-like", [(2, [4, 4, 4, 4])], 6) == 0
    assert chosen(RCLike(cap=False), [(2, [4, 4, 4, 4])], 4.1) is None


def test_max_predictor_takes_the_larger(chosen):
    assert chosen("max-predictor", [A, B], 2.6) == 0  # 5.387 and 3
    assert chosen("max-predictor", [A, B], 2.7) is None
    calm = [(4, [1, 1, 1, 3]), (4, [3, 1, 1, 1])]  # .5, .25, .25, .5 of 8; with n = 0 3, and 2.94 + 2.94
    assert chosen("max-predictor(n=0)", calm, 2.1) == 0
    assert chosen("max-predictor(n=0)", calm, 2.2) is None


def test_peak_oracle_sees_what_comes(chosen):
    a, b = (4, [1], [1, 3, 1]), (4, [1], [3, 1, 1])
    assert chosen("peak-oracle", [a, b], 4) == 0  # 4, 4, 2
    assert chosen("peak-oracle", [a, b], 4.1) is None
    assert chosen("peak-oracle", [(4, [4], [1])], 7) == 0  # what is used now does not count
    assert chosen("peak-oracle", [(4, [1], [])], 4.1) is None  # nothing runs on: the request
    assert chosen("peak-oracle", [(4, [1], [1] * 48 + [8])], 7) == 0  # beyond 24 hours
    assert chosen("peak-oracle", [(4, [1], [8])], 4) == 0  # up to the request
