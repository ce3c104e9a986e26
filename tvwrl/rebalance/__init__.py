"""Rebalancing a Kubernetes cluster: which running pods to move where, in which order, and what that is worth."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "Budget",
    "ClusterState",
    "MovePlan",
    "Objects",
    "PodMove",
    "Term",
    "faults",
    "read_objects",
    "read_state",
    "state_of",
]
