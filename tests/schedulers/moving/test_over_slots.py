"""Rules that remember what they saw in earlier slots."""

TWO = [{"size": [32, 100], "pods": [[1, 1], [1, 1], [1, 1]]}, {"size": [32, 100], "pods": [[1, 1], [1, 1]]}]


def test_karpenter_goes_on_emptying_a_machine(begin, reset, moves_of):
    simulation = begin(TWO, moves_per_slot=1)
    scheduler = reset("stack + karpenter", simulation)
    assert moves_of(simulation, scheduler) == [(3, 1, 0)]
    simulation.next_slot()
    assert moves_of(simulation, scheduler) == [(4, 1, 0)]
    simulation.next_slot()
    assert not moves_of(simulation, scheduler)


def test_karpenter_waits_until_machines_have_rested(begin, reset, moves_of):
    """An hour is two slots; each move is a new event on both machines."""
    simulation = begin(TWO)
    scheduler = reset("stack + karpenter(after=1)", simulation)
    moves = []
    for _ in range(3):
        moves.append(len(moves_of(simulation, scheduler)))
        simulation.next_slot()
    assert moves == [0, 0, 2]


def test_low_node_load_acts_after_enough_rounds(begin, reset, moves_of):
    machines = [{"size": [10, 10], "pods": [[3, 3], [3, 3], [3, 3]]}, {"size": [10, 10]}]
    simulation = begin(machines)
    scheduler = reset("spread + low-node-load(abnormalities=2)", simulation)
    moves = []
    for _ in range(3):
        moves.append(len(moves_of(simulation, scheduler)))
        simulation.next_slot()
    assert moves == [0, 0, 1]
