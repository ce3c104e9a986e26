"""From a plan to run time: the trace that it was made for, played in the simulator on the machines of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.sources.traces import members_of, units_of
from tvwrl.schedulers import FUTURE, Runner, Scheduler
from tvwrl.simulation import Cluster, Scenario
from tvwrl.types import Episode, Float, InputError, Int, Machines, Placement, SequenceSet, Trace, Workload

UNITS = 8.0  # of each resource on the fleet's first machine, as in the paper of the simulator
LARGEST = 250_000_000  # numbers of demand that are held at most


class Planned(Scheduler):
    """Workloads go where a plan has them, the others where another scheduler wants them, once those are placed.

    Parameters
    ----------
    name : str
        Of this scheduler, in tables.
    machine_of : dict[str, int]
        Workload id -> machine.
    then : Scheduler, optional
        Places the others; without it, a workload that the plan does not know waits until the end.

    Examples
    --------
    >>> Planned("my plan", {"web#0": 3}).name
    'my plan'
    """

    knowledge = FUTURE

    def __init__(self, name: str, machine_of: Mapping[str, int], then: Scheduler | None = None) -> None:
        self.name, self._machine_of, self._then = name, machine_of, then
        if then is not None:
            self.looks_at_grid, self.needs_forecasts = then.looks_at_grid, then.needs_forecasts

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Begin anew."""
        if self._then is not None:
            self._then.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """What is planned first."""
        others = []
        for workload in pending:
            machine = self._machine_of.get(workload.workload_id)
            if machine is None:
                others.append(workload)
            else:
                yield Placement(workload, machine)
        if self._then is not None and others:
            yield from self._then.schedule(cluster, others)


def hand_over(
    trace: Trace, instance: Instance, fleet: Fleet, plan: Plan
) -> tuple[SequenceSet, Machines, dict[str, int]]:
    """One sequence of every replica that the plan places, the plan's machines, and where each replica is.

    Replica r of an application, called `<application>#<r>`, lives as the application's workload r does (there may be
    more replicas than recorded workloads: then from the first again), from its first slot to its last with nothing in
    gaps, and arrives when that did. Units: `UNITS` are the fleet's first machine.

    Parameters
    ----------
    trace : Trace
        Whose workloads are played.
    instance : Instance
        Made of this trace.
    fleet : Fleet
        The machines that the plan was made for.
    plan : Plan
        What is where.

    Returns
    -------
    tuple of SequenceSet, Machines and dict[str, int]
        The sequence, the machines, and replica -> machine.

    Examples
    --------
    >>> sequences, machines, machine_of = hand_over(trace, instance, fleet, plan)  # doctest: +SKIP
    """
    unit = fleet.capacity[0] / UNITS
    machines = Machines(fleet.rows(plan.machines) / unit, trace.resources)
    application = np.repeat(plan.application, plan.replicas)
    machine = np.repeat(plan.machine, plan.replicas)
    order = np.argsort(application, kind="stable")
    application, machine = application[order], machine[order]
    number = np.arange(len(application)) - np.searchsorted(application, application)
    members = members_of(trace, instance)
    source = np.array([members[i][r % len(members[i])] for i, r in zip(application, number, strict=True)], np.int64)
    begin, end = trace.slot[trace.offsets[source]], trace.slot[trace.offsets[source + 1] - 1] + 1
    by_arrival = np.argsort(begin, kind="stable")
    application, machine, number, source, begin, end = (
        column[by_arrival] for column in (application, machine, number, source, begin, end)
    )
    names = [f"{instance.application[i]}#{r}" for i, r in zip(application, number, strict=True)]
    ids = np.array(names, dtype=object)
    return (
        _sequence(trace, ids, source, begin, end - begin, unit),
        machines,
        dict(zip(names, machine.tolist(), strict=True)),
    )


def play(trace: Trace, instance: Instance, fleet: Fleet, plan: Plan) -> tuple[Episode, SequenceSet, Machines]:
    """The plan played to the end; in the record nothing waits, as everything has its place from the start."""
    sequences, machines, machine_of = hand_over(trace, instance, fleet, plan)
    scenario = Scenario(placements_per_slot=None, quantise=False, max_slots=0, step_seconds=trace.slot_seconds)
    runner = Runner(sequences, machines, scenario)
    return runner.play(Planned(f"plan-{plan.algorithm}", machine_of), 0), sequences, machines


def _sequence(trace: Trace, ids: np.ndarray, source: Int, begin: Int, length: Int, unit: Float) -> SequenceSet:
    """A set of one sequence."""
    count, longest, resources = len(ids), int(length.max()), len(trace.resources)
    if count * longest * resources > LARGEST:
        raise InputError(
            f"{count} replicas of up to {longest} slots are too many to play at once: must be at most "
            f"{LARGEST // resources} slots together"
        )
    demand = np.zeros((1, count, longest, resources))
    scale = units_of(trace) / unit
    for place, workload in enumerate(source):
        rows = slice(trace.offsets[workload], trace.offsets[workload + 1])
        demand[0, place, trace.slot[rows] - begin[place]] = trace.usage[rows] * scale
    label = np.ones((1, count, longest + 1), np.uint8)
    label[:, :, 0] = 0
    return SequenceSet(
        resources=trace.resources,
        workload_id=ids[None],
        source_workload=trace.workload_id[source][None],
        source_slot=begin[None],
        arrival=(begin - begin.min())[None],
        length=length[None],
        demand=demand,
        request=(trace.request[source] * scale)[None],
        label=label,
        classes=1,
        load=0.0,
    )
