"""A machine on which workloads have run for a while, and a newcomer."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.schedulers import make_scheduler
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import Machines


@pytest.fixture(scope="session")
def situation(make_sequences):
    """(running, newcomer, machines=None, training=None, **scenario) -> the cluster, and the newcomer that waits.

    `running`: (request, usage of each slot up to now[, usage from the next slot on[, machine]]) each, of CPU, or rows
    of CPU and memory. `newcomer`: its request; it uses a hundredth in its first slot. `training`: (request,
    usage of each slot) of workloads to learn from. Slots of 30 minutes.
    """

    def make(running, newcomer, machines=None, training=None, **scenario):
        now = max((len(workload[1]) for workload in running), default=1) - 1
        places, rows, requests = [], [], []
        for workload in sorted(running, key=lambda one: -len(one[1])):
            request, past, later, place = (*workload, *(None,) * (4 - len(workload)))
            demand = [*past, *(past[-1:] if later is None else later)]
            rows.append((now + 1 - len(past), np.reshape(demand, (len(demand), -1))))
            requests.append(request)
            places.append(place or 0)
        rows.append((now, np.atleast_2d(np.asarray(newcomer) / 100)))
        kinds = ("cpu", "mem")[: np.size(newcomer)]
        sequences = make_sequences(rows, request=[[*requests, newcomer]], resources=kinds)
        if training:
            used = [(0, np.reshape(usage, (len(usage), -1))) for _, usage in training]
            past = make_sequences(used, request=[[request for request, _ in training]], resources=kinds)
            sequences = replace(sequences, training=lambda: past)
        machines = machines or Machines.homogeneous(1, 8, kinds)
        simulation = Simulation(sequences, machines, Scenario(placements_per_slot=None, **scenario), max_slots=0)
        simulation.reset(0)
        cluster = Cluster(simulation)
        while (first := int(simulation.waiting()[0])) < len(running):
            simulation.place(0, places[first])
            while not cluster.waiting:
                simulation.next_slot()
        assert cluster.slot == now
        return cluster, sequences.workload(0, len(running))

    return make


@pytest.fixture(scope="session")
def chosen(situation):
    """The machine that a rule, or the rule of that name, chooses in a `situation`; None: it waits."""

    def choose(rule, running, newcomer, machines=None, training=None, **scenario):
        cluster, workload = situation(running, newcomer, machines, training, **scenario)
        rule = make_scheduler(rule) if isinstance(rule, str) else rule
        rule.reset(cluster, np.random.default_rng(0))
        return rule.choose(cluster, workload)

    return choose


@pytest.fixture(scope="session")
def begun():
    """(sequences, scenario=None) -> a simulation of two machines of 8, and the cluster that schedulers see."""

    def begin(sequences, scenario=None):
        scenario = scenario or Scenario(placements_per_slot=None, queue=9)
        two = Machines.homogeneous(2, 8, ("cpu", "mem"))
        simulation = Simulation(sequences, two, scenario, max_slots=0)
        simulation.reset(0)
        return simulation, Cluster(simulation)

    return begin


@pytest.fixture(scope="session")
def choice(begun, make_sequences):
    """(rule, rows, requests=None, slots=0) -> the machine of the last workload, or None; the first two were put on a
    machine each, `slots` slots before."""

    def choose(rule, rows, requests=None, slots=0):
        sequences = make_sequences(rows)
        if requests is not None:
            sequences = replace(sequences, request=np.array([requests], float))
        simulation, cluster = begun(sequences)
        rule.reset(cluster, np.random.default_rng(0))
        simulation.place(0, 0)
        simulation.place(0, 1)
        while cluster.slot < slots:
            simulation.next_slot()
        return rule.choose(cluster, sequences.workload(0, len(rows) - 1))

    return choose
