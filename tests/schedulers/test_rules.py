"""The rule of each heuristic, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.forecasting.segments import SEGMENTS, forecast_table, steps
from tvwrl.schedulers import BASELINES, PRODUCTION, make_scheduler
from tvwrl.schedulers.registry import tunable
from tvwrl.schedulers.rules import ForecastFit, Tetris
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Machines, Placement

ONE, TWO, THREE = (Machines.homogeneous(count, 8, ("cpu", "mem")) for count in (1, 2, 3))


def decide(scheduler, sequences, running, machines, pass_slots=0):
    """What is placed (workload, machine), in order, after the first workloads were put on the machines `running`.

    All of it happens in slot 0, or `pass_slots` slots after the first ones were placed.
    """
    simulation = Simulation(sequences, machines, Scenario(placements_per_slot=None, queue=9), max_slots=0)
    simulation.reset(0)
    for machine in running:
        simulation.place(0, machine)
    for _ in range(pass_slots):
        simulation.next_slot()
    cluster = Cluster(simulation)
    one = make_scheduler(scheduler) if isinstance(scheduler, str) else scheduler
    one.reset(cluster, np.random.default_rng(0))
    placed = []
    for placement in one.schedule(cluster, [sequences.workload(0, int(i)) for i in simulation.waiting()]):
        simulation.place(simulation.waiting().tolist().index(placement.workload.index), placement.machine)
        placed.append((placement.workload.index, placement.machine))
    return placed


def now(*units):
    """Workloads that arrive in slot 0 and use the same for three slots."""
    return [(0, [row] * 3) for row in units]


def test_best_fit_takes_the_fullest_machine_with_room(make_sequences):
    # cpu 2, 5, 7 are in use; the newcomer needs 2 of it: m2 has no room, m1 has 3 free, m0 has 6.
    assert decide("best-fit", make_sequences(now([2, 5], [5, 1], [7, 1], [2, 1])), [0, 1, 2], THREE) == [(3, 1)]
    # The resource that counts is the newcomer's dominant one, here mem: m0 has least of it.
    assert decide("best-fit", make_sequences(now([2, 5], [5, 1], [7, 1], [1, 2])), [0, 1, 2], THREE) == [(3, 0)]
    # A tie of resources goes to the first, a tie of machines to the lowest number.
    assert decide("best-fit", make_sequences(now([2, 5], [5, 1], [5, 2], [2, 2])), [0, 1, 2], THREE) == [(3, 1)]
    # The head finds no room, so the next one waits too, although it would fit.
    assert decide("best-fit", make_sequences(now([6, 1], [6, 1], [6, 1], [3, 1], [1, 1])), [0, 1, 2], THREE) == []


def test_best_fit_on_unequal_capacities(make_sequences):
    # 3 of 8 cpu is more than 4 of 16 mem, so the machine with less cpu free is taken.
    machines = Machines.homogeneous(2, (8, 16), ("cpu", "mem"))
    assert decide("best-fit", make_sequences(now([4, 1], [1, 9], [3, 4])), [0, 1], machines) == [(2, 0)]
    # m0 has 8 - 2 = 6 of cpu free, m1 16 - 9 = 7: more units, though the larger share of m1 is in use.
    machines = Machines(np.array([[8.0, 8.0], [16.0, 8.0]]), ("cpu", "mem"))
    assert decide("best-fit", make_sequences(now([2, 1], [9, 1], [3, 1])), [0, 1], machines) == [(2, 0)]


def test_best_fit_looks_at_the_first_slot_and_the_load_now(make_sequences):
    rows = [(0, [[6, 1], [1, 1], [7, 1]]), (0, [[2, 1]] * 3), (0, [[1, 1], [8, 1]]), (1, [[3, 1], [6, 6]])]
    # In slot 1 loads are cpu 1, 2 and 8 (m2): m1 is the fullest with room for 3.
    assert decide("best-fit", make_sequences(rows), [0, 1, 2], THREE, pass_slots=1) == [(3, 1)]
    # With peaks 7, 2 and 8 reserved and 6 needed, m1 is left.
    assert decide("best-fit-peak", make_sequences(rows), [0, 1, 2], THREE, pass_slots=1) == [(3, 1)]
    rows[1] = (0, [[2, 1], [2, 1], [3, 1]])  # a peak of 3: now none has room for 6 more
    assert decide("best-fit-peak", make_sequences(rows), [0, 1, 2], THREE, pass_slots=1) == []
    assert decide("best-fit", make_sequences(rows), [0, 1, 2], THREE, pass_slots=1) == [(3, 1)]


def test_fits_on_peaks_differ_in_the_machine_they_choose(make_sequences):
    # Peaks of cpu 3, 6, 1 are reserved, now 1 is used everywhere; the newcomer's peak is 2.
    rows = [(0, [[1, 1], [peak, 1]]) for peak in (3, 6, 1)] + [(0, [[1, 1], [2, 1]])]
    chosen = {
        name: decide(name, make_sequences(rows), [0, 1, 2], THREE) for name in BASELINES if name.endswith("-fit-peak")
    }
    assert chosen == {"first-fit-peak": [(3, 0)], "best-fit-peak": [(3, 1)], "worst-fit-peak": [(3, 2)]}


def test_the_dominant_resource_is_that_of_what_is_known(make_sequences):
    # The newcomer begins with more cpu, but memory has the larger peak. m0 uses more cpu, m1 more memory.
    rows = [(0, [[4, 1], [4, 1]]), (0, [[1, 3], [1, 3]]), (0, [[2, 1], [2, 4]])]
    assert decide("best-fit", make_sequences(rows), [0, 1], TWO) == [(2, 0)]
    assert decide("best-fit-peak", make_sequences(rows), [0, 1], TWO) == [(2, 1)]
    assert decide("worst-fit-peak", make_sequences(rows), [0, 1], TWO) == [(2, 0)]


def test_peaks_are_released_when_a_workload_leaves(make_sequences):
    rows = [(0, [[8, 1]]), (0, [[1, 1]] * 4), (1, [[8, 1]])]
    assert decide("best-fit-peak", make_sequences(rows), [0, 0], ONE, 1) == []
    rows[1] = (0, [[1, 1]])
    assert decide("best-fit-peak", make_sequences(rows), [0, 0], ONE, 1) == [(2, 0)]


def test_stack_takes_the_machine_with_the_fullest_resource(make_sequences):
    # Largest shares 6/8 (mem of m0), 5/8 (cpu of m1), 7/8 (m2, no room for 2 of cpu).
    assert decide("stack", make_sequences(now([2, 6], [5, 5], [7, 1], [2, 1])), [0, 1, 2], THREE) == [(3, 0)]


def test_stack_80_goes_no_higher_than_80_percent_of_the_cpu_if_it_can(make_sequences):
    # With 2 of cpu the shares are 8/8, 6/8 and 3/8: m1 is closest to 0.8 from below; with 4: no room, 8/8, 5/8.
    running = now([6, 1], [4, 1], [1, 1])
    assert decide("stack-80", make_sequences([*running, *now([2, 1])]), [0, 1, 2], THREE) == [(3, 1)]
    assert decide("stack-80", make_sequences([*running, *now([4, 1])]), [0, 1, 2], THREE) == [(3, 2)]
    assert decide("stack", make_sequences([*running, *now([2, 1])]), [0, 1, 2], THREE) == [(3, 0)]
    # Both would pass it: least above it first.
    full = now([6, 1], [5, 1])
    assert decide("stack-80", make_sequences([*full, *now([2, 1])]), [0, 1], TWO) == [(2, 1)]


def test_load_aware_peers_by_hand(make_sequences):
    # The newcomer requests 1 of both. Packing, by limits: cpu 5/8, 3/8, 2/8 make 25, 96 and 78 points.
    rows = replace(make_sequences(now([4, 1], [2, 3], [1, 6], [1, 1])), request=np.ones((1, 4, 2)))
    assert decide("target-load-packing", rows, [0, 1, 2], THREE) == [(3, 1)]
    assert decide("target-load-packing(target=0.7)", rows, [0, 1, 2], THREE) == [(3, 0)]
    # Koordinator expects it to use 0.85 of cpu and 0.7 of memory. Free on m0 are 39 and 78 %, on m1 64 and 53, on m2 76
    # and 16: points 58, 58 and 46; the first of equals.
    assert decide("load-aware", rows, [0, 1, 2], THREE) == [(3, 0)]
    # 4.4 + 0.85 of 8 is 65.6 %, so 66: above the threshold, though more is free of it than of m1.
    limits = replace(make_sequences(now([4.4, 1], [4, 4], [1, 1])), request=np.ones((1, 3, 2)))
    assert decide("load-aware", limits, [0, 1], TWO) == [(2, 1)]
    assert decide("load-aware(threshold=0.75)", limits, [0, 1], TWO) == [(2, 0)]
    # Where both are above it, it waits. An idle machine takes what fits.
    assert decide("load-aware(threshold=0.55)", limits, [0, 1], TWO) == []
    assert decide("load-aware(threshold=0.55)", limits, [0, 0], TWO) == [(2, 1)]
    for name, message in (
        ("load-aware(threshold=0)", "threshold is 0.0: must be a fraction above 0"),
        ("target-load-packing(target=1)", "target is 1.0: must be at least 0 and below 1"),
        ("risk-balancing(margin=-1)", "margin is -1.0: must be at least 0"),
    ):
        with pytest.raises(InputError, match=message):
            make_scheduler(name)


@pytest.mark.parametrize("name", ["crane(threshold=65)", "load-aware(threshold=65)", "target-load-packing(target=40)"])
def test_percent_instead_of_a_fraction(name):
    with pytest.raises(InputError, match=r"is \d+\.0: must be a fraction above 0 and at most 1"):
        make_scheduler(name)


@pytest.mark.parametrize(
    "name", ["katalyst-load(threshold=0.7)", "katalyst(cpu=0.7)", "coach-like(p=0.95)", "rc-like(p=0.99)"]
)
def test_a_fraction_instead_of_percent(name):
    with pytest.raises(InputError, match=r"is 0\.\d+: must be a percentage, 1 to 100"):
        make_scheduler(name)


@pytest.mark.parametrize("name", PRODUCTION)
def test_rules_take_every_value_that_they_are_tuned_over(name):
    for option, values in tunable(name).items():
        for value in values:
            make_scheduler(f"{name}({option}={value})")


def test_risk_balancing_prefers_what_was_calm(make_sequences):
    """One load is always 4.5, the other 2 and 6 in turn, with a mean of 4.1: less if deviations do not count."""
    calm, wild = [[4.5, 1.0]] * 40, [[2.0, 1.0], [6.0, 1.0]] * 20
    sequences = make_sequences([(0, calm), (0, wild), (31, [[1.0, 1.0]] * 3)])
    of_both = (("risk-balancing", [0, 1], 0), ("risk-balancing", [1, 0], 1), ("risk-balancing(margin=0)", [0, 1], 1))
    for name, order, expected in of_both:
        simulation = Simulation(sequences, TWO, Scenario(placements_per_slot=None, queue=9), max_slots=0)
        simulation.reset(0)
        one, cluster = make_scheduler(name), Cluster(simulation)
        one.reset(cluster, np.random.default_rng(0))
        for machine in order:
            simulation.place(0, machine)
        while not cluster.waiting:
            simulation.next_slot()
        assert one.choose(cluster, sequences.workload(0, 2)) == expected


def test_spread_takes_the_emptiest_then_the_fewest_workloads(make_sequences):
    # Largest shares 3/8, 2/8, 2/8; m1 runs two workloads, m2 one.
    rows = now([1, 3], [1, 1], [1, 1], [2, 2], [1, 1])
    assert decide("spread", make_sequences(rows), [0, 1, 1, 2], THREE) == [(4, 2)]


def test_round_robin_goes_on_after_the_last_choice(make_sequences):
    # m1 has no room for 2 of cpu; 0, 2, 0, then the last needs 8, which none has.
    rows = now([7, 1], [2, 1], [2, 1], [2, 1], [1, 1], [8, 1])
    assert decide("round-robin", make_sequences(rows), [1], THREE) == [(1, 0), (2, 2), (3, 0), (4, 1)]


def test_random_takes_every_machine_with_room_and_no_other(make_sequences):
    sequences = make_sequences([(i, [[1, 1]]) for i in range(60)])
    machines = Machines(np.array([[8.0, 8.0], [0.5, 8.0], [8.0, 8.0]]), ("cpu", "mem"))
    episode = Runner(sequences, machines, Scenario(), seed=0).play(make_scheduler("random"), 0)
    count = np.bincount(episode.machine, minlength=3)
    assert count[1] == 0
    assert count.min(initial=60, where=[True, False, True]) > 15


def test_random_differs_by_seed_and_sequence(make_sequences):
    sequences = make_sequences(*[[(i, [[1, 1]]) for i in range(40)]] * 2)
    chosen = [
        tuple(Runner(sequences, THREE, Scenario(), seed).play(make_scheduler("random"), s).machine)
        for seed, s in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    assert len(set(chosen)) == 4


def test_tetris_chooses_the_best_pair(make_sequences):
    # Two machines of 8; reserved peaks (4, 2) on m0 and (2, 6) on m1, so free shares are (1/2, 3/4) and (3/4, 1/4).
    # Waiting: c peaks at (4, 2) for 2 slots, d at (2, 4) for 4, e at (8, 1) for 1: no machine has room for e.
    # Alignment: c-m0 1/2*1/2 + 1/4*3/4 = 7/16, c-m1 1/2*3/4 + 1/4*1/4 = 7/16; d-m0 1/4*1/2 + 1/2*3/4 = 8/16,
    # d-m1 has room for 2 units of mem only. Work: c 3/4 * 2 = 1.5, d 3/4 * 4 = 3, e 9/8: of the most, 1/2, 1, 3/8.
    rows = [
        (0, [[1, 1], [4, 2]]),
        (0, [[2, 6], [1, 1]]),
        (0, [[4, 1], [1, 2]]),
        (0, [[1, 1], [2, 4], [1, 1], [1, 1]]),
        (0, [[8, 1]]),
    ]
    sequences = make_sequences(rows)
    # Without the preference for little work d goes first, to m0. That leaves (2, 2) there: c goes to m1.
    assert decide(Tetris(epsilon=0.0), sequences, [0, 1], TWO) == [(3, 0), (2, 1)]
    # With 0.1: c 7/16 - 0.05 = 0.3875 against d 0.5 - 0.1 = 0.4: still d. With 0.2 c, 0.3375, is before d, 0.3;
    # the tie of machines goes to m0, which has (0, 4) left then; d needs 2 of cpu, and m1 has 2 of mem: d waits.
    assert decide(Tetris(epsilon=0.1), sequences, [0, 1], TWO) == [(3, 0), (2, 1)]
    assert decide(Tetris(epsilon=0.2), sequences, [0, 1], TWO) == [(2, 0)]


def test_lrasched_takes_the_largest_first_and_the_fittest_machine(make_sequences):
    # Reserved peaks (4, 2) on m0 and (2, 6) on m1 leave (4, 6) and (6, 2) of (10, 8). Waiting: c (1, 1), d (4, 2).
    # Measures: c 1/5 + 1/3, d 4/5 + 2/3. d is worth 4/5 * 4/10 + 2/3 * 6/8 = 0.82 on m0, 0.65 on m1; c is left m1.
    rows = [(0, [[1, 1], [4, 2]]), (0, [[2, 6], [1, 1]]), (0, [[1, 1]]), (0, [[1, 1], [4, 2]])]
    sequences = make_sequences(rows)
    assert decide("lrasched-peak", sequences, [0, 1], TWO) == [(3, 0), (2, 1)]
    # By requests that are the peaks, likewise. d declares (1, 1): no larger than c, which comes first and goes to m0.
    request = np.array([[[4, 2], [2, 6], [1, 1], [4, 2]]], float)
    asked = replace(sequences, request=request)
    assert decide("lrasched-request", asked, [0, 1], TWO) == [(3, 0), (2, 1)]
    less = request.copy()
    less[0, 3] = 1
    assert decide("lrasched-request", replace(sequences, request=less), [0, 1], TWO) == [(2, 0), (3, 0)]
    # d declares nothing: four times its first cpu and twice its first memory stand in, which happens to be its peak.
    less[0, 3] = np.nan
    guessed = replace(sequences, request=less, request_factor=np.array([4.0, 2.0]))
    assert decide("lrasched-request", guessed, [0, 1], TWO) == [(3, 0), (2, 1)]


def test_clairvoyant_keeps_room_for_the_whole_life(make_sequences):
    # m0 uses 5 of cpu now and 7 in slot 2, m1 uses 2 throughout; the newcomer needs 2 for three slots.
    rows = [(0, [[5, 1], [5, 1], [7, 1]]), (0, [[2, 1]] * 3), (0, [[2, 1]] * 3)]
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == [(2, 1)]
    assert decide("best-fit", make_sequences(rows), [0, 1], TWO) == [(2, 0)]
    # For two slots it fits on m0, the tighter one. Peaks would keep it away from there.
    rows[2] = (0, [[2, 1]] * 2)
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == [(2, 0)]
    assert decide("best-fit-peak", make_sequences(rows), [0, 1], TWO) == [(2, 1)]
    # A peak of 8 in its third slot fits nowhere before the others are gone.
    rows[2] = (0, [[1, 1], [1, 1], [8, 1]])
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == []


def test_clairvoyant_takes_the_tightest_over_the_whole_life(make_sequences):
    # Over three slots m0 leaves (6 + 7 + 7) + 21 units of 8, m1 (2 + 7 + 7) + 21: the less.
    rows = [(0, [[2, 1], [1, 1], [1, 1]]), (0, [[6, 1], [1, 1], [1, 1]]), (0, [[1, 1]] * 3)]
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == [(2, 1)]
    # When m0 is the fuller later on, it leaves (6 + 2 + 2) + 21.
    rows[0] = (0, [[2, 1], [6, 1], [6, 1]])
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == [(2, 0)]


def test_all_fit_at_the_very_border(make_sequences):
    # Exactly 8 of both is room for everyone who looks at room at all; a hair more is not. Koordinator keeps a margin.
    for name in (name for name in BASELINES if name != "load-aware" and not make_scheduler(name).needs_forecasts):
        assert decide(name, make_sequences(now([5, 6], [3, 2])), [0], ONE) == [(1, 0)], name
        assert decide(name, make_sequences(now([5, 6], [3.001, 2])), [0], ONE) == [], name


def test_forecast_fit_takes_the_fullest_machine_that_is_expected_to_hold(make_sequences):
    # Three machines of 8 = 4/3 peaks of 6. What runs is expected to need 0.5, 0.9 and 1.2 peaks; the newcomer 0.3. With
    # a variance of 0.01 each, 1 deviation of the sum is 0.14: 0.94 and 1.34 with it, and 1.64. So the second would be
    # too full by a hair, and with less caution it is the tightest.
    rows = [(0, [[1, 1]] * 3)] * 4
    wide = 2 * len(SEGMENTS)
    values = np.zeros((1, 4, 4, len(steps(2))), np.uint8)
    for w, need in enumerate((0.5, 0.9, 1.2, 0.3)):
        values[0, w, :, :wide] = round(need * 200)
        values[0, w, :, wide : 2 * wide] = 10
    sequences = replace(make_sequences(rows), forecast=forecast_table(values, 2))
    simulation = Simulation(sequences, THREE, Scenario(placements_per_slot=None), forecasts=True, max_slots=0)
    simulation.reset(0)
    for machine in range(3):
        simulation.place(0, machine)
    newcomer = [sequences.workload(0, 3)]
    chosen = {}
    for caution in (1.0, 0.5):
        (placement,) = ForecastFit(caution=caution).schedule(Cluster(simulation), newcomer)
        chosen[caution] = placement.machine
    assert chosen == {1.0: 0, 0.5: 1}
    assert not list(ForecastFit(caution=9.0).schedule(Cluster(simulation), newcomer))  # nowhere: it waits


def test_alternatives_come_from_asking_again_without_the_machines_found(problem, train):
    simulation = Simulation(train, problem.machines, problem.scenario, max_slots=0)
    simulation.reset(0)
    cluster, workload = Cluster(simulation), train.workload(0, 0)
    simulation.state.load[0, [0, 2]] = 8.0
    choice = Placement(workload, 1)
    assert make_scheduler("spread").alternatives(cluster, [workload], choice, 9).tolist() == [1, 3]
    assert make_scheduler("spread").alternatives(cluster, [workload], choice, 1).tolist() == [1]
