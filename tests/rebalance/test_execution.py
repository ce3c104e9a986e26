"""What is evicted, what is refused, and what is stopped, against an API server that fails in every way."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from tests.rebalance.controlling import LARGE, controller, plan_of
from tests.rebalance.fake_cluster import Answer, FakeCluster, scattered
from tvwrl.rebalance.eviction_budgets import EvictionBudgets
from tvwrl.rebalance.execution import ExecutionOptions
from tvwrl.rebalance.hands import is_ready
from tvwrl.rebalance.moves_record import read_record
from tvwrl.types import InputError


def small() -> FakeCluster:
    """Three nodes; web on a and b, db on a."""
    cluster = FakeCluster()
    for name in "abc":
        cluster.add_node(f"node-{name}", cores=2)
    cluster.add_owner("web", ["node-a", "node-b"])
    cluster.add_owner("db", ["node-a"])
    return cluster


def name_of(cluster: FakeCluster, owner: str, node: str) -> str:
    return next(f"shop/{pod['metadata']['name']}" for pod in cluster.of(owner) if pod["spec"].get("nodeName") == node)


def drain_a(state):
    """web's and db's pods of node-a to node-b."""
    pods = [str(pod) for i, pod in enumerate(state.pod) if state.node[state.at[i]] == "node-a"]
    return plan_of(state, [(pod, "node-b") for pod in pods], ["node-a"])


def events(folder, name="moves.jsonl"):
    return [line["event"] for line in read_record(folder / name)]


def nodes_of(cluster, owner):
    return sorted(pod["spec"].get("nodeName") for pod in cluster.of(owner))


def test_a_plan_is_carried_out_and_everything_is_told(tmp_path):
    cluster = small()
    one = controller(cluster, tmp_path, drain_a)
    assert one.turn()
    assert nodes_of(cluster, "web") == ["node-b", "node-b"]
    assert nodes_of(cluster, "db") == ["node-b"]
    assert events(tmp_path) == ["planned", "planned", *["evicting", "evicted", "replaced"] * 2]
    last = list(read_record(tmp_path / "moves.jsonl"))[-1]
    assert (last["outcome"], last["node"], last["source"]) == ("as_planned", "node-b", "node-a")
    assert [event["involvedObject"]["uid"] for event in cluster.events] == [uid for uid, *_ in cluster.evicted]
    shown = one.monitoring.text().decode()
    assert 'tvwrl_rebalance_evictions_total{outcome="as_planned"} 2.0' in shown
    assert "tvwrl_rebalance_budget_left 9998.0" in shown


def test_a_dry_run_reads_only_and_says_what_the_real_run_evicts(tmp_path):
    cluster, twin = (scattered(8, 3, 6, seed=3, cores=3) for _ in range(2))
    for one in (cluster, twin):
        one.protect("app-01", 2)

    def make_plan(state):
        moves = [(str(pod), f"node-0{i % 6}") for i, pod in enumerate(state.pod)]
        moves = [(pod, node) for i, (pod, node) in enumerate(moves) if state.node[state.at[i]] != node]
        return plan_of(state, moves, batches=[i // 4 for i in range(len(moves))])

    budgets = EvictionBudgets(hourly=12, hourly_per_node=4, hourly_per_namespace=12, hourly_per_owner=2)
    rehearsing = controller(cluster, tmp_path, make_plan, dry_run=True, budgets=budgets, record="dry.jsonl")
    rehearsing.turn()
    assert not cluster.evicted
    shown = rehearsing.monitoring.text().decode()
    assert sum(map(float, re.findall(r"^tvwrl_rebalance_evictions_total.* (.*)", shown, re.MULTILINE))) == 0
    assert {method for method, _ in cluster.requests} == {"GET"}
    controller(twin, tmp_path, make_plan, budgets=budgets).turn()
    dry, real = (
        [line["uid"] for line in read_record(tmp_path / name) if line["event"] == "evicted"]
        for name in ("dry.jsonl", "moves.jsonl")
    )
    assert dry == real == [uid for uid, *_ in twin.evicted]
    assert len(real) >= 8
    assert f'tvwrl_rebalance_imagined_evictions_total{{outcome="as_planned"}} {float(len(dry))}' in shown
    assert f"tvwrl_rebalance_budget_left {12.0 - len(dry)}" in shown


def test_a_disruption_budget_refuses_and_the_pod_is_given_up(tmp_path):
    cluster = small()
    cluster.protect("web", 2)
    one = controller(cluster, tmp_path, drain_a, execution=ExecutionOptions(eviction_tries=3))
    one.turn()
    assert nodes_of(cluster, "web") == ["node-a", "node-b"]
    refusals = [line for line in read_record(tmp_path / "moves.jsonl") if line["event"] == "disruption_budget"]
    assert len(refusals) == 3
    assert "allows none" in refusals[0]["reason"]


@pytest.mark.parametrize("retry_after", ["", "7"])
def test_the_server_decides_at_last_about_disruption_budgets(tmp_path, retry_after):
    """Its status says that one may go, but the server knows better, twice."""
    cluster = small()
    left = [2]

    def trouble(method, path):
        if not path.endswith("/eviction") or not left[0]:
            return None
        left[0] -= 1
        causes = [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods"}]
        body = {"code": 429, "message": "Cannot evict pod as it would violate it", "details": {"causes": causes}}
        return Answer(429, {"retry-after": retry_after} if retry_after else {}, json.dumps(body).encode())

    cluster.trouble = trouble
    one = controller(cluster, tmp_path, drain_a)
    one.turn()
    assert len(cluster.evicted) == 2
    assert events(tmp_path).count("disruption_budget") == 2
    assert len(one.evictions) == 2


@pytest.mark.parametrize("status", [409, 429, 500, 503, None])
@pytest.mark.parametrize("happens", [False, True])
def test_an_eviction_that_fails_once_is_carried_out_once(tmp_path, status, happens):
    """Whether the server did it before it failed, or not."""
    cluster, failed = small(), []

    def trouble(method, path):
        if not path.endswith("/eviction") or failed:
            return None
        failed.append(path)
        if happens and status in (500, 503, None):
            cluster._evict("/".join(path.split("/")[4:7:2]), {})
        return OSError("timed out") if status is None else Answer(status, {}, b'{"message": "trouble"}')

    cluster.trouble = trouble
    controller(cluster, tmp_path, drain_a).turn()
    assert len(failed) == 1
    assert len(cluster.evicted) == 2
    assert nodes_of(cluster, "db") == ["node-b"]


def test_a_server_that_fails_all_the_time_stops_the_run(tmp_path):
    cluster = small()
    cluster.trouble = lambda method, path: Answer(500, {}, b"") if path.endswith("/eviction") else None
    one = controller(cluster, tmp_path, drain_a, execution=ExecutionOptions(most_errors=3, eviction_tries=9))
    one.turn()
    assert not cluster.evicted
    (stop,) = [line for line in read_record(tmp_path / "moves.jsonl") if line["event"] == "stopped"]
    assert stop["plan"]
    cluster.trouble = lambda method, path: Answer(503, {}, b"")
    assert one.turn()
    assert 'tvwrl_rebalance_turns_total{result="failed"} 1.0' in one.monitoring.text().decode()


def test_evictions_that_are_forbidden_stop_the_run_at_once(tmp_path):
    cluster = small()
    cluster.trouble = lambda method, path: Answer(403, {}, b'{"message": "no"}') if path.endswith("/eviction") else None
    one = controller(cluster, tmp_path, drain_a)
    one.turn()
    assert events(tmp_path)[-1] == "stopped"
    assert events(tmp_path).count("evicting") == 1
    assert len(one.evictions) == 0


def between_plan_and_act(change):
    """A planner after which the cluster changes."""

    def make_plan(cluster):
        def made(state):
            plan = drain_a(state)
            change(cluster)
            return plan

        return made

    return make_plan


def vanish(cluster):
    cluster.nodes.pop("node-b", None)
    for key, pod in list(cluster.pods.items()):
        if pod["spec"].get("nodeName") == "node-b":
            del cluster.pods[key]


def cordon(cluster):
    cluster.nodes["node-b"]["spec"]["unschedulable"] = True


def fill(cluster):
    cluster.add_owner("more", ["node-b"], cpu="1500m")


def rename(cluster):
    for pod in cluster.pods.values():
        pod["metadata"]["uid"] += "-new"


def protect(cluster):
    for pod in cluster.pods.values():
        pod["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


@pytest.mark.parametrize("change", [vanish, cordon, fill, rename, protect])
def test_what_changed_since_the_plan_is_not_evicted(tmp_path, change):
    cluster = small()
    controller(cluster, tmp_path, between_plan_and_act(change)(cluster)).turn()
    assert not cluster.evicted
    assert events(tmp_path).count("refused") == 2


def test_a_pod_that_takes_the_name_just_before_is_left_alone(tmp_path):
    """Between the last look and the eviction: the server compares uids."""
    cluster = small()

    def trouble(method, path):
        if path.endswith("/eviction"):
            rename(cluster)
        return None

    cluster.trouble = trouble
    one = controller(cluster, tmp_path, drain_a)
    one.turn()
    assert not cluster.evicted
    assert len(one.evictions) == 0


@pytest.mark.parametrize(("age", "what"), [(24 * 3600, "1440"), (-3600, "future")])
def test_a_plan_of_another_time_is_refused(tmp_path, age, what):
    cluster = small()

    def make_plan(state):
        plan = drain_a(state)
        return plan_of(state, [(m.pod, m.target) for m in plan.moves], made=state.time - age)

    controller(cluster, tmp_path, make_plan).turn()
    assert not cluster.evicted
    (stop,) = [line for line in read_record(tmp_path / "moves.jsonl") if line["event"] == "stopped"]
    assert what in stop["reason"]


def test_the_age_of_a_plan_is_by_the_servers_clock(tmp_path, monkeypatch):
    """Whatever the clock of this machine says."""
    monkeypatch.setattr("time.time", lambda: 0.0)
    cluster = small()
    controller(cluster, tmp_path, drain_a).turn()
    assert len(cluster.evicted) == 2


def test_a_plan_that_grows_old_meanwhile_stops(tmp_path):
    cluster = small()
    cluster.startup = 700.0
    options = ExecutionOptions(longest_age=10, replacement_timeout=900)
    controller(cluster, tmp_path, drain_a, execution=options).turn()
    assert len(cluster.evicted) == 1
    assert events(tmp_path)[-1] == "stopped"


def test_a_replacement_that_does_not_come_stops_the_run_and_pauses(tmp_path):
    cluster = small()
    cluster.startup = 10_000.0
    one = controller(cluster, tmp_path, drain_a)
    one.turn()
    one.turn()
    assert len(cluster.evicted) == 1
    assert events(tmp_path).count("missing") == 1
    assert one.evictions.paused_until > cluster.time


def test_stale_usage_stops(tmp_path):
    cluster, ages = small(), iter([10.0, 10_000.0])
    controller(cluster, tmp_path, drain_a, usage_age=lambda: next(ages)).turn()
    assert len(cluster.evicted) == 1


def test_usage_that_cannot_be_read_stops_and_what_is_on_its_way_is_waited_for(tmp_path):
    cluster, asked = small(), []
    cluster.add_owner("cache", ["node-a"])

    def age():
        asked.append(1)
        if len(asked) > 2:
            raise InputError("prometheus: the connection is refused")
        return 10.0

    def make_plan(state):
        return plan_of(state, [(move.pod, move.target) for move in drain_a(state).moves], batches=[0, 0, 0])

    controller(cluster, tmp_path, make_plan, usage_age=age).turn()
    assert len(cluster.evicted) == 2
    assert events(tmp_path)[-2:] == ["stopped", "replaced"]


def test_a_gain_that_is_gone_stops(tmp_path):
    cluster, asked = small(), []

    def make_plan(state):
        asked.append(state)
        return drain_a(state) if len(asked) == 1 else plan_of(state, [])

    controller(cluster, tmp_path, make_plan).turn()
    assert len(cluster.evicted) == 1
    assert "gain is gone" in list(read_record(tmp_path / "moves.jsonl"))[-1]["reason"]


@pytest.mark.parametrize(("steered", "most"), [(True, 3), (False, 1)])
def test_pods_go_alone_until_one_ends_where_it_should(tmp_path, steered, most):
    """Where kube-scheduler does not know the targets it fills the nodes that were emptied: few pods are to show it."""
    cluster, waiting = FakeCluster(), []
    for name in "abc":
        cluster.add_node(f"node-{name}")
    for i in range(8):
        cluster.add_owner(f"app-{i}", ["node-a"])
    cluster.place = lambda pod, nodes: "node-c"
    evict = cluster._evict

    def counted(key, body):
        waiting.append(1 + 8 - sum(is_ready(pod) for pod in cluster.pods.values()))
        return evict(key, body)

    cluster._evict = counted

    def make_plan(state):
        return plan_of(state, [(str(pod), "node-b") for pod in state.pod], ["node-a"], batches=[0] * 6 + [1, 1])

    budgets = replace(LARGE, on_their_way=3)
    controller(cluster, tmp_path, make_plan, hand_over=steered, budgets=budgets).turn()
    assert len(cluster.evicted) == (8 if steered else 2)
    assert waiting[0] == 1
    assert max(waiting) == most


def test_replacements_that_go_elsewhere_stop_it_and_an_owner_that_returned_is_left_alone(tmp_path):
    cluster = FakeCluster()
    for i in range(4):
        cluster.add_node(f"node-0{i}")
    for i in range(4):
        cluster.add_owner(f"app-{i}", ["node-00", "node-01"])
    cluster.place = lambda pod, nodes: nodes[0]

    def make_plan(state):
        rows = [i for i in range(len(state)) if state.node[state.at[i]] == "node-00"]
        return plan_of(state, [(str(state.pod[i]), "node-03") for i in rows], ["node-00"])

    one = controller(cluster, tmp_path, make_plan, hand_over=False)
    one.turn()
    lines = list(read_record(tmp_path / "moves.jsonl"))
    assert [line["outcome"] for line in lines if line["event"] == "replaced"] == ["returned"] * 2
    assert "do not help" in lines[-2]["reason"]
    assert lines[-1]["event"] == "paused"
    one.turn()
    assert len(cluster.evicted) == 2
    one.evictions.paused_until = 0.0
    one.turn()
    owners = [owner for _, owner, _, _ in cluster.evicted]
    assert len(owners) == len(set(owners))


def test_drained_nodes_that_fill_again_pause_it(tmp_path):
    cluster = small()
    one = controller(cluster, tmp_path, drain_a)
    one.turn()
    cluster.add_owner("new", ["node-a"])
    cluster.sleep(600)
    one.turn()
    assert one.evictions.paused_until > cluster.time
    assert len(cluster.evicted) == 2


def test_a_node_that_cannot_be_drained_any_more_is_left(tmp_path):
    cluster = small()
    first, second = name_of(cluster, "web", "node-a"), name_of(cluster, "db", "node-a")

    def make_plan(state):
        plan = plan_of(state, [(first, "node-b"), (second, "node-b")], ["node-a"])
        cluster.pods[first]["metadata"]["uid"] = "another"
        return plan

    controller(cluster, tmp_path, make_plan).turn()
    assert not cluster.evicted


def test_pods_of_a_batch_wait_for_each_other_under_one_disruption_budget(tmp_path):
    cluster = FakeCluster()
    for name in "abcd":
        cluster.add_node(f"node-{name}")
    cluster.add_owner("web", ["node-a"] * 6)
    cluster.protect("web", 5)

    def make_plan(state):
        moves = [(str(pod), "node-b") for pod in state.pod]
        return plan_of(state, moves, batches=[0] * 6)

    controller(cluster, tmp_path, make_plan, execution=ExecutionOptions(eviction_tries=2)).turn()
    assert nodes_of(cluster, "web") == ["node-b"] * 6


def test_room_is_kept_for_pods_on_their_way(tmp_path):
    """Node b has room for one of two beside the first; no other replica says how large that one is."""
    cluster = FakeCluster()
    cluster.add_node("node-a", cores=8)
    cluster.add_node("node-b", cores=2)
    cluster.add_owner("first", ["node-a"], cpu="100m")
    for owner in ("one", "two"):
        cluster.add_owner(owner, ["node-a"], cpu="1500m")
    cluster.startup = 60.0

    def make_plan(state):
        return plan_of(state, [(str(pod), "node-b") for pod in state.pod], batches=[0] * len(state))

    controller(cluster, tmp_path, make_plan).turn()
    assert len(cluster.evicted) == 2
    (refused,) = [line for line in read_record(tmp_path / "moves.jsonl") if line["event"] == "refused"]
    assert "it has 0.5" in refused["reason"]


@pytest.mark.parametrize("name", ["hourly", "hourly_per_node", "hourly_per_namespace", "hourly_per_owner"])
def test_budgets_of_an_hour(tmp_path, name):
    cluster = FakeCluster()
    for node in "abcd":
        cluster.add_node(f"node-{node}")
    cluster.add_owner("web", ["node-a"] * 6)

    def make_plan(state):
        return plan_of(
            state, [(str(pod), "node-b") for i, pod in enumerate(state.pod) if state.node[state.at[i]] == "node-a"]
        )

    budgets = EvictionBudgets(**{**LARGE.__dict__, name: 2})
    one = controller(cluster, tmp_path, make_plan, budgets=budgets)
    one.turn()
    assert len(cluster.evicted) == 2
    cluster.sleep(1800)
    one.turn()
    assert len(cluster.evicted) == 2
    cluster.sleep(2000)
    one.turn()
    assert len(cluster.evicted) == 4


def test_no_pod_returns_to_a_node_that_its_owner_left(tmp_path):
    cluster = small()

    def back(state):
        return plan_of(state, [(name_of(cluster, "db", "node-b"), "node-a")])

    plans = iter([drain_a, back])
    one = controller(cluster, tmp_path, lambda state: next(plans)(state))
    one._make_plan = lambda state: (back if nodes_of(cluster, "db") == ["node-b"] else drain_a)(state)
    one.turn()
    one.turn()
    assert nodes_of(cluster, "db") == ["node-b"]
    assert "left node-a" in list(read_record(tmp_path / "moves.jsonl"))[-1]["reason"]
    cluster.sleep(25 * 3600)
    one.turn()
    assert nodes_of(cluster, "db") == ["node-a"]
