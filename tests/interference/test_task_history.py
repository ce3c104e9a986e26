"""Histories of similarity_keys: shares by hand, a job that does not see itself, tasks never seen."""

from dataclasses import replace

import numpy as np
import pytest

from tvwrl.interference.categories import Thresholds
from tvwrl.interference.classifier import GROUPINGS, SHARES, History, similarity_keys


def test_shares_by_hand(tasks):
    """Three tasks alike, CPU classes 0, 0, 2. Of all: 2/3, 0, 1/3. Each level adds its tasks to one vote of the level
    before: (2 + 2/3) / 4 = 2/3 stays. Without its own job the third sees 0, 0 only: (2 + 2/3) / 3, then more still."""
    three = tasks.only(np.flatnonzero((tasks.tag == tasks.tag[0]) & (tasks.task == "M1"))[:3])
    three = replace(three, instances=np.array([4, 4, 4]))
    classes = np.array([[0, 1, 2], [0, 1, 2], [2, 1, 2]])
    history, own = History.of(three, classes)
    found = history.inputs(three)
    assert found.shape == own.shape == (3, len(GROUPINGS) * SHARES)
    assert found[0, :3] == pytest.approx([2 / 3, 0, 1 / 3])
    assert found[0, -SHARES:][:3] == pytest.approx([2 / 3, 0, 1 / 3])
    assert own[2, :3] == pytest.approx([(2 + 2 / 3) / 3, 0, 1 / 9])
    assert own[2, SHARES : SHARES + 3] == pytest.approx([(2 + 8 / 9) / 3, 0, 1 / 27])
    assert own[0, :3] == pytest.approx([(1 + 2 / 3) / 3, 0, (1 + 1 / 3) / 3])


def test_unknown_tasks_have_the_shares_of_all(tasks):
    usage = (tasks.cpu, tasks.memory, tasks.makespan)
    history, _ = History.of(tasks, Thresholds.from_usage(*usage).classes(*usage))
    few = tasks.only(np.arange(2))
    other = replace(few, tag=few.tag + "x", role=few.role + "x", task=np.array(["M7", "M8"], object))
    assert history.inputs(other) == pytest.approx(np.tile(history.overall, (2, len(GROUPINGS))))


def test_shares_add_up_and_do_not_depend_on_order(tasks):
    classes = np.zeros((len(tasks), 3), np.int64)
    classes[:, 0] = np.arange(len(tasks)) % 3
    history, _ = History.of(tasks, classes)
    found = history.inputs(tasks)
    assert found.reshape(len(tasks), len(GROUPINGS), SHARES).sum(axis=2) == pytest.approx(3.0)
    order = np.random.default_rng(0).permutation(len(tasks))
    assert history.inputs(tasks.only(order)) == pytest.approx(found[order])


def test_keys_differ_by_size_and_plan(tasks):
    one = tasks.only(tasks.job == tasks.job[0])
    larger = similarity_keys(replace(one, instances=one.instances * 4))
    assert [a == b for a, b in zip(similarity_keys(one), larger, strict=True)] == [True, True, True, False, True, False]
    planned = similarity_keys(replace(one, plan_cpu=one.plan_cpu * 2))
    assert [a == b for a, b in zip(similarity_keys(one), planned, strict=True)] == [True, True, True, True, False, True]


def test_tasks_added_one_job_after_another_count_as_if_there_from_the_start(tasks):
    classes = np.zeros((len(tasks), 3), np.int64)
    classes[:, 0] = np.arange(len(tasks)) % 3
    whole, _ = History.of(tasks, classes)
    early = np.isin(tasks.job, list(dict.fromkeys(tasks.job))[:100])
    grown, _ = History.of(tasks.only(early), classes[early])
    for job in dict.fromkeys(tasks.job[~early]):
        own = tasks.job == job
        grown.add(tasks.only(own), classes[own])
    grown.overall = whole.overall
    assert grown.inputs(tasks) == pytest.approx(whole.inputs(tasks))
    assert list(map(len, grown.counts)) == list(map(len, whole.counts))
