"""Gymnasium environments: thin shells round the simulation."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["PlacementEnv", "PlacementVectorEnv", "Problem"]
