"""Online schedulers behind one interface, and the registry of their names."""

from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.knowledge import GROUPS, Knowledge
from tvwrl.schedulers.registry import BASELINES, KNOWLEDGE, PRODUCTION, ROLLOUTS, SCHEDULERS, SEARCHING, make_scheduler

__all__ = [
    "BASELINES",
    "GROUPS",
    "KNOWLEDGE",
    "PRODUCTION",
    "ROLLOUTS",
    "SCHEDULERS",
    "SEARCHING",
    "Knowledge",
    "Scheduler",
    "make_scheduler",
]
