"""Rules of production clusters say which machines they choose from."""

import pytest

from tvwrl.schedulers import PRODUCTION, make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.types import Machines


@pytest.mark.parametrize("name", PRODUCTION)
def test_a_rule_chooses_one_of_its_candidates_and_waits_only_without_any(problem, train, name):
    rule, waits = make_scheduler(name), []
    choose = rule.choose

    def watched(cluster, workload):
        candidates, machine = rule.candidates(cluster, workload), choose(cluster, workload)
        assert candidates[machine] if machine is not None else not candidates.any()
        waits.append(machine is None)
        return machine

    rule.choose = watched
    Runner(train, Machines.homogeneous(3, 8, ("cpu", "mem")), problem.scenario).play(rule, 1)
    assert set(waits) == {True, False}
