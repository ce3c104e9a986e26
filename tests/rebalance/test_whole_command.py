"""`tvwrl rebalance` from Prometheus to evictions, by servers that answer as Prometheus and Kubernetes do."""

from __future__ import annotations

import json
import os
import signal
from copy import deepcopy
from dataclasses import replace

import pytest

from tests.rebalance.fake_cluster import kubeconfig, over_http, scattered
from tests.serve.fake_prometheus import FakePrometheus, RunningPod
from tvwrl.rebalance import execution
from tvwrl.rebalance.command import RebalanceSettings, rebalance
from tvwrl.rebalance.controller import Controller
from tvwrl.rebalance.latest_usage import read_latest
from tvwrl.rebalance.plan_of_moves import read_plan
from tvwrl.types import InputError
from tvwrl.what_if import Asked

pytest.importorskip("kubernetes")
CORES, MEMORY, MOVES = 8, 32, 4


class World:
    """A cluster, its Prometheus, and a folder."""

    def __init__(self, cluster, prometheus, address, folder):
        self.cluster, self.prometheus, self.folder = cluster, prometheus, folder
        (folder / "config").write_text(kubeconfig(address))
        self.settings = RebalanceSettings(
            prometheus=prometheus.url,
            kubeconfig=folder / "config",
            extender=address,
            most_moves=MOVES,
            days=1.0,
            retries=0,
            record_of_moves=folder / "moves.jsonl",
            listen="127.0.0.1:0",
            every=0.001,
        )
        self.remember()

    def remember(self):
        """Prometheus knows the pods that run now, as if they had run for days."""
        self.prometheus.pods = [
            RunningPod(pod["metadata"]["name"], pod["spec"]["nodeName"], 0.3, 0.5, "app", pod["metadata"]["namespace"])
            for pod in self.cluster.pods.values()
        ]

    def dry(self, name="dry"):
        """The plan of a dry run."""
        rebalance(replace(self.settings, out=self.folder / name, extender=None))
        return read_plan(self.folder / name / "plan.json")

    def watch(self, monkeypatch, turns, **options):
        """So many turns of the controller."""
        done, turn = [], Controller.turn

        def counted(controller):
            done.append(turn(controller))
            if len(done) == turns:
                os.kill(os.getpid(), signal.SIGTERM)
            return done[-1]

        with monkeypatch.context() as patch:
            patch.setattr(Controller, "turn", counted)
            rebalance(replace(self.settings, watch=True, **options))

    def lines(self, event):
        """Lines of the record."""
        found = [json.loads(line) for line in (self.folder / "moves.jsonl").read_text().splitlines()]
        return [line for line in found if line["event"] == event]

    @property
    def evicted(self):
        """Uids, in order."""
        return [uid for uid, *_ in self.cluster.evicted]

    @property
    def used(self):
        """Nodes with pods."""
        return {pod["spec"]["nodeName"] for pod in self.cluster.pods.values()}


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(execution, "POLL", 0.01)
    cluster = scattered(10, 2, 7, seed=1, cores=CORES, memory=MEMORY)
    cluster.protect("app-00", 2)
    cluster.startup = 1.0
    cluster.trouble = lambda *_: cluster.sleep(0.3) and None  # time passes as requests come
    prometheus = FakePrometheus(dict.fromkeys(cluster.nodes, (CORES, MEMORY)))
    with over_http(cluster) as address:
        yield World(cluster, prometheus, address, tmp_path)
    prometheus.close()


def test_a_dry_run_only_reads(world, capsys):
    before = deepcopy((world.cluster.nodes, world.cluster.pods, world.cluster.budgets))
    plan = world.dry()
    assert plan.moves
    assert plan.drained
    assert not any("app-00" in move.pod for move in plan.moves)
    assert before == (world.cluster.nodes, world.cluster.pods, world.cluster.budgets)
    assert {method for method, _ in world.cluster.requests} == {"GET"}
    assert not world.cluster.leases
    assert "Nothing has been changed" in capsys.readouterr().out


def test_a_plan_is_carried_out_as_it_stands(world):
    plan, used = world.dry(), world.used
    rebalance(replace(world.settings, execute=world.folder / "dry" / "plan.json", most_moves=None, dry_run=False))
    assert world.evicted == [move.uid for move in plan.moves]
    replaced = {line["uid"]: line["node"] for line in world.lines("replaced")}
    assert replaced == {move.uid: move.target for move in plan.moves}
    assert world.used == used - set(plan.drained)
    late = 2 * 24 - plan.expected["machine_hours"].value  # from when they are empty on
    assert len(plan.drained) == 2
    assert 0 < late < 2 * 0.5
    rebalance(replace(world.settings, execute=world.folder / "dry" / "plan.json", most_moves=None, dry_run=False))
    assert len(world.evicted) == len(plan.moves)


def test_planned_and_carried_out_in_one_call(world, capsys):
    plan = world.dry()
    rebalance(replace(world.settings, dry_run=False, out=world.folder / "out"))
    assert world.evicted == [move.uid for move in plan.moves]
    assert read_plan(world.folder / "out" / "plan.json").moves == plan.moves
    assert f"{len(plan.moves)} pods evicted" in capsys.readouterr().out


def test_a_watched_dry_run_names_what_is_evicted_then(world, monkeypatch):
    world.watch(monkeypatch, 2)
    assert not world.evicted
    named = [line["uid"] for line in world.lines("planned")]
    assert len(named) % 2 == 0
    assert named[: len(named) // 2] == named[len(named) // 2 :]
    world.watch(monkeypatch, 1, dry_run=False)
    assert world.evicted == named[: len(named) // 2]


def test_it_comes_to_rest(world, monkeypatch):
    counts = []
    for _ in range(5):
        before = len(world.evicted)
        world.watch(monkeypatch, 2, dry_run=False)
        counts.append(len(world.evicted) - before)
        world.remember()  # as if days had passed
    assert counts[0] > 0
    assert counts[-2:] == [0, 0]
    assert not world.cluster.returns


def test_old_plans_and_old_usage_evict_nothing(world, monkeypatch):
    world.dry()
    file = world.folder / "dry" / "plan.json"
    act = replace(world.settings, execute=file, most_moves=None, dry_run=False)
    world.prometheus.mood = "old"
    with pytest.raises(InputError, match="nothing was evicted: the newest usage is 36"):
        rebalance(act)
    world.prometheus.mood = "empty"
    with pytest.raises(InputError, match="nothing was evicted: no usage is recorded any more"):
        rebalance(act)
    world.prometheus.mood = "gone"
    with pytest.raises(InputError, match="nothing was evicted: what is needed cannot be read"):
        rebalance(act)
    with pytest.raises(InputError, match=r"damaged|cannot be reached"):
        rebalance(replace(world.settings, dry_run=False, out=world.folder / "out"))
    world.watch(monkeypatch, 2, dry_run=False)
    world.prometheus.mood = "normal"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"made": content["made"] - 86400}))
    with pytest.raises(InputError, match=r"nothing was evicted: the plan is 14\d\d\.\d min old"):
        rebalance(act)
    assert not world.evicted


def test_what_was_read_in_older_hours_is_not_kept(world):
    asked = Asked(world.prometheus.url, days=1.0)
    ends = []
    for ago in (5, 4, 0):
        world.prometheus.ahead = -3600.0 * ago
        recorded = read_latest(asked, lambda line: None)
        assert recorded.slots == 288
        ends.append(len(list((world.folder / "data" / "rebalance").glob("*/[0-9]*"))))
    assert ends == [1, 2, 1]


def test_another_cluster_behind_the_same_address_is_read_anew(world):
    """As with `kubectl port-forward`, or another tenant of one server: addresses do not say which cluster it is."""
    asked = Asked(world.prometheus.url, days=1.0)
    assert set(read_latest(asked, lambda line: None).node_name) == set(world.prometheus.nodes)
    for rename in ({}, {"node-00": "other"}):  # nodes of two clusters may have the same names
        called = {name: rename.get(name, name) for name in world.prometheus.nodes}
        world.prometheus.nodes = {called[name]: size for name, size in world.prometheus.nodes.items()}
        world.prometheus.pods = [
            replace(pod, name=f"other-{pod.name}", node=called[pod.node]) for pod in world.prometheus.pods
        ]
        other = read_latest(asked, lambda line: None)
        assert set(other.node_name) == set(world.prometheus.nodes)
        assert all("/other-" in name for name in other.pod)
