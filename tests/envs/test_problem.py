"""A problem on another number of machines."""

from dataclasses import replace

import pytest

from tvwrl.envs.problem import Problem
from tvwrl.types import InputError


def test_a_larger_cluster_is_offered_the_same_load(problem):
    larger = problem.on_machines(10)  # from 4, with 16 workloads and one placement per slot
    assert larger.machines.capacity.shape == (10, 2)
    assert (larger.scenario.workloads, larger.scenario.placements_per_slot) == (40, 2)
    assert larger.sampler.rate["test"] == pytest.approx(2.5 * problem.sampler.rate["test"])
    assert larger.sampler.unit.tolist() == problem.sampler.unit.tolist()
    assert larger.classes is problem.classes
    assert replace(larger.scenario, machines=4, workloads=16, placements_per_slot=1) == problem.scenario


def test_machines_of_several_kinds_keep_their_number(google, problem):
    kinds = Problem.build(google, replace(problem.scenario, machine_types=("3x8", "1x16")), problem.classes)
    with pytest.raises(InputError, match=r"machines is 8.*3x8 1x16"):
        kinds.on_machines(8)
