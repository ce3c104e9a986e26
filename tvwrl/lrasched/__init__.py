"""Learnt container size and collocation degree of long-running applications (LRASched)."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "PREDICTORS",
    "Configuration",
    "Goal",
    "Profiles",
    "Recommendation",
    "Recommender",
    "Sizing",
    "read_configurations",
    "read_profiles",
    "recommend_size",
]
