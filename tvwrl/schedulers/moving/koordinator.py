"""Koordinator's LowNodeLoad.

Source: koordinator-sh/koordinator at a7a1b76, `pkg/descheduler/framework/plugins/loadaware` and
`pkg/descheduler/utils` (Apache-2.0); thresholds and the interval of rounds from `config/manager`.

What differs:

- A round every ten seconds sees the usage of a minute; here every slot is a round. A condition that is in minutes there
  (an anomaly lasts one, a detector is forgotten after five) has as many rounds here.
- Priority classes, classes of service, costs of deletion, and what production pods use: no trace has them, so all
  workloads are alike.
- Migration jobs have limits per node, namespace and workload; here there are the moves of a slot.
- The scheduler places a pod anew, after a check that a little-used node would have room for it; here the same check,
  and the placing rule says where the workload goes, if it finds room.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, one_of, whole, within
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.moving.base import MoveRule, move_rule
from tvwrl.schedulers.production.facts import by_kind
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, InputError, Int, Move

LOW, HIGH = (0.45, 0.55), (0.75, 0.80)  # of CPU, and of all other resources
LASTS, REMEMBERED = 6, 30  # rounds: a minute and five minutes


def node_score(load: Float, size: Float) -> Int:
    """(M,) mean of the used shares of the resources, in whole thousandths."""
    share = np.floor(1000.0 * np.minimum(load, size) / np.where(size > 0, size, 1.0))
    score: Int = np.floor(share.mean(axis=1)).astype(np.int64)
    return score


def pod_score(usage: Float, excess: Float) -> Float:
    """(n,) how close the usage (n, D) of each workload is to what a machine has too much (D,) of a resource.

    Below 1: it is that share of the excess; above, the better the less it exceeds it. The mean of resources in excess.
    """
    ratio = usage[:, excess > 0] / excess[excess > 0]
    score: Float = np.where(ratio >= 1.0, 1.0 + 1.0 / np.maximum(ratio, 1.0), ratio).mean(axis=1)
    return score


class Anomalies:
    """Which machines have been used too much for long enough.

    Parameters
    ----------
    machines : int
        M.
    most : int
        Rounds that a machine may be used too much without being abnormal; 1: none.
    """

    def __init__(self, machines: int, most: int) -> None:
        self.most = most
        self._rounds = np.zeros(machines, np.int64)  # in which it was used too much since it was normal
        self._since = np.full(machines, -LASTS - 1)  # round in which it became abnormal
        self._seen = np.full(machines, -REMEMBERED - 1)  # last round in which it was used too much

    def among(self, much: Mask, now: int) -> Mask:
        """Those of the machines that are used too much (M,) in round `now` that are abnormal; counts the round."""
        if self.most == 1:
            return much
        self._rounds[much & (now - self._seen > REMEMBERED)] = 0
        self._seen[much] = now
        counts = much & (now - self._since > LASTS)
        self._rounds[counts] += 1
        begins = counts & (self._rounds > self.most)
        self._since[begins] = now
        self._rounds[begins] = 0
        return much & (now - self._since <= LASTS)

    def end(self, normal: Mask | int) -> None:
        """These machines are not abnormal any more, if they were."""
        self._since[normal] = -LASTS - 1


@move_rule("LowNodeLoad (Koordinator)")
class LowNodeLoad(MoveRule):
    """Moves workloads from machines that have been used too much for several rounds, if others are used little.

    A machine is used little if no resource exceeds the low threshold, too much if one exceeds the high one. The machine
    with the highest mean share comes first; of its workloads, those whose usage is closest to what it has too much. A
    workload may leave if a little-used machine has room for its request and would not exceed the high threshold with
    it. What may be moved in total is what the little-used machines lack of that threshold.

    Parameters
    ----------
    low : float, default 0.45
        Share of the CPU (`lowThresholds`), 0 to 1.
    high : float, default 0.75
        Share of the CPU (`highThresholds`), 0 to 1.
    low_memory : float, default 0.55
        The same for all other resources.
    high_memory : float, default 0.8
        The same for all other resources.
    deviation : float, default 0
        1: all are deviations from the mean share of all machines (`useDeviationThresholds`).
    abnormalities : float, default 5
        Rounds that a machine may be used too much (`consecutiveAbnormalities`), >= 1; 1: none.

    Examples
    --------
    >>> LowNodeLoad(high=0.6)
    <LowNodeLoad name='low-node-load', knows='declared requests'>
    """

    name, knowledge = "low-node-load", REQUESTS.and_also("load of machines now")
    options: ClassVar = {
        "low": (0.1, 0.2, 0.3, 0.45, 0.6),
        "high": (0.1, 0.2, 0.45, 0.6, 0.75, 0.9),
        "low_memory": (0.1, 0.2, 0.3, 0.55, 0.7),
        "high_memory": (0.1, 0.2, 0.5, 0.65, 0.8, 0.9),
        "deviation": (0, 1),
        "abnormalities": (1, 2, 5),
    }

    def __init__(
        self,
        low: float = LOW[0],
        high: float = HIGH[0],
        low_memory: float = LOW[1],
        high_memory: float = HIGH[1],
        deviation: float = 0,
        abnormalities: float = 5,
    ) -> None:
        within(0, 1, low=low, high=high, low_memory=low_memory, high_memory=high_memory)
        one_of((0, 1), deviation=deviation)
        at_least(1, abnormalities=abnormalities)
        whole(abnormalities=abnormalities)
        for name, least, most in (("low", low, high), ("low_memory", low_memory, high_memory)):
            if least > most:
                high_name = name.replace("low", "high")
                raise InputError(
                    f"{name} is {least:g}: must be at most {high_name}, which is {most:g}, as in the plugin"
                )
        self.low, self.high = (low, low_memory), (high, high_memory)
        self.deviation, self.abnormalities = deviation, int(abnormalities)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget which machines were used too much."""
        self._anomalies = Anomalies(len(cluster.machines), self.abnormalities)

    def thresholds(self, share: Float) -> tuple[Float, Float]:
        """The two thresholds (D,) for the shares (M, D) of machines that are not switched off."""
        low, high = by_kind(self.low, share.shape[1]), by_kind(self.high, share.shape[1])
        if not self.deviation:
            return low, high
        mean = share.mean(axis=0)
        lower, upper = np.clip(mean - low, 0.0, 1.0), np.clip(mean + high, 0.0, 1.0)
        return np.where(low > 0, lower, 1.0), np.where(low > 0, upper, 1.0)  # 0: the resource has no threshold

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        running, load, size = cluster.running, cluster.load_after_moves, cluster.capacity
        on = size[:, 0] > 0
        lower, upper = self.thresholds((load / cluster.divisor)[on])
        limit = upper * size
        little = on & np.all(load <= lower * size, axis=1)
        much = on & ~little & np.any(load > limit, axis=1)
        abnormal = self._anomalies.among(much, cluster.slot)
        if not abnormal.any() or not (on & ~much).any():
            return
        self._anomalies.end(little)
        room = (limit - load)[little].sum(axis=0)
        targets = np.flatnonzero(little)
        used, requested, own = load.copy(), cluster.reserved_requests, cluster.requests_of(running)
        order = np.argsort(-node_score(load, size), kind="stable")
        for m in order[abnormal[order]].tolist():
            may_leave = []
            for i in np.flatnonzero((running.machine == m) & running.movable).tolist():
                fits = np.all(requested[targets] + own[i] <= size[targets], axis=1)
                fits &= np.all(used[targets] + running.usage[i] <= limit[targets], axis=1)
                if fits.any():
                    used[targets[fits.argmax()]] += running.usage[i]  # also where it does not leave in the end
                    may_leave.append(i)
            scores = pod_score(running.usage[may_leave], load[m] - limit[m])
            newest_first = np.lexsort((-np.array(may_leave), -scores))
            for i in np.array(may_leave)[newest_first].tolist():
                if not cluster.moves_left:
                    return
                if np.all(load[m] <= limit[m]):
                    self._anomalies.end(m)
                    break
                if np.any(room <= 0):
                    break
                target = self.target(cluster, running, i)
                if target is None:
                    continue
                yield Move(int(running.workload[i]), target)
                load[m] -= running.usage[i]
                room -= running.usage[i]
