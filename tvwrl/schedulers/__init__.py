"""Online schedulers behind one interface, and the registry of their names."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "BASELINES",
    "CURRENT_LOAD",
    "FORECASTS",
    "FORECASTS_AND_PEAKS",
    "FUTURE",
    "GROUPS",
    "HISTORY_AND_REQUESTS",
    "KNOWLEDGE",
    "MOVE_RULES",
    "PEAKS",
    "PEAKS_AND_LENGTHS",
    "PRODUCTION",
    "RECONSTRUCTED",
    "REQUESTS",
    "ROLLOUTS",
    "SCHEDULERS",
    "SEARCHING",
    "Backfill",
    "ByMachineValue",
    "Greedy",
    "HeadOfQueue",
    "Knowledge",
    "MachineValue",
    "MoveRule",
    "Moving",
    "Runner",
    "Scheduler",
    "list_schedulers",
    "make_scheduler",
]
