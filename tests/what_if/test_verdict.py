"""What may be recommended, by hand; and that neither names nor sources change what is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.conftest import serve  # noqa: F401  # a fixture
from tests.traces.loaders.prometheus.conftest import GIB, T0, site, surroundings  # noqa: F401  # fixtures
from tests.what_if.conftest import generated, record
from tvwrl.schedulers import make_scheduler
from tvwrl.traces.loaders.prometheus_server import CPU, MEMORY, OWNER, POD_INFO, REQUESTS
from tvwrl.what_if.compared import compare, with_kept
from tvwrl.what_if.from_csv import read_csv_record
from tvwrl.what_if.from_prometheus import Asked, read_prometheus_record
from tvwrl.what_if.replay import FEWEST_ORDERS, MOST_ORDERS, Placed, Replay
from tvwrl.what_if.report import page
from tvwrl.what_if.verdict import Answer, overshoots_more, saves, tied, verdict_of
from tvwrl.what_if.words import sentence, verdict

KNOWN = make_scheduler("best-fit").knowledge


def four(days=3, cpu=1.0):
    """Four pods of a record, a node of 4 cores each."""
    pods = [{"name": f"x/{i}", "node": f"n{i}", "slots": range(288 * days), "cpu": cpu} for i in range(4)]
    return Replay(record(pods, [(f"n{m}", 4, 16) for m in range(4)]))


def on(name, *machines, start=0):
    return Placed(name, np.array(machines), np.full(len(machines), start), KNOWN)


def said(compared):
    return " ".join(verdict(compared))


def test_a_rule_is_recommended_that_needs_fewer_and_overshoots_no_more():
    compared = compare(four(), [on("half", 0, 0, 1, 1), on("same", 0, 1, 2, 3)])
    found = verdict_of(compared)
    assert found.as_dict() == {"recommended": ["half"], "open": [], "risky": [], "dearer": [], "fewest": ["half"]}
    assert "**Recommended: `half`.** `half` would have needed 2.0 [2.0, 2.0] fewer machines" in said(compared)


def test_ties_are_said_as_ties_and_do_not_hang_on_the_order_of_the_rules():
    one, other, fewer = on("one", 0, 0, 1, 1), on("other", 2, 2, 3, 3), on("worse", 0, 0, 1, 2)
    for rules in ((one, other, fewer), (fewer, other, one)):
        compared = compare(four(), rules)
        assert set(verdict_of(compared).as_dict()["recommended"]) == {"one", "other"}
        assert "in machines: intervals do not separate them" in said(compared)


def test_what_overshoots_in_some_orders_only_is_open():
    """In one order of two, four pods of 1.5 cores share a node of 4."""
    replay = four(cpu=1.5)
    orders = [on("bold", 0, 0, 1, 1), on("bold", 0, 0, 0, 0)]
    compared = compare(replay, [*orders, on("careful", 0, 0, 1, 2)])
    bold = compared.others[0]
    assert (len(bold.orders), bold.mean("cpu_over").value) == (2, 12.0)
    assert overshoots_more(compared, bold) is Answer.OPEN
    assert compared.change(bold, "cpu_over")[1:] == (0.0, 24.0)  # what one order may give
    assert verdict_of(compared).as_dict()["recommended"] == ["careful"]
    alone = compare(replay, orders)
    assert verdict_of(alone).as_dict() == {
        "recommended": [],
        "open": ["bold"],
        "risky": [],
        "dearer": [],
        "fewest": ["bold"],
    }
    assert "`bold` may overshoot more than as-placed" in said(alone)


def test_what_overshoots_if_running_pods_stay_is_not_recommended():
    replay = four(cpu=1.5)
    compared = compare(replay, [on("half", 0, 0, 1, 1)])
    assert verdict_of(compared).recommended
    kept = with_kept(compared, replay, [on("half", 0, 0, 0, 1)])
    assert [one.name for one in verdict_of(kept).risky] == ["half"]


def priced(replay, *prices):
    """The same record with a price of an hour of each node."""
    return replace(replay, recorded=replace(replay.recorded, price=np.array(prices, np.float64)))


def test_fewer_machines_that_are_dearer_are_not_recommended():
    """Four cheap nodes as placed; two dear ones stay empty until a rule fills them."""
    pods = [{"name": f"x/{i}", "node": f"n{i}", "slots": range(864)} for i in range(4)]
    replay = priced(Replay(record(pods, [(f"n{m}", 4, 16) for m in range(6)])), 0.1, 0.1, 0.1, 0.1, 2, 2)
    compared = compare(replay, [on("dear", 4, 4, 5, 5), on("cheap", 0, 0, 1, 1)])
    expected = {"recommended": ["cheap"], "open": [], "risky": [], "dearer": ["dear"], "fewest": ["cheap"]}
    assert verdict_of(compared).as_dict() == expected
    text = said(compare(replay, [on("dear", 4, 4, 5, 5)]))
    assert "**No rule saves money.** `dear` is dearer than as-placed. Fewer machines cost more here" in text
    assert sentence(compared, compared.others[0]).endswith(
        "its 2.0 [2.0, 2.0] fewer machines in use on average cost 2,592 [2,592, 2,592] more per 30 days."
    )
    half_free = compare(priced(replay, 0, 0, 0, 0, 2, 2), [on("cheap", 0, 0, 1, 1)])
    assert sentence(half_free, half_free.others[0]).endswith(
        "fewer machines in use on average save nothing per 30 days."
    )
    free = priced(replay, 0, 0, 0, 0, 0, 0)  # no price tells anything, so machines decide
    assert set(verdict_of(compare(free, [on("dear", 4, 4, 5, 5)])).as_dict()["recommended"]) == {"dear"}


def test_what_is_dearer_if_running_pods_stay_is_not_recommended():
    replay = priced(four(), 1, 1, 1, 1)
    compared = compare(replay, [on("half", 0, 0, 1, 1)])
    assert verdict_of(compared).recommended
    replay = priced(replay, 1, 1, 1, 9)
    low = compare(replay, [on("half", 0, 0, 1, 1)])
    kept = replace(low, kept={"half": compare(replay, [on("half", 3, 3, 3, 3)]).others[0]})
    assert verdict_of(kept).recommended  # 9 instead of 12 an hour
    dear = replace(low, kept={"half": replace(kept.kept["half"], days=[[replace(day, hours=2 * day.hours)
                   for day in days] for days in kept.kept["half"].days])})  # fmt: skip
    found = verdict_of(dear).as_dict()
    assert (found["recommended"], found["open"], found["dearer"]) == ([], [], ["half"])
    assert "`half` is dearer than as-placed if the pods that ran at first had stayed" in said(dear)


def test_with_prices_the_cheapest_comes_first_and_of_ties_the_one_without_new_software():
    """Both need two machines, but the small ones are cheaper."""
    replay = priced(four(), 1, 1, 2, 2)
    small, large = on("small", 0, 0, 1, 1), on("large", 2, 2, 3, 3)
    assert verdict_of(compare(replay, [large, small])).as_dict()["recommended"] == ["small"]
    alone = on("most-allocated", 1, 1, 0, 0)
    for rules in ((small, alone), (alone, small)):
        compared = compare(replay, [large, *rules])
        assert verdict_of(compared).as_dict()["recommended"] == ["most-allocated", "small"]
        assert "`small` ties with it in money" in said(compared)


def test_the_rules_that_tie_are_the_same_on_the_page_and_in_the_figures():
    """Of three that need as many machines, one overshoots less, though no more than as placed is noticed of any."""
    rules = [on("one", 0, 0, 1, 1), on("other", 2, 2, 3, 3), on("third", 1, 1, 2, 2)]
    found = verdict_of(compare(four(), rules)).as_dict()
    assert found["fewest"] == found["recommended"]
    assert len(found["fewest"]) == 3


def test_one_day_recommends_nothing_and_unplaced_pods_are_no_saving():
    compared = compare(four(days=1), [on("half", 0, 0, 1, 1)])
    assert not verdict_of(compared).recommended
    assert "**No rule is recommended.** One day does not show how other days would have been." in said(compared)
    lost = replace(on("lost", 0, 0, 1, -1), start=np.array([0, 0, 0, -1]))
    found = verdict_of(compare(four(), [lost]))
    assert (found.recommended, [one.name for one in found.risky]) == ([], ["lost"])


def test_a_saving_that_some_orders_lack_is_open():
    compared = compare(four(), [on("perhaps", 0, 1, 2, 3), on("perhaps", 0, 0, 1, 2)])
    perhaps = compared.others[0]
    assert saves(compared, perhaps) is Answer.OPEN
    assert "`perhaps` may need no fewer machines" in said(compared)
    assert tied(compared, perhaps, compared.actual)


def test_the_share_of_orders_in_the_variance():
    compared = compare(four(), [on("perhaps", 0, 1, 2, 3), on("perhaps", 0, 0, 1, 2), on("sure", 0, 0, 1, 1)])
    perhaps, sure = compared.others
    assert perhaps.due_to_order("needed") == pytest.approx(1.0)  # all days are alike
    assert np.isnan(sure.due_to_order("needed"))
    assert perhaps.moved == 1.5
    text = " ".join(page(compared, four()).split())
    assert "machines needed, from 3.0 to 4.0 of `perhaps`" in text


def test_how_many_orders_depends_on_the_size_of_the_record_alone():
    assert four().orders() == MOST_ORDERS
    pods = [{"name": f"x/{i}", "node": f"n{i % 900}", "slots": [0]} for i in range(3000)]
    assert Replay(record(pods, [(f"n{m}", 4, 16) for m in range(900)])).orders() == FEWEST_ORDERS


def renamed(recorded, seed):
    """The same record with other names, in another order of pods and nodes."""
    rng = np.random.default_rng(seed)
    pods, nodes = rng.permutation(len(recorded)), rng.permutation(len(recorded.size))
    return replace(
        recorded,
        pod=np.array([f"y/{i:05d}" for i in range(len(pods))], object),
        owner=recorded.owner[pods],
        node=np.argsort(nodes)[recorded.node[pods]],
        start=recorded.start[pods],
        usage=tuple(recorded.usage[i] for i in pods),
        request=recorded.request[pods],
        bound=recorded.bound[pods],
        node_name=np.array([f"m{m:04d}" for m in range(len(nodes))], object),
        size=recorded.size[nodes],
    ), nodes


@pytest.mark.parametrize("rule", ["kube-default", "most-allocated", "best-fit", "random"])
def test_names_change_nothing(rule):
    recorded = generated()
    other, nodes = renamed(recorded, 1)
    for order in (None, 0, 1):
        first, second = (
            Replay(one, 300).play(
                make_scheduler(rule), rng=None if order is None else np.random.default_rng([0, order])
            )
            for one in (recorded, other)
        )
        np.testing.assert_array_equal(first.start, second.start)
        np.testing.assert_array_equal(first.machine, nodes[second.machine])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), equal=st.booleans())
def test_of_any_record_names_change_no_figure(seed, equal):
    """Also where pods are equal, so that it cannot be told which of them went where."""
    rng, pods = np.random.default_rng(seed), []
    for i in range(10):
        slots = range(int(rng.integers(0, 3)) * 4, int(rng.integers(13, 40)))
        cpu = 1.0 if equal else float(rng.choice([0.5, 1.0, 2.0]))
        pods.append({"name": f"x/{i}", "node": f"n{i % 4}", "slots": slots, "cpu": cpu, "request": (cpu, 1.0)})
    recorded = record(pods, [(f"n{m}", 4, 16) for m in range(4)])
    other, _ = renamed(recorded, seed)
    first, second = (found_in(one) for one in (recorded, other))
    assert verdict_of(first).as_dict() == verdict_of(second).as_dict()
    for one, same in zip(first.outcomes, second.outcomes, strict=True):
        for quantity in ("needed", "machine_hours", "cpu_over", "wait_mean"):
            np.testing.assert_allclose(one.of(quantity), same.of(quantity))


def test_orders_differ():
    replay = Replay(generated(), 300)
    first, second = (replay.play(make_scheduler("best-fit"), rng=np.random.default_rng(order)) for order in range(2))
    assert (first.machine != second.machine).any()
    assert (first.start == second.start).all()


def found_in(recorded):
    replay = Replay(recorded, 300)
    rules = ("kube-default", "most-allocated", "best-fit")
    played = [replay.play(make_scheduler(name), rng=np.random.default_rng(k)) for name in rules for k in range(5)]
    return compare(replay, played)


def test_the_same_cluster_by_table_and_by_server_and_renamed_gets_the_same_verdict(site, tmp_path):  # noqa: F811
    rng, rows = np.random.default_rng(0), []
    moments = T0 + 300 * np.arange(576)
    usage = np.round(rng.uniform(0.2, 1.2, (12, 1)) * rng.uniform(0.7, 1.3, (12, 576)), 3)
    memory = rng.integers(1, 4, 12)
    for i in range(12):
        facts = {"node": f"n{i % 6}", "request_cpu": 1.25, "request_memory": 3.5}
        samples = {"pod": f"prod/web-{i}", "time": moments, "cpu": usage[i], "memory": float(memory[i]), **facts}
        rows.append(pl.DataFrame(samples))
    table = pl.concat(rows)
    nodes = pl.DataFrame({"node": [f"n{m}" for m in range(6)], "cpu": [4] * 6, "memory": [16] * 6})
    table.write_csv(tmp_path / "usage.csv")
    nodes.write_csv(tmp_path / "nodes.csv")
    names = {f"prod/web-{i}": f"shop/{11 - i:02d}" for i in range(12)}
    table.with_columns(pl.col("pod").replace_strict(names)).sample(fraction=1, shuffle=True, seed=1).write_csv(
        tmp_path / "other.csv"
    )

    def of_pod(values):
        return [({"namespace": "prod", "pod": f"web-{i}"}, values(i)) for i in range(12)]

    site.metrics = {
        CPU: of_pod(lambda i: lambda t: usage[i, (t - T0) // 300 - 1] if T0 < t <= T0 + 576 * 300 else None),
        MEMORY: of_pod(lambda i: lambda t: memory[i] * GIB if T0 < t <= T0 + 576 * 300 else None),
        REQUESTS: [
            (labels | {"resource": kind}, lambda t, size=size: size)
            for labels, _ in of_pod(lambda i: None)
            for kind, size in (("cpu", 1.25), ("memory", 3.5 * GIB))
        ],
        OWNER: [],
        POD_INFO: [({"namespace": "prod", "pod": f"web-{i}", "node": f"n{i % 6}"}, lambda t: t) for i in range(12)],
        'kube_node_status_allocatable{resource="cpu"': [({"node": f"n{m}"}, lambda t: 4) for m in range(6)],
        'kube_node_status_allocatable{resource="memory"': [({"node": f"n{m}"}, lambda t: 16 * GIB) for m in range(6)],
    }
    asked = Asked(site.url, 2, str(T0 + 576 * 300), folder=tmp_path / "kept", retries=1)
    by_table, by_names = (
        found_in(read_csv_record(tmp_path / name, tmp_path / "nodes.csv", 300)) for name in ("usage.csv", "other.csv")
    )
    by_server = found_in(read_prometheus_record(asked))
    for other in (by_server, by_names):
        assert verdict_of(other).as_dict() == verdict_of(by_table).as_dict()
        for one, same in zip(by_table.outcomes, other.outcomes, strict=True):
            np.testing.assert_allclose(one.of("machine_hours"), same.of("machine_hours"))
            np.testing.assert_allclose(one.of("cpu_over"), same.of("cpu_over"))
