"""The state of a cluster at the end of a record, where Kubernetes' own objects are not at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.types import InputError, Int, Strings
from tvwrl.what_if import Recorded

MOST_PODS = 110  # as the kubelet allows unless it is told otherwise
LONGEST_APART = 2 * 3600.0  # seconds between usage and objects
FEW_DAYS = 6.9
LATEST = 2  # slots: a pod seen in one of the last ones still runs
ASSUMED = (
    "Node selectors, affinity, taints, topology spread, PodDisruptionBudgets, volumes and annotations are not in the "
    "metrics: taken as none, as --assume-movable says."
)

LEFT_OUT = "Pods that are left out of the record are not in this plan: a node that looks empty may run some of them."
GONE = "Nodes on which no pod ran at the end of the record may be gone: nothing is moved there."


def state_of_record(recorded: Recorded) -> ClusterState:
    """Tell what runs where at the end of a record, as far as metrics say.

    Pods with an owner may be moved, and go to every node: what Kubernetes would refuse is not in metrics.

    Parameters
    ----------
    recorded : Recorded
        The past.

    Returns
    -------
    ClusterState
        The pods of the last slots.

    Examples
    --------
    >>> state_of_record(recorded).unknown  # doctest: +SKIP
    """
    last = np.flatnonzero(recorded.start + recorded.length >= recorded.slots - LATEST + 1)
    names = [plain_name(str(name)) for name in recorded.pod[last]]
    latest = dict(zip(names, last.tolist(), strict=True))  # a pod that changed nodes runs once
    rows = np.array([latest[name] for name in sorted(latest)], np.int64)
    state = state_of_rows(recorded, rows, recorded.node[rows], recorded.slots)
    seen = np.bincount(recorded.node[rows], minlength=len(state.node)) > 0
    pods = np.array([plain_name(str(name)) for name in state.pod], object)
    known = recorded.trust
    left_out = known.unknown_node + known.unsized_node + known.half_recorded > 0
    unknown = (ASSUMED, *[GONE] * (not seen.all()), *[LEFT_OUT] * left_out)
    return replace(state, pod=pods, open=seen, unknown=unknown)


def state_of_rows(recorded: Recorded, rows: Int, at: Int, slot: int) -> ClusterState:
    """Say that certain pods of a record run on certain nodes.

    Parameters
    ----------
    recorded : Recorded
        The record.
    rows : Int
        (n,) pods of it, with the names that they have there.
    at : Int
        (n,) nodes.
    slot : int
        When.

    Returns
    -------
    ClusterState
        These pods; those with an owner that is no job may be moved.

    Examples
    --------
    >>> state_of_rows(recorded, rows, recorded.node[rows], recorded.slots)  # doctest: +SKIP
    """
    owner = recorded.owner[rows]
    stays = [
        "belongs to its node" if bound else _stays(str(name))
        for bound, name in zip(recorded.bound[rows], owner, strict=True)
    ]
    nodes = len(recorded.size)
    return ClusterState(
        source=recorded.source,
        time=float(recorded.at(slot)),
        node=recorded.node_name,
        size=recorded.size * recorded.reference,
        most_pods=np.full(nodes, MOST_PODS),
        open=np.ones(nodes, np.bool_),
        kind=recorded.kind,
        price=recorded.price,
        pod=recorded.pod[rows],
        uid=np.full(len(rows), "", object),
        owner=owner,
        at=at,
        request=np.nan_to_num(recorded.request[rows]) * recorded.reference,
        priority=np.zeros(len(rows), np.int64),
        bound=recorded.bound[rows],
        stays=np.array(stays, object),
        group=np.zeros(len(rows), np.int64),
        allowed=np.ones((1, nodes), np.bool_),
    )


def until(recorded: Recorded, slots: int) -> Recorded:
    """Cut a record.

    Parameters
    ----------
    recorded : Recorded
        The record.
    slots : int
        How many of its slots are left, >= 1.

    Returns
    -------
    Recorded
        What was known then.

    Examples
    --------
    >>> until(recorded, 288).slots  # doctest: +SKIP
    288
    """
    kept = np.flatnonzero(recorded.start < slots)
    return replace(
        recorded,
        slots=slots,
        pod=recorded.pod[kept],
        owner=recorded.owner[kept],
        node=recorded.node[kept],
        start=recorded.start[kept],
        usage=tuple(recorded.usage[i][: slots - recorded.start[i]] for i in kept.tolist()),
        request=recorded.request[kept],
        bound=recorded.bound[kept],
    )


def in_slots(recorded: Recorded, ratio: int) -> Recorded:
    """Make slots longer.

    Parameters
    ----------
    recorded : Recorded
        The record.
    ratio : int
        Slots of the record in one of the result, >= 1.

    Returns
    -------
    Recorded
        The same record, with the largest usage of each pod in each slot; a last slot that is not whole is left out.

    Examples
    --------
    >>> in_slots(recorded, 6).interval  # doctest: +SKIP
    1800
    """
    slots = recorded.slots // ratio
    usage = []
    for start, used in zip(recorded.start.tolist(), recorded.usage, strict=True):
        cuts = np.append(0, np.arange(ratio - start % ratio, len(used), ratio))
        usage.append(np.maximum.reduceat(used, cuts, axis=0)[: slots - start // ratio])
    kept = np.array([len(used) > 0 for used in usage])
    return replace(
        recorded,
        interval=recorded.interval * ratio,
        slots=slots,
        pod=recorded.pod[kept],
        owner=recorded.owner[kept],
        node=recorded.node[kept],
        start=recorded.start[kept] // ratio,
        usage=tuple(used for used in usage if len(used)),
        request=recorded.request[kept],
        bound=recorded.bound[kept],
    )


def _stays(owner: str) -> str:
    """Why a pod of this owner must not be moved; see `owner_of` for owners that were read of a server."""
    kind = owner.casefold().split("/")[1] if owner.count("/") >= 2 else ""
    if not owner or kind == "pod":
        return "no owner that would replace it"
    return "a job, which would begin anew" if kind in ("job", "cronjob") else ""


def plain_name(pod: str) -> str:
    """The name of a pod of a record without its turn: `a` of `a#2`; names that end otherwise stay as they are."""
    name, mark, turn = pod.rpartition("#")
    return name if mark and turn.isdecimal() and int(turn) > 1 else pod


def with_record(state: ClusterState, recorded: Recorded) -> ClusterState:
    """Add what only the record knows: prices, and which pods it has no usage of.

    Pods without usage are not moved, as nobody knows what they need; nodes of which the record knows nothing take no
    pods.

    Parameters
    ----------
    state : ClusterState
        Read from Kubernetes' objects.
    recorded : Recorded
        The past of the same cluster.

    Returns
    -------
    ClusterState
        The same cluster.

    Examples
    --------
    >>> with_record(state, recorded).unknown  # doctest: +SKIP
    """
    known = dict(zip(recorded.node_name, range(len(recorded.node_name)), strict=True))
    row = np.array([known.get(name, -1) for name in state.node], np.int64)
    seen = {plain_name(str(name)) for name in recorded.pod}
    without = np.array([name not in seen for name in state.pod], np.bool_) & ~state.bound
    price = np.where(row >= 0, np.append(recorded.price, np.nan)[row], np.nan)
    unknown = list(state.unknown)
    apart = state.time - recorded.at(recorded.slots)
    if abs(apart) > LONGEST_APART:
        unknown.append(
            f"The usage ends {abs(apart) / 3600:.0f} hours {'before' if apart > 0 else 'after'} the objects were seen: "
            "what changed between them is not known."
        )
    days = recorded.slots * recorded.interval / 86400
    if days < FEW_DAYS:
        unknown.append(f"The usage is of {days:.1f} days: forecasts and intervals rest on so few.")
    if (count := int((without & (state.stays == "")).sum())) > 0:
        unknown.append(f"No usage is recorded of {count} pods, such as {_first(state.pod, without)}: not moved.")
    if (row < 0).any():
        unknown.append(
            f"{int((row < 0).sum())} nodes, such as {_first(state.node, row < 0)}, are not in the metrics: nothing is "
            "moved there."
        )
    return replace(
        state,
        price=np.where(np.isnan(state.price), price, state.price),
        stays=np.where(without & (state.stays == ""), "no usage is recorded", state.stays),
        open=state.open & (row >= 0),
        unknown=tuple(unknown),
    )


def as_now(recorded: Recorded, state: ClusterState) -> Recorded:
    """Give a record the owners and the sizes of nodes that Kubernetes' objects have.

    An owner is what the objects say of its pods; the record has the largest size of a node that changed its size.

    Parameters
    ----------
    recorded : Recorded
        The past.
    state : ClusterState
        Of the same cluster.

    Returns
    -------
    Recorded
        The same past, where pods that no longer run have the owner of those of their owner that do, and nodes that are
        still there have the size that they have now.

    Raises
    ------
    InputError
        No pod of the record is in the state: they are of different clusters, or spelled differently.

    Examples
    --------
    >>> as_now(recorded, state).owner  # doctest: +SKIP
    """
    called = dict(zip(state.pod, state.owner, strict=True))
    new = np.array([called.get(plain_name(str(name))) for name in recorded.pod], object)
    if len(state) and all(name is None for name in new):
        raise InputError(
            f"{recorded.source}: no pod of {state.source} is in it: names must be namespace/name in both; in the usage "
            f"there is {recorded.pod[0]}, in the objects {state.pod[0]}"
        )
    meant = {old: name for old, name in zip(recorded.owner, new, strict=True) if old and name}
    owner = [meant.get(old, old) if name is None else name for old, name in zip(recorded.owner, new, strict=True)]
    size, now = recorded.size.copy(), dict(zip(state.node, state.size / recorded.reference, strict=True))
    for m, name in enumerate(recorded.node_name):
        if name in now and now[name].all():  # 0 where its kubelet has not said what it has
            size[m] = np.minimum(now[name], 1.0)
    return replace(recorded, owner=np.array(owner, object), size=size)


def _first(names: Strings | Sequence[str], which: np.ndarray) -> str:
    return str(np.asarray(names, object)[which][0])
