"""A generated Kubernetes cluster: eight days of deployments, batch jobs and restarts, placed as Kubernetes does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.checks import at_least
from tvwrl.rebalance.cluster_state import ANTI_AFFINITY, SPREAD, Budget, ClusterState, Term
from tvwrl.rebalance.from_record import until
from tvwrl.types import Float, Int
from tvwrl.what_if import Recorded, Trust

INTERVAL, DAY = 300, 86400  # seconds
STEPS, DAYS = DAY // INTERVAL, 8  # a week of the past, and a day that has not come yet
SIZE = np.array([16.0, 64.0])  # cores and GiB of a node
PODS_A_NODE = 11.0
ASKED = (1.0, 4.0)  # requests, in mean uses
ZONES = 3
ORIGIN = 1767571200  # Monday 2026-01-05, 00:00 UTC


class Generated(NamedTuple):
    """A cluster after seven days, and what happens on the eighth if nothing is moved.

    Parameters
    ----------
    past : Recorded
        Seven days.
    whole : Recorded
        Eight days, of which the first seven are the same.
    state : ClusterState
        After seven days.

    Examples
    --------
    >>> generated_cluster(12).past.slots // 288
    7
    """

    past: Recorded
    whole: Recorded
    state: ClusterState


class _Pod(NamedTuple):
    name: str
    owner: str
    deployment: int  # -1: none
    start: int
    end: int
    request: Float  # cores, GiB
    bound: int  # node of a DaemonSet's pod, -1: any


def generated_cluster(nodes: int, seed: int = 0, asked: tuple[float, float] = ASKED) -> Generated:
    """Generate a cluster of equal nodes of 16 cores and 64 GiB in three zones.

    Deployments have daily and weekly courses, replicas that come in the morning and go in the evening, and rollouts,
    which replace their pods. Batch jobs run for half an hour to four hours, most of them at night. Each node runs two
    pods of DaemonSets. Each pod goes to the node with the lowest requests that
    has room (`LeastAllocated`). Half of the deployments have a PodDisruptionBudget of one pod, a few one that allows
    none; some declare anti-affinity by node or spread by zone; some pods must not be moved.

    Parameters
    ----------
    nodes : int
        M, 3 or more.
    seed : int
        Draws everything.
    asked : tuple of float
        Requests of deployments are drawn between these multiples of their mean use, > 0. Below 1, nodes may be
        overloaded.

    Returns
    -------
    Generated
        Seven days, all eight, and the state of the cluster after seven.

    Examples
    --------
    >>> len(generated_cluster(12).state.node)
    12
    """
    at_least(ZONES, nodes=nodes)
    rng = np.random.default_rng([seed, nodes])
    courses, pods = _deployments(rng, nodes, asked)
    pods += _batch(rng, nodes)
    at = _placed(pods, nodes, rng)
    pods = [pod for pod, node in zip(pods, at.tolist(), strict=True) if node >= 0]  # the others found no room
    at = at[at >= 0]
    whole = _record(pods, at, courses, nodes, rng)
    return Generated(until(whole, 7 * STEPS), whole, _state(pods, at, nodes, rng))


def _deployments(rng: np.random.Generator, nodes: int, asked: tuple[float, float]) -> tuple[Float, list[_Pod]]:
    """(deployments, slots, D) what a replica uses on average, and all pods that ever run."""
    slots, pods, courses = DAYS * STEPS, list[_Pod](), list[Float]()
    hour = np.arange(slots) * INTERVAL / 3600
    weekend = (hour // 24).astype(int) % 7 >= 5
    target, total = int(nodes * PODS_A_NODE * sum(ASKED) / sum(asked)), 0
    while total < target:
        number = len(courses)
        replicas = int(min(max(rng.lognormal(1.6, 0.9), 1), max(nodes // 2, 2)))
        phase, depth = rng.normal(14.0, 3.0), rng.uniform(0.1, 0.6)
        day = 1 + depth * np.cos(2 * np.pi * (hour - phase) / 24)
        day = day * np.where(weekend, rng.uniform(0.5, 1.0), 1.0)
        level = np.array([rng.lognormal(-1.4, 0.8), rng.lognormal(0.1, 0.8)]).clip(0.02, [4.0, 16.0])
        memory = 1 + 0.2 * (day - 1)
        courses.append(np.stack([level[0] * day, level[1] * memory], axis=1))
        request = (level * rng.uniform(*asked, 2)).clip(0.01, [8.0, 32.0])
        namespace, name = f"team-{number % 12}", f"app-{number}"
        owner = f"{namespace}/deployment/{name}"
        rollouts = np.sort(rng.integers(0, slots, rng.poisson(1.5)))
        for replica in range(replicas):
            begin = 0 if rng.random() < 0.9 else int(rng.integers(0, 7 * STEPS))
            for turn, end in enumerate([*rollouts[rollouts > begin], slots]):
                # A rollout replaces replicas one after another.
                last = min(int(end) + (replica if end < slots else 0), slots)
                pods.append(_Pod(f"{namespace}/{name}-{turn}-{replica}", owner, number, begin, last, request, -1))
                begin = last
        for extra in range(int(replicas * rng.uniform(0, 0.5))):  # an autoscaler's
            for of_day in range(DAYS):
                begin = of_day * STEPS + int(STEPS * rng.normal(0.33, 0.03))
                last = begin + int(STEPS * rng.uniform(0.3, 0.5))
                pod = f"{namespace}/{name}-d{of_day}-{extra}"
                pods.append(_Pod(pod, owner, number, begin, min(last, slots), request, -1))
        total += replicas
    for m in range(nodes):
        for name in ("logs", "network"):
            pods.append(
                _Pod(
                    f"kube-system/{name}-{m}",
                    f"kube-system/daemonset/{name}",
                    -1,
                    0,
                    slots,
                    np.array([0.1, 0.2]),
                    m,
                )
            )
    return np.array(courses), pods


def _batch(rng: np.random.Generator, nodes: int) -> list[_Pod]:
    """Pods of jobs over all days."""
    pods, slots = list[_Pod](), DAYS * STEPS
    for job in range(nodes * DAYS * 2):
        hour = rng.normal(26.0, 4.0) % 24 if rng.random() < 0.7 else rng.uniform(0, 24)
        begin = int((job % DAYS + hour / 24) * STEPS)
        length = int(rng.uniform(0.5, 4.0) * 3600 / INTERVAL)
        owner = f"batch/cronjob/job-{job // DAYS % max(nodes // 4, 1)}"
        request = np.array([rng.uniform(0.5, 2.0), rng.uniform(1.0, 6.0)])
        pods.append(_Pod(f"batch/job-{job}", owner, -1, begin, min(begin + length, slots), request, -1))
    return pods


def _placed(pods: list[_Pod], nodes: int, rng: np.random.Generator) -> Int:
    """(N,) node of each pod, as `LeastAllocated` chooses; -1: none had room when it came."""
    free, at = np.tile(SIZE, (nodes, 1)), np.full(len(pods), -1)
    events = sorted([(pod.end, 0, i) for i, pod in enumerate(pods)] + [(pod.start, 1, i) for i, pod in enumerate(pods)])
    chance = rng.random(nodes) * 1e-6
    for _, begins, i in events:
        pod = pods[i]
        if not begins:
            if at[i] >= 0 and pod.end > pod.start:
                free[at[i]] += pod.request
            continue
        if pod.end <= pod.start:
            continue
        if pod.bound >= 0:
            at[i] = pod.bound
        else:
            room = (free >= pod.request).all(axis=1)
            if not room.any():
                continue
            score = ((free - pod.request) / SIZE).mean(axis=1) + chance
            at[i] = int(np.where(room, score, -1.0).argmax())
        free[at[i]] -= pod.request
    return at


def _record(pods: list[_Pod], at: Int, courses: Float, nodes: int, rng: np.random.Generator) -> Recorded:
    usage = []
    for pod in pods:
        length = pod.end - pod.start
        noise = rng.gamma(30.0, 1 / 30.0, (length, 2))
        noise[:, 1] = 1 + 0.1 * (noise[:, 1] - 1)
        if pod.deployment >= 0:
            used = courses[pod.deployment, pod.start : pod.end] * rng.lognormal(0.0, 0.15)
        else:
            used = np.tile(pod.request * rng.uniform(0.3, 0.9), (length, 1))
        usage.append(used * noise / SIZE)
    name = np.array([f"node-{m}" for m in range(nodes)], object)
    return Recorded(
        f"a generated cluster of {nodes} nodes",
        ORIGIN,
        INTERVAL,
        DAYS * STEPS,
        SIZE,
        np.array([pod.name for pod in pods], object),
        np.array([pod.owner for pod in pods], object),
        at.astype(np.int64),
        np.array([pod.start for pod in pods], np.int64),
        tuple(usage),
        np.array([pod.request for pod in pods]) / SIZE,
        np.array([pod.bound >= 0 for pod in pods]),
        name,
        np.ones((nodes, 2)),
        np.full(nodes, "generated.4xlarge", object),
        np.full(nodes, 0.8),
        ((),) * nodes,
        Trust(
            sum(pod.bound < 0 for pod in pods), sum(pod.bound >= 0 for pod in pods), *(0,) * 7, 0, 0.0, 0, 0.0, 0, 0, 0
        ),
    )


def _state(pods: list[_Pod], at: Int, nodes: int, rng: np.random.Generator) -> ClusterState:
    now = 7 * STEPS
    rows = [i for i, pod in enumerate(pods) if pod.start < now < pod.end]
    mine, here = [pods[i] for i in rows], at[rows].astype(np.int64)
    bound = np.array([pod.bound >= 0 for pod in mine])
    stays = np.full(len(mine), "", object)
    stays[rng.random(len(mine)) < 0.03] = "local storage"
    stays[[pod.owner.startswith("batch/") for pod in mine]] = "a job, which would begin anew"
    stays[bound] = "belongs to its node"
    budgets, terms = list[Budget](), list[Term]()
    zone, host = np.arange(nodes) % ZONES, np.arange(nodes)
    by_owner: dict[str, list[int]] = {}
    for i, pod in enumerate(mine):
        if pod.deployment >= 0:
            by_owner.setdefault(pod.owner, []).append(i)
    for owner, members in by_owner.items():
        which, draw = np.array(members, np.int64), rng.random(3)
        if draw[0] < 0.5:
            budgets.append(Budget(owner.replace("/deployment", ""), which, 0 if draw[0] < 0.03 else 1))
        if draw[1] < 0.1 and len(np.unique(here[which])) == len(which):
            terms.append(Term(ANTI_AFFINITY, which, which, host))
        elif draw[1] < 0.3:
            terms.append(Term(SPREAD, which, which, zone, 1))
    return ClusterState(
        source=f"a generated cluster of {nodes} nodes",
        time=float(ORIGIN + now * INTERVAL),
        node=np.array([f"node-{m}" for m in range(nodes)], object),
        size=np.tile(SIZE, (nodes, 1)),
        most_pods=np.full(nodes, 110),
        open=np.ones(nodes, np.bool_),
        kind=np.full(nodes, "generated.4xlarge", object),
        price=np.full(nodes, 0.8),
        pod=np.array([pod.name for pod in mine], object),
        uid=np.array([f"uid-{i}" for i in rows], object),
        owner=np.array([pod.owner for pod in mine], object),
        at=here,
        request=np.array([pod.request for pod in mine]),
        priority=np.zeros(len(mine), np.int64),
        bound=bound,
        stays=stays,
        group=np.zeros(len(mine), np.int64),
        allowed=np.ones((1, nodes), np.bool_),
        terms=tuple(terms),
        budgets=tuple(budgets),
    )
