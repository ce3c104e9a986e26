"""What an entry that is a scheduler sees of the cluster in a process of its own: what its knowledge group may, no more.

`Door` is on this side: it alone decides what is told. `FrozenCluster` and `SeenWorkload` are on the entry's side: they
hold copies, and ask at the door for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.benchmark.models import flat, unflat
from tvwrl.forecasting import columns
from tvwrl.packing import room_now
from tvwrl.schedulers import CURRENT_LOAD, FORECASTS, FUTURE, PEAKS, REQUESTS, Knowledge, knowing_no_more, knowledge_of
from tvwrl.simulation import Cluster, Running, Scenario
from tvwrl.types import Float, InputError, Machines, Workload

ALWAYS = ("machines", "scenario", "slot", "load", "active", "waiting")  # sent unasked, since most entries read them
OF_MOVES = ("running", "moves_left", "load_after_moves")  # sent unasked where moves are due
OF_FORECASTS = ("forecast", "forecast_of", "forecasts_of")
SEES: Mapping[str, Knowledge] = {  # attribute of `Cluster` -> who may know it, beside those who know more
    **dict.fromkeys((*ALWAYS, "capacity", "divisor", "measured", "room_now"), CURRENT_LOAD),
    **dict.fromkeys(OF_MOVES, CURRENT_LOAD),
    **dict.fromkeys(("request_of", "requests_of", "reserved_requests"), REQUESTS),
    **dict.fromkeys(("reserved_peaks", "reserved_ahead", "room_for_peaks"), PEAKS),
    # Without the columns of peaks, for those who do not know them
    **dict.fromkeys(OF_FORECASTS, FORECASTS),
    **dict.fromkeys(("room_ahead", "residual_ahead"), FUTURE),
    "observation": CURRENT_LOAD,  # and whoever knows what the scenario's observation shows
}
OF_WORKLOADS: Mapping[str, Knowledge] = {  # the same for attributes of `Workload`
    **dict.fromkeys(("index", "workload_id", "arrival", "first_demand"), CURRENT_LOAD),
    "request": REQUESTS,
    **dict.fromkeys(("peak", "length"), PEAKS),
    "demand": FUTURE,
}
ABOUT_WORKLOADS = ("room_now", "request_of", "room_for_peaks", "forecast_of", "room_ahead", "residual_ahead")
ABOUT_RUNNING = ("requests_of", "forecasts_of")  # asked for all that runs
MOST_SLOTS = 10_000  # of `reserved_ahead`


class NotSeen(InputError, AttributeError):
    """What an entry asks for and may not see."""


def seen_by(group: str, what: Mapping[str, Knowledge]) -> tuple[str, ...]:
    """The attributes in `what` that a knowledge group may see.

    >>> seen_by("current load and history", OF_WORKLOADS)
    ('index', 'workload_id', 'arrival', 'first_demand')
    """
    groups = knowing_no_more(group)
    return tuple(name for name, knowledge in what.items() if knowledge.group in groups)


class Door:
    """Tells an entry about the cluster during one episode. `group`: what it may know, one of `GROUPS`."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._open, self._open_of_workloads = seen_by(group, SEES), seen_by(group, OF_WORKLOADS)
        self._seen = [name for name in self._open if name != "observation"]  # which groups see it depends on the task
        self._shown: dict[int, Workload] = {}  # every workload that the entry was shown so far

    def begin(self, cluster: Cluster) -> dict[str, Any]:
        """What stays the same for the whole episode."""
        return {"machines": cluster.machines, "scenario": cluster.scenario}

    def state(self, cluster: Cluster, pending: Sequence[Workload]) -> dict[str, Any]:
        """What is known now, the workloads that wait by index, and the facts of those that are shown the first time."""
        new = [workload for workload in pending if workload.index not in self._shown]
        self._shown |= {workload.index: workload for workload in new}
        return {
            "slot": cluster.slot,
            "waiting": cluster.waiting,
            "load": flat(cluster.load),
            "active": flat(cluster.active),
            "room": flat(cluster.room_now(pending[0])) if pending else None,  # of the first, as most entries ask for it
            "pending": [workload.index for workload in pending],
            "new": [flat(self._facts(workload)) for workload in new],
        }

    def moving(self, cluster: Cluster) -> dict[str, Any]:
        """What is known when moves are due."""
        return self.state(cluster, ()) | {"moves": {name: self.tell(cluster, name, None) for name in OF_MOVES}}

    def tell(self, cluster: Cluster, name: Any, about: Any) -> Any:
        """An attribute of the cluster, or what its method `name` says of a workload or a number of slots, `flat`.

        `about`: index of the workload, the number of slots, or None

        Raises NotSeen for what the group may not see, InputError for a question that makes no sense.
        """
        if name == "observation":
            self._refuse(name, knowledge_of(cluster.scenario).group in knowing_no_more(self._group))
            return flat(cluster.observation())
        self._refuse(name, name in self._open)
        if name in ALWAYS:
            raise InputError(f"{name} is sent with every question")
        if name == "reserved_ahead":
            if type(about) is not int or not 0 <= about <= MOST_SLOTS:
                raise InputError(f"reserved_ahead of {about!r} slots: must be 0 to {MOST_SLOTS}")
            return flat(cluster.reserved_ahead(about))
        found = getattr(cluster, name)
        if name == "moves_left":
            return found
        if name == "running":
            return flat(found._asdict())
        if name in ABOUT_RUNNING:
            found = found(cluster.running)
        if name in ABOUT_WORKLOADS:
            if type(about) is not int or about not in self._shown:
                raise InputError(f"{name} of a workload with the index {about!r}, which was not shown")
            found = found(self._shown[about])
        if name in OF_FORECASTS and PEAKS.group not in knowing_no_more(self._group):
            found = found[..., : columns(cluster.capacity.shape[1])]
        return flat(np.asarray(found))

    def workload(self, index: Any, pending: Sequence[Workload]) -> Workload:
        """The workload that the entry places. Raises InputError for one that it was not shown."""
        for workload in pending:
            if type(index) is int and workload.index == index:
                return workload
        raise InputError(f"placed a workload with the index {index!r}, which is none of those that it was shown")

    def _facts(self, workload: Workload) -> dict[str, Any]:
        # The id names the series of the trace that a workload was cut from, and with it its future
        return {name: getattr(workload, name) for name in self._open_of_workloads} | {
            "workload_id": f"w{workload.index}"
        }

    def _refuse(self, name: Any, may: bool) -> None:
        if not may:
            raise NotSeen(f"{_not_seen('cluster', name)} the group '{self._group}', which sees {', '.join(self._seen)}")


def _not_seen(of: str, name: Any) -> str:
    return f"{of}.{name} is not shown to"


class SeenWorkload:
    """What an entry sees of a waiting workload: the attributes of `Workload` that its group may know."""

    def __init__(self, facts: Mapping[str, Any], group: str) -> None:
        self.__dict__.update(facts, _group=group)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_group" not in self.__dict__:
            raise AttributeError(name)
        seen = ", ".join(seen_by(self._group, OF_WORKLOADS))
        raise NotSeen(f"{_not_seen('workload', name)} the group '{self._group}', which sees {seen}")

    def __repr__(self) -> str:
        return f"SeenWorkload({self.workload_id})"


class FrozenCluster:
    """What an entry sees of the cluster: the attributes and methods of `Cluster` that its group may know.

    Arrays are copies that cannot be written to. `ask`: (name, about) -> what the door tells
    """

    machines: Machines
    scenario: Scenario
    slot: int
    waiting: int
    load: Float
    active: npt.NDArray[np.int32]

    def __init__(self, begin: Mapping[str, Any], group: str, ask: Callable[[str, Any], Any]) -> None:
        self._group, self._ask = group, ask
        self._told: dict[tuple[str, Any], Any] = {}  # what was asked in this state
        self._workloads: dict[int, SeenWorkload] = {}
        self.__dict__.update(begin)
        self.capacity = frozen(self.machines.capacity)
        self.divisor = frozen(np.where(self.capacity > 0, self.capacity, 1.0))

    @property
    def measured(self) -> int:
        """See `Cluster.measured`."""
        return self.slot - self.scenario.usage_delay

    def update(self, state: Mapping[str, Any]) -> list[SeenWorkload]:
        """Take over what `Door.state` says; returns the workloads that wait."""
        self.slot, self.waiting = state["slot"], state["waiting"]
        self.load, self.active = frozen(unflat(state["load"])), frozen(unflat(state["active"]))
        for facts in state["new"]:
            self._workloads[facts["index"]] = SeenWorkload(frozen(unflat(facts)), self._group)
        pending = [self._workloads[i] for i in state["pending"]]
        self._told = {("room_now", pending[0].index): frozen(unflat(state["room"]))} if pending else {}
        self._told |= {(name, None): frozen(unflat(told)) for name, told in state.get("moves", {}).items()}
        return pending

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in SEES:
            seen = ", ".join(seen_by(self._group, SEES))
            raise NotSeen(f"{_not_seen('cluster', name)} entries; the group '{self._group}' sees {seen}")
        if name in ABOUT_WORKLOADS:
            return lambda workload: self._tell(name, workload.index)
        if name in ABOUT_RUNNING:
            return partial(self._of_running, name)
        if name in ("reserved_ahead", "observation"):
            return partial(self._tell, name)
        return Running(**self._tell(name)) if name == "running" else self._tell(name)

    def as_waiting(self, running: Running, i: int, barred: Sequence[int] = ()) -> tuple[SeenWithout, SeenWorkload]:
        """See `Cluster.as_waiting`; what is left of the workload has no peak, length and demand here."""
        facts = vars(self._workloads[int(running.workload[i])])
        known = {name: facts[name] for name in ("index", "workload_id", "arrival", "request") if name in facts}
        rest = SeenWorkload(known | {"first_demand": frozen(running.usage[i])}, self._group)
        return SeenWithout(self, running, i, barred), rest

    def _of_running(self, name: str, running: Running) -> Any:
        """What the door tells of the workloads in `running`, in their order."""
        place = {workload: i for i, workload in enumerate(self.running.workload.tolist())}
        return frozen(self._tell(name)[[place[workload] for workload in running.workload.tolist()]])

    def _tell(self, name: str, about: Any = None) -> Any:
        if (name, about) not in self._told:
            self._told[name, about] = frozen(unflat(self._ask(name, about)))
        return self._told[name, about]


class SeenWithout:
    """What an entry sees of a cluster without one of its workloads, which waits, and without the machine that it is on.

    `barred`: machines that are switched off too
    """

    SAME = ("machines", "scenario", "slot", "measured", "active", "waiting", "forecast")  # as in the whole cluster

    def __init__(self, cluster: FrozenCluster, running: Running, i: int, barred: Sequence[int]) -> None:
        self._cluster, self._running, self._i = cluster, running, i
        self._kept = np.ones((len(cluster.machines), 1))
        self._kept[[int(running.machine[i]), *barred]] = 0.0
        self.capacity = frozen(cluster.capacity * self._kept)
        self.divisor = frozen(np.where(self.capacity > 0, self.capacity, 1.0))
        self.load = frozen(cluster.load_after_moves * self._kept)

    @property
    def reserved_requests(self) -> Any:
        """See `Cluster.reserved_requests`."""
        return frozen(self._cluster.reserved_requests * self._kept)

    def room_now(self, workload: SeenWorkload) -> Any:
        """See `Cluster.room_now`."""
        return frozen(room_now(self.load, workload.first_demand, self.capacity))

    def request_of(self, workload: SeenWorkload) -> Any:
        """See `Cluster.request_of`."""
        return frozen(self._cluster.requests_of(self._running)[self._i])

    def forecast_of(self, workload: SeenWorkload) -> Any:
        """See `Cluster.forecast_of`."""
        return frozen(self._cluster.forecasts_of(self._running)[self._i])

    def __getattr__(self, name: str) -> Any:
        if name in self.SAME:
            return getattr(self._cluster, name)
        raise NotSeen(f"{_not_seen('cluster', name)} an entry that asks for the place of a workload that runs")


def frozen(value: Any) -> Any:
    """The value; an array, or those of a dictionary, can no longer be written to."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, dict):
        for each in value.values():
            frozen(each)
    return value
