"""One leader, restarts, and budgets that outlive the process."""

from __future__ import annotations

import random
import signal
from collections import Counter, defaultdict
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rebalance.controlling import LARGE, controller, lead, plan_of
from tests.rebalance.fake_cluster import Answer, scattered
from tvwrl.rebalance.controller import ControllerOptions
from tvwrl.rebalance.eviction_budgets import Eviction, EvictionBudgets, Evictions
from tvwrl.rebalance.execution import ExecutionOptions
from tvwrl.rebalance.kube_api import ApiOptions
from tvwrl.rebalance.leadership import LeaseOptions
from tvwrl.rebalance.moves_record import evictions_in, read_record
from tvwrl.types import InputError

HOUR = 3600.0


class Killed(BaseException):
    """As SIGKILL: nothing is put in order."""


def moving_all(state, limit=100):
    """Every pod to the next node."""
    names = state.node.tolist()
    moves = [(str(pod), names[(at + 1) % len(names)]) for pod, at in zip(state.pod, state.at, strict=True)]
    return plan_of(state, moves[:limit])


def kill_after(cluster, what, count=1):
    """The controller dies right after the n-th request of a kind was carried out, before it learns of it."""
    seen = [0]
    transport = cluster.transport

    def deadly(method, path, body, seconds):
        answer = transport(method, path, body, seconds)
        if what in path and method != "GET":
            seen[0] += 1
            if seen[0] == count:
                raise Killed
        return answer

    return deadly


@pytest.mark.parametrize("disk", [True, False])
@pytest.mark.parametrize("what", ["/eviction", "/events"])
def test_killed_between_eviction_and_replacement(tmp_path, disk, what):
    """The next one waits for that replacement first, counts it, and evicts that pod's owner no more than it may."""
    cluster = scattered(5, 2, 4, seed=2, cores=16)
    budgets = EvictionBudgets(hourly=3, hourly_per_owner=1)
    first = controller(cluster, tmp_path, moving_all, budgets=budgets)
    first._api.transport = kill_after(cluster, what)
    with pytest.raises(Killed):
        first.turn()
    assert len(cluster.evicted) == 1
    second = controller(
        cluster, tmp_path, moving_all, budgets=budgets, record="moves.jsonl" if disk else "another.jsonl"
    )
    assert lead(cluster, second)
    lines = list(read_record(tmp_path / ("moves.jsonl" if disk else "another.jsonl")))
    evicted = [line["uid"] for line in lines if line["event"] == "evicted"]
    replaced = [line["uid"] for line in lines if line["event"] == "replaced"]
    assert replaced[0] == cluster.evicted[0][0]
    assert len(cluster.evicted) == 3
    assert max(Counter(owner for _, owner, *_ in cluster.evicted).values()) == 1
    assert [uid for uid, *_ in cluster.evicted][1:] == [uid for uid in evicted if uid != replaced[0]]


def test_killed_before_the_eviction_it_counts_but_is_not_waited_for(tmp_path):
    cluster = scattered(5, 2, 4, cores=16)
    first = controller(cluster, tmp_path, moving_all)
    first._api.transport = kill_after(cluster, "/leases", 2)  # the first takes the Lease, the second notes an eviction
    with pytest.raises(Killed):
        first.turn()
    assert not cluster.evicted
    second = controller(cluster, tmp_path, lambda state: plan_of(state, []), record="another.jsonl")
    assert lead(cluster, second)
    assert [line["event"] for line in read_record(tmp_path / "another.jsonl")] == ["not_evicted"]
    assert len(second.evictions) == 1
    assert not second.evictions.waiting


def test_two_controllers_never_act_both(tmp_path):
    cluster = scattered(5, 2, 4, cores=16)
    one, two = (controller(cluster, tmp_path, moving_all, record=f"{i}.jsonl") for i in range(2))
    assert one.turn()
    count = len(cluster.evicted)
    assert not two.turn()
    assert len(cluster.evicted) == count
    assert "tvwrl_rebalance_leads 0.0" in two.monitoring.text().decode()
    one._leadership.release()
    assert two.turn()
    assert len(two.evictions) == len(cluster.evicted)  # it counts those of the other


def test_one_that_slept_while_its_lease_ran_out_does_not_evict(tmp_path):
    """Stopped after it decided and before it evicts; meanwhile another leads."""
    cluster = scattered(5, 2, 4, cores=16)
    one, two = (controller(cluster, tmp_path, moving_all, record=f"{i}.jsonl") for i in range(2))
    slept = []

    def sleeps(state):
        plan = moving_all(state)
        if not slept:
            slept.append(plan)
            two.turn()
            cluster.sleep(60.0)
            assert two.turn()
        return plan

    one._make_plan = sleeps
    assert not one.turn()
    assert slept
    assert len(cluster.evicted) == len(two.evictions)
    assert "no longer" not in [line["event"] for line in read_record(tmp_path / "0.jsonl")]
    assert not [line for line in read_record(tmp_path / "0.jsonl") if line["event"] == "evicting"]


def test_one_that_sleeps_after_it_noted_the_eviction_does_not_evict(tmp_path):
    cluster = scattered(5, 2, 4, cores=16)
    one = controller(cluster, tmp_path, moving_all)
    handed = cluster.hand_over

    def sleeps(*arguments):
        cluster.time += 60.0
        handed(*arguments)

    one._hand_over = sleeps
    assert not one.turn()
    assert not cluster.evicted


def test_clocks_of_two_controllers_need_not_agree(tmp_path, monkeypatch):
    cluster = scattered(3, 2, 4, cores=16)
    one, two = (controller(cluster, tmp_path, moving_all, record=f"{i}.jsonl") for i in range(2))
    assert one.turn()
    two._api.clock = lambda: cluster.time + 1e6
    assert not two.turn()
    cluster.sleep(5.0)
    one._leadership.renew()
    cluster.sleep(12.0)
    assert not two.turn()


def test_a_lease_that_says_something_else_stops_it(tmp_path):
    cluster = scattered(3, 2, 4)
    assert controller(cluster, tmp_path, moving_all).turn()
    count = len(cluster.evicted)
    (lease,) = cluster.leases.values()
    lease["metadata"]["annotations"]["tvwrl.io/evictions"] = "bm9uc2Vuc2U="
    lease["spec"]["holderIdentity"] = ""
    one = controller(cluster, tmp_path, moving_all, record="another.jsonl")
    cluster.sleep(7200)
    assert one.turn()
    assert 'turns_total{result="failed"} 1.0' in one.monitoring.text().decode()
    assert len(cluster.evicted) == count


def test_a_renewal_without_an_answer_is_no_loss(tmp_path):
    """The server wrote it, and the answer got lost: the version that is held is not the newest any more."""
    cluster = scattered(3, 2, 4)
    one = controller(cluster, tmp_path, moving_all)
    assert one._leadership.acquire()
    transport, lost = cluster.transport, []

    def loses(method, path, body, seconds):
        answer = transport(method, path, body, seconds)
        if "/leases" in path and method == "PUT" and not lost:
            lost.append(path)
            raise OSError("reset")
        return answer

    one._api.transport = loses
    assert one.turn()
    assert lost
    assert len(cluster.evicted) == 6


def test_text_of_evictions_comes_back(tmp_path):
    made = Evictions(LARGE, paused_until=5.0)
    made.add(Eviction(1.5, "u", "shop/web", "shop/deployment/web", "c", "a", "b", "p"))
    made.settle("u", returned=True)
    other = Evictions(LARGE)
    other.join_text(made.text(), "a Lease")
    assert list(other) == list(made)
    assert other.paused_until == 5.0
    with pytest.raises(InputError, match="a Lease"):
        other.join_text("nonsense", "a Lease")


def test_a_thousand_evictions_fit_into_an_annotation():
    made = Evictions(LARGE)
    for i in range(3000):
        uid = f"{random.Random(i).getrandbits(128):032x}"
        made.add(
            Eviction(
                1.9e9 + i, uid, f"shop/web-{i}", f"shop/deployment/web-{i % 40}", uid, "node-1", "node-2", uid[:12]
            )
        )
    assert 1000 / 3000 * len(made.text()) < 128 * 1024


def test_the_record_is_read_again(tmp_path):
    cluster = scattered(4, 2, 4, cores=16)
    one = controller(cluster, tmp_path, moving_all)
    one.turn()
    known = evictions_in(tmp_path / "moves.jsonl")
    assert {(e.uid, e.owner, e.source, e.target, e.waits) for e in known} == {
        (e.uid, e.owner, e.source, e.target, e.waits) for e in one.evictions
    }
    (tmp_path / "bad.jsonl").write_text('{"time": 1, "event": "evicting", "pod": 3}\n')
    with pytest.raises(InputError, match=r"bad.jsonl: line 1: pod"):
        evictions_in(tmp_path / "bad.jsonl")
    assert evictions_in(tmp_path / "none.jsonl") == []


def test_a_lease_must_outlast_a_request(tmp_path):
    options = ControllerOptions(lease=LeaseOptions(lease_seconds=10), api=ApiOptions(api_timeout=10))
    with pytest.raises(InputError, match="lease_seconds is 10"):
        options.check()


def test_a_planner_that_refuses_is_no_end(tmp_path):
    def make_plan(state):
        raise InputError("prometheus: the newest sample is 900 s old")

    one = controller(scattered(2, 2, 3), tmp_path, make_plan)
    assert one.turn()
    assert not one._good


def test_once(tmp_path):
    cluster = scattered(4, 2, 4, cores=16)
    result = controller(cluster, tmp_path, moving_all).once()
    assert [move.uid for move in result.evicted] == [uid for uid, *_ in cluster.evicted]
    assert len(result.evicted) == 8
    (lease,) = cluster.leases.values()
    assert lease["spec"]["holderIdentity"] == ""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert controller(cluster, tmp_path, lambda state: plan_of(state, [])).once() is None
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_once_beside_another(tmp_path):
    cluster = scattered(4, 2, 4, cores=16)
    one, two = (controller(cluster, tmp_path, moving_all, record=f"{i}.jsonl") for i in range(2))
    assert one._leadership.acquire()
    sleep = cluster.sleep

    def renewing(seconds):
        one._leadership.renew()
        return sleep(seconds)

    two._sleep = renewing
    with pytest.raises(InputError, match="acts already"):
        two.once()
    assert not cluster.evicted


def test_once_without_an_answer(tmp_path):
    cluster = scattered(4, 2, 4)
    cluster.trouble = lambda method, path: OSError("unreachable")
    with pytest.raises(InputError, match="unreachable"):
        controller(cluster, tmp_path, moving_all).once()


def test_a_replacement_that_never_came_pauses_the_successor_too(tmp_path):
    cluster = scattered(4, 2, 4, cores=16)
    cluster.startup = 10_000.0
    first = controller(cluster, tmp_path, moving_all)
    first._api.transport = kill_after(cluster, "/eviction")
    with pytest.raises(Killed):
        first.turn()
    second = controller(cluster, tmp_path, moving_all)
    assert lead(cluster, second)
    assert len(cluster.evicted) == 1
    assert second.evictions.paused_until > cluster.time


def test_a_namespace_for_the_lease_that_is_not_there_is_named(tmp_path):
    cluster = scattered(2, 2, 4)
    cluster.trouble = lambda method, path: Answer(404, {}, b"{}") if "/leases" in path else None
    with pytest.raises(InputError, match="lease_namespace is tvwrl: there is no such namespace"):
        controller(cluster, tmp_path, moving_all).once()
    assert not cluster.evicted


FAULTS = ("none", "500 before", "500 after", "429", "409", "hang before", "hang after", "503 of reads", "kill")


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), faults=st.sets(st.sampled_from(FAULTS), min_size=1))
def test_never_beyond_a_budget_and_never_back(tmp_path_factory, seed, faults):
    wild(tmp_path_factory.mktemp("wild"), seed, sorted(faults), 60)


@pytest.mark.slow
def test_a_thousand_evictions(tmp_path):
    assert wild(tmp_path, 1, FAULTS, 1000) >= 1000


def wild(folder, seed, faults, wanted):
    """Random plans, faults, kills and takeovers until so many pods were evicted; how many."""
    draw = random.Random(seed)
    cluster = scattered(20, 3, 16, seed=seed, cores=32)
    for i in range(0, 20, 3):
        cluster.protect(f"app-{i:02d}", 2)
    budgets = EvictionBudgets(
        hourly=40, hourly_per_node=8, hourly_per_namespace=35, hourly_per_owner=5, on_their_way=3, no_return=2
    )
    execution = ExecutionOptions(
        replacement_timeout=60, batches_without_help=10_000, pause_hours=0.1, retry_seconds=5, most_errors=4
    )

    def make_plan(state):
        names = state.node.tolist()
        rows = draw.sample(range(len(state)), min(10, len(state)))
        moves = [(str(state.pod[row]), draw.choice(names)) for row in rows]
        moves = [(pod, node) for pod, node in moves if names[state.at[state.pod.tolist().index(pod)]] != node]
        return plan_of(state, moves, batches=sorted(draw.randrange(4) for _ in moves))

    def transport(method, path, body, seconds):
        fault = draw.choice(faults) if draw.random() < 0.1 else "none"
        if path.endswith("/eviction"):
            if fault in ("500 before", "429", "409"):
                return Answer(int(fault[:3]), {}, b"{}")
            if fault == "hang before":
                raise OSError("hangs")
            answer = cluster.transport(method, path, body, seconds)
            if fault == "kill":
                raise Killed
            if fault == "500 after":
                return Answer(500, {}, b"{}")
            if fault == "hang after":
                raise OSError("hangs")
            return answer
        if fault == "503 of reads" and method == "GET":
            return Answer(503, {}, b"")
        if fault == "kill" and draw.random() < 0.05:
            raise Killed
        return cluster.transport(method, path, body, seconds)

    def start(number):
        one = controller(cluster, folder, make_plan, budgets=budgets, execution=execution, record=f"{number}.jsonl")
        one._api.transport = transport
        return one

    living, number = [start(0), start(1)], 2
    for _ in range(20_000):
        at = draw.randrange(2)
        try:
            living[at].turn()
        except Killed:
            living[at] = start(number if draw.random() < 0.5 else at)  # its disk survives, or not
            number += 1
        cluster.sleep(draw.choice((20.0, 300.0, 900.0)))
        if len(cluster.evicted) >= wanted:
            break
    check(cluster, budgets, targets_in(folder))
    return len(cluster.evicted)


def targets_in(folder):
    """Uid of an evicted pod -> where it should go by its last try, from all records."""
    lines = sorted((line for file in folder.glob("*.jsonl") for line in read_record(file)), key=itemgetter("time"))
    return {line["uid"]: line["target"] for line in lines if line["event"] == "evicting"}


def check(cluster, budgets, targets):
    """Counted from what the API server did, whatever anybody believes."""
    for i, (uid, owner, _, at) in enumerate(cluster.evicted):
        left = {
            node
            for _, other, node, before in cluster.evicted[:i]
            if other == owner and at - before < HOUR * budgets.no_return - 60
        }
        assert targets[uid] not in left
    assert len({uid for uid, *_ in cluster.evicted}) == len(cluster.evicted)
    times = defaultdict(list)
    for _, owner, node, at in cluster.evicted:
        for key, most in (
            ("all", budgets.hourly), (f"node {node}", budgets.hourly_per_node), ("shop", budgets.hourly_per_namespace),
            (owner, budgets.hourly_per_owner),
        ):  # fmt: skip
            times[key, most].append(at)
    for (_, most), ats in times.items():
        for i, begin in enumerate(ats):
            assert sum(begin <= at < begin + HOUR - 2 for at in ats[i:]) <= most
