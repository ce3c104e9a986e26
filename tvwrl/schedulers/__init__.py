"""Online schedulers behind one interface, and the registry of their names."""

from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.registry import KNOWLEDGE, NAMES, make_scheduler

__all__ = ["KNOWLEDGE", "NAMES", "Scheduler", "make_scheduler"]
