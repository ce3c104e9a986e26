"""Which pods of a Kubernetes cluster are replicas of one another."""

from __future__ import annotations

import re

REPLICA_SET_HASH = re.compile("-[bcdfghjklmnpqrstvwxz2456789]{6,10}$")  # suffix that a Deployment appends to a name


def owner_of(namespace: str, pod: str, kind: str, owner: str) -> str:
    """What replicas have in common: the controller of a pod, or the pod itself where it has none.

    A ReplicaSet counts as the Deployment that made it; pods that a node runs for itself have no controller.

    >>> owner_of("shop", "cart-5d9c7b6f4-x2x9q", "ReplicaSet", "cart-5d9c7b6f4")
    'shop/deployment/cart'
    """
    if kind in ("", "<none>", "Node"):
        return f"{namespace}/pod/{pod}"
    if kind == "ReplicaSet" and REPLICA_SET_HASH.search(owner):
        return f"{namespace}/deployment/{REPLICA_SET_HASH.sub('', owner)}"
    return f"{namespace}/{kind.lower()}/{owner}"
