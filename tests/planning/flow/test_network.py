import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.flow.conftest import Make, make_problem
from tvwrl.planning.flow.network import FlowNetwork, FlowSettings
from tvwrl.planning.merged import Merged
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import InputError


def network_of(problem: PlanningProblem, **changes: object) -> FlowNetwork:
    return FlowNetwork(problem.instance, problem.fleet, FlowSettings(**{"groups": 2, **changes}))  # type: ignore[arg-type]


def where(network: FlowNetwork) -> dict[tuple[int, int], int]:
    return {(v, m): n for v, m, n in zip(*(rows.tolist() for rows in network.placed()), strict=True)}


def test_figure_7_a_task_goes_to_the_group_of_its_ratio_and_keeps_it(make: Make) -> None:
    network = network_of(make([1], [[4, 8]], [[16, 16], [8, 16]]), regroup_every=1)
    assert sorted(network.centres[:, 0]) == pytest.approx([1, 2])
    assert network.place(np.array([0])) == 1
    assert where(network) == {(0, 1): 1}
    assert sorted(network.centres[:, 0]) == pytest.approx([1, 2])
    assert network.cost == 1.0


def test_figure_7_a_machine_whose_ratio_changes_gets_a_new_group(make: Make) -> None:
    network = network_of(make([1], [[4, 8]], [[16, 16], [3, 6]]), regroup_every=1)
    assert network.place(np.array([0])) == 1
    assert where(network) == {(0, 0): 1}
    # 12 cores and 8 GiB are left of the first; the second has no room for anything, so it says nothing of ratios
    assert network.centres[network.groups[0], 0] == pytest.approx(2 / 3)


def test_figure_8_two_tasks_share_the_machine_of_their_ratio(make: Make) -> None:
    network = network_of(make([2], [[4, 8]], [[12, 12], [12, 12], [8, 16]]))
    network.place(np.array([0]))
    assert where(network) == {(0, 2): 2}


def test_figure_3_the_first_task_moves_so_that_the_last_has_room(make: Make) -> None:
    # T0 goes to the machine of 10 and 10, the pair T1 to the other; T2 may not be with T0, and T1 leaves too little.
    # As in Figure 1 (d) T0 has to change places with T1, then T2 fits beside T1.
    problem = make([1, 1, 1], [[4, 8], [5, 5], [3, 2]], [[10, 10], [7, 14]], [(0, 2, 0)])
    network = network_of(problem, groups=1)
    assert network.place(np.array([0, 1])) == 2
    assert where(network) == {(0, 0): 1, (1, 1): 1}
    assert network.place(np.array([2])) == 1
    assert where(network) == {(0, 1): 1, (1, 0): 1, (2, 0): 1}
    assert network.migrations == 2
    still = network_of(problem, groups=1, repack="none")
    assert still.place(np.array([0, 1, 2])) == 2
    assert (still.left.tolist(), still.migrations) == ([0, 0, 1], 0)


def test_a_chain_that_leads_nowhere_is_rolled_back(make: Make) -> None:
    problem = make([2, 1], [[5, 5], [6, 6]], [[10, 10]])
    network = network_of(problem)
    network.place(np.array([0]))
    assert network.place(np.array([1])) == 0
    assert where(network) == {(0, 0): 2}
    network.depart(0, 0)
    assert network.place(np.array([1])) == 0
    network.depart(0, 0)
    assert network.place(np.array([1])) == 1
    assert where(network) == {(1, 0): 1}


def test_arrivals_and_departures(make: Make) -> None:
    network = network_of(make([1, 1], [[4, 4], [3, 3]], [[8, 8]], [(0, 0, 1)]))
    assert network.arrive(0) == 1  # two were to come: the self limit lets one in
    assert network.left.tolist() == [1, 1]
    network.depart(0, 0)
    assert network.arrive(1) == 2
    with pytest.raises(InputError, match="machine 0 has no replica of vertex 0"):
        network.depart(0, 0)
    with pytest.raises(InputError, match="vertex is 2: must be 0 to 1"):
        network.arrive(2)
    with pytest.raises(InputError, match="machine is -1"):
        network.depart(0, -1)


def test_a_failed_machine_is_repaired_with_few_moves(make: Make) -> None:
    problem = make([2, 1], [[4, 4], [6, 6]], [[8, 8], [8, 8], [6, 6]], [(0, 0, 1)])
    network = network_of(problem, groups=1)
    assert network.place(np.array([1, 0])) == 3
    assert where(network) == {(1, 0): 1, (0, 1): 1, (0, 2): 1}
    repair = network.fail(2)
    assert (repair.displaced, repair.replaced) == (1, 0)  # beside 6 there is no room, beside its like no leave
    assert where(network) == {(1, 0): 1, (0, 1): 1}
    with pytest.raises(InputError, match="machine 2 has already failed"):
        network.fail(2)
    network.recover(2)
    network.left[:] = [1, 0]
    assert network.place(np.array([0])) == 1
    assert where(network) == {(1, 0): 1, (0, 1): 1, (0, 2): 1}
    with pytest.raises(InputError, match="machine 2 has not failed"):
        network.recover(2)
    with pytest.raises(InputError, match="vertex is -1"):
        network.place(np.array([-1]))
    other = network_of(make([1, 1], [[4, 4], [3, 3]], [[8, 8], [8, 8]]), groups=1)
    other.place(np.array([0, 1]))
    repair = other.fail(0)
    assert (repair.displaced, repair.replaced, repair.migrations) == (2, 2, 0)
    assert where(other) == {(0, 1): 1, (1, 1): 1}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_cost_and_flow_are_those_of_min_cost_flow_where_capacities_divide(data: st.DataObject) -> None:
    """Unit tasks of one resource: the successive shortest paths are then exact. The peer is OR-Tools."""
    groups = data.draw(st.integers(1, 4))
    rooms = data.draw(st.lists(st.tuples(st.integers(0, groups - 1), st.integers(1, 4)), min_size=1, max_size=5))
    replicas = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    cost = np.array([data.draw(st.permutations([1, 100, 10_000, 1_000_000][:groups])) for _ in replicas], dtype=float)
    problem = make_problem(replicas, [[1]] * len(replicas), [[room] for _, room in rooms])
    network = network_of(problem, repack="cheapest", regroup_every=0)
    network.set_groups(np.array([group for group, _ in rooms]), cost)
    queue = np.array(data.draw(st.permutations(range(len(replicas)))))
    placed = network.place(queue)
    flow, least = min_cost_flow(replicas, rooms, cost)
    assert placed == flow
    if flow == sum(replicas):  # else who came first stays, though another would cost less
        assert network.cost == least


def min_cost_flow(replicas: list[int], rooms: list[tuple[int, int]], cost: np.ndarray) -> tuple[int, int]:
    """Greatest flow and its least cost, by OR-Tools."""
    peer = pytest.importorskip("ortools.graph.python.min_cost_flow").SimpleMinCostFlow()
    tasks, groups = cost.shape
    source, sink = tasks + groups, tasks + groups + 1
    for i, count in enumerate(replicas):
        peer.add_arc_with_capacity_and_unit_cost(source, i, count, 0)
        for g in range(groups):
            peer.add_arc_with_capacity_and_unit_cost(i, tasks + g, count, int(cost[i, g]))
    for g in range(groups):
        room = sum(count for group, count in rooms if group == g)
        peer.add_arc_with_capacity_and_unit_cost(tasks + g, sink, room, 0)
    most = min(sum(replicas), sum(count for _, count in rooms))
    peer.set_node_supply(source, most)
    peer.set_node_supply(sink, -most)
    assert peer.solve_max_flow_with_min_cost() == peer.OPTIMAL
    return peer.maximum_flow(), peer.optimal_cost()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"groups": 9}, "groups is 9: must be 1 to 8"),
        ({"regroup_every": -1}, "regroup_every is -1"),
        ({"order": "FIFO"}, "order is 'FIFO': must be one of LRF, SRF"),
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FlowSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_an_arrival_is_placed_if_and_only_if_a_machine_has_room(make: Make, seed: int) -> None:
    """The trees are right however replicas came and went: without limits and moves, room on any machine is enough."""
    rng = np.random.default_rng(seed)
    problem = make([1] * 12, rng.integers(1, 6, (12, 2)).tolist(), rng.integers(6, 12, (9, 2)).tolist())
    network = network_of(problem, groups=3, regroup_every=5, repack="none")
    demand, free, outcomes = problem.instance.demand[:, 0], problem.fleet.capacity.copy(), []
    network.left[:] = 0
    for vertex, leave in itertools.product(range(12), (False, True, False, False, False)):
        if leave:
            rows = network.placed()
            at = rng.integers(len(rows[0]))
            gone, machine = int(rows[0][at]), int(rows[1][at])
            network.depart(gone, machine)
            free[machine] += demand[gone]
            continue
        room = (demand[vertex] <= free).all(axis=1).any()
        assert network.arrive(vertex) == room
        network.left[:] = 0
        outcomes.append(room)
        who, where_, count = network.placed()
        free = problem.fleet.capacity.copy()
        np.subtract.at(free, where_, count[:, None] * demand[who])
        assert (free >= 0).all()
    assert True in outcomes
    assert False in outcomes


def test_contradictory_vertices_are_never_placed(make: Make) -> None:
    problem = make([1, 1, 1], [[1, 1], [1, 1], [2, 2]], [[8, 8]], [(0, 1, 0)], [{0: 1, 1: 1}])
    vertices = Merged.of(problem)
    network = FlowNetwork(vertices.instance, problem.fleet, FlowSettings(), refused=vertices.refused)
    assert network.place(vertices.vertex) == 1
    assert where(network) == {(int(vertices.vertex[2]), 0): 1}
    with pytest.raises(InputError, match="vertex 0 fits nowhere: affinity and anti-affinity contradict"):
        network.arrive(0)


def test_many_small_make_room_for_a_large_one(make: Make) -> None:
    network = network_of(make([30, 1], [[1, 1], [31, 31]], [[31, 31], [30, 30]]), groups=1)
    assert network.place(np.array([0, 1])) == 31
    assert where(network) == {(0, 1): 30, (1, 0): 1}
    assert network.migrations == 30


def test_a_repair_moves_another_where_nothing_else_helps(make: Make) -> None:
    network = network_of(make([1, 1], [[5, 5], [3, 3]], [[7, 7], [6, 6], [4, 4]]), groups=1)
    network.place(np.array([0, 1]))
    assert where(network) == {(0, 0): 1, (1, 1): 1}
    repair = network.fail(0)  # 5 fits nowhere until 3 has gone from the machine of 6 to that of 4
    assert where(network) == {(0, 1): 1, (1, 2): 1}
    assert (repair.displaced, repair.replaced, repair.migrations) == (1, 1, 1)
