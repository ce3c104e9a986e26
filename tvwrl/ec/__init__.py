"""Equivalence classes: which workloads behave alike, and what class a workload seems to be at run time."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "CLASSES_FILE",
    "REPRESENTATIONS",
    "Classes",
    "EquivalenceClasses",
    "OwnLabels",
    "Population",
    "classes_from",
    "find_classes",
    "population_of",
]
