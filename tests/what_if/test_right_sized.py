"""What owners would have to request, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.what_if.conftest import record
from tvwrl.what_if.compared import compare
from tvwrl.what_if.replay import Replay
from tvwrl.what_if.report import page
from tvwrl.what_if.right_sized import right_sized


def test_by_hand():
    """Two pods of one owner: 1 core in nine tenths of the samples and 3 in the others; at most 2 GiB."""
    cpu = np.where(np.arange(300) % 10 == 9, 3.0, 1.0)
    mem = np.where(np.arange(300) == 7, 2.0, 1.0)
    pods = [
        {"name": "x/a-1", "node": "a", "slots": range(300), "cpu": cpu, "mem": mem, "request": (4, 4)}
        | {"owner": "x/deployment/a"},
        {"name": "x/a-2", "node": "b", "slots": range(150, 300), "cpu": cpu[:150], "mem": 1, "request": (3, 4)}
        | {"owner": "x/deployment/a"},
        {"name": "x/tiny", "node": "a", "slots": range(300), "cpu": 0.001, "mem": 0.001, "owner": "x/deployment/t"},
        {"name": "x/job", "node": "a", "slots": range(12), "request": (2, 2), "owner": "x/job/j"},
    ]
    found = {one.owner: one for one in right_sized(record(pods))}
    mine = found["x/deployment/a"]
    assert (mine.pods, mine.running, mine.hours, mine.request, mine.short) == (2, 1.5, 25.0, (3.0, 4.0), False)
    assert mine.used == pytest.approx((np.percentile(np.append(cpu, cpu[:150]), 90), 2.0))
    assert mine.proposed == pytest.approx((mine.used[0] * 1.15, 2.3))
    proposed = mine.proposed[0]
    assert mine.freed == pytest.approx((4 - proposed + (3 - proposed) / 2, 1.5 * (4 - 2.3)))
    tiny = found["x/deployment/t"]
    assert (tiny.request, tiny.proposed) == ((None, None), (0.025, 250 / 1024))
    assert tiny.freed[0] == -0.025  # nothing was reserved
    assert found["x/job/j"].short
    assert next(reversed(found)) == "x/job/j"


def test_pods_without_owner_stand_for_themselves():
    pods = [{"name": "x/a", "node": ["a"] * 12 + ["b"] * 12, "slots": range(24), "owner": ""},
            {"name": "x/b", "node": "a", "slots": range(24), "owner": ""}]  # fmt: skip
    assert {one.owner: one.pods for one in right_sized(record(pods))} == {"x/a": 2, "x/b": 1}


def test_the_page_says_which_owners_are_too_short():
    pods = [{"name": f"x/{i}", "node": "a", "slots": range(300 if i else 12), "request": (1, 1)} for i in range(3)]
    replay = Replay(record(pods), 300)
    text = " ".join(page(compare(replay, []), replay).split())
    assert "1 owner ran for less than 24 h in this record: too short to go by." in text
    assert "0.3 cores (" in text
    assert "more would be requested on average" in text
    alone = Replay(record(pods[:1]), 300)
    assert "Nothing can be proposed." in page(compare(alone, []), alone)
