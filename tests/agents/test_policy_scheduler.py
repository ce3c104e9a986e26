"""A policy as a scheduler: an environment that does not look as its training's is refused with the difference."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.networks import make_policy
from tvwrl.agents.observing import shapes_of
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Placement

SEEN = {"observe_demand": True, "observe_forecast": True, "hold_action": True}


def cluster_of(sequences, machines, scenario):
    """A cluster at the beginning of an episode."""
    simulation = Simulation(sequences, machines, scenario, max_slots=0)
    simulation.reset(0)
    return Cluster(simulation)


def scheduler_of(problem, train, scenario, kind="shared"):
    """An untrained policy of that scenario."""
    shapes = shapes_of(cluster_of(train, problem.machines, scenario).simulation)
    saved = SimpleNamespace(
        config=TrainConfig(policy=kind, scenario=scenario),
        shapes=shapes,
        forecaster=None,
        make_policy=lambda: make_policy(kind, shapes, 4),
    )
    return PolicyScheduler("mine", saved)


def test_it_shows_its_name_and_what_it_knows(problem, train):
    scheduler = scheduler_of(problem, train, replace(problem.scenario, **SEEN))
    assert repr(scheduler) == "<PolicyScheduler name='mine', knows='demand forecasts'>"


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"hold_action": False}, "hold_action True, not False"),
        ({"peak_units": 5}, "peak_units 6, not 5"),
        ({"history": 4}, "history 6, not 4"),
        ({"queue": 3}, "queue 5, not 3"),
        ({"observe_request": False}, "observe_request True, not False"),
        ({"observe_demand": False}, "observe_demand True, not False"),
        ({"observe_forecast": False}, "observe_forecast True, not False"),
        ({"observe_peak": True}, "observe_peak False, not True"),
        ({"more_classes": 1}, r"classes \d+, not \d+"),
    ],
)
def test_another_scenario_is_refused_by_name(problem, train, change, difference):
    scenario = replace(problem.scenario, **SEEN)
    scheduler = scheduler_of(problem, train, scenario)
    scheduler.reset(cluster_of(train, problem.machines, scenario), np.random.default_rng(0))
    change = dict(change)
    classes = train.classes + change.pop("more_classes", 0)
    other = cluster_of(replace(train, classes=classes), problem.machines, replace(scenario, **change))
    with pytest.raises(InputError, match=f"checkpoint 'mine' was trained with {difference}"):
        scheduler.reset(other, np.random.default_rng(0))


def test_a_policy_may_be_played_where_usage_comes_late(problem, train):
    scenario = replace(problem.scenario, **SEEN)
    late = cluster_of(train, problem.machines, replace(scenario, usage_delay=2))
    scheduler = scheduler_of(problem, train, scenario)
    scheduler.reset(late, np.random.default_rng(0))
    assert len(list(scheduler.schedule(late, [train.workload(0, 0)]))) <= 1


def test_only_the_shared_policy_takes_another_number_of_machines(problem, train):
    scenario = replace(problem.scenario, **SEEN)
    wider = cluster_of(train, replace(scenario, machines=7).cluster(problem.trace.resources), scenario)
    shared, flat = (scheduler_of(problem, train, scenario, kind) for kind in ("shared", "flat"))
    shared.reset(wider, np.random.default_rng(0))
    assert len(list(shared.schedule(wider, [train.workload(0, 0)]))) <= 1
    with pytest.raises(InputError, match="machines 4, not 7"):
        flat.reset(wider, np.random.default_rng(0))


def test_alternatives_are_ranked_by_logit_and_have_room(problem, train, monkeypatch):
    scenario = replace(problem.scenario, hold_action=False)
    scheduler = scheduler_of(problem, train, scenario)
    machines = replace(scenario, machine_types=("3x8,8", "1x0,0", "2x8,8")).cluster(("cpu", "mem"))
    cluster, workload = cluster_of(train, machines, scenario), train.workload(0, 0)
    scheduler.reset(cluster, np.random.default_rng(0))
    monkeypatch.setattr(scheduler, "logits", lambda seen, mask: np.array([[1.0, 2.0, 6.0, 9.0, 4.0, 5.0]]))
    choice = Placement(workload, 2)
    assert scheduler.alternatives(cluster, [workload], choice, 10).tolist() == [2, 5, 4, 1, 0]
    assert scheduler.alternatives(cluster, [workload], choice, 2).tolist() == [2, 5]
    cluster.simulation.state.load[0, [2, 5]] = 8.0  # the choice stays a candidate
    assert scheduler.alternatives(cluster, [workload], choice, 3).tolist() == [2, 4, 1]
