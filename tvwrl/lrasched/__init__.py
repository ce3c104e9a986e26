"""Learnt container size and collocation degree of long-running applications (LRASched)."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "PREDICTORS",
    "Advice",
    "Asked",
    "Configuration",
    "Goal",
    "Outlook",
    "PerformanceModel",
    "Prices",
    "Profiles",
    "Recommendation",
    "Recommender",
    "Sizing",
    "Target",
    "advise",
    "read_configurations",
    "read_profiles",
    "recommend_size",
]
