"""Equivalence classes: which workloads behave alike, and what class a workload seems to be at run time."""

from tvwrl.ec.classes import CLASSES_FILE, Classes, EquivalenceClasses, OwnLabels, classes_from, find_classes
from tvwrl.ec.population import Population, population_of
from tvwrl.ec.representations import REPRESENTATIONS

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
