"""The door: what each knowledge group is told is what the cluster says, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tvwrl.benchmark.tasks import problem_of
from tvwrl.benchmark.view import (
    ABOUT_RUNNING,
    ABOUT_WORKLOADS,
    OF_WORKLOADS,
    SEES,
    Door,
    FrozenCluster,
    NotSeen,
    seen_by,
)
from tvwrl.forecasting import training_windows
from tvwrl.forecasting.baselines import LastValue
from tvwrl.forecasting.segments import columns
from tvwrl.schedulers.knowledge import (
    CURRENT_LOAD,
    FORECASTS,
    FORECASTS_AND_PEAKS,
    FUTURE,
    GROUPS,
    PEAKS,
    REQUESTS,
    knowing_no_more,
)
from tvwrl.simulation.cluster import Cluster, Running
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError


@pytest.fixture(scope="module")
def busy(moving):
    """A cluster on which much runs and may move, the workload that waits, and one that has not arrived."""
    plain = problem_of(moving)
    problem = replace(plain, forecaster=LastValue().fit(training_windows(plain.sampler, 20)))
    drawn = problem.sequences("test", 1, 0)
    simulation = Simulation(drawn, problem.machines, problem.scenario, forecasts=True, max_slots=0)
    simulation.reset(0)
    placed = 0
    while placed < 8 or not len(simulation.waiting()):
        if len(simulation.waiting()):
            simulation.place(0, placed % 3)
            placed += 1
        else:
            simulation.next_slot()
    head = int(simulation.waiting()[0])
    return Cluster(simulation), drawn.workload(0, head), drawn.workload(0, head + 1)


def through_the_door(group, cluster, workload):
    """What an entry of a group holds: the cluster and the workload."""
    door = Door(group)
    frozen = FrozenCluster(door.begin(cluster), group, partial(door.tell, cluster))
    return frozen, frozen.update(door.state(cluster, [workload]))[0]


def asked(cluster, name, workload):
    """The attribute, or what the method says."""
    found = getattr(cluster, name)
    if name in ABOUT_WORKLOADS:
        return found(workload)
    if name in ABOUT_RUNNING:
        return found(cluster.running)
    return found(5) if name == "reserved_ahead" else found() if name == "observation" else found


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_is_told_what_it_may_know_and_nothing_else(busy, group):
    cluster, workload, _ = busy
    frozen, seen = through_the_door(group, cluster, workload)
    peaks = PEAKS.group in knowing_no_more(group)
    for name in SEES:
        may = group != CURRENT_LOAD.group if name == "observation" else name in seen_by(group, SEES)
        if not may:
            with pytest.raises(NotSeen, match=rf"cluster\.{name} is not shown to the group '"):
                asked(frozen, name, seen)
            continue
        told, true = asked(frozen, name, seen), asked(cluster, name, workload)
        if "forecast" in name and not peaks:
            true = true[..., : columns(2)]
        if isinstance(true, np.ndarray):
            assert not told.flags.writeable
            assert told.dtype == true.dtype
            np.testing.assert_array_equal(told, true)
        elif isinstance(true, dict):
            for key in true:
                np.testing.assert_array_equal(told[key], true[key])
        elif isinstance(true, Running):
            assert len(true.workload) > 3
            for one, other in zip(told, true, strict=True):
                assert not one.flags.writeable
                np.testing.assert_array_equal(one, other)
        else:
            assert told is true or told == true
    for name in OF_WORKLOADS:
        if name not in seen_by(group, OF_WORKLOADS):
            with pytest.raises(NotSeen, match=rf"workload\.{name} is not shown to the group '"):
                getattr(seen, name)
        elif name != "workload_id":
            np.testing.assert_array_equal(getattr(seen, name), getattr(workload, name))


def test_by_hand_who_sees_what():
    assert "room_ahead" in seen_by(FUTURE.group, SEES)
    assert "room_ahead" not in seen_by(FORECASTS_AND_PEAKS.group, SEES)
    assert "reserved_peaks" not in seen_by(FORECASTS.group, SEES)
    assert seen_by(REQUESTS.group, OF_WORKLOADS) == ("index", "workload_id", "arrival", "first_demand", "request")
    assert {"peak", "length"} <= set(seen_by(PEAKS.group, OF_WORKLOADS))
    assert [group for group in GROUPS if "demand" in seen_by(group, OF_WORKLOADS)] == [FUTURE.group]


def test_tasks_without_moves_say_so(small):
    problem = problem_of(small)
    simulation = Simulation(problem.sequences("test", 1, 0), problem.machines, problem.scenario, max_slots=0)
    simulation.reset(0)
    cluster = Cluster(simulation)
    with pytest.raises(InputError, match="nothing may move, as moves_per_slot is 0"):
        Door(CURRENT_LOAD.group).tell(cluster, "running", None)


@pytest.mark.parametrize("name", ["simulation", "b", "demand", "without"])
def test_what_no_entry_is_shown(busy, name):
    cluster, workload, _ = busy
    frozen, _ = through_the_door(FUTURE.group, cluster, workload)
    with pytest.raises(NotSeen, match=rf"cluster\.{name} is not shown to entries; the group 'the whole future' sees"):
        getattr(frozen, name)
    assert not hasattr(frozen, name)


@pytest.mark.parametrize("question", [("sequences", None), (["load"], None), (None, None), ("__class__", None)])
def test_the_door_answers_no_other_questions(busy, question):
    cluster, workload, _ = busy
    door = Door(FUTURE.group)
    door.state(cluster, [workload])
    with pytest.raises(NotSeen):
        door.tell(cluster, *question)


def test_what_has_not_arrived_is_not_told(busy):
    cluster, workload, later = busy
    door = Door(FUTURE.group)
    door.state(cluster, [workload])
    for index in (later.index, -1, None, True, 1.0):
        with pytest.raises(ValueError, match="which was not shown"):
            door.tell(cluster, "request_of", index)
    for slots in (-1, 10**9, None, True):
        with pytest.raises(ValueError, match="must be 0 to 10000"):
            door.tell(cluster, "reserved_ahead", slots)


def test_a_workload_does_not_say_which_series_it_was_cut_from(busy):
    cluster, workload, _ = busy
    _, seen = through_the_door(FUTURE.group, cluster, workload)
    assert seen.workload_id == f"w{workload.index}" != workload.workload_id


def test_answers_are_copies(busy):
    cluster, workload, _ = busy
    frozen, _ = through_the_door(CURRENT_LOAD.group, cluster, workload)
    before = cluster.load.copy()
    for array in (frozen.load, frozen.capacity, frozen.active):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert (cluster.load == before).all()
