"""What may go where, against the nodes that the real kube-scheduler found: `python -m e2e.feasible` recorded them."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

from tvwrl.rebalance import PodMove, faults, read_state

RECORDED = Path(__file__).parent / "golden" / "feasible.json.gz"
# What a plan must not do although the scheduler, which looks at one new pod alone, would let it run there.
STRICTER = (
    "is left without a pod that it must run with",  # another pod, which has asked for this one
    "its like grows to",  # the spread of others
    "lacks the label of its rule of anti-affinity",  # where no domain is, none can be crowded
)


def test_every_pod_and_node(tmp_path):
    recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))
    path = tmp_path / "objects.json"
    path.write_text("\n".join(json.dumps(one) for one in recorded["lists"]))
    state = read_state(path)
    count = Counter[str]()
    for name, nodes in recorded["feasible"].items():
        row = state.pod.tolist().index(name)
        source = state.node[state.at[row]]
        assert state.stays[row] == ""
        for target in set(state.node) - {source}:
            found = faults(state, [PodMove(0, name, "", "", source, target, "", 0.0, "")])
            if target in nodes:
                assert all(any(words in one for words in STRICTER) for one in found), (name, target, found)
            else:
                assert found != [], (name, target)
            count["feasible"] += target in nodes
            count["stricter"] += target in nodes and found != []
            count["refused"] += target not in nodes
    assert min(count.values()) >= 5, count
    assert count["feasible"] >= 4 * count["stricter"], count
