"""How long a slot's moves take to decide on clusters of several sizes, and a whole episode, on one core.

On machines of 24 units run 6 workloads of a trace each, at random ages; 9 were placed by expected cost. All figures are
processor time. The value is one of random weights of the usual size, which takes as long as a learnt one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from timing import least_seconds, measure

from tvwrl.command_line import parse
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import ByMachineValue, MachineValue, MoveRule, Runner, make_move_rule, make_scheduler
from tvwrl.schedulers.expected_cost import expected_costs
from tvwrl.schedulers.moving.expected_gain import MOST, THRESHOLD
from tvwrl.schedulers.moving.machine_costs import (
    Layers,
    costs_of,
    feature_count,
    present,
)
from tvwrl.schedulers.moving.machine_value import meaning
from tvwrl.schedulers.moving.move_search import (
    EXACT,
    SINGLE,
    SWAP,
    TOGETHER,
    find_among,
)
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.traces import open_trace
from tvwrl.types import Machines

RULES = ("greedy", "evacuate", "greedy-evacuate", "swap")
KINDS = {"greedy": SINGLE, "evacuate": TOGETHER, "greedy-evacuate": SINGLE | TOGETHER, "swap": SINGLE | SWAP}
EACH, ENDED, SIZE = 6, 3, 24.0  # workloads of a machine that run, and that have ended; its units
UNITS = (64, 32)  # of the value's hidden layers
REPEATS = 5  # calls of which the quickest counts


def main(trace: str = "google2011", machines: tuple[int, ...] = (10, 100, 1000), states: int = 5) -> None:
    """Print milliseconds of a slot's decisions by rule and cluster, of their parts, and of an episode.

    Args:
        trace: whose workloads run.
        machines: numbers of machines, one per cluster.
        states: clusters of each size.
    """
    problem = Problem.build(open_trace(trace), Scenario(moves_per_slot=2), classes="none").with_forecasts()
    print("| machines | workloads | moves per slot | what | median, ms | most, ms |")
    print("|---:|---:|---:|---|---:|---:|")
    for count in machines:
        for limit in sorted({2, max(2, count // 5)}):
            scenario = replace(problem.scenario, moves_per_slot=limit, workloads=EACH * count)
            clusters = [filled(problem, scenario, count, seed) for seed in range(states)]
            if 10 < count <= 100:  # exact searches of more take minutes
                for name, kinds in KINDS.items():
                    some, every = (sum(gain(one, kinds, exact) for one in clusters) for exact in (EXACT, 10**12))
                    what = f"share of the exact gain, {name}"
                    print(f"| {count} | {EACH * count} | {limit} | {what} | {some / every:.3f} | |")
            for name, work in {**decisions(), **parts()}.items():
                spent = [1000 * least_seconds(work(cluster), REPEATS) for cluster in clusters]
                row = f"{np.median(spent):.3f} | {max(spent):.3f}"
                print(f"| {count} | {EACH * count} | {limit} | {name} | {row} |", flush=True)
    problem = problem.on_machines(10)
    runner = Runner(problem.sequences("test", 10, 0), problem.machines, problem.scenario)
    for name in ("expected-cost", *(f"expected-cost + {rule}" for rule in (*RULES, "machine-value"))):
        scheduler = make_scheduler(name)
        for how, watch in (("", None), (", asked slot by slot", lambda *_: None)):
            spent = [1000 * measure(runner.play, scheduler, s % 10, watch).cpu for s in range(-1, 10)][1:]
            slots = [runner.play(scheduler, s).finish.max() for s in range(10)]
            for what, each in (("an episode", spent), ("its mean slot", np.array(spent) / slots)):
                row = f"{what} of {name}{how} | {np.median(each):.3f} | {max(each):.3f}"
                print(f"| 10 | 60 | 2 | {row} |", flush=True)


def gain(cluster: Cluster, kinds: int, exact: int) -> float:
    """What the moves of a slot lower the expected costs by, less the thresholds; all pairs tried up to `exact`."""
    costs, cost, made = costs_of(cluster), [], 0
    for limit in (0, cluster.moves_left):
        here = present(cluster, cluster.running)
        made = find_among(here, costs, kinds, THRESHOLD, MOST, 1.0, np.empty((limit, 2), np.int64), exact)
        cost.append(here.cost.sum())
    return float(cost[0] - cost[1]) - THRESHOLD * made


Work = Callable[[Cluster], Callable[[], object]]


def decisions() -> dict[str, Work]:
    """What decides on the moves of a slot, by name."""

    def work(make: Callable[[Cluster], MoveRule]) -> Work:
        def of(cluster: Cluster) -> Callable[[], object]:
            rule = make(cluster)
            rule.reset(cluster, np.random.default_rng(0))
            return lambda: list(rule.moves(cluster))

        return of

    named = {name: work(lambda _, name=name: make_move_rule(name)) for name in RULES}
    return named | {"learnt value": work(lambda cluster: ByMachineValue(random_value(cluster)))}


def parts() -> dict[str, Work]:
    """What else a slot needs, by name."""
    return {
        "what runs": lambda cluster: lambda: cluster.running,
        "load after moves": lambda cluster: lambda: cluster.load_after_moves,
        "forecasts": lambda cluster: (lambda running: lambda: cluster.forecasts_of(running))(cluster.running),
    }


def random_value(cluster: Cluster) -> MachineValue:
    """A value with random weights."""
    rng, width = np.random.default_rng(0), feature_count(cluster.capacity.shape[1])

    def drawn(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    a, b = UNITS
    scale = np.ones(width, np.float32)
    layers = Layers(drawn(width), scale, drawn(width, a), drawn(a), drawn(a, b), drawn(b), drawn(b, 2), drawn(2))
    facts = {"scenario": meaning(cluster.scenario), "risk": 1.0, "threshold": 1.0}
    return MachineValue(layers, cluster.machines.resources, facts)


def filled(problem: Problem, scenario: Scenario, count: int, seed: int) -> Cluster:
    """A cluster in which some workloads run and others have just ended.

    All were placed at random ages, each on the machine with room where the expected cost was lowest.
    """
    rng = np.random.default_rng(seed)
    drawn = problem.on_machines(count * (EACH + ENDED) // EACH).sequences("test", 1, seed)
    workloads, resources = drawn.length.shape[1], len(drawn.resources)
    machines = Machines(np.full((count, resources), SIZE), drawn.resources)
    slot = int(drawn.length.max())
    age = (rng.random(workloads) * drawn.length[0]).astype(np.int64)
    table, units = drawn.forecast, float(scenario.peak_units)
    assert table is not None
    own = (table.values[0, np.arange(workloads), age + 1] * table.steps)[:, table.told(peaks=False)].astype(np.float64)
    usage, weights = drawn.demand[0, np.arange(workloads), age], scenario.penalty_weights().per_resource(resources)
    machine, load, ahead = np.empty(workloads, np.int64), np.zeros((count, resources)), np.zeros((count, own.shape[1]))
    for i in range(workloads):
        costs = expected_costs(ahead[None], own[i : i + 1], machines.capacity[None] / units, units, weights)[0].sum(
            axis=1
        )
        room = (load + usage[i] <= SIZE).all(axis=1)
        machine[i] = np.where(room, costs, np.inf).argmin() if room.any() else load.sum(axis=1).argmin()
        load[machine[i]] += usage[i]
        ahead[machine[i]] += own[i]
    ends = rng.permutation(workloads) >= EACH * count
    simulation = Simulation(drawn, machines, scenario, grid=False, forecasts=True, max_slots=0)
    simulation.restore(slot, machine, slot - np.where(ends, drawn.length[0], age), np.zeros(0, np.int64))
    return Cluster(simulation)


if __name__ == "__main__":
    parse(main)
