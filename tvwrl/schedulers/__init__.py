"""Online schedulers behind one interface, and the registry of their names."""

from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.registry import GROUPS, KNOWLEDGE, NAMES, Knowledge, make_scheduler

__all__ = ["GROUPS", "KNOWLEDGE", "NAMES", "Knowledge", "Scheduler", "make_scheduler"]
