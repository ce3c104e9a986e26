"""Equivalence classes: which workloads behave alike, and what class a workload seems to be at run time."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
