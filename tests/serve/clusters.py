"""Small clusters to decide about."""

import numpy as np

from tvwrl.serve.deciding import Decider
from tvwrl.serve.extender_messages import Pod
from tvwrl.serve.policies import open_policy
from tvwrl.serve.watching import Observed

GIB = 2.0**30


def pod(name="new", owner="", request=(np.nan, np.nan), namespace="default"):
    return Pod(namespace, name, f"uid-{name}", owner, np.array(request, float))


def observed(nodes, pods, slots=4, slot=1000):
    """`nodes`: name -> cores, GiB; `pods`: name, node, owner, [cores by slot], [GiB by slot], the last slot is now."""
    usage = np.full((len(pods), slots, 2), np.nan)
    for i, (*_, cpu, mem) in enumerate(pods):
        usage[i, slots - len(cpu) :, 0], usage[i, slots - len(mem) :, 1] = cpu, np.array(mem) * GIB
    names = list(nodes)
    return Observed(
        time=0.0,
        sample_age=0.0,
        slot=slot,
        nodes=tuple(names),
        capacity=np.array([[cores, gib * GIB] for cores, gib in nodes.values()]),
        pods=tuple(f"default/{one[0]}" for one in pods),
        uid=("",) * len(pods),
        running=len(pods),
        node=np.array([names.index(one[1]) if one[1] else -1 for one in pods], np.int64),
        owner=tuple(one[2] for one in pods),
        request=np.full((len(pods), 2), np.nan),
        usage=usage,
    )


def decider(name="best-fit", **changes):
    scheduler, sight = open_policy(name, None)
    return Decider(scheduler, sight, **{"stale": 60.0, "assume": 60.0, "longest_hold": 900.0, **changes})
