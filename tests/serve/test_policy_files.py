"""A server decides by the policy that it began with, whatever becomes of the file; a damaged one does not begin."""

import pytest

from tests.agents.exporting import export_of
from tests.serve.clusters import GIB, observed, pod
from tvwrl.serve.deciding import Decider
from tvwrl.serve.policies import open_policy
from tvwrl.types import InputError

NODES = {"a": (8, 32), "b": (8, 32), "c": (4, 16)}


@pytest.fixture(scope="module")
def content(problem):
    return export_of(problem, "shared that never holds")


def decisions(asked):
    asked.renew(observed(NODES, [("p", "a", "", [2, 2], [4, 4])]))
    found = [asked.decide(pod(f"p{i}", request=(1, GIB)), list(NODES)) for i in range(4)]
    return [(one.node, one.scores.points.tolist()) for one in found]


@pytest.mark.parametrize("swap", ["other policy", "noise", "emptied", "deleted", "folder"])
def test_a_file_that_is_swapped_changes_nothing(content, tmp_path, swap):
    file = tmp_path / "policy.onnx"
    file.write_bytes(content)
    before, after = (Decider(*open_policy(str(file), None), 60.0, 60.0, 900.0) for _ in range(2))
    wanted = decisions(before)
    with file.open("r+b") as stream:  # in place, as a careless copy does
        stream.truncate(0)
        stream.write({"noise": b"\xff" * len(content), "other policy": content[::-1]}.get(swap, b""))
    if swap in ("deleted", "folder"):
        file.unlink()
    if swap == "folder":
        file.mkdir()
    assert decisions(after) == wanted
    with pytest.raises(InputError, match=r"policy\.onnx"):
        open_policy(str(file), None)
