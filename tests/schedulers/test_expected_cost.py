"""Expected-Cost: what a workload is expected to cost, and where it goes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tvwrl.forecasting.segments import SEGMENTS, Forecast, columns, forecast_table, steps
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.expected_cost import LONGEST_WAIT, OVERSHOOT, RISK, UNUSED, ExpectedCost, expected_costs
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Machines

WIDE = len(SEGMENTS)
WEIGHTS = Scenario().penalty_weights().per_resource(1)
K_O = float(WEIGHTS[2, 0])


def forecast(most=0.0, spread=0.0, mean=0.0, peak=0.0, peak_spread=0.0, alive=0.0, resources=1):
    """(K,) the same in every segment."""
    made = Forecast(np.zeros(columns(resources), np.float32), resources)
    for name, value in (("most", most), ("spread", spread), ("mean", mean), ("peak", peak), ("alive", alive)):
        getattr(made, name)[:] = value
    made.peak_spread[:] = peak_spread
    return made.values


def costs_of(load, own, sizes, weights, whole=False):
    """(2,) of the one machine of one cluster."""
    return expected_costs(load[None, None], own[None], sizes[None], 6.0, weights, whole)[0, 0]


def test_costs_by_hand():
    # Two workloads of a mean of 0.3 peaks in all; at most 0.8 of a machine of 1; one more of 0.1, at most 0.2, comes.
    load = forecast(most=0.8, spread=0.01, mean=0.3, peak=2.0, peak_spread=0.01, alive=2.0)
    own = forecast(most=0.2, spread=0.03, mean=0.1, peak=1.0, alive=1.0)
    costs = costs_of(load, own, np.ones((1, 1)), WEIGHTS)
    before = 2 * (1 - norm.cdf(0.2 / 0.1) ** WIDE)  # two are charged if any segment passes the capacity
    after = 3 * (1 - 0.5**WIDE)
    assert costs[OVERSHOOT] == pytest.approx(RISK * K_O * (after - before), rel=1e-5)
    slots = sum(last - first + 1 for first, last in SEGMENTS)
    assert costs[UNUSED] == pytest.approx(slots * 6**3 * (0.6**3 - 0.7**3), rel=1e-5)


def test_peaks_that_fit_together_cannot_overshoot():
    load = forecast(most=0.8, spread=0.04, mean=0.3, peak=0.7, alive=2.0)
    own = forecast(most=0.3, spread=0.04, mean=0.1, peak=0.3, alive=1.0)
    fits, too_small = (costs_of(load, own, np.array([[size]]), WEIGHTS) for size in (1.0, 0.9))
    assert fits[OVERSHOOT] == 0
    assert too_small[OVERSHOOT] > K_O


def test_whole_units_fill_a_machine_without_passing_it():
    # On 8 units: 5 run and 3 come, all of them sure. Eight fit, and nine would not: the border is at 8.5.
    load = forecast(most=5 / 6, spread=0.001, mean=0.5, peak=5 / 6, peak_spread=0.001, alive=1.0)
    own = forecast(most=3 / 6, mean=0.5, peak=3 / 6, alive=1.0)
    sizes = np.array([[8 / 6]])
    whole, fractions = (costs_of(load, own, sizes, WEIGHTS, whole)[OVERSHOOT] for whole in (True, False))
    assert 0 < whole < 0.05 * K_O
    assert fractions > 0.5 * K_O
    assert costs_of(load, own, sizes + 0.4 / 6, WEIGHTS, True)[OVERSHOOT] == whole  # 8.4 units hold eight, too


def test_a_machine_that_is_opened_costs_what_stays_unused():
    own = forecast(most=0.9, spread=0.2, mean=0.25, peak=0.9, peak_spread=0.2, alive=0.5)
    empty = costs_of(forecast(), own, np.ones((1, 1)), WEIGHTS)
    assert empty[OVERSHOOT] == 0  # a workload alone does not pass the capacity
    assert empty[UNUSED] == pytest.approx(63 * 0.5 * 3.0**3)  # it runs with one chance in two, and then uses half


@given(
    st.floats(0, 1.5),
    st.floats(0, 0.2),
    st.floats(0, 1.5),
    st.floats(0, 6),
    st.floats(0.2, 2),
    st.sampled_from([0, 1, 3]),
)
def test_more_load_endangers_more_and_leaves_less_unused(most, spread, peak, alive, size, exponent):
    weights = WEIGHTS.copy()
    weights[1] = exponent
    load = forecast(most=most, spread=spread, mean=most / 2, peak=peak, alive=np.ceil(alive))
    own = forecast(most=0.2, mean=0.1, peak=0.2, alive=1.0)
    costs = costs_of(load, own, np.array([[size]]), weights)
    assert np.isfinite(costs).all()
    assert costs[OVERSHOOT] >= -1e-6 * K_O
    if alive > 0 or exponent == 0:  # where something runs, the workload opens nothing
        assert costs[UNUSED] <= 1e-3


def waits(make_sequences, needs, newcomer, lifetime_peak=0.0):
    """A workload for each of `needs`, which it is expected to have, and one that waits; no peak is expected below 2."""
    everyone = [*needs, newcomer]
    values = np.full((1, len(everyone), 4, len(steps(2))), lifetime_peak, np.float32)
    for w, need in enumerate(everyone):
        values[0, w, :, : columns(2)] = forecast(most=need, spread=0.01, mean=need, peak=2.0, alive=1.0, resources=2)
    whole = np.round(values / steps(2)).clip(0, 255).astype(np.uint8)
    return replace(make_sequences(*[[(0, [[1, 1]] * 3)] * len(everyone)]), forecast=forecast_table(whole, 2))


def goes_to(sequences, machines, scenario=None, slots=0, **options):
    """The machine of 8 units for the one that waits, None if it goes on waiting; the others are on machine 0, 1, ..."""
    scenario = scenario or Scenario(placements_per_slot=None)
    cluster = Machines.homogeneous(machines, 8, ("cpu", "mem"))
    simulation = Simulation(sequences, cluster, scenario, forecasts=True, max_slots=0)
    simulation.reset(0)
    others = sequences.arrival.shape[1] - 1
    for machine in range(others):
        simulation.place(0, machine)
    for _ in range(slots):
        simulation.next_slot()
    scheduler, cluster = ExpectedCost(**options), Cluster(simulation)
    scheduler.reset(cluster, np.random.default_rng(0))
    chosen = [placement.machine for placement in scheduler.schedule(cluster, [sequences.workload(0, others)])]
    return chosen[0] if chosen else None


def test_it_uses_what_is_unused_without_danger(make_sequences):
    # Of two machines of 4/3 peaks that are in use the emptier one, as |U|^3 falls fastest there; a third stays closed.
    assert goes_to(waits(make_sequences, (0.6, 0.2), 0.3), machines=3) == 1
    # With 0.7 on the emptier one a load of 1.3 endangers two: one overshoot is worth more than a machine opened.
    assert goes_to(waits(make_sequences, (1.2, 0.6), 0.7), machines=3) == 2


def test_it_waits_where_every_machine_is_in_danger_and_waiting_is_cheap(make_sequences):
    crowded = waits(make_sequences, (1.2, 1.2), 0.6)
    assert goes_to(crowded, machines=2) is None
    assert goes_to(crowded, machines=2, accepted_overshoot=1e6) is not None
    free = Scenario(placements_per_slot=None, K_o=0.0)
    assert goes_to(crowded, machines=2, scenario=free) is not None


def test_it_waits_rather_than_have_a_machine_opened_but_not_for_ever(make_sequences):
    # 63 slots of two resources with 8 - 1.8 units unused cost 63 * 2 * 6.2^3, some 30,000: 600 slots of waiting of 50.
    endangered = waits(make_sequences, (1.2, 0.6), 0.3)
    assert goes_to(waits(make_sequences, (), 0.3), machines=1) == 0
    assert goes_to(waits(make_sequences, (), 0.3), machines=1, opening=610) == 0
    assert goes_to(waits(make_sequences, (), 0.3), machines=1, opening=590) is None
    assert goes_to(waits(make_sequences, (), 0.3), machines=1, opening=590, slots=LONGEST_WAIT - 1) is None
    assert goes_to(waits(make_sequences, (), 0.3), machines=1, opening=590, slots=LONGEST_WAIT) == 0
    assert goes_to(endangered, machines=3, opening=0) == 1  # it opens nothing


def test_those_who_wait_open_a_machine_together(make_sequences):
    sequences = waits(make_sequences, (0.3,), 0.3)  # two wait, and each pays half of the 600 slots
    simulation = Simulation(
        sequences, Machines.homogeneous(1, 8, ("cpu", "mem")), Scenario(), forecasts=True, max_slots=0
    )
    simulation.reset(0)
    pending = [sequences.workload(0, i) for i in range(2)]
    for opening, placed in ((310, 1), (290, 0)):
        scheduler, cluster = make_scheduler(f"expected-cost(opening={opening})"), Cluster(simulation)
        scheduler.reset(cluster, np.random.default_rng(0))
        assert len(list(itertools.islice(scheduler.schedule(cluster, pending), 1))) == placed


def test_with_backfilling_one_that_fits_passes_the_one_that_waits_for_company(make_sequences):
    # The first does not fit beside what runs and would open the other machine; the second fits.
    sequences = waits(make_sequences, (0.8, 0.9), 0.1)
    simulation = Simulation(
        sequences, Machines.homogeneous(2, 8, ("cpu", "mem")), Scenario(), forecasts=True, max_slots=0
    )
    simulation.reset(0)
    simulation.place(0, 0)
    pending = [sequences.workload(0, i) for i in (1, 2)]
    for name, goes in (("", []), ("-backfill", [(2, 0)])):
        scheduler, cluster = make_scheduler(f"expected-cost(opening=1){name}"), Cluster(simulation)
        scheduler.reset(cluster, np.random.default_rng(0))
        assert [(one.workload.index, one.machine) for one in scheduler.schedule(cluster, pending)] == goes


def test_its_name_says_what_opening_may_cost():
    assert ExpectedCost(opening=200).name == "expected-cost(opening=200)"
    assert make_scheduler("expected-cost-known-peak(opening=2e2)").name == "expected-cost-known-peak(opening=200)"
    assert make_scheduler("expected-cost(opening=200)-backfill").name == "expected-cost(opening=200)-backfill"
    for wrong in ("expected-cost-backfill(opening=200)", "stack(opening=2)", "rollout(expected-cost(opening=200))"):
        with pytest.raises(InputError):
            make_scheduler(wrong)


@pytest.mark.parametrize("opening", [-1, float("nan")])
def test_what_opening_may_cost_is_at_least_nothing(opening):
    with pytest.raises(InputError, match="opening"):
        ExpectedCost(opening=opening)


def test_lifetime_peaks_are_none_of_its_business_unless_told(make_sequences):
    # Both machines look crowded, but the true peaks of 0.4 and 0.3 fit together.
    crowded = waits(make_sequences, (1.2, 1.2), 0.6, lifetime_peak=0.4)
    shown = Scenario(placements_per_slot=None, observe_peak=True)
    assert goes_to(crowded, machines=2) is None
    assert goes_to(crowded, machines=2, scenario=shown) is None
    assert goes_to(crowded, machines=2, peaks="known") is not None


def test_with_peaks_it_takes_the_least_unused_capacity_of_the_machines_where_peaks_fit(make_sequences):
    # The forecast of 0.7 endangers the machines in use; the true peaks, of a quarter of a machine, fit all of them.
    endangered = waits(make_sequences, (1.2, 0.6), 0.7)
    assert goes_to(endangered, machines=3) == 2
    assert goes_to(endangered, machines=3, peaks="reserved") == 1


def test_with_known_peaks_it_fears_nothing_where_they_fit_and_takes_small_risks_elsewhere(make_sequences):
    # A machine is 1.33. The forecast of 0.7 endangers the machines in use, but peaks of 0.3 fit together.
    told = waits(make_sequences, (1.2, 0.6), 0.7, lifetime_peak=0.3)
    assert goes_to(told, machines=3) == 2
    assert goes_to(told, machines=3, peaks="known") in (0, 1)
    # Peaks of 0.9 do not fit together. What is forecast, 0.2 each, is far from the border of the machines in use.
    told = waits(make_sequences, (0.2, 0.2), 0.2, lifetime_peak=0.9)
    assert goes_to(told, machines=3, peaks="known") in (0, 1)
