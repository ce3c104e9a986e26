"""Two episodes of three workloads on two machines, worked out by hand, and an empty one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvwrl.explorer.recording import NONE, WAIT, Recording
from tvwrl.types import Episode, Machines

MACHINES = Machines.homogeneous(2, 4.0, ("cpu", "mem"))
NAN = [np.nan] * 4
# Machine 0 has 5 units of cpu in slots 1 and 2, and 4 of capacity.
LOADS = np.array([[[2, 1], [0, 0]], [[5, 2], [0, 0]], [[5, 2], [1, 1]], [[0, 0], [1, 1]]], float)  # (T, M, D)
WAITING = [1, 1, 0, 0]  # b in slot 0, c in slot 1


def recording(names: tuple[str, str, str] = ("a", "b", "c")) -> Recording:
    """a runs on machine 0 in slots 0..2, b there in 1 and 2 and overshoots, c on machine 1 in 2 and 3.

    The first decision was not played on, the second should have taken machine 1, the third was best.
    """
    episode = Episode(
        workload_id=np.array(names, dtype=object),
        source_workload=np.array(["web", "batch", "web"], dtype=object),
        source_slot=np.array([0, 10, 20]),
        arrival=np.array([0, 0, 1]),
        start=np.array([0, 1, 2]),
        finish=np.array([3, 3, 4]),
        machine=np.array([0, 0, 1]),
        demand=(np.tile([2.0, 1.0], (3, 1)), np.tile([3.0, 1.0], (2, 1)), np.tile([1.0, 1.0], (2, 1))),
        scheduler="by-hand",
        load=0.5,
    )
    costs = [
        [NAN, NAN, NAN],
        [[1.4, 124, 60000, 50], [0, 200, 0, 50], [0.5, 150, 0, 150]],
        [[0.6, 300, 30000, 0], [0, 108, 0, 0], NAN],
    ]
    return Recording(
        episode,
        penalties=np.array([[0, 35, 0, 50], [0.7, 8, 60000, 50], [0.7, 62, 0, 0], [0, 54, 0, 0]]),
        slot=np.array([0, 1, 2]),
        workload=np.array([0, 1, 2]),
        chosen=np.array([0, 0, 1]),
        waiting=np.array([2, 2, 1]),
        machines=np.array([[0, 1, WAIT], [0, 1, WAIT], [0, 1, NONE]]),
        costs=np.array(costs, float),
        scores=np.zeros((3, 3), np.float32),
        possible=np.ones((3, 3), bool),
        meaning="score",
        continued_by="by-hand",
    )


def later() -> Recording:
    """The same arrivals, but b begins on machine 0 in slot 3 only, and c is never placed."""
    plain = recording()
    episode = replace(
        plain.episode,
        start=np.array([0, 3, -1]),
        finish=np.array([3, 5, -1]),
        machine=np.array([0, 0, -1]),
        scheduler="later",
    )
    penalties = np.array([[0, 35, 0, 50], [0, 35, 0, 100], [0, 35, 0, 100], [0, 28, 0, 50], [0, 28, 0, 50]], float)
    return replace(plain, episode=episode, penalties=penalties, chosen=np.array([0, WAIT, WAIT]))


def empty() -> Recording:
    """No workload arrived and nothing was decided."""
    none, names = np.empty(0, np.int64), np.empty(0, object)
    episode = Episode(names, names, none, none, none, none, none, (), scheduler="idle")
    return Recording(
        episode,
        penalties=np.zeros((0, 4)),
        slot=none,
        workload=none,
        chosen=none,
        waiting=none,
        machines=np.zeros((0, 3), np.int64),
        costs=np.zeros((0, 3, 4)),
        scores=np.zeros((0, 3), np.float32),
        possible=np.zeros((0, 3), bool),
        meaning="",
        continued_by="idle",
    )


def on_many(count: int) -> tuple[Recording, Machines]:
    """The first episode on `count` machines with three resources; of them the first decision's choice alone is known
    to be the dearest."""
    plain, machines = recording(), Machines.homogeneous(count, 4.0, ("cpu", "mem", "gpu"))
    demand = tuple(np.column_stack([rows, rows[:, :1]]) for rows in plain.episode.demand)
    costs = np.zeros((3, count, 4))
    costs[:, :, 1] = np.arange(count, 0, -1)
    full = replace(
        plain,
        episode=replace(plain.episode, demand=demand, resources=machines.resources),
        machines=np.tile(np.arange(count), (3, 1)),
        costs=costs,
        scores=np.zeros((3, count), np.float32),
        possible=np.ones((3, count), bool),
    )
    return full, machines


def on_one_resource() -> tuple[Recording, Machines]:
    """The first episode without memory."""
    plain = recording()
    demand = tuple(rows[:, :1] for rows in plain.episode.demand)
    episode = replace(plain.episode, demand=demand, resources=("cpu",))
    return replace(plain, episode=episode), Machines.homogeneous(2, 4.0, ("cpu",))
