"""Small clusters in which workloads run, and what a rule moves there."""

import numpy as np
import pytest

from tvwrl.schedulers import make_scheduler
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import Machines

SLOTS = 30


@pytest.fixture(scope="session")
def begin(make_sequences):
    """(machines, resources, slots=30, **scenario) -> a simulation in slot 0, in which the pods of each machine run.

    `machines`: {"size", "pods": what each uses, or (use, request) each, "stays": those that never move}
    """

    def make(machines, resources=("cpu", "pods"), slots=SLOTS, **scenario):
        pods = [
            (m, pod, kind == "stays")
            for m, machine in enumerate(machines)
            for kind in ("pods", "stays")
            for pod in machine.get(kind, [])
        ]
        pairs = [pod if np.ndim(pod) == 2 else (pod, pod) for _, pod, _ in pods]
        sequences = make_sequences(
            [(0, [use] * slots) for use, _ in pairs], request=[[request for _, request in pairs]], resources=resources
        )
        capacity = np.array([machine["size"] for machine in machines], float)
        chosen = {"placements_per_slot": None, "queue": 99, "moves_per_slot": 99, **scenario}
        simulation = Simulation(sequences, Machines(capacity, tuple(resources)), Scenario(**chosen), max_slots=0)
        simulation.reset(0)
        for w, (m, _, stays) in enumerate(pods):
            simulation.place(0, m)
            simulation.state.pinned[0, w] = stays
        return simulation

    return make


@pytest.fixture(scope="session")
def moves_of():
    """(simulation, scheduler) -> (workload, from, to) of the moves that it makes in the current slot."""

    def move(simulation, scheduler):
        cluster, made = Cluster(simulation), []
        for workload, machine in scheduler.moves(cluster):
            running = cluster.running
            made.append((workload, int(running.machine[list(running.workload).index(workload)]), machine))
            simulation.move(workload, machine)
        assert not simulation.crowded()
        return made

    return move


@pytest.fixture(scope="session")
def reset():
    """(name, simulation) -> the scheduler of that name, ready for the episode."""

    def make(name, simulation):
        scheduler = make_scheduler(name)
        scheduler.reset(Cluster(simulation), np.random.default_rng(0))
        return scheduler

    return make
