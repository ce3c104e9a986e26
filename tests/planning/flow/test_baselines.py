"""What the Aladdin+H paper compares with: by hand, then all of them on problems of every kind."""

import numpy as np
import pytest
from hypothesis import given, settings

from tests.planning.flow.conftest import Make, constrained_problems, replicas_of
from tvwrl.planning.flow.firmament import Firmament
from tvwrl.planning.flow.medea import Medea
from tvwrl.planning.flow.tetris_graphene import Graphene, Tetris, copy_of
from tvwrl.planning.problem import NOWHERE, PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import PLANNERS, abilities, make_plan
from tvwrl.types import InputError


def test_tetris_aligns_demand_with_what_is_free(make: Make) -> None:
    """Memory-heavy goes where it takes a larger share of what is free: shares (.2, .8) on A, (.4, .4) on B."""
    problem = make([1], [(2, 8)], [(5, 20), (10, 10)])
    assert replicas_of(problem, Tetris(0)(problem)) == [1]  # .4 + .4 on A, .2 + .8 on B
    two = make([1, 1], [(1, 1), (4, 4)], [(4, 4), (5, 5)])
    assert replicas_of(two, Tetris(0)(two)) == [1, 0]  # the larger first


def test_tetris_looks_at_limits_only_when_one_is_broken(make: Make) -> None:
    """Three that exclude one another: alignment spreads them over like machines, and crowds them on a small one."""
    limits = [(0, 1, 0), (0, 2, 0), (1, 2, 0)]
    problem = make([1, 1, 1], [(3, 3), (2, 2), (1, 1)], [(6, 6), (7, 7), (8, 8)], limits)
    blind = Tetris(0)(problem)
    assert blind.migrations == 0
    assert validate(problem, blind).violations == 0
    crowded = make([1, 1, 1], [(4, 4), (3, 3), (2, 2)], [(9, 9), (100, 100), (200, 200)], limits)
    assert replicas_of(crowded, Tetris(0)(crowded)) == [0, 0, 0]
    assert validate(crowded, Tetris(0)(crowded)).violations == 2
    once = Tetris(1)(crowded)
    assert replicas_of(crowded, once) == [0, 1, 0]  # the third goes back: the next best aligned holds the second
    assert (once.migrations, validate(crowded, once).violations) == (2, 1)
    twice = Tetris(2)(crowded)
    assert replicas_of(crowded, twice) == [0, 1, 2]
    assert (twice.migrations, validate(crowded, twice).violations) == (3, 0)


def test_tetris_moves_a_replica_to_the_rest_of_its_copy(make: Make) -> None:
    problem = make([1, 1, 1], [(4, 4), (3, 3), (1, 1)], [(9, 9), (8, 8)], bundles=[{0: 1, 2: 1}])
    assert copy_of(problem).tolist() == [0, NOWHERE, 0]
    blind, moved = Tetris(0)(problem), Tetris(1)(problem)
    assert replicas_of(problem, blind) == [1, 0, 0]
    assert validate(problem, blind).apart == 2
    assert replicas_of(problem, moved) == [1, 0, 1]
    assert moved.migrations == 1


def test_graphene_takes_the_troublesome_first(make: Make) -> None:
    problem = make([1, 1, 1], [(3, 3), (2, 2), (1, 1)], [(9, 9), (9, 9)], [(1, 2, 0)])
    assert Tetris(1).order(problem).tolist() == [0, 1, 2]
    assert Graphene(1).order(problem).tolist() == [1, 2, 0]


def test_trivial_fills_machines_and_octopus_balances(make: Make) -> None:
    problem = make([4], [(1, 1)], [(4, 4)] * 4)
    assert len(set(Firmament("TRIVIAL", "cpu")(problem).machine.tolist())) == 1
    assert len(set(Firmament("OCTOPUS", "cpu")(problem).machine.tolist())) == 4


def test_firmament_sends_back_what_lacks_the_other_resource(make: Make) -> None:
    """Four fit by cores, one by memory: the other three end on machines of their own."""
    problem = make([4], [(1, 4)], [(4, 4)] * 4)
    assignment = Firmament("TRIVIAL", "cpu")(problem)
    assert sorted(replicas_of(problem, assignment)) == [0, 1, 2, 3]
    assert assignment.details["sent_back"] > 0
    with pytest.raises(InputError, match="resource is 'disk': must be one of cpu, mem"):
        Firmament("TRIVIAL", "disk")(problem)


def test_medea_weighs_violations_against_placing(make: Make) -> None:
    """Two that exclude each other and one machine: the second is worth placing only if violations are cheap."""
    problem = make([1, 1], [(1, 1), (1, 1)], [(4, 4)], [(0, 1, 0)])
    dear, cheap = Medea(0.5, 1, 0)(problem), Medea(1, 0.1, 0)(problem)
    assert validate(problem, dear).placed == 1
    assert list(dear.reasons.values()) == [
        "not placed by the programme: no room on the machines it was shown, or worth less than what it breaks"
    ]
    assert validate(problem, cheap).placed == 2
    assert validate(problem, cheap).violations == 1


def test_medea_leaves_machines_whole(make: Make) -> None:
    """The first goes where enough for the second is left, if fragments count."""
    problem = make([1, 1], [(3, 3), (1, 1)], [(3, 3), (6, 6)])
    assert replicas_of(problem, Medea(1, 1, 1, batch=1)(problem))[0] == 1


@pytest.mark.parametrize("name", ["Tetris.1", "Graphene.4", "Medea(1,1,1)", "TRIVIAL-cpu", "OCTOPUS-mem"])
@settings(max_examples=25, deadline=None)
@given(problem=constrained_problems())
def test_every_baseline_respects_capacity_and_gives_reasons(name: str, problem: PlanningProblem) -> None:
    plan = make_plan(problem, name)
    verdict = validate(problem, plan)
    assert (verdict.over_capacity, verdict.misplaced) == (0, 0)
    placed = np.bincount(plan.application, plan.replicas, len(problem.instance))
    assert set(plan.reasons) == set(np.flatnonzero(placed < problem.instance.replicas).tolist())
    assert replicas_of(problem, make_plan(problem, name)) == replicas_of(problem, plan)


@pytest.mark.parametrize("name", [name for name in PLANNERS if not abilities(name).open_fleet])
def test_names_are_those_of_the_figures(make: Make, name: str) -> None:
    assert make_plan(make([1], [(1, 1)], [(4, 4)]), name).algorithm == name


@pytest.mark.parametrize("name", ["", "Tetris", "Aladdin+H.0", "Aladdin+H.4(XRF)", "Medea(1,2,1)", "Firmament"])
def test_unknown_names_list_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match=r"there is no planner '.*': .*--list-planners lists all"):
        abilities(name)
