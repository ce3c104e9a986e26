"""Equivalence classes: which workloads behave alike, and what class a workload seems to be at run time."""

from tvwrl.ec.level_variability import LevelVariabilityClasses

__all__ = ["LevelVariabilityClasses"]
