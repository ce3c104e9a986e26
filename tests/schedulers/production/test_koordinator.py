"""Koordinator by hand: slots of 30 minutes, machines of 8."""

import numpy as np

from tvwrl.types import Machines


def test_koordinator_decays_and_adds_a_tenth(chosen):
    # All older samples are 1. The 4 is 24 slots old: half the weight of a new one.
    past = np.ones(50)
    past[-25] = 4
    # The weight of all is about 1 / (1 - 2^(-1 / 24)) = 35, of the 4 one half: less than 5 %, so 1.1.
    assert chosen("koordinator-peak", [(4, past)], 6.9) == 0
    assert chosen("koordinator-peak", [(4, past)], 7) is None
    past[-4:] = 4  # the newest four weigh 3.8: more than 5 %, so 4.4
    assert chosen("koordinator-peak", [(4, past)], 3.6) == 0
    assert chosen("koordinator-peak", [(4, past)], 3.7) is None
    assert chosen("koordinator-peak(safety=0)", [(4, past)], 4) == 0


def test_koordinator_counts_the_young_with_their_requests(chosen):
    assert chosen("koordinator-peak", [(3, np.ones(48))], 5.1) is None  # 24 hours are not enough
    assert chosen("koordinator-peak", [(3, np.ones(49))], 5.1) == 0
    assert chosen("koordinator-peak", [(2, np.full(49, 2)), (3, [1])], 2.8) == 0  # 2.2 + 3
    assert chosen("koordinator-peak", [(2, np.full(49, 2)), (3, [1])], 2.9) is None
    assert chosen("koordinator-peak(cold=2)", [(3, [1, 1, 1, 1, 1])], 6.9) == 0
    assert chosen("koordinator-peak(cold=2)", [(3, [1, 1, 1, 1])], 5.1) is None


def test_koordinator_takes_the_machine_with_most_free_now(chosen):
    two = Machines.homogeneous(2, 8, ("cpu",))
    running = [(2, [2], None, 0), (4, [1], None, 1)]  # by requests the first is the emptier one
    assert chosen("koordinator-peak", running, 1, two) == 1
    assert chosen("rc-like", [(2, [2], None, 0), (4, [1], None, 1)], 1, two) == 1  # the tightest
    assert chosen("koordinator-peak", [(4, [3], None, 0), (2, [3.5], None, 1)], 1, two) == 0
