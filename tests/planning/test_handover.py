"""A plan played in the simulator: everything is where it was planned, and nothing overshoots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tvwrl.experiments.provision_command import write_hand_over
from tvwrl.metrics import replay_run, score_episode
from tvwrl.penalties import PenaltyWeights
from tvwrl.planning.handover import Planned, hand_over, play
from tvwrl.planning.instance import Fleet
from tvwrl.planning.plan import Plan
from tvwrl.planning.sources.traces import instance_of
from tvwrl.schedulers.rules import RoundRobin
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Trace


@pytest.fixture
def trace() -> Trace:
    """w0, w1 of application a, w2 of b; slots 3, 4 and 5, w1 from slot 4 on, w2 with a gap in slot 4."""
    usage = np.array([[0.5, 0.1], [0.1, 0.1], [0.1, 0.1], [0.4, 0.1], [0.4, 0.1], [0.5, 0.2], [0.5, 0.2]])
    return Trace(
        name="hand",
        resources=("cpu", "mem"),
        slot_seconds=300,
        workload_id=np.array(["w0", "w1", "w2"], dtype=object),
        offsets=np.array([0, 3, 5, 7]),
        slot=np.array([3, 4, 5, 4, 5, 3, 5]),
        usage=usage,
        application=np.array(["a", "a", "b"], dtype=object),
        arrival=np.array([3, 4, 3]),
        priority=np.full(3, np.nan),
        scheduling_class=np.full(3, np.nan),
        request=np.full((3, 2), np.nan),
    )


PLAN = Plan("X", np.array([0, 0, 1]), np.array([0, 1, 1]), np.ones(3, np.int64), 2)
FLEET = Fleet.of([1.0, 0.5])


def test_sequence_by_hand(trace: Trace) -> None:
    drawn, machines, machine_of = hand_over(trace, instance_of(trace), FLEET, PLAN)
    assert machine_of == {"a#0": 0, "b#0": 1, "a#1": 1}
    assert drawn.workload_id[0].tolist() == ["a#0", "b#0", "a#1"]
    assert drawn.source_workload[0].tolist() == ["w0", "w2", "w1"]
    assert drawn.arrival[0].tolist() == [0, 0, 1]
    assert drawn.length[0].tolist() == [3, 3, 2]
    assert machines.capacity.tolist() == [[8.0, 8.0], [8.0, 8.0]]
    np.testing.assert_allclose(drawn.demand[0, 1], [[4.0, 3.2], [0.0, 0.0], [4.0, 3.2]])


def test_all_are_where_they_were_planned_without_overshoot(trace: Trace) -> None:
    episode, _, machines = play(trace, instance_of(trace), FLEET, PLAN)
    assert dict(zip(episode.workload_id, episode.machine, strict=True)) == {"a#0": 0, "b#0": 1, "a#1": 1}
    assert (episode.start == episode.arrival).all()
    row = score_episode(episode, machines, PenaltyWeights())
    assert (row["scheduler"], row["machines_used"], row["overshoot_pct"], row["unplaced"]) == ("plan-X", 2, 0.0, 0)


def test_another_scheduler_takes_what_the_plan_does_not_know(trace: Trace) -> None:
    drawn, machines, machine_of = hand_over(trace, instance_of(trace), FLEET, PLAN)
    del machine_of["b#0"]
    scenario = Scenario(placements_per_slot=None, quantise=False, max_slots=0)
    episode = Runner(drawn, machines, scenario).play(Planned("X", machine_of, RoundRobin()), 0)
    assert dict(zip(episode.workload_id, episode.machine, strict=True)) == {"a#0": 0, "b#0": 0, "a#1": 1}


def test_the_record_can_be_replayed(trace: Trace, tmp_path: Path) -> None:
    row = write_hand_over(trace, instance_of(trace), FLEET, PLAN, tmp_path / "out")
    again = replay_run(tmp_path / "out").row(0, named=True)
    assert {name: again[name] for name in ("machine_slots", "overshoot_pct")} == {
        name: row[name] for name in ("machine_slots", "overshoot_pct")
    }


def test_another_trace_is_refused(trace: Trace) -> None:
    with pytest.raises(InputError, match="is not of trace"):
        hand_over(trace.select([0, 1]), instance_of(trace), FLEET, PLAN)
