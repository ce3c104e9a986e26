"""What is read from Prometheus: slots by their ends, pods on their nodes, and nothing that cannot be."""

import math

import numpy as np
import polars as pl
import pytest

from tvwrl.serve import watching
from tvwrl.serve.watching import Watcher
from tvwrl.types import InputError

GIB = 2**30
NOW = 1000 * 1800 + 600  # ten minutes into slot 1000


class Recorded:
    """Answers queries from `pods`: name -> node, owner, cores and GiB as functions of time (None: no sample)."""

    url = "http://recorded"

    def __init__(self):
        self.now, self.age, self.pods, self.finished, self.spans = NOW, 5, {}, [], []
        self.nodes = {"a": (8, 32 * GIB), "b": (4, 16 * GIB)}

    def clock(self):
        return self.now

    def get(self, path, arguments):
        return []  # no labels of clusters, and no series to be told apart

    def table(self, query, span, step, labels, name):
        self.spans.append((query, span, step))
        rows = [(found, t, value(t)) for found, value in self._series(query) for t in range(span[0], span[1] + 1, step)]
        rows = [row for row in rows if row[2] is not None]
        columns = {label: [found.get(label, "") for found, *_ in rows] for label in labels}
        columns |= {"time": [t * 1_000_000 for _, t, _ in rows], name: [float(value) for *_, value in rows]}
        schema = dict.fromkeys(labels, pl.String) | {"time": pl.Int64, name: pl.Float64}
        return pl.DataFrame(columns, schema=schema)

    def _series(self, query):
        named = [({"namespace": "n", "pod": pod}, *facts) for pod, facts in self.pods.items()]
        if query.startswith("count"):
            return []  # every name stands for one pod or node
        if '"part"' in query:
            return [(named[0][0] | {"resource": "cpu", "part": "containers"}, lambda t: 2)] if named else []
        if "allocatable" in query:
            kind = 0 if '"cpu"' in query else 1
            return [({"node": node}, lambda t, size=size: size[kind]) for node, size in self.nodes.items()]
        if "kube_pod_status_phase" in query:
            return [({"namespace": "n", "pod": pod}, lambda t: 1) for pod in self.finished]
        if "kube_pod_info" in query:
            return [(pod | {"node": node}, lambda t: t) for pod, node, *_ in named]
        if "kube_pod_owner" in query:
            kind = {"owner_kind": "StatefulSet"}
            return [(pod | kind | {"owner_name": owner}, lambda t: 1) for pod, _, owner, *_ in named if owner]
        if "timestamp" in query:
            return [({}, lambda t: self.now - self.age)] if named and self.age is not None else []
        if "cpu_usage" in query:
            return [(pod, cpu) for pod, _, _, cpu, _ in named]
        return [(pod, lambda t, mem=mem: None if mem(t) is None else mem(t) * GIB) for pod, *_, mem in named]


@pytest.fixture
def recorded(monkeypatch):
    server = Recorded()
    monkeypatch.setattr(watching, "Server", lambda *_: server)
    return server


def watcher(slots=3):
    return Watcher("http://recorded", 1800, slots)


def test_by_hand(recorded):
    """p has run for long, q since the end of slot 998: it has no usage in slot 998, and one GiB always."""
    recorded.pods = {
        "p": ("a", "db", lambda t: t // 1800 - 990, lambda t: 4),
        "q": ("b", "", lambda t: 1 if t > 999 * 1800 else None, lambda t: 1 if t > 999 * 1800 else None),
    }
    seen = watcher().read()
    assert (seen.time, seen.slot, seen.running) == (NOW, 1000, 2)
    assert 5 <= seen.sample_age < 60  # and what reading took
    assert seen.nodes == ("a", "b")
    assert seen.capacity.tolist() == [[8, 32 * GIB], [4, 16 * GIB]]
    assert seen.pods == ("n/p", "n/q")
    assert seen.node.tolist() == [0, 1]
    assert seen.owner == ("n/statefulset/db", "")
    # A slot is known by its end: slot 998 by the moment 999 x 1800.
    np.testing.assert_array_equal(seen.usage[0, :, 0], [9, 10, 10])
    np.testing.assert_array_equal(seen.usage[1, :, 1], [np.nan, GIB, GIB])
    np.testing.assert_array_equal(seen.request, [[2, np.nan], [np.nan, np.nan]])


def test_slots_that_passed_are_read_once(recorded):
    recorded.pods = {"p": ("a", "", lambda t: t // 1800 - 990, lambda t: 1)}
    watching_ = watcher()
    watching_.read()
    recorded.spans.clear()
    assert watching_.read().usage[0, :, 0].tolist() == [9, 10, 10]
    assert {span for _, span, _ in recorded.spans} <= {(NOW, NOW)}
    recorded.now += 1800  # one more slot has passed: only that one is read
    recorded.spans.clear()
    assert watching_.read().usage[0, :, 0].tolist() == [10, 11, 11]
    spans = {span for query, span, _ in recorded.spans if not query.startswith("count")}  # those look at names alone
    assert spans == {(recorded.now, recorded.now), (1001 * 1800, 1001 * 1800)}


def test_pods_that_ended_stay_in_the_past(recorded):
    recorded.pods = {"p": ("a", "", lambda t: 1, lambda t: 1), "q": ("b", "", lambda t: 2, lambda t: 1)}
    watching_ = watcher()
    watching_.read()
    recorded.finished = ["q"]
    seen = watching_.read()
    assert (seen.pods, seen.running, seen.node.tolist()) == (("n/p", "n/q"), 1, [0, 1])
    np.testing.assert_array_equal(seen.usage[1, :, 0], [2, 2, np.nan])


@pytest.mark.parametrize("lie", [math.nan, -1.0, math.inf, 1e30])
def test_lies_are_no_usage(recorded, lie):
    recorded.pods = {"p": ("a", "", lambda t: lie, lambda t: lie)}
    assert np.isnan(watcher().read().usage).all()


@pytest.mark.parametrize("age", [100, -100])
def test_samples_of_the_future_are_as_doubtful_as_old_ones(recorded, age):
    recorded.pods, recorded.age = {"p": ("a", "", lambda t: 1, lambda t: 1)}, age
    assert 100 <= watcher().read().sample_age < 160


def test_pods_without_any_sample_are_no_metrics(recorded):
    recorded.pods, recorded.age = {"p": ("a", "", lambda t: None, lambda t: None)}, None
    with pytest.raises(InputError, match="no recent sample"):
        watcher().read()


def test_an_empty_cluster_is_no_error(recorded):
    seen = watcher().read()
    assert (seen.pods, seen.running) == ((), 0)


def test_nodes_of_unknown_size_are_an_error(recorded):
    recorded.nodes = {}
    with pytest.raises(InputError, match="size of the nodes is unknown"):
        watcher().read()
    recorded.nodes = {"a": (math.nan, GIB), "b": (4, -1), "c": (2, GIB)}
    assert watcher().read().nodes == ("c",)


def test_a_window_shorter_than_the_scrape_interval_is_an_error(recorded):
    """Then no rate can be computed, while memory is there."""
    recorded.pods = {"p": ("a", "", lambda t: None, lambda t: 1)}
    with pytest.raises(InputError, match="make --window at least twice the scrape interval"):
        watcher().read()


def test_pods_that_are_forgotten_change_nothing(recorded, monkeypatch):
    """A pod lives for a slot: of twenty, three are known at a time, and the numbers of the others are given anew."""
    monkeypatch.setattr(watching, "MOST_FORGOTTEN", 0)
    forgetful, asked = watcher(), []
    for slot in range(20):
        begin = (1000 + slot) * 1800

        def uses(t, begin=begin):
            return 1 + begin // 1800 % 5 if begin < t <= begin + 1800 else None

        recorded.now, recorded.pods = begin + 600, {**recorded.pods, f"p{slot:02}": ("ab"[slot % 2], "", uses, uses)}
        recorded.finished = [f"p{i:02}" for i in range(slot)]
        asked.append((forgetful.read(), watcher().read()))
    assert len(forgetful._numbers) < 8
    for mine, anew in asked:
        assert mine.pods == anew.pods
        np.testing.assert_array_equal(mine.usage, anew.usage)
        np.testing.assert_array_equal(mine.node, anew.node)
    assert asked[-1][0].pods == ("n/p19", "n/p17", "n/p18")
