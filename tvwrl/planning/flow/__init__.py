"""Placement by flow on machines of many kinds (Aladdin+H), its baselines, bounds and referee."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
