"""When machines could have been off, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.what_if.conftest import record
from tvwrl.schedulers import make_scheduler
from tvwrl.what_if.compared import compare
from tvwrl.what_if.off import Off
from tvwrl.what_if.replay import Placed, Replay


@pytest.fixture
def off():
    """As placed, b is empty from 12:00 on and c always has pods; moved, c is always empty and b from 12:00 to 23:30."""
    pods = [
        {"name": "x/all", "node": "a", "slots": range(288)},
        {"name": "x/half", "node": "b", "slots": range(144)},
        {"name": "x/late", "node": "c", "slots": range(282, 288)},
        {"name": "x/long", "node": "c", "slots": range(288)},
        {"name": "x/daemon", "node": "b", "slots": range(288), "owner": "x/daemonset/d"},
    ]
    replay = Replay(record(pods, [(node, 4, 16) for node in "abc"]), 300)
    machine = {"x/all": 0, "x/half": 1, "x/late": 1, "x/long": 0}
    names = replay.recorded.pod[replay.pods]
    placed = Placed(
        "moved", np.array([machine[name] for name in names]), replay.recorded.start[replay.pods],
        make_scheduler("best-fit").knowledge,
    )  # fmt: skip
    compared = compare(replay, [placed])
    return Off(compared, compared.others[0])


def test_stretches_without_pods(off):
    assert off.always == ["c"]
    rows = [(row["node"], row["begins"][11:], row["ends"][11:], row["hours"], row["hours_as_placed"])
            for row in off.stretches()]  # fmt: skip
    assert rows == [("c", "00:00", "00:00", 24.0, 0.0), ("b", "12:00", "23:30", 11.5, 11.5)]


def test_by_hour(off):
    before, after = off.by_hour()
    assert before.tolist() == [0.0] * 12 + [1.0] * 12
    assert after.tolist() == [1.0] * 12 + [2.0] * 11 + [1.5]


def test_picture(off, tmp_path):
    off.draw(tmp_path / "off.png")
    assert (tmp_path / "off.png").stat().st_size > 5000
