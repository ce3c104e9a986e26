"""The clock and the penalties by hand, and the simulation against the referee."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.envs.placement_vector import PlacementVectorEnv
from tvwrl.envs.problem import Problem
from tvwrl.metrics import penalties
from tvwrl.penalties import TERMS
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import (
    ACTIVE,
    CONTENTION,
    MOVING,
    OVER,
    OVERSHOOT,
    SLOT,
    TERMINATED,
    TOTALS,
    TRUNCATED,
    UNDER_UTILISATION,
    WAIT,
    State,
)
from tvwrl.types import InputError, Machines

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))
ONE = Machines.homogeneous(1, 8, ("cpu", "mem"))


def test_undeclared_requests_by_hand(make_sequences):
    """a declares all, b memory alone, c nothing: its first demand (2, 3) times (3, 2) is cut to a machine of (8, 5)."""
    request = [[[1, 2], [np.nan, 7], [np.nan, np.nan]]]
    rows = [(0, [[1, 1], [6, 6]]), (0, [[2, 1], [6, 6]]), (0, [[2, 3], [8, 8]])]
    plain = make_sequences(rows, request=request)
    machines = Machines(np.array([[8.0, 4.0], [4.0, 5.0]]), ("cpu", "mem"))
    for factor, expected in ((None, [[1, 2], [2, 5], [2, 3]]), (np.array([3.0, 2.0]), [[1, 2], [6, 5], [6, 5]])):
        sequences = replace(plain, request_factor=factor)
        assert Simulation(sequences, machines, Scenario()).request.tolist() == [expected]


# Three workloads (arrival, demand), one placement per slot. With a and b on m0 and c on m1, load (cpu, mem) per slot:
#   slot       0       1       2       3
#   a, m0    (3,2)   (5,2)   (2,1)
#   b, m0            (2,4)   (4,2)           arrives in 0, waits there
#   c, m1                    (2,2)   (1,2)   arrives in 1, waits there
#   m0       (3,2)   (7,6)   (6,3)
THREE = [(0, [[3, 2], [5, 2], [2, 1]]), (0, [[2, 4], [4, 2]]), (1, [[2, 2], [1, 2]])]


def begin(sequences, machines, **changes):
    """A simulation of one cluster at the first decision of sequence 0."""
    simulation = Simulation(sequences, machines, Scenario(**{"history": 4, **changes}))
    simulation.reset(0)
    return simulation


def step(simulation, machine):
    """One decision; the four penalties and the slots passed."""
    simulation.step(np.array([machine]))
    totals = np.delete(simulation.state.totals[0], MOVING).tolist()
    return totals


def slot(simulation):
    """The current slot."""
    return int(simulation.state.counters[0, SLOT])


def overshoot_of(simulation, *machines):
    """The overshoot penalty of each decision."""
    return [step(simulation, m)[OVERSHOOT] for m in machines]


def test_penalties_step_by_step(make_sequences):
    simulation = begin(make_sequences(THREE), TWO)
    # Slot 0: a runs. Unused (5, 6): 125 + 216. b waits.
    assert step(simulation, 0) == pytest.approx([0, 341, 0, 50, 1])
    # Slot 1: pairs 5*2 + 2*4 = 18. Unused (1, 2): 1 + 8. c waits.
    assert step(simulation, 0) == pytest.approx([1.8, 9, 0, 50, 1])
    # Slot 2: pairs 2*4 + 1*2 = 10. Unused m0 (2, 5): 8 + 125; m1 (6, 6): 432. Nobody waits, so the clock runs on.
    # Slot 3: a and b are gone, m0 is unused and free of charge; m1 (7, 6): 343 + 216.
    assert step(simulation, 1) == pytest.approx([1.0, 133 + 432 + 559, 0, 0, 2])
    assert simulation.is_over()
    assert simulation.state.counters[0, OVER] == TERMINATED
    assert step(simulation, 1) == [0, 0, 0, 0, 0]  # changes nothing any more
    record = simulation.record()
    assert (record.start.tolist(), record.finish.tolist(), record.machine.tolist()) == ([0, 1, 2], [3, 3, 4], [0, 0, 1])


@pytest.mark.parametrize(
    ("exponent", "expected"),
    # Unused (5, 2) and (0, 8) in slots 0 and 1; in slot 2 load 9 of cpu leaves nothing unused, mem 2 leaves 6.
    [
        (3.0, 125 + 8 + 0 + 512 + 0 + 216),
        (2.0, 25 + 4 + 0 + 64 + 0 + 36),
        (1.0, 5 + 2 + 0 + 8 + 0 + 6),
        (0.0, 0),
        (2.5, 5**2.5 + 2**2.5 + 8**2.5 + 6**2.5),
        (0.5, 5**0.5 + 2**0.5 + 8**0.5 + 6**0.5),
        ((2.0, 0.0), 25 + 0 + 0),
        ((0.0, 1.0), 2 + 8 + 6),
    ],
)
def test_under_utilisation_by_exponent(make_sequences, exponent, expected):
    sequences = make_sequences([(0, [[3, 6], [8, 0], [9, 2]])])
    assert step(begin(sequences, TWO, K_u=exponent), 1)[UNDER_UTILISATION] == pytest.approx(expected)


# One machine, one placement per slot: a, b, c are placed in slots 0, 1, 3. Load of cpu and mem:
#   slot       0       1       2       3
#   a        (5,1)   (5,1)   (5,1)   (5,1)
#   b                (4,1)   (2,1)   (4,1)
#   c                                (1,8)
#   sum      (5,1)   (9,2)   (7,2)  (10,10)
OVERLOAD = [(0, [[5, 1]] * 4), (1, [[4, 1], [2, 1], [4, 1]]), (3, [[1, 8]])]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Slot 1: cpu of a and b. Slot 3: cpu of c, for the others it is not the first time; mem of a, b and c.
        ({"K_o": 10}, [0, 20, 40]),
        ({"K_o": (10, 1000)}, [0, 20, 10 + 3000]),
        # cpu of the machine in slot 1, its mem in slot 3.
        ({"K_o": (10, 1000), "overshoot_per": "machine"}, [0, 10, 1000]),
    ],
)
def test_first_overshoots(make_sequences, changes, expected):
    simulation = begin(make_sequences(OVERLOAD), ONE, **changes)
    assert overshoot_of(simulation, 0, 0, 0) == expected
    simulation.reset(0)  # the next episode is charged anew
    assert overshoot_of(simulation, 0, 0, 0) == expected


def test_a_full_machine_does_not_overshoot(make_sequences):
    simulation = begin(make_sequences([(0, [[5, 8]]), (0, [[3, 0]])]), ONE, placements_per_slot=None)
    assert overshoot_of(simulation, 0, 0) == [0, 0]
    tenths = make_sequences([(0, [[0.1, 7.9]]), (0, [[0.2, 0.1]])])
    narrow = Machines(np.array([[0.3, 8.0]]), ("cpu", "mem"))  # 0.1 + 0.2 > 0.3 in floating point
    assert overshoot_of(begin(tenths, narrow, quantise=False, placements_per_slot=None), 0, 0) == [0, 0]


@pytest.mark.parametrize(
    ("limit", "waits", "slots"),
    [
        # One starts per slot: 4, 3, 2, 1, 0 wait at the end of each.
        (1, [200, 150, 100, 50, 0], [1, 1, 1, 1, 1]),
        # Two start per slot: 3, 1, 0 wait; the first of each two moves no clock.
        (2, [0, 150, 0, 50, 0], [0, 1, 0, 1, 1]),
        (None, [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]),
    ],
)
def test_wait_of_a_burst(make_sequences, limit, waits, slots):
    simulation = begin(make_sequences([(0, [[1, 1]])] * 5), TWO, placements_per_slot=limit)
    steps = [step(simulation, i % 2) for i in range(5)]
    assert [s[WAIT] for s in steps] == waits
    assert [s[-1] for s in steps] == slots
    assert simulation.is_over()


def test_contention_within_one_slot_of_many_placements(make_sequences):
    # 1*2 + 1*3 + 2*3 = 11 of cpu and 3 of mem, charged once, when the slot ends.
    rows = [(0, [[1, 1]]), (0, [[2, 1]]), (0, [[3, 1]])]
    simulation = begin(make_sequences(rows), TWO, placements_per_slot=None, K_c=(0.1, 10))
    assert [step(simulation, 1)[CONTENTION] for _ in range(3)] == pytest.approx([0, 0, 0.1 * 11 + 10 * 3])


def test_clock_runs_through_slots_without_a_decision(make_sequences):
    simulation = begin(make_sequences([(3, [[7, 7]] * 2), (10, [[8, 7]])]), TWO)
    assert slot(simulation) == 3
    # Slots 3 to 9; the machine is used in 3 and 4, each with (1, 1) unused.
    assert step(simulation, 0) == pytest.approx([0, 4, 0, 0, 7])
    assert slot(simulation) == 10
    assert step(simulation, 0) == pytest.approx([0, 1, 0, 0, 1])
    assert simulation.is_over()


def test_departures_and_arrivals_of_a_slot_come_before_its_decision(make_sequences):
    # a runs in slots 0 and 1 and is gone in slot 2, when b arrives: the two never meet.
    simulation = begin(make_sequences([(0, [[6, 6]] * 2), (2, [[6, 6]])]), ONE)
    assert step(simulation, 0)[-1] == 2
    cluster = Cluster(simulation)
    assert (cluster.slot, cluster.active.tolist(), cluster.load.tolist()) == (2, [0], [[0, 0]])
    assert step(simulation, 0)[:WAIT] == pytest.approx([0, 16, 0])


def test_hold_lets_one_slot_pass(make_sequences):
    simulation = begin(make_sequences([(0, [[7, 7]]), (2, [[7, 7]])]), ONE, hold_action=True)
    assert step(simulation, 1) == [0, 0, 0, 50, 1]
    assert step(simulation, 0) == [0, 2, 0, 0, 1]
    assert step(simulation, 1) == [0, 0, 0, 50, 1]
    assert slot(simulation) == 3
    assert step(simulation, 0) == [0, 2, 0, 0, 1]
    assert simulation.record().start.tolist() == [1, 3]


def test_the_second_of_the_queue_overtakes_the_first(make_sequences):
    # Two machines; b (action 1 * 2 + 1) goes to machine 1 in slot 0, a waits for slot 1, when b is still there.
    rows = [(0, [[7, 7]]), (0, [[8, 7]] * 2), (5, [[8, 8]])]
    simulation = begin(make_sequences(rows), TWO, choose_from_queue=True, queue=2, hold_action=True)
    assert (simulation.placements, simulation.actions) == (4, 5)
    assert step(simulation, 3) == [0, 1, 0, 50, 1]
    assert simulation.waiting().tolist() == [0]
    assert step(simulation, 2) == [0, 1, 0, 50, 1]  # nothing waits at place 1: the slot passes
    assert step(simulation, 4) == [0, 0, 0, 50, 1]  # held
    assert step(simulation, 0) == [0, 2, 0, 0, 2]
    step(simulation, 1)
    assert simulation.record().start.tolist() == [3, 0, 5]
    assert simulation.record().machine.tolist() == [0, 1, 1]


def test_any_place_may_be_chosen_as_often_as_a_slot_allows(make_sequences):
    simulation = begin(
        make_sequences([(0, [[1, 1]])] * 4), TWO, choose_from_queue=True, queue=3, placements_per_slot=None
    )
    assert step(simulation, 2 * 2)[-1] == 0
    assert simulation.waiting().tolist() == [0, 1, 3]  # the fourth has become visible
    assert step(simulation, 2 * 2 + 1)[-1] == 0
    assert simulation.waiting().tolist() == [0, 1]
    assert step(simulation, 2)[-1] == 0
    assert step(simulation, 0)[-1] == 1
    assert simulation.record().machine.tolist() == [0, 0, 0, 1]


def test_truncation_charges_the_slots_before_it(make_sequences):
    rows = [(0, [[7, 7]] * 9), (0, [[8, 8]] * 9), (0, [[8, 8]] * 9)]
    simulation = begin(make_sequences(rows), TWO, max_slots=2)
    assert step(simulation, 0) == [0, 2, 0, 100, 1]
    assert not simulation.is_over()
    assert step(simulation, 1) == [0, 2, 0, 50, 1]  # slot 1 is the last of two
    assert simulation.state.counters[0, OVER] == TRUNCATED
    never = begin(make_sequences(rows), TWO, max_slots=0)
    steps = [step(never, m) for m in (0, 1, 1)]
    assert never.state.counters[0, OVER] == TERMINATED
    assert sum(s[-1] for s in steps) == 11


def test_an_episode_that_ends_in_its_last_slot_is_not_truncated(make_sequences):
    simulation = begin(make_sequences([(0, [[7, 7]] * 3)]), ONE, max_slots=3)
    assert step(simulation, 0)[-1] == 3
    assert simulation.state.counters[0, OVER] == TERMINATED


def test_nothing_of_the_last_episode_is_left_after_reset(make_sequences):
    simulation = begin(make_sequences(THREE), TWO, max_slots=2)
    changing = State._fields[State._fields.index("counters") :]
    fresh = {name: getattr(simulation.state, name).copy() for name in changing}
    step(simulation, 0)
    step(simulation, 1)
    simulation.reset(0)
    for name, before in fresh.items():
        assert np.array_equal(before, getattr(simulation.state, name)), name


# ---- what is refused


def test_refuses_what_cannot_be_played(make_sequences):
    sequences = make_sequences([(5, [[1, 1]])])
    with pytest.raises(InputError, match="batch is 0: must be at least 1"):
        Simulation(sequences, TWO, Scenario(), batch=0)
    with pytest.raises(InputError, match="max_slots is 5, but a sequence's first workload arrives in slot 5"):
        Simulation(sequences, TWO, Scenario(max_slots=5))
    with pytest.raises(InputError, match="zero machines"):
        Machines.homogeneous(0, 8, ("cpu", "mem"))


# ---- properties


@st.composite
def episodes(draw):
    """A scenario, machines, and sequences as rows; whole and fractional units, equal and unequal machines."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    resources = draw(st.integers(1, 3))
    whole = draw(st.booleans())
    if draw(st.booleans()):
        capacity = np.full((draw(st.integers(1, 3)), resources), 8.0)
    else:
        capacity = rng.integers(2, 9, (draw(st.integers(1, 3)), resources)) - (0.0 if whole else 0.25)

    def units(length):
        return rng.integers(1, 7, (length, resources)) if whole else rng.uniform(0.01, 6, (length, resources))

    workloads = draw(st.integers(1, 7))
    arrivals = [np.sort(rng.integers(0, 8, workloads)).tolist() for _ in range(2)]
    rows = [[(a, units(int(rng.integers(1, 7))), int(rng.integers(1, 7))) for a in own] for own in arrivals]
    weights = {
        "K_c": draw(st.sampled_from([0.1, 0.0, tuple(range(resources))])),
        "K_u": draw(st.sampled_from([3.0, 2.0, 1.0, 0.0, 2.5, tuple(np.arange(resources) * 1.5)])),
        "K_o": draw(st.sampled_from([30000.0, tuple(10.0 ** np.arange(resources))])),
        "K_w": draw(st.sampled_from([50.0, 0.0])),
    }
    scenario = Scenario(
        history=3,
        quantise=whole,
        max_slots=0,
        hold_action=draw(st.booleans()),
        choose_from_queue=draw(st.booleans()),
        queue=draw(st.integers(2, 5)),
        placements_per_slot=draw(st.sampled_from([1, 2, None])),
        overshoot_per=draw(st.sampled_from(["workload", "machine"])),
        **weights,
    )
    names = ("cpu", "mem", "gpu")[:resources]
    background = None
    if draw(st.booleans()):
        background = rng.integers(0, 4, (2, draw(st.integers(1, 9)), *capacity.shape), dtype=np.uint8)
    machines = Machines(capacity, names)
    return {"rows": rows, "machines": machines, "scenario": scenario, "background": background, "rng": rng}


@settings(max_examples=120, deadline=None)
@given(episodes())
def test_penalties_equal_the_referees(make_sequences, case):
    machines, scenario = case["machines"], case["scenario"]
    sequences = make_sequences(*case["rows"], resources=machines.resources)
    sequences = replace(sequences, background=case["background"])
    env = PlacementVectorEnv(3, sequences, machines, scenario, autoreset_mode="Disabled")
    env.reset(seed=0, options={"sequence": np.array([0, 1, 0])})
    simulation, sums, rewards, slots = env.simulation, {name: np.zeros(3) for name in TERMS}, np.zeros(3), np.zeros(3)
    over = np.zeros(3, bool)
    while not over.all():
        actions = case["rng"].integers(env.single_action_space.n, size=3)
        _, reward, over, truncated, info = env.step(actions)
        assert not truncated.any()
        assert (simulation.state.load >= -1e-9).all()
        for name in TERMS:
            assert (info[name] >= 0).all()
            sums[name] += info[name]
        rewards += reward
        slots += info["slots"]
    assert case["background"] is not None or not simulation.state.load.any()
    assert not simulation.state.machines[:, :, ACTIVE].any()
    for b in range(3):
        record = simulation.record(b)
        expected = penalties(record, machines, scenario.penalty_weights(), scenario.overshoot_per)
        for name in TERMS:
            assert sums[name][b] == pytest.approx(expected[name], rel=1e-9, abs=1e-9), name
        assert rewards[b] == pytest.approx(-sum(expected.values()), rel=1e-9, abs=1e-9)
        assert slots[b] == record.finish.max() - record.arrival.min()
        assert (record.start >= record.arrival).all()
        limit = scenario.placements_per_slot
        assert limit is None or np.bincount(record.start).max() <= limit


@pytest.mark.parametrize("changes", [{}, {"quantise": False}, {"background": 3, "perturb": 1, "burst": 3.0}])
def test_an_episode_of_real_size_equals_the_referees(problem, changes):
    scenario = Scenario(machine_types=("2x8,8", "2x16,12"), workloads=40, history=4, max_slots=0, **changes)
    problem = Problem.build(problem.trace, scenario, problem.classes)
    sequences = problem.sequences("test", 1, seed=3)
    simulation = Simulation(sequences, problem.machines, scenario)
    simulation.reset(0)
    rng, sums = np.random.default_rng(0), np.zeros(TOTALS)
    while not simulation.is_over():
        simulation.step(rng.integers(4, size=1))
        sums += simulation.state.totals[0]
    expected = penalties(simulation.record(), problem.machines, scenario.penalty_weights())
    assert expected["overshoot"] > 0
    assert dict(zip(TERMS, sums, strict=False)) == pytest.approx(expected, rel=1e-9)
    assert simulation.state.load.any() == ("background" in changes)


def test_batch_and_grid_do_not_change_the_record(problem, train):
    played = Runner(train, problem.machines, problem.scenario).play(make_scheduler("best-fit"), 2)
    batch = Simulation(train, problem.machines, problem.scenario, 2, max_slots=0)
    batch.reset(2)
    for machine in played.machine[np.argsort(played.start, kind="stable")]:
        # best-fit waits where no machine has room, which an agent without `hold_action` cannot: hold by hand
        while played.start[batch.waiting(0)[0]] > batch.state.counters[0, SLOT]:
            batch.next_slot()
        batch.step(np.full(2, machine))
    for b in range(2):
        assert batch.is_over(b)
        assert np.array_equal(batch.record(b).start, played.start)
        assert np.array_equal(batch.record(b).machine, played.machine)
