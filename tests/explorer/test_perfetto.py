"""The trace for Perfetto's viewer, read back: valid by the format's rules, and true to the episode."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explorer.hand_made import LOADS, MACHINES, WAITING, empty, later, on_many, on_one_resource, recording
from tvwrl.explorer.perfetto import lanes, perfetto_trace, write_perfetto
from tvwrl.types import InputError

SLOT = 60_000_000  # microseconds of 60 s


def read(*recordings, machines=MACHINES) -> list[dict[str, Any]]:
    """The events of a trace with slots of 60 s, once they are known to be valid."""
    text = perfetto_trace(recordings, machines, 60)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    events = json.loads(text, parse_constant=refuse)["traceEvents"]
    check(events)
    return events


def check(events: list[dict[str, Any]]) -> None:
    """Required fields and their types, threads with one name and one process, no overlap within a thread."""
    owner: dict[int, int] = {}
    slices = defaultdict(list)
    for event in events:
        assert event["ph"] in "MXiC"
        assert isinstance(event["name"], str)
        assert 0 < len(event["name"]) <= 100
        assert type(event["pid"]) is int
        if event["ph"] != "C":
            assert type(event["tid"]) is int
            assert owner.setdefault(event["tid"], event["pid"]) == event["pid"]
        if event["ph"] != "M":
            assert type(event["ts"]) is int
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] > 0
            slices[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "C":
            assert all(isinstance(value, float) for value in event["args"].values())
    named = [event["tid"] for event in events if event["name"] == "thread_name"]
    assert len(named) == len(set(named))
    assert {event["tid"] for event in events if event["ph"] in "Xi"} <= set(named)
    for spans in slices.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def threads(events) -> dict[int, str]:
    return {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}


def slices(events) -> set[tuple[str, str, int, int]]:
    """Thread, name, first slot and slots of every slice."""
    names = threads(events)
    return {
        (names[event["tid"]], event["name"], event["ts"] // SLOT, event["dur"] // SLOT)
        for event in events
        if event["ph"] == "X"
    }


def counter(events, name: str, what: str, slots: int) -> list[float]:
    """Its value in each slot: a sample holds until the next."""
    samples = [e for e in events if e["ph"] == "C" and e["name"] == name and what in e["args"]]
    return [[e["args"][what] for e in samples if e["ts"] <= t * SLOT][-1] for t in range(slots)]


def test_workloads_lie_in_lanes_of_their_machine_and_waits_in_the_queue():
    assert slices(read(recording())) == {
        ("machine 0", "a", 0, 3),
        ("machine 0 / 2", "b", 1, 2),
        ("machine 1", "c", 2, 2),
        ("queue", "b", 0, 1),
        ("queue", "c", 1, 1),
    }


def test_a_workload_says_what_it_is():
    (b,) = [e for e in read(recording()) if e["name"] == "b" and e["ts"] == SLOT]
    assert b["args"] == {
        "source series": "batch",
        "arrival, slot": 0,
        "waited, slots": 1,
        "length, slots": 2,
        "peak cpu, units": 3.0,
        "peak mem, units": 1.0,
    }


def test_counters_are_loads_capacities_queue_and_penalties():
    events = read(recording())
    for (machine, d), capacity in np.ndenumerate(MACHINES.capacity):
        name = f"machine {machine} {MACHINES.resources[d]}"
        assert counter(events, name, "load", 5) == [*LOADS[:, machine, d], 0]
        assert counter(events, name, "capacity", 5) == [capacity] * 5
    assert counter(events, "waiting", "workloads", 5) == [*WAITING, 0]
    assert counter(events, "penalty", "overshoot", 5) == [0, 60000, 0, 0, 0]


def test_decisions_carry_their_reasons():
    first, second, third = (event for event in read(recording()) if event["ph"] == "i")
    assert (first["name"], first["ts"]) == ("a to machine 0", 0)
    assert "regret" not in first["args"]
    assert second["args"] == {
        "in words": "Slot 1: b went to machine 0; machine 1 would have cost 59,925 less "
        "(60,000 less for overshoot, 76 more for under-utilisation)",
        "workload": "b",
        "chosen": "machine 0",
        "waiting workloads": 2,
        "cheapest": "machine 1",
        "regret": pytest.approx(59925.4),
        "cost of the choice": {"contention": 1.4, "under-utilisation": 124, "overshoot": 60000, "waiting": 50},
        "cost of the cheapest": {"contention": 0, "under-utilisation": 200, "overshoot": 0, "waiting": 50},
    }
    assert third["args"]["regret"] == 0


def test_decisions_of_one_slot_stand_apart_within_it():
    crowded = replace(recording(), slot=np.array([1, 1, 2]))
    assert [e["ts"] for e in read(crowded) if e["ph"] == "i"] == [SLOT, SLOT * 3 // 2, 2 * SLOT]


def test_two_schedulers_are_two_processes_and_who_is_never_placed_waits_to_the_end():
    events = read(recording(), later())
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {1: "by-hand, load 0.5, sequence 0", 2: "later, load 0.5, sequence 0"}
    second = [event for event in events if event["pid"] == 2]
    assert ("queue / 2", "c", 1, 4) in slices(second)
    assert [e["name"] for e in second if e["ph"] == "i"] == ["a to machine 0", "b waits", "c waits"]


def test_an_empty_episode_has_names_only():
    assert set(threads(read(empty())).values()) == {"decisions", "queue", "machine 0", "machine 1"}


def test_names_of_any_kind_are_escaped_and_shortened():
    events = read(recording(('"</script>\n\ud800', "x" * 1_000_000, "")))
    assert {e["name"] for e in events if e["ph"] == "X"} == {'"</script>  ', "x" * 99 + "…", "(no name)"}


@pytest.mark.parametrize("made", [on_one_resource(), on_many(200)], ids=["one resource", "200 machines"])
def test_other_clusters(made):
    one, machines = made
    events = read(one, machines=machines)
    assert len([e for e in events if e["ph"] == "C" and "capacity" in e["args"]]) == machines.capacity.size


def test_files_are_whole_compressed_by_name_and_the_same_again(tmp_path: Path):
    for name in ("a.json", "a.json.gz", "b.json.gz"):
        write_perfetto(tmp_path / name, [recording()], MACHINES, 60)
    assert (tmp_path / "a.json").read_bytes() == perfetto_trace([recording()], MACHINES, 60)
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert len(list(tmp_path.iterdir())) == 3


def test_slots_have_a_length():
    with pytest.raises(InputError, match="slot_seconds"):
        perfetto_trace([recording()], MACHINES, 0)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), max_size=30))
def test_as_many_lanes_as_run_at_a_time_and_none_overlaps(intervals):
    begin, end = [a for a, _ in intervals], [a + length for a, length in intervals]
    found = lanes(begin, end)
    most = max((sum(a <= t < b for a, b in zip(begin, end, strict=True)) for t in range(30)), default=0)
    assert max(found, default=-1) + 1 == most
    taken = [(lane, t) for lane, a, b in zip(found, begin, end, strict=True) for t in range(a, b)]
    assert len(taken) == len(set(taken))
