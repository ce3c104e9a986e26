"""Plans for all replicas of many applications at once: as few machines as possible, or as many replicas as fit."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
