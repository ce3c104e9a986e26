"""The referee against cases worked out by hand, a brute-force replay and its own files."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tvwrl.experiments.evaluation import EvaluationSetup, evaluate
from tvwrl.metrics import is_measure, penalties, replay_run, score_episode
from tvwrl.penalties import PenaltyWeights
from tvwrl.schedulers import make_scheduler
from tvwrl.types import Episode, InputError, Machines

PAPER = PenaltyWeights()
TWO = Machines.homogeneous(2, 4, ("cpu", "mem"))


def make_episode(rows, **fields):
    """Episode of rows (arrival, start or -1, machine or -1, demand (length, D)); ids are a, b, c, ..."""
    names = np.array([chr(ord("a") + i) for i in range(len(rows))], dtype=object)
    arrival, start, machine = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3).T
    demand = tuple(np.array(row[3], dtype=np.float64) for row in rows)
    length = np.array([len(units) for units in demand], dtype=np.int64)
    finish = np.where(start >= 0, start + length, -1)
    return Episode(names, names, 0 * arrival, arrival, start, finish, machine, demand, **fields)


# Two machines of 4 cpu, 4 mem. Load (cpu, mem) per slot:
#   slot       0       1        2        3
#   a, m0    (2,1)   (3,1)    (1,1)
#   b, m0            (2,3)    (4,2)              arrives in 0
#   c, m1                     (2,2)    (1,2)     arrives in 1
#   m0       (2,1)   (5,4)    (5,3)
#   m1                        (2,2)    (1,2)
ROWS = [(0, 0, 0, [[2, 1], [3, 1], [1, 1]]), (0, 1, 0, [[2, 3], [4, 2]]), (1, 2, 1, [[2, 2], [1, 2]])]


def test_row_by_hand():
    row = score_episode(make_episode(ROWS, scheduler="s", load=0.5, sequence=7, decision_ms=0.25), TWO, PAPER)
    assert row == pytest.approx(
        {
            "scheduler": "s",
            "load": 0.5,
            "sequence": 7,
            # R cpu: m0 2 + 4 + 4, m1 2 + 1 = 13; mem: 1 + 4 + 3 + 2 + 2 = 12. T = 4, at most 2 machines, C = 4.
            "utilisation_cpu": 13 / (4 * 2 * 4),
            "utilisation_mem": 12 / (4 * 2 * 4),
            # U cpu: 2 | 0 | m0 0, m1 2 | 3: always in one place. U mem: 3 | 0 | m0 1, m1 2 | 2: 2/3 in slot 2.
            "fragmentation_cpu": 0.0,
            "fragmentation_mem": 1 - (1 + 1 + 2 / 3 + 1) / 4,
            # S cpu: 1 + 1; mem never. Capacity 2 * 4 over 4 slots.
            "overshoot_pct": 100 * 2 / (4 * 8),
            "machines_used": 2,
            "peak_machines": 2,
            # m0 runs in slots 0, 1 and 2, m1 in 2 and 3.
            "machine_slots": 5,
            # Waits 0, 1, 1.
            "wait_mean": 2 / 3,
            "wait_p95": 1.0,
            "unplaced": 0,
            # cpu: 3*2 + 1*4 = 10; mem: 1*3 + 1*2 = 5.
            "contention": 15.0,
            "reward": -(1.5 + 87 + 60000 + 100),
            "slots": 4,
            # cpu: a 6, b 6, c 3 = 15 (mem 12); last arrival 1, so 2 slots of 8 units.
            "offered_load": 15 / 16,
            "decision_ms": 0.25,
        }
    )


def test_keys_and_order_for_any_resources():
    machines = Machines.homogeneous(1, 4, ("gpu",))
    row = score_episode(make_episode([(0, 0, 0, [[1]])], resources=("gpu",)), machines, PAPER)
    keys = (
        "scheduler load sequence utilisation_gpu fragmentation_gpu overshoot_pct machines_used peak_machines "
        "machine_slots wait_mean wait_p95 unplaced contention reward slots offered_load decision_ms"
    )
    assert " ".join(row) == keys


def test_penalties_by_hand():
    assert penalties(make_episode(ROWS), TWO, PAPER) == pytest.approx(
        {
            "contention": 0.1 * 15,
            # cpu: 2^3 + 0 + (0 + 2^3) + 3^3 = 43; mem: 3^3 + 0 + (1^3 + 2^3) + 2^3 = 44.
            "under_utilisation": 87,
            # cpu of m0 is over in slots 1 and 2, when a and b run there: each once. mem reaches 4, which is not over.
            "overshoot": 2 * 30000,
            # b waits in slot 0, c in slot 1.
            "wait": 2 * 50,
            "moves": 0,
        }
    )
    assert penalties(make_episode(ROWS), TWO, PAPER, overshoot_per="machine")["overshoot"] == 30000


def test_overshoot_counts_only_who_runs_then():
    # m0 cpu: slot 0: 2 + 3 = 5 (a, b); slot 1: 2 (a alone); slot 2: 2 + 3 = 5 (a again: counted already; c: new).
    rows = [(0, 0, 0, [[2, 1]] * 3), (0, 0, 0, [[3, 1]]), (0, 2, 0, [[3, 1]])]
    assert penalties(make_episode(rows), TWO, PAPER)["overshoot"] == 3 * 30000
    assert penalties(make_episode(rows), TWO, PAPER, "machine")["overshoot"] == 30000


def test_rounding_is_no_overshoot():
    rows = [(0, 0, 0, [[0.1, 1]]), (0, 0, 0, [[0.2, 1]])]  # 0.1 + 0.2 > 0.3 in floating point
    machines = Machines.homogeneous(1, (0.3, 4), ("cpu", "mem"))
    assert penalties(make_episode(rows), machines, PAPER)["overshoot"] == 0


def test_unplaced_workloads_wait_until_the_end():
    # d arrives in 2 and waits in slots 2 and 3 (T = 4); e arrives after the last finish and is never in the queue.
    episode = make_episode([*ROWS, (2, -1, -1, [[6, 6]]), (9, -1, -1, [[5, 0]])])
    row = score_episode(episode, TWO, PAPER)
    assert row["unplaced"] == 2
    assert row["slots"] == 4
    assert penalties(episode, TWO, PAPER)["wait"] == 4 * 50
    assert row["offered_load"] == pytest.approx((15 + 6 + 5) / (8 * 10))


def test_an_episode_without_workloads():
    row = score_episode(make_episode([]), TWO, PAPER)
    assert (row["slots"], row["reward"], row["machines_used"], row["peak_machines"]) == (0, 0, 0, 0)
    assert row["utilisation_cpu"] == row["fragmentation_mem"] == row["overshoot_pct"] == 0
    assert math.copysign(1, row["reward"]) == 1
    assert math.isnan(row["wait_mean"])
    assert math.isnan(row["wait_p95"])
    assert row["unplaced"] == 0


# ROWS cost 60,188.5. Without c, m1 is not in use (51 less for unused room) and c waits in slots 1 and 2 instead of 1
# alone (50 more), as T is 3; if nothing runs, nothing costs anything.
@pytest.mark.parametrize(("left_out", "unplaced", "cost"), [((2,), 1, 60187.5), ((0, 1, 2), 3, 0.0)])
def test_an_incomplete_episode_has_no_measures_however_little_it_cost(left_out, unplaced, cost):
    rows = [(r[0], -1, -1, r[3]) if i in left_out else r for i, r in enumerate(ROWS)]
    episode = make_episode(rows, scheduler="s", load=0.5, sequence=7, decision_ms=0.25)
    row = score_episode(episode, TWO, PAPER)
    facts = {"scheduler": "s", "load": 0.5, "sequence": 7, "unplaced": unplaced, "decision_ms": 0.25}
    facts |= {"slots": 3 if unplaced == 1 else 0, "offered_load": 15 / 16}
    assert {name: row[name] for name in facts} == pytest.approx(facts)
    assert all(math.isnan(row[name]) for name in row.keys() - facts.keys())
    assert row.keys() - facts.keys() == {name for name in row if is_measure(name)}
    assert sum(penalties(episode, TWO, PAPER).values()) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("machine", [0, 2, 1], "workload 'b'.*machine is 2: must be 0..1"),
        ("machine", [0, -1, 1], "workload 'b'.*machine is -1"),
        ("arrival", [0, 2, 1], "workload 'b'.*start is 1: must not be before arrival 2"),
        ("arrival", [-1, 0, 1], "workload 'a'.*arrival is -1"),
        ("finish", [3, 3, 5], "workload 'c'.*finish is 5: must be start 2 \\+ length 2"),
        ("start", [0, -1, 2], "workload 'b'.*start is -1"),
        ("workload_id", ["a", "b", "a"], "workload_id 'a' occurs twice"),
        ("start", [0, 1], "start has 2 entries for 3 workloads"),
        ("demand", [np.ones((3, 2)), np.ones((2, 3)), np.ones((2, 2))], "workload 'b'.*demand has shape"),
        ("demand", [np.ones((3, 2)), np.full((2, 2), np.nan), np.ones((2, 2))], "workload 'b'.*finite"),
    ],
)
def test_contradictions_are_refused(field, value, message):
    changed = (
        tuple(value) if field == "demand" else np.array(value, dtype=object if field == "workload_id" else np.int64)
    )
    with pytest.raises(InputError, match=message):
        score_episode(replace(make_episode(ROWS), **{field: changed}), TWO, PAPER)


def test_unknown_options_are_refused():
    with pytest.raises(InputError, match="overshoot_per is 'slot'"):
        penalties(make_episode(ROWS), TWO, PAPER, overshoot_per="slot")
    with pytest.raises(InputError, match="resources of the episode"):
        score_episode(make_episode(ROWS, resources=("mem", "cpu")), TWO, PAPER)


@st.composite
def played(draw):
    """Any episode of up to 6 workloads on up to 3 machines that differ, 1 to 3 resources."""
    kinds, count = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    resources = ("cpu", "mem", "net")[:kinds]

    def table(numbers, least, most):
        return draw(st.lists(st.lists(numbers, min_size=kinds, max_size=kinds), min_size=least, max_size=most))

    rows = []
    for _ in range(draw(st.integers(0, 6))):
        arrival, machine = draw(st.integers(0, 5)), draw(st.integers(-1, count - 1))
        start = arrival + draw(st.integers(0, 4)) if machine >= 0 else -1
        rows.append((arrival, start, machine, table(st.integers(0, 12).map(lambda v: v / 2), 1, 5)))
    machines = Machines(np.array(table(st.integers(1, 9), count, count), dtype=np.float64), resources)
    k_c, k_u, k_o = map(tuple, table(st.sampled_from([0.0, 1.0, 2.5, 3.0]), 3, 3))
    weights = PenaltyWeights(k_c, k_u, k_o, draw(st.sampled_from([0.0, 50.0])))
    background = None
    if draw(st.booleans()):
        period = draw(st.integers(1, 4))
        seed = draw(st.integers(0, 2**32))
        background = np.random.default_rng(seed).integers(0, 4, (period, count, kinds), dtype=np.uint8)
    episode = make_episode(rows, resources=resources, background=background)
    return episode, machines, weights, draw(st.sampled_from(["workload", "machine"]))


def brute_force(episode, machines, weights, overshoot_per):
    """The definitions, slot by slot and machine by machine, without arrays."""
    capacity, jobs = machines.capacity.tolist(), range(len(episode.workload_id))
    slots = max([int(f) for f in episode.finish if f > 0], default=0)
    k_c, k_u, k_o, k_w = weights.per_resource(len(machines.resources)).tolist()
    row = dict.fromkeys(("overshoot_pct", "peak_machines", "machine_slots", "contention", "reward"), 0.0)
    row |= {f"{metric}_{r}": 0.0 for metric in ("utilisation", "fragmentation") for r in machines.resources}
    hosts, firsts, peak = set(), set(), dict.fromkeys(machines.resources, 0.0)
    for t in range(slots):
        runs = [i for i in jobs if 0 <= episode.start[i] <= t < episode.finish[i]]
        active = sorted({int(episode.machine[i]) for i in runs})
        hosts |= set(active)
        row["peak_machines"] = max(row["peak_machines"], len(active))
        row["machine_slots"] += len(active)
        row["reward"] -= k_w[0] * sum(episode.arrival[i] <= t and not 0 <= episode.start[i] <= t for i in jobs)
        for d, r in enumerate(machines.resources):
            unused = []
            for m in active:
                members = [i for i in runs if episode.machine[i] == m]
                demand = [float(episode.demand[i][t - episode.start[i], d]) for i in members]
                if (background := episode.background) is not None:
                    demand.append(float(background[t % len(background), m, d]))
                load, total = sum(demand), sum(c[d] for c in capacity)
                row[f"utilisation_{r}"] += min(load, capacity[m][d]) / slots
                row["overshoot_pct"] += 100 * max(load - capacity[m][d], 0) / (slots * total)
                unused.append(capacity[m][d] - min(load, capacity[m][d]))
                pairs = sum(demand[x] * demand[y] for y in range(len(demand)) for x in range(y))
                row["contention"] += pairs
                row["reward"] -= k_c[d] * pairs + (unused[-1] ** k_u[d] if k_u[d] else 0)
                if load > capacity[m][d] + 1e-9:
                    new = {(i, d) for i in members} if overshoot_per == "workload" else {(m, d)}
                    row["reward"] -= k_o[d] * len(new - firsts)
                    firsts |= new
            peak[r] = max(peak[r], sum(capacity[m][d] for m in active))
            row[f"fragmentation_{r}"] += (1 - max(unused) / sum(unused)) / slots if sum(unused) > 1e-9 else 0
    for r in machines.resources:
        row[f"utilisation_{r}"] /= peak[r] or 1
    return row | {"machines_used": len(hosts), "slots": slots}


@settings(max_examples=80, deadline=None)
@given(played())
def test_equals_brute_force(case):
    row = score_episode(*case)
    expected = brute_force(*case)
    assert -sum(penalties(*case).values()) == pytest.approx(expected["reward"], rel=1e-9, abs=1e-9)
    if row["unplaced"]:
        expected |= {name: math.nan for name in expected if is_measure(name)}
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


def test_files_alone_give_the_same_rows_or_are_refused(problem, tmp_path):
    problem = replace(problem, scenario=replace(problem.scenario, K_c=(0.1, 0.2), overshoot_per="machine"))
    schedulers = [make_scheduler(name) for name in ("stack", "best-fit-peak")]
    rows, path = (
        evaluate(EvaluationSetup(problem, [0.3, 0.5], 2), schedulers, tmp_path / "out"),
        tmp_path / "out" / "demand.parquet",
    )
    demand = pl.read_parquet(path)
    demand.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(path)  # the order does not matter
    again = replay_run(path.parent)
    assert again["decision_ms"].is_nan().all()
    timeless = again.columns[:-1]
    assert_frame_equal(again[timeless], rows[timeless], rel_tol=1e-9)

    name = demand["workload_id"][0]
    for part, message in (
        (demand.filter(pl.col("slot") != 0), "slots of .* must be 0, 1, 2"),
        (demand.filter(pl.col("workload_id") != name), f"no demand for .*'{name}'"),
        (demand.drop("mem"), "columns \\['mem'\\] are missing"),
    ):
        part.write_parquet(path)
        with pytest.raises(InputError, match=message):
            replay_run(path.parent)
    run = path.with_name("run.json")
    run.write_text(json.dumps({"capacities": [{"cpu": 4, "mem": 4}]}))
    with pytest.raises(InputError, match=r"run\.json: field 'penalty_weights' is missing"):
        replay_run(path.parent)
    run.unlink()
    with pytest.raises(InputError, match=r"run\.json"):
        replay_run(path.parent)
