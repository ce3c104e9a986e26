"""Katalyst by hand, with portraits and by load: slots of 30 minutes, machines of 8."""

from dataclasses import replace

import numpy as np

from tvwrl.schedulers.production.katalyst import Katalyst, KatalystLoad, katalyst_score
from tvwrl.simulation.scenario import Scenario


def test_katalyst_scores_both_resources(situation):
    # CPU 2 of the workload and 1.7 of the newcomer are 46.25 %; memory 4 and 1.4 are 67.5 %: points 96 and 99.
    cluster, newcomer = situation([((9, 9), [(2.0, 4.0)] * 48)], (2, 2))
    rule = Katalyst()
    rule.reset(cluster, np.random.default_rng(0))
    assert rule.percent(cluster, newcomer).tolist() == [[46.25, 67.5]]
    assert rule.score(cluster, newcomer).tolist() == [97]
    assert rule.choose(cluster, newcomer) == 0


def test_katalyst_filters_the_fullest_hour(chosen, situation):
    # Two samples in each hour; those of one are 1 and 3: 2 + 3 x 1 = 5 (by the deviation of a sample 6.24).
    past = np.full(48, 2.0)
    past[[10, 11]] = 1, 3
    cluster, _ = situation([(9, past)], 0.1)
    rule = Katalyst()
    rule.reset(cluster, np.random.default_rng(0))
    assert rule.peaks(cluster).tolist() == [[5]]
    # 70 % of 8 is 5.6, and 5.639 rounds to it: 0.75 x .85 = .6375, 0.76 x .85 = .646.
    assert chosen("katalyst", [(9, past)], 0.75) == 0
    assert chosen("katalyst", [(9, past)], 0.76) is None
    assert chosen("katalyst(cpu=80)", [(9, past)], 1.6) == 0
    # A day is not full: 85 % of the request.
    assert chosen("katalyst", [(4, past[:47])], 2.6) == 0  # 3.4 + 2.21
    assert chosen("katalyst", [(4, past[:47])], 2.7) is None


def test_katalyst_lets_idle_machines_take_what_fits_now(chosen):
    assert chosen("katalyst", [], 8) == 0


def test_katalyst_load_scores_by_hand():
    # CPU 3.7, 5, 6 of 8 leave 53, 37, 25 per cent: (1590 + 1110 + 1000) // 100 = 37; memory leaves 50. (37 + 50) // 2.
    levels = (np.array([[cpu, 4.0]]) for cpu in (3.7, 5.0, 6.0))
    assert katalyst_score(*levels, np.array([[8.0, 8.0]])) == 43
    assert katalyst_score(*[np.array([[9.0, 9.0]])] * 3, np.array([[8.0, 8.0]])) == 0


def test_katalyst_load_rounds_the_share_before_it_compares(choice):
    # 5.63 of 8 are 70.4 per cent, so 70; 5.65 are 70.6, so 71, and m1, which is fuller by its memory, remains.
    for used, machine in ((5.63, 0), (5.65, 1)):
        rows = [(0, [[used, 1]]), (0, [[4, 7]]), (0, [[1, 1]])]
        assert choice(KatalystLoad(), rows, [[1, 1]] * 3) == machine
    assert choice(KatalystLoad(80), rows, [[1, 1]] * 3) == 0


def test_katalyst_load_adds_the_requests_of_what_no_report_has_seen(begun, make_sequences):
    # m0 uses 3; m1 2.5, and 0.3 since slot 1. Seen in slot 2, that is less. Two slots late the 0.3 are not seen: what
    # uses them counts with 0.85 of its 8 units, beside which nothing is free. 0.7 x 68 % is below what is free of m0.
    rows = [(0, [[3, 3]] * 5), (0, [[2.5, 2.5]] * 5), (1, [[0.3, 0.3]] * 5), (2, [[1, 1]])]
    found = []
    for delay in (0, 2):
        scenario = Scenario(placements_per_slot=None, queue=9, usage_delay=delay)
        sequences = replace(make_sequences(rows), request=np.array([[[3, 3], [1, 1], [8, 8], [1, 1]]], float))
        simulation, cluster = begun(sequences, scenario)
        rule = KatalystLoad()
        rule.reset(cluster, np.random.default_rng(0))
        simulation.place(0, 0)
        simulation.place(0, 1)
        simulation.next_slot()
        simulation.place(0, 1)
        simulation.next_slot()
        found.append(rule.choose(cluster, sequences.workload(0, 3)))
    assert found == [1, 0]
