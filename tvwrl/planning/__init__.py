"""Plans for all replicas of many applications at once: as few machines as possible, or as many replicas as fit."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "PLANNERS",
    "Abilities",
    "Affinity",
    "Bundles",
    "Fleet",
    "FlowNetwork",
    "FlowSettings",
    "Instance",
    "Plan",
    "Planned",
    "PlanningProblem",
    "abilities",
    "arrival_order",
    "hand_over",
    "lower_bound",
    "make_plan",
    "open_instance",
    "open_problem",
    "read_folder",
    "read_plans",
    "search",
    "validate",
    "write_plans",
]
