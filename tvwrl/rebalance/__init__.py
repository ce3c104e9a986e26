"""Rebalancing a Kubernetes cluster: which running pods to move where, in which order, and what that is worth."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "BatchLimits",
    "Beside",
    "Budget",
    "ClusterState",
    "Forecast",
    "Found",
    "Generated",
    "Goal",
    "MovePlan",
    "Objects",
    "PodMove",
    "Term",
    "batches_of",
    "expected_worth",
    "faults",
    "find_moves",
    "foresee",
    "generated_cluster",
    "make_plan",
    "most_emptied",
    "movable_now",
    "read_objects",
    "read_state",
    "state_of",
    "state_of_record",
    "with_record",
]
